"""RCNBF: the corrected update, its golden numbers and its invariants."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from learners import RCNBF, InputError, Outcome, ParameterError, draw
from learners.validation import FloatArray
from tests.learners.bandits.golden import ROUNDS, show, vector
from tests.reference.bandits import SlowRCNBF, argmax, dot, mixture

START = np.array([[0.5, 0.0], [0.1, 0.2], [-0.3, 0.1]])


@pytest.mark.parametrize(
    ("label", "feedback", "changed"),
    [
        (0, 1, {0: [1.107142857143, -1.214285714286]}),
        (0, 0, {0: [-0.678571428571, 2.357142857143]}),
        (1, 1, {0: [-0.5, 2], 1: [12.957142857143, -25.514285714286]}),
        (2, 0, {0: [-0.5, 2], 2: [-1.728571428571, 2.957142857143]}),
    ],
)
def test_golden_b2(label: int, feedback: int, changed: dict[int, list[float]]) -> None:
    """One update for each kind of round, with h at the shown label and not at the greedy one."""
    learner = RCNBF(2, 3, gamma=0.3, rho_0=0.1, rho_1=0.2)
    learner._set_weights(START.copy())
    x = vector(1, -2)
    assert learner.distribution(x).probabilities.tolist() == pytest.approx([0.8, 0.1, 0.1])
    assert show(learner, x, label, feedback) == 0
    expected = START.copy()
    for row, values in changed.items():
        expected[row] = values
    np.testing.assert_allclose(learner.weights, expected, rtol=0, atol=1e-11)


def test_golden_b3() -> None:
    """A trace of six rounds: weights on the way and the sequence of greedy labels."""
    learner = RCNBF(2, 3, gamma=0.3, rho_0=0.1, rho_1=0.2)
    after: dict[int, list[list[float]]] = {
        2: [[0.607142857143, -1], [0, -1.428571428571], [0, 0]],
        4: [
            [2.035714285714, -2.428571428571],
            [0, -1.428571428571],
            [1.607142857143, -0.392857142857],
        ],
        6: [
            [1.035714285714, -1.428571428571],
            [10.857142857143, -15.285714285714],
            [27.321428571429, 12.464285714286],
        ],
    }
    greedy = []
    for i, (x, label, feedback) in enumerate(ROUNDS, start=1):
        greedy.append(show(learner, vector(*x), label, feedback))
        if i in after:
            np.testing.assert_allclose(learner.weights, after[i], rtol=0, atol=1e-11)
    assert greedy == [0, 0, 2, 2, 0, 1]


class _Situation(NamedTuple):
    """What the expectations below are taken in."""

    weights: FloatArray
    x: FloatArray
    gamma: float
    rho_0: float
    rho_1: float


@st.composite
def situations(draw: st.DrawFn) -> _Situation:
    """Weights, an instance and rates with rho_0 + rho_1 <= 0.9."""
    n_labels = draw(st.integers(2, 6))
    n_features = draw(st.integers(1, 5))
    values = st.floats(-3, 3, width=16)
    weights = draw(hnp.arrays(np.float64, (n_labels, n_features), elements=values))
    x = draw(hnp.arrays(np.float64, n_features, elements=values))
    gamma = draw(st.floats(0.01, 0.5))
    rho_0 = draw(st.floats(0, 0.9))
    rho_1 = draw(st.floats(0, 0.9 - rho_0))
    return _Situation(weights, x, gamma, rho_0, rho_1)


def _moves(s: _Situation, truth: int) -> list[tuple[float, FloatArray]]:
    """Return every (probability, W' - W) that a round can have, by enumeration."""
    moves = []
    for label in range(len(s.weights)):
        for feedback in (0, 1):
            learner = RCNBF(len(s.x), len(s.weights), gamma=s.gamma, rho_0=s.rho_0, rho_1=s.rho_1)
            learner._set_weights(s.weights.copy())
            decision = learner.distribution(s.x)
            propensity = float(decision.probabilities[label])
            click = 1 - s.rho_1 if label == truth else s.rho_0
            learner.update(Outcome(s.x, label, decision.greedy, propensity, feedback))
            chance = propensity * (click if feedback else 1 - click)
            moves.append((chance, learner.weights - s.weights))
    return moves


@given(situations(), st.data())
def test_expected_update_is_the_perceptrons(situation: _Situation, data: st.DataObject) -> None:
    """Over draw and noise E[H] = U: the reason why the learner works at all."""
    truth = data.draw(st.integers(0, len(situation.weights) - 1))
    mean = sum(chance * move for chance, move in _moves(situation, truth))
    greedy = argmax([dot(row, situation.x.tolist()) for row in situation.weights.tolist()])
    update = np.zeros_like(situation.weights)
    update[truth] += situation.x
    update[greedy] -= situation.x
    np.testing.assert_allclose(mean, update, rtol=0, atol=1e-9)


@given(situations(), st.data())
def test_expected_square_is_bounded(situation: _Situation, data: st.DataObject) -> None:
    """E|H|^2 <= A1 |x|^2 on a mistake, A2 |x|^2 otherwise: the paper's lemma 3."""
    square = float(situation.x @ situation.x)
    assume(square > 1e-3)
    k, g, rho_0, rho_1 = (
        len(situation.weights),
        situation.gamma,
        situation.rho_0,
        situation.rho_1,
    )
    beta = 1 - rho_0 - rho_1
    variance = rho_0 * (1 - rho_0)
    bound_1 = (
        2 * k / g
        + 2 * variance * k / (beta * g)
        + k * rho_1 / (beta**2 * g)
        + variance * k**2 / (beta**2 * g**2)
    )
    bound_2 = 2 * g + rho_1 / (beta**2 * (1 - g)) + variance * k**2 / (beta**2 * g)
    truth = data.draw(st.integers(0, k - 1))
    greedy = argmax([dot(row, situation.x.tolist()) for row in situation.weights.tolist()])
    mean = sum(chance * float((move**2).sum()) for chance, move in _moves(situation, truth))
    bound = bound_2 if truth == greedy else bound_1
    assert mean <= bound * square * (1 + 1e-9)


def test_golden_expected_square() -> None:
    """The expectation of |H|^2 / |x|^2 in B2's situation, to the last digit given."""
    situation = _Situation(START, vector(1, -2), 0.3, 0.1, 0.2)
    for truth, expected in ((0, 4.331632653061), (1, 16.331632653061), (2, 16.331632653061)):
        mean = sum(chance * float((move**2).sum()) for chance, move in _moves(situation, truth))
        assert mean / 5 == pytest.approx(expected, abs=1e-11)


@given(st.integers(0, 2**32 - 1), st.sampled_from([2.0**-20, 0.5, 4.0, 2.0**12]))
def test_scale_of_the_instances_does_not_matter(seed: int, scale: float) -> None:
    """All x times a constant: the same decisions (powers of 2 round alike)."""
    one = RCNBF(4, 3, gamma=0.3, rho_0=0.2, rho_1=0.1)
    two = RCNBF(4, 3, gamma=0.3, rho_0=0.2, rho_1=0.1)
    rng = np.random.default_rng(seed)
    for x in rng.normal(size=(40, 4)):
        decision, scaled = one.distribution(x), two.distribution(scale * x)
        assert decision.greedy == scaled.greedy
        label = draw(decision, rng.random())
        bit = int(rng.integers(2))
        propensity = float(decision.probabilities[label])
        one.update(Outcome(x, label, decision.greedy, propensity, bit))
        two.update(Outcome(scale * x, label, decision.greedy, propensity, bit))


def test_equals_slow_twin() -> None:
    """A long stream of the fast learner and of plain loops ends in the same weights."""
    rng = np.random.default_rng(5)
    fast = RCNBF(6, 4, gamma=0.3, rho_0=0.15, rho_1=0.25)
    slow = SlowRCNBF(6, 4, 0.15, 0.25)
    for x in rng.normal(size=(1000, 6)):
        label, bit = int(rng.integers(4)), int(rng.integers(2))
        greedy = argmax([dot(row, x.tolist()) for row in slow.weights])
        decision = fast.distribution(x)
        assert decision.greedy == greedy
        chances = mixture(greedy, 4, 0.3)
        assert decision.probabilities.tolist() == pytest.approx(chances, abs=1e-15)
        slow.update(x.tolist(), label, greedy, chances[label], bit)
        fast.update(Outcome(x, label, greedy, float(decision.probabilities[label]), bit))
    np.testing.assert_allclose(fast.weights, slow.weights, rtol=1e-10)


def test_rates_change_from_the_next_update_on() -> None:
    """New rates leave what was learned, and count at once."""
    learner = RCNBF(1, 2, gamma=0.5, rho_0=0.0, rho_1=0.0)
    learner.update(Outcome(vector(1), 1, 0, 0.25, 1))
    learner.set_rates(0.25, 0.25)
    assert learner.weights.tolist() == [[-1.0], [4.0]]
    learner.update(Outcome(vector(1), 1, 0, 0.25, 1))
    assert learner.weights.tolist() == [[-2.0], [10.0]]
    assert (learner.rho_0, learner.rho_1) == (0.25, 0.25)


@pytest.mark.parametrize(
    ("rho_0", "rho_1", "name"),
    [
        (0.5, 0.5, "rho_0 + rho_1"),
        (-0.1, 0, "rho_0"),
        (0, 1.0, "rho_1"),
        (float("nan"), 0, "rho_0"),
    ],
)
def test_bad_rates_refused(rho_0: float, rho_1: float, name: str) -> None:
    """A beta <= 0 and rates that are none: ParameterError at birth, InputError later."""
    with pytest.raises(ParameterError) as at_birth:
        RCNBF(2, 2, rho_0=rho_0, rho_1=rho_1)
    assert str(at_birth.value).startswith(name)
    learner = RCNBF(2, 2, rho_0=0.1, rho_1=0.1)
    with pytest.raises(InputError) as later:
        learner.set_rates(rho_0, rho_1)
    assert str(later.value).startswith(name)
    assert learner.rho_0 == 0.1
