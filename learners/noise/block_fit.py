"""Rates common to all labels or rates for each: both fitted, and the choice between them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import chdtri

from learners.noise.mixture import (
    LabelPrior,
    Levels,
    Rounds,
    clipped,
    first_levels,
    fit_levels,
    right_probability,
)
from learners.validation import FloatArray, IntArray

#: A label's prior counts for at least and at most so many rounds; `_FIRST_COUNT` is a guess that
#: `fit_block` then replaces.
_LEAST_COUNT, _FIRST_COUNT, _MOST_COUNT = 2.0, 10.0, 1000.0
#: Below this probability of arising by chance, the labels' rates are taken to differ.
_CHANCE = 0.001
#: And how many nats a round their difference must explain. Scores that are wrong for one class as a
#: whole let its rates seem to differ, however many rounds there are: 0.002 has been seen under
#: equal rates, while rates that differ by some .05 explain 0.005 and more.
_MISTAKES_GAIN = 0.004


class BlockFit(NamedTuple):
    """What `fit_block` found.

    Attributes
    ----------
    common
        One pair of rates for all labels.
    labels
        One pair for each label, drawn towards their mean.
    prior
        That mean, and how strongly they were drawn.
    differ
        Whether the labels' rates differ clearly: then `labels` holds, else `common`.
    """

    common: Levels
    labels: Levels
    prior: LabelPrior
    differ: bool

    @property
    def chosen(self) -> Levels:
        """The fit that holds, with rates of shape (K,)."""
        return self.labels if self.differ else _spread(self.common, len(self.labels.rho_0))


def fit_block(
    rounds: Rounds,
    before: BlockFit | None = None,
    *,
    bayes_rounds: int = 3,
    tolerance: float = 1e-9,
) -> BlockFit:
    """Fit common rates and rates for each label, and decide between them.

    The labels' rates are drawn towards their mean as far as the data leave them open (empirical
    Bayes): they are taken as draws from a Beta distribution whose mean and width are fitted
    along with them. A label that was seldom shown, or whose rounds tell little, ends near the
    mean.

    Parameters
    ----------
    rounds
        As for `fit_levels`.
    before
        A fit to similar rounds, to begin from.
    bayes_rounds
        How often the Beta distribution is fitted, default 3; it hardly moves after that.
    tolerance
        As for `fit_levels`.
    """
    n_labels = rounds.n_labels
    start = first_levels(rounds.feedback) if before is None else before.common
    common = fit_levels(rounds, start, tolerance=tolerance)
    if before is None:
        labels = _spread(common, n_labels)
        prior = LabelPrior(
            float(common.rho_0[0]), _FIRST_COUNT, float(common.rho_1[0]), _FIRST_COUNT
        )
    else:
        labels, prior = before.labels, before.prior
    for _ in range(bayes_rounds):
        labels = fit_levels(rounds, labels, prior, tolerance=tolerance)
        told_0, told_1 = _information(labels, rounds)
        prior = LabelPrior(
            *_next_prior(labels.rho_0, told_0, prior.mean_0, prior.count_0),
            *_next_prior(labels.rho_1, told_1, prior.mean_1, prior.count_1),
        )
    return BlockFit(common, labels, prior, _differ(common, labels, rounds))


def _differ(common: Levels, labels: Levels, rounds: Rounds) -> bool:
    """Say whether the labels' own rates explain more than chance and the scores' mistakes do."""
    gain = common.loss - labels.loss
    more = 2.0 * (len(np.unique(rounds.labels)) - 1)
    by_chance = 0.5 * float(chdtri(more, _CHANCE)) / len(rounds.labels)
    return gain > max(by_chance, _MISTAKES_GAIN)


def anchored_levels(rounds: Rounds, common: Levels, prior: LabelPrior) -> Levels:
    """Fit rates for each label, drawn towards the common ones as strongly as `prior` says."""
    anchored = prior._replace(mean_0=float(common.rho_0[0]), mean_1=float(common.rho_1[0]))
    return fit_levels(rounds, _spread(common, rounds.n_labels), anchored)


def _information(levels: Levels, rounds: Rounds) -> tuple[FloatArray, FloatArray]:
    """Return how much the rounds tell of each label's rates: the inverse of the variance."""
    right = right_probability(levels, rounds)
    n_labels = rounds.n_labels
    rho_0, rho_1 = levels.rho_0[rounds.labels], levels.rho_1[rounds.labels]
    clicked = clipped(rho_0 + (1.0 - rho_0 - rho_1) * right)
    # A rate of nearly 0 would seem to be known exactly; a click in a hundred is the least taken.
    variance = np.maximum(clicked * (1.0 - clicked), 0.01)
    told_0 = _sums(rounds.labels, (1.0 - right) ** 2 / variance, n_labels)
    return told_0, _sums(rounds.labels, right**2 / variance, n_labels)


def _next_prior(
    rates: FloatArray, told: FloatArray, mean: float, count: float
) -> tuple[float, float]:
    """Return the mean and count of the Beta distribution that such shrunken rates came from."""
    spread = max(mean * (1.0 - mean), 1e-4)
    left_open = 1.0 / (told + (count + 1.0) / spread)
    mean = float(np.clip(rates.mean(), 1e-4, 1.0 - 1e-4))
    variance = float(((rates - mean) ** 2 + left_open).mean())
    count = mean * (1.0 - mean) / max(variance, 1e-9) - 1.0
    return mean, float(np.clip(count, _LEAST_COUNT, _MOST_COUNT))


def _spread(common: Levels, n_labels: int) -> Levels:
    return common._replace(
        rho_0=np.full(n_labels, common.rho_0[0]), rho_1=np.full(n_labels, common.rho_1[0])
    )


def _sums(group: IntArray, values: FloatArray, n_groups: int) -> FloatArray:
    """Return the sum of the values of each group."""
    return np.bincount(group, values, n_groups).astype(np.float64)
