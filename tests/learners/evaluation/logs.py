"""Small simulated logs whose truth is known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from learners.evaluation import AssumedRates, Rounds
from learners.noise import NoiseRates

N_LABELS = 4
#: Probability of each label in every round of a log.
LOGGED = np.array([0.7, 0.1, 0.1, 0.1])
#: How often each label is the right one, whatever the instance.
RIGHT = np.array([0.4, 0.3, 0.2, 0.1])


def per_label() -> AssumedRates:
    """Return rates that differ from label to label."""
    zeros = np.zeros(N_LABELS)
    rho_0, rho_1 = np.array([0.45, 0.02, 0.1, 0.3]), np.array([0.1, 0.3, 0.02, 0.2])
    return AssumedRates(rho_0, rho_1, zeros, zeros)


def clean() -> AssumedRates:
    """Return no noise."""
    return AssumedRates.same(NoiseRates(), N_LABELS)


def make(n_rounds: int, rates: AssumedRates, seed: int) -> Rounds:
    """Log rounds of the policy `LOGGED`; the feature tells the right label to some extent."""
    rng = np.random.default_rng(seed)
    right = rng.choice(N_LABELS, size=n_rounds, p=RIGHT)
    labels = rng.choice(N_LABELS, size=n_rounds, p=LOGGED)
    hits = labels == right
    clicked = np.where(hits, 1.0 - rates.rho_1[labels], rates.rho_0[labels])
    feedback = (rng.random(n_rounds) < clicked).astype(np.int64)
    xs = np.eye(N_LABELS)[right] + rng.normal(0.0, 0.5, (n_rounds, N_LABELS))
    return Rounds(xs, labels.astype(np.int64), LOGGED[labels], feedback)


def target(probabilities: list[float], n_rounds: int) -> NDArray[np.float64]:
    """Return a policy that has the same probabilities in every round."""
    return np.tile(np.array(probabilities), (n_rounds, 1))
