"""Estimates in a real store: who may make one, and what becomes of its result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import msgspec
import pytest

from service import estimates as module
from service.address import Address
from service.errors import Conflict, NotFound
from service.estimates import CANCEL_TRIES, OUTCOMES, Estimates
from service.events import Kind, Rates, unpack_body
from service.store import Store
from service.wire import Estimate
from tests.service.stores import make, opened, raw_client

RCINE = {"learner": {"kind": "rcine"}}
RECORD = msgspec.json.encode(Rates(0.1, 0.2))
NONCE = bytes(12)


class Made(NamedTuple):
    """A model whose estimates are tested."""

    store: Store
    address: Address
    estimates: Estimates

    async def rates_events(self) -> int:
        """Return how many rates events its log holds."""
        _, _, entries = await self.store.read(self.address, 0)
        return sum(unpack_body(entry.body).kind is Kind.RATES for entry in entries)


@pytest.fixture
async def made(store_url: str) -> AsyncIterator[Made]:
    """Make a model of its own in each kind of store."""
    async with opened(store_url) as store:
        address = await make(store, **RCINE)
        yield Made(store, address, Estimates(store, address))


def result(number: int = 1) -> Estimate:
    """Return a result as a trainer makes it."""
    return Estimate(number, 1, 1.0, 1000, True, "trusted", 0.1, 0.2)


async def test_nothing_is_due_before_it_is_asked_for(made: Made) -> None:
    """Protects from trainings that nobody wanted."""
    assert await made.estimates.claim(0) is None
    assert await made.estimates.claim(1000) is None
    assert await made.estimates.ask() == 1
    claim = await made.estimates.claim(0)
    assert claim is not None
    assert (claim.number, claim.tries) == (1, 1)


async def test_enough_feedback_makes_it_due_and_a_result_starts_the_count_anew(made: Made) -> None:
    """Protects the rhythm: one estimate for each so many feedbacks."""
    meta = made.address.part("meta")
    await made.store.client.hset(meta, "feedback", "999")
    assert await made.estimates.claim(1000) is None
    await made.store.client.hset(meta, "feedback", "1000")
    claim = await made.estimates.claim(1000)
    assert claim is not None
    # More comes while it trains: the next block is counted from where this one was claimed.
    await made.store.client.hset(meta, "feedback", "1999")
    assert await made.estimates.finish(claim.token, NONCE, RECORD, result())
    assert await made.estimates.claim(1000) is None
    await made.store.client.hset(meta, "feedback", "2000")
    again = await made.estimates.claim(1000)
    assert again is not None
    assert (again.number, again.tries) == (2, 1)


@pytest.mark.parametrize(("on_expiry", "due"), [("ignore", False), ("no_click", True)])
async def test_silence_counts_where_it_is_a_missing_click(
    store_url: str, on_expiry: str, due: bool
) -> None:
    """Protects the rhythm of a model that hears of clicks only: one round in twenty, say."""
    async with opened(store_url) as store:
        address = await make(store, **RCINE, on_expiry=on_expiry)
        estimates = Estimates(store, address)
        await store.client.hset(address.part("meta"), mapping={"feedback": 50, "expired": 950})
        # One that was only asked for, and is cancelled, begins the count as well.
        await estimates.ask()
        await estimates.cancel()
        await store.client.hset(address.part("meta"), "expired", "1949")
        assert await estimates.claim(1000) is None
        await store.client.hset(address.part("meta"), "expired", "1950")
        claim = await estimates.claim(1000)
        assert (claim is not None) is due
        if claim is not None:
            assert await estimates.finish(claim.token, NONCE, RECORD, result())
            await store.client.hset(address.part("meta"), "expired", "2949")
            assert await estimates.claim(1000) is None
            await store.client.hset(address.part("meta"), "expired", "2950")
            assert await estimates.claim(1000) is not None


async def test_rounds_of_others_count_as_feedback(made: Made) -> None:
    """Protects the rhythm where somebody else decides: an estimate is made from these too."""
    meta = made.address.part("meta")
    await made.store.client.hset(meta, "told", "999")
    assert await made.estimates.claim(1000) is None
    await made.store.client.hset(meta, "feedback", "1")
    claim = await made.estimates.claim(1000)
    assert claim is not None
    await made.store.client.hset(meta, "told", "1998")
    assert await made.estimates.finish(claim.token, NONCE, RECORD, result())
    assert await made.estimates.claim(1000) is None
    await made.store.client.hset(meta, "told", "1999")
    assert await made.estimates.claim(1000) is not None
    # One that was only asked for, and is cancelled, begins the count anew as well.
    await made.estimates.cancel()
    await made.store.client.hset(meta, "told", "2998")
    await made.estimates.ask()
    await made.estimates.cancel()
    await made.store.client.hset(meta, "told", "3997")
    assert await made.estimates.claim(1000) is None
    await made.store.client.hset(meta, "told", "3998")
    assert await made.estimates.claim(1000) is not None


async def test_a_drift_makes_it_due_once_for_all_workers(made: Made) -> None:
    """Protects from an estimate for each worker that has noticed the same change."""
    meta = made.address.part("meta")
    await made.store.client.hset(meta, "seq", "70")
    assert await made.estimates.claim(0, 0) is None
    claim = await made.estimates.claim(0, 60)
    assert claim is not None
    # The log goes on while it trains, and the others notice the drift, or another one.
    await made.store.client.hset(meta, "seq", "90")
    assert await made.estimates.claim(0, 60) is None
    await made.estimates.finish(claim.token, NONCE, b"", result())
    assert await made.estimates.claim(0, 60) is None
    assert await made.estimates.claim(0, 70) is None
    again = await made.estimates.claim(0, 80)
    assert again is not None
    assert (again.number, again.tries) == (2, 1)
    await made.estimates.cancel()
    assert await made.estimates.claim(0, 80) is None


async def test_only_one_of_many_workers_gets_the_claim(made: Made) -> None:
    """Protects the machine from as many trainings as there are workers."""
    await made.estimates.ask()
    claims = await asyncio.gather(*(made.estimates.claim(0) for _ in range(20)))
    assert sum(claim is not None for claim in claims) == 1


async def test_a_trusted_result_is_one_event_and_an_untrusted_one_none(made: Made) -> None:
    """Protects the log: rates in force change once for each trusted estimate."""
    for number, record in ((1, RECORD), (2, b"")):
        await made.estimates.ask()
        claim = await made.estimates.claim(0)
        assert claim is not None
        assert await made.estimates.finish(claim.token, NONCE, record, result(number))
        # The answer got lost and the trainer says it again.
        assert not await made.estimates.finish(claim.token, NONCE, record, result(number))
    assert await made.rates_events() == 1
    assert [one.number for one in await made.estimates.history()] == [2, 1]
    assert await made.estimates.status() == (False, None)


async def test_a_claim_that_ran_out_is_taken_over_and_its_late_result_refused(made: Made) -> None:
    """Protects from a second event by a trainer that was only paused."""
    await made.estimates.ask()
    first = await made.estimates.claim(0)
    assert first is not None
    assert await made.estimates.claim(0) is None
    # As if its time had passed.
    await raw_client(made.store).hset(made.address.part("estimate"), "lease", 1)
    second = await made.estimates.claim(0)
    assert second is not None
    assert (second.number, second.tries) == (1, 2)
    assert not await made.estimates.renew(first.token, 0.5)
    assert not await made.estimates.finish(first.token, NONCE, RECORD, result())
    assert await made.estimates.finish(second.token, NONCE, RECORD, result())
    assert await made.rates_events() == 1


async def test_nobody_is_at_an_estimate_whose_claim_ran_out(made: Made) -> None:
    """Protects operators from an estimate that is being made for ever, by a worker that died."""
    await made.store.client.hset(made.address.part("meta"), "feedback", "1000")
    claim = await made.estimates.claim(1000)
    assert claim is not None
    assert (await made.estimates.status())[1] is not None
    await raw_client(made.store).hset(made.address.part("estimate"), "lease", 1)
    assert await made.estimates.status() == (False, None)
    assert not (await made.estimates.tally()).running
    # It was held for one that is being made, and by then no number of feedbacks makes it due.
    assert await made.estimates.ask() == claim.number
    assert await made.estimates.claim(0) is not None


async def test_a_renewed_claim_lasts_and_tells_its_progress(made: Made) -> None:
    """Protects a long training from being begun again meanwhile."""
    client, key = raw_client(made.store), made.address.part("estimate")
    await made.estimates.ask()
    claim = await made.estimates.claim(0)
    assert claim is not None
    for step in range(4):
        # As if its time had passed, just before it is renewed.
        await client.hset(key, "lease", 1)
        assert await made.estimates.renew(claim.token, step / 4)
        assert await made.estimates.claim(0) is None
    _, running = await made.estimates.status()
    assert running is not None
    assert (running.number, running.progress) == (1, 0.75)


async def test_asking_while_one_is_made_asks_for_no_second(made: Made) -> None:
    """Protects the one who asks from waiting for an estimate that never comes."""
    assert await made.estimates.ask() == 1
    claim = await made.estimates.claim(0)
    assert claim is not None
    assert await made.estimates.ask() == 1
    await made.estimates.finish(claim.token, NONCE, RECORD, result())
    assert await made.estimates.status() == (False, None)
    assert await made.estimates.claim(0) is None
    assert await made.estimates.ask() == 2


async def test_the_history_is_bounded(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """Protects Redis from a model that is estimated for years."""
    monkeypatch.setattr(module, "HISTORY", 3)
    for number in range(1, 6):
        await made.estimates.ask()
        claim = await made.estimates.claim(0)
        assert claim is not None
        await made.estimates.finish(claim.token, NONCE, b"", result(number))
    assert [one.number for one in await made.estimates.history()] == [5, 4, 3]


async def test_a_cancelled_estimate_appends_nothing_and_is_not_begun_again(made: Made) -> None:
    """Protects the log and the machine from a training that somebody has called off."""
    await made.store.client.hset(made.address.part("meta"), "feedback", "1000")
    claim = await made.estimates.claim(1000)
    assert claim is not None
    # The second time nothing is left to cancel.
    for _ in range(2):
        await made.estimates.cancel()
        assert await made.estimates.status() == (False, None)
        assert not await made.estimates.renew(claim.token, 0.5)
        assert not await made.estimates.finish(claim.token, NONCE, RECORD, result())
    assert await made.rates_events() == 0
    assert [(one.number, one.verdict) for one in await made.estimates.history()] == [
        (1, "cancelled")
    ]
    assert await made.estimates.claim(1000) is None
    assert await made.estimates.ask() == 2


async def test_an_estimate_that_is_only_asked_for_is_cancelled_too(made: Made) -> None:
    """Protects from a training that begins after it was called off."""
    await made.estimates.cancel()
    assert await made.estimates.history() == []
    await made.estimates.ask()
    await made.estimates.cancel()
    assert await made.estimates.claim(0) is None
    assert [one.verdict for one in await made.estimates.history()] == ["cancelled"]


async def test_an_estimate_that_changes_hands_is_cancelled_all_the_same(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects from a claim made between the look at the estimate and its end."""
    await made.estimates.ask()
    end = Estimates._end

    async def late(self: Estimates, *args: Any, **options: Any) -> bool:
        await made.estimates.claim(0)
        return await end(self, *args, **options)

    monkeypatch.setattr(Estimates, "_end", late)
    await made.estimates.cancel()
    monkeypatch.undo()
    assert await made.estimates.status() == (False, None)
    assert len(await made.estimates.history()) == 1


async def test_every_end_is_counted_once(made: Made) -> None:
    """Protects what operators read: each estimate ends in exactly one way."""
    assert await made.estimates.tally() == (dict.fromkeys(OUTCOMES, 0), None, False)
    for record in (RECORD, b"", RECORD):
        await made.estimates.ask()
        claim = await made.estimates.claim(0)
        assert claim is not None
        assert (await made.estimates.tally()).running
        for _ in range(2):
            await made.estimates.finish(claim.token, NONCE, record, result())
    await made.estimates.ask()
    await made.estimates.cancel()
    await made.estimates.ask()
    claim = await made.estimates.claim(0)
    assert claim is not None
    for _ in range(2):
        await made.estimates.give_up(claim)
    ended = {"trusted": 2, "refused": 1, "cancelled": 1, "given_up": 1}
    # The seconds are those of the last one that was made.
    assert await made.estimates.tally() == (ended, 1.0, False)


async def test_a_deleted_model_is_claimed_by_nobody(made: Made) -> None:
    """Protects a new model of the same name from the estimate of the old one."""
    await made.estimates.ask()
    claim = await made.estimates.claim(0)
    assert claim is not None
    await made.store.delete(made.address.key)
    with pytest.raises(NotFound):
        await made.estimates.ask()
    with pytest.raises(NotFound):
        await made.estimates.claim(0)
    with pytest.raises(NotFound):
        await made.estimates.finish(claim.token, NONCE, RECORD, result())
    assert not await made.estimates.renew(claim.token, 0.5)


async def test_an_estimate_that_cannot_be_cancelled_is_told_of(
    made: Made,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who was told that it is off would see its rates come into force."""
    await made.estimates.ask()
    tries = 0

    async def elsewhere(*_: Any) -> bool:
        nonlocal tries
        tries += 1
        return False

    monkeypatch.setattr(Estimates, "_end", elsewhere)
    with pytest.raises(Conflict, match="changes hands while it is being cancelled: try again"):
        await made.estimates.cancel()
    assert tries == CANCEL_TRIES
    monkeypatch.undo()
    assert (await made.estimates.status())[0]
    await made.estimates.claim(0)
    asked, running = await made.estimates.status()
    assert asked
    assert running is not None
