"""From predictions of rounds that the network did not see to rates, errors and doubts.

Every round of a block is predicted once, by a network that was trained on the other folds. What
is read from such predictions is not flattered by what the network learned by heart.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from learners.noise.block_fit import anchored_levels, fit_block
from learners.noise.estimate import Reading
from learners.noise.mixture import (
    Levels,
    Rounds,
    fit_levels,
    level_errors,
    right_probability,
    rounds_of,
)
from learners.noise.rates import NOTHING_KNOWN
from learners.noise.reading import authors, per_label
from learners.noise.verdict import Evidence
from learners.validation import FloatArray, IntArray

#: The reading rules: ours, and the paper's two.
RULES = ("mixture", "per_label", "authors")

#: What mistakes that all networks share add to the standard errors: without any noise, rates of
#: 0.0005 to 0.001 have been read from 50,000 rounds, at standard errors of 0.0003.
_SHARED_ERROR = 0.001


class HeldOut(NamedTuple):
    """A block's rounds with their predictions.

    Attributes
    ----------
    labels, feedback
        Shape (n,), int64.
    folds
        Shape (n,), int64: which network predicted the round.
    scores
        Unnormalised log probabilities that each label is right, shape (n, K), float32.
    predicted
        The networks' q(x, label) of each instance with each label, shape (n, K), float32.
    """

    labels: IntArray
    feedback: IntArray
    folds: IntArray
    scores: NDArray[np.float32]
    predicted: NDArray[np.float32]

    def rounds(self) -> Rounds:
        """Return what the mixture is fitted to."""
        return rounds_of(self.scores, self.labels, self.feedback)

    def shown(self) -> FloatArray:
        """Return q of each round's own label, shape (n,)."""
        rows = np.arange(len(self.labels))
        return self.predicted[rows, self.labels].astype(np.float64)


def read(held_out: HeldOut, rule: str, *, beta_min: float) -> tuple[Reading, Evidence]:
    """Read the rates by one of `RULES`, and the evidence for them.

    Rates that add up to more than ``1 - beta_min`` are shrunk to that sum by one factor; the
    evidence holds beta as it was read.
    """
    if rule == "mixture":
        reading, right, alone = _read_mixture(held_out, beta_min)
        clicked = _clicked(reading, held_out.labels, right)
    else:
        reading = _read_quantiles(held_out, rule)
        clicked = held_out.shown()
        beta = max(1.0 - reading.rho_0 - reading.rho_1, 1e-3)
        right = alone = ((clicked - reading.rho_0) / beta).clip(0.0, 1.0)
    evidence = Evidence(
        right=right,
        alone=alone,
        gain=_gain(held_out, clicked),
        beta=1.0 - reading.rho_0 - reading.rho_1,
        beta_error=float(np.hypot(reading.rho_0_error, reading.rho_1_error)),
        error=max(reading.rho_0_error, reading.rho_1_error),
    )
    return _guarded(reading, beta_min), evidence


def _read_mixture(held_out: HeldOut, beta_min: float) -> tuple[Reading, FloatArray, FloatArray]:
    """Fit common rates and each label's; also return P(right) with and without the offset."""
    rounds = held_out.rounds()
    common, labels, prior, differ = fit_block(rounds)
    if not differ:
        labels = anchored_levels(rounds, common, prior)
    # From here on, one row for each of the two rates.
    error = np.array(level_errors(common, rounds))
    # The folds' networks differ, and so do their mistakes: the errors grow where that shows.
    grow = np.maximum(1.0, _fold_errors(held_out, rounds, common) / error)
    doubt = np.hypot(error * grow, _SHARED_ERROR)
    own_error = np.array(level_errors(labels, rounds, prior))
    label_error = own_error * grow
    if not differ:
        # The labels' were drawn to the common rates as if these were known.
        counts = np.array([[prior.count_0], [prior.count_1]])
        drawn = _drawn(own_error, np.array([labels.rho_0, labels.rho_1]), counts)
        label_error = np.hypot(label_error, drawn * doubt)
    reading = Reading(
        rho_0=float(common.rho_0[0]),
        rho_1=float(common.rho_1[0]),
        rho_0_error=float(doubt[0, 0]),
        rho_1_error=float(doubt[1, 0]),
        label_rho_0=labels.rho_0,
        label_rho_1=labels.rho_1,
        label_rho_0_error=label_error[0],
        label_rho_1_error=label_error[1],
        labels_differ=differ,
    )
    reading = _without_senseless(reading, beta_min)
    right = right_probability(labels, rounds)
    alone = right_probability(labels._replace(offset=0.0), rounds)
    if differ:
        reading = _averaged(reading, held_out.labels, right)
    return reading, right, alone


def _drawn(errors: FloatArray, rates: FloatArray, counts: FloatArray) -> FloatArray:
    """Return how far each label's rate is its prior's: the prior's share of what is known."""
    drawn: FloatArray = errors**2 * (counts + 1.0) / (rates * (1.0 - rates))
    return drawn.clip(0.0, 1.0)


def _without_senseless(reading: Reading, beta_min: float) -> Reading:
    """Mark the rates of labels whose clicks may tell next to nothing as not known.

    A label that is always clicked by mistake looks like that, and so does one that was right
    whenever it was shown: nothing but its own clicks reveals a network's mistakes about it.
    """
    beta = 1.0 - reading.label_rho_0 - reading.label_rho_1
    beta_error = np.hypot(reading.label_rho_0_error, reading.label_rho_1_error)
    senseless = beta < beta_min + 2.0 * beta_error
    return replace(
        reading,
        label_rho_0_error=np.where(senseless, NOTHING_KNOWN, reading.label_rho_0_error),
        label_rho_1_error=np.where(senseless, NOTHING_KNOWN, reading.label_rho_1_error),
    )


def _averaged(reading: Reading, shown: IntArray, right: FloatArray) -> Reading:
    """Return the reading with the labels' mean rates as the common ones.

    Weighted by the rounds that bear on each, to match how many clicks were false or missed. Where
    rates differ, one pair fitted to all is drawn to labels whose clicks tell most. Labels of which
    nothing is known are left out, if there are others.
    """
    n_labels = len(reading.label_rho_0)
    known = reading.label_rho_0_error < NOTHING_KNOWN
    bears = known[shown] if known.any() else np.ones(len(shown))
    wrong = np.bincount(shown, (1.0 - right) * bears, n_labels)
    rightly = np.bincount(shown, right * bears, n_labels)
    wrong_weight = wrong / max(wrong.sum(), 1e-9)
    right_weight = rightly / max(rightly.sum(), 1e-9)
    error_0 = np.sqrt(((wrong_weight * reading.label_rho_0_error) ** 2).sum())
    error_1 = np.sqrt(((right_weight * reading.label_rho_1_error) ** 2).sum())
    return replace(
        reading,
        rho_0=float((wrong_weight * reading.label_rho_0).sum()),
        rho_1=float((right_weight * reading.label_rho_1).sum()),
        rho_0_error=float(error_0),
        rho_1_error=float(error_1),
    )


def _fold_errors(held_out: HeldOut, rounds: Rounds, common: Levels) -> FloatArray:
    """Return the standard errors of the mean of the folds' own fits, (2, 1)."""
    fits = [
        fit_levels(rounds.some(held_out.folds == fold), common)
        for fold in np.unique(held_out.folds)
    ]
    if len(fits) < 2:
        return np.zeros((2, 1))
    rates = [[fit.rho_0[0] for fit in fits], [fit.rho_1[0] for fit in fits]]
    errors: FloatArray = np.std(rates, axis=1, ddof=1, keepdims=True) / np.sqrt(len(fits))
    return errors


def _read_quantiles(held_out: HeldOut, rule: str) -> Reading:
    """Apply one of the paper's rules to all rounds; its errors come from each fold's own."""
    shown = held_out.shown()
    whole = _quantile_rates(held_out.predicted, shown, rule)
    parts = np.array(
        [
            _quantile_rates(held_out.predicted[own], shown[own], rule)
            for own in (held_out.folds == fold for fold in np.unique(held_out.folds))
        ]
    )
    errors = parts.std(axis=0, ddof=1) / np.sqrt(len(parts)) if len(parts) > 1 else 0 * whole
    errors = np.maximum(errors, 1.0 / (1.0 + len(shown)))
    share = np.bincount(held_out.labels, minlength=whole.shape[1]) / len(shown)
    common, common_errors = (whole * share).sum(axis=1), (errors * share).sum(axis=1)
    return Reading(
        rho_0=float(common[0]),
        rho_1=float(common[1]),
        rho_0_error=float(common_errors[0]),
        rho_1_error=float(common_errors[1]),
        label_rho_0=whole[0],
        label_rho_1=whole[1],
        label_rho_0_error=errors[0],
        label_rho_1_error=errors[1],
        labels_differ=False,
    )


def _quantile_rates(predicted: NDArray[np.float32], shown: FloatArray, rule: str) -> FloatArray:
    """Return the labels' rates, shape (2, K)."""
    if rule == "authors":
        return np.tile(np.array(authors(shown))[:, np.newaxis], predicted.shape[1])
    return np.stack(per_label(predicted))


def _clicked(reading: Reading, labels: IntArray, right: FloatArray) -> FloatArray:
    rho_0, rho_1 = reading.label_rho_0[labels], reading.label_rho_1[labels]
    clicked: FloatArray = rho_0 + (1.0 - rho_0 - rho_1) * right
    return clicked


def _gain(held_out: HeldOut, clicked: FloatArray) -> float:
    """Return how many nats likelier the feedback is than under each label's share of clicks."""
    labels, feedback = held_out.labels, held_out.feedback
    n_labels = held_out.scores.shape[1]
    times = np.maximum(np.bincount(labels, minlength=n_labels), 1)
    share = np.bincount(labels, feedback, n_labels) / times
    likelihoods = [
        np.log(np.where(feedback == 1, q, 1.0 - q).clip(1e-9)).sum()
        for q in (clicked, share[labels])
    ]
    return float(likelihoods[0] - likelihoods[1])


def _guarded(reading: Reading, beta_min: float) -> Reading:
    """Shrink every pair of rates that leaves less than `beta_min`."""
    most = 1.0 - beta_min
    shrink = min(1.0, most / max(reading.rho_0 + reading.rho_1, 1e-9))
    label_shrink = np.minimum(
        1.0, most / np.maximum(reading.label_rho_0 + reading.label_rho_1, 1e-9)
    )
    return replace(
        reading,
        rho_0=reading.rho_0 * shrink,
        rho_1=reading.rho_1 * shrink,
        label_rho_0=reading.label_rho_0 * label_shrink,
        label_rho_1=reading.label_rho_1 * label_shrink,
    )
