"""Inverse gap weighting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

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


@given(hnp.arrays(np.float64, (2, 5), elements=st.floats(0, 1e3)))
def test_each_label_may_have_its_gain(both: FloatArray) -> None:
    """A label's share depends on its own gain, as it would if all had it; the best has the rest."""
    rewards, gains = both
    probabilities = inverse_gap_weighting(rewards, gains)
    assert probabilities.sum() == pytest.approx(1)
    for label in set(range(5)) - {int(rewards.argmax())}:
        assert probabilities[label] == inverse_gap_weighting(rewards, float(gains[label]))[label]
