"""The newest rounds of a log: which they are, and when they have too many clicks."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from service.events import Decision
from service.newest import Logged, doubt_about, doubt_of, read_newest
from tests.service.stores import admit, decide, example, make, opened, tell, told_round

MANY = 1_000_000


@pytest.mark.parametrize(("on_expiry", "bits"), [("ignore", [0, 1]), ("no_click", [0, 1, 0])])
async def test_silence_is_a_bit_where_it_is_a_missing_click(
    store_url: str, on_expiry: str, bits: list[int]
) -> None:
    """Protects models that hear of clicks only from being told that all rounds were clicked."""
    async with opened(store_url) as store:
        address = await make(store, on_expiry=on_expiry, window_s=0.1)
        await tell(store, address, [told_round(1, feedback=0), example(2)], 0)
        first, second = await decide(store, address, 3, 4)
        await admit(store, address, 4, second, 1)
        await asyncio.sleep(0.15)
        assert await store.expire_due(address) == 1
        (head,) = await store.heads([address.key])
        assert head is not None
        newest = await read_newest(store, address, head[1], MANY, MANY)
        assert ([each.feedback for each in newest.rounds], newest.whole) == (bits, True)
        payload = newest.rounds[-1].payload
        assert isinstance(payload, Decision)
        assert payload.issued_ms == (first if on_expiry == "no_click" else second)
        assert await doubt_about(store, address, newest) == ""
        newest = await read_newest(store, address, head[1], 1, MANY)
        assert ([each.feedback for each in newest.rounds], newest.whole) == (bits[-1:], False)
        assert not (await read_newest(store, address, head[1], MANY, 0)).rounds


async def test_what_waits_is_asked_for_where_silence_tells(store_url: str) -> None:
    """A hundred decisions wait whose silence is not over: one click of one round is too many."""
    async with opened(store_url) as store:
        for on_expiry, doubt in (("no_click", "99 rounds are missing"), ("ignore", "")):
            address = await make(store, on_expiry=on_expiry)
            issued = await decide(store, address, *range(100))
            await admit(store, address, 0, issued[0], 1)
            newest = await read_newest(store, address, 1, MANY, MANY)
            assert len(newest.rounds) == 1
            assert (await doubt_about(store, address, newest)).startswith(doubt)
            assert bool(await doubt_about(store, address, newest)) == bool(doubt)


def stream(until_s: int, newest: int | None = None) -> tuple[list[Logged], int]:
    """Return the rounds that ended by then, of one a second, and how many of those since wait.

    Every third is clicked at once, the others are silent for 100 seconds.
    """
    issued = range(1, until_s + 1)
    ends = sorted((s if s % 3 == 0 else s + 100, s) for s in issued)
    rounds = [
        Logged(
            seq,
            Decision(0, 0, 0.5, 0, b"", np.zeros(1, np.float32), 1000 * s),
            int(s % 3 == 0),
            1000 * end,
        )
        for seq, (end, s) in enumerate(ends, 1)
        if end <= until_s
    ]
    chosen = rounds if newest is None else rounds[-newest:]
    since_ms = 0 if newest is None else chosen[0].time_ms
    return chosen, sum(end > until_s and 1000 * s > since_ms for end, s in ends)


@pytest.mark.parametrize(
    ("until_s", "newest", "missing"),
    [
        # From its first round on 67 wait, of all but the last 100 seconds' 2 in 3.
        (200, None, 67),
        (1100, None, 67),
        # As a share of so many rounds it is no matter any more.
        (2000, None, 0),
        # Further rounds came before: as many of these as wait were decided then.
        (1100, 500, 0),
        # Also where the window is longer than the rounds took.
        (1100, 50, 0),
    ],
)
def test_rounds_that_wait_are_missed_where_no_others_stand_for_them(
    until_s: int, newest: int | None, missing: int
) -> None:
    """Clicks are a third of all, and of what has ended wherever that is trusted."""
    rounds, waiting = stream(until_s, newest)
    since_ms = 0 if newest is None else rounds[0].time_ms
    found = doubt_of(rounds, waiting, since_ms)
    assert found.startswith(f"{missing} rounds are missing") if missing else found == ""
    share = np.mean([each.feedback for each in rounds])
    assert missing or share == pytest.approx(1 / 3, abs=0.02)


@pytest.mark.parametrize(("waiting", "missing"), [(58, 0), (59, 26)])
def test_more_may_wait_by_chance_than_did_at_first(waiting: int, missing: int) -> None:
    """33 of these 50 rounds were decided before: a twentieth of 50 more, and four roots of 33."""
    rounds, _ = stream(1100, 50)
    since_ms = rounds[0].time_ms
    decided = [each.payload for each in rounds if isinstance(each.payload, Decision)]
    assert sum(each.issued_ms < since_ms for each in decided) == 33
    found = doubt_of(rounds, waiting, since_ms)
    assert found.startswith(f"{missing} rounds are missing") if missing else found == ""
