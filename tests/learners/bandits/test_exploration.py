"""Inverse gap weighting, and the choice by it."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from learners.bandits.exploration import Eagerness, GapExploration, inverse_gap_weighting
from learners.validation import FloatArray


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


@given(hnp.arrays(np.float64, (2, 5), elements=st.floats(0, 1)), st.floats(0, 1e3))
def test_no_label_but_the_best_gets_more_than_its_most(both: FloatArray, gain: float) -> None:
    """Gaps decide below it; what they would give beyond it goes to the best."""
    rewards, most = both
    free, held = (inverse_gap_weighting(rewards, gain, each) for each in (None, most))
    assert held.sum() == pytest.approx(1)
    for label in set(range(5)) - {int(rewards.argmax())}:
        assert held[label] == min(free[label], most[label])


def test_labels_of_which_one_is_right_are_tried_as_often_as_they_may_be_it() -> None:
    """A known one as its chance and its odds say at most; one shown never or seldom as gaps say."""
    explorer, chances = GapExploration("gaps", 1.0, 0.0), np.array([0.8, 0.16, 0.04, 0.0])
    counts = np.array([1e6, 1e6, 9.0, 0.0])
    eager = explorer.eagerness(counts, 9.0, None, 1.0, one_right=True)
    shares = explorer.choose(chances, None, eager).probabilities
    gains = np.sqrt(np.minimum(4 * counts, 9.0) + 1)
    gaps = 1 / (4 + gains * (0.8 - chances))
    np.testing.assert_allclose(shares[1:], [0.16 * 0.2, 0.01, gaps[3]], rtol=1e-12)
    seldom = eager._replace(gains=np.zeros(4))
    shares = explorer.choose(np.array([1.0, 0.0, 0.0, 0.0]), None, seldom).probabilities
    np.testing.assert_allclose(shares[1:], [1e-12, 0.01, 0.25], rtol=1e-5)
    shares = explorer.choose(np.zeros(4), None, seldom).probabilities
    np.testing.assert_allclose(shares[1:], [1e-12, 0.01, 0.25], rtol=1e-5)
    several = explorer.eagerness(counts, 9.0, None, 1.0, one_right=False)
    np.testing.assert_allclose(explorer.choose(chances, None, several).probabilities[1:], gaps[1:])


@pytest.mark.parametrize("floors", [False, True])
@pytest.mark.parametrize("gamma", [0.0, 0.1])
@pytest.mark.parametrize("exploration", ["gaps", "greedy"])
@pytest.mark.parametrize("codes", [None, [7], [0, 3, 4, 11], list(range(1, 40))])
@given(
    st.sampled_from([0, 1, 2, 3, 17]).flatmap(
        # Few values, so that some tie.
        lambda n: hnp.arrays(np.float64, (n, 40), elements=st.sampled_from([0.0, 1.0, 0.3, 0.7]))
    ),
    st.sampled_from(["C", "F"]),
)
def test_rows_at_once_as_one_by_one(
    exploration: str,
    gamma: float,
    floors: bool,
    codes: list[int] | None,
    relevances: FloatArray,
    order: Literal["C", "F"],
) -> None:
    """Whoever decides beside it, and however the rows lie in memory: the same to the last bit."""
    explorer = GapExploration(exploration, 20.0, gamma)
    chosen = None if codes is None else np.array(codes)
    gains = np.sqrt(np.arange(1.0, 41.0)) if codes is None else np.sqrt(np.array(codes) + 1.0)
    eager = Eagerness(gains, 0.1 / gains if floors else None)
    several = explorer.choose_each(np.array(relevances, order=order), chosen, eager)
    assert len(several) == len(relevances)
    for row, got in zip(relevances, several, strict=True):
        alone = explorer.choose(row, chosen, eager)
        assert got.probabilities.tobytes() == alone.probabilities.tobytes()
        assert (got.greedy, type(got.greedy)) == (alone.greedy, int)


@pytest.mark.parametrize("n_labels", [10, 40])
def test_many_labels_are_tried_together_as_often_as_ten(n_labels: int) -> None:
    """Those with a gap share one part of the rounds, if several may be right, however many."""
    explorer, rewards = GapExploration("gaps", 20.0, 0.0), np.zeros(n_labels)
    rewards[3] = 0.5
    counts = np.full(n_labels, 1e6)
    several, one = (
        explorer.eagerness(counts, 99.0, None, 1.0, one_right=one_right).gains
        for one_right in (False, True)
    )
    best = float(inverse_gap_weighting(rewards, several)[3])
    # 20 sqrt(99 + 1) times a gap of .5 is 100 where there are ten labels.
    assert 1 - best == pytest.approx((n_labels - 1) / n_labels * 10 / (10 + 100))
    assert one.tolist() == [200.0] * n_labels


@pytest.mark.parametrize("exploration", ["gaps", "greedy"])
def test_only_labels_that_may_be_chosen_share_what_explores(exploration: str) -> None:
    """Of five labels two may be chosen: gamma is theirs alone, and their chances sum to 1."""
    explore = GapExploration(exploration, 10.0, 0.2)
    codes, relevance = np.array([1, 3]), np.array([0.9, 0.1, 0.8, 0.3, 0.7])
    eager = explore.eagerness(np.full(5, 3.0), 15.0, codes, 1.0, one_right=False)
    found = explore.choose(relevance, codes, eager)
    assert found.greedy == 3
    assert found.probabilities[[0, 2, 4]].tolist() == [0.0, 0.0, 0.0]
    assert found.probabilities.sum() == pytest.approx(1.0)
    assert found.probabilities[1] >= 0.1
    if exploration == "greedy":
        assert found.probabilities[[1, 3]].tolist() == pytest.approx([0.1, 0.9])
    (each,) = explore.choose_each(relevance[np.newaxis], codes, eager)
    assert each.probabilities.tolist() == found.probabilities.tolist()


def test_gains_by_hand() -> None:
    """Of the two labels that may be chosen each counts twice its rounds, at most all 9 of them."""
    explore, counts = GapExploration("gaps", 10.0, 0.0), np.array([50.0, 4.0, 9.0, 9.0])
    eager = explore.eagerness(counts, 9.0, np.array([1, 2]), 0.5, one_right=True)
    assert eager.gains.tolist() == pytest.approx([10 * 0.5 * 9**0.5, 10 * 0.5 * 10**0.5])
    assert eager.floors is not None
    assert eager.floors.tolist() == pytest.approx([1 / 25, 1 / 100])
