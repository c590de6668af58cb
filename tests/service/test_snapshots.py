"""Snapshots, in parts that are shared, and the log that they trim, on both stores."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from service import scripts, snapshots
from service.address import Address
from service.errors import LogBroken, Unavailable
from service.snapshots import (
    Snapshot,
    load_snapshots,
    newest_snapshot_seq,
    put_parts,
    store_snapshot,
)
from service.store import ModelGone, Store
from tests.service.stores import (
    learn,
    make,
    opened,
    play,
    raw_client,
    replica_of,
    whole_log,
)


async def snapshot_at(store: Store, address: Address, seq: int) -> bool:
    """Store some state as the one after event `seq`."""
    _, _, entries = await store.read(address, seq - 1)
    return await store_snapshot(
        store, address, Snapshot(seq, entries[0].chain, f"digest{seq}", [b"state", b"%d" % seq])
    )


async def test_snapshots_only_go_forward(store_url: str) -> None:
    """A snapshot is stored if it is newer and of this log; the one before is kept."""
    async with opened(store_url) as store:
        address = await make(store)
        await learn(store, address, 1, 9)
        assert await snapshot_at(store, address, 4)
        assert await snapshot_at(store, address, 9)
        assert not await snapshot_at(store, address, 6)
        assert not await snapshot_at(store, address, 9)
        assert [(s.seq, s.parts) for s in await load_snapshots(store, address)] == [
            (9, [b"state", b"9"]),
            (4, [b"state", b"4"]),
        ]
        assert await newest_snapshot_seq(store, address.key) == 9
        await learn(store, address, 10, 2)
        for seq in (10, 11, 12):
            with pytest.raises(LogBroken):
                await store_snapshot(store, address, Snapshot(seq, "0" * 16, "", []))
        assert await newest_snapshot_seq(store, address.key) == 9


async def test_a_snapshot_without_its_parts_is_not_taken(store_url: str) -> None:
    """One that came in between has removed them: nothing changes, and the next has them again."""
    async with opened(store_url) as store:
        address = await make(store)
        await learn(store, address, 1, 9)
        _, _, entries = await store.read(address, 8)
        names = await put_parts(store, address.key, ("uid", address.uid), [b"state", b"mine"])
        assert await snapshot_at(store, address, 4)
        keys = [address.part(name) for name in ("meta", "snap", "snap1", "log", "parts")]
        argv = [address.uid, 9, entries[0].chain, "digest", names, 0, ""]
        assert await store.run(scripts.SNAP, keys, argv) == [b"lacking"]
        assert [s.seq for s in await load_snapshots(store, address)] == [4]
        assert len(await whole_log(store, address)) == 9
        assert await store_snapshot(
            store, address, Snapshot(9, entries[0].chain, "digest", [b"state", b"mine"])
        )
        newest, before = await load_snapshots(store, address)
        assert (newest.parts, before.parts) == ([b"state", b"mine"], [b"state", b"4"])


async def test_no_parts_of_a_model_that_is_gone(store_url: str) -> None:
    """A worker that does not know yet that a model was deleted leaves nothing of it behind."""
    async with opened(store_url) as store:
        address = await make(store)
        await learn(store, address, 1, 4)
        _, _, entries = await store.read(address, 3)
        await store.delete(address.key)
        with pytest.raises(ModelGone):
            await store_snapshot(store, address, Snapshot(4, entries[0].chain, "", [b"state"]))
        assert not await raw_client(store).exists(address.part("parts"))


@pytest.mark.parametrize(("keep", "first"), [(0, 5), (3, 5), (8, 3), (100, 1)])
async def test_trimming_keeps_what_is_needed(store_url: str, keep: int, first: int) -> None:
    """The log keeps all after the previous snapshot, and what the spec asks for beyond it."""
    async with opened(store_url) as store:
        address = await make(store, log_keep=keep)
        await learn(store, address, 1, 10)
        await snapshot_at(store, address, 4)
        # Nothing precedes the first snapshot, so nothing may go: it might be lost.
        assert (await store.read(address, 0))[2][0].seq == 1
        await snapshot_at(store, address, 9)
        assert (await store.read(address, 0))[2][0].seq == first


async def test_trims_above_maxmemory(store_url: str) -> None:
    """A store that is full still takes snapshots: they free what it can do without."""
    async with opened(store_url) as store:
        address = await make(store, log_keep=0)
        await learn(store, address, 1, 10)
        await snapshot_at(store, address, 4)
        await raw_client(store).config_set("maxmemory", 1)
        try:
            with pytest.raises(Unavailable, match="maxmemory"):
                await learn(store, address, 11, 1)
            assert await snapshot_at(store, address, 9)
        finally:
            await raw_client(store).config_set("maxmemory", 0)
        assert (await store.read(address, 0))[2][0].seq == 5


async def test_states_are_fetched_one_after_the_other(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All at once, over a thin line none came in time, and each was asked for again."""
    async with opened(store_url) as store:
        addresses = [await make(store) for _ in range(3)]
        for address in addresses:
            await play(await replica_of(store, address), 1)
            replica = await replica_of(store, address)
            await replica.save_snapshot()
        real, inside = snapshots._read_parts, 0

        async def read_parts(*call: Any) -> list[bytes]:
            nonlocal inside
            inside += 1
            assert inside == 1
            await asyncio.sleep(0.01)
            parts = await real(*call)
            inside -= 1
            return parts

        monkeypatch.setattr(snapshots, "_read_parts", read_parts)
        found = await asyncio.gather(*(load_snapshots(store, each) for each in addresses))
        assert [len(each) for each in found] == [1, 1, 1]
