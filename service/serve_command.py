"""`misclick serve`: run the service, with every setting that is no secret as an option."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from typing import Any, get_args

from pydantic import ValidationError

from service.complaints import of_pydantic
from service.embedded import DataFolderInUse
from service.main import Refused, serve
from service.settings import ENV_PREFIX, SECRETS, Settings

#: Variables of other commands, which are no settings of the service.
OTHER_VARIABLES = frozenset({"MISCLICK_API_KEY"})


def add_parser(commands: Any) -> None:
    """Add the command's options, one a setting."""
    fields = Settings.model_fields
    hidden = " ".join(
        f"{ENV_PREFIX}{name.upper()}: {fields[name].description}" for name in sorted(SECRETS)
    )
    parser = commands.add_parser(
        "serve",
        help="run the service",
        description="Run the service until it is stopped.",
        epilog=f"Each option can be set in the environment, too: {ENV_PREFIX}PORT is --port. Only "
        f"there, where other users of the machine cannot read them, are set: {hidden}",
    )
    for name, field in fields.items():
        if name not in SECRETS:
            default = "none" if field.default is None else field.default
            parser.add_argument(
                f"--{name.replace('_', '-')}",
                default=None,
                metavar=_metavar(name, field.annotation),
                help=f"{field.description} Default: {default}.",
            )
    parser.set_defaults(run=run)


def _metavar(name: str, kind: Any) -> str:
    """Return how help names a value: by the choices, or by the setting's name."""
    choices = [each for each in get_args(kind) if isinstance(each, str)]
    return f"{{{','.join(choices)}}}" if choices else name.upper()


def run(args: argparse.Namespace) -> int:
    """Run the service; 2 where it may not start."""
    given = {
        name: value
        for name in Settings.model_fields
        if (value := getattr(args, name, None)) is not None
    }
    try:
        refuse_unknown(os.environ)
        serve(Settings(**given))
    except ValidationError as error:
        for detail in of_pydantic(error.errors(include_url=False)).details:
            # What a secret should have been is said; what came is not.
            hidden = detail.where in SECRETS
            print(
                f"misclick: {detail.where}: expected {detail.expected}"
                if hidden
                else f"misclick: {detail}",
                file=sys.stderr,
            )
        return 2
    except (Refused, DataFolderInUse) as error:
        print(f"misclick: {error}", file=sys.stderr)
        return 2
    return 0


def refuse_unknown(names: Iterable[str]) -> None:
    """Raise Refused for a variable that looks like a setting and is none: a typo."""
    known = {f"{ENV_PREFIX}{name.upper()}" for name in Settings.model_fields} | OTHER_VARIABLES
    for name in sorted(names):
        if name.upper().startswith(ENV_PREFIX) and name.upper() not in known:
            raise Refused(f"{name}: there is no such setting (see misclick serve --help)")
