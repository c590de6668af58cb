"""The models of noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners import InputError, NoiseRates
from learners.noise import (
    flip_bit,
    flip_bits,
    flip_bits_by_label,
    flip_by_hubness,
    flip_by_matrix,
    flip_by_tfidf,
    flip_uniform,
    tfidf_weights,
)
from learners.validation import IntArray

N = 20_000
#: Five standard deviations of a share of N.
CLOSE = 5 * 0.5 / N**0.5


def wrong(value: object) -> Any:
    """Return what a type checker would not let pass."""
    return value


def rng() -> np.random.Generator:
    """Return a generator, the same in every test."""
    return np.random.default_rng(7)


def codes(n_codes: int, n: int = N) -> IntArray:
    """Return n codes, each equally often."""
    return np.arange(n, dtype=np.int64) % n_codes


def test_bits_flip_at_their_rates() -> None:
    """False clicks at rho_0, missed ones at rho_1, and not the other way round."""
    bits = codes(2)
    noisy = flip_bits(bits, NoiseRates(0.1, 0.3), rng())
    assert (noisy != bits)[bits == 0].mean() == pytest.approx(0.1, abs=CLOSE)
    assert (noisy != bits)[bits == 1].mean() == pytest.approx(0.3, abs=CLOSE)


@given(st.integers(0, 1), st.floats(0, 0.45), st.floats(0, 0.45), st.floats(0, 1, exclude_max=True))
def test_one_bit_flips_like_many(bit: int, rho_0: float, rho_1: float, uniform: float) -> None:
    """The form for hot loops is the array form, uniform for uniform."""

    class _Fixed(np.random.Generator):
        def random(self, *_: object, **__: object) -> float:  # type: ignore[override] # one number is all it gives
            return uniform

    rates = NoiseRates(rho_0, rho_1)
    many = flip_bits(np.array([bit], dtype=np.int64), rates, _Fixed(np.random.PCG64(0)))
    assert flip_bit(bit, rates, uniform) == many[0]


def test_bits_flip_at_the_rates_of_their_label() -> None:
    """One pair of rates a label, indexed by the label that was shown."""
    bits, labels = codes(2), codes(6) // 2
    rates = [NoiseRates(0, 0.4), NoiseRates(0.2, 0), NoiseRates()]
    noisy = flip_bits_by_label(bits, labels, rates, rng())
    for label, each in enumerate(rates):
        for bit, rate in ((0, each.rho_0), (1, each.rho_1)):
            flipped = (noisy != bits)[(labels == label) & (bits == bit)]
            assert flipped.mean() == pytest.approx(rate, abs=3 * CLOSE)
    same = flip_bits_by_label(bits, labels, [NoiseRates(0.1, 0.2)] * 3, rng())
    assert (same == flip_bits(bits, NoiseRates(0.1, 0.2), rng())).all()


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_uniform_flips_to_all_others_alike(rate: float) -> None:
    """Each label at the rate, and each other class equally often."""
    labels = codes(4)
    noisy = flip_uniform(labels, 4, rate, rng())
    assert (noisy != labels).mean() == pytest.approx(rate, abs=CLOSE)
    for other in (1, 2, 3):
        share = ((noisy - labels) % 4 == other).mean()
        assert share == pytest.approx(rate / 3, abs=CLOSE)


@given(st.integers(0, 60), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_exact_counts_are_exact(n: int, rate: float, seed: int) -> None:
    """Exactly round(rate n) labels differ, whatever draws them."""
    labels = codes(3, n)
    source = np.random.default_rng(seed)
    occurrences = source.integers(0, 2, n)
    weights = source.random(n) * source.integers(0, 2, n)
    for noisy in (
        flip_uniform(labels, 3, rate, source, exact_count=True),
        flip_by_hubness(labels, 3, rate, occurrences, source),
        flip_by_hubness(labels, 3, rate, occurrences, source, smoothed=True),
        flip_by_tfidf(labels, 3, rate, weights, source),
        flip_by_tfidf(labels, 3, rate, weights, source, deterministic=True),
    ):
        assert np.count_nonzero(noisy != labels) == round(rate * n)
        assert ((noisy >= 0) & (noisy < 3)).all()


def test_matrix_rows_are_the_shares() -> None:
    """P(noisy j | true i) is entry (i, j), and what has probability 0 never comes."""
    matrix = np.array([[0.7, 0.3, 0.0], [0.0, 1.0, 0.0], [0.25, 0.25, 0.5]])
    labels = codes(3, 3 * N)
    noisy = flip_by_matrix(labels, matrix, rng())
    for label, row in enumerate(matrix):
        counts = np.bincount(noisy[labels == label], minlength=3)
        assert counts / N == pytest.approx(row, abs=CLOSE)
        assert not counts[row == 0].any()


def test_matrix_gives_the_first_possible_label_the_lowest_uniform() -> None:
    """A uniform of exactly 0 does not lead to a first label of probability 0."""

    class _Lowest(np.random.Generator):
        def random(self, size: int) -> object:  # type: ignore[override] # only this form is used
            return np.zeros(size)

    matrix = np.array([[0.0, 0.5, 0.5]] * 3)
    noisy = flip_by_matrix(codes(3, 3), matrix, _Lowest(np.random.PCG64(0)))
    assert noisy.tolist() == [1, 1, 1]


def test_matrix_gives_the_last_possible_label_what_rounding_leaves() -> None:
    """Rows that sum to a little below 1 never lead to a label of probability 0."""

    class _Highest(np.random.Generator):
        def random(self, size: int) -> object:  # type: ignore[override] # only this form is used
            return np.full(size, np.nextafter(1, 0))

    matrix = np.array([[0.1] * 3 + [0.7 - 1e-10, 0.0]] * 5)
    noisy = flip_by_matrix(codes(5, 5), matrix, _Highest(np.random.PCG64(0)))
    assert noisy.tolist() == [3] * 5


def test_hubness_prefers_hubs() -> None:
    """Drawn in proportion to N_k; a point that is nobody's neighbour only when smoothed."""
    labels = codes(2, 400)
    occurrences = np.repeat(np.array([0, 1, 3, 0]), 100)
    flips = np.zeros(4)
    source = rng()
    for _ in range(300):
        noisy = flip_by_hubness(labels, 2, 0.01, occurrences, source)
        flips += (noisy != labels).reshape(4, 100).sum(1)
    assert flips[0] == flips[3] == 0
    assert flips[2] / flips[1] == pytest.approx(3, rel=0.2)
    smoothed = flip_by_hubness(labels, 2, 0.9, occurrences, source, smoothed=True)
    assert (smoothed != labels)[occurrences == 0].any()


def test_hubness_falls_back_to_smoothed() -> None:
    """Where too few points are anybody's neighbour, drawing goes on instead of looping for ever."""
    labels = codes(2, 10)
    occurrences = np.array([5] + [0] * 9)
    source, flips = rng(), np.zeros(10)
    for _ in range(200):
        noisy = flip_by_hubness(labels, 2, 0.5, occurrences, source)
        assert np.count_nonzero(noisy != labels) == 5
        flips += noisy != labels
    # The hub mostly, and of the others each as often, not the first ones.
    assert flips[0] > 150
    assert flips[1:].min() > 60


def test_golden_n2() -> None:
    """Four documents: TF-IDF weights, the probabilities 1 / W and the order of the lowest."""
    counts = np.array([[2, 1, 0, 0], [1, 0, 0, 0], [0, 1, 3, 0], [0, 0, 0, 1]], dtype=np.float64)
    weights = tfidf_weights(counts)
    expected = [2.079441541680, 0.693147180560, 4.852030263919, 1.386294361120]
    assert weights.tolist() == pytest.approx(expected, abs=1e-11)
    inverse = 1 / weights
    assert (inverse / inverse.sum()).tolist() == pytest.approx(
        [0.168674698795, 0.506024096386, 0.072289156627, 0.253012048193], abs=1e-11
    )
    labels = np.zeros(4, dtype=np.int64)
    order = []
    for rate in (0.25, 0.5, 0.75, 1.0):
        noisy = flip_by_tfidf(labels, 2, rate, weights, rng(), deterministic=True)
        order += [int(i) for i in np.flatnonzero(noisy) if i not in order]
    assert order == [1, 3, 0, 2]
    source = rng()
    first = np.zeros(4)
    for _ in range(4000):
        first += flip_by_tfidf(labels, 2, 0.25, weights, source)
    assert first / 4000 == pytest.approx(inverse / inverse.sum(), abs=0.04)


def test_a_term_that_no_document_has_weighs_nothing() -> None:
    """As in a vocabulary that was made of more documents than these."""
    counts = np.array([[2.0, 0.0], [1.0, 1.0]])
    more = np.insert(counts, 1, 0.0, axis=1)
    assert tfidf_weights(more).tolist() == tfidf_weights(counts).tolist()
    assert tfidf_weights(counts[:0]).shape == (0,)


def test_empty_documents_go_first() -> None:
    """A document of weight 0 has a finite, large weight: it is drawn before any other."""
    labels = np.zeros(50, dtype=np.int64)
    weights = np.ones(50)
    weights[[3, 30]] = 0.0
    noisy = flip_by_tfidf(labels, 2, 0.04, weights, rng())
    assert np.flatnonzero(noisy).tolist() == [3, 30]


def test_seed_decides_and_inputs_stay() -> None:
    """The same generator state gives the same noise, and no input is written to."""
    labels = codes(3, 300)
    occurrences = codes(5, 300)
    for array in (labels, occurrences):
        array.setflags(write=False)
    draws: list[Callable[[np.random.Generator], IntArray]] = [
        lambda source: flip_uniform(labels, 3, 0.3, source),
        lambda source: flip_uniform(labels, 3, 0.3, source, exact_count=True),
        lambda source: flip_by_matrix(labels, np.full((3, 3), 1 / 3), source),
        lambda source: flip_by_hubness(labels, 3, 0.3, occurrences, source),
        lambda source: flip_by_tfidf(labels, 3, 0.3, np.ones(300), source),
        lambda source: flip_bits(labels % 2, NoiseRates(0.2, 0.2), source),
    ]
    for noisy in draws:
        assert (noisy(np.random.default_rng(1)) == noisy(np.random.default_rng(1))).all()
        assert (noisy(np.random.default_rng(1)) != noisy(np.random.default_rng(2))).any()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: flip_bits(np.array([0, 2]), NoiseRates(), rng()), "bits"),
        (lambda: flip_bits(np.array([0.0, 1.0]), NoiseRates(), rng()), "bits"),
        (lambda: flip_bits(np.array([[0, 1]]), NoiseRates(), rng()), "bits"),
        (lambda: flip_bits_by_label(codes(2, 4), codes(3, 4), [NoiseRates()] * 2, rng()), "labels"),
        (lambda: flip_bits_by_label(codes(2, 4), codes(2, 3), [NoiseRates()] * 2, rng()), "labels"),
        (lambda: flip_uniform(codes(3, 9), 2, 0.1, rng()), "labels"),
        (lambda: flip_uniform(codes(1, 9), 1, 0.1, rng()), "n_labels"),
        (lambda: flip_uniform(codes(3, 9), 3, 1.1, rng()), "rate"),
        (lambda: flip_uniform(codes(3, 9), 3, float("nan"), rng()), "rate"),
        (lambda: flip_by_matrix(codes(2, 4), np.array([[0, 1], [0.5, 0.6]]), rng()), "matrix[1]"),
        (lambda: flip_by_matrix(codes(2, 4), np.array([[0, 1], [1.5, -0.5]]), rng()), "matrix[1]"),
        (lambda: flip_by_matrix(codes(2, 4), np.array([[0, 1], [0.5, 0.499]]), rng()), "matrix[1]"),
        (lambda: flip_by_matrix(codes(2, 4), np.ones((2, 3)), rng()), "matrix"),
        (lambda: flip_by_matrix(codes(2, 0), np.empty((0, 0)), rng()), "matrix"),
        (lambda: flip_by_hubness(codes(2, 4), 2, 0.5, codes(2, 3), rng()), "k_occurrences"),
        (lambda: flip_by_tfidf(codes(2, 4), 2, 0.5, np.full(4, np.nan), rng()), "weights"),
        (lambda: tfidf_weights(np.array([[-1.0]])), "counts"),
        (lambda: tfidf_weights(np.array([[np.inf, 1.0]])), "counts"),
        (lambda: flip_uniform(codes(2, 4), wrong(2.5), 0.5, rng()), "n_labels"),
        (lambda: flip_by_hubness(codes(2, 2), 2, 0.5, wrong(np.array([np.nan, 1])), rng()), "k_oc"),
        (lambda: flip_bits_by_label(codes(2, 0), codes(2, 0), [], rng()), "rates"),
        # A list is no array, as a function that takes arrays says like any other mistake.
        (lambda: flip_bits(wrong([0, 1]), NoiseRates(), rng()), "bits"),
        (lambda: flip_bits_by_label(codes(2, 2), wrong([0, 1]), [NoiseRates()], rng()), "labels"),
        (lambda: flip_by_matrix(codes(2, 4), wrong([[1.0, 0.0], [0.0, 1.0]]), rng()), "matrix"),
        (lambda: flip_by_hubness(codes(2, 2), 2, 0.5, wrong([1, 2]), rng()), "k_occurrences"),
        (lambda: flip_by_tfidf(codes(2, 2), 2, 0.5, wrong([1.0, 2.0]), rng()), "weights"),
        (lambda: tfidf_weights(wrong([[1.0]])), "counts"),
    ],
)
def test_bad_input_refused(call: Callable[[], object], name: str) -> None:
    """Each argument says what it expects."""
    with pytest.raises(InputError) as refused:
        call()
    assert str(refused.value).startswith(name)


def test_smoothed_hubness_reaches_those_that_are_nobodys_neighbour() -> None:
    """In proportion to N_k + 1, also where enough others are somebody's neighbour."""
    labels, occurrences = np.zeros(400, np.int64), np.repeat([0, 1, 3, 0], 100)
    flips, source = np.zeros(4), np.random.default_rng(0)
    for _ in range(300):
        noisy = flip_by_hubness(labels, 2, 0.01, occurrences, source, smoothed=True)
        flips += noisy.reshape(4, 100).sum(axis=1)
    np.testing.assert_allclose(flips / flips.sum(), np.array([1, 2, 4, 1]) / 8, atol=0.04)


def test_neighbours_that_are_just_enough_are_all_taken() -> None:
    """Who is nobody's neighbour is flipped only where all others are."""
    occurrences = np.repeat([5, 0], 5)
    for seed in range(20):
        source = np.random.default_rng(seed)
        noisy = flip_by_hubness(np.zeros(10, np.int64), 2, 0.5, occurrences, source)
        assert noisy.tolist() == [1] * 5 + [0] * 5


def test_hubs_that_are_too_few_by_one_smooth_the_draw() -> None:
    """Of five points .55 are 3 labels: with two hubs any of the others may be the third."""
    labels, k_occurrences = np.zeros(5, np.int64), np.array([3, 3, 0, 0, 0])
    flipped = [
        flip_by_hubness(labels, 2, 0.55, k_occurrences, np.random.default_rng(seed))
        for seed in range(50)
    ]
    assert {int(each.sum()) for each in flipped} == {3}
    # Unsmoothed, the last one would always be the first of those without occurrences.
    assert all(sum(each[i] for each in flipped) > 0 for i in range(5))
