"""Models of noise: flipped bits, and labels replaced by others.

Every function takes its generator, leaves its inputs alone and returns a new array. Label noise
belongs on training labels only.

flip_bit, flip_bits, flip_bits_by_label
    False and missed clicks, or binary labels: independent, one rate for each value.
flip_uniform
    A label becomes any other with equal probability; a rate for each point, or an exact count.
flip_by_matrix
    A label becomes another with probabilities that depend on it.
flip_by_hubness
    An exact count of labels, the likelier the more often a point is a neighbour of others.
flip_by_tfidf, tfidf_weights
    An exact count of labels, poor and common documents first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from learners.errors import InputError, expected
from learners.noise.rates import NoiseRates
from learners.validation import (
    FloatArray,
    IntArray,
    check_codes,
    check_numbers,
    is_integer,
    is_number,
)

#: What a document of TF-IDF weight 0 (empty, or of terms that all documents have) counts for, so
#: that its inverse is finite; far below any weight that counts give, so that such documents go
#: first.
_LEAST_TFIDF = 1e-9

#: How far a row of a transition matrix may be from summing to 1: the rounding of decimals.
_ROW_SUM_TOLERANCE = 1e-9


def flip_bit(bit: int, rates: NoiseRates, uniform: float) -> int:
    """Flip one bit of feedback if `uniform`, a number in [0, 1), falls below its rate.

    Examples
    --------
    >>> flip_bit(1, NoiseRates(rho_0=0.1, rho_1=0.3), 0.2)
    0
    """
    return 1 - bit if uniform < (rates.rho_1 if bit else rates.rho_0) else bit


def flip_bits(bits: IntArray, rates: NoiseRates, rng: np.random.Generator) -> IntArray:
    """Flip each bit independently: 0 to 1 with rho_0, 1 to 0 with rho_1.

    For feedback, and for binary labels, where it is class-conditional noise (CCN): there
    ``NoiseRates.from_tau`` takes that literature's names.

    Parameters
    ----------
    bits
        int64 of shape (n,), each 0 or 1.
    rates
        The two rates.
    rng
        Draws n uniforms, whatever the bits.

    Raises
    ------
    InputError
        If `bits` is not such an array.

    Examples
    --------
    >>> flip_bits(np.zeros(8, dtype=np.int64), NoiseRates(0.5, 0), np.random.default_rng(0))
    array([0, 1, 1, 1, 0, 0, 0, 0])
    """
    check_codes("bits", bits, 2, int64=True)
    return _flip_below(bits, np.array([rates.rho_0, rates.rho_1])[bits], rng)


def flip_bits_by_label(
    bits: IntArray, labels: IntArray, rates: Sequence[NoiseRates], rng: np.random.Generator
) -> IntArray:
    """Flip each bit of feedback with the rates of the label that was shown.

    Parameters
    ----------
    bits
        int64 of shape (n,), each 0 or 1.
    labels
        int64 of shape (n,), the shown labels' codes.
    rates
        The rates of each of the K labels.
    rng
        Draws n uniforms, whatever the bits.

    Raises
    ------
    InputError
        If an array is not as said, or they differ in length.
    """
    check_codes("bits", bits, 2, int64=True)
    if not len(rates):
        raise InputError(expected("rates", "those of at least one label", rates))
    check_codes("labels", labels, len(rates), size=len(bits), int64=True)
    table = np.array([(each.rho_0, each.rho_1) for each in rates])
    return _flip_below(bits, table[labels, bits], rng)


def flip_uniform(
    labels: IntArray,
    n_labels: int,
    rate: float,
    rng: np.random.Generator,
    *,
    exact_count: bool = False,
) -> IntArray:
    """Replace labels at one rate, each by any of the n_labels - 1 others with equal probability.

    Parameters
    ----------
    labels
        int64 of shape (n,), codes in [0, n_labels).
    n_labels
        Number of classes, at least 2.
    rate
        Probability with which each label is replaced, in [0, 1].
    rng
        The generator.
    exact_count
        Replace exactly ``round(rate * n)`` labels, at random places; by default each is
        replaced or not independently.

    Raises
    ------
    InputError
        If an argument is not as said.
    """
    _check_flip(labels, n_labels, rate)
    n = len(labels)
    if exact_count:
        chosen = rng.permutation(n)[: round(rate * n)]
    else:
        chosen = np.flatnonzero(rng.random(n) < rate)
    return _replace(labels, n_labels, chosen, rng)


def flip_by_matrix(labels: IntArray, matrix: FloatArray, rng: np.random.Generator) -> IntArray:
    """Draw each noisy label from the row of its true label: general class-conditional noise.

    Parameters
    ----------
    labels
        int64 of shape (n,), codes in [0, C).
    matrix
        Float of shape (C, C): ``matrix[i, j]`` = P(noisy label j | true label i).
    rng
        Draws n uniforms.

    Raises
    ------
    InputError
        If `matrix` is not square with rows of probabilities that sum to 1, or `labels` not as
        said.
    """
    check_numbers("matrix", matrix, 2)
    if matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise InputError(expected("matrix", "shape (C, C)", matrix.shape))
    sums = np.add.reduce(matrix, 1)
    # Written so that NaN, which compares as false, is among the bad.
    bad = np.flatnonzero(~((matrix >= 0).all(1) & (np.abs(sums - 1) <= _ROW_SUM_TOLERANCE)))
    if len(bad):
        what = "probabilities with sum 1"
        raise InputError(expected(f"matrix[{bad[0]}]", what, matrix[bad[0]]))
    check_codes("labels", labels, len(matrix), int64=True)
    # The last code that a row can give takes what rounding leaves of the sum.
    last = len(matrix) - 1 - np.argmax(matrix[:, ::-1] > 0, axis=1)
    below = np.add.accumulate(matrix, 1)[labels] <= rng.random(len(labels))[:, np.newaxis]
    noisy: IntArray = np.minimum(np.count_nonzero(below, axis=1), last[labels])
    return noisy


def flip_by_hubness(
    labels: IntArray,
    n_labels: int,
    rate: float,
    k_occurrences: IntArray,
    rng: np.random.Generator,
    *,
    smoothed: bool = False,
) -> IntArray:
    """Replace exactly ``round(rate * n)`` labels, drawn in proportion to their k-occurrence.

    The worst noise for nearest neighbours: the points that most others look at are wrong.

    Parameters
    ----------
    labels
        int64 of shape (n,), codes in [0, n_labels).
    n_labels
        Number of classes, at least 2.
    rate
        Share of labels to replace, in [0, 1].
    k_occurrences
        int64 of shape (n,): N_k, in how many others' neighbour lists each point is.
    rng
        The generator.
    smoothed
        Draw in proportion to N_k + 1. By default to N_k, which never takes a point with
        N_k = 0, unless too few points have N_k > 0: then it is smoothed all the same.

    Raises
    ------
    InputError
        If an argument is not as said.

    References
    ----------
    .. [1] Tomasev and Buza, *Hubness-aware kNN classification of high-dimensional data in
       presence of label noise*, 2015.
    """
    _check_flip(labels, n_labels, rate)
    _check_counts("k_occurrences", k_occurrences, len(labels))
    weights = k_occurrences.astype(np.float64)
    if smoothed or np.count_nonzero(weights) < round(rate * len(labels)):
        weights += 1.0
    return _replace(labels, n_labels, _draw_distinct(weights, rate, rng), rng)


def tfidf_weights(counts: FloatArray) -> FloatArray:
    """Return each document's sum of term counts times log(N / document frequency), shape (n,).

    Parameters
    ----------
    counts
        Float of shape (n, terms): how often each term is in each document, at least 0.

    Raises
    ------
    InputError
        If a count is negative or not finite.

    Examples
    --------
    >>> tfidf_weights(np.array([[2.0, 0.0], [1.0, 1.0]])).round(3).tolist()
    [0.0, 0.693]
    """
    check_numbers("counts", counts, 2)
    if not ((counts >= 0) & (counts < np.inf)).all():
        raise InputError(expected("counts", "finite counts of shape (n, terms)", counts))
    frequencies = np.count_nonzero(counts, axis=0)
    rarity = np.log(max(len(counts), 1) / np.maximum(frequencies, 1))
    weights: FloatArray = np.add.reduce(counts * rarity, 1)
    return weights


def flip_by_tfidf(
    labels: IntArray,
    n_labels: int,
    rate: float,
    weights: FloatArray,
    rng: np.random.Generator,
    *,
    deterministic: bool = False,
) -> IntArray:
    """Replace exactly ``round(rate * n)`` labels, those of documents that say little first.

    Parameters
    ----------
    labels
        int64 of shape (n,), codes in [0, n_labels).
    n_labels
        Number of classes, at least 2.
    rate
        Share of labels to replace, in [0, 1].
    weights
        Float of shape (n,), from `tfidf_weights`.
    rng
        The generator.
    deterministic
        Take those with the lowest weights, lower index first; by default they are drawn in
        proportion to 1 / weight.

    Raises
    ------
    InputError
        If an argument is not as said.

    References
    ----------
    .. [1] Tomasev and Buza, 2015, section 5.2.
    """
    _check_flip(labels, n_labels, rate)
    _check_counts("weights", weights, len(labels))
    if deterministic:
        chosen = np.argsort(weights, kind="stable")[: round(rate * len(labels))]
    else:
        chosen = _draw_distinct(1.0 / np.maximum(weights, _LEAST_TFIDF), rate, rng)
    return _replace(labels, n_labels, chosen, rng)


def _draw_distinct(weights: FloatArray, rate: float, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw ``round(rate * n)`` places, each in proportion to its weight among those left.

    In one go: the first arrivals of a race in which each place has the rate of its weight.
    """
    arrivals = np.full(len(weights), np.inf)
    np.divide(rng.standard_exponential(len(weights)), weights, out=arrivals, where=weights > 0)
    return np.argsort(arrivals, kind="stable")[: round(rate * len(weights))]


def _flip_below(bits: IntArray, rates: FloatArray, rng: np.random.Generator) -> IntArray:
    return np.where(rng.random(len(bits)) < rates, 1 - bits, bits)


def _replace(
    labels: IntArray, n_labels: int, chosen: NDArray[np.intp], rng: np.random.Generator
) -> IntArray:
    """Replace the `chosen` labels, each by any other label with equal probability."""
    noisy = labels.copy()
    noisy[chosen] = (labels[chosen] + rng.integers(1, n_labels, len(chosen))) % n_labels
    return noisy


def _check_flip(labels: IntArray, n_labels: int, rate: float) -> None:
    if not is_integer(n_labels) or n_labels < 2:
        raise InputError(expected("n_labels", "an integer of at least 2", n_labels))
    if not is_number(rate) or not 0 <= rate <= 1:
        raise InputError(expected("rate", "a number in [0, 1]", rate))
    check_codes("labels", labels, n_labels, int64=True)


def _check_counts(name: str, values: FloatArray | IntArray, size: int) -> None:
    """Raise InputError unless these are so many finite numbers of at least 0."""
    check_numbers(name, values, 1)
    # Written so that NaN, which compares as false, is among the bad.
    if len(values) != size or not ((values >= 0) & (values < np.inf)).all():
        raise InputError(expected(name, f"{size} finite numbers of at least 0", values))
