"""One worker's copy of a model: it equals the fold, whatever the store lost meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, cast

import msgspec
import pytest

from service.address import Address
from service.deciding import Ask
from service.errors import Conflict, Invalid, NotFound, Unavailable
from service.events import Entry, Example, LabelChange, Round
from service.fold import Fold
from service.ids import nonce_of_request
from service.meta import Meta
from service.replica import Decided, Replica
from service.store import ModelGone, Store
from service.transfer import export, import_model
from service.turns import TURN_S
from tests.service.stores import (
    LABELLED,
    fold_again,
    lose_tail,
    make,
    nonce,
    opened,
    play,
    raw_client,
    record,
    replica_of,
    row,
    two_snapshots,
    whole_log,
)

PATIENCE_S = 10.0


def some_example(label: int) -> Example:
    """Return an example with this label."""
    return Example(label, row(1))


async def test_two_copies_are_equal_bytes(store_url: str) -> None:
    """Two workers that serve one model in turns end with the same bytes, and so does a third."""
    async with opened(store_url) as store:
        address = await make(store)
        one, two = await replica_of(store, address), await replica_of(store, address)
        for number in range(20):
            await play((one, two)[number % 2], 1, number)
        await one.catch_up()
        await two.catch_up()
        assert one.fold.seq == two.fold.seq == 20
        assert one.fold.encode() == two.fold.encode() == await fold_again(store, address)
        assert one.rewinds == two.rewinds == 0


async def test_reads_its_own_writes(store_url: str) -> None:
    """After an acknowledged feedback the same worker decides with it, others' events included."""
    async with opened(store_url) as store:
        address = await make(store)
        one, two = await replica_of(store, address), await replica_of(store, address)
        await play(one, 3)
        decided = await two.predict(Ask(row(1), None, None))
        # It was told by the way that there is more: whoever asks next is answered with that.
        assert (decided.decision.seq, two.fresh_at_s) == (0, 0.0)
        await play(two, 1, 10)
        assert two.fold.seq == 4
        assert two.fold.encode() == await fold_again(store, address)


async def test_an_acknowledged_example_is_folded(store_url: str) -> None:
    """After an acknowledged example the worker has learned it; told again it changes nothing."""
    async with opened(store_url) as store:
        replica = await replica_of(store, await make(store, **LABELLED))
        example = some_example(1)
        verdict = await replica.learn(example, "e1")
        assert (verdict.status, verdict.seq, replica.fold.seq) == ("applied", 1, 1)
        again = await replica.learn(example, "e1")
        assert (again.status, again.seq, replica.fold.seq) == ("duplicate", 1, 1)
        other = await replica.learn(some_example(2), "e1")
        assert (other.status, replica.fold.seq) == ("conflict", 1)


async def test_a_lost_tail_rewinds(store_url: str) -> None:
    """Where the store lost acknowledged events, the copy rewinds, counts it, and goes on."""
    async with opened(store_url) as store:
        address = await make(store)
        one, two = await replica_of(store, address), await replica_of(store, address)
        await play(one, 10)
        await two.catch_up()
        await lose_tail(store, address, 6)
        await one.catch_up()
        assert one.fold.seq == 6
        await play(one, 3, 20)
        await two.catch_up()
        assert one.rewinds == two.rewinds == 1
        assert (await store.meta(address.key)).counters["rewinds"] == 2
        assert one.fold.encode() == two.fold.encode() == await fold_again(store, address)


async def test_a_rewind_is_counted_when_redis_takes_it(
    store_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A Redis that refuses to count a rewind gets it later; what is read is answered meanwhile."""
    async with opened(store_url) as store:
        address = await make(store)
        replica = await replica_of(store, address)
        await play(replica, 10)
        await lose_tail(store, address, 6)

        async def refuse(*_: object) -> None:
            raise Unavailable("Redis refused")

        with monkeypatch.context() as refusing:
            refusing.setattr(store, "count_rewinds", refuse)
            await replica.catch_up()
        assert (await store.meta(address.key)).counters["rewinds"] == 0
        for _ in range(2):
            await replica.catch_up()
        assert (await store.meta(address.key)).counters["rewinds"] == 1
        (told,) = [record for record in caplog.records if "lost events" in record.message]
        assert (vars(told)["held"], vars(told)["now"]) == (10, 6)


async def test_reissued_seqs_are_noticed(store_url: str) -> None:
    """A copy that folded lost events sees it although the new log is longer than the old one."""
    async with opened(store_url) as store:
        address = await make(store)
        old, new = await replica_of(store, address), await replica_of(store, address)
        await play(old, 5)
        await lose_tail(store, address, 2)
        await new.catch_up()
        await play(new, 9, 30)
        assert new.fold.seq > old.fold.seq
        await old.catch_up()
        assert (old.rewinds, new.rewinds) == (1, 0)
        assert old.fold.encode() == new.fold.encode()


async def test_no_decision_of_a_lost_history_is_recorded(store_url: str) -> None:
    """A decision made with events that were lost is refused: its propensity would be a lie."""
    async with opened(store_url) as store:
        address = await make(store)
        old, new = await replica_of(store, address), await replica_of(store, address)
        await play(old, 5)
        await lose_tail(store, address, 2)
        await new.catch_up()
        await play(new, 9, 30)
        pending = (await store.waiting(address.key)).pending
        with pytest.raises(Unavailable, match="another one"):
            await old.predict(Ask(row(1), None, None))
        assert (await store.waiting(address.key)).pending == pending
        decided = await old.predict(Ask(row(1), "again", None))
        assert decided.decision.seq == old.fold.seq == new.fold.seq


async def test_no_decision_of_a_given_up_fold_is_recorded(store_url: str) -> None:
    """A decision that waits while the copy rewinds is refused too."""
    async with opened(store_url) as store:
        address = await make(store)
        replica, other = await replica_of(store, address), await replica_of(store, address)
        waiting = asyncio.create_task(replica.predict(Ask(row(2), None, None)))
        await asyncio.sleep(0)
        replica.fold = other.fold
        with pytest.raises(Unavailable, match="another one"):
            await waiting
        assert (await store.waiting(address.key)).pending == 0


async def test_nothing_told_of_a_lost_history_is_logged(store_url: str) -> None:
    """Protects from labels' codes that are others', or none's, where a label was lost."""
    async with opened(store_url) as store:
        address = await make(store)
        old, new = await replica_of(store, address), await replica_of(store, address)
        await add_label(store, address)
        await old.catch_up()
        await lose_tail(store, address, 0)
        await new.catch_up()
        example, told = Example(old.fold.codes["new"], row(1)), Round(0, 0.5, row(1))
        for call in (
            lambda: old.learn(example, None),
            lambda: old.tell_many([(told, 1, None)]),
        ):
            waiting = asyncio.create_task(call())
            with pytest.raises(Unavailable, match="another one"):
                await waiting
            # Found out, it goes on; for the next call it has to be lost anew.
            assert old.fold.seq == new.fold.seq
            await add_label(store, address)
            await old.catch_up()
            await lose_tail(store, address, 0)
            await new.catch_up()
        assert await whole_log(store, address) == []


async def test_what_is_told_while_a_copy_rewinds_is_refused(store_url: str) -> None:
    """A label's code is of the fold that it was read with, and may be another's in the next one."""
    async with opened(store_url) as store:
        address = await make(store)
        replica, other = await replica_of(store, address), await replica_of(store, address)
        waiting = asyncio.create_task(replica.learn(Example(1, row(1)), None))
        await asyncio.sleep(0)
        replica.fold = other.fold
        with pytest.raises(Unavailable, match="another one"):
            await waiting
        assert await whole_log(store, address) == []


async def test_a_request_id_names_one_of_each(store_url: str) -> None:
    """A visit may name a decision, a round and an example: none is taken for another."""
    async with opened(store_url) as store:
        replica = await replica_of(
            store, await make(store, learner={"kind": "banditron", "gamma": 0.1})
        )
        decided = await replica.predict(Ask(row(1), "visit", None))
        for status in ("applied", "duplicate"):
            verdict = await replica.learn(Example(1, row(1)), "visit")
            told = await replica.tell(Round(1, 0.5, row(1)), 1, "visit")
            heard = await replica.feedback(str(decided.decision_id), 1)
            assert {verdict.status, told.status, heard.status} == {status}
        again = await replica.predict(Ask(row(1), "visit", None))
        assert again.decision_id == decided.decision_id


async def add_label(store: Store, address: Address) -> None:
    """Add a label that every decision among `allowed` of it has to choose."""
    meta = await store.meta(address.key)
    change = msgspec.json.encode(LabelChange(["new"], []))
    guard = ("labels", meta.labels, "changed")
    assert await store.append(address, "a", nonce(99), change, guard) is not None


async def test_a_retry_elsewhere_knows_the_new_label(store_url: str) -> None:
    """A repeated request is answered by a worker that has not yet heard of the label chosen."""
    async with opened(store_url) as store:
        address = await make(store)
        ahead, behind = await replica_of(store, address), await replica_of(store, address)
        await add_label(store, address)
        await ahead.catch_up()
        code = ahead.fold.codes["new"]
        # Some of these requests get the new label.
        asks = [Ask(row(i), f"r{i}", None) for i in range(30)]
        first = [await ahead.predict(ask) for ask in asks]
        assert any(decided.decision.label == code for decided in first)
        again = [await behind.predict(ask) for ask in asks]
        assert [told(d) for d in again] == [told(d) for d in first]
        assert behind.fold.labels[code] == "new"


def told(decided: Decided) -> tuple[str | None, int, int, float, int | None]:
    """Return what a client is told of a decision."""
    made = decided.decision
    return decided.decision_id, made.label, made.greedy, made.propensity, decided.issued_ms


async def test_the_same_request_with_another_instance_is_refused(store_url: str) -> None:
    """A request id names one question; another one under it is a conflict, not an answer."""
    async with opened(store_url) as store:
        replica = await replica_of(store, await make(store))
        await replica.predict(Ask(row(1), "r", None))
        with pytest.raises(Conflict, match="request_id"):
            await replica.predict(Ask(row(2), "r", None))
        with pytest.raises(Conflict, match="request_id"):
            await replica.predict(Ask(row(1), "r", [0, 1]))


async def test_who_asks_together_is_answered_alone(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of a group gets what it would have got alone: its own draw, or a refusal of its own."""
    async with opened(store_url) as store:
        replica = await replica_of(store, await make(store, max_pending=6))
        first = await replica.predict(Ask(row(1), "r", None))
        # Meanwhile, after these were read, label c goes.
        replica.fold.learner.retire_label(2)
        asks = [Ask(row(i), f"n{i}", None) for i in range(5)]
        asks += [Ask(row(2), "r", None), Ask(row(1), "r", None), Ask(row(3), None, [2])]
        asks.append(Ask(row(4), "one too many", None))
        sizes = groups_of(replica, monkeypatch)
        answers = await asyncio.gather(*map(replica.predict, asks), return_exceptions=True)
        assert sizes == [len(asks)]
        for ask, answer in zip(asks[:5], answers, strict=False):
            assert isinstance(answer, Decided)
            nonce = nonce_of_request(str(ask.request_id))
            alone = replica.fold.decide(ask.x, nonce, repeatable=True)
            assert answer.decision[:5] == alone[:5]
        again = answers[6]
        assert isinstance(again, Decided)
        assert told(again) == told(first)
        assert [type(answers[place]) for place in (5, 7, 8)] == [Conflict, Invalid, Unavailable]
        assert (await store.waiting(replica.address.key)).pending == 6


async def test_a_batch_is_refused_as_a_whole(store_url: str) -> None:
    """One item that is refused refuses its batch, with that item's reason; none is recorded."""
    async with opened(store_url) as store:
        replica = await replica_of(store, await make(store, max_pending=4))
        await replica.predict(Ask(row(1), "r", None))
        asks = [Ask(row(i), f"n{i}", None) for i in range(2)]
        with pytest.raises(Conflict, match=r"^items\[2\]\.request_id: "):
            await replica.predict_many([*asks, Ask(row(2), "r", None)])
        with pytest.raises(Invalid, match="allowed"):
            await replica.predict_many([*asks, Ask(row(2), None, [])])
        with pytest.raises(Unavailable, match="at most 4 decisions may wait"):
            await replica.predict_many([Ask(row(i), None, None) for i in range(4)])
        assert (await store.waiting(replica.address.key)).pending == 1
        assert (await store.meta(replica.key)).counters["decisions"] == 1


async def test_what_a_refused_batch_has_recorded_is_taken_back(store_url: str) -> None:
    """Of a batch in parts the first ones fit: nobody is told, so they do not wait for feedback."""
    async with opened(store_url) as store:
        replica = await replica_of(store, await make(store, max_pending=5))
        asks = [Ask(row(i), "kept" if i == 1 else None, None) for i in range(9)]
        replica._decision_s = TURN_S / 2
        with pytest.raises(Unavailable, match="max_pending"):
            await replica.predict_many(asks)
        # Under its request_id the client may have it yet: it is the same when asked again.
        assert (await store.waiting(replica.address.key)).pending == 1
        assert (await store.meta(replica.key)).counters["decisions"] == 1
        _, deadlines = await store.first_deadlines([replica.address.key])
        await replica.predict(asks[1])
        assert (deadlines[0] is not None, (await store.waiting(replica.address.key)).pending) == (
            True,
            1,
        )


async def test_a_refused_batch_that_is_not_recorded_is_taken_back_from_nowhere(
    store_url: str,
) -> None:
    """Of a model that takes no feedback nothing waits; the refusal is told as any."""
    async with opened(store_url) as store:
        replica = await replica_of(store, await make(store, **LABELLED))
        replica._decision_s = TURN_S / 2
        with pytest.raises(Invalid, match="allowed"):
            await replica.predict_many([*[Ask(row(1), None, None)] * 3, Ask(row(2), None, [])])


async def test_a_batch_in_parts_has_two_under_way(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects the others' turn, in Redis too; one that is refused ends it there, and says why."""
    begun = active = most = 0

    async def watched(*args: Any, **options: Any) -> Any:
        nonlocal begun, active, most
        begun, active = begun + 1, active + 1
        most = max(most, active)
        try:
            return await decide(*args, **options)
        finally:
            active -= 1

    async def away(*_: Any) -> None:
        raise Unavailable("Redis is away")

    async with opened(store_url) as store:
        replica, decide = await replica_of(store, await make(store)), store.decide
        monkeypatch.setattr(replica, "_decisions_a_turn", lambda: 1)
        monkeypatch.setattr(store, "decide", watched)
        monkeypatch.setattr(store, "withdraw", away)
        await replica.predict_many([Ask(row(i), None, None) for i in range(9)])
        assert (begun, most) == (9, 2)
        with pytest.raises(Invalid, match="allowed"):
            await replica.predict_many(
                [Ask(row(i), None, [] if i == 2 else None) for i in range(9)]
            )
        assert begun == 9 + 2


async def test_dear_decisions_go_in_small_groups(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects the others' turn: as many are decided at once as the last ones say fit into one."""
    async with opened(store_url) as store:
        replica = await replica_of(store, await make(store, **LABELLED))
        asks = [Ask(row(i), None, None) for i in range(9)]
        for cost_s, most in ((TURN_S / 4, 4), (2 * TURN_S, 1)):
            sizes = groups_of(replica, monkeypatch)
            replica._decision_s = cost_s
            await asyncio.gather(*map(replica.predict, asks))
            assert (sizes[0], sum(sizes)) == (most, len(asks))
            sizes = groups_of(replica, monkeypatch)
            replica._decision_s = cost_s
            await replica.predict_many(asks)
            assert (sizes[0], sum(sizes)) == (most, len(asks))


async def test_the_first_decision_is_made_alone(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects the others' turn: nobody knows yet what one costs, and it may be 10 ms."""
    async with opened(store_url) as store:
        replica = await replica_of(store, await make(store, **LABELLED))
        sizes = groups_of(replica, monkeypatch)
        await replica.predict_many([Ask(row(i), None, None) for i in range(9)])
        assert (sizes[0], sum(sizes)) == (1, 9)


def groups_of(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that will hold how many asks each group had that is decided from now on."""
    sizes, decide = list[int](), Replica._decide

    async def counted(
        asked: Sequence[tuple[Fold, Ask]], *, whole: bool = False
    ) -> list[Decided | Exception]:
        sizes.append(len(asked))
        return await decide(replica, asked, whole=whole)

    monkeypatch.setattr(replica, "_decide", counted)
    monkeypatch.setattr(replica._decisions, "_commit", counted)
    return sizes


async def test_forged_ids_are_refused(store_url: str) -> None:
    """An id that was not signed for this model is not found, alone or in a batch."""
    async with opened(store_url) as store:
        one = await replica_of(store, await make(store))
        two = await replica_of(store, await make(store))
        foreign = (await two.predict(Ask(row(1), None, None))).decision_id
        mine = (await one.predict(Ask(row(1), None, None))).decision_id
        assert foreign is not None
        assert mine is not None
        with pytest.raises(NotFound):
            await one.feedback(foreign, 1)
        verdicts = await one.feedback_many([(foreign, 1), (mine, 1), ("?", 0)])
        assert [v.status for v in verdicts] == ["unknown", "applied", "unknown"]


async def test_no_false_rewind_under_load(store_url: str) -> None:
    """Commits and catching up at the same time are not taken for a lost log."""
    async with opened(store_url) as store:
        replica = await replica_of(store, await make(store))

        async def keep_fresh() -> None:
            for _ in range(60):
                await replica.catch_up()

        await asyncio.gather(keep_fresh(), *(play(replica, 10, 100 * i) for i in range(12)))
        await replica.catch_up()
        assert (replica.rewinds, replica.fold.seq) == (0, 120)


async def test_a_record_that_is_not_so_is_not_folded(store_url: str) -> None:
    """A worker that holds something else than what the log got folds what the log got."""
    async with opened(store_url) as store, opened(store_url) as other_store:
        address = await make(store)
        replica, other = await replica_of(store, address), await replica_of(other_store, address)
        decided = [await replica.predict(Ask(row(i), None, None)) for i in range(3)]
        for one in decided:
            assert one.decision_id is not None
            decision = replica.signer.verify(one.decision_id)
            assert decision is not None
            store._kept.keep(address.uid, decision.nonce, record(2))
            await replica.feedback(one.decision_id, 1)
        await other.catch_up()
        assert (replica.fold.seq, replica.rewinds) == (3, 0)
        assert replica.fold.encode() == other.fold.encode()


async def test_workers_that_tell_at_once_fold_the_same(store_url: str) -> None:
    """Own records, others' entries, and calls under way at once: every copy is the log's fold."""
    async with opened(store_url) as store, opened(store_url) as other_store:
        address = await make(store)
        replicas = [await replica_of(each, address) for each in (store, other_store)]
        plays = [play(replicas[i % 2], 12, 100 * i) for i in range(10)]
        crossed = [
            _decide_here_tell_there(replicas[0], replicas[1], 5000 + 10 * i) for i in range(4)
        ]
        await asyncio.gather(*plays, *crossed)
        for replica in replicas:
            await replica.catch_up()
        assert [replica.fold.seq for replica in replicas] == [10 * 12 + 4 * 8] * 2
        assert [replica.rewinds for replica in replicas] == [0, 0]
        assert replicas[0].fold.encode() == replicas[1].fold.encode()


async def _decide_here_tell_there(here: Replica, there: Replica, first: int) -> None:
    for number in range(first, first + 8):
        decided = await here.predict(Ask(row(number), None, None))
        assert decided.decision_id is not None
        assert (await there.feedback(decided.decision_id, 1)).seq is not None
        assert (await here.feedback(decided.decision_id, 1)).status == "duplicate"


class Busy(Store):
    """A store in which a label is added and used while a model is being exported."""

    async def meta(self, key: str) -> Meta:
        """Let others work after this one has looked."""
        meta, worker, self.worker = await super().meta(key), self.worker, None
        if worker is not None:
            await add_label(self, worker.address)
            await play(worker, 20, 100)
        return meta

    worker: Replica | None = None


async def test_an_export_is_of_one_moment(store_url: str) -> None:
    """What happens during an export is not in it, not even half: it can be imported."""
    async with opened(store_url) as plain:
        busy = Busy(plain.client)
        address = await make(busy)
        busy.worker = worker = await replica_of(busy, address)
        await play(worker, 5)
        chunks = [chunk async for chunk in export(busy, worker)]
        assert busy.worker is None
        assert sum(chunk.count(b"\n") for chunk in chunks) == 1 + 5
        await import_model(plain, f"{address.key}-2", "m2", parts_of(chunks), most=10_000)
        assert (await plain.meta(f"{address.key}-2")).counters["feedback"] == 5
        await busy.close()


async def test_an_export_has_a_whole_snapshot(store_url: str) -> None:
    """One that lost a part meanwhile, to a newer one, is not exported."""
    async with opened(store_url) as store:
        address = await make(store, log_keep=0)
        replica = await two_snapshots(store, address)
        names = await raw_client(store).hget(address.part("snap1"), "parts")
        await raw_client(store).hdel(address.part("parts"), names)
        with pytest.raises(Conflict, match="snapshot was replaced"):
            await anext(export(store, replica))


async def parts_of(chunks: list[bytes]) -> AsyncIterator[bytes]:
    """Yield the parts of a body."""
    for chunk in chunks:
        yield chunk


async def test_a_deleted_model_is_gone(store_url: str) -> None:
    """A copy of a deleted model neither decides nor admits; the one made anew knows no old id."""
    async with opened(store_url) as store:
        address = await make(store)
        replica = await replica_of(store, address)
        decided = await replica.predict(Ask(row(1), None, None))
        await store.delete(address.key)
        with pytest.raises(ModelGone):
            await replica.predict(Ask(row(1), None, None))
        with pytest.raises(ModelGone):
            await replica.feedback(cast(str, decided.decision_id), 1)
        with pytest.raises(ModelGone):
            await replica.catch_up()


def after_reads(
    store: Store, patch: pytest.MonkeyPatch, then: Callable[[Address], Awaitable[object]]
) -> list[Address]:
    """Let something happen after each read of a log; return whose they are, as they come."""
    real, read_of = store.read, list[Address]()

    async def read(address: Address, after: int) -> tuple[int, str, list[Entry]]:
        read_of.append(address)
        answer = await real(address, after)
        await then(address)
        return answer

    patch.setattr(store, "read", read)
    return read_of


async def test_who_catches_up_is_done_at_some_time(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where events come as fast as they are read, calls waited for an end that never came."""
    async with opened(store_url) as store:
        address = await make(store)
        busy, behind = await replica_of(store, address), await replica_of(store, address)
        await play(busy, 3)
        reads = after_reads(store, monkeypatch, lambda _: play(busy, 1, 10 * len(reads)))
        async with asyncio.timeout(PATIENCE_S):
            await behind.catch_up()
        assert (len(reads), behind.fold.seq) == (1, 3)


async def test_who_waits_shares_a_look_that_begins_later(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred calls waited for a hundred looks, one after the other; none sees less for it."""
    async with opened(store_url) as store:
        address = await make(store)
        busy, behind = await replica_of(store, address), await replica_of(store, address)
        under_way, go_on = asyncio.Event(), asyncio.Event()

        async def wait(_: Address) -> None:
            under_way.set()
            await go_on.wait()

        reads = after_reads(store, monkeypatch, wait)
        first = asyncio.create_task(behind.catch_up())
        await under_way.wait()
        await play(busy, 2)
        others = [asyncio.create_task(behind.catch_up()) for _ in range(20)]
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(first, *others)
        # A second read finds the two events; the first look, begun before them, did not count.
        assert (len(reads), behind.fold.seq) == (2, 2)
