"""What the scripts in the store promise, on the embedded Valkey and on Debian's Redis."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from service.errors import LogBroken, NotFound, Unavailable
from service.events import (
    HEAD_BYTES,
    Entry,
    Kind,
    chain_after,
    first_chain,
    pack_body,
    unpack_body,
    unpack_decision,
)
from service.store import (
    EXPIRE_BATCH,
    MIN_BUCKET_MS,
    READ_ENTRIES,
    Address,
    ModelGone,
    Snapshot,
    Store,
)
from tests.service.stores import example, make, nonce, opened, raw_client, record

#: The shortest window that a spec may have.
BRIEF_S = 0.1


async def decide(store: Store, address: Address, *numbers: int) -> list[int]:
    """Record a decision under each number's nonce; return the issue times."""
    items = [(nonce(number), True, record()) for number in numbers]
    answers, _ = await store.decide(address, items, 0, first_chain(address.uid))
    assert all(answer.old is None and not answer.full for answer in answers)
    return [answer.now_ms for answer in answers]


async def admit(
    store: Store, address: Address, number: int, issued_ms: int, bit: int
) -> tuple[str, int | None, int | None]:
    """Admit one feedback; return its verdict."""
    (verdict,), _ = await store.admit(address, [(nonce(number), issued_ms, bit)], 0)
    return verdict.status, verdict.seq, verdict.feedback


async def whole_log(store: Store, address: Address) -> list[Entry]:
    """Return every entry, after checking that seqs are dense and the chain holds."""
    after, chain, entries = 0, first_chain(address.uid), list[Entry]()
    while True:
        seq, head, some = await store.read(address, after)
        if not some:
            assert (seq, head) == (after, chain)
            return entries
        for entry in some:
            assert entry.seq == after + 1
            assert chain_after(chain, entry.body) == entry.chain
            after, chain = entry.seq, entry.chain
        entries += some


async def counters(store: Store, address: Address) -> dict[str, int]:
    """Return the counters that are not 0, with the pending decisions."""
    meta = await store.meta(address.key)
    pending = await store.pending(address.key)
    found = {name: count for name, count in meta.counters.items() if count}
    return found | ({"pending": pending} if pending else {})


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
        too_old = now - 3 * address.bucket_ms
        assert await admit(store, address, 9, too_old, 1) == ("late", None, None)
        assert await whole_log(store, address) == []


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
        await asyncio.sleep(2 * BRIEF_S)
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
        assert await store.pending(address.key) == 1


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
        assert await store.pending(address.key) == 2


@pytest.mark.parametrize(("seq", "chain"), [(1, "f" * 16), (2, None), (9, None), (0, "0" * 16)])
async def test_decisions_of_another_log_are_refused(
    store_url: str, seq: int, chain: str | None
) -> None:
    """A decision is recorded only if the fold that made it lies on the log."""
    async with opened(store_url) as store:
        address = await make(store)
        if seq:
            (issued,) = await decide(store, address, 1)
            await admit(store, address, 1, issued, 1)
        before = await store.pending(address.key)
        with pytest.raises(LogBroken):
            await store.decide(
                address, [(nonce(2), False, record())], seq, chain or first_chain(address.uid)
            )
        assert await store.pending(address.key) == before


# -- expiry -----------------------------------------------------------------------------------
async def test_a_closed_window_expires_once(store_url: str) -> None:
    """Two sweepers at once make one event a decision; feedback is late from then on."""
    async with opened(store_url) as store:
        address = await make(store, window_s=BRIEF_S)
        count = EXPIRE_BATCH + 20
        issued = (await decide(store, address, *range(1, count + 1)))[0]
        assert await store.expire_due(address) == 0
        await asyncio.sleep(2 * BRIEF_S)
        ended = await asyncio.gather(*(store.expire_due(address) for _ in range(3)))
        assert sorted(ended) == [0, 20, EXPIRE_BATCH]
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
        await asyncio.sleep(2 * BRIEF_S)
        assert await admit(store, address, 1, issued, 1) == ("late", None, None)
        assert await admit(store, address, 1, issued, 1) == ("late", None, None)
        assert await store.expire_due(address) == 0
        (entry,) = await whole_log(store, address)
        assert unpack_body(entry.body).kind is Kind.EXPIRE
        assert await counters(store, address) == {"decisions": 1, "expired": 1, "late": 2}


async def test_tombstones_have_their_time(store_url: str) -> None:
    """Tombstones go away by themselves: two bucket widths after the decision at the earliest."""
    async with opened(store_url) as store:
        address = await make(store, window_s=BRIEF_S)
        assert address.bucket_ms == MIN_BUCKET_MS
        (issued,) = await decide(store, address, 1)
        await admit(store, address, 1, issued, 1)
        key = f"{address.done}:{issued // MIN_BUCKET_MS}"
        at_ms = issued + await raw_client(store).pttl(key)
        assert issued + 2 * MIN_BUCKET_MS <= at_ms <= issued + 3 * MIN_BUCKET_MS + 1000


# -- examples and administrative events -------------------------------------------------------
async def test_an_example_is_learned_once(store_url: str) -> None:
    """The same request teaches once; another example under its id is a conflict."""
    async with opened(store_url) as store:
        address = await make(store)
        items = [(nonce(1), example(1)), (nonce(1), example(1)), (nonce(1), example(2))]
        verdicts, entries = await store.learn(address, items, 0)
        assert [(v.status, v.seq) for v in verdicts] == [
            ("applied", 1),
            ("duplicate", 1),
            ("conflict", 1),
        ]
        assert len(entries) == 1
        verdicts, _ = await store.learn(address, items[1:], 0)
        assert [v.status for v in verdicts] == ["duplicate", "conflict"]
        assert await counters(store, address) == {"learned": 1, "duplicates": 4}


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


# -- reading and snapshots --------------------------------------------------------------------
async def learn(store: Store, address: Address, first: int, count: int) -> None:
    """Log examples; their number is their seq."""
    items = [(nonce(number), example()) for number in range(first, first + count)]
    await store.learn(address, items, 0)


async def snapshot_at(store: Store, address: Address, seq: int) -> bool:
    """Store some state as the one after event `seq`."""
    _, _, entries = await store.read(address, seq - 1)
    return await store.save_snapshot(
        address, Snapshot(seq, entries[0].chain, f"digest{seq}", b"state%d" % seq)
    )


async def test_reads_in_bounded_parts(store_url: str) -> None:
    """One read takes a bounded part of the log, from right after what is known."""
    async with opened(store_url) as store:
        address = await make(store)
        await learn(store, address, 1, READ_ENTRIES + 5)
        seq, _, entries = await store.read(address, 3)
        assert (seq, len(entries), entries[0].seq) == (READ_ENTRIES + 5, READ_ENTRIES, 4)
        assert len(await whole_log(store, address)) == READ_ENTRIES + 5
        _, entries = await store.admit(address, [(nonce(0), 0, 1)], READ_ENTRIES)
        assert [entry.seq for entry in entries] == list(range(READ_ENTRIES + 1, READ_ENTRIES + 6))


async def test_snapshots_only_go_forward(store_url: str) -> None:
    """A snapshot is stored if it is newer and of this log; the one before is kept."""
    async with opened(store_url) as store:
        address = await make(store)
        await learn(store, address, 1, 9)
        assert await snapshot_at(store, address, 4)
        assert await snapshot_at(store, address, 9)
        assert not await snapshot_at(store, address, 6)
        assert not await snapshot_at(store, address, 9)
        assert [(s.seq, s.blob) for s in await store.snapshots(address)] == [
            (9, b"state9"),
            (4, b"state4"),
        ]
        assert await store.snapshot_seq(address.key) == 9
        await learn(store, address, 10, 2)
        for seq in (10, 11, 12):
            with pytest.raises(LogBroken):
                await store.save_snapshot(address, Snapshot(seq, "0" * 16, "", b""))
        assert await store.snapshot_seq(address.key) == 9


@pytest.mark.parametrize(("keep", "first"), [(0, 5), (3, 5), (8, 3), (100, 1)])
async def test_trimming_keeps_what_is_needed(store_url: str, keep: int, first: int) -> None:
    """The log keeps all after the previous snapshot, and what the spec asks for beyond it."""
    async with opened(store_url) as store:
        address = await make(store, log_keep=keep)
        assert await store.first_seq(address) is None
        await learn(store, address, 1, 10)
        await snapshot_at(store, address, 4)
        # Nothing precedes the first snapshot, so nothing may go: it might be lost.
        assert await store.first_seq(address) == 1
        await snapshot_at(store, address, 9)
        assert await store.first_seq(address) == first


# -- models -----------------------------------------------------------------------------------
async def test_another_incarnation_is_gone(store_url: str) -> None:
    """Whoever still serves a deleted model changes nothing in its successor."""
    async with opened(store_url) as store:
        address = await make(store)
        stranger = dataclasses.replace(address, uid="f" * 16)
        calls: list[Any] = [
            store.decide(stranger, [(nonce(1), False, record())], 0, ""),
            store.admit(stranger, [(nonce(1), 0, 1)], 0),
            store.learn(stranger, [(nonce(1), example())], 0),
            store.expire_due(stranger),
            store.append(stranger, "r", nonce(1), b"{}", ("rates", "", "x")),
            store.read(stranger, 0),
            store.save_snapshot(stranger, Snapshot(1, "", "", b"")),
        ]
        for call in calls:
            with pytest.raises(ModelGone):
                await call
        assert await counters(store, address) == {}
        assert await whole_log(store, address) == []


async def test_creating_twice_changes_nothing(store_url: str) -> None:
    """The second of two creations gets the spec of the first, and its log stays."""
    async with opened(store_url) as store:
        address = await make(store)
        await learn(store, address, 1, 1)
        meta = await store.meta(address.key)
        other = meta.spec.model_copy(update={"seed": 99})
        there = await store.create(address.key, other, {"uid": "other", "seq": "0"})
        assert there == meta.spec
        assert await store.meta(address.key) == meta
        assert len(await whole_log(store, address)) == 1


async def test_deleting_leaves_only_what_times_out(store_url: str) -> None:
    """After a deletion nothing of the model is left but tombstones with their time to live."""
    async with opened(store_url) as store:
        address = await make(store)
        (issued, _) = await decide(store, address, 1, 2)
        await admit(store, address, 1, issued, 1)
        assert address.key in await store.list_keys()
        assert await store.delete(address.key)
        assert not await store.delete(address.key)
        assert address.key not in await store.list_keys()
        with pytest.raises(NotFound):
            await store.meta(address.key)
        client = raw_client(store)
        left = await client.keys(f"mc:{{{address.key}}}:*")
        assert all([await client.ttl(key) > 0 for key in left])


async def test_an_import_appears_whole(store_url: str) -> None:
    """Until it is finished an import is no model; only who began it can go on with it."""
    async with opened(store_url) as store:
        source = await make(store)
        await learn(store, source, 1, 5)
        entries = await whole_log(store, source)
        key, spec = f"{source.key}x", (await store.meta(source.key)).spec
        fields = {"importing": "t1", "format": "1", "seq": "0", "chain": "", "labels": "[]"}
        assert await store.create(key, spec, fields) is None
        await store.import_entries(key, "t1", entries[:3])
        with pytest.raises(NotFound):
            await store.meta(key)
        last = Snapshot(5, entries[-1].chain, "digest", b"state")
        for call in (
            store.import_entries(key, "t2", entries[3:]),
            store.finish_import(key, "t2", source.uid, "[]", last),
        ):
            with pytest.raises(ModelGone):
                await call
        await store.abandon_import(key, "t2")
        await store.import_entries(key, "t1", entries[3:])
        await store.finish_import(key, "t1", source.uid, "[]", last)
        imported = Address.of(key, source.uid, spec)
        assert await whole_log(store, imported) == entries
        assert await store.snapshots(imported) == [last]
        # It is a model now: abandoning it comes too late.
        await store.abandon_import(key, "t1")
        assert (await store.meta(key)).seq == 5


async def test_an_abandoned_import_leaves_nothing(store_url: str) -> None:
    """What a failed import had stored is gone, and its name is free."""
    async with opened(store_url) as store:
        source = await make(store)
        await learn(store, source, 1, 2)
        key, spec = f"{source.key}y", (await store.meta(source.key)).spec
        assert await store.create(key, spec, {"importing": "t", "seq": "0"}) is None
        await store.import_entries(key, "t", await whole_log(store, source))
        await store.abandon_import(key, "t")
        assert key not in await store.list_keys()
        assert await raw_client(store).keys(f"mc:{{{key}}}:*") == []


# -- the bytes, and what goes wrong -----------------------------------------------------------
async def test_the_scripts_write_what_python_reads(store_url: str) -> None:
    """A body that a script wrote is the one that Python would write for the same event."""
    async with opened(store_url) as store:
        address = await make(store, window_s=BRIEF_S)
        issued = (await decide(store, address, 1, 2))[0]
        await admit(store, address, 1, issued, 1)
        await asyncio.sleep(2 * BRIEF_S)
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
        assert await store.pending(address.key) == 1
        await client.delete(address.part("log"))
        assert await admit(store, address, 1, issued, 1) == ("applied", 1, 1)


async def test_no_store_is_unavailable_at_once() -> None:
    """Where nobody listens, the answer is Unavailable."""
    async with opened("unix:///nowhere/store.sock") as store:
        with pytest.raises(Unavailable, match="does not answer"):
            await store.list_keys()


async def test_the_secret_is_made_once(store_url: str) -> None:
    """Whoever comes first stores the secret; everybody gets that one."""
    async with opened(store_url) as store:
        secrets = await asyncio.gather(*(store.secret(bytes([i]) * 32) for i in range(5)))
        assert len(set(secrets)) == 1
        with pytest.raises(ValueError, match="32 bytes"):
            await store.secret(b"short")
