"""How a copy folds its log: a turn at a time, beside what else its worker does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest

from service.events import Entry
from service.fold import Fold
from service.turns import AT_ONCE, TURN_S, OneAtATime, each_of
from tests.service.stores import make, opened, play, replica_of


async def test_what_another_task_has_folded_tells_nothing_of_its_cost(store_url: str) -> None:
    """Taken for free, sixty-four dear events came at once: two seconds without an answer."""
    async with opened(store_url) as store:
        address = await make(store)
        replica = await replica_of(store, address)
        await play(replica, 6)
        _, _, entries = await store.read(address, 0)
        replica._turns.event_s = 3 * TURN_S
        await replica._turns.follow(replica.fold, entries)
        assert replica._turns.event_s == 3 * TURN_S


async def test_after_a_dear_event_the_others_have_as_many_turns(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request takes several turns: with one after each event it waited for twenty of them."""
    async with opened(store_url) as store:
        address = await make(store)
        replica = await replica_of(store, address)
        await play(replica, 4)
        _, _, entries = await store.read(address, 0)
        follow, folded, turns = Fold.follow_many, 0, [0, 0, 0, 0]

        def slowly(fold: Fold, some: Sequence[Entry]) -> None:
            nonlocal folded
            time.sleep(3.5 * TURN_S)
            follow(fold, some)
            folded += len(some)

        async def others() -> None:
            while folded < len(turns):
                turns[folded] += 1
                await asyncio.sleep(0)

        monkeypatch.setattr(Fold, "follow_many", slowly)
        replica._turns.event_s = TURN_S
        task = asyncio.create_task(others())
        await replica._turns.follow(Fold(replica.spec, address.uid), entries)
        await task
    # Before the first event nobody had one.
    assert folded == 4
    assert turns[0] == 0
    assert min(turns[1:]) >= 3


async def test_a_tenant_with_many_calls_waits_for_himself() -> None:
    """Forty that were asked first let another tenant's one wait for a quarter of a minute."""
    alone, order, inside = OneAtATime(), list[str](), 0

    async def ask(tenant: str) -> None:
        nonlocal inside
        async with alone.turn(tenant):
            inside += 1
            assert inside == 1
            order.append(tenant)
            await asyncio.sleep(0)
            inside -= 1

    calls = [asyncio.create_task(ask("busy")) for _ in range(10)]
    await asyncio.sleep(0)
    await asyncio.gather(*calls, ask("other"))
    assert order.index("other") <= 2
    assert len(order) == 11


async def test_some_are_looked_at_together() -> None:
    """Protects a scrape of the metrics from a round trip after the other, and Redis from all."""
    inside, most = 0, 0

    async def look(number: int) -> int:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        for _ in range(1 + number % 3):
            await asyncio.sleep(0)
        inside -= 1
        return number

    count = 2 * AT_ONCE + 3
    assert await each_of(range(count), look) == list(range(count))
    assert most == AT_ONCE
