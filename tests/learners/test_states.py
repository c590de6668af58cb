"""What is read back from a saved state: nothing in it is taken on trust."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from learners import StateError
from learners.states import MAX_STATE, state_array, state_integers, state_number


def test_state_array_says_what_is_wrong() -> None:
    """Type, dtype and shape of a saved array are checked, and it comes in C order."""
    assert state_array({"w": np.ones((3, 2)).T}, "w", (2, 3)).flags.c_contiguous
    bad: dict[str, Any] = {
        r"float64 \(2,\)": np.ones(2),
        r"float32 \(2, 3\)": np.ones((2, 3), dtype=np.float32),
        "str": "w",
        "float": 1.0,
    }
    for what, value in bad.items():
        with pytest.raises(StateError, match=f"state's w: expected a float64 array .*, got {what}"):
            state_array({"w": value}, "w", (2, 3))


def test_state_array_that_is_not_finite_or_soon_is_not_refused() -> None:
    """NaN or infinity in a loaded model would poison every decision for ever."""
    for value in (np.nan, np.inf, -np.inf, 2 * MAX_STATE):
        with pytest.raises(StateError, match="state's w: expected finite numbers"):
            state_array({"w": np.array([[1.0, value]])}, "w", (1, 2))


def test_state_integers_say_what_is_wrong() -> None:
    """Type, number and range of saved codes are checked; what comes back is a copy."""
    codes = np.array([0, 2], dtype=np.int32)
    found = state_integers({"c": codes}, "c", np.int32, None, 3)
    found[0] = 1
    assert codes.tolist() == [0, 2]
    bad = (codes.astype(np.int64), codes[:, np.newaxis], codes[:1], codes - 1, codes + 1, [0, 2], 2)
    for value in bad:
        saved: dict[str, Any] = {"c": value}
        with pytest.raises(StateError, match=r"state's c: expected 2 of int32 in \[0, 3\), got"):
            state_integers(saved, "c", np.int32, 2, 3)


def test_state_number_says_what_is_wrong() -> None:
    """A saved scalar is a finite float."""
    assert state_number({"m": 0.5}, "m") == 0.5
    for value in (1, "0.5", float("nan"), float("inf"), -2 * MAX_STATE, np.ones(1)):
        with pytest.raises(StateError, match="state's m: expected a finite float"):
            state_number({"m": value}, "m")
