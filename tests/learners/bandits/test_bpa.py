"""The bandit passive-aggressive learner."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from learners import BPA, Outcome, ParameterError, draw
from learners.assertions import state_digest
from learners.validation import FloatArray
from tests.learners.bandits.golden import ROUNDS, show, vector
from tests.reference.bandits import SlowBPA

INSTANCES = hnp.arrays(np.float64, 3, elements=st.floats(-10, 10, width=32))


@pytest.mark.parametrize(
    ("variant", "aggressiveness", "taus", "weights"),
    [
        ("hard", 1.0, [1, 1, 0.5, 0, 0], [[1, 0], [0, -1], [0.5, 0.5]]),
        ("I", 0.3, [0.3] * 5, [[0.6, -0.3], [0.3, -0.6], [0.3, 0.3]]),
        (
            "II",
            0.5,
            [0.5, 0.5, 0.333333333333, 0.166666666667, 0.166666666667],
            [
                [0.666666666667, -0.166666666667],
                [0.166666666667, -0.666666666667],
                [0.333333333333, 0.333333333333],
            ],
        ),
    ],
)
def test_golden_b4(
    variant: str, aggressiveness: float, taus: list[float], weights: list[list[float]]
) -> None:
    """A trace of five rounds: the step of each and the weights at the end."""
    learner = BPA(2, 3, gamma=0.3, variant=variant, aggressiveness=aggressiveness)
    slow = SlowBPA(2, 3, variant, aggressiveness)
    for (x, label, feedback), tau in zip(ROUNDS, taus, strict=False):
        show(learner, vector(*x), label, feedback)
        assert slow.update(x, label, feedback) == pytest.approx(tau, abs=1e-11)
    np.testing.assert_allclose(learner.weights, weights, rtol=0, atol=1e-11)
    np.testing.assert_allclose(slow.weights, weights, rtol=0, atol=1e-11)


@pytest.mark.parametrize("variant", ["hard", "I", "II"])
def test_equals_slow_twin(variant: str) -> None:
    """A long stream of the fast learner and of plain loops ends in the same weights."""
    rng = np.random.default_rng(0)
    fast = BPA(5, 4, variant=variant, aggressiveness=0.1)
    slow = SlowBPA(5, 4, variant, 0.1)
    for x in rng.normal(size=(500, 5)):
        label, bit = int(rng.integers(4)), int(rng.integers(2))
        fast.update(Outcome(x, label, 0, 0.5, bit))
        slow.update(x.tolist(), label, bit)
    np.testing.assert_allclose(fast.weights, slow.weights, rtol=1e-9, atol=1e-12)


@given(hnp.arrays(np.float64, (2, 3), elements=st.floats(-10, 10)), INSTANCES, st.integers(0, 1))
def test_hard_update_makes_the_score_agree(
    weights: FloatArray, x: FloatArray, feedback: int
) -> None:
    """After a hard update with a loss the signed score is 1; without one nothing changes."""
    assume(float(x @ x) > 1e-3)
    learner = BPA(3, 2)
    learner._set_weights(weights.copy())
    sign = 2 * feedback - 1
    loss = 1 - sign * float(weights[1] @ x)
    learner.update(Outcome(x, 1, 0, 0.5, feedback))
    if loss > 1e-9:
        assert sign * float(learner.weights[1] @ x) == pytest.approx(1, abs=1e-9)
    elif loss < -1e-9:
        assert learner.weights.tobytes() == weights.tobytes()
    assert learner.weights[0].tobytes() == weights[0].tobytes(), "only the shown label moves"


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.25, 2.0, 1024.0]))
def test_scale_of_the_instances_does_not_matter(seed: int, scale: float) -> None:
    """All x times a constant: the same decisions (powers of 2 round alike)."""
    one, two = BPA(4, 3, gamma=0.3), BPA(4, 3, gamma=0.3)
    rng = np.random.default_rng(seed)
    for x in rng.normal(size=(40, 4)):
        decision, scaled = one.distribution(x), two.distribution(scale * x)
        assert decision.greedy == scaled.greedy
        label, bit = draw(decision, rng.random()), int(rng.integers(2))
        one.update(Outcome(x, label, decision.greedy, 0.5, bit))
        two.update(Outcome(scale * x, label, decision.greedy, 0.5, bit))


@pytest.mark.parametrize("variant", ["hard", "I", "II"])
def test_short_instance_changes_nothing(variant: str) -> None:
    """Dividing by next to nothing would throw the weights about."""
    learner = BPA(2, 2, variant=variant)
    before = state_digest(learner.state())
    for x in (vector(0, 0), vector(1e-160, 0), vector(6e-7, 7e-7)):
        learner.update(Outcome(x, 1, 0, 0.5, 1))
    assert state_digest(learner.state()) == before
    learner.update(Outcome(vector(1e-6, 1e-6), 1, 0, 0.5, 1))
    assert learner.weights[1].any()


def test_weights_grow_as_promised() -> None:
    """The documented bound: a round raises the square of the row by at most 1 / |x|^2."""
    rng = np.random.default_rng(1)
    learner = BPA(3, 1)
    for _ in range(300):
        x = rng.normal(size=3) * 10.0 ** rng.integers(-4, 4)
        before = float((learner.weights**2).sum())
        learner.update(Outcome(x, 0, 0, 1.0, int(rng.integers(2))))
        after = float((learner.weights**2).sum())
        assert after <= (before + 1 / float(x @ x)) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variant": "III"}, "variant: expected 'hard' or 'I' or 'II', got 'III'"),
        ({"variant": 1}, "variant: "),
        ({"aggressiveness": 0}, "aggressiveness: "),
        ({"aggressiveness": float("inf")}, "aggressiveness: "),
    ],
)
def test_bad_options_refused(options: dict[str, object], message: str) -> None:
    """Each option says what it expects."""
    with pytest.raises(ParameterError) as refused:
        BPA(2, 2, **options)  # type: ignore[arg-type] # wrong types are what is tried
    assert str(refused.value).startswith(message)
