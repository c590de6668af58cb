"""What a saved state says of the examples in a window, checked."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from learners.base import StateValue, state_value
from learners.errors import StateError, expected
from learners.neighbors.metrics import Rows
from learners.neighbors.window import SOUND, Labels, sound
from learners.validation import is_integer

#: Largest seq in a state: so far from what int64 holds that no window's seqs go beyond that.
MAX_SEQ = 1 << 62


def saved_rows(state: Mapping[str, StateValue], n_features: int) -> Rows:
    """Return a copy of the rows of a state, float32 (n, d), or raise StateError.

    They must be rows as `to_rows` makes them: others would break the bounds of the search.
    """
    rows = state_value(state, "rows")
    if not (
        isinstance(rows, np.ndarray)
        and rows.dtype == np.float32
        and rows.ndim == 2
        and rows.shape[1] == n_features
    ):
        what = f"a float32 array (n, {n_features})"
        raise StateError(expected("state's rows", what, _shape(rows)))
    good = sound(rows)
    if not good.all():
        raise StateError(expected("state's rows", SOUND, float(rows[~good][0])))
    return rows.astype(np.float32)


def saved_seq(name: str, value: object) -> int:
    """Return the seq `value` of a state, or raise StateError."""
    if not is_integer(value) or not isinstance(value, int) or not 0 <= value <= MAX_SEQ:
        raise StateError(expected(f"state's {name}", f"an integer in [0, {MAX_SEQ}]", value))
    return value


def saved_labels(state: Mapping[str, StateValue], count: int, n_labels: int) -> Labels:
    """Return a copy of the label codes of a state, int32 (count,), or raise StateError."""
    labels = state_value(state, "labels")
    what = f"{count} codes in [0, {n_labels}) as int32"
    if not (
        isinstance(labels, np.ndarray) and labels.dtype == np.int32 and labels.shape == (count,)
    ):
        raise StateError(expected("state's labels", what, _shape(labels)))
    codes = labels.astype(np.int32)
    if count and not (codes.min() >= 0 and codes.max() < n_labels):
        raise StateError(expected("state's labels", what, codes))
    return codes


def _shape(value: StateValue) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}"
    return type(value).__name__
