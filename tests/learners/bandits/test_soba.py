"""The second-order Banditron."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners import SOBA, Outcome, ParameterError, StateError, draw
from learners.assertions import state_digest
from learners.states import StateValue
from learners.validation import FloatArray
from tests.learners.bandits.golden import show, vector
from tests.reference.bandits import SlowSOBA

#: (x, true label, label shown), the trace of B5.
TRACE = [
    ((1, 0), 0, 0),
    ((0, 1), 1, 1),
    ((1, 1), 2, 0),
    ((-1, 1), 0, 0),
    ((1, -1), 1, 2),
    ((2, 1), 2, 2),
]


@pytest.mark.parametrize(
    ("matrix", "sums", "weights"),
    [
        (
            "full",
            [0, 0, 0, 7.971014492754, 7.971014492754, 7.971014492754 + 0.724260295611],
            [
                [-0.936491672988, -0.456825206336],
                [0.277123642827, 0.127141191255],
                [0.659368030161, 0.32968401508],
            ],
        ),
        (
            "diagonal",
            [0, 0, 0, 12.333864965444, 12.333864965444, 12.333864965444 + 0.894743382627],
            [
                [-0.714285714286, 0],
                [-0.215311004785, -0.322580645161],
                [0.487804878049, 0.909090909091],
            ],
        ),
    ],
)
def test_golden_b5(matrix: str, sums: list[float], weights: list[list[float]]) -> None:
    """A trace of six rounds: the running sum after each and the weights at the end."""
    learner = SOBA(2, 3, gamma=0.3, matrix=matrix)
    for (x, truth, label), margin_sum in zip(TRACE, sums, strict=True):
        show(learner, vector(*x), label, int(label == truth))
        assert learner.margin_sum == pytest.approx(margin_sum, abs=1e-11)
    np.testing.assert_allclose(learner.weights, weights, rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("matrix", "m", "row"),
    [
        ("full", -0.240183792815, [0.357142857143, 0]),
        ("diagonal", -0.357535753575, [0.555555555556, 0]),
    ],
)
def test_golden_b5b_rejection(matrix: str, m: float, row: list[float]) -> None:
    """A round whose m would take the running sum below 0 changes nothing."""
    learner = SOBA(2, 3, gamma=0.3, matrix=matrix)
    slow = SlowSOBA(2, 3, 1.0, full=matrix == "full")
    x = vector(1, 0)
    show(learner, x, 0, 1)
    slow.update(x, 0, 0.8, 1)
    before = state_digest(learner.state())
    for _ in range(2):
        show(learner, x, 0, 1)
        assert slow.update(x, 0, 0.8, 1) == pytest.approx(m, abs=1e-11)
    assert state_digest(learner.state()) == before
    assert learner.weights[0].tolist() == pytest.approx(row, abs=1e-11)


@pytest.mark.parametrize("matrix", ["diagonal", "full"])
@given(seed=st.integers(0, 2**32 - 1), a=st.floats(0.1, 10), gamma=st.floats(0.05, 1))
def test_equals_slow_twin_and_keeps_its_invariants(
    matrix: str, seed: int, a: float, gamma: float
) -> None:
    """Noisy clicks: as A solved outright; sum >= 0; no change without click; mistakes update."""
    rng = np.random.default_rng(seed)
    fast = SOBA(3, 3, gamma=gamma, a=a, matrix=matrix)
    slow = SlowSOBA(3, 3, a, full=matrix == "full")
    for x in rng.normal(size=(25, 3)):
        decision = fast.distribution(x)
        label, bit = draw(decision, rng.random()), int(rng.random() < 0.6)
        propensity = float(decision.probabilities[label])
        before, had = state_digest(fast.state()), fast.margin_sum
        fast.update(Outcome(x, label, decision.greedy, propensity, bit))
        slow.update(x, label, propensity, bit)
        np.testing.assert_allclose(fast.weights, slow.weights, rtol=1e-6, atol=1e-9)
        assert fast.margin_sum == pytest.approx(slow.margin_sum, rel=1e-6, abs=1e-9)
        assert fast.margin_sum >= 0
        if bit == 0:
            assert state_digest(fast.state()) == before
        elif label != decision.greedy:
            assert fast.margin_sum >= had
            assert state_digest(fast.state()) != before
    if matrix == "full":
        np.testing.assert_allclose(fast.weights.sum(0), 0, atol=1e-9)
        inverse = np.asarray(fast.state()["inverse"], dtype=np.float64).reshape(9, 9)
        assert (inverse == inverse.T).all(), "A stays symmetric, to the bit"
        eigenvalues = np.linalg.eigvalsh(inverse)
        assert eigenvalues.min() > 0
        assert eigenvalues.max() <= 1 / a * (1 + 1e-9), "A >= a I"


def test_one_label_learns_nothing() -> None:
    """Without another active label there is nothing to tell apart."""
    learner = SOBA(2, 2)
    learner.retire_label(1)
    before = state_digest(learner.state())
    learner.update(Outcome(vector(1, 1), 0, 0, 1.0, 1))
    assert state_digest(learner.state()) == before


def test_retired_label_is_no_rival() -> None:
    """The row that is pushed down is that of the best other active label."""
    learner = SOBA(1, 3, matrix="full")
    learner.retire_label(0)
    learner.update(Outcome(vector(1), 2, 0, 0.5, 1))
    assert learner.weights[0] == 0
    assert learner.weights[1] < 0 < learner.weights[2]


def test_too_large_matrix_refused() -> None:
    """The full form is bounded, at birth and when a label is added, which then changes nothing."""
    with pytest.raises(ParameterError, match="full matrix: expected at most 4,000,000 entries"):
        SOBA(201, 10, matrix="full")
    learner = SOBA(250, 8, matrix="full")
    with pytest.raises(ParameterError, match="diagonal"):
        learner.add_label()
    assert learner.n_labels == 8
    assert learner.distribution(np.ones(250)).probabilities.size == 8


def test_full_form_survives_instances_of_wildly_different_size() -> None:
    """Where rounding has used up A^-1 a round is left out, and the weights stay bounded."""
    learner = SOBA(2, 2, matrix="full")
    rng = np.random.default_rng(0)
    for _ in range(500):
        x = rng.choice([-1.0, 1.0], 2) * 10.0 ** rng.integers(-6, 7)
        learner.update(Outcome(x, int(rng.integers(2)), 0, 1e-9, 1))
    assert np.abs(learner.weights).max() <= 500 / 1e-9**0.5


def test_a_full_matrix_that_rounding_used_up_is_restored() -> None:
    """Protects recovery: a direction far below 0 is honest where features differ wildly in size."""
    learner, rng = SOBA(5, 3, matrix="full", a=1e-6), np.random.default_rng(0)
    for _ in range(1000):
        x = np.clip(rng.normal(size=5) * 10.0 ** np.linspace(-6, 6, 5), -1e6, 1e6)
        learner.update(Outcome(x, int(rng.integers(3)), 0, float(rng.uniform(0.05, 1)), 1))
    state = learner.state()
    matrix = np.asarray(state["inverse"]).reshape(15, 15)
    assert np.diagonal(matrix).min() < 0
    assert np.array_equal(np.asarray(SOBA.from_state(state).state()["inverse"]), state["inverse"])


def _with(place: tuple[int, ...], value: float) -> FloatArray:
    inverse = np.asarray(SOBA(2, 2, matrix="full").state()["inverse"]).astype(np.float64)
    inverse[place] = value
    return inverse


@pytest.mark.parametrize(
    ("matrix", "name", "wrong"),
    [
        ("diagonal", "diagonal", np.full((2, 2), 0.9)),
        ("full", "inverse", _with((0, 0, 0, 0), 1.1)),
        ("full", "inverse", _with((0, 0, 1, 1), 0.1)),
        ("full", "margin_sum", -0.1),
        # Squares of such weights would be beyond any margin, a click or two later.
        ("full", "weights", np.full((2, 2), 2e25)),
        ("diagonal", "weights", np.full((2, 2), -2e25)),
        ("diagonal", "theta", np.full((2, 2), 1.0)),
    ],
)
def test_forged_states_are_refused(matrix: str, name: str, wrong: StateValue) -> None:
    """What no rounds lead to is named."""
    state = SOBA(2, 2, matrix=matrix).state()
    with pytest.raises(StateError, match=f"state's {name}"):
        SOBA.from_state({**state, name: wrong})


@pytest.mark.parametrize(
    ("options", "name"),
    [({"a": 0}, "a"), ({"a": "1"}, "a"), ({"matrix": "dense"}, "matrix"), ({"gamma": 2}, "gamma")],
)
def test_bad_options_refused(options: dict[str, object], name: str) -> None:
    """Each option says what it expects."""
    with pytest.raises(ParameterError) as refused:
        SOBA(2, 2, **options)  # type: ignore[arg-type] # wrong types are what is tried
    assert str(refused.value).startswith(f"{name}: ")
