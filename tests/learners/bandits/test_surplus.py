"""The alarm over more clicks than were expected: when it comes, and its state."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners import StateError
from learners.bandits.surplus import ALARM, Surplus

#: Bit, and the chance of a click that was expected.
Round = tuple[int, float]


def rounds_of(expected: float, share: float, count: int, seed: int) -> list[Round]:
    """Return bits of which `share` are 1, each with the chance that was `expected`."""
    rng = np.random.default_rng(seed)
    return [(bit, expected) for bit in (rng.random(count) < share).astype(int).tolist()]


def alarms(surplus: Surplus, rounds: list[Round], missed: float = 0.5) -> list[int]:
    """Return the places of the rounds that are an alarm."""
    found = [surplus.observe(bit, chance=chance, missed=missed) for bit, chance in rounds]
    return np.flatnonzero(found).tolist()


@given(st.lists(st.tuples(st.integers(0, 1), st.floats(0, 1)), max_size=60), st.integers(1, 60))
def test_equals_slow_twin(some: list[Round], times: int) -> None:
    """How far all that was beyond stands above its lowest point is what counts."""
    surplus, rounds = Surplus(), some * times
    total = lowest = 0.0
    begun, expected = 0, []
    for place, (bit, chance) in enumerate(rounds):
        if place - begun < 1000:
            continue
        likely = min(max(chance + 0.1, 0.5), 0.9)
        total += (bit - chance - 0.1) * 0.25 / (likely * (1 - likely))
        lowest = min(lowest, total)
        if abs(total - lowest - 30.0) < 1e-6:
            return  # Rounding decides.
        if total - lowest > 30.0:
            expected.append(place)
            total, lowest, begun = 0.0, 0.0, place + 1
    assert alarms(surplus, rounds) == expected
    assert surplus.alarms == len(expected)


@pytest.mark.parametrize(
    ("before", "after", "within"), [(0.6, 0.95, 150), (0.8, 1.0, 250), (0.5, 0.7, 500)]
)
def test_noise_that_falls_is_noticed_soon(before: float, after: float, within: int) -> None:
    """Protects what is promised: 30 clicks beyond the allowance are enough."""
    for seed in range(5):
        rounds = rounds_of(before, before, 5_000, seed) + rounds_of(before, after, 5_000, seed)
        assert 5_000 < alarms(Surplus(), rounds)[0] < 5_000 + within


@pytest.mark.parametrize("share", [0.02, 0.2, 0.5, 0.9])
def test_what_was_expected_is_no_alarm(share: float) -> None:
    """Protects what was found: none in 200,000 rounds, nor where 7 % more clicks come."""
    assert alarms(Surplus(), rounds_of(share - 0.02, share + 0.05, 200_000, 1)) == []


def test_the_first_rounds_do_not_count() -> None:
    """Who has just begun expects too little; and the next round does."""
    rounds: list[Round] = [(1, 0.0)] * 1_060
    assert alarms(Surplus(), rounds_of(0.5, 0.9, 1_000, 0) + rounds_of(0.9, 0.9, 5_000, 0)) == []
    # Each is .9 beyond.
    assert alarms(Surplus(), rounds) == [1_033]


def test_begun_anew_it_waits() -> None:
    """Protects rates that begin anew for another reason from an alarm over those before."""
    surplus = Surplus()
    alarms(surplus, [(1, 0.0)] * 1_033)
    surplus.begin_anew()
    assert alarms(surplus, [(1, 0.0)] * 1_033) == []
    assert surplus.observe(1, chance=0.0, missed=0.5)


@pytest.mark.parametrize(("missed", "count"), [(0.1, 0), (0.11, 4)])
def test_where_hardly_any_were_missed_no_noise_can_have_fallen(missed: float, count: int) -> None:
    """Protects who learns from another that is right more often than he drew his labels."""
    surplus = Surplus()
    assert len(alarms(surplus, [(1, 0.7)] * 4_700, missed)) == surplus.alarms == count


@pytest.mark.parametrize("cut", [500, 1_020, 1_040, 2_500])
def test_goes_on_from_a_state(cut: int) -> None:
    """Protects the fold: sum, rounds and count go on where they were."""
    rounds = rounds_of(0.2, 0.9, 5_000, 0)
    whole, half = Surplus(), Surplus()
    alarms(whole, rounds[:cut])
    half.restore(whole.state("more"), "more")
    assert alarms(half, rounds[cut:]) == alarms(whole, rounds[cut:])
    assert half.alarms == whole.alarms > 1


@pytest.mark.parametrize(
    "numbers",
    [
        [-1, 0, 0],
        [ALARM + 1, 0, 0],
        [0, 0.5, 0],
        [0, 1_001, 0],
        [0, -1, 0],
        [0, 0, -1],
        [0, 0, 2**54],
    ],
)
def test_what_is_no_state_is_refused(numbers: list[float]) -> None:
    """Sums out of range, and counts that are none, are named."""
    with pytest.raises(StateError, match="state's more: expected"):
        Surplus().restore({"more": np.array(numbers, dtype=np.float64)}, "more")
