"""A model's labels as its meta data lists them: what can be told without folding its log.

Every change of labels replaces the list, and is refused if the list has changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from service.fold import Fold


class Listed(msgspec.Struct, array_like=True, frozen=True):
    """A label; labels are listed by code."""

    name: str
    active: bool
    #: What it is like, as last described; None if it never was.
    features: list[float] | None = None


def labels_of(fold: Fold) -> str:
    """Return the list of a fold's labels, as text."""
    active, features = fold.learner.active.tolist(), fold.contest.label_features
    return labels_text(
        Listed(name, active[code], features.get(code)) for code, name in enumerate(fold.labels)
    )


def labels_text(labels: Iterable[Listed]) -> str:
    """Return a list of labels as text."""
    return msgspec.json.encode(list(labels)).decode()


def parse_labels(text: str) -> list[Listed]:
    """Return the labels in what `labels_text` wrote."""
    return msgspec.json.decode(text, type=list[Listed])
