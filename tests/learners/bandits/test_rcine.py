"""RCINE: blocks, the estimator, and the guard."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from learners import (
    RCINE,
    RCNBF,
    Banditron,
    Learner,
    NoiseRates,
    Outcome,
    ParameterError,
    StateError,
    UnsupportedError,
    draw,
)
from learners.assertions import play, state_digest
from learners.noise import flip_bit
from learners.validation import FloatArray
from tests.learners.bandits.golden import vector

BLOCK = 50


class _Estimator:
    """Says what it is told to, and keeps what it was asked."""

    def __init__(self, answer: NoiseRates | None) -> None:
        self.answer = answer
        self.asked: list[tuple[FloatArray, NDArray[np.int64], NDArray[np.int64]]] = []

    def __call__(
        self, xs: FloatArray, labels: NDArray[np.int64], feedback: NDArray[np.int64]
    ) -> NoiseRates | None:
        self.asked.append((xs, labels, feedback))
        return self.answer


def _noisy_rounds(learner: Learner, rng: np.random.Generator, n_rounds: int) -> list[Outcome]:
    outcomes = []
    for _ in range(n_rounds):
        x = rng.normal(size=learner.n_features)
        decision = learner.distribution(x)
        label = draw(decision, rng.random())
        right = int(label == int(x[: learner.n_labels].argmax()))
        bit = flip_bit(right, NoiseRates(0.1, 0.2), rng.random())
        propensity = float(decision.probabilities[label])
        outcomes.append(Outcome(x, label, decision.greedy, propensity, bit))
        learner.update(outcomes[-1])
    return outcomes


def test_first_block_is_banditron() -> None:
    """Before the first estimate it is the Banditron bit for bit."""
    learner = RCINE(4, 3, gamma=0.3, block_size=BLOCK, estimator=_Estimator(NoiseRates(0.1, 0.2)))
    plain = Banditron(4, 3, gamma=0.3)
    _noisy_rounds(learner, np.random.default_rng(0), BLOCK)
    _noisy_rounds(plain, np.random.default_rng(0), BLOCK)
    assert learner.weights.tobytes() == plain.weights.tobytes()


def test_true_rates_make_it_rcnbf_after_the_first_block() -> None:
    """With an estimator that knows the truth it goes on as RCNBF, from round N_s + 1."""
    learner = RCINE(4, 3, gamma=0.3, block_size=BLOCK, estimator=_Estimator(NoiseRates(0.1, 0.2)))
    rng = np.random.default_rng(1)
    _noisy_rounds(learner, rng, BLOCK)
    known = RCNBF(4, 3, gamma=0.3, rho_0=0.1, rho_1=0.2)
    known._set_weights(learner.weights)
    again = np.random.default_rng()
    again.bit_generator.state = rng.bit_generator.state
    _noisy_rounds(learner, rng, 3 * BLOCK + 7)
    _noisy_rounds(known, again, 3 * BLOCK + 7)
    assert learner.weights.tobytes() == known.weights.tobytes()


def test_estimator_sees_each_block_once() -> None:
    """Blocks do not overlap, and hold instance, shown label and bit of their rounds."""
    estimator = _Estimator(None)
    learner = RCINE(3, 3, gamma=0.3, block_size=BLOCK, estimator=estimator)
    outcomes = _noisy_rounds(learner, np.random.default_rng(2), 2 * BLOCK + 5)
    assert len(estimator.asked) == 2
    for i, (xs, labels, feedback) in enumerate(estimator.asked):
        block = outcomes[i * BLOCK : (i + 1) * BLOCK]
        assert xs.tolist() == [each.x.tolist() for each in block]
        assert labels.tolist() == [each.label for each in block]
        assert feedback.tolist() == [each.feedback for each in block]
    assert learner.rates == NoiseRates(0, 0), "None keeps the rates"


def test_block_with_one_feedback_value_is_not_asked_about() -> None:
    """A block that cannot tell is dropped; the next one starts empty."""
    estimator = _Estimator(NoiseRates(0.3, 0.3))
    learner = RCINE(1, 2, block_size=4, estimator=estimator)
    for bit in (0, 0, 0, 0, 1, 1, 1, 1, 0, 1, 0, 1):
        learner.update(Outcome(vector(1), 0, 0, 0.9, bit))
    assert [feedback.tolist() for _, _, feedback in estimator.asked] == [[0, 1, 0, 1]]
    assert learner.rates == NoiseRates(0.3, 0.3)


def test_guard_keeps_beta() -> None:
    """Estimates that add up to too much are shrunk by one factor, whatever way they come."""
    learner = RCINE(1, 2, beta_min=0.2, block_size=2, estimator=_Estimator(NoiseRates(0.3, 0.6)))
    for bit in (0, 1):
        learner.update(Outcome(vector(1), 0, 0, 0.9, bit))
    assert (learner.rho_0, learner.rho_1) == pytest.approx((0.8 / 3, 1.6 / 3))
    learner.set_rates(0.508, 0.515)
    assert learner.rho_0 / learner.rho_1 == pytest.approx(0.508 / 0.515)
    assert learner.rates.beta == pytest.approx(0.2)
    learner.set_rates(0.1, 0.2)
    assert learner.rates == NoiseRates(0.1, 0.2)


def test_state_in_mid_block_goes_on_bit_for_bit() -> None:
    """The unfinished block is part of the state: the next estimate comes at the same round."""
    learner = RCINE(3, 3, gamma=0.3, block_size=BLOCK, estimator=_Estimator(NoiseRates(0.1, 0.2)))
    play(learner, np.random.default_rng(3), BLOCK + 20)
    state = learner.state()
    assert np.asarray(state["block_xs"]).shape == (20, 3)
    again = RCINE.from_state(state)
    again.attach_estimator(_Estimator(NoiseRates(0.2, 0.1)))
    learner.attach_estimator(_Estimator(NoiseRates(0.2, 0.1)))
    assert state_digest(again.state()) == state_digest(state)
    play(learner, np.random.default_rng(4), 100)
    play(again, np.random.default_rng(4), 100)
    assert learner.rates == NoiseRates(0.2, 0.1)
    assert state_digest(again.state()) == state_digest(learner.state())


def test_restored_in_mid_block_it_asks_for_its_estimator() -> None:
    """Without its estimator it would silently become another learner: it refuses instead."""
    learner = RCINE(1, 2, block_size=5, estimator=_Estimator(None))
    again = RCINE.from_state(learner.state())
    with pytest.raises(UnsupportedError, match="attach_estimator"):
        again.update(Outcome(vector(1), 0, 0, 0.9, 1))
    assert state_digest(again.state()) == state_digest(learner.state())


def test_without_estimator_nothing_is_kept() -> None:
    """In the service, where rates come from outside, the state stays small."""
    learner = RCINE(3, 2)
    play(learner, np.random.default_rng(5), 100)
    assert not any(name.startswith("block_") and name != "block_size" for name in learner.state())


def test_an_estimator_can_come_later() -> None:
    """Also to a learner that had none: it asks after the next block."""
    learner, estimator = RCINE(2, 3, block_size=20), _Estimator(NoiseRates(0.2, 0.1))
    play(learner, np.random.default_rng(0), 30)
    learner.attach_estimator(estimator)
    play(learner, np.random.default_rng(0), 20)
    assert [len(xs) for xs, _, _ in estimator.asked] == [20]
    assert (learner.rho_0, learner.rho_1) == (0.2, 0.1)


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("block_labels", np.zeros(3, np.int64), "block_labels: expected fewer than 3 rounds"),
        ("block_labels", np.full(2, 3), "block_labels: expected any number of int64"),
        ("block_feedback", np.full(2, 2), "block_feedback: expected 2 of int64"),
        ("block_xs", np.zeros((3, 2)), "block_xs"),
    ],
)
def test_blocks_that_no_rounds_lead_to_are_refused(
    name: str, value: NDArray[np.generic], match: str
) -> None:
    """A block that is full has been estimated from; of codes and bits there are no others."""
    learner = RCINE(2, 3, block_size=3, estimator=_Estimator(None))
    play(learner, np.random.default_rng(0), 2)
    state = learner.state()
    RCINE.from_state(state)
    with pytest.raises(StateError, match=match):
        RCINE.from_state({**state, name: value})


@pytest.mark.parametrize("block_size", [500_000_001, 10**30])
def test_blocks_that_no_memory_holds_are_refused(block_size: int) -> None:
    """Also of a state from a file: a wrong option is named, and is no crash."""
    estimator = _Estimator(None)
    words = "block_size: expected an integer of at most 500,000,000"
    with pytest.raises(ParameterError, match=words):
        RCINE(2, 3, block_size=block_size, estimator=estimator)
    learner = RCINE(2, 3, block_size=block_size)  # which is told rates, and keeps no block
    with pytest.raises(ParameterError, match=words):
        learner.attach_estimator(estimator)
    saved = RCINE(2, 3, block_size=3, estimator=estimator).state()
    with pytest.raises(StateError, match=words):
        RCINE.from_state({**saved, "block_size": block_size})


def test_an_estimator_that_cannot_be_called_is_refused() -> None:
    """At once, and not 50,000 rounds later."""
    wrong: Any = NoiseRates(0.1, 0.2)
    with pytest.raises(ParameterError, match="estimator: expected a function of"):
        RCINE(2, 3, estimator=wrong)
    learner = RCINE(2, 3, block_size=1)
    with pytest.raises(ParameterError, match="estimator: expected a function of"):
        learner.attach_estimator(wrong)
    learner.update(Outcome(np.ones(2), 0, 0, 0.5, 1))  # keeps no block, as before
    assert not any(name.startswith("block_") and name != "block_size" for name in learner.state())
