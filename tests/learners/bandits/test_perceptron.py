"""The multiclass perceptron."""

from __future__ import annotations

import numpy as np
import pytest

from learners import InputError, Perceptron
from tests.learners.bandits.golden import vector
from tests.reference.bandits import SlowPerceptron, hinge_loss


def test_golden_trace() -> None:
    """The update equation, with a tie that goes to the lowest code."""
    learner = Perceptron(2, 3)
    trace = [
        ((1, 0), 1, [[-1, 0], [1, 0], [0, 0]]),
        ((0, 1), 2, [[-1, -1], [1, 0], [0, 1]]),
        ((1, 1), 1, [[-1, -1], [1, 0], [0, 1]]),
        ((1, -1), 0, [[0, -2], [0, 1], [0, 1]]),
    ]
    for x, label, weights in trace:
        learner.learn(vector(*x), label)
        assert learner.weights.tolist() == weights


def test_golden_hinge_loss() -> None:
    """The loss that the perceptron's bounds are stated in, as the slow twin has it."""
    weights = [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]
    losses = [hinge_loss(weights, (1.0, 0.4), label) for label in range(3)]
    assert losses == pytest.approx([0.7, 1.6, 1.3], abs=1e-12)


def test_right_answer_changes_no_bit() -> None:
    """Without a mistake there is no update, not even one that cancels up to rounding."""
    rng = np.random.default_rng(2)
    learner = Perceptron(8, 3)
    for x in rng.normal(size=(300, 8)):
        label, before = int(rng.integers(3)), learner.weights
        right = learner.distribution(x).greedy == label
        learner.learn(x, label)
        assert (learner.weights.tobytes() == before.tobytes()) == right


def test_equals_slow_twin() -> None:
    """Integer instances leave no rounding: the weights agree exactly over a long stream."""
    rng = np.random.default_rng(0)
    fast, slow = Perceptron(6, 4), SlowPerceptron(6, 4)
    for _ in range(500):
        x = rng.integers(-3, 4, 6).astype(np.float64)
        label = int(rng.integers(4))
        fast.learn(x, label)
        slow.learn(x.tolist(), label)
    assert fast.weights.tolist() == slow.weights


def test_mistakes_on_separable_data_are_bounded() -> None:
    """With margin delta it errs at most 2 R^2 |U|^2 / delta^2 times, however often it is shown."""
    rng = np.random.default_rng(1)
    delta = 0.5
    instances = [x for x in rng.normal(size=(600, 4)) if np.diff(np.sort(x[:3]))[-1] >= delta]
    # The rows of U are the unit vectors: |U|^2 = 3, and the label is the largest of three.
    bound = 2 * max(float(x @ x) for x in instances) * 3 / delta**2
    learner = Perceptron(4, 3)
    mistakes = 0
    for x in instances * 20:
        label = int(x[:3].argmax())
        mistakes += learner.distribution(x).greedy != label
        learner.learn(x, label)
    assert 0 < mistakes <= bound


def test_retired_label_that_is_right_is_no_mistake() -> None:
    """Examples of a retired label teach it until it would win, and then leave the others alone."""
    learner = Perceptron(1, 3)
    learner.retire_label(2)
    x = vector(1)
    learner.learn(x, 2)
    assert learner.weights.tolist() == [[-1], [0], [1]]
    learner.learn(x, 2)
    assert learner.weights.tolist() == [[-1], [0], [1]]


def test_retired_label_is_no_rival() -> None:
    """A retired label that scores best does not count as the mistake made."""
    learner = Perceptron(1, 3)
    x = vector(1)
    learner.learn(x, 2)
    learner.retire_label(2)
    before = learner.weights
    learner.learn(x, 1)  # active scores: -1, 0; the right one already wins
    assert learner.weights.tolist() == before.tolist()


def test_unknown_label_refused() -> None:
    """A label code beyond K is an error with its name."""
    with pytest.raises(InputError, match=r"label: expected a code in \[0, 3\), got 3"):
        Perceptron(2, 3).learn(vector(1, 1), 3)
