"""Trouble with a model or the store costs a worker no other model, and no memory or time."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import service.host
from service.address import Address
from service.auth import Caller, Scope
from service.deciding import Ask
from service.errors import NotFound, Unavailable
from service.fold import Fold
from service.host import Host, initial_fields
from service.models import Models
from service.replica import Decided, Replica
from service.settings import Settings
from service.store import Store
from tests.service.stores import make, opened, play, replica_of, row

#: Far longer than anything here takes.
PATIENCE_S = 10.0


async def make_anew(store: Store, address: Address) -> None:
    """Delete a model and create it again, as another worker does."""
    spec = (await store.meta(address.key)).spec
    await store.delete(address.key)
    await store.create(address.key, spec, initial_fields(Fold(spec, "new")) | {"uid": "new"})


async def test_what_nobody_foresaw_of_one_model_harms_no_other(
    store_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without memory for one model's snapshot, say, the others still get theirs."""
    saved = list[str]()

    async def save(replica: Replica) -> None:
        saved.append(replica.key)
        if len(set(saved)) == 1:
            raise MemoryError

    monkeypatch.setattr(Replica, "save_snapshot", save)
    async with opened(store_url) as store:
        keys = {(await make(store)).key for _ in range(3)}
        host = Host(store, Settings(snapshot_events=1))
        for key in keys:
            await play(await host.replica(key), 1)
        with caplog.at_level(logging.CRITICAL, "misclick"):
            await host._snapshot()
    assert set(saved) == keys


async def test_trouble_that_lasts_is_told_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each model's by its name, and again while it lasts, for who reads the newest lines."""
    async with opened("unix:///nowhere/store.sock") as store:
        host = Host(store, Settings())
        for model in ("one", "", "other", "one", ""):
            host._tell(Unavailable("it is broken"), model)
        monkeypatch.setattr(service.host, "TELL_AGAIN_S", 0.0)
        host._tell(Unavailable("it is broken"), "one")
    told = [vars(record).get("model") for record in caplog.records]
    assert told == ["one", None, "other", "one"]


async def test_a_stop_waits_for_no_store_that_hangs(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects a restart from the sum of what each model waits for its last snapshot."""

    async def hang(_: Replica) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(Replica, "save_snapshot", hang)
    monkeypatch.setattr(service.host, "LAST_SNAPSHOTS_S", 0.05)
    async with opened(store_url) as store:
        host = Host(store, Settings())
        await host.replica((await make(store)).key)
        async with asyncio.timeout(PATIENCE_S):
            await host.stop()


async def test_a_last_snapshot_that_fails_is_told(
    store_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever waits for a long start finds why, and the other models got theirs."""
    async with opened(store_url) as store:
        host = Host(store, Settings())
        copies = [await host.replica((await make(store)).key) for _ in range(2)]
        for copy in copies:
            await play(copy, 1)

        async def refuse() -> None:
            raise Unavailable("it is full")

        monkeypatch.setattr(copies[0], "save_snapshot", refuse)
        await host.stop()
    (told,) = [vars(record) for record in caplog.records]
    assert (told["model"], told["why"]) == (copies[0].key, "it is full")
    assert [copy.snapshot_seq for copy in copies] == [0, 1]


async def test_names_that_were_asked_for_in_vain_are_forgotten(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects memory from whoever asks for any names while Redis is away."""

    async def away(*_: Any) -> Any:
        raise Unavailable("Redis does not answer")

    monkeypatch.setattr(Store, "meta", away)
    monkeypatch.setattr(service.host, "RELOAD_S", (0.0, 0.0))
    async with opened(store_url) as store:
        host = Host(store, Settings())
        for _ in range(5):
            with pytest.raises(Unavailable):
                await host.replica(f"test/{secrets.token_hex(6)}")
    assert len(host._failed) == 1
    assert not host._loading
    assert not host._waiting


async def test_models_that_others_deleted_are_forgotten(store_url: str) -> None:
    """Protects memory from models that come and go, of which this worker has ended decisions."""
    async with opened(store_url) as store:
        host = Host(store, Settings())
        for _ in range(3):
            address = await make(store, window_s=0.1)
            await (await replica_of(store, address)).predict(Ask(row(1), None, None))
            await asyncio.sleep(0.15)
            await host._sweep()
            assert address.key in host._addresses
            await store.delete(address.key)
        await host._sweep()
    assert host._addresses == {}


async def test_a_model_made_anew_is_loaded_once_for_all_who_ask(
    store_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Calls that find the old one gone, one after the other, leave the new one alone."""
    loaded = list[str]()
    recover = Replica.recover

    async def count(replica: Replica) -> None:
        loaded.append(replica.address.uid)
        await recover(replica)

    def late(number: int) -> Callable[[Replica], Awaitable[Decided]]:
        async def act(replica: Replica) -> Decided:
            await asyncio.sleep(0.02 * number)
            return await replica.predict(Ask(row(1), None, None))

        return act

    async with opened(store_url) as store:
        host = Host(store, Settings())
        address = await make(store)
        await host.replica(address.key)
        await make_anew(store, address)
        monkeypatch.setattr(Replica, "recover", count)
        await asyncio.gather(*(host.use(address.key, late(number)) for number in range(5)))
    assert loaded == ["new"]
    assert len(caplog.records) == 1


async def test_a_model_made_anew_is_swept_and_kept(store_url: str) -> None:
    """What is remembered of the old one is no reason to let the new one go."""
    async with opened(store_url) as store:
        host = Host(store, Settings())
        address = await make(store, window_s=0.1)
        for _ in range(2):
            copy = await host.replica(address.key)
            await copy.predict(Ask(row(1), None, None))
            await asyncio.sleep(0.15)
            for _ in range(2):
                await host._sweep()
            assert (await store.meta(address.key)).counters["expired"] == 1
            assert host.replicas == [copy]
            await make_anew(store, address)
            host.drop(address.key)


async def test_a_model_deleted_here_is_not_told_of_as_lost(
    store_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Protects whoever reads the log from a warning of what he did himself."""
    async with opened(store_url) as store:
        host = Host(store, Settings())
        key = (await make(store)).key
        await host.replica(key)
        unlist = store._unlist

        async def refresh_first(key: str) -> bool:
            await host._refresh()
            return await unlist(key)

        monkeypatch.setattr(store, "_unlist", refresh_first)
        caller = Caller("test", Scope)
        await Models(host).delete(caller, key.removeprefix("test/"))
        assert [record.message for record in caplog.records] == []
        with pytest.raises(NotFound):
            await Models(host).delete(caller, key.removeprefix("test/"))
