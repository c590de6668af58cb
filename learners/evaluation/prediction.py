"""A model of which label is right: made from the log it is used on, never from what it predicts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from learners.blas import product
from learners.evaluation.rounds import AssumedRates, Rounds, check_rounds
from learners.validation import FloatArray, IntArray

#: Parts of the log. Each is predicted by what all earlier ones say: the more parts, the later
#: rounds a prediction has seen, and the more fits.
PARTS = 10

#: By how much the instance is expected to change the probability that a label is right: its
#: variance over instances. The ridge is just strong enough to make this the prior; a label that is
#: right in 1 of 10 instances has variance 0.09.
PRIOR_VARIANCE = 0.1

#: A feature that hardly varies is not divided by its standard deviation.
MIN_DEVIATION = 1e-9


def predict_rewards(rounds: Rounds, rates: AssumedRates) -> FloatArray:
    """Return q(x, r), how probably each label is right in each round, for DR.

    The log is cut into `PARTS` parts. In the first, all labels are equally probable; each further
    part is predicted by ridge regressions of the corrected bits of all earlier parts, one for each
    label, whose level is shrunk to equal probability. So a prediction knows nothing that came after
    the round it is for, and DR stays unbiased even where the logging policy was learning.

    Parameters
    ----------
    rounds
        The log.
    rates
        What the bits are corrected by.

    Returns
    -------
    FloatArray
        Shape (n, K), in [0, 1].

    Raises
    ------
    InputError
        If `rounds` are not as said.

    Examples
    --------
    >>> from learners.noise import NoiseRates
    >>> bits = np.array([1, 0] * 50)  # right where the feature is 1
    >>> rounds = Rounds(bits[:, np.newaxis] * 1.0, bits * 0, np.ones(100), bits)
    >>> predict_rewards(rounds, AssumedRates.same(NoiseRates(), 1))[-2:].round(1).tolist()
    [[1.0], [0.0]]
    """
    check_rounds(rounds, rates.n_labels)
    xs, labels = rounds.xs, rounds.labels
    rewards = rates.rewards(labels, rounds.feedback)
    n_rounds, n_labels = len(labels), rates.n_labels
    predicted = np.full((n_rounds, n_labels), 1.0 / n_labels)
    bounds = [n_rounds * part // PARTS for part in range(PARTS + 1)]
    for begin, end in pairwise(bounds):
        if begin == 0:
            continue
        seen, asked = _standardised(xs[:begin], xs[begin:end])
        for label in range(n_labels):
            own: IntArray = np.flatnonzero(labels[:begin] == label)
            if len(own):
                fitted = _ridge(seen[own], rewards[own], asked, 1.0 / n_labels)
                predicted[begin:end, label] = fitted.clip(0.0, 1.0)
    return predicted


def _standardised(seen: FloatArray, asked: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Scale both by mean and deviation of what was seen."""
    mean, deviation = seen.mean(0), seen.std(0)
    scale = np.where(deviation > MIN_DEVIATION, deviation, 1.0)
    return (seen - mean) / scale, (asked - mean) / scale


def _ridge(seen: FloatArray, rewards: FloatArray, asked: FloatArray, level: float) -> FloatArray:
    """Predict `asked` from `seen`; the prior is `PRIOR_VARIANCE` around `level`."""
    n_seen, n_features = seen.shape
    rounds_of_prior = max(float(rewards.var()), PRIOR_VARIANCE) / PRIOR_VARIANCE
    mean = (float(rewards.sum()) + rounds_of_prior * level) / (n_seen + rounds_of_prior)
    strength = n_features * rounds_of_prior
    # Whichever matrix is the smaller one.
    weights: FloatArray
    if n_features <= n_seen:
        gram = product(seen.T, seen) + strength * np.eye(n_features)
        weights = np.linalg.solve(gram, product(seen.T, rewards - mean))
    else:
        gram = product(seen, seen.T) + strength * np.eye(n_seen)
        weights = product(seen.T, np.linalg.solve(gram, rewards - mean))
    predicted = product(asked, weights)
    predicted += mean
    return predicted
