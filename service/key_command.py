"""`misclick key`: make an API key."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from pydantic import ValidationError

from service.auth import DEFAULT_TENANT, Scope, new_key
from service.complaints import of_pydantic


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    key = commands.add_parser(
        "key",
        help="make an API key",
        description="Make an API key: it is printed once; the JSON line goes into keys_file.",
    )
    key.add_argument("name", help="what the key is for")
    key.add_argument(
        "--tenant", default=DEFAULT_TENANT, help="whose models it reaches (default: %(default)s)"
    )
    key.add_argument(
        "--scopes",
        default="predict,feedback",
        help=f"some of {','.join(Scope)}, separated by commas; admin includes the rest "
        "(default: %(default)s)",
    )
    key.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print a fresh key and its line for the keys file."""
    try:
        key, line = new_key(args.name, args.tenant, args.scopes.split(","))
    except ValidationError as error:
        for detail in of_pydantic(error.errors(include_url=False)).details:
            print(f"misclick key: {detail}", file=sys.stderr)
        return 2
    print(f"key:  {key}\nline: {line}")
    return 0
