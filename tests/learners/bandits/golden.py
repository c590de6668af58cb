"""Rounds that several golden traces share."""

from __future__ import annotations

import numpy as np

from learners import Learner, Outcome
from learners.validation import FloatArray

#: (x, label shown, feedback), the trace of B3 and, cut to five, of B4.
ROUNDS: list[tuple[tuple[float, float], int, int]] = [
    ((1, 0), 0, 1),
    ((0, 1), 1, 0),
    ((1, 1), 2, 1),
    ((-1, 1), 0, 0),
    ((1, -1), 1, 1),
    ((2, 1), 2, 1),
]


def vector(*values: float) -> FloatArray:
    """Return an instance."""
    return np.array(values, dtype=np.float64)


def show(learner: Learner, x: FloatArray, label: int, feedback: int) -> int:
    """Play one round with the given label and bit; return the greedy label."""
    decision = learner.distribution(x)
    propensity = float(decision.probabilities[label])
    learner.update(Outcome(x, label, decision.greedy, propensity, feedback))
    return decision.greedy
