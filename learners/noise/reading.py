"""Quantile rules: noise rates read off the predicted q(x, label) = P(feedback = 1 | x, label).

authors
    What the code of Agarwal and Manwani does: one percentile of q over the shown pairs.
per_label
    Their algorithm 3: for each label a low and a high quantile of q over all instances.

Both read extremes, so they inherit the network's over-confidence; `learners.noise.mixture` does
not, and is what `NREst` uses unless told otherwise. Pure functions of numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from learners.errors import InputError, ParameterError, expected
from learners.validation import FloatArray, check_numbers, described, is_number

#: The percentile in the authors' code; they take 94 for SynSep.
AUTHORS_PERCENTILE = 89.0

#: Iterations of `per_label`: how often a label is right follows from the rates, and vice versa.
_ROUNDS = 5

#: The least share of the instances that a label is taken to be right for, in shares of 1 / K:
#: below it the quantile would be one instance's prediction.
_LEAST_SHARE = 0.1


def authors(
    predicted: NDArray[np.floating], *, percentile: float = AUTHORS_PERCENTILE
) -> tuple[float, float]:
    """Read (rho_0, rho_1) as the authors' code does, from q of the pairs that were shown.

    Use it to compare with the paper. Not where a learner is right in more than ``percentile`` % of
    its rounds: rho_0 is then read among the right labels, and beta comes out near 0. Nor where it
    is wrong in more: 1 - rho_1 is then read among the wrong ones.

    For a column v let i(v) be the place of the largest value strictly below the percentile of v
    (the next higher data point where it falls between two). Then ``rho_0 = q[i(1 - q)]`` and
    ``rho_1 = 1 - q[i(q)]`` [1]_. Where no value is below, the largest is read.

    Parameters
    ----------
    predicted
        q of the shown pairs, shape (n,), n >= 1, each in [0, 1].
    percentile
        In (0, 100], default 89.

    Returns
    -------
    tuple of float
        rho_0 and rho_1, each in [0, 1]. Their sum may pass 1.

    Raises
    ------
    InputError
        If `predicted` is empty or no such array.
    ParameterError
        If `percentile` is not in (0, 100].

    References
    ----------
    .. [1] Agarwal and Manwani, *Learning multiclass classifier under noisy bandit feedback*,
       2021, section 3.3, and the code that comes with it.

    Examples
    --------
    >>> authors(np.array([0.1, 0.2, 0.3, 0.7, 0.8, 0.9]), percentile=80)
    (0.3, 0.3)
    """
    if not is_number(percentile) or not 0 < percentile <= 100:
        raise ParameterError(expected("percentile", "a number in (0, 100]", percentile))
    q = _probabilities(predicted, 1)
    rho_0 = q[_below_percentile(1.0 - q, percentile)]
    rho_1 = 1.0 - q[_below_percentile(q, percentile)]
    return round(float(rho_0), 12), round(float(rho_1), 12)


def per_label(predicted: NDArray[np.floating]) -> tuple[FloatArray, FloatArray]:
    """Read rates for each label from q of every instance with every label.

    Algorithm 3 of [1]_ takes the instance with the largest q(x, j) as label j's perfect example,
    and advises a percentile instead of the maximum. A fixed one fails: with K = 10 balanced labels,
    the value below the 89th percentile of q(., j) belongs to an instance of another class. Here the
    share s_j of instances for which j is right is found along with the rates, from
    ``mean q(., j) = rho_0[j] + s_j beta[j]``; the two levels are the medians of the upper s_j and
    of the lower 1 - s_j of the predictions.

    Use it where a network's q is all there is. Not where that q is over-confident, as most trained
    networks are: the error shows up in the rates unchanged.

    Parameters
    ----------
    predicted
        q(x, j), shape (n, K), n >= 1, each in [0, 1].

    Returns
    -------
    tuple of array
        rho_0 and rho_1, each of shape (K,), with ``rho_0 + rho_1 <= 1``.

    Raises
    ------
    InputError
        If `predicted` is empty or no such array.

    References
    ----------
    .. [1] Agarwal and Manwani, *Learning multiclass classifier under noisy bandit feedback*,
       2021, algorithm 3 and theorem 5.

    Examples
    --------
    >>> q = np.array([[0.9, 0.2], [0.9, 0.2], [0.1, 0.8], [0.1, 0.8]])
    >>> rho_0, rho_1 = per_label(q)
    >>> rho_0.round(3), rho_1.round(3)
    (array([0.1, 0.2]), array([0.1, 0.2]))
    """
    q = _probabilities(predicted, 2)
    n_labels = q.shape[1]
    ordered = np.sort(q, axis=0)
    mean = ordered.mean(axis=0)
    # Extremes first: they are on the right side of both levels, if not on them.
    least = _LEAST_SHARE / n_labels
    edge = np.full(n_labels, least)
    low, high = _quantiles(ordered, edge), _quantiles(ordered, 1.0 - edge)
    for _ in range(_ROUNDS):
        share = (mean - low) / np.maximum(high - low, 1e-12)
        share = np.clip(share, least, 1.0 - least)
        low = _quantiles(ordered, (1.0 - share) / 2)
        high = _quantiles(ordered, 1.0 - share / 2)
    return low, 1.0 - high


def _below_percentile(values: FloatArray, percentile: float) -> int:
    """Return the place of the largest value strictly below the percentile, the first of ties."""
    threshold = np.percentile(values, percentile, method="higher")
    below = values < threshold
    if not below.any():
        return int(values.argmax())
    return int(np.where(below, values, -np.inf).argmax())


def _quantiles(ordered: FloatArray, levels: FloatArray) -> FloatArray:
    """Return of each sorted column the quantile at its own level, between two data points."""
    place = levels * (len(ordered) - 1)
    lower = np.floor(place).astype(np.intp)
    upper = np.minimum(lower + 1, len(ordered) - 1)
    columns = np.arange(ordered.shape[1])
    weight = place - lower
    result: FloatArray = (1.0 - weight) * ordered[lower, columns] + weight * ordered[upper, columns]
    return result


def _probabilities(predicted: NDArray[np.floating], n_axes: int) -> FloatArray:
    """Return `predicted` as float64 if it is a filled array of `n_axes` axes within [0, 1]."""
    check_numbers("predicted", predicted, n_axes)
    if not predicted.size:
        raise InputError(f"predicted: expected at least one, got {described(predicted)}")
    # Written so that NaN, which compares as false, is among the bad.
    bad = predicted[~((predicted >= 0) & (predicted <= 1))]
    if len(bad):
        raise InputError(expected("predicted", "probabilities in [0, 1]", float(bad[0])))
    return np.asarray(predicted, dtype=np.float64)
