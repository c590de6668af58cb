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
        description="Make an API key. Its line for keys_file goes to standard output; the key "
        "itself is shown once, on standard error.",
        epilog="example: misclick key ops --scopes admin >> keys.json",
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
    """Print a fresh key's line for the keys file and, apart from it, the key."""
    try:
        key, line = new_key(args.name, args.tenant, args.scopes.split(","))
    except ValidationError as error:
        for detail in of_pydantic(error.errors(include_url=False)).details:
            print(f"misclick key: {detail}", file=sys.stderr)
        return 2
    # Standard output may go into the file: the key must not.
    try:
        print(line, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        # A full disk, say. A key whose line is nowhere would be refused.
        print(f"misclick key: no key was made: {error.strerror}", file=sys.stderr)
        return 2
    print(f"the key, shown only now: {key}", file=sys.stderr)
    return 0
