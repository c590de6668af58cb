"""`misclick key`: make an API key."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from service.auth import DEFAULT_TENANT, Scope, new_key


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    key = commands.add_parser(
        "key",
        help="make an API key",
        description="Make an API key: it is printed once; the JSON line goes into keys_file.",
    )
    key.add_argument("name", help="what the key is for")
    key.add_argument("--tenant", default=DEFAULT_TENANT, help="whose models it reaches")
    key.add_argument(
        "--scopes",
        default="predict,feedback",
        help=f"some of {','.join(Scope)}, separated by commas; admin includes the rest",
    )
    key.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print a fresh key and its line for the keys file."""
    try:
        scopes = [Scope(scope) for scope in args.scopes.split(",")]
        key, line = new_key(args.name, args.tenant, scopes)
    except ValueError as error:
        print(f"misclick: {error}", file=sys.stderr)
        return 2
    print(f"key:  {key}\nline: {line}")
    return 0
