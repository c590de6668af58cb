"""What is evaluated: the policies' probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from learners import InputError, Outcome, create
from learners.evaluation import always, fixed, progressive, uniform
from tests.learners.evaluation.logs import N_LABELS, make, per_label


def test_uniform_leaves_out_retired_labels() -> None:
    """A label that cannot be shown has no share."""
    found = uniform(2, np.array([True, True, False, False]))
    assert found.tolist() == [[0.5, 0.5, 0.0, 0.0]] * 2


@pytest.mark.parametrize("active", [np.zeros(3, np.bool_), np.array([2, 1]), np.ones((1, 2)) > 0])
def test_uniform_refuses_what_leaves_no_policy(active: np.ndarray) -> None:
    """No label to show is no policy of NaN, and counts are no flags."""
    with pytest.raises(InputError, match="n_rounds: expected an integer of at least 0, got -1"):
        uniform(-1, np.array([True]))
    with pytest.raises(InputError, match="active"):
        uniform(2, active)


@pytest.mark.parametrize("labels", [np.array([0, -1]), np.array([0.0, 1.0]), np.array([[0, 1]])])
def test_always_refuses_unknown_labels(labels: np.ndarray) -> None:
    """A negative code is no label counted from the end."""
    with pytest.raises(InputError, match="labels"):
        always(labels, 2)


def test_fixed_is_the_learners_distribution() -> None:
    """Row for row what the learner answers."""
    learner = create("banditron", N_LABELS, N_LABELS, gamma=0.2)
    learner.learn(np.ones(N_LABELS), 2)
    xs = np.random.default_rng(0).normal(size=(5, N_LABELS))
    for row, x in zip(fixed(learner, xs), xs, strict=True):
        np.testing.assert_array_equal(row, learner.distribution(x).probabilities)


@pytest.mark.parametrize("kind", ["banditron", "bpa", "confidit", "soba", "forward_softmax"])
def test_progressive_decides_before_it_learns(kind: str) -> None:
    """Round t comes from rounds before t; its own greedy label goes in, and that others decided."""
    rounds = make(40, per_label(), 8)
    twin, learner = (create(kind, N_LABELS, N_LABELS) for _ in range(2))
    found = progressive(learner, rounds)
    for t, x in enumerate(rounds.xs):
        distribution = twin.distribution(x)
        np.testing.assert_array_equal(found[t], distribution.probabilities)
        label, propensity, feedback = (part[t].item() for part in rounds[1:])
        greedy = distribution.greedy
        twin.update(Outcome(x, label, greedy, propensity, feedback, elsewhere=True))


def test_fixed_of_no_instances() -> None:
    """A policy has a column for each label, also where it has no row."""
    assert fixed(create("banditron", 2, 3), np.ones((0, 2))).shape == (0, 3)


def test_progressive_refuses_another_number_of_labels() -> None:
    """A learner of fewer labels than the log has cannot have been its rival."""
    with pytest.raises(InputError, match="labels"):
        progressive(create("banditron", N_LABELS, 2), make(40, per_label(), 8))
