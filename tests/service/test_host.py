"""What one worker does for its models: loads, refreshes, sweeps, snapshots, and forgets them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import resource
import secrets
import signal
import time
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import service.host
import service.store
from service.address import SECRET_KEY, Address
from service.commit import MOST_COMMITS
from service.deciding import Ask
from service.errors import NotFound, Unavailable, Unreadable
from service.fold import Fold
from service.host import Host, end_tasks
from service.replica import Decided, Replica
from service.settings import Settings
from service.snapshots import newest_snapshot_seq
from service.spec import ModelSpec
from service.store import Store
from tests.service.stores import (
    SPEC,
    counters,
    lose_tail,
    make,
    opened,
    play,
    raw_client,
    replica_of,
    row,
)
from tests.torture.cluster import StoreServer

#: Far longer than anything here takes.
PATIENCE_S = 10.0
QUICK: dict[str, Any] = {"sync_interval_s": 0.01, "sweep_interval_s": 0.02, "snapshot_s": 0.05}


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let background work that waits for a second wait for less."""
    for name in ("SNAPSHOT_CHECK_S", "SECRET_CHECK_S"):
        monkeypatch.setattr(service.host, name, 0.05)


@asynccontextmanager
async def running_host(store: Store, **settings: Any) -> AsyncIterator[Host]:
    """Run a host with its background work."""
    host = Host(store, Settings(**(QUICK | settings)))
    host.start()
    try:
        yield host
    finally:
        await host.stop()
        assert all(task.done() for task in host._tasks)


async def until(holds: Callable[[], Any]) -> None:
    """Wait until `holds` returns something true."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = holds()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return
            await asyncio.sleep(0.01)


def ask(number: int) -> Callable[[Replica], Any]:
    """Return the action that predicts for an instance."""

    async def act(replica: Replica) -> Decided:
        return await replica.predict(Ask(row(number), None, None))

    return act


async def test_follows_what_others_log(store_url: str) -> None:
    """A model that is in use is kept fresh without being asked."""
    async with opened(store_url) as store, running_host(store) as host:
        address = await make(store)
        mine = await host.replica(address.key)
        await play(await replica_of(store, address), 5)
        await until(lambda: mine.fold.seq == 5)
        assert (await host.replica(address.key)) is mine


async def test_a_stale_copy_catches_up_before_it_answers(store_url: str) -> None:
    """Without the background work too, an answer is never older than `stale_s`."""
    async with opened(store_url) as store:
        host = Host(store, Settings(stale_s=0.01))
        address = await make(store)
        await host.replica(address.key)
        await play(await replica_of(store, address), 5)
        await asyncio.sleep(0.02)
        assert (await host.replica(address.key)).fold.seq == 5


async def test_work_that_swallows_its_end_is_ended_all_the_same() -> None:
    """A client that is just connecting may take a cancellation for its own affair."""

    async def swallow() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(PATIENCE_S)
        await asyncio.sleep(PATIENCE_S)

    task = asyncio.create_task(swallow())
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_S / 2):
        await end_tasks([task])
    assert task.cancelled()


async def test_loads_a_model_once(store_url: str) -> None:
    """Many first requests at once load a model once."""
    async with opened(store_url) as store:
        host = Host(store, Settings())
        address = await make(store)
        copies = await asyncio.gather(*(host.replica(address.key) for _ in range(20)))
        assert len({id(copy) for copy in copies}) == 1


async def test_a_model_that_is_long_in_loading_leaves_room_for_others(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half the calls that a worker answers at once may wait for it; the others are told so."""
    async with opened(store_url) as store:
        host = Host(store, Settings(max_requests=4))
        wide, other = (await make(store)).key, (await make(store)).key
        load_first, built = host._load_first, asyncio.Event()

        async def slowly(key: str) -> Replica:
            if key == wide:
                await built.wait()
            return await load_first(key)

        monkeypatch.setattr(host, "_load_first", slowly)
        waiting = [asyncio.create_task(host.replica(wide)) for _ in range(2)]
        await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(Unavailable, match="being loaded"):
                await host.replica(wide)
        assert (await host.replica(other)).key == other
        built.set()
        assert {copy.key for copy in await asyncio.gather(*waiting)} == {wide}
        # Nothing is left of the wait.
        host.drop(wide)
        assert (await host.replica(wide)).key == wide


@pytest.mark.parametrize("asked", [True, False])
async def test_a_model_that_redis_lost_is_told_of(
    store_url: str, caplog: pytest.LogCaptureFixture, asked: bool
) -> None:
    """Nobody deleted it here: the log says which model is gone, and how far it was."""
    async with opened(store_url) as store:
        address = await make(store)
        host = Host(store, Settings(stale_s=0.001))
        await play(await host.replica(address.key), 3)
        await store.delete(address.key)
        await asyncio.sleep(0.002)
        if asked:
            with pytest.raises(NotFound):
                await host.replica(address.key)
        else:
            await host._refresh()
        told = [record for record in caplog.records if "is gone" in record.message]
        assert [(each.__dict__["model"], each.__dict__["seq"]) for each in told] == [
            (address.key, 3)
        ]
        assert host.replicas == []


async def test_makes_room_for_another_model(store_url: str) -> None:
    """Over its limit a worker forgets the model that was not used for the longest time."""
    async with opened(store_url) as store:
        host = Host(store, Settings(max_loaded_models=2))
        first, second, third = [(await make(store)).key for _ in range(3)]
        for key in (first, second, first, third):
            await host.replica(key)
        assert {replica.key for replica in host.replicas} == {first, third}


async def test_what_makes_room_is_stored_first(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dropped again and again within `snapshot_s`, a model was never stored, and folded anew."""
    monkeypatch.setattr(service.host, "REFOLD_EVENTS", 4)
    async with opened(store_url) as store:
        host = Host(store, Settings(max_loaded_models=1))
        busy, rare, other = [await make(store) for _ in range(3)]
        await play(await host.replica(busy.key), 4)
        await play(await host.replica(rare.key), 3)
        assert await _snapshot(store, busy) == 4
        assert (await host.replica(busy.key)).snapshot_seq == 4
        # Few events are folded in less time than they are stored.
        assert await _snapshot(store, rare) == 0
        assert (await host.replica(rare.key)).fold.seq == 3
        # Two that come at once find room for one.
        await asyncio.gather(host.replica(busy.key), host.replica(other.key))
        assert len(host.replicas) == 1


async def test_sweeps_models_that_nobody_uses(store_url: str) -> None:
    """Windows close whether or not a worker has the model loaded, one event a decision."""
    async with opened(store_url) as store:
        address = await make(store, window_s=0.1)
        await (await replica_of(store, address)).predict(Ask(row(1), None, None))
        async with running_host(store), running_host(store):
            await until(lambda: _expired(store, address))
        assert await counters(store, address) == {"decisions": 1, "expired": 1}


async def test_a_busy_model_keeps_no_other_from_ending_its_decisions(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that got more than a worker could end was all that it ended."""
    monkeypatch.setattr(service.host, "EXPIRE_BATCH", 2)
    monkeypatch.setattr(service.store, "EXPIRE_BATCH", 2)
    async with opened(store_url) as store:
        busy, other = await make(store, window_s=0.1), await make(store, window_s=0.1)
        for address, count in ((busy, 6), (other, 1)):
            replica = await replica_of(store, address)
            for number in range(count):
                await replica.predict(Ask(row(number), None, None))
        await asyncio.sleep(0.15)
        host, order = Host(store, Settings()), list[Address]()
        real = store.expire_due

        async def expire_due(address: Address) -> int:
            order.append(address)
            return await real(address)

        monkeypatch.setattr(store, "expire_due", expire_due)
        await host._sweep()
        assert await _expired(store, other) == 1
        assert await _expired(store, busy) == 6
        assert other in order[:2]


async def _expired(store: Store, address: Address) -> int:
    return (await store.meta(address.key)).counters["expired"]


async def test_takes_snapshots_by_time_and_by_events(store_url: str) -> None:
    """A changed model is snapshotted after a while, and at once after many events."""
    async with opened(store_url) as store:
        rare, busy = await make(store), await make(store)
        async with running_host(store, snapshot_s=3600, snapshot_events=4) as host:
            await play(await host.replica(busy.key), 4)
            await play(await host.replica(rare.key), 3)
            await until(lambda: _snapshot(store, busy))
            assert await _snapshot(store, rare) == 0
        # Stopping stores what is not yet in a snapshot.
        assert await _snapshot(store, rare) == 3
        async with running_host(store, snapshot_s=0.05) as host:
            await play(await host.replica(rare.key), 1, 10)
            await until(lambda: _at(store, rare, 4))


async def test_snapshots_by_time_are_as_rare_as_the_settings_say(store_url: str) -> None:
    """Protects Redis from a snapshot at each look, once the first one was due."""
    async with opened(store_url) as store:
        host, address = Host(store, Settings(snapshot_s=60)), await make(store)
        replica = await host.replica(address.key)
        replica.snapshot_at_s -= 60
        for number in range(2):
            await play(replica, 1, number)
            await host._snapshot()
        assert (replica.snapshot_seq, replica.fold.seq) == (1, 2)


async def _snapshot(store: Store, address: Address) -> int:
    return await newest_snapshot_seq(store, address.key)


async def _at(store: Store, address: Address, seq: int) -> bool:
    return await newest_snapshot_seq(store, address.key) == seq


async def test_a_model_made_anew_is_served_anew(store_url: str) -> None:
    """A request on a model that was deleted and made again is answered by the new one."""
    async with opened(store_url) as store:
        host = Host(store, Settings())
        address = await make(store)
        old = await host.replica(address.key)
        await play(old, 3)
        await _make_again(store, address)
        decided = await host.use(address.key, ask(1))
        assert decided.decision.seq == 0
        assert (await host.replica(address.key)) is not old
        await store.delete(address.key)
        with pytest.raises(NotFound):
            await host.use(address.key, ask(1))
        assert host.replicas == []


async def test_what_another_worker_made_anew_is_looked_for(store_url: str) -> None:
    """Protects valid feedback, and new features, from a copy that is of the model before."""
    async with opened(store_url) as store:
        # Nothing is looked for meanwhile because it has not been looked for in a while.
        host, other = (Host(store, Settings(stale_s=60)) for _ in range(2))
        address = await make(store)
        for each in (host, other):
            await each.use(address.key, ask(1))
        await _make_again(store, address)
        decided = await other.use(address.key, ask(1))
        text = str(decided.decision_id)
        old = await host.replica(address.key)
        assert (await host.use(address.key, lambda r: r.feedback(text, 1))).status == "applied"
        assert await host.replica(address.key) is not old
        await _make_again(store, address)
        text = str((await other.use(address.key, ask(1))).decision_id)
        (verdict, unknown) = await host.use(
            address.key, lambda r: r.feedback_many([(text, 0), ("forged", 1)])
        )
        assert (verdict.status, unknown.status) == ("applied", "unknown")


async def test_what_is_made_anew_while_it_is_loaded_is_loaded(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects the one who loads a model from a 404 for one that is there."""
    async with opened(store_url) as store:
        address = await make(store)
        await play(await Host(store, Settings()).replica(address.key), 3)
        recover, anew = Replica.recover, [True]

        async def slowly(replica: Replica) -> None:
            if anew.pop():
                anew[:] = [False]
                await _make_again(store, address)
                anew[:] = [False] * 9
            await recover(replica)

        monkeypatch.setattr(Replica, "recover", slowly)
        replica = await Host(store, Settings()).replica(address.key)
        assert replica.fold.seq == 0
        assert replica.address.uid != address.uid


async def _make_again(store: Store, address: Address) -> None:
    spec = (await store.meta(address.key)).spec
    await store.delete(address.key)
    host = Host(store, Settings(max_models=10_000))
    _, new = await host.create(address.key, spec, secrets.token_hex(8))
    assert new


async def test_one_broken_model_harms_no_other(
    store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Where one model's keys are damaged, the others are refreshed, swept and snapshotted."""
    async with opened(store_url) as store:
        keys = [await make(store, window_s=0.1) for _ in range(5)]
        # Models are visited in the order of their keys, or as they were loaded.
        broken, *sound = sorted(keys, key=lambda address: address.key)
        async with running_host(store) as host:
            for address in (broken, *sound):
                copy = await host.replica(address.key)
                await play(copy, 1)
                await copy.predict(Ask(row(1), None, None))
            # What a fresh look at it finds is not what was folded, and continues nothing.
            await raw_client(store).delete(broken.part("log"), broken.part("snap"))
            await raw_client(store).hset(broken.part("meta"), "seq", 7)
            with caplog.at_level(logging.CRITICAL, "misclick"):
                for address in sound:
                    await play(await replica_of(store, address), 1, 50)
                for address in sound:
                    await until(partial(_at, store, address, 3))
                    await until(partial(_is_at, host, address, 3))
            with pytest.raises(Unavailable, match="not served"):
                await host.use(broken.key, ask(1))


async def test_a_model_of_a_newer_version_is_not_the_callers_fault(store_url: str) -> None:
    """Who goes back a version hears that a learner is unknown here: 503, until it is back."""
    async with opened(store_url) as store, running_host(store) as host:
        address = await make(store, learner={"kind": "bpa"})
        for newer in ({"kind": "bpa", "speed": 2}, {"kind": "oracle"}):
            spec = (await store.meta(address.key)).spec.to_dict() | {"learner": newer}
            await raw_client(store).hset(address.part("meta"), "spec", json.dumps(spec))
            with pytest.raises(Unreadable, match=r"cannot be made by this version: .*learner"):
                await host.use(address.key, ask(1))


def _is_at(host: Host, address: Address, seq: int) -> bool:
    return any(copy.key == address.key and copy.fold.seq == seq for copy in host.replicas)


async def test_a_broken_model_comes_back_after_repair(store_url: str) -> None:
    """It is refused at once while it is broken, tried again after a pause, and served then."""
    async with opened(store_url) as store:
        host = Host(store, Settings(stale_s=0.01))
        address = await make(store)
        await play(await host.replica(address.key), 4)
        log, client = address.part("log"), raw_client(store)
        kept = await client.dump(log)
        await lose_tail(store, address, 3)
        await client.delete(log)
        await asyncio.sleep(0.02)
        begin_s = time.monotonic()
        with pytest.raises(Unavailable, match="not served"):
            await host.replica(address.key)
        end_s = time.monotonic()
        # The longer it took, the longer the pause.
        pause_s = max(service.host.RELOAD_TIMES * (end_s - begin_s), service.host.RELOAD_S[0])
        assert host._failed[address.key][0] <= end_s + pause_s
        before = (await client.info("commandstats"))["cmdstat_evalsha"]["calls"]
        for _ in range(5):
            with pytest.raises(Unavailable, match="not served"):
                await host.replica(address.key)
        assert (await client.info("commandstats"))["cmdstat_evalsha"]["calls"] == before
        await client.restore(log, 0, kept, replace=True)
        await client.xtrim(log, maxlen=4)
        await client.xdel(log, "4-0")
        await until(lambda: _serves(host, address))
        assert (await host.replica(address.key)).fold.seq == 3


async def _serves(host: Host, address: Address) -> bool:
    try:
        await host.replica(address.key)
    except Unavailable:
        return False
    return True


async def test_workers_agree_after_the_store_was_emptied(store_url: str) -> None:
    """After FLUSHALL old and new workers sign alike: each takes the other's decisions."""
    async with opened(store_url) as store:
        old = Host(store, Settings(stale_s=0.01))
        address = await make(store)
        spec = (await store.meta(address.key)).spec
        await old.replica(address.key)
        await raw_client(store).flushall()
        with pytest.raises(NotFound):
            await old.use(address.key, ask(1))
        await old.create(address.key, spec, "f" * 16)
        new = Host(store, Settings())
        decided = await new.use(address.key, ask(1))
        verdict = await old.use(address.key, lambda r: r.feedback(decided.decision_id, 1))
        assert verdict.status == "applied"


async def test_a_lost_secret_is_put_back(store_url: str) -> None:
    """Where Redis forgot it, a worker at work stores it again: no decision becomes unknown."""
    async with opened(store_url) as store:
        address = await make(store)
        async with running_host(store) as host:
            decided = await host.use(address.key, ask(1))
            await raw_client(store).delete(SECRET_KEY)
            await until(lambda: raw_client(store).exists(SECRET_KEY))
            new = Host(store, Settings())
            verdict = await new.use(address.key, lambda r: r.feedback(decided.decision_id, 1))
            assert verdict.status == "applied"


async def test_workers_agree_after_another_one_made_a_secret(store_url: str) -> None:
    """A model that stays loaded is signed for with the new one, too."""
    async with opened(store_url) as store:
        address = await make(store)
        new = Host(store, Settings())

        async def agree() -> bool:
            decided = await old.use(address.key, ask(1))
            try:
                await new.use(address.key, lambda r: r.feedback(decided.decision_id, 1))
            except NotFound:
                return False
            return True

        async with running_host(store) as old:
            await old.replica(address.key)
            await raw_client(store).delete(SECRET_KEY)
            await new.replica(address.key)
            await until(agree)


@asynccontextmanager
async def silent_store() -> AsyncIterator[tuple[StoreServer, Store]]:
    """Run a store that the test may stop, so that it hangs."""
    server = StoreServer()
    try:
        server.start()
        async with opened(server.url, timeout_s=0.3) as store:
            yield server, store
    finally:
        server.close()


async def connections(server: StoreServer) -> int:
    """Return how often somebody has connected; whoever was not answered connects anew."""
    async with opened(server.url) as store:
        return int((await raw_client(store).info("stats"))["total_connections_received"])


async def test_who_waits_for_a_silent_store_waits_once() -> None:
    """Where the store hangs, requests that queue up fail together, not one after the other."""
    async with silent_store() as (server, store):
        cold, warm = await make(store), await make(store)
        host = Host(store, Settings(stale_s=0.01))
        await host.replica(warm.key)
        await asyncio.sleep(0.02)
        before = await connections(server)
        server.kill(signal.SIGSTOP)
        answers = await asyncio.gather(
            *(host.use(key, ask(i)) for i in range(20) for key in (cold.key, warm.key)),
            return_exceptions=True,
        )
        server.kill(signal.SIGCONT)
        assert {type(answer) for answer in answers} == {Unavailable}
        # One try for each model, and the one that asks.
        assert await connections(server) - before <= 3


async def test_decisions_wait_once_for_a_silent_store() -> None:
    """Decisions that wait behind those that a hanging store does not answer fail with them."""
    async with silent_store() as (server, store):
        copy = await replica_of(store, await make(store))
        before = await connections(server)
        server.kill(signal.SIGSTOP)
        tasks = []
        for number in range(20):
            tasks.append(asyncio.create_task(copy.predict(Ask(row(number), None, None))))
            await asyncio.sleep(0)
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        server.kill(signal.SIGCONT)
        assert {type(answer) for answer in answers} == {Unavailable}
        # The first commit had a connection already, the others and the one that asks have not.
        assert await connections(server) - before <= MOST_COMMITS
        await until(partial(_decides, copy))


async def _decides(copy: Replica) -> bool:
    try:
        await copy.predict(Ask(row(1), None, None))
    except Unavailable:
        return False
    return True


@pytest.mark.parametrize("gone", [True, False], ids=["gone", "hanging"])
async def test_an_outage_does_not_fill_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    """Protects the lines that matter: what fails again and again is told once, or elsewhere."""

    def told() -> list[str]:
        return [record.__dict__["why"] for record in caplog.records if "why" in record.__dict__]

    monkeypatch.setattr(service.host, "FAILED_S", 0.01)
    async with silent_store() as (server, store), running_host(store) as host:
        await host.replica((await make(store)).key)
        # On a busy machine Redis may have been late before.
        before = told()
        server.kill(signal.SIGKILL if gone else signal.SIGSTOP)
        await until(lambda: gone or told())
        await asyncio.sleep(1.0)
        after = told()
        if not gone:
            server.kill(signal.SIGCONT)
    assert after == before if gone else after == ["Redis does not answer: TimeoutError"]


@pytest.mark.skipif(service.host._MALLOC_TRIM is None, reason="only glibc can be asked to")
async def test_memory_that_malloc_keeps_is_given_back(store_url: str) -> None:
    """What lies below something that is still used goes back to the system, too."""
    async with opened(store_url) as store:
        # Too small to be mapped one by one, as all that is shorter than 128 KiB.
        blocks = [bytes([number % 7]) * 100_000 for number in range(640)]
        above = bytes([7]) * 100_000
        full = _resident_bytes()
        del blocks
        await Host(store, Settings())._free()
        assert above
        assert _resident_bytes() < full - 48_000_000


def _resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


async def test_memory_of_models_that_went_is_free_again(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their graphs and replicas are in cycles, and a worker looks for cycles hardly ever."""
    graphs: list[weakref.ref[object]] = []
    make_fold = Fold.__init__

    def watched(fold: Fold, *args: Any) -> None:
        make_fold(fold, *args)
        graphs.append(weakref.ref(vars(fold.contest.learner)["_graph"]))

    def alive() -> int:
        return sum(graph() is not None for graph in graphs)

    monkeypatch.setattr(Fold, "__init__", watched)
    # Not for every test: of a process with so many modules a look at all objects takes long.
    monkeypatch.setattr(service.host, "FREE_S", 0.05)
    spec = ModelSpec.model_validate(SPEC | {"learner": {"kind": "rknn"}})
    keys = [f"test/{secrets.token_hex(6)}" for _ in range(2)]
    gc.disable()
    try:
        async with opened(store_url) as store:
            host = Host(store, Settings())
            for key in keys:
                await host.create(key, spec, secrets.token_hex(8))
                assert alive() == 0
            for number, key in enumerate(keys):
                await host.use(key, ask(1))
                assert alive() == number + 1
            async with running_host(store, max_loaded_models=1) as other:
                for key in keys:
                    await other.use(key, ask(1))
                await until(lambda: alive() == len(keys) + 1)
    finally:
        gc.enable()
