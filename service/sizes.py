"""Learners made from their specs, within the bounds that a model has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from learners import Learner, LearnersError, create
from service.complaints import of_learner
from service.errors import Invalid, quote, shorten
from service.spec import MAX_WEIGHTS, MAX_WINDOW_ROWS, MAX_WINDOW_VALUES, LearnerSpec

#: State of a model's learners together, where there are challengers: an export writes it as
#: base64 into one line of at most 64 MiB. One learner alone stays below it by the other bounds.
MAX_STATE_BYTES = 44 * 1024 * 1024
#: Largest integer among a learner's options: JSON takes any, and no float or array holds one of a
#: thousand digits.
MAX_INTEGER = 2**63 - 1
#: What one value takes in a window.
VALUE_BYTES = 4


def make_learner(spec: LearnerSpec, n_features: int, n_labels: int, where: str) -> Learner:
    """Return a fresh learner; raise Invalid, at the place `where`, if it cannot be one."""
    check_size(n_features, n_labels)
    for name, value in spec.options.items():
        if isinstance(value, int) and abs(value) > MAX_INTEGER:
            raise Invalid.of(f"{where}.{shorten(name)}", "a number within 64 bits", quote(value))
    try:
        learner = create(spec.kind, n_features, n_labels, **spec.options)
    except LearnersError as error:
        raise of_learner(where, error) from error
    _check_window(n_features, getattr(learner, "window", 0), where)
    return learner


def check_size(n_features: int, n_labels: int) -> None:
    """Raise Invalid if a model of this size would be too large."""
    if n_features * n_labels > MAX_WEIGHTS:
        raise Invalid.of(
            "labels",
            f"labels times features at most {MAX_WEIGHTS}",
            f"{n_labels} x {n_features}",
        )


def _check_window(n_features: int, window: object, where: str) -> None:
    """Raise Invalid if a window of so many rows would be too large; other options pass."""
    if not isinstance(window, int):
        return
    if window > MAX_WINDOW_ROWS:
        raise Invalid.of(f"{where}.window", f"at most {MAX_WINDOW_ROWS}", window)
    if window * n_features > MAX_WINDOW_VALUES:
        raise Invalid.of(
            f"{where}.window",
            f"window times features at most {MAX_WINDOW_VALUES}",
            f"{window} x {n_features}",
        )


def check_together(learners: Sequence[Learner], where: str) -> None:
    """Raise Invalid if the learners of one model would have too much state together."""
    size = sum(map(_most_bytes, learners))
    if len(learners) > 1 and size > MAX_STATE_BYTES:
        what = f"learners with at most {MAX_STATE_BYTES} bytes of state together"
        raise Invalid.of(where, what, size)


def _most_bytes(learner: Learner) -> int:
    """Return what a learner's state takes, its window taken for full."""
    arrays = [each for each in learner.state().values() if isinstance(each, np.ndarray)]
    # A learner from feedback that has a window has one for each label.
    rows = getattr(learner, "window", 0) * learner.n_labels
    return max(sum(each.nbytes for each in arrays), rows * learner.n_features * VALUE_BYTES)
