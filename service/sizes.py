"""Learners made from their specs, within the bounds that a model has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from learners import LEARNERS, Learner, LearnersError, create
from service.complaints import of_learner
from service.errors import Invalid, quote, shorten
from service.spec import MAX_WEIGHTS, MAX_WINDOW_ROWS, MAX_WINDOW_VALUES, LearnerSpec

#: Most state of a model's learners together, where there are challengers: an export writes it as
#: base64 into one line of at most 64 MiB. One learner alone stays below it by the other bounds.
MAX_STATE_BYTES = 44 * 1024 * 1024
#: Largest integer among a learner's options: JSON takes any, and no float or array holds one of a
#: thousand digits.
MAX_INTEGER = 2**63 - 1
#: Bytes that one value takes in a window.
VALUE_BYTES = 4


def make_learner(spec: LearnerSpec, n_features: int, n_labels: int, where: str) -> Learner:
    """Return a fresh learner; raise Invalid, at the place `where`, if it cannot be made."""
    check_size(n_features, n_labels)
    for name, value in spec.options.items():
        if isinstance(value, int) and abs(value) > MAX_INTEGER:
            raise Invalid.of(f"{where}.{shorten(name)}", "a number within 64 bits", quote(value))
    given, place = spec.options.get("window"), f"{where}.window"
    if isinstance(given, int) and spec.kind in LEARNERS:
        # Before it is made: it may need more memory than there is.
        _check_rows(given, n_features, _windows(LEARNERS[spec.kind], n_labels), place)
    try:
        learner = create(spec.kind, n_features, n_labels, **spec.options)
    except LearnersError as error:
        raise of_learner(where, error) from error
    check_window(learner, place)
    return learner


def check_size(n_features: int, n_labels: int) -> None:
    """Raise Invalid if a model of this size would be too large."""
    if n_features * n_labels > MAX_WEIGHTS:
        raise Invalid.of(
            "labels",
            f"labels times features at most {MAX_WEIGHTS}",
            f"{n_labels} x {n_features}",
        )


def check_window(learner: Learner, where: str, more: int = 0) -> None:
    """Raise Invalid, at the place `where`, if its window with `more` labels would be too large."""
    windows = _windows(type(learner), learner.n_labels + more)
    _check_rows(_window(learner), learner.n_features, windows, where)


def _check_rows(window: int, n_features: int, windows: int, where: str) -> None:
    if window > MAX_WINDOW_ROWS:
        raise Invalid.of(where, f"at most {MAX_WINDOW_ROWS}", window)
    if window * n_features * windows > MAX_WINDOW_VALUES:
        of_each, labels = (" times labels", f" x {windows}") if windows > 1 else ("", "")
        what = f"window times features{of_each} at most {MAX_WINDOW_VALUES}"
        raise Invalid.of(where, what, f"{window} x {n_features}{labels}")


def _window(learner: Learner) -> int:
    """Return the rows of a learner's window; 0 without one."""
    rows: int = getattr(learner, "window", 0)
    return rows


def _windows(kind: type[Learner], n_labels: int) -> int:
    """Return how many windows it has, if any: one that learns from feedback has one per label."""
    return n_labels if kind.takes_feedback else 1


def check_together(learners: Sequence[Learner], where: str) -> None:
    """Raise Invalid if the learners of one model would have too much state together."""
    size = sum(map(_most_bytes, learners))
    if len(learners) > 1 and size > MAX_STATE_BYTES:
        what = f"learners with at most {MAX_STATE_BYTES} bytes of state together"
        raise Invalid.of(where, what, size)


def _most_bytes(learner: Learner) -> int:
    """Return the bytes of a learner's state, as if its window were full."""
    arrays = [each for each in learner.state().values() if isinstance(each, np.ndarray)]
    rows = _window(learner) * _windows(type(learner), learner.n_labels)
    return max(sum(each.nbytes for each in arrays), rows * learner.n_features * VALUE_BYTES)


def check_growth(learners: Sequence[tuple[LearnerSpec, Learner]], more: int) -> None:
    """Raise Invalid if learners, made by these specs, cannot have so many more labels.

    That depends on nothing they have learned, so fresh ones of their shape show it; copying a
    learner with a window of neighbours takes seconds.
    """
    for _, learner in learners:
        check_window(learner, "add", more)
    try:
        trials = [_fresh(*each) for each in learners]
        for trial in trials:
            trial.add_labels(more)
    except LearnersError as error:
        raise of_learner("add", error) from error
    check_together(trials, "add")


def _fresh(spec: LearnerSpec, learner: Learner) -> Learner:
    """Return a learner of the same shape, which has learned nothing."""
    options = dict(spec.options)
    if "block_size" in learner.option_names():
        # Chosen by the labels that it began with, and kept: a fresh one would choose by those now.
        options["block_size"] = vars(learner)["block_size"]
    return create(spec.kind, learner.n_features, learner.n_labels, **options)
