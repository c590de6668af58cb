"""Confidit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners import Confidit, Outcome, ParameterError, StateError
from learners.assertions import state_digest
from learners.validation import FloatArray
from tests.learners.bandits.golden import ROUNDS, vector
from tests.reference.bandits import SlowConfidit, argmax


def test_golden_b6() -> None:
    """A trace of six rounds with its own choices, ties to the lowest code."""
    learner = Confidit(2, 3, alpha=1.0, eta=1.0, matrix="full")
    picks = []
    for (x, _, _), truth in zip(ROUNDS, (0, 1, 2, 0, 1, 2), strict=True):
        decision = learner.distribution(vector(*x))
        picks.append(decision.greedy)
        assert decision.probabilities[decision.greedy] == 1.0
        bit = int(decision.greedy == truth)
        learner.update(Outcome(vector(*x), decision.greedy, decision.greedy, 1.0, bit))
    assert picks == [0, 0, 1, 1, 0, 2]
    np.testing.assert_allclose(
        learner.weights,
        [[0.048815536469, -0.048815536469], [0, -0.282842712475], [0.1788854382, 0.0894427191]],
        rtol=0,
        atol=1e-11,
    )


@pytest.mark.parametrize("matrix", ["diagonal", "full"])
@given(seed=st.integers(0, 2**32 - 1), alpha=st.floats(0, 3), eta=st.floats(0, 10))
def test_equals_slow_twin(matrix: str, seed: int, alpha: float, eta: float) -> None:
    """The same choices and weights as with A written out and solved for."""
    rng = np.random.default_rng(seed)
    fast = Confidit(3, 3, alpha=alpha, eta=eta, matrix=matrix)
    slow = SlowConfidit(3, 3, alpha, eta, full=matrix == "full")
    for x in rng.normal(size=(30, 3)):
        scores = slow.scores(x)
        best, second = sorted(scores, reverse=True)[:2]
        if best - second > 1e-9:
            assert fast.distribution(x).greedy == argmax(scores)
        label, bit = int(rng.integers(3)), int(rng.integers(2))
        fast.update(Outcome(x, label, label, 1.0, bit))
        slow.update(x, label, bit)
    np.testing.assert_allclose(fast.weights, slow.weights, rtol=1e-8, atol=1e-11)


@given(seed=st.integers(0, 2**32 - 1))
def test_weights_are_the_regression(seed: int) -> None:
    """The invariant: w_i = A_i^-1 sum s x and A_i = (1 + alpha)^2 I + sum x x'."""
    rng = np.random.default_rng(seed)
    learner = Confidit(3, 2, alpha=0.5, matrix="full")
    matrix, total = 2.25 * np.eye(3), np.zeros(3)
    for x in rng.normal(size=(50, 3)):
        bit = int(rng.integers(2))
        learner.update(Outcome(x, 1, 1, 1.0, bit))
        unit = x / np.linalg.norm(x)
        matrix += np.outer(unit, unit)
        total += (2 * bit - 1) * unit
    inverses = np.asarray(learner.state()["inverses"], dtype=np.float64)
    np.testing.assert_allclose(inverses[1], np.linalg.inv(matrix), rtol=1e-9, atol=1e-12)
    assert (inverses[1] == inverses[1].T).all(), "symmetric, to the bit"
    np.testing.assert_allclose(learner.weights[1], np.linalg.solve(matrix, total), atol=1e-10)
    assert not learner.weights[0].any(), "only the shown label moves"


@pytest.mark.parametrize("matrix", ["diagonal", "full"])
def test_scale_of_an_instance_does_not_matter(matrix: str) -> None:
    """Instances are scaled to norm 1; a short one counts as 0 and changes nothing."""
    one, two = Confidit(2, 3, matrix=matrix), Confidit(2, 3, matrix=matrix)
    one.update(Outcome(vector(3, 4), 1, 0, 1.0, 1))
    two.update(Outcome(vector(3 * 2.0**10, 4 * 2.0**10), 1, 0, 1.0, 1))
    assert state_digest(one.state()) == state_digest(two.state())
    for x in (vector(0, 0), vector(6e-7, 7e-7), vector(1e-200, 0)):
        one.update(Outcome(x, 0, 0, 1.0, 1))
        assert one.distribution(x).greedy == 0
    assert state_digest(one.state()) == state_digest(two.state())


def test_short_instances_in_a_batch() -> None:
    """In a batch, too, an instance of no length has score 0 for every label."""
    learner = Confidit(2, 3, eta=4.0)
    xs = np.array([[3.0, 4.0], [0.0, 0.0], [4e-7, 4e-7], [1e-200, 0.0]])
    for _ in range(5):
        learner.update(Outcome(xs[0], 0, 0, 1.0, 0))
    assert [decision.greedy for decision in learner.distributions(xs)] == [1, 0, 0, 0]
    assert [learner.distribution(x).greedy for x in xs] == [1, 0, 0, 0]


@pytest.mark.parametrize("matrix", ["diagonal", "full"])
def test_how_a_batch_lies_in_memory_does_not_matter(matrix: str) -> None:
    """Scores of rows that come as columns side by side are the same, to the bit."""
    learner = Confidit(70, 3, matrix=matrix)
    xs = np.random.default_rng(0).normal(size=(20, 70))
    for x in xs:
        learner.update(Outcome(x, 0, 0, 1.0, 1))
    columns = np.asfortranarray(xs)
    assert learner._batch_scores(columns).tobytes() == learner._batch_scores(xs).tobytes()


def test_without_eta_it_does_not_explore() -> None:
    """The confidence term is what explores: with weight 0 the first label stays."""
    learner = Confidit(1, 2, eta=0)
    learner.update(Outcome(vector(1), 0, 0, 1.0, 1))
    assert learner.distribution(vector(1)).greedy == 0
    explorer = Confidit(1, 2, eta=10)
    explorer.update(Outcome(vector(1), 0, 0, 1.0, 0))
    assert explorer.distribution(vector(1)).greedy == 1


def test_too_large_matrix_refused() -> None:
    """The full form is bounded, at birth and when a label is added."""
    with pytest.raises(ParameterError, match="full matrix: expected at most 4,000,000 entries"):
        Confidit(784, 7, matrix="full")
    learner = Confidit(1000, 4, matrix="full")
    with pytest.raises(ParameterError, match="diagonal"):
        learner.add_label()
    assert learner.n_labels == 4


@pytest.mark.parametrize(
    ("options", "name"),
    [({"alpha": -1}, "alpha"), ({"eta": float("nan")}, "eta"), ({"matrix": ""}, "matrix")],
)
def test_bad_options_refused(options: dict[str, object], name: str) -> None:
    """Each option says what it expects."""
    with pytest.raises(ParameterError) as refused:
        Confidit(2, 2, **options)  # type: ignore[arg-type] # wrong types are what is tried
    assert str(refused.value).startswith(f"{name}: ")


@pytest.mark.parametrize(
    ("matrix", "name", "wrong"),
    [
        ("diagonal", "diagonal", np.full((2, 2), 3.9)),
        ("full", "inverses", np.full((2, 2, 2), -0.1)),
        ("full", "inverses", np.array([[[0.2, 0.21], [0.21, 0.2]]] * 2)),
        ("full", "inverses", np.array([[[0.3, 0.0], [0.0, 0.2]]] * 2)),
    ],
)
def test_forged_matrices_are_refused(matrix: str, name: str, wrong: FloatArray) -> None:
    """What no examples lead to is named: a bound would be the root of a negative number."""
    state = Confidit(2, 2, matrix=matrix).state()
    with pytest.raises(StateError, match=f"state's {name}"):
        Confidit.from_state({**state, name: wrong})


def test_an_old_full_matrix_is_restored() -> None:
    """Protects recovery: the rounding of 100,000 examples that look alike is no forgery."""
    learner, rng = Confidit(4, 1, matrix="full", alpha=0.0), np.random.default_rng(3)
    for x in 1.0 + rng.normal(size=(100_000, 4)) * 1e-6:
        learner.update(Outcome(x, 0, 0, 1.0, 1))
    Confidit.from_state(learner.state())
