"""What docs/learners.md says, made of the learners' docstrings.

`python -m tests.learner_docs` writes it; a test holds the file to it.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path

from learners import LEARNERS
from learners.base import Learner

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs" / "learners.md"
#: As wide as lines of the other documents.
WIDTH = 118
_TOP = """# Learners and their options

A learner in a model's spec is its kind, and beside it the options that are not left as they are:
`{"kind": "rknn", "window": 5000, "metric": "cosine"}`. When to use which, formulas and papers stand
in the docstrings of the files, to which what is "there" refers.
"""


def text() -> str:
    """Return the whole file."""
    return "\n".join([_TOP, *map(_section, LEARNERS.values())])


def _section(kind: type[Learner]) -> str:
    said = inspect.getdoc(kind) or ""
    path = Path(inspect.getfile(kind)).relative_to(ROOT).as_posix()
    lines = [f"## `{kind.kind}`", "", f"{said.splitlines()[0]} ([{path}](../{path}))", ""]
    given = _parameters(said)
    options = [name for name in given if set(name.split(", ")) <= set(kind.option_names())]
    lines += [_item(name, given[name]) for name in options] or ["It has no options."]
    return "\n".join([*lines, ""])


def _parameters(said: str) -> dict[str, str]:
    """Return what a numpydoc docstring says of each parameter, in one line."""
    found = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\w+\n-+\n|\Z)", said, re.DOTALL | re.MULTILINE)
    parts = re.split(r"^(\w[\w, ]*)\n", found[1] if found else "", flags=re.MULTILINE)
    return {
        name: " ".join(what.split()).replace("``", "`").replace(" above", " there")
        for name, what in zip(parts[1::2], parts[2::2], strict=True)
    }


def _item(names: str, what: str) -> str:
    quoted = ", ".join(f"`{name}`" for name in names.split(", "))
    said = f"- {quoted}: {what}".replace("*", r"\*")
    return textwrap.fill(
        said, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


if __name__ == "__main__":
    FILE.write_text(text())
