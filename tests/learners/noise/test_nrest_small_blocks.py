"""Small blocks: training goes on until it has found what few steps an epoch take long to find."""

from __future__ import annotations

import numpy as np

from learners.noise.nrest import NREst

RHO_0, RHO_1 = 0.1, 0.25


def test_a_stripe_between_two_others_is_found() -> None:
    """Protects a label that is seldom wrong, in few rounds, from rates made of what is unknown.

    The right label goes with one of two features, and the middle one is not found at once. Clicks
    on it then seem to be false ones: .59 of them, and in other streams .35, were told, trusted.
    """
    rng = np.random.default_rng(1)
    xs = rng.normal(size=(3000, 2))
    right = np.digitize(xs[:, 0], [-0.4, 0.4])
    labels = np.digitize(xs[:, 0] + rng.normal(scale=0.25, size=3000), [-0.4, 0.4])
    explored = rng.random(3000) < 0.05
    labels[explored] = rng.integers(3, size=int(explored.sum()))
    is_right = labels == right
    feedback = (rng.random(3000) < np.where(is_right, 1 - RHO_1, RHO_0)).astype(np.int64)
    estimate = NREst(3, seed=1, folds=2).estimate(xs, labels, feedback).estimate
    reading = estimate.reading
    assert reading is not None
    assert estimate.trusted, estimate.verdict
    assert np.abs(reading.label_rho_0 - RHO_0).max() < 0.05
    assert np.abs(reading.label_rho_1 - RHO_1).max() < 0.05
