"""The drift detector: river's alarms, bounded sums, and a state that goes on where it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river.drift import PageHinkley

from learners import StateError
from learners.noise import ClickDrift
from learners.noise.drift import ALARM, LEAST_BITS, MOST_BITS, TOLERANCE


def bits_of(shares: list[float], each: int, seed: int) -> list[int]:
    """Return bits whose share of ones changes after every `each`."""
    rng = np.random.default_rng(seed)
    ones = rng.random(each * len(shares)) < np.repeat(shares, each)
    return [int(one) for one in ones]


def alarms(detector: ClickDrift, bits: list[int]) -> list[int]:
    """Return the places of the bits that raise the alarm."""
    return [place for place, bit in enumerate(bits) if detector.observe(bit)]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5), st.integers(0, 2**32))
def test_the_alarms_are_rivers(shares: list[float], seed: int) -> None:
    """River's Page-Hinkley without forgetting raises the same alarms, several in a row."""
    river: Any = PageHinkley(min_instances=LEAST_BITS, delta=TOLERANCE, threshold=ALARM, alpha=1.0)
    bits = bits_of(shares, 1500, seed)
    theirs = []
    for place, bit in enumerate(bits):
        river.update(bit)
        if river.drift_detected:
            theirs.append(place)
    assert alarms(ClickDrift(), bits) == theirs


@pytest.mark.parametrize(
    ("before", "after", "within"), [(0.6, 0.5, 1700), (0.3, 0.45, 1200), (0.8, 0.5, 800)]
)
def test_a_change_is_noticed_soon(before: float, after: float, within: int) -> None:
    """Protects what is promised: a change by .1 within some 1,000 bits, whichever way."""
    for seed in range(5):
        first, *_ = alarms(ClickDrift(), bits_of([before, after], 20_000, seed))
        assert 20_000 < first < 20_000 + within


def test_no_change_is_no_alarm() -> None:
    """Protects the machine from trainings for nothing: none in 300,000 bits."""
    for share in (0.0, 0.1, 0.5, 1.0):
        assert alarms(ClickDrift(), bits_of([share], 75_000, 3)) == []


def test_a_small_change_is_none() -> None:
    """Protects from alarms that are below what an estimate could tell apart."""
    assert alarms(ClickDrift(), bits_of([0.5, 0.51], 30_000, 0)) == []


def test_it_begins_anew() -> None:
    """After new rates the old clicks are no measure any more."""
    drift = ClickDrift()
    assert alarms(drift, bits_of([0.9], 900, 0)) == []
    drift.begin_anew()
    assert drift.state() == ClickDrift().state()
    assert alarms(drift, bits_of([0.2], 5000, 0)) == []


def test_saved_and_loaded_it_goes_on_alike() -> None:
    """A worker that starts from a snapshot raises the alarm at the same event."""
    bits = bits_of([0.7, 0.5, 0.7], 3000, 1)
    kept = ClickDrift()
    for place, bit in enumerate(bits):
        if place % 500 == 0:
            loaded = ClickDrift.from_state(kept.state())
        assert loaded.observe(bit) == kept.observe(bit)
        assert loaded.state() == kept.state()


def test_the_most_bits_are_no_end() -> None:
    """Protects a model that was imported with so many from a state that nobody can load."""
    drift = ClickDrift.from_state(ClickDrift().state() | {"bits": MOST_BITS})
    drift.observe(1)
    assert ClickDrift.from_state(drift.state()).state()["bits"] == MOST_BITS


@pytest.mark.parametrize(
    "damage",
    [
        {"bits": -1},
        {"bits": 10**400},
        {"bits": 1.0},
        {"mean": 2.0},
        {"up": -0.5},
        {"down": float("nan")},
        {"up": "1"},
    ],
    ids=lambda damage: str(damage)[:20],
)
def test_a_state_that_cannot_be_is_refused(damage: dict[str, Any]) -> None:
    """A damaged snapshot is no detector."""
    state = ClickDrift().state()
    with pytest.raises(StateError):
        ClickDrift.from_state(state | damage)
    for name in damage:
        with pytest.raises(StateError, match=name):
            ClickDrift.from_state({k: v for k, v in state.items() if k != name})
