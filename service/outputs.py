"""Files that a command writes in the end: what would refuse them is said before the work."""

from __future__ import annotations

from pathlib import Path

from clients import InputError


def check_outputs(**files: Path | None) -> None:
    """Raise InputError, by the name of its option, for a file that could not be written."""
    for option, path in files.items():
        if path is None:
            continue
        if path.is_dir():
            raise InputError(f"--{option}: expected a file, got the folder '{path}'")
        if not path.parent.is_dir():
            raise InputError(f"--{option}: expected a file in a folder that is there, got '{path}'")
        _check_writable(option, path)


def _check_writable(option: str, path: Path) -> None:
    """Open the file as if to add to it; of one that was not there nothing is left."""
    there = path.exists()
    if there and not path.is_file():
        # A pipe, say: whoever reads it would take this for its end.
        return
    try:
        with path.open("ab"):
            pass
    except OSError as error:
        what = f"a file that can be written, got '{path}': {error.strerror}"
        raise InputError(f"--{option}: expected {what}") from None
    if not there:
        path.unlink()
