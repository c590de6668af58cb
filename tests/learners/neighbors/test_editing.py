"""Wilson, ICF, DROP3 and HMN-EI on lines worked out by hand, and on edge cases."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from learners.errors import InputError, ParameterError
from learners.neighbors.editing import (
    _accuracy,
    _condemned,
    _nearest_enemies,
    _pairwise,
    drop3,
    hits_and_misses,
    hmn_ei,
    icf,
    reach_and_cover,
    wilson,
)

_LINE = np.array([[0, 1, 2.1, 3.3, 5, 6.2, 7.5, 9]]).T
_LABELS = np.array([0, 0, 0, 1, 0, 1, 1, 1])
_LONG = np.array([[0, 1, 2.1, 3.3, 4.6, 6, 7.5, 9.1, 10.8, 12.6, 14.5, 16.5]]).T
_LONG_LABELS = np.array([0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 1])

Filter = Callable[[NDArray[np.float64], NDArray[np.int64]], NDArray[np.bool_]]
FILTERS: list[Filter] = [wilson, icf, drop3, hmn_ei]


def _removed(kept: NDArray[np.bool_]) -> list[int]:
    return np.flatnonzero(~kept).tolist()


@pytest.mark.parametrize(("k", "removed"), [(1, [3, 4, 5]), (3, [3, 4]), (5, [3, 4])])
def test_golden_wilson(k: int, removed: list[int]) -> None:
    """What one pass takes from the line, for three k."""
    assert _removed(wilson(_LINE, _LABELS, k)) == removed


def test_repeated_wilson_runs_to_a_fixed_point() -> None:
    """A second pass over what is kept takes nothing more."""
    rng = np.random.default_rng(4)
    xs, labels = rng.normal(size=(80, 2)), rng.integers(0, 3, size=80)
    once, kept = wilson(xs, labels), wilson(xs, labels, repeated=True)
    assert kept.sum() < once.sum()
    assert wilson(xs[kept], labels[kept]).all()


def test_golden_icf_pass() -> None:
    """Nearest enemies, reach, cover and what one pass would delete, before any editing."""
    keys, _ = _pairwise(_LINE, _LABELS)
    enemies = np.sqrt(_nearest_enemies(keys, _LABELS))
    golden = [3.3, 2.3, 1.2, 1.2, 1.2, 1.2, 2.5, 4.0]
    assert enemies.tolist() == pytest.approx(golden, abs=1e-6)
    reached, covered = reach_and_cover(keys, _LABELS)
    assert reached.tolist() == [2, 2, 1, 0, 0, 0, 2, 2]
    assert covered.tolist() == [1, 2, 2, 0, 0, 2, 1, 1]
    assert np.flatnonzero(reached > covered).tolist() == [0, 6, 7]


def test_icf_leaves_no_example_that_reaches_more_than_it_is_covered() -> None:
    """Its stopping condition, and that it shrinks the set."""
    rng = np.random.default_rng(5)
    xs = rng.normal(size=(120, 2))
    labels = (xs[:, 0] + 0.3 * rng.normal(size=120) > 0).astype(np.int64)
    kept = icf(xs, labels)
    assert 0 < kept.sum() < wilson(xs, labels).sum()
    reached, covered = reach_and_cover(*_pairwise(xs[kept], labels[kept]))
    assert (reached <= covered).all()


def test_golden_drop3() -> None:
    """One line from which nothing goes after editing, one that is halved."""
    assert _removed(drop3(_LINE, _LABELS)) == [3, 4]
    assert np.flatnonzero(drop3(_LONG, _LONG_LABELS)).tolist() == [2, 3, 4, 7, 8, 9]
    assert _removed(wilson(_LONG, _LONG_LABELS)) == [5, 6]


def test_golden_hits_and_misses() -> None:
    """The in-degrees of the hit-miss network, and what rule 1 marks."""
    keys, _ = _pairwise(_LINE, _LABELS)
    hits, misses = hits_and_misses(keys, _LABELS)
    assert hits.tolist() == [1, 2, 1, 0, 0, 2, 2, 0]
    assert misses.tolist() == [0, 0, 1, 3, 3, 1, 0, 0]
    marked = 0.5 * misses + 0.1 > 0.5 * hits
    assert np.flatnonzero(marked).tolist() == [2, 3, 4, 7]
    # Fewer than four unmarked in each class: those with arrows stay, and 7 has none.
    assert np.flatnonzero(_condemned(_LABELS, hits, misses)).tolist() == [7]


def test_misses_weigh_by_class_size() -> None:
    """In the class of a quarter, two misses do not outweigh one hit; in the other one does two."""
    labels = np.repeat([0, 1], (6, 18))
    hits, misses = np.ones(24, np.int64), np.zeros(24, np.int64)
    misses[0], hits[6], misses[6] = 2, 2, 1
    assert np.flatnonzero(_condemned(labels, hits, misses)).tolist() == [6]


@pytest.mark.parametrize(
    ("n_classes", "hits", "misses", "condemned"),
    [(4, 0, 1, False), (4, 0, 2, True), (3, 0, 1, True), (4, 2, 30, False), (4, 1, 30, True)],
)
def test_rescue_rules_of_hmn_ei(n_classes: int, hits: int, misses: int, *, condemned: bool) -> None:
    """Of many classes fewer misses than half as many are none; a quarter of one's class saves."""
    labels = np.repeat(np.arange(n_classes), 8)
    all_hits, all_misses = np.full(len(labels), 3), np.zeros(len(labels), np.int64)
    all_hits[0], all_misses[0] = hits, misses
    gone = np.flatnonzero(_condemned(labels, all_hits, all_misses)).tolist()
    assert gone == ([0] if condemned else [])


def test_hmn_ei_takes_a_mislabelled_example() -> None:
    """An example inside the other class goes, and one nearest neighbour gets no worse."""
    rng = np.random.default_rng(6)
    xs = np.concatenate((rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 6))
    labels = np.repeat([0, 1], 60)
    labels[7] = 1
    kept = hmn_ei(xs, labels)
    assert not kept[7]
    assert 4 <= kept.sum() < 60
    assert wilson(xs[kept], labels[kept], 1).all()


def test_hmn_ei_ends_before_it_does_harm() -> None:
    """Of labels at random, one nearest neighbour on what is kept is right no less often."""
    rng, smaller = np.random.default_rng(7), 0
    for _ in range(30):
        xs, labels = rng.integers(0, 9, (16, 1)).astype(np.float64), rng.integers(0, 2, 16)
        kept = hmn_ei(xs, labels)
        keys, codes = _pairwise(xs, labels)
        assert _accuracy(keys, codes, kept) >= _accuracy(keys, codes, np.ones(16, np.bool_))
        smaller += not kept.all()
    assert smaller > 5


@pytest.mark.parametrize("keep", FILTERS)
def test_edge_cases(keep: Filter) -> None:
    """Nothing, one example, one class, all equal: an answer, and never an empty set for some."""
    for size, labels in ((0, []), (1, [0]), (5, [2] * 5), (6, [0, 1] * 3)):
        kept = keep(np.ones((size, 2)), np.array(labels, dtype=np.int64))
        assert kept.shape == (size,)
        if len(set(labels)) == 1:
            assert kept.any()


@pytest.mark.parametrize("keep", FILTERS)
def test_codes_are_names_only(keep: Filter) -> None:
    """Labels with gaps between them cost nothing and change nothing."""
    assert keep(_LONG, _LONG_LABELS * 10**15 + 7).tolist() == keep(_LONG, _LONG_LABELS).tolist()


@pytest.mark.parametrize("keep", FILTERS)
def test_bad_input_is_refused(keep: Filter) -> None:
    """NaN, wrong shapes and labels are named."""
    with pytest.raises(InputError, match=r"xs\[0\]\[0\]"):
        keep(np.full((2, 1), np.nan), np.zeros(2, np.int64))
    with pytest.raises(InputError, match="xs"):
        keep(np.zeros(3), np.zeros(3, np.int64))
    with pytest.raises(InputError, match="labels"):
        keep(np.zeros((3, 1)), np.array([0, -1, 0]))
    with pytest.raises(ParameterError, match="k"):
        wilson(np.zeros((3, 1)), np.zeros(3, np.int64), 0)


def test_icf_may_edit_again_and_again() -> None:
    """What repeated editing removes is not in what is kept."""
    rng = np.random.default_rng(4)
    xs, labels = rng.normal(size=(80, 2)), rng.integers(0, 3, 80)
    gone = ~wilson(xs, labels, repeated=True)
    assert not (icf(xs, labels, repeated=True) & gone).any()
    assert (icf(xs, labels) & gone).any()


def test_hmn_ei_stops_at_the_first_drop() -> None:
    """Each pass is held against the one before it, not against the whole set."""
    drops = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        xs, labels = rng.integers(0, 30, (24, 1)).astype(np.float64), rng.integers(0, 2, 24)
        keys, codes = _pairwise(xs, labels)
        kept = np.ones(24, np.bool_)
        first = best = _accuracy(keys, codes, kept)
        while True:
            inside = np.flatnonzero(kept)
            counts = hits_and_misses(keys[np.ix_(inside, inside)], codes[inside])
            gone = inside[_condemned(codes[inside], *counts)]
            smaller = kept.copy()
            smaller[gone] = False
            if not len(gone) or not smaller.any():
                break
            accuracy = _accuracy(keys, codes, smaller)
            if accuracy < best:
                drops += accuracy >= first
                break
            kept, best = smaller, accuracy
        assert hmn_ei(xs, labels).tolist() == kept.tolist()
    assert drops


@pytest.mark.parametrize("k", [1, 5])
def test_nobody_is_his_own_neighbour(k: int) -> None:
    """Also where k is as many as there are: of two that disagree neither is kept."""
    assert not wilson(np.array([[0.0], [1.0]]), np.array([0, 1]), k).any()


def test_a_class_of_which_four_are_left_needs_no_rescue() -> None:
    """One that is missed goes where four others stay, and stays where three do."""
    for size, gone in ((5, [0]), (4, [])):
        labels = np.repeat([0, 1], (size, 20))
        hits, misses = np.full(len(labels), 9), np.zeros(len(labels), np.int64)
        hits[0], misses[0] = 1, 9
        assert np.flatnonzero(_condemned(labels, hits, misses)).tolist() == gone


def test_of_many_classes_one_that_nobody_points_to_goes() -> None:
    """It has few misses, but no hits either."""
    labels = np.repeat(np.arange(5), 8)
    hits, misses = np.full(40, 3), np.zeros(40, np.int64)
    hits[0] = 0
    assert np.flatnonzero(_condemned(labels, hits, misses)).tolist() == [0]


def test_one_alone_in_its_class_does_not_hit_itself() -> None:
    """All others miss it."""
    keys = np.array([[np.inf, 1.0, 4.0], [1.0, np.inf, 1.0], [4.0, 1.0, np.inf]])
    hits, misses = hits_and_misses(keys, np.array([0, 1, 1]))
    assert (hits.tolist(), misses.tolist()) == ([0, 1, 1], [2, 1, 0])


def test_hmn_ei_weighs_exactly() -> None:
    """Protects ties from rounding: of a label with a share of 0.9 a single hit was outweighed."""
    ties = 0
    for size, own in ((20, 18), (30, 27), (40, 36), (40, 28), (60, 54), (60, 42), (90, 63)):
        labels, share = np.repeat([0, 1], (own, size - own)), Fraction(own, size)
        for hits, misses in itertools.product(range(own // 4), range(9)):
            all_hits, all_misses = np.full(size, 99), np.zeros(size, np.int64)
            all_hits[0], all_misses[0] = hits, misses
            lead = (1 - share) * hits - share * misses
            ties += lead == Fraction(1, 10)
            gone = np.flatnonzero(_condemned(labels, all_hits, all_misses)).tolist()
            assert gone == ([0] if lead < Fraction(1, 10) else [])
    assert ties > 7
