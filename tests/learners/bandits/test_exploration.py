"""Inverse gap weighting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from learners import InputError
from learners.bandits.exploration import inverse_gap_weighting
from learners.base import FloatArray


@pytest.mark.parametrize(
    ("gain", "expected"),
    [
        (0.0, [1 / 3, 1 / 3, 1 / 3]),
        (10.0, [0.757142857143, 0.142857142857, 0.1]),
        (100.0, [0.963045555910, 0.023255813953, 0.013698630137]),
    ],
)
def test_golden_b7(gain: float, expected: list[float]) -> None:
    """SquareCB's distribution at three gains; the form with the squared gap would fail here."""
    probabilities = inverse_gap_weighting(np.array([0.9, 0.5, 0.2]), gain)
    assert probabilities.tolist() == pytest.approx(expected, abs=1e-11)


@given(
    hnp.arrays(np.float64, st.integers(1, 8), elements=st.floats(-1e3, 1e3)),
    st.floats(0, 1e9),
)
def test_is_a_distribution_ordered_by_reward(rewards: FloatArray, gain: float) -> None:
    """It sums to 1, and a better label is never the rarer one."""
    probabilities = inverse_gap_weighting(rewards, gain)
    assert probabilities.sum() == pytest.approx(1)
    order = np.lexsort((probabilities, rewards))  # among ties the best has the rest
    assert (np.diff(probabilities[order]) >= -1e-12).all()
    assert probabilities[rewards.argmax()] >= 1 / len(rewards) - 1e-12


@pytest.mark.parametrize(
    ("rewards", "gain"), [([], 1.0), ([float("nan")], 1.0), ([1.0], -1.0), ([1.0], float("inf"))]
)
def test_bad_input_refused(rewards: list[float], gain: float) -> None:
    """No rewards, rewards that are none, and gains that are none are errors."""
    with pytest.raises(InputError):
        inverse_gap_weighting(np.array(rewards), gain)
