"""What a command writes in the end: tables, JSON and files, which are checked before the work."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from clients import InputError

#: Tables fit into this many columns. A narrower terminal wraps their lines; in narrower tables
#: cells would be cut off, and a number that is cut off is another one.
TABLE_CHARS = 80


def terminal(*, stderr: bool = False) -> Console:
    """Return where to print: a label called `a:100:b` stays what it is called."""
    return Console(stderr=stderr, highlight=False, emoji=False)


def print_table(table: Table, *, chars: int = TABLE_CHARS) -> None:
    """Print a table, as wide as it has to be; `chars` at least."""
    console = terminal()
    console.width = max(chars, console.width)
    console.print(table)


def print_json(value: msgspec.Struct) -> None:
    """Print a value as JSON, which is UTF-8 whatever the terminal takes."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    print(msgspec.json.encode(value).decode())


def file_of(path: Path | str) -> str:
    """Return the one name of a file that several paths may lead to."""
    # Path.resolve fails where links go round in a circle.
    return os.path.realpath(path)


def check_outputs(**files: Path | None) -> None:
    """Raise InputError, by the name of its option, for a file that could not be written."""
    seen: dict[str, str] = {}
    for option, path in files.items():
        if path is None:
            continue
        other = seen.setdefault(file_of(path), option)
        if other != option:
            raise InputError(f"--{option}: expected another file than --{other}, got '{path}'")
        if path.is_dir():
            raise InputError(f"--{option}: expected a file, got the folder '{path}'")
        if not path.parent.is_dir():
            raise InputError(f"--{option}: expected a file in a folder that is there, got '{path}'")
        _check_writable(option, path)


def _check_writable(option: str, path: Path) -> None:
    """Open the file as if to add to it; one that was not there is removed again."""
    there = path.exists()
    if there and not path.is_file():
        # A pipe, say: whoever reads it would take this for its end.
        return
    with writing(option, path), path.open("ab"):
        pass
    if not there:
        path.resolve().unlink()


@contextmanager
def writing(option: str, path: Path) -> Iterator[None]:
    """Raise InputError, by the name of its option, where the file cannot be written."""
    try:
        yield
    except OSError as error:
        what = f"a file that can be written, got '{path}': {error.strerror}"
        raise InputError(f"--{option}: expected {what}") from None
