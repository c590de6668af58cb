"""Estimates of a policy's value from rounds that another policy logged.

The value is the probability that the label which the policy shows is the right one, whatever
was clicked. With h the corrected bit, p the logged propensity and w = pi(label | x) / p::

    IPS    v = mean(w h)                                                                [1]_
    SNIPS  v = sum(w h) / sum(w)                                                        [2]_
    DR     v = mean(sum_r pi(r | x) q(x, r) + w (h - q(x, label)))                      [3]_
    h = (feedback - rho_0) / (1 - rho_0 - rho_1),  with the rates of the shown label    [4]_

Over the noise the mean of h is 1 where the label was right and 0 where it was wrong, so what
holds of the three with clean bits holds of them with flipped ones. Without the correction they
estimate how often the policy is clicked, which is another number.

The interval is the normal one with two additions. The variance has one unseen round more, of
the largest weight and with the bit that surprises most: where a policy has been followed in a
few rounds, all with the same bit, they would otherwise seem to leave no doubt. And rates that
are estimates add the variance that their standard errors lead to (delta method).

References
----------
.. [1] Horvitz and Thompson, *A generalization of sampling without replacement from a finite
   universe*, 1952.
.. [2] Swaminathan and Joachims, *The self-normalized estimator for counterfactual learning*,
   2015.
.. [3] Dudik, Langford and Li, *Doubly robust policy evaluation and learning*, 2011.
.. [4] Natarajan, Dhillon, Ravikumar and Tewari, *Learning with noisy labels*, 2013.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from learners.errors import InputError, expected
from learners.evaluation.rounds import AssumedRates, Rounds, check_rounds
from learners.validation import FloatArray

#: Two-sided 95 % of a normal distribution, in standard errors.
Z_95 = 1.959964


class Value(NamedTuple):
    """An estimated value with its 95 % interval.

    Attributes
    ----------
    value
        The estimate. It is unbiased (SNIPS: nearly), so it may lie outside [0, 1].
    error
        Its standard error, that of the rates included.
    low, high
        The interval.
    """

    value: float
    error: float
    low: float
    high: float


def ips(rounds: Rounds, weights: FloatArray, rates: AssumedRates) -> Value:
    """Return the inverse propensity estimate: unbiased, and wide where weights are large.

    Parameters
    ----------
    rounds
        The log.
    weights
        Probability that the policy shows the logged label over its propensity, float64 (n,),
        finite, at least 0; 1 in each round for the policy that logged.
    rates
        What the bits are corrected by.

    Raises
    ------
    InputError
        If `rounds` or `weights` are not as said.

    Examples
    --------
    >>> from learners.noise.rates import NoiseRates
    >>> rounds = Rounds(np.ones((4, 1)), np.zeros(4, np.int64), np.full(4, 0.5),
    ...                 np.array([1, 0, 1, 1]))
    >>> ips(rounds, np.ones(4), AssumedRates.same(NoiseRates(0.5, 0.0), 1)).value
    0.5
    """
    _check(rounds, weights, rates)
    terms = weights * rates.rewards(rounds.labels, rounds.feedback)
    value = float(terms.mean())
    return _value(value, terms - value, rounds, weights, rates)


def snips(rounds: Rounds, weights: FloatArray, rates: AssumedRates) -> Value | None:
    """Return the self-normalised estimate: narrower than `ips`, with a bias that vanishes.

    Parameters and errors are those of `ips`. None where every weight is 0.
    """
    _check(rounds, weights, rates)
    total = float(weights.sum())
    if total == 0.0:
        return None
    rewards = rates.rewards(rounds.labels, rounds.feedback)
    value = float((weights * rewards).sum()) / total
    scaled = weights * (len(weights) / total)
    return _value(value, scaled * (rewards - value), rounds, scaled, rates)


def doubly_robust(
    rounds: Rounds, probabilities: FloatArray, rates: AssumedRates, predicted: FloatArray
) -> Value:
    """Return the doubly robust estimate: unbiased whatever is predicted, narrow where that is good.

    Parameters
    ----------
    rounds
        The log.
    probabilities
        Probability of each label under the policy in each round, float64 (n, K).
    rates
        What the bits are corrected by.
    predicted
        q(x, r): how probably each label is right, float64 (n, K), found without the round it is
        used in, as `predict_rewards` does.

    Raises
    ------
    InputError
        If an array is not as said.
    """
    shape = (len(rounds.labels), rates.n_labels)
    for name, values in (("probabilities", probabilities), ("predicted", predicted)):
        if values.shape != shape or not np.isfinite(values).all():
            raise InputError(expected(name, f"finite numbers {shape}", values.shape))
    weights = weights_of(rounds, probabilities)
    _check(rounds, weights, rates)
    rewards = rates.rewards(rounds.labels, rounds.feedback)
    shown = predicted[np.arange(len(rewards)), rounds.labels]
    terms = (probabilities * predicted).sum(1) + weights * (rewards - shown)
    value = float(terms.mean())
    return _value(value, terms - value, rounds, weights, rates)


def weights_of(rounds: Rounds, probabilities: FloatArray) -> FloatArray:
    """Return the importance weight of each round, shape (n,), of a policy (n, K)."""
    shown: FloatArray = probabilities[np.arange(len(rounds.labels)), rounds.labels]
    return shown / rounds.propensities


def effective_size(weights: FloatArray) -> float:
    """Return (sum w)^2 / sum w^2: as many rounds of weight 1 would tell as much.

    Examples
    --------
    >>> effective_size(np.array([2.0, 2.0, 0.0])), effective_size(np.zeros(2))
    (2.0, 0.0)
    """
    squares = float((weights**2).sum())
    return float(weights.sum()) ** 2 / squares if squares > 0 else 0.0


def _value(
    value: float, moves: FloatArray, rounds: Rounds, weights: FloatArray, rates: AssumedRates
) -> Value:
    """Return the value with its interval; `moves` is by how much each round moves it, times n."""
    n_rounds = len(moves)
    surprise = float(weights.max()) * _largest_surprise(value, rates)
    squares = float((moves**2).sum()) + surprise**2
    variance = squares / (n_rounds * (n_rounds - 1)) + _rates_variance(rounds, weights, rates)
    error = float(np.sqrt(variance))
    return Value(value, error, value - Z_95 * error, value + Z_95 * error)


def _largest_surprise(value: float, rates: AssumedRates) -> float:
    """Return how far one corrected bit can be from `value`."""
    likely = min(max(value, 0.0), 1.0)
    low = float((-rates.rho_0 / rates.beta).min())
    high = float(((1.0 - rates.rho_0) / rates.beta).max())
    return max(high - likely, likely - low)


def _rates_variance(rounds: Rounds, weights: FloatArray, rates: AssumedRates) -> float:
    """Return the variance of the estimate that comes from the rates' errors.

    dh / d rho_0 = (h - 1) / beta and dh / d rho_1 = h / beta; what the predictions of DR change
    by has mean 0.
    """
    pulls = weights / rates.beta[rounds.labels] / len(weights)
    rewards = rates.rewards(rounds.labels, rounds.feedback)
    variance = 0.0
    for errors, slopes in (
        (rates.rho_0_error, pulls * (rewards - 1.0)),
        (rates.rho_1_error, pulls * rewards),
    ):
        moves = np.bincount(rounds.labels, slopes, rates.n_labels) * errors
        variance += float(moves.sum()) ** 2 if rates.shared else float((moves**2).sum())
    return variance


def _check(rounds: Rounds, weights: FloatArray, rates: AssumedRates) -> None:
    check_rounds(rounds, rates.n_labels)
    if weights.shape != rounds.labels.shape or not np.isfinite(weights).all():
        raise InputError(expected("weights", f"{len(rounds.labels)} finite numbers", weights.shape))
    if (weights < 0).any():
        raise InputError(expected("weights", "numbers of at least 0", float(weights.min())))
