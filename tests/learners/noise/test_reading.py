"""The paper's two reading rules, as functions of numbers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from learners.errors import InputError, ParameterError
from learners.noise.reading import authors, per_label

#: Golden N1.
Q = np.array(
    [
        *(0.12, 0.18, 0.15, 0.82, 0.9, 0.14, 0.85, 0.2, 0.11, 0.8),
        *(0.16, 0.83, 0.13, 0.17, 0.19, 0.1, 0.86, 0.84, 0.21, 0.88),
    ]
)


@pytest.mark.parametrize(
    ("percentile", "rho_0", "rho_1"),
    [(89, 0.13, 0.15), (94, 0.12, 0.14), (97, 0.11, 0.12), (100, 0.11, 0.12)],
)
def test_authors_golden(percentile: float, rho_0: float, rho_1: float) -> None:
    """Golden N1: the rule reads what the authors' code reads, strictly below the percentile."""
    assert authors(Q, percentile=percentile) == (rho_0, rho_1)


def test_authors_default_percentile() -> None:
    """Without an argument it is the authors' 89."""
    assert authors(Q) == authors(Q, percentile=89)


def test_authors_reads_the_largest_where_none_is_below() -> None:
    """Half of the values tie with the least: strictly below the percentile there is none."""
    assert authors(np.array([0.5, 0.5, 0.5, 0.9]), percentile=50) == (0.9, 0.1)


def test_authors_fails_with_a_good_learner() -> None:
    """The known flaw is kept: right in over 89 % of the rounds, rho_0 is read as 1 - rho_1."""
    q = np.where(np.arange(100) < 5, 0.1, 0.8) + np.arange(100) * 1e-4
    rho_0, rho_1 = authors(q)
    assert rho_0 == pytest.approx(0.8, abs=0.01)  # the truth is 0.1
    assert rho_1 == pytest.approx(0.2, abs=0.01)


def per_label_q(shares: list[float], rho_0: list[float], rho_1: list[float]) -> np.ndarray:
    """Return exact q of 1,000 perfect examples whose classes have such shares."""
    y = np.repeat(np.arange(len(shares)), (np.array(shares) * 1000).astype(int))
    right = y[:, np.newaxis] == np.arange(len(shares))
    return np.where(right, 1.0 - np.array(rho_1), np.array(rho_0))


def test_per_label_exact_levels() -> None:
    """With perfect examples only, it reads both levels, also of a rare and of a common class."""
    rho_0, rho_1 = [0.1, 0.3, 0.2, 0.05], [0.2, 0.1, 0.3, 0.15]
    read_0, read_1 = per_label(per_label_q([0.6, 0.3, 0.07, 0.03], rho_0, rho_1))
    np.testing.assert_allclose(read_0, rho_0, atol=1e-9)
    np.testing.assert_allclose(read_1, rho_1, atol=1e-9)


def test_per_label_ten_balanced_labels() -> None:
    """K = 10: the fixed 89th percentile would read rho_0 for 1 - rho_1; this does not."""
    rng = np.random.default_rng(0)
    q = per_label_q([0.1] * 10, [0.2] * 10, [0.4] * 10) + rng.normal(0, 0.02, (1000, 10))
    read_0, read_1 = per_label(q)
    assert np.abs(read_0 - 0.2).max() < 0.01
    assert np.abs(read_1 - 0.4).max() < 0.02
    fixed = np.percentile(q, 89, axis=0)
    assert np.abs(fixed - 0.2).max() < 0.1


@given(
    arrays(np.float64, st.tuples(st.integers(1, 30), st.integers(1, 5)), elements=st.floats(0, 1))
)
def test_rules_stay_in_range(q: np.ndarray) -> None:
    """Whatever the network says, both rules answer with rates in [0, 1], and change nothing."""
    before = q.copy()
    for rates in (authors(q.ravel()), *per_label(q)):
        assert ((np.asarray(rates) >= 0) & (np.asarray(rates) <= 1)).all()
    low, missed = per_label(q)
    assert (low + missed <= 1 + 1e-12).all()
    assert (q == before).all()


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (np.array([]), "at least one, got float64 (0,)"),
        (np.array([0.5, np.nan]), "probabilities in [0, 1], got nan"),
        (np.array([0.5, 1.5, 2.5]), "probabilities in [0, 1], got 1.5"),
        (np.zeros((2, 2)), "an array of numbers with 1 axis, got float64 (2, 2)"),
        ([0.5], "an array of numbers with 1 axis, got list"),
    ],
)
def test_authors_refuses(bad: Any, said: str) -> None:
    """Empty, not finite, no probability or of the wrong shape: said so, never NaN."""
    with pytest.raises(InputError, match=re.escape(f"predicted: expected {said}")):
        authors(bad)


@pytest.mark.parametrize("percentile", [0, 100.5, float("nan"), "89", True, None])
def test_refuses_percentile(percentile: Any) -> None:
    """A percentile outside (0, 100], or that is no number, is refused by name."""
    with pytest.raises(ParameterError, match="percentile"):
        authors(Q, percentile=percentile)


def test_per_label_refuses() -> None:
    """One axis is not enough for rates of each label."""
    with pytest.raises(InputError, match="2 axes"):
        per_label(Q)


def test_per_label_reads_between_two_predictions() -> None:
    """By hand: right for half, whose medians are at places .75 and 2.25 of the four."""
    rho_0, rho_1 = per_label(np.array([[0.1], [0.2], [0.8], [0.9]]))
    assert (rho_0.tolist(), rho_1.tolist()) == (pytest.approx([0.175]), pytest.approx([0.175]))
