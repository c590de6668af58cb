"""Reading, and how models come and go, on both stores."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from service import snapshots
from service import store as store_module
from service.address import Address
from service.errors import Conflict, NotFound, Unavailable
from service.events import Entry
from service.snapshots import (
    Snapshot,
    finish_import,
    load_snapshots,
    put_parts,
    store_snapshot,
)
from service.spec import ModelSpec
from service.store import IMPORTING, READ_ENTRIES, ModelGone, Store
from tests.service.stores import (
    SPEC,
    admit,
    counters,
    decide,
    example,
    learn,
    make,
    nonce,
    opened,
    raw_client,
    record,
    tell,
    whole_log,
)


@asynccontextmanager
async def full(store: Store) -> AsyncIterator[None]:
    """Let the store be above maxmemory for a while."""
    await raw_client(store).config_set("maxmemory", 1)
    try:
        yield
    finally:
        await raw_client(store).config_set("maxmemory", 0)


# -- reading ----------------------------------------------------------------------------------
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


# -- models -----------------------------------------------------------------------------------
async def test_another_incarnation_is_gone(store_url: str) -> None:
    """Whoever still serves a deleted model changes nothing in its successor."""
    async with opened(store_url) as store:
        address = await make(store)
        stranger = dataclasses.replace(address, uid="f" * 16)
        calls: list[Any] = [
            store.decide(stranger, [(nonce(1), False, record())], 0, ""),
            store.admit(stranger, [(nonce(1), 0, 1)], 0),
            tell(store, stranger, [example(1)], 0),
            store.expire_due(stranger),
            store.withdraw(stranger, [nonce(1)]),
            store.count_rewinds(stranger, 1),
            store.append(stranger, "r", nonce(1), b"{}", ("rates", "", "x")),
            store.read(stranger, 0),
            store_snapshot(store, stranger, Snapshot(1, "", "", [])),
        ]
        for call in calls:
            with pytest.raises(ModelGone):
                await call
        assert await counters(store, address) == {}
        assert await whole_log(store, address) == []


async def test_creating_twice_changes_nothing(store_url: str) -> None:
    """The second of two creations is told that there is a model, whose log stays."""
    async with opened(store_url) as store:
        address = await make(store)
        await learn(store, address, 1, 1)
        meta = await store.meta(address.key)
        other = meta.spec.model_copy(update={"seed": 99})
        assert not await store.create(address.key, other, {"uid": "other", "seq": "0"})
        assert await store.meta(address.key) == meta
        assert len(await whole_log(store, address)) == 1


@pytest.mark.parametrize("spec", ['{"name": "m", "colour": "red"}', "{", None])
async def test_a_model_that_cannot_be_read_is_no_fault(store_url: str, spec: str | None) -> None:
    """One of a newer version, say, after going back to this one: 503, not 500."""
    async with opened(store_url) as store:
        address = await make(store)
        meta = address.part("meta")
        await raw_client(store).hdel(meta, "spec")
        if spec is not None:
            await raw_client(store).hset(meta, "spec", spec)
        with pytest.raises(Unavailable, match="cannot be read"):
            await store.meta(address.key)


@pytest.mark.parametrize("window_s", [0.1, 600.0])
async def test_deleting_leaves_nothing(store_url: str, window_s: float) -> None:
    """Whoever deletes a model because Redis is full gets all of it back, tombstones too."""
    async with opened(store_url) as store:
        address, other = await make(store, window_s=window_s), await make(store)
        holding = await make(store, window_s=window_s, on_expiry="no_click")
        for each in (address, other, holding):
            (issued, _) = await decide(store, each, 1, 2)
            await admit(store, each, 1, issued, 1)
        assert await store.delete(holding.key)
        assert await raw_client(store).keys(f"mc:{{{holding.key}}}:*") == []
        assert address.key in await store.list_keys()
        assert await store.delete(address.key)
        assert not await store.delete(address.key)
        assert address.key not in await store.list_keys()
        with pytest.raises(NotFound):
            await store.meta(address.key)
        client = raw_client(store)
        assert await client.keys(f"mc:{{{address.key}}}:*") == []
        assert await client.keys(f"{other.done}:*")


def test_tombstones_are_sought_where_they_may_be() -> None:
    """Buckets live until two more have gone by; one ahead may be there if a clock went back."""
    spec = ModelSpec.model_validate(SPEC | {"window_s": 100.0})
    address = Address.of("t/m", "uid", spec)
    assert address.tombstones(1_050_000) == [f"mc:{{t/m}}:done:uid:{b}" for b in (7, 8, 9, 10, 11)]


async def test_a_model_too_many_is_not_made_even_for_a_moment(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody sees it, and it takes the place of no other where the clock went back."""

    async def make_nothing(*_: Any) -> None:
        raise AssertionError

    async with opened(store_url) as store:
        address = await make(store)
        spec = (await store.meta(address.key)).spec
        monkeypatch.setattr(store, "run", make_nothing)
        with pytest.raises(Conflict, match="max_models"):
            await store.create(f"{address.key}z", spec, {"uid": "new"}, most=1)
        assert f"{address.key}z" not in await store.list_keys()


async def test_a_model_is_listed_whoever_is_killed_while_he_makes_it(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is on no list would be swept by nobody, and counted by nobody."""
    async with opened(store_url) as store:
        address = await make(store)
        spec, run = (await store.meta(address.key)).spec, store.run

        async def die(*call: Any) -> None:
            await run(*call)
            raise asyncio.CancelledError

        monkeypatch.setattr(store, "run", die)
        with pytest.raises(asyncio.CancelledError):
            await store.create(f"{address.key}k", spec, {"uid": "new"})
        assert f"{address.key}k" in await store.list_keys()


async def test_a_model_made_while_another_is_deleted_is_listed(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who creates and who deletes may meet at any step: what is there is swept and counted."""
    async with opened(store_url) as store, opened(store_url) as other:
        address = await make(store)
        spec, fields = (await store.meta(address.key)).spec, {"uid": "new", "seq": "0"}
        unlist, run = store.client.srem, store.run

        async def create_first(*members: str) -> Any:
            await other.create(address.key, spec, fields)
            return await unlist(*members)

        async def delete_first(*call: Any) -> Any:
            await other.delete(address.key)
            return await run(*call)

        monkeypatch.setattr(store.client, "srem", create_first)
        await store.delete(address.key)
        assert address.key in await store.list_keys()
        monkeypatch.undo()
        await store.delete(address.key)
        monkeypatch.setattr(store, "run", delete_first)
        assert await store.create(address.key, spec, fields)
        assert address.key in await store.list_keys()


async def test_an_import_appears_whole(store_url: str) -> None:
    """Until it is finished an import is no model; only who began it can go on with it."""
    async with opened(store_url) as store:
        source = await make(store)
        await learn(store, source, 1, 5)
        entries = await whole_log(store, source)
        key, spec = f"{source.key}x", (await store.meta(source.key)).spec
        fields = {"importing": "t1", "format": "2", "seq": "0", "chain": "", "labels": "[]"}
        assert await store.create(key, spec, fields)
        await store.import_entries(key, "t1", entries[:3])
        with pytest.raises(NotFound):
            await store.meta(key)
        last = Snapshot(5, entries[-1].chain, "digest", [b"state"])
        for call in (
            store.import_entries(key, "t2", entries[3:]),
            finish_import(store, key, "t2", source.uid, {"labels": "[]"}, last),
            finish_import(store, key, "t2", source.uid, {}, last._replace(parts=[])),
        ):
            with pytest.raises(ModelGone):
                await call
        await store.abandon_import(key, "t2")
        await store.import_entries(key, "t1", entries[3:])
        await finish_import(store, key, "t1", source.uid, {"labels": "[]"}, last)
        imported = Address.of(key, source.uid, spec)
        assert await whole_log(store, imported) == entries
        assert await load_snapshots(store, imported) == [last]
        # It is a model now: abandoning it comes too late.
        await store.abandon_import(key, "t1")
        assert (await store.meta(key)).seq == 5
        client = raw_client(store)
        for each in await client.keys(f"mc:{{{key}}}:*"):
            assert await client.ttl(each) == -1


async def test_half_an_import_ends_by_itself(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an import leaves whose worker was killed does not stay for ever."""
    for module in (store_module, snapshots):
        monkeypatch.setattr(module, "IMPORT_LEASE_MS", 1000)
    async with opened(store_url) as store:
        source = await make(store)
        await learn(store, source, 1, 2)
        key, spec = f"{source.key}w", (await store.meta(source.key)).spec
        client, keys = raw_client(store), f"mc:{{{key}}}:*"
        assert await store.create(key, spec, {IMPORTING: "t", "seq": "0"})
        assert await client.pttl(f"mc:{{{key}}}:meta") > 0
        for entry in await whole_log(store, source):
            # It lasts as long as something comes.
            await asyncio.sleep(0.6)
            await store.import_entries(key, "t", [entry])
        await put_parts(store, key, (IMPORTING, "t"), [b"state"])
        assert len(await client.keys(keys)) == 3
        assert await store.by_age([key, source.key]) == [source.key, key]
        await asyncio.sleep(1.2)
        assert await client.keys(keys) == []
        assert await store.by_age([key, source.key]) == [source.key]
        with pytest.raises(ModelGone):
            await store.import_entries(key, "t", [])


async def begun_import(store: Store) -> tuple[str, list[Entry]]:
    """Begin to import a model under another name, with the token "t"; return key and entries."""
    source = await make(store)
    await learn(store, source, 1, 2)
    key, spec = f"{source.key}y", (await store.meta(source.key)).spec
    assert await store.create(key, spec, {IMPORTING: "t", "seq": "0"})
    return key, await whole_log(store, source)


@pytest.mark.parametrize("fields", [{"uid": "new"}, {IMPORTING: "u", "seq": "0"}])
async def test_an_import_under_way_is_in_nobodys_hands(
    store_url: str, fields: dict[str, str]
) -> None:
    """Protects a backup that is restored from the app that makes sure its model is there."""
    async with opened(store_url) as store:
        key, entries = await begun_import(store)
        spec = (await store.meta(key.removesuffix("y"))).spec
        for _ in range(2):
            with pytest.raises(Conflict, match="is being imported, or relearned"):
                await store.create(key, spec, fields)
            await store.import_entries(key, "t", entries[:1])
            entries = entries[1:]
        await finish_import(store, key, "t", "its", {}, Snapshot(2, "", "", []))
        assert not await store.create(key, spec, {"uid": "new"})
        assert await store.delete(key)
        assert await store.create(key, spec, {"uid": "new"})


async def test_a_model_begins_without_what_an_import_has_left(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever takes the name of one whose worker was killed gets a log of his own."""
    monkeypatch.setattr(store_module, "IMPORT_BUSY_MS", 50)
    async with opened(store_url) as store:
        key, entries = await begun_import(store)
        await store.import_entries(key, "t", entries)
        address = await make(store)
        await asyncio.sleep(0.1)
        assert await store.create(key, (await store.meta(address.key)).spec, {"uid": "new"})
        client = raw_client(store)
        assert await client.keys(f"mc:{{{key}}}:*") == [f"mc:{{{key}}}:meta".encode()]
        assert await client.ttl(f"mc:{{{key}}}:meta") == -1


async def assert_abandoned(store: Store, key: str) -> None:
    """Give the import up, and find nothing left of it."""
    await store.abandon_import(key, "t")
    assert key not in await store.list_keys()
    assert await raw_client(store).keys(f"mc:{{{key}}}:*") == []


async def test_an_abandoned_import_leaves_nothing(store_url: str) -> None:
    """What a failed import had stored is gone, and its name is free."""
    async with opened(store_url) as store:
        key, entries = await begun_import(store)
        await store.import_entries(key, "t", entries)
        await assert_abandoned(store, key)


async def test_an_import_is_given_up_where_redis_is_away() -> None:
    """Its lease ends what is left, and whoever imports hears of what went wrong first."""
    async with opened("unix:///nowhere/store.sock") as store:
        await store.abandon_import("test/m", "t")


async def test_an_import_that_fills_the_store_is_abandoned(store_url: str) -> None:
    """Above maxmemory, where imports fail most often, what one has stored goes all the same."""
    async with opened(store_url) as store:
        key, entries = await begun_import(store)
        await store.import_entries(key, "t", entries[:1])
        async with full(store):
            with pytest.raises(Unavailable, match="maxmemory"):
                await store.import_entries(key, "t", entries[1:])
            await assert_abandoned(store, key)


async def test_what_needs_no_memory_goes_on_above_maxmemory(store_url: str) -> None:
    """A full store lets decisions end, and workers see what they have missed, and say so."""
    async with opened(store_url) as store:
        address = await make(store)
        (issued,) = await decide(store, address, 1)
        async with full(store):
            assert (await admit(store, address, 1, issued, 1))[0] == "applied"
            assert await store.expire_due(address) == 0
            assert len(await whole_log(store, address)) == 1
            await store.count_rewinds(address, 2)
        counted = {"decisions": 1, "feedback": 1, "clicks": 1, "rewinds": 2}
        assert await counters(store, address) == counted


async def test_decisions_are_taken_back_above_maxmemory(store_url: str) -> None:
    """A batch that the store has no room for leaves none that would count as shown for nothing."""
    async with opened(store_url) as store:
        address = await make(store)
        await decide(store, address, 1, 2)
        async with full(store):
            await store.withdraw(address, [nonce(1), nonce(2)])
        assert await counters(store, address) == {}
