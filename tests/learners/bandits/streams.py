"""Streams of clicks that bandits are tried on."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import pytest

from learners import Learner, Outcome, draw
from learners.bandits import bent_inputs
from learners.validation import FloatArray

Bandit = TypeVar("Bandit", bound=Learner)


def taught(learner: Bandit, seed: int, n_rounds: int = 30) -> Bandit:
    """Let a learner learn random rounds."""
    rng = np.random.default_rng(seed)
    for x in rng.normal(size=(n_rounds, learner.n_features)):
        label, bit = int(rng.integers(learner.n_labels)), int(rng.integers(2))
        learner.update(Outcome(x, label, label, 0.5, bit))
    return learner


def update_alone(learner: Learner, outcome: Outcome) -> None:
    """Let a learner learn a round as after the first 10,000: what an instance is bent to stays."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bent_inputs, "CENTRE_ROUNDS", 0)
        learner.update(outcome)


def error_on_three_groups(
    learner: Learner, rho_0: FloatArray, *, spread: float, n_rounds: int
) -> float:
    """Return the share of wrong labels in the last quarter; a tenth of right ones is not clicked.

    Instances lie around three corners, each of whose labels is clicked by mistake at its own rate.
    """
    rng, wrong = np.random.default_rng(0), 0
    for i in range(n_rounds):
        truth = int(rng.integers(3))
        x = rng.normal(size=4) * spread
        x[truth] += 1.0
        decision = learner.distribution(x)
        label = draw(decision, rng.random())
        flip = rng.random()
        bit = int(flip >= 0.1) if label == truth else int(flip < rho_0[label])
        share = float(decision.probabilities[label])
        learner.update(Outcome(x, label, decision.greedy, share, bit))
        wrong += label != truth and i >= n_rounds * 3 // 4
    return wrong / (n_rounds // 4)


def error_of_three_bands(learner: Learner, low: float, high: float) -> float:
    """Return the share of wrong labels in the last third: which third of the range a number is in.

    A tenth of the clicks is false or missed.
    """
    rng, wrong = np.random.default_rng(2), 0
    for i in range(3_000):
        x = rng.uniform(low, high, 1)
        truth = min(int(3 * (x[0] - low) / (high - low)), 2)
        decision = learner.distribution(x)
        label = draw(decision, rng.random())
        bit = int((label == truth) != (rng.random() < 0.1))
        share = float(decision.probabilities[label])
        learner.update(Outcome(x, label, decision.greedy, share, bit))
        wrong += label != truth and i >= 2_000
    return wrong / 1_000


def accuracy_on_crossed_signs(learner: Learner) -> float:
    """Return how often the label was right in the last third: whether both inputs have one sign."""
    rng, right = np.random.default_rng(1), 0
    for i in range(3_000):
        x = rng.normal(size=2)
        truth = int(x[0] * x[1] > 0)
        decision = learner.distribution(x)
        label = draw(decision, rng.random())
        share = float(decision.probabilities[label])
        learner.update(Outcome(x, label, decision.greedy, share, int(label == truth)))
        right += label == truth and i >= 2_000
    return right / 1_000


def worth_of_rare_clicks(learner: Learner) -> float:
    """Return what was shown in the last quarter, in shares of the best item's chance of a click.

    A shop in which hardly anybody clicks: of what is shown blindly, one in fifty.
    """
    rng = np.random.default_rng(3)
    slopes, base = rng.normal(size=(10, 8)), rng.normal(size=10) * 0.5 - 4.5
    shown = best = 0.0
    for i in range(8_000):
        x = rng.normal(size=8)
        x /= float(np.linalg.norm(x))
        clicked = 1.0 / (1.0 + np.exp(-(slopes @ x + base)))
        decision = learner.distribution(x)
        label = draw(decision, rng.random())
        share = float(decision.probabilities[label])
        bit = int(rng.random() < clicked[label])
        learner.update(Outcome(x, label, decision.greedy, share, bit))
        if i >= 6_000:
            shown, best = shown + float(clicked[label]), best + float(clicked.max())
    return shown / best


def error_where_most_are_missed(learner: Learner) -> float:
    """Return the share of wrong labels in the last quarter: of ten right ones two are clicked."""
    rng, wrong = np.random.default_rng(0), 0
    for i in range(6_000):
        truth = int(rng.integers(5))
        x = rng.normal(size=8) * 0.4
        x[truth] += 1.0
        decision = learner.distribution(x)
        label = draw(decision, rng.random())
        bit = int(rng.random() < (0.2 if label == truth else 0.02))
        share = float(decision.probabilities[label])
        learner.update(Outcome(x, label, decision.greedy, share, bit))
        wrong += label != truth and i >= 4_500
    return wrong / 1_500
