"""Snapshots of one worker's copy: what is stored of it, and what a new copy makes of that."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import service.follower
from learners.neighbors import WindowLearner
from service.errors import Unavailable
from service.events import Example
from service.fold import Fold
from service.snapshots import Snapshot, load_snapshots
from service.store import Store
from tests.service.stores import (
    fold_again,
    lose_tail,
    make,
    opened,
    play,
    raw_client,
    replica_of,
    row,
    two_snapshots,
)

#: Far longer than anything here takes.
PATIENCE_S = 10.0


async def test_recovers_from_the_newest_snapshot(store_url: str) -> None:
    """A new copy starts from a snapshot and has the bytes of the whole fold."""
    async with opened(store_url) as store:
        address = await make(store)
        replica = await replica_of(store, address)
        await play(replica, 6)
        await replica.save_snapshot()
        await play(replica, 3, 10)
        fresh = await replica_of(store, address)
        assert fresh.snapshot_seq == 6
        assert fresh.fold.encode() == replica.fold.encode() == await fold_again(store, address)


async def test_wide_windows_leave_threads_to_other_models(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many are being built after a start, another model is loaded beside them."""
    monkeypatch.setattr(service.follower, "WIDE_ROWS", 5)
    built, restore = threading.Event(), service.follower._restore

    def slowly(fold: Fold, snapshot: Snapshot) -> None:
        if isinstance(fold.learner, WindowLearner):
            assert built.wait(PATIENCE_S)
        restore(fold, snapshot)

    async with opened(store_url) as store:
        other = await make(store)
        await play(await replica_of(store, other), 3)
        wide = [await make(store, learner={"kind": "knn", "window": 10}) for _ in range(3)]
        for address in (*wide, other):
            copy = await replica_of(store, address)
            if address is not other:
                await copy.learn(Example(0, row(1)), None)
            await copy.save_snapshot()
        monkeypatch.setattr(service.follower, "_restore", slowly)
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        tasks = [asyncio.create_task(replica_of(store, address)) for address in wide]
        try:
            async with asyncio.timeout(PATIENCE_S / 2):
                # Each asks the store before it is built; that many turns are enough for all.
                for _ in range(50):
                    await asyncio.sleep(0.001)
                assert (await replica_of(store, other)).snapshot_seq == 3
        finally:
            built.set()
        assert [copy.snapshot_seq for copy in await asyncio.gather(*tasks)] == [1] * 3


async def test_a_snapshot_writes_what_changed(store_url: str) -> None:
    """Of a wide window only the parts with new rows; a new copy has the bytes of the whole."""
    window = {"kind": "knn", "window": 5000}
    features = {"type": "dense", "size": 64}
    rng = np.random.default_rng(0)
    async with opened(store_url) as store:
        address = await make(store, learner=window, features=features, scaling="none")
        replica = await replica_of(store, address)
        written = []
        for count in (5000, 400, 1, 5000):
            rows = rng.normal(size=(count, 64)).astype(np.float32)
            await replica.learn_many([(Example(0, row), None) for row in rows])
            before = await received(store)
            await replica.save_snapshot()
            written.append(await received(store) - before)
        whole, some, least, again = written
        assert whole > 5000 * 64 * 4
        assert least < some < 3 * 65_536 + 10_000 < 5000 * 4 * 64 / 6
        assert again > 5000 * 64 * 4
        assert replica.snapshot_seq == 10_401
        fresh = await replica_of(store, address)
        assert fresh.snapshot_seq == 10_401
        assert fresh.fold.encode() == replica.fold.encode()


async def received(store: Store) -> int:
    """Return how many bytes the store was sent so far."""
    return int((await raw_client(store).info("stats"))["total_net_input_bytes"])


@pytest.mark.parametrize("damage", ["parts", "part", "digest", "chain", "seq", "gone"])
async def test_a_damaged_snapshot_is_passed_over(store_url: str, damage: str) -> None:
    """Where the newest snapshot is damaged, lost or of another log, the one before serves."""
    async with opened(store_url) as store:
        address = await make(store, log_keep=0)
        replica = await two_snapshots(store, address)
        if damage == "gone":
            await raw_client(store).delete(address.part("snap"))
        elif damage == "part":
            names = await raw_client(store).hget(address.part("snap"), "parts")
            await raw_client(store).hdel(address.part("parts"), names[:32])
        else:
            wrong = {"parts": b"MCS1", "digest": "0" * 64, "chain": "0" * 16, "seq": "7"}[damage]
            await raw_client(store).hset(address.part("snap"), damage, wrong)
        fresh = await replica_of(store, address)
        assert fresh.snapshot_seq == 4
        assert fresh.fold.encode() == replica.fold.encode()


async def test_without_a_usable_state_it_fails_closed(store_url: str) -> None:
    """Where the log continues no snapshot and does not begin at 1, nothing is served."""
    async with opened(store_url) as store:
        address = await make(store, log_keep=0)
        replica = await two_snapshots(store, address)
        assert (await store.read(address, 0))[2][0].seq == 5
        await raw_client(store).delete(address.part("snap"), address.part("snap1"))
        with pytest.raises(Unavailable, match="not served"):
            await replica_of(store, address)
        # The copy that runs has all of it in memory: its next snapshot mends the model.
        await replica.save_snapshot()
        fresh = await replica_of(store, address)
        assert fresh.fold.encode() == replica.fold.encode()


async def test_a_tampered_entry_fails_closed(store_url: str) -> None:
    """A changed byte in the log is never folded."""
    async with opened(store_url) as store:
        address = await make(store)
        await play(await replica_of(store, address), 3)
        log = address.part("log")
        entries = await raw_client(store).xrange(log)
        await raw_client(store).delete(log)
        for at, (entry_id, fields) in enumerate(entries):
            body = fields[b"b"].replace(b"f", b"x", 1) if at == 1 else fields[b"b"]
            await raw_client(store).xadd(log, {"b": body, "h": fields[b"h"]}, id=entry_id)
        with pytest.raises(Unavailable, match="not served"):
            await replica_of(store, address)


async def test_a_copy_behind_a_trimmed_log_catches_up(store_url: str) -> None:
    """A copy that slept while the log was trimmed past it recovers, and calls it no rewind."""
    async with opened(store_url) as store:
        address = await make(store, log_keep=0)
        asleep = await replica_of(store, address)
        awake = await two_snapshots(store, address)
        await asleep.catch_up()
        assert asleep.fold.encode() == awake.fold.encode()
        assert asleep.rewinds == 0


async def test_an_older_snapshot_is_not_stored(store_url: str) -> None:
    """A worker that is behind does not put its older state over a newer one."""
    async with opened(store_url) as store:
        address = await make(store)
        one, two = await replica_of(store, address), await replica_of(store, address)
        await play(one, 4)
        await two.catch_up()
        await play(one, 4, 4)
        await one.save_snapshot()
        await two.save_snapshot()
        assert [s.seq for s in await load_snapshots(store, address)] == [8]
        assert two.snapshot_seq == 8


async def test_a_snapshot_of_a_lost_history_is_not_stored(store_url: str) -> None:
    """A worker that folded lost events does not store them; it rewinds instead."""
    async with opened(store_url) as store:
        address = await make(store)
        old, new = await replica_of(store, address), await replica_of(store, address)
        await play(old, 5)
        await lose_tail(store, address, 2)
        await new.catch_up()
        await play(new, 4, 10)
        await old.save_snapshot()
        assert await load_snapshots(store, address) == []
        assert old.rewinds == 1
        assert old.fold.encode() == new.fold.encode()
