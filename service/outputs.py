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
