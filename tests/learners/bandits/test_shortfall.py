"""The alarm over clicks that stay away: when it comes, when it must not, and its state."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners import StateError
from learners.bandits.shortfall import LEAST_ROUNDS, Shortfall

Round = tuple[int, float]


def rounds_of(expected: float, share: float, count: int, seed: int) -> list[Round]:
    """Return bits of which `share` are 1, each with the chance that was `expected`."""
    bits = np.random.default_rng(seed).random(count) < share
    return [(int(bit), expected) for bit in bits]


def alarms(shortfall: Shortfall, rounds: list[Round]) -> list[int]:
    """Return the places of the rounds that are an alarm."""
    return [place for place, each in enumerate(rounds) if shortfall.observe(*each)]


@given(st.lists(st.tuples(st.integers(0, 1), st.floats(0, 1)), max_size=60), st.integers(1, 40))
def test_equals_slow_twin(some: list[Round], times: int) -> None:
    """How far all that lacked stands above its lowest point is what counts, at clicks only."""
    shortfall, found = Shortfall(), 0
    total, lowest, since = 0.0, 0.0, 0
    for bit, chance in some * times:
        total += chance - bit - 0.07
        lowest, since = min(lowest, total), since + 1
        if abs(total - lowest - 40.0) < 1e-6:
            return  # Rounding decides.
        alarm = bool(bit) and total - lowest > 40.0 and since >= 1000
        if alarm:
            total, lowest, since, found = 0.0, 0.0, 0, found + 1
        assert shortfall.observe(bit, chance) == alarm
    assert shortfall.alarms == found


@pytest.mark.parametrize(("before", "after", "within"), [(0.9, 0.5, 180), (0.5, 0.4, 2_500)])
def test_lacking_clicks_are_noticed_soon(before: float, after: float, within: int) -> None:
    """Protects what is promised: 40 clicks beyond the allowance are enough."""
    for seed in range(5):
        rounds = rounds_of(before, before, 5_000, seed) + rounds_of(before, after, 5_000, seed)
        assert 5_000 < alarms(Shortfall(), rounds)[0] < 5_000 + within


@pytest.mark.parametrize("share", [0.02, 0.2, 0.5, 0.98])
def test_what_was_expected_is_no_alarm(share: float) -> None:
    """Protects what was learned: none in 200,000 rounds, nor where 5 % of clicks stay away."""
    assert alarms(Shortfall(), rounds_of(share + 0.05, share, 200_000, 1)) == []


def test_a_dead_counter_is_no_alarm() -> None:
    """Without any click there is nothing to learn from; the first one that comes again counts."""
    shortfall = Shortfall()
    assert alarms(shortfall, rounds_of(0.9, 0.9, 2_000, 0) + rounds_of(0.9, 0.0, 5_000, 0)) == []
    assert shortfall.observe(1, 0.9)


def test_alarms_keep_their_distance() -> None:
    """A learner that begins anew gets the rounds that it needs."""
    places = alarms(Shortfall(), rounds_of(1.0, 0.5, 10_000, 0))
    assert len(places) > 5
    assert np.diff(places).min() >= LEAST_ROUNDS


def test_goes_on_from_a_state() -> None:
    """Protects the fold: the sum, the rounds and the count go on where they were."""
    whole, rounds = Shortfall(), rounds_of(0.9, 0.5, 3_000, 0)
    first = alarms(whole, rounds[:1_500])
    half = Shortfall()
    half.restore(whole.state())
    assert first
    assert alarms(half, rounds[1_500:]) == alarms(whole, rounds[1_500:])
    assert half.alarms == whole.alarms > 1


@pytest.mark.parametrize(
    "numbers", [[-1, 0, 0], [0, 0.5, 0], [0, 1_001, 0], [0, -1, 0], [0, 0, -1], [0, 0, 1e300]]
)
def test_what_is_no_state_is_refused(numbers: list[float]) -> None:
    """Sums below 0, and counts that are none, are named."""
    with pytest.raises(StateError, match="shortfall"):
        Shortfall().restore({"shortfall": np.array(numbers, dtype=np.float64)})
