"""The softmax of products."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from learners.bandits.softmax import LEAST_SCORE, softmax


@given(seed=st.integers(0, 2**32 - 1), spread=st.floats(0, 10))
def test_is_near_the_exponential_one(seed: int, spread: float) -> None:
    """Between scores that are 10 apart, chances are those of exp to a twentieth."""
    scores = np.random.default_rng(seed).uniform(-spread / 2, spread / 2, (3, 7))
    grown = np.exp(scores)
    np.testing.assert_allclose(
        softmax(scores, None), grown / grown.sum(1, keepdims=True), rtol=0.05
    )


@given(seed=st.integers(0, 2**32 - 1))
def test_rows_are_for_themselves(seed: int) -> None:
    """A batch gives bit for bit what each row gives alone, all labels or some."""
    scores = np.random.default_rng(seed).normal(size=(5, 9)) * 30
    for codes in (None, np.array([0, 3, 8])):
        together = softmax(scores, codes)
        for row, found in zip(scores, together, strict=True):
            assert softmax(row[np.newaxis], codes)[0].tobytes() == found.tobytes()
        np.testing.assert_allclose(together.sum(1), 1.0, rtol=1e-12)


def test_hopeless_scores_count_alike() -> None:
    """However far below the best, a chance is tiny, the same for all, and never 0 or NaN."""
    chances = softmax(np.array([[0.0, LEAST_SCORE, -1e9, -1e300]]), None)[0]
    assert chances[0] == 1.0
    assert chances[1] == chances[2] == chances[3]
    assert 0 < chances[1] < 1e-25


def test_labels_that_cannot_be_right_have_no_chance() -> None:
    """The others share it."""
    chances = softmax(np.array([[5.0, 1.0, 1.0]]), np.array([1, 2]))[0]
    assert chances.tolist() == [0.0, 0.5, 0.5]
