"""The document of the learners' options."""

from __future__ import annotations

from learners import LEARNERS
from tests.learner_docs import FILE, text


def test_every_option_is_documented_as_its_docstring_has_it() -> None:
    """Whoever calls over HTTP sees no docstring: of options he knew the names, from refusals."""
    assert FILE.read_text() == text(), "run `python -m tests.learner_docs`"


def test_no_option_is_left_out() -> None:
    """One that has no place among the parameters of its docstring would be missed in silence."""
    for section in text().split("\n## ")[1:]:
        name = section.split("`")[1]
        for option in LEARNERS[name].option_names():
            assert f"`{option}`" in section, (name, option)
