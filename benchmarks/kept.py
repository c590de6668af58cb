"""Finished parts of long benchmarks, in a file: a run can be broken off and resumed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import learners

Cell = dict[str, Any]


class Kept:
    """The cells of one JSON file, by their keys; each that is added is written at once.

    A key has to hold all that a cell depends on except the data and the code. Each cell has a mark
    of the code: those of other code are used, and counted.

    Parameters
    ----------
    path
        The file; its folder is made where there is none.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.cells: dict[str, Cell] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            self.cells = json.loads(path.read_text())
            say_what_is_old(path, (cell.get("code") for cell in self.cells.values()))

    def __contains__(self, key: str) -> bool:
        return key in self.cells

    def add(self, key: str, cell: Cell) -> None:
        """Keep a cell; a run broken off here leaves the old file or the new one."""
        self.cells[key] = {**cell, "code": code_mark()}
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps(self.cells))
        fresh.replace(self._path)


@cache
def code_mark() -> str:
    """Return a mark that changes whenever code of the learners does."""
    folder = Path(learners.__path__[0])
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def say_what_is_old(path: Path, marks: Iterable[str | None]) -> None:
    """Print how many results a file has, and how many of them are of other code."""
    marks = list(marks)
    old = sum(mark != code_mark() for mark in marks)
    print(f"{path}: {len(marks)} results, {old} of them of other code of the learners", flush=True)
