"""Noise rates as the two levels of a mixture, fitted by maximum likelihood.

Given scores of the labels for each instance (from a network that did not see that round), the
feedback of a round that showed label j is modelled as

    P(feedback = 1 | x, j) = rho_0[j] + beta[j] p,    beta = 1 - rho_0 - rho_1,
    p = P(j is right | x, j was shown) = sigmoid(log odds of j in softmax(T scores) + offset).

The rates, the temperature T and the offset are fitted together. T undoes the network's over- or
under-confidence, which is what ruins a rule that reads extremes. The offset says what the choice
itself tells: a learner that is right in 85 % of its rounds knows something that a network
trained on the same clicks may not.

`fit_levels` fits once, `level_errors` tells how well the rates are known;
`learners.noise.block_fit` decides between common rates and rates for each label.
Needs scipy, so nothing here is imported with the package.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from learners.blas import product
from learners.noise.rates import NOTHING_KNOWN
from learners.validation import FloatArray, IntArray

#: Bounds of log T, of the offset, and of the rates' log odds (1e-4 to 1 - 1e-4): far beyond what
#: fits need, so that no data, however odd, lead to an infinity.
_LOG_T = 3.0
_OFFSET = 12.0
_LOG_ODDS = 9.2
#: Standard deviations of the weak priors on log T and the offset. They hold both in place where
#: the data say nothing, and weigh less than one round where they do.
_LOG_T_SD = 1.0
_OFFSET_SD = 3.0


class Levels(NamedTuple):
    """A fitted mixture.

    Attributes
    ----------
    log_temperature, offset
        log T and the offset: how the scores become P(right).
    rho_0, rho_1
        Shape (1,) for rates common to all labels, or (K,) for one pair a label.
    loss
        Mean negative log likelihood of a round, in nats; without priors.
    """

    log_temperature: float
    offset: float
    rho_0: FloatArray
    rho_1: FloatArray
    loss: float


class LabelPrior(NamedTuple):
    """Beta priors of the labels' rates: mean, and how many rounds it counts for."""

    mean_0: float
    count_0: float
    mean_1: float
    count_1: float


#: Counts for nothing.
NO_PRIOR = LabelPrior(0.5, 0.0, 0.5, 0.0)


class Rounds(NamedTuple):
    """What is fitted to, as `rounds_of` makes it.

    Attributes
    ----------
    lead
        By how much each round's own label scored above the best other one, shape (n,).
    behind
        Each other label's score, less the best other one's, shape (K - 1, n): a fit passes over
        it a hundred times, and sums over the first axis are the fast ones.
    labels
        The shown labels' codes, shape (n,), int64.
    feedback
        Shape (n,), float64, each 0 or 1.
    """

    lead: FloatArray
    behind: FloatArray
    labels: IntArray
    feedback: FloatArray

    @property
    def n_labels(self) -> int:
        """K."""
        return len(self.behind) + 1

    def some(self, chosen: NDArray[np.bool_]) -> Rounds:
        """Return the chosen rounds only."""
        return Rounds(
            self.lead[chosen],
            self.behind[:, chosen],
            self.labels[chosen],
            self.feedback[chosen],
        )


def rounds_of(scores: NDArray[np.floating], labels: IntArray, feedback: NDArray[Any]) -> Rounds:
    """Return the rounds of these scores (unnormalised log probabilities, shape (n, K), K >= 2).

    Examples
    --------
    >>> rounds = rounds_of(np.array([[1.0, 4.0, 3.0]]), np.array([1]), np.array([1]))
    >>> rounds.lead, rounds.behind.ravel()
    (array([1.]), array([-2.,  0.]))
    """
    n, n_labels = scores.shape
    is_other = np.arange(n_labels) != labels[:, np.newaxis]
    others = scores[is_other].reshape(n, n_labels - 1).T.astype(np.float64, order="C")
    most = others.max(axis=0)
    lead = scores[np.arange(n), labels] - most
    others -= most
    return Rounds(lead, others, labels, feedback.astype(np.float64))


def first_levels(feedback: FloatArray, n_rates: int = 1) -> Levels:
    """Return where a fit begins when nothing is known but how many clicks there are."""
    clicks = float(np.clip(feedback.mean(), 0.01, 0.99))
    rho_0, rho_1 = np.full(n_rates, 0.7 * clicks), np.full(n_rates, 0.5 * (1.0 - clicks))
    return Levels(0.0, 0.0, rho_0, rho_1, np.inf)


def right_odds(log_temperature: float, rounds: Rounds) -> tuple[FloatArray, FloatArray]:
    """Return the log odds of each shown label in its softmax, and their slope in log T.

    Examples
    --------
    >>> scores = np.log([[0.2, 0.3, 0.5]])
    >>> odds, slope = right_odds(0.0, rounds_of(scores, np.array([2]), np.array([1])))
    >>> odds.round(6)
    array([0.])
    """
    temperature = np.exp(log_temperature)
    weights = np.exp(temperature * rounds.behind)
    total = weights.sum(axis=0)
    weights *= rounds.behind
    slope = temperature * (rounds.lead - weights.sum(axis=0) / total)
    return temperature * rounds.lead - np.log(total), slope


def right_probability(levels: Levels, rounds: Rounds) -> FloatArray:
    """Return P(the shown label was right | x, shown) of each round, shape (n,)."""
    odds, _ = right_odds(levels.log_temperature, rounds)
    return sigmoid(odds + levels.offset)


def fit_levels(
    rounds: Rounds, start: Levels, prior: LabelPrior = NO_PRIOR, *, tolerance: float = 1e-9
) -> Levels:
    """Fit the mixture from `start`, with as many pairs of rates as `start` has.

    Use it with one pair for rates common to all labels;
    `learners.noise.block_fit.fit_block` decides between that and one pair a label.
    L-BFGS on the log likelihood with its exact gradient; the rates move in log odds. A local
    optimum is what comes back; from scores that agree with the clicks it has been the same from
    every start tried.

    Parameters
    ----------
    rounds
        n >= 1 rounds whose scores came from a network that did not see them.
    start
        Rates of shape (1,) or (K,), and the temperature and offset to begin with.
    prior
        Of each rate, as if so many rounds with that outcome had been seen besides.
    tolerance
        The fit ends when a step improves the loss by less than this share; default 1e-9.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> right = rng.random(4000) < 0.5
    >>> scores = np.where(right, 4.0, -4.0)[:, np.newaxis] * [1.0, 0.0]
    >>> clicks = (rng.random(4000) < np.where(right, 0.8, 0.1)).astype(np.float64)
    >>> rounds = rounds_of(scores, np.zeros(4000, dtype=np.int64), clicks)
    >>> levels = fit_levels(rounds, first_levels(clicks))
    >>> levels.rho_0.round(1), levels.rho_1.round(1)
    (array([0.1]), array([0.2]))
    """
    n_rates = len(start.rho_0)
    begin = np.concatenate(
        [
            [start.log_temperature, start.offset],
            _log_odds(start.rho_0),
            _log_odds(start.rho_1),
        ]
    )
    bounds = [(-_LOG_T, _LOG_T), (-_OFFSET, _OFFSET)] + [(-_LOG_ODDS, _LOG_ODDS)] * (2 * n_rates)
    found = minimize(
        _objective,
        begin,
        args=(rounds, prior),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": 60, "ftol": tolerance, "gtol": 1e-6},
    ).x
    levels = _levels(found)
    return levels._replace(loss=float(_slopes(levels, rounds).losses.mean()))


def level_errors(
    levels: Levels, rounds: Rounds, prior: LabelPrior = NO_PRIOR
) -> tuple[FloatArray, FloatArray]:
    """Return standard errors of rho_0 and rho_1, in the shape of the rates.

    From the outer products of the rounds' gradients (temperature and offset taken as unknown
    too), turned from log odds into rates; never below 1 / (1 + rounds that bear on the rate), as
    a rate of 0 among m rounds may still be 1 / m.
    """
    n_rates = len(levels.rho_0)
    group = _group(levels, rounds.labels)
    slopes = _slopes(levels, rounds)
    own = np.stack([slopes.rho_0, slopes.rho_1])
    scale = np.stack([slopes.temperature, slopes.offset])
    size = 2 + 2 * n_rates
    told = np.zeros((size, size))
    told[:2, :2] = product(scale, scale.T)
    told[0, 0] += 1.0 / _LOG_T_SD**2
    told[1, 1] += 1.0 / _OFFSET_SD**2
    labels = np.arange(n_rates)
    for i in range(2):
        at_i = 2 + i * n_rates + labels
        for k in range(2):
            told[k, at_i] = told[at_i, k] = np.bincount(group, scale[k] * own[i], n_rates)
            told[at_i, 2 + k * n_rates + labels] = np.bincount(group, own[i] * own[k], n_rates)
    rates = np.concatenate([levels.rho_0, levels.rho_1])
    places = 2 + np.arange(2 * n_rates)
    counts = np.repeat([prior.count_0, prior.count_1], n_rates)
    told[places, places] += (counts + 1.0) * rates * (1.0 - rates)
    wide = np.sqrt(np.diag(np.linalg.pinv(told, hermitian=True)).clip(0.0)[places])
    right = right_probability(levels, rounds)
    bearing = [np.bincount(group, each, n_rates) for each in (1.0 - right, right)]
    least = 1.0 / (1.0 + np.concatenate(bearing))
    errors = np.minimum(np.maximum(wide * rates * (1.0 - rates), least), NOTHING_KNOWN)
    return errors[:n_rates], errors[n_rates:]


class _Slopes(NamedTuple):
    """Each round's negative log likelihood and its gradient, shapes (n,)."""

    losses: FloatArray
    temperature: FloatArray
    offset: FloatArray
    rho_0: FloatArray
    rho_1: FloatArray


def _slopes(levels: Levels, rounds: Rounds) -> _Slopes:
    """Differentiate; the rates in log odds, each round by the rates of its own group."""
    odds, odds_slope = right_odds(levels.log_temperature, rounds)
    right = sigmoid(odds + levels.offset)
    group = _group(levels, rounds.labels)
    rho_0, rho_1 = levels.rho_0[group], levels.rho_1[group]
    clicked = clipped(rho_0 + (1.0 - rho_0 - rho_1) * right)
    by_clicked = (clicked - rounds.feedback) / (clicked * (1.0 - clicked))
    by_odds = by_clicked * (1.0 - rho_0 - rho_1) * right * (1.0 - right)
    return _Slopes(
        -np.log(np.where(rounds.feedback == 1, clicked, 1.0 - clicked)),
        by_odds * odds_slope,
        by_odds,
        by_clicked * (1.0 - right) * rho_0 * (1.0 - rho_0),
        -by_clicked * right * rho_1 * (1.0 - rho_1),
    )


def _objective(theta: FloatArray, rounds: Rounds, prior: LabelPrior) -> tuple[float, FloatArray]:
    """Return the mean penalised loss and its gradient in (log T, offset, log odds of rates)."""
    levels = _levels(theta)
    slopes = _slopes(levels, rounds)
    n, n_rates = len(rounds.labels), len(levels.rho_0)
    group = _group(levels, rounds.labels)
    loss = float(slopes.losses.sum())
    loss += 0.5 * (theta[0] / _LOG_T_SD) ** 2 + 0.5 * (theta[1] / _OFFSET_SD) ** 2
    gradients = [
        np.array([slopes.temperature.sum() + theta[0] / _LOG_T_SD**2]),
        np.array([slopes.offset.sum() + theta[1] / _OFFSET_SD**2]),
    ]
    for rates, slope, mean, count in (
        (levels.rho_0, slopes.rho_0, prior.mean_0, prior.count_0),
        (levels.rho_1, slopes.rho_1, prior.mean_1, prior.count_1),
    ):
        loss -= count * float((mean * np.log(rates) + (1.0 - mean) * np.log1p(-rates)).sum())
        gradients.append(np.bincount(group, slope, n_rates) - count * (mean - rates))
    return loss / n, np.concatenate(gradients) / n


def _levels(theta: FloatArray) -> Levels:
    """Return the levels of (log T, offset, log odds of rates), of which no loss is known yet."""
    n_rates = (len(theta) - 2) // 2
    rates = sigmoid(theta[2:])
    return Levels(float(theta[0]), float(theta[1]), rates[:n_rates], rates[n_rates:], np.inf)


def _group(levels: Levels, labels: IntArray) -> IntArray:
    return labels if len(levels.rho_0) > 1 else np.zeros_like(labels)


def sigmoid(values: FloatArray) -> FloatArray:
    """Return 1 / (1 + exp(-values)), without overflow."""
    result: FloatArray = 1.0 / (1.0 + np.exp(-np.clip(values, -40.0, 40.0)))
    return result


def _log_odds(rates: FloatArray) -> FloatArray:
    inside = np.clip(rates, 1e-4, 1.0 - 1e-4)
    result: FloatArray = np.log(inside) - np.log1p(-inside)
    return result.clip(-_LOG_ODDS, _LOG_ODDS)


def clipped(probabilities: FloatArray) -> FloatArray:
    """Keep probabilities off 0 and 1, where one round would outweigh all others."""
    return probabilities.clip(1e-9, 1.0 - 1e-9)
