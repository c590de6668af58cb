"""What a saved state says of the examples in a window, checked."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from learners.errors import StateError, expected
from learners.neighbors.metrics import Rows
from learners.neighbors.window import SOUND, sound
from learners.states import StateValue, state_value
from learners.validation import described

#: Largest seq in a state: so far below int64's limit that no window's seqs exceed that.
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
        raise StateError(f"state's rows: expected {what}, got {described(rows)}")
    good = sound(rows)
    if not good.all():
        raise StateError(expected("state's rows", SOUND, float(rows[~good][0])))
    return rows.astype(np.float32)


def saved_first(state: Mapping[str, StateValue]) -> int:
    """Return the seq of the oldest example of a state, or raise StateError."""
    first = state_value(state, "first")
    if not isinstance(first, int) or isinstance(first, bool) or not 0 <= first <= MAX_SEQ:
        raise StateError(expected("state's first", f"an integer in [0, {MAX_SEQ}]", first))
    return first
