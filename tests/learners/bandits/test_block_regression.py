"""Block-diagonal regressions: which saved covariances are taken back, and which are not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners import Forward, Outcome, StateError
from learners.bandits.block_covariance import diagonals, let_drift, turned
from learners.bandits.block_regression import FIRST_COUNT, NOISE_MEMORY, BlockRegression
from learners.validation import FloatArray

SEEDS = st.integers(0, 2**32 - 1)


def new(drift: float = 0.0) -> BlockRegression:
    """Return two rows of six numbers in blocks of four."""
    return BlockRegression(2, np.array([0.1] * 5 + [0.25]), block=4, drift=drift)


def one_below(covariances: FloatArray) -> None:
    """Make one variance negative."""
    covariances[1, 0, 2, 2] = -0.01


def too_large(covariances: FloatArray) -> None:
    """Make one variance larger than it was at first."""
    covariances[1, 0, 2, 2] = 0.11


def lopsided(covariances: FloatArray) -> None:
    """Make one matrix no longer its own mirror image."""
    covariances[1, 0, 2, 3] = 0.01


def beyond_one(covariances: FloatArray) -> None:
    """Let two numbers be correlated by more than 1."""
    covariances[1, 0, 2, 3] = covariances[1, 0, 3, 2] = 0.101


def all_against_all(covariances: FloatArray) -> None:
    """Let four numbers each be the opposite of the three others, as no numbers are."""
    covariances[1, 0] = 0.1 * (1.4 * np.eye(4) - 0.4)


@pytest.mark.parametrize("forge", [one_below, too_large, lopsided, beyond_one, all_against_all])
def test_what_is_no_covariance_is_refused(forge: Callable[[FloatArray], None]) -> None:
    """Each way not to be one is refused by name; taken, some overflow within ten rounds."""
    state = new().state()
    covariances = np.array(state["covariances"])
    forge(covariances)
    with pytest.raises(StateError, match="state's covariances: expected"):
        new().restore({**state, "covariances": covariances})


@given(seed=SEEDS, size=st.floats(-3, 99))
def test_what_is_taken_stays_finite(seed: int, size: float) -> None:
    """Whatever numbers a state holds: it is refused, or a hundred rounds leave finite ones."""
    rng = np.random.default_rng(seed)
    state = Forward(3, 2, n_waves=4, block_size=4).state()
    covariances = np.array(state["covariances"])
    covariances += rng.normal(size=covariances.shape) * 10**size * rng.integers(2)
    covariances *= rng.uniform(0.0, 1.0)
    mirrored = (covariances + covariances.swapaxes(-1, -2)) / 2
    try:
        learner = Forward.from_state({**state, "covariances": mirrored})
    except StateError:
        return
    for x in rng.normal(size=(100, 3)):
        learner.update(Outcome(x, int(rng.integers(2)), 0, 0.5, int(rng.integers(2))))
    Forward.from_state(learner.state())


def test_noise_is_that_of_the_newest_examples() -> None:
    """However many there were: else noise that rose late would be found in as many again."""
    regression, z = new(), np.zeros(8)
    regression.counts[0] = 1e9
    before = regression._noises[0]
    regression.fit(0, z, 1.0)
    assert regression._noises[0] == before + (1.0 - before) / NOISE_MEMORY
    regression.fit(1, z, 1.0)
    assert regression._noises[1] == before + (1.0 - before) / (1 + FIRST_COUNT)


def test_rare_clicks_are_those_of_the_newest_examples() -> None:
    """However long nobody clicked: else a row would learn next to nothing for as long again."""
    z = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0])
    quiet, usual = new(), new()
    for _ in range(100_000):
        quiet.fit(0, z, 0.0)
    quiet.rounds = 1e9
    for i in range(2_000):
        quiet.fit(1, z, float(i % 2))
        usual.fit(1, z, float(i % 2))
    assert abs(quiet.predict(z)[1] - usual.predict(z)[1]) < 0.02


def test_no_silence_is_too_long() -> None:
    """A share of clicks that has become 0 divides nothing, and what is learned stays finite."""
    regression, z = new(), np.ones(8)
    regression._clicked = 0.0
    regression.fit(0, z, 0.0)
    regression.fit(0, z, 1.0)
    assert 0.0 < regression.predict(z)[0] < 1.0


def test_drift_is_of_the_row_that_learns() -> None:
    """Its covariance comes back to the first one, by as much as `let_drift` says, and no other."""
    still, moving = new(), new(drift=0.01)
    z = np.array([0.5, -0.2, 0.1, 0.4, 0.3, 1.0, 0.0, 0.0])
    for regression in (still, moving):
        regression.fit(0, z, 1.0)
    covariances, drifted = (np.array(each.state()["covariances"]) for each in (still, moving))
    expected, first = turned(covariances), turned(np.array(new().state()["covariances"]))
    let_drift(expected[0], 0.01, diagonals(first[0]))
    np.testing.assert_array_equal(drifted, turned(expected))
    assert (drifted[0] != covariances[0]).any()


@pytest.mark.parametrize("drift", [0.0, 1e-5])
def test_old_covariances_are_restored(drift: float) -> None:
    """Protects recovery: the rounding of 100,000 examples that look alike is no forgery."""
    regression, rng = new(drift), np.random.default_rng(1)
    inputs = np.zeros((100_000, regression.padded))
    inputs[:, :6] = 0.4 + rng.normal(size=(100_000, 6)) * 1e-6
    for i, z in enumerate(inputs):
        regression.fit(0, z, float(i % 3 == 0))
    new(drift).restore(regression.state())
