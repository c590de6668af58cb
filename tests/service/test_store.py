"""What the scripts in the store promise, on the embedded Valkey and on Debian's Redis."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
import uvloop

from service.address import MIN_BUCKET_MS, Address
from service.errors import LogBroken, Unavailable
from service.events import (
    HEAD_BYTES,
    Kind,
    first_chain,
    pack_body,
    unpack_body,
    unpack_decision,
)
from service.store import EXPIRE_BATCH, Store
from tests.service.stores import (
    admit,
    counters,
    deaf_server,
    decide,
    example,
    learn,
    make,
    nonce,
    opened,
    raw_client,
    record,
    tell,
    told_round,
    whole_log,
)

#: A window that is still open when a slow machine has done what belongs into it; and a bit longer.
BRIEF_S = 0.25
OVER_S = BRIEF_S + 0.02


# -- decide and admit -------------------------------------------------------------------------
async def test_feedback_is_admitted_once(store_url: str) -> None:
    """Feedback applies once; the same again is a duplicate, another value a conflict."""
    async with opened(store_url) as store:
        address = await make(store)
        one, two = await decide(store, address, 1, 2)
        assert await admit(store, address, 1, one, 1) == ("applied", 1, 1)
        assert await admit(store, address, 2, two, 0) == ("applied", 2, 0)
        assert await admit(store, address, 1, one, 1) == ("duplicate", 1, 1)
        assert await admit(store, address, 1, one, 0) == ("conflict", 1, 1)
        assert await admit(store, address, 2, two, 1) == ("conflict", 2, 0)
        events = [unpack_body(entry.body) for entry in await whole_log(store, address)]
        assert [(e.kind, e.nonce, e.feedback) for e in events] == [
            (Kind.FEEDBACK, nonce(1), 1),
            (Kind.FEEDBACK, nonce(2), 0),
        ]
        assert await counters(store, address) == {
            "decisions": 2,
            "feedback": 2,
            "clicks": 1,
            "duplicates": 1,
            "conflicts": 2,
        }


async def test_one_call_admits_the_first_of_two(store_url: str) -> None:
    """Contradictory feedback within one call: the first one counts."""
    async with opened(store_url) as store:
        address = await make(store)
        (issued,) = await decide(store, address, 1)
        items = [(nonce(1), issued, 0), (nonce(1), issued, 1), (nonce(1), issued, 0)]
        verdicts, entries = await store.admit(address, items, 0)
        assert [v.status for v in verdicts] == ["applied", "conflict", "duplicate"]
        assert [entry.seq for entry in entries] == [1]


async def test_what_a_worker_holds_is_not_sent_back(store_url: str) -> None:
    """Entries made of a worker's own records are those of the log, byte for byte."""
    async with opened(store_url) as store, opened(store_url) as other:
        address = await make(store)
        issued = await decide(store, address, 1, 2)
        (foreign,) = await decide(other, address, 3)
        await admit(other, address, 3, foreign, 1)
        items = [(nonce(1), issued[0], 1), (nonce(2), issued[1], 0)]
        assert other.recall(address, items) is None
        records = store.recall(address, items)
        assert records is not None
        assert store.recall(address, items) is None
        _, entries = await store.admit(address, items, 0, records)
        assert entries == await whole_log(store, address)
        (answer,), nothing = await store.admit(address, items[:1], 3, records[:1])
        assert (answer.status, nothing) == ("duplicate", [])
        told = [example(9), example(9), told_round(10), told_round(11, feedback=0), told_round(10)]
        _, entries = await tell(store, address, told, 2)
        assert len(entries) == 4
        assert entries == (await whole_log(store, address))[2:]


async def test_ten_connections_apply_one_feedback_once(store_url: str) -> None:
    """Many clients that tell the same decision at once make one event."""
    async with opened(store_url) as store:
        address = await make(store)
        (issued,) = await decide(store, address, 1)
        answers = await asyncio.gather(
            *(admit(store, address, 1, issued, i % 2) for i in range(20))
        )
        assert [status for status, _, _ in answers].count("applied") == 1
        assert len(await whole_log(store, address)) == 1


async def test_feedback_of_no_decision_is_unknown(store_url: str) -> None:
    """A decision that was never recorded is unknown; one too old to be remembered is late."""
    async with opened(store_url) as store:
        address = await make(store)
        (now,) = await decide(store, address, 1)
        assert await admit(store, address, 9, now, 1) == ("unknown", None, None)
        # Of what ended so long ago a tombstone may still lie there.
        old = now - 2 * address.bucket_ms
        assert await admit(store, address, 9, old + 10_000, 1) == ("unknown", None, None)
        assert await admit(store, address, 9, old - 1, 1) == ("late", None, None)
        assert await whole_log(store, address) == []
        assert await counters(store, address) == {"decisions": 1, "late": 1, "pending": 1}


async def test_a_repeated_request_gets_its_decision(store_url: str) -> None:
    """The record of a request is returned while it is pending, after feedback, after expiry."""
    async with opened(store_url) as store:
        address = await make(store, window_s=BRIEF_S)
        issued = (await decide(store, address, 1, 2))[0]

        async def ask_again(number: int) -> bytes:
            items = [(nonce(number), True, record(label=2))]
            (answer,), _ = await store.decide(address, items, 0, first_chain(address.uid))
            assert answer.old is not None
            return answer.old

        pending = await ask_again(1)
        assert pending[8:] == record()
        assert unpack_decision(pending).issued_ms == issued
        assert (await admit(store, address, 1, issued, 1))[0] == "applied"
        assert await ask_again(1) == pending[:HEAD_BYTES]
        await asyncio.sleep(OVER_S)
        assert await store.expire_due(address) == 1
        assert await ask_again(2) == pending[:HEAD_BYTES]
        assert (await counters(store, address))["decisions"] == 2


async def test_one_request_twice_in_a_call(store_url: str) -> None:
    """The second of two equal requests in one call gets the decision of the first."""
    async with opened(store_url) as store:
        address = await make(store)
        items = [(nonce(1), True, record(label=1)), (nonce(1), True, record(label=2))]
        answers, _ = await store.decide(address, items, 0, first_chain(address.uid))
        assert answers[0].old is None
        assert answers[1].old is not None
        assert unpack_decision(answers[1].old).label == 1
        assert (await store.waiting(address.key)).pending == 1


async def test_the_pending_cap_holds(store_url: str) -> None:
    """No more decisions wait than the cap says; one that ends makes room."""
    async with opened(store_url) as store:
        address = await make(store, max_pending=2)
        items = [(nonce(number), True, record()) for number in (1, 2, 3)]
        answers, _ = await store.decide(address, items, 0, first_chain(address.uid))
        assert [answer.full for answer in answers] == [False, False, True]
        again, _ = await store.decide(address, items[:1], 0, first_chain(address.uid))
        assert again[0].old is not None
        await admit(store, address, 1, answers[0].now_ms, 1)
        await decide(store, address, 3)
        assert (await store.waiting(address.key)).pending == 2


async def test_a_whole_is_recorded_or_nothing_is(store_url: str) -> None:
    """With one too many, or one that was asked otherwise before, none waits; alone, others do."""
    async with opened(store_url) as store:
        address = await make(store, max_pending=3)
        head = 0, first_chain(address.uid)
        items = [(nonce(number), True, record(fingerprint=b"asked so")) for number in range(4)]
        answers, _ = await store.decide(address, items, *head, whole=True)
        assert [answer.full for answer in answers] == [False, False, False, True]
        assert (await store.waiting(address.key)).pending == 0
        assert "decisions" not in await counters(store, address)
        for _ in range(2):  # said again, it is the same
            await store.decide(address, items[:2], *head, whole=True)
            assert (await store.waiting(address.key)).pending == 2
        otherwise = (nonce(0), True, record(fingerprint=b"no, thus"))
        await store.decide(address, [items[2], otherwise], *head, whole=True)
        assert (await store.waiting(address.key)).pending == 2
        await store.decide(address, [items[2], otherwise], *head)
        assert (await store.waiting(address.key)).pending == 3
        await store.withdraw(address, [nonce(1), nonce(2), nonce(9)])
        assert await counters(store, address) == {"decisions": 1, "pending": 1}
        assert await raw_client(store).zcard(address.part("due")) == 1
        # One that was there before, asked as then, is no refusal.
        await store.decide(address, [items[0], items[2]], *head, whole=True)
        assert (await store.waiting(address.key)).pending == 2


@pytest.mark.parametrize(
    ("seq", "chain"), [(1, "f" * 16), (2, "f" * 16), (3, None), (9, None), (0, "0" * 16)]
)
async def test_decisions_of_another_log_are_refused(
    store_url: str, seq: int, chain: str | None
) -> None:
    """A decision is recorded only if the fold that made it lies on the log."""
    async with opened(store_url) as store:
        address = await make(store)
        if seq:
            await learn(store, address, 1, 2)
        before = (await store.waiting(address.key)).pending
        with pytest.raises(LogBroken):
            await store.decide(
                address, [(nonce(2), False, record())], seq, chain or first_chain(address.uid)
            )
        assert (await store.waiting(address.key)).pending == before


async def test_a_worker_that_is_behind_decides(store_url: str) -> None:
    """With a state that was the model's: its decision says which one."""
    async with opened(store_url) as store:
        address = await make(store)
        await learn(store, address, 1, 3)
        chain = (await whole_log(store, address))[1].chain
        _, seq = await store.decide(address, [(nonce(9), False, record())], 2, chain)
        assert (seq, (await store.waiting(address.key)).pending) == (3, 1)


# -- expiry -----------------------------------------------------------------------------------
async def test_a_closed_window_expires_once(store_url: str) -> None:
    """Two sweepers at once make one event a decision; feedback is late from then on."""
    async with opened(store_url) as store:
        address = await make(store, window_s=BRIEF_S)
        count = EXPIRE_BATCH + 20
        issued = (await decide(store, address, *range(1, count + 1)))[0]
        assert await store.expire_due(address) == 0
        # A deadline without a decision, if there ever is one, is in nobody's way.
        due, last_ms = address.part("due"), issued + address.window_ms + 1
        await raw_client(store).zadd(due, {nonce(0): last_ms})
        await asyncio.sleep(OVER_S)
        ended = await asyncio.gather(*(store.expire_due(address) for _ in range(3)))
        assert sorted(ended) == [0, 20, EXPIRE_BATCH]
        assert not await raw_client(store).exists(due)
        assert await admit(store, address, 1, issued, 1) == ("late", None, None)
        events = [unpack_body(entry.body) for entry in await whole_log(store, address)]
        assert {(e.kind, e.feedback) for e in events} == {(Kind.EXPIRE, None)}
        assert len({e.nonce for e in events}) == count
        assert await counters(store, address) == {"decisions": count, "expired": count, "late": 1}


async def test_late_feedback_expires_the_decision(store_url: str) -> None:
    """Feedback after the deadline ends the decision as the sweeper would have, once."""
    async with opened(store_url) as store:
        address = await make(store, window_s=BRIEF_S)
        (issued,) = await decide(store, address, 1)
        await asyncio.sleep(OVER_S)
        assert await admit(store, address, 1, issued, 1) == ("late", None, None)
        assert await admit(store, address, 1, issued, 1) == ("late", None, None)
        assert await store.expire_due(address) == 0
        (entry,) = await whole_log(store, address)
        assert unpack_body(entry.body).kind is Kind.EXPIRE
        assert await counters(store, address) == {"decisions": 1, "expired": 1, "late": 2}


async def test_feedback_is_held_where_silence_is_no_click(store_url: str) -> None:
    """Protects a young model from hearing of clicks alone: all is logged in decisions' order."""
    async with opened(store_url) as store:
        address = await make(store, window_s=BRIEF_S, on_expiry="no_click")
        issued = [(await decide(store, address, number))[0] for number in (1, 2, 3)]
        before_ms = issued[-1]
        items = [(nonce(3), issued[2], 1), (nonce(2), issued[1], 0), (nonce(3), issued[2], 1)]
        verdicts, entries = await store.admit(address, items, 0)
        assert verdicts == [("held", None, 1), ("held", None, 0), ("duplicate", None, 1)]
        assert await admit(store, address, 2, issued[1], 1) == ("conflict", None, 0)
        # What is logged a window later is made by whoever sweeps: no records are kept for it.
        assert store.recall(address, items[:2]) is None
        assert (entries, await whole_log(store, address)) == ([], [])
        assert await store.waiting(address.key) == (3, 2)
        counted = {"decisions": 3, "duplicates": 1, "conflicts": 1}
        assert await counters(store, address) == counted | {"pending": 3}
        await asyncio.sleep(OVER_S)
        # Its window has closed, and nobody has swept: what it heard in time still counts.
        assert await admit(store, address, 3, issued[2], 1) == ("duplicate", None, 1)
        assert await store.expire_due(address) == 3
        events = [unpack_body(entry.body) for entry in await whole_log(store, address)]
        assert [(e.kind, e.feedback) for e in events] == [
            (Kind.EXPIRE, None),
            (Kind.FEEDBACK, 0),
            (Kind.FEEDBACK, 1),
        ]
        # When it came, not when it was logged.
        assert all(before_ms <= e.time_ms < issued[0] + address.window_ms for e in events[1:])
        assert await store.waiting(address.key) == (0, 0)
        assert await admit(store, address, 3, issued[2], 1) == ("duplicate", 3, 1)
        assert await admit(store, address, 2, issued[1], 1) == ("conflict", 2, 0)
        assert await counters(store, address) == {
            "decisions": 3,
            "feedback": 2,
            "clicks": 1,
            "expired": 1,
            "duplicates": 3,
            "conflicts": 2,
        }


async def test_an_old_id_ends_no_newer_decision(store_url: str) -> None:
    """Protects the click on what was decided anew under a request_id, when the old one comes."""
    async with opened(store_url) as store:
        address = await make(store)
        (issued,) = await decide(store, address, 1)
        long_ago = issued - 4 * address.bucket_ms
        items = [(nonce(1), long_ago, 1), (nonce(1), issued, 1), (nonce(1), long_ago, 1)]
        verdicts, _ = await store.admit(address, items, 0)
        assert [verdict.status for verdict in verdicts] == ["late", "applied", "late"]
        assert await counters(store, address) == {
            "decisions": 1,
            "feedback": 1,
            "clicks": 1,
            "late": 2,
        }


async def test_old_tombstones_are_freed_aside(store_url: str) -> None:
    """Protects others from a Redis that frees a million of them by itself when they expire."""
    async with opened(store_url) as store:
        address = await make(store)
        client = raw_client(store)
        (issued,) = await decide(store, address, 1)
        bucket = issued // address.bucket_ms
        for age in (2, 3):
            await client.hset(f"{address.done}:{bucket - age}", "nonce", "x")
        await admit(store, address, 1, issued, 1)
        there = [await client.exists(f"{address.done}:{bucket - age}") for age in (0, 2, 3)]
        assert there == [1, 1, 0]


async def test_tombstones_have_their_time(store_url: str) -> None:
    """Tombstones go away by themselves: three bucket widths after the decision at the earliest."""
    async with opened(store_url) as store:
        address = await make(store, window_s=BRIEF_S)
        assert address.bucket_ms == MIN_BUCKET_MS
        (issued,) = await decide(store, address, 1)
        await admit(store, address, 1, issued, 1)
        key = f"{address.done}:{issued // MIN_BUCKET_MS}"
        at_ms = issued + await raw_client(store).pttl(key)
        assert issued + 3 * MIN_BUCKET_MS <= at_ms <= issued + 4 * MIN_BUCKET_MS + 1000


# -- examples and administrative events -------------------------------------------------------
async def test_an_example_is_learned_once(store_url: str) -> None:
    """The same request teaches once; another example under its id is a conflict."""
    async with opened(store_url) as store:
        address = await make(store)
        items = [example(1, 1), example(1, 1), example(1, 2)]
        verdicts, entries = await tell(store, address, items, 0)
        assert [(v.status, v.seq) for v in verdicts] == [
            ("applied", 1),
            ("duplicate", 1),
            ("conflict", 1),
        ]
        assert len(entries) == 1
        verdicts, _ = await tell(store, address, items[1:], 0)
        assert [v.status for v in verdicts] == ["duplicate", "conflict"]
        assert await counters(store, address) == {"learned": 1, "duplicates": 2, "conflicts": 2}


@pytest.mark.parametrize(
    ("seq", "chain"), [(0, "f" * 16), (1, "f" * 16), (2, "f" * 16), (3, ""), (9, "f" * 16)]
)
async def test_what_is_told_of_another_log_is_refused(store_url: str, seq: int, chain: str) -> None:
    """Protects from a label's code that is another label's since Redis lost a change of labels."""
    async with opened(store_url) as store:
        address = await make(store)
        if seq:
            await learn(store, address, 1, 2)
        with pytest.raises(LogBroken):
            await store.learn(address, [example(3)], 0, seq, chain)
        await learn(store, address, 3, 1)
        entries = await whole_log(store, address)
        for entry in entries:
            number = 10 + entry.seq
            (verdict,), _ = await store.learn(address, [example(number)], 0, *entry[:2])
            assert verdict.status == "applied"


@pytest.mark.parametrize("ahead", [1, -1, -2])
async def test_what_ended_lately_is_not_done_twice(store_url: str, ahead: int) -> None:
    """Up to two buckets ago, or by a clock that was one bucket ahead and has gone back."""
    async with opened(store_url) as store:
        address = await make(store)
        head, client = (0, first_chain(address.uid)), raw_client(store)

        async def move(issued_ms: int) -> None:
            """Let it have ended in another bucket."""
            bucket = issued_ms // address.bucket_ms
            await client.rename(f"{address.done}:{bucket}", f"{address.done}:{bucket + ahead}")

        _, (entry,) = await tell(store, address, [example(1)], 0)
        await move(unpack_body(entry.body).time_ms)
        (verdict,), _ = await tell(store, address, [example(1)], 0)
        assert (verdict.status, verdict.seq) == ("duplicate", 1)
        (issued,) = await decide(store, address, 2)
        await admit(store, address, 2, issued, 1)
        await move(issued)
        (answer,), _ = await store.decide(address, [(nonce(2), True, record())], *head)
        assert answer.old is not None


async def test_a_round_of_somebody_else_is_learned_once(store_url: str) -> None:
    """Its label, its propensity and its bit are what one request told, and the receipt says so."""
    async with opened(store_url) as store:
        address = await make(store)
        others = [
            told_round(1, label=1),
            told_round(1, feedback=0),
            told_round(1, propensity=0.25),
            example(1),
        ]
        items = [told_round(1), told_round(1), *others, told_round(2, feedback=0)]
        verdicts, entries = await tell(store, address, items, 0)
        assert [tuple(verdict) for verdict in verdicts] == [
            ("applied", 1, 1),
            ("duplicate", 1, 1),
            *[("conflict", 1, None)] * 4,
            ("applied", 2, 0),
        ]
        events = [unpack_body(entry.body) for entry in entries]
        assert [(event.kind, event.feedback) for event in events] == [
            (Kind.ROUND, 1),
            (Kind.ROUND, 0),
        ]
        verdicts, _ = await tell(store, address, [told_round(2, feedback=0), told_round(2)], 0)
        assert [tuple(verdict) for verdict in verdicts] == [
            ("duplicate", 2, 0),
            ("conflict", 2, None),
        ]
        assert await counters(store, address) == {"told": 2, "duplicates": 2, "conflicts": 5}


async def test_an_administrative_event_needs_its_guard(store_url: str) -> None:
    """Of two changes that read the same state one is logged; the other has to look again."""
    async with opened(store_url) as store:
        address = await make(store)
        first = await asyncio.gather(
            *(
                store.append(address, "r", nonce(i), b"{}", ("rates", "", f"new{i}"))
                for i in range(3)
            )
        )
        assert sorted(seq or 0 for seq in first) == [0, 0, 1]
        winner = first.index(1)
        guard = ("rates", f"new{winner}", "newer")
        assert await store.append(address, "r", nonce(9), b"{}", guard) == 2
        assert await store.rates(address) == ("newer", 2)


# -- the bytes, and what goes wrong -----------------------------------------------------------
async def test_the_scripts_write_what_python_reads(store_url: str) -> None:
    """A body that a script wrote is the one that Python would write for the same event."""
    async with opened(store_url) as store:
        address = await make(store, window_s=BRIEF_S)
        issued = (await decide(store, address, 1, 2))[0]
        await admit(store, address, 1, issued, 1)
        await asyncio.sleep(OVER_S)
        await store.expire_due(address)
        await learn(store, address, 3, 1)
        change = b'{"add":["new"],"retire":[]}'
        await store.append(
            address, "a", nonce(4), change, ("labels", await labels(store, address), "x")
        )
        entries = await whole_log(store, address)
        assert len(entries) == 4
        assert [pack_body(unpack_body(e.body)) for e in entries] == [e.body for e in entries]


async def labels(store: Store, address: Address) -> str:
    """Return the guard of label changes."""
    return (await store.meta(address.key)).labels


async def test_forgotten_scripts_are_sent_again(store_url: str) -> None:
    """A store that forgot the scripts (restart, SCRIPT FLUSH) gets them with the next call."""
    async with opened(store_url) as store:
        address = await make(store)
        await raw_client(store).script_flush()
        (issued,) = await decide(store, address, 1)
        await raw_client(store).script_flush()
        assert await admit(store, address, 1, issued, 1) == ("applied", 1, 1)


async def test_a_key_of_another_type_is_unavailable(store_url: str) -> None:
    """Where somebody else's value is in the way, the store says so and nothing is half done."""
    async with opened(store_url) as store:
        address = await make(store)
        (issued,) = await decide(store, address, 1)
        client = raw_client(store)
        await client.set(address.part("log"), "not a stream")
        with pytest.raises(Unavailable, match="refused"):
            await admit(store, address, 1, issued, 1)
        assert (await store.waiting(address.key)).pending == 1
        await client.delete(address.part("log"))
        assert await admit(store, address, 1, issued, 1) == ("applied", 1, 1)


async def test_no_store_is_unavailable_at_once() -> None:
    """Where nobody listens, the answer is Unavailable."""
    async with opened("unix:///nowhere/store.sock") as store:
        with pytest.raises(Unavailable, match="does not answer"):
            await store.list_keys()


async def test_a_store_that_takes_no_connection_is_unavailable_in_time() -> None:
    """Where packets are lost, a connection is waited for as long as an answer, and no longer."""
    with deaf_server() as url:
        async with opened(url, timeout_s=0.1) as store, asyncio.timeout(2):
            with pytest.raises(Unavailable, match="does not answer"):
                await store.list_keys()


async def test_the_secret_is_made_once(store_url: str) -> None:
    """Whoever comes first stores the secret; everybody gets that one."""
    async with opened(store_url) as store:
        secrets = await asyncio.gather(*(store.secret(bytes([i]) * 32) for i in range(5)))
        assert len(set(secrets)) == 1
        with pytest.raises(ValueError, match="32 bytes"):
            await store.secret(b"short")


def test_a_connection_that_ended_a_moment_ago_is_no_fault(store_url: str) -> None:
    """What uvloop says of it is answered as any lost connection, and the next call connects."""

    async def lose() -> None:
        async with opened(store_url) as store:
            await store.list_keys()
            for connection in raw_client(store).connection_pool._available_connections:
                connection._writer.transport.abort()
            with pytest.raises(Unavailable, match="does not answer"):
                await store.list_keys()
            await store.list_keys()

    uvloop.run(lose())


async def test_many_may_ask_at_once(store_url: str) -> None:
    """As many as requests are taken: redis-py's own bound is less, and fails those beyond."""
    async with opened(store_url) as store:
        await asyncio.gather(*(store.list_keys() for _ in range(256)))


def test_connecting_anew_is_no_fault_of_who_is_connecting(store_url: str) -> None:
    """A call under way at any step ends well, or as any does whose connection is lost."""

    async def meet() -> None:
        for step in range(30):
            async with opened(store_url) as store:
                call = asyncio.create_task(store.list_keys())
                for _ in range(step):
                    await asyncio.sleep(0)
                await store.connect_anew()
                with contextlib.suppress(Unavailable):
                    await call
                await store.list_keys()

    uvloop.run(meet())


async def test_what_redis_refuses_is_in_the_log(
    store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A full Redis is ready, for feedback frees memory: nothing else tells who is on call."""
    async with opened(store_url) as store:
        with pytest.raises(Unavailable, match="Redis refused: unknown command"):
            await store.guard(raw_client(store).execute_command("NOSUCH"))
    (said,) = caplog.records
    assert (said.getMessage(), said.levelname) == ("Redis refused", "WARNING")
    assert said.__dict__["why"].startswith("unknown command")
