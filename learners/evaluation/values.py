"""Estimates of a policy's value from rounds that another policy logged.

The value is the probability that the label which the policy shows is the right one, whatever
was clicked. With h the corrected bit, p the logged propensity and w = pi(label | x) / p::

    IPS    v = mean(w h)                                                                [1]_
    SNIPS  v = sum(w h) / sum(w)                                                        [2]_
    DR     v = mean(sum_r pi(r | x) q(x, r) + w (h - q(x, label)))                      [3]_
    gain   g = mean(sum_r pi(r | x) q(x, r) + w (h - q(x, label)) - h)
    h = (feedback - rho_0) / (1 - rho_0 - rho_1),  with the rates of the shown label    [4]_

Over the noise the mean of h is 1 where the label was right and 0 where it was wrong, so what holds
for the three with clean bits holds with flipped ones. Without the correction they estimate how
often the policy is clicked, which is another number. The gain is how much a policy beats what was
shown, or another policy, round by round: what both have in common (hard rounds, doubtful rates)
enters it once, with its sign in the difference.

The interval is the normal one with two additions. The variance includes one unseen round more, with
the label and weight of a seen one and the most surprising bit: otherwise a policy followed in only
a few rounds, all with the same bit, would seem to leave no doubt. And estimated rates add the
variance that their standard errors imply (delta method).

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

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from learners.errors import InputError, expected
from learners.evaluation.prediction import predict_rewards
from learners.evaluation.rounds import AssumedRates, Rounds, check_rounds
from learners.validation import FloatArray, check_codes, check_numbers

#: Two-sided 95 % of a normal distribution, in standard errors.
Z_95 = 1.959964


class Value(NamedTuple):
    """An estimated value with its 95 % interval.

    Attributes
    ----------
    value
        The estimate. It is unbiased (SNIPS: nearly), so it may lie outside [0, 1].
    error
        Its standard error, including that of the rates; infinite where every weight is 0.
    low, high
        The interval.
    """

    value: float
    error: float
    low: float
    high: float


class Evaluation:
    """Estimates of what policies are worth, from one log and one assumption about its noise.

    Use `doubly_robust` where all probabilities of the policy are known, else `snips`; `ips` is
    there because nothing is simpler to check. None of them helps where the policy does what the log
    hardly shows: the effective size and the interval say so. Where no round did what the policy
    does (every weight is 0) nothing is known of it: its error is infinite.

    Parameters
    ----------
    rounds
        The log.
    rates
        What its bits are corrected by; `AssumedRates.same(NoiseRates(), K)` for no correction.

    Raises
    ------
    InputError
        If `rounds` are not as said, or fewer than two.

    Examples
    --------
    >>> from learners.noise import NoiseRates
    >>> rounds = Rounds(np.ones((4, 1)), np.zeros(4, np.int64), np.full(4, 0.5),
    ...                 np.array([1, 0, 1, 1]))
    >>> evaluation = Evaluation(rounds, AssumedRates.same(NoiseRates(0.5, 0.0), 1))
    >>> evaluation.ips(np.ones(4)).value
    0.5
    """

    def __init__(self, rounds: Rounds, rates: AssumedRates) -> None:
        check_rounds(rounds, rates.n_labels)
        self.rounds = rounds
        self.rates = rates
        self._rewards = rates.rewards(rounds.labels, rounds.feedback)
        self._beta = rates.beta[rounds.labels]

    def only(self, which: NDArray[np.intp]) -> Evaluation:
        """Return the evaluation of some of the rounds, by the predictions made from all.

        For a policy that only these rounds tell about.

        Parameters
        ----------
        which
            Their places, int (m,) with m at least 2.

        Raises
        ------
        InputError
            If they are no places of rounds, or fewer than two.

        Examples
        --------
        >>> from learners.noise import NoiseRates
        >>> rounds = Rounds(np.ones((4, 1)), np.zeros(4, np.int64), np.full(4, 0.5),
        ...                 np.array([1, 0, 1, 1]))
        >>> evaluation = Evaluation(rounds, AssumedRates.same(NoiseRates(), 1))
        >>> evaluation.only(np.array([2, 3])).ips(np.ones(2)).value
        1.0
        """
        xs, labels, propensities, feedback = self.rounds
        check_codes("which", which, len(labels))
        rounds = Rounds(xs[which], labels[which], propensities[which], feedback[which])
        part = Evaluation(rounds, self.rates)
        part.predicted = self.predicted[which]
        return part

    @cached_property
    def predicted(self) -> FloatArray:
        """How probably each label is right in each round, shape (n, K): see `predict_rewards`."""
        return predict_rewards(self.rounds, self.rates)

    def ips(self, weights: FloatArray) -> Value:
        """Return the inverse propensity estimate: unbiased, and wide where weights are large.

        Parameters
        ----------
        weights
            Probability that the policy shows the logged label over its propensity, float64 (n,),
            finite, at least 0 (`weights_of`); 1 in each round for the policy that logged.

        Raises
        ------
        InputError
            If `weights` are not as said.
        """
        self._check(weights=weights)
        terms = weights * self._rewards
        value = float(terms.mean())
        return self._value(value, terms - value, weights) if weights.any() else _unknown(value)

    def snips(self, weights: FloatArray) -> Value | None:
        """Return the self-normalised estimate: narrower, with a bias that vanishes.

        Parameter and error are those of `ips`. None where every weight is 0.
        """
        self._check(weights=weights)
        if not weights.any():
            return None
        total = float(weights.sum())
        # Shares first: with the smallest weights possible, total / n would be 0.
        shares = weights / total
        value = float((shares * self._rewards).sum())
        scaled = shares * len(weights)
        return self._value(value, scaled * (self._rewards - value), scaled)

    def doubly_robust(self, weights: FloatArray, followed: FloatArray) -> Value:
        """Return the doubly robust estimate: unbiased, and narrow where the predictions are good.

        Parameters
        ----------
        weights
            As for `ips`.
        followed
            What the predictions say of the policy, float64 (n,), at least 0:
            ``(probabilities * predicted).sum(1)``, or ``predicted[:, r]`` for always showing r.

        Raises
        ------
        InputError
            If an array is not as said.
        """
        shown = self._shown(weights, followed)
        terms = followed + weights * (self._rewards - shown)
        value = float(terms.mean())
        return self._value(value, terms - value, weights) if weights.any() else _unknown(value)

    def gain(
        self,
        weights: FloatArray,
        followed: FloatArray,
        over: tuple[FloatArray, FloatArray] | None = None,
    ) -> Value:
        """Return how much more the policy is worth than another, doubly robust, round by round.

        Use it to decide between the two: their separate intervals say less, because most of the
        doubt is common to both. Below 0 where the other was better; 0, without an interval, for a
        policy that does just what the other does.

        Parameters
        ----------
        weights, followed
            As for `doubly_robust`.
        over
            The same of the other policy; by default what was shown.

        Raises
        ------
        InputError
            If an array is not as said.
        """
        shown = self._shown(weights, followed)
        others, other = (np.ones_like(weights), shown) if over is None else over
        self._check(**{"over[0]": others, "over[1]": other})
        # In this order, so that what was shown gains exactly 0 over itself.
        more = weights - others
        terms = (followed - other) + more * (self._rewards - shown)
        gain = float(terms.mean())
        if not weights.any() or not others.any():
            # One of them was never followed: all that is known of it is predicted.
            return _unknown(gain)
        return self._value(gain, terms - gain, more, float(self._rewards.mean()))

    def _shown(self, weights: FloatArray, followed: FloatArray) -> FloatArray:
        """Return how probably what was shown is right, as predicted."""
        self._check(weights=weights, followed=followed)
        shown: FloatArray = self.predicted[np.arange(len(weights)), self.rounds.labels]
        return shown

    def _value(
        self, value: float, moves: FloatArray, weights: FloatArray, usual: float | None = None
    ) -> Value:
        """Return the value with its interval.

        `moves` is what each round moves it by, times n, `weights` by how much its bit does, and
        `usual` what a bit usually is, where that is not the value.
        """
        n_rounds = len(moves)
        level = value if usual is None else usual
        surprises = _surprises(level, self.rates)[self.rounds.labels]
        surprise = float((np.abs(weights) * surprises).max())
        # Not surprise**2: for a float whose square overflows, that raises instead of being
        # infinite.
        squares = float((moves**2).sum()) + surprise * surprise
        variance = squares / (n_rounds * (n_rounds - 1)) + self._rates_variance(weights)
        error = float(np.sqrt(variance))
        return Value(value, error, value - Z_95 * error, value + Z_95 * error)

    def _rates_variance(self, weights: FloatArray) -> float:
        """Return the variance of the estimate that comes from the rates' errors.

        dh / d rho_0 = (h - 1) / beta and dh / d rho_1 = h / beta; what the predictions of DR
        change by has mean 0.
        """
        pulls = weights / self._beta / len(weights)
        rates, variance = self.rates, 0.0
        for errors, slopes in (
            (rates.rho_0_error, pulls * (self._rewards - 1.0)),
            (rates.rho_1_error, pulls * self._rewards),
        ):
            moves = np.bincount(self.rounds.labels, slopes, rates.n_labels) * errors
            if rates.sharing != "own":
                together = float(moves.sum())
                variance += together * together
            if rates.sharing != "one":
                variance += float((moves**2).sum())
        return variance

    def _check(self, **each: FloatArray) -> None:
        n_rounds = len(self._rewards)
        for name, values in each.items():
            _check_finite(name, values)
            if len(values) != n_rounds:
                raise InputError(expected(name, f"{n_rounds} numbers", len(values)))


def _check_finite(name: str, values: FloatArray) -> None:
    """Raise InputError unless these are finite numbers of at least 0, (n,)."""
    check_numbers(name, values, 1)
    # Written so that NaN, which compares as false, is among the bad.
    bad = values[~((values >= 0) & (values < np.inf))]
    if len(bad):
        raise InputError(expected(name, "finite numbers of at least 0", float(bad[0])))


def weights_of(rounds: Rounds, probabilities: FloatArray) -> FloatArray:
    """Return the importance weight of each round, shape (n,), of a policy (n, K).

    Raises
    ------
    InputError
        If the probabilities have another shape.

    Examples
    --------
    >>> rounds = Rounds(np.ones((2, 1)), np.array([0, 1]), np.full(2, 0.5), np.array([1, 0]))
    >>> weights_of(rounds, np.array([[1.0, 0.0], [0.75, 0.25]])).tolist()
    [2.0, 0.5]
    """
    labels = rounds.labels
    check_numbers("probabilities", probabilities, 2)
    if len(probabilities) != len(labels):
        raise InputError(expected("probabilities", f"({len(labels)}, K)", probabilities.shape))
    check_codes("labels", labels, probabilities.shape[1])
    shown: FloatArray = probabilities[np.arange(len(labels)), labels]
    return shown / rounds.propensities


def effective_size(weights: FloatArray) -> float:
    """Return (sum w)^2 / sum w^2: so many rounds of weight 1 would tell as much.

    Parameters
    ----------
    weights
        As for `Evaluation.ips`.

    Raises
    ------
    InputError
        If `weights` are no finite numbers of at least 0.

    Examples
    --------
    >>> effective_size(np.array([2.0, 2.0, 0.0])), effective_size(np.zeros(2))
    (2.0, 0.0)
    """
    _check_finite("weights", weights)
    largest = float(weights.max(initial=0.0))
    if largest == 0.0:
        return 0.0
    # Squares of weights as they come may be too small, or too large, for a float.
    scaled = weights / largest
    return float(scaled.sum()) ** 2 / float((scaled**2).sum())


def _unknown(value: float) -> Value:
    """Return the value of a policy of which no round tells."""
    return Value(value, np.inf, -np.inf, np.inf)


def _surprises(value: float, rates: AssumedRates) -> FloatArray:
    """Return how far a corrected bit of each label can be from `value`, shape (K,)."""
    likely = min(max(value, 0.0), 1.0)
    low, high = -rates.rho_0 / rates.beta, (1.0 - rates.rho_0) / rates.beta
    return np.maximum(high - likely, likely - low)
