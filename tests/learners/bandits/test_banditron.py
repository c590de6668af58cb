"""The Banditron."""

from __future__ import annotations

import numpy as np
import pytest

from learners import RCNBF, Banditron, Outcome, ParameterError, Perceptron
from learners.assertions import play, state_digest
from tests.learners.bandits.golden import show, vector

START = np.array([[0.5, 0.0], [0.1, 0.2], [-0.3, 0.1]])


@pytest.mark.parametrize(
    ("label", "feedback", "changed"),
    [
        (0, 1, {0: [0.75, -0.5]}),
        (0, 0, {0: [-0.5, 2]}),
        (1, 1, {0: [-0.5, 2], 1: [10.1, -19.8]}),
        (2, 0, {0: [-0.5, 2]}),
    ],
)
def test_golden_b2(label: int, feedback: int, changed: dict[int, list[float]]) -> None:
    """One update for each kind of round."""
    learner = Banditron(2, 3, gamma=0.3)
    learner._set_weights(START.copy())
    assert show(learner, vector(1, -2), label, feedback) == 0
    expected = START.copy()
    for row, values in changed.items():
        expected[row] = values
    np.testing.assert_allclose(learner.weights, expected, rtol=0, atol=1e-12)


def test_is_rcnbf_without_noise() -> None:
    """At rates 0 the corrected learner is this one bit for bit, over a long random stream."""
    plain = Banditron(7, 5, gamma=0.3)
    corrected = RCNBF(7, 5, gamma=0.3, rho_0=0.0, rho_1=0.0)
    rng, again = np.random.default_rng(3), np.random.default_rng(3)
    assert play(plain, rng, 2000) == play(corrected, again, 2000)
    assert plain.weights.tobytes() == corrected.weights.tobytes()


def test_learn_is_the_perceptrons_update() -> None:
    """Full labels are learned from as the perceptron does, bit for bit."""
    one, two = Banditron(4, 3, gamma=0.5), Perceptron(4, 3)
    rng = np.random.default_rng(4)
    for x in rng.normal(size=(200, 4)):
        label = int(rng.integers(3))
        one.learn(x, label)
        two.learn(x, label)
    assert one.weights.tobytes() == two.weights.tobytes()


def test_update_uses_the_logged_greedy_and_propensity() -> None:
    """Feedback may come late: what was best then moves, not what is best now."""
    learner = Banditron(1, 3, gamma=0.3)
    learner._set_weights(np.array([[0.0], [5.0], [0.0]]))
    learner.update(Outcome(vector(1), label=0, greedy=2, propensity=0.5, feedback=1))
    assert learner.weights.tolist() == [[2.0], [5.0], [-1.0]]


def test_tiny_propensity_counts_as_the_floor() -> None:
    """A propensity logged elsewhere cannot make a weight infinite."""
    floor, below = Banditron(1, 2), Banditron(1, 2)
    floor.update(Outcome(vector(1), 1, 0, 1e-9, 1))
    below.update(Outcome(vector(1), 1, 0, 1e-300, 1))
    assert state_digest(below.state()) == state_digest(floor.state())
    assert floor.weights.tolist() == [[-1.0], [pytest.approx(1e9)]]


@pytest.mark.parametrize("gamma", [-0.1, 1.1, float("nan"), "0.1", True, None])
def test_bad_gamma_refused(gamma: float) -> None:
    """The exploration share is a number in [0, 1]; nothing is coerced."""
    with pytest.raises(ParameterError, match=r"gamma: expected a number in \[0, 1\]"):
        Banditron(2, 2, gamma=gamma)


def test_new_label_gets_its_share_at_once() -> None:
    """The mixture is over the new number of labels from the next decision on."""
    learner = Banditron(1, 2, gamma=0.3)
    learner.add_label()
    probabilities = learner.distribution(vector(1)).probabilities
    assert probabilities.tolist() == pytest.approx([0.8, 0.1, 0.1], abs=1e-15)
