"""Models whose stored state another version wrote: they go on with what their log still tells."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import httpx
import numpy as np
import pytest

from service.address import Address
from service.anew import begin_anew
from service.codec import encode_parts, state_digest
from service.deciding import Ask
from service.errors import Unavailable
from service.events import Decision, Example, unpack_body
from service.fold import Fold
from service.replica import Replica
from service.snapshots import Snapshot, load_snapshots, put_parts, store_snapshot
from service.store import Store
from service.transfer import export, import_model
from tests.service.apps import Json, app_client, create
from tests.service.stores import (
    SECRET,
    fold_again,
    make,
    opened,
    play,
    raw_client,
    replica_of,
    row,
    two_snapshots,
)

PASSIVE: Json = {"name": "passive", "learner": {"kind": "bpa", "gamma": 0.3}}
#: A learner and what its state lacks where another version wrote it.
KINDS: list[tuple[Json, str]] = [
    ({"kind": "forward_softmax"}, "learner.shortfall"),
    ({"kind": "rcnbf", "gamma": 0.2, "rho_0": 0.1, "rho_1": 0.1}, "learner.gamma"),
]


def foreign(fold: Fold, lacking: str) -> Snapshot:
    """Return a fold's state as a version would write it that does not know of one entry."""
    state = fold.state()
    del state[lacking]
    parts = encode_parts(state)
    return Snapshot(fold.seq, fold.chain, state_digest(*parts), parts)


async def make_foreign(
    store: Store, address: Address, fold: Fold, lacking: str, name: str = "snap"
) -> None:
    """Let a stored snapshot, the newest one if not told otherwise, be one of another version."""
    snapshot = foreign(fold, lacking)
    names = await put_parts(store, address.key, ("uid", address.uid), snapshot.parts)
    fields = {"digest": snapshot.digest, "parts": names}
    await raw_client(store).hset(address.part(name), mapping=fields)


def restored(replica: Replica, snapshot: Snapshot) -> Fold:
    """Return the fold that a snapshot is of."""
    fold = Fold(replica.spec, replica.address.uid)
    fold.restore(b"".join(snapshot.parts), snapshot.seq, snapshot.chain)
    return fold


async def trimmed(store: Store, learner: Json, lacking: str) -> tuple[Address, Replica]:
    """Return a model of 10 rounds that another version served, and that worker's copy.

    Its log begins at event 5; the last snapshot is of event 8.
    """
    address = await make(store, learner=learner, log_keep=0)
    replica = await two_snapshots(store, address)
    assert (await store.read(address, 0))[2][0].seq == 5
    stored = await load_snapshots(store, address)
    for name, each in zip(("snap", "snap1"), stored, strict=True):
        await make_foreign(store, address, restored(replica, each), lacking, name)
    return address, replica


async def from_the_log(store: Store, address: Address, since: int) -> Fold:
    """Return what a model begun anew comes to, by hand: all that is there but the first event."""
    meta = await store.meta(address.key)
    rates, _ = await store.rates(address)
    fold = begin_anew(meta, rates, since)
    _, _, (first, *others) = await store.read(address, 0)
    fold.begin_after(first.seq, first.chain)
    for entry in others:
        fold.follow(entry)
    return fold


@pytest.mark.parametrize(("learner", "lacking"), KINDS)
async def test_it_learns_what_the_log_still_holds(
    store_url: str, learner: Json, lacking: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is served, says so in the log, and every later worker has the same bytes."""
    async with opened(store_url) as store:
        address, _ = await trimmed(store, learner, lacking)
        expected = await from_the_log(store, address, since=8)
        with caplog.at_level(logging.WARNING, "misclick.follower"):
            fresh = await replica_of(store, address)
        (said,) = caplog.records
        assert "of another version" in said.message
        assert (said.__dict__["from"], said.__dict__["to"]) == (6, 10)
        assert fresh.fold.encode() == expected.encode()
        assert fresh.fold.rejected == 0
        assert (fresh.fold.seq, fresh.snapshot_seq) == (10, 10)
        # It has learned: a learner that has heard nothing would be as at the beginning.
        begun = begin_anew(await store.meta(address.key), "", 8)
        assert fresh.fold.encode() != begun.encode()
        await play(fresh, 3, 10)
        other = await replica_of(store, address)
        assert other.snapshot_seq == 10
        assert other.fold.encode() == fresh.fold.encode()


async def test_its_export_is_of_its_own_version(store_url: str) -> None:
    """Protects backups: the older snapshot, which is kept for the other version, is not for it."""
    async with opened(store_url) as store:
        address, _ = await trimmed(store, *KINDS[0])
        fresh = await replica_of(store, address)
        newest, other = await load_snapshots(store, address)
        assert (newest.seq, other.seq) == (10, 8)
        key = f"{address.key}-copy"
        await import_model(store, key, "copy", export(store, fresh), 10_000)
        copied = Replica(store, key, await store.meta(key), SECRET)
        await copied.recover()
        assert copied.fold.encode() == fresh.fold.encode()


async def test_a_whole_log_is_folded_from_its_start(store_url: str) -> None:
    """Then nothing is lost: the state is that of the whole log."""
    learner, lacking = KINDS[0]
    async with opened(store_url) as store:
        address = await make(store, learner=learner, log_keep=100)
        replica = await replica_of(store, address)
        await play(replica, 6)
        await replica.save_snapshot()
        await make_foreign(store, address, replica.fold, lacking)
        fresh = await replica_of(store, address)
        assert fresh.fold.encode() == replica.fold.encode() == await fold_again(store, address)


async def test_workers_that_start_together_agree(store_url: str) -> None:
    """One of them says what is begun with, and the others take it, whatever comes meanwhile."""
    async with opened(store_url) as store:
        address, _ = await trimmed(store, *KINDS[0])
        copies = await asyncio.gather(*(replica_of(store, address) for _ in range(4)))
        assert len({copy.fold.encode() for copy in copies}) == 1
        await play(copies[0], 2, 10)
        await copies[1].catch_up()
        assert copies[1].fold.encode() == copies[0].fold.encode()


async def test_who_comes_second_takes_what_the_first_began_with(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker stores its own and goes on while this one still learns from the log."""
    async with opened(store_url) as store:
        address, _ = await trimmed(store, *KINDS[0])
        firsts: list[Replica] = []

        async def late(*given: Any) -> bool:
            if not firsts:
                monkeypatch.undo()
                firsts.append(await replica_of(store, address))
                await play(firsts[0], 2, 10)
            return await store_snapshot(*given)

        monkeypatch.setattr("service.follower.store_snapshot", late)
        second = await replica_of(store, address)
        assert second.snapshot_seq == 10
        assert second.fold.seq == 12
        assert second.fold.encode() == firsts[0].fold.encode()


async def test_decisions_of_before_were_made_by_others(store_url: str) -> None:
    """Its learner did not make them; they are admitted all the same."""
    async with opened(store_url) as store:
        address, old = await trimmed(store, *KINDS[0])
        waiting = await old.predict(Ask(row(20), "late", None))
        fresh = await replica_of(store, address)
        assert fresh.fold.contest.deciding_since == 8
        assert waiting.decision_id is not None
        answer = await fresh.feedback(waiting.decision_id, 1)
        assert answer.status == "applied"
        entry = (await store.read(address, 10))[2][0]
        decision = unpack_body(entry.body).payload
        assert isinstance(decision, Decision)
        assert decision.seq == 10


async def test_damaged_states_still_fail_closed(store_url: str) -> None:
    """What is damaged is no other version's: nobody begins anew because of a disk."""
    async with opened(store_url) as store:
        address = await make(store, log_keep=0)
        await two_snapshots(store, address)
        for name in ("snap", "snap1"):
            await raw_client(store).hset(address.part(name), "digest", "0" * 64)
        why = r"cannot be read \(the snapshot is damaged\).*not served"
        with pytest.raises(Unavailable, match=why):
            await replica_of(store, address)


async def test_a_damaged_newest_state_is_not_replaced(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the one before is of another version, as it is right after a new beginning."""
    async with opened(store_url) as store:
        address, _ = await trimmed(store, *KINDS[0])
        await raw_client(store).hset(address.part("snap"), "digest", "0" * 64)
        monkeypatch.delattr("service.follower.begin_anew")
        with pytest.raises(Unavailable, match="not served"):
            await replica_of(store, address)


async def test_an_older_state_that_can_be_read_is_taken(store_url: str) -> None:
    """Back at this version, its last snapshot is there still, and the log continues it."""
    async with opened(store_url) as store:
        address = await make(store, learner=KINDS[0][0], log_keep=0)
        replica = await two_snapshots(store, address)
        newest, _ = await load_snapshots(store, address)
        await make_foreign(store, address, restored(replica, newest), KINDS[0][1])
        fresh = await replica_of(store, address)
        assert fresh.snapshot_seq == 4
        assert fresh.fold.encode() == replica.fold.encode()


async def test_windows_of_examples_are_filled_again(store_url: str) -> None:
    """Neighbours that learn from labels find those that the log still has."""
    learner = {"kind": "rknn", "window": 6}
    async with opened(store_url) as store:
        address = await make(store, learner=learner, scaling="none", log_keep=0)
        replica = await replica_of(store, address)
        for first in (0, 10, 20):
            for number in range(first, first + 10):
                await replica.learn(Example(number % 3, row(number)), None)
            await replica.save_snapshot()
        before = replica.fold.learner.distribution(row(3).astype(np.float64))
        await raw_client(store).delete(address.part("snap1"))
        await make_foreign(store, address, replica.fold, "learner.window")
        fresh = await replica_of(store, address)
        after = fresh.fold.learner.distribution(row(3).astype(np.float64))
        assert after.probabilities.tolist() == before.probabilities.tolist()


async def test_all_that_was_said_of_the_model_holds(store_url: str) -> None:
    """Labels that came and went, what they are like, rates, who decides and who challenges."""
    # No part of the history that these say it in is left in the log.
    forward: Json = {"kind": "forward", "n_waves": 7, "n_label_features": 2}
    async with opened(store_url) as store:
        async with app_client(store_url) as client:
            path = await create(
                client,
                learner={"kind": "banditron"},
                challengers=[PASSIVE, {"name": "items", "learner": forward}],
                label_features={"a": [1.0, 0.5]},
                log_keep=0,
                estimate_every=0,
            )
            change = {"add": ["d"], "retire": ["b"], "features": {"d": [0.25, 2.0]}}
            await said(client, f"{path}/labels", change)
            await said(client, f"{path}/rates", {"rho_0": 0.1, "rho_1": 0.2})
            await said(client, f"{path}/challengers/items/promote", {})
            await client.delete(f"{path}/challengers/passive")
            for number in range(12):
                await answer_one(client, path, number)
                replica = await copy_of(store, path)
                await replica.save_snapshot()
            model = (await client.get(path)).json()
        address = replica.address
        assert (await store.read(address, 0))[2][0].seq > 10
        await raw_client(store).delete(address.part("snap1"))
        await make_foreign(store, address, replica.fold, "learner.n_waves")
        async with app_client(store_url) as client:
            await answer_one(client, path, 12)
            now = (await client.get(path)).json()
            for name in ("labels", "label_features", "deciding", "challengers", "learner"):
                assert now[name] == model[name]
            assert now["deciding"] == "items"
            rates = (await client.get(f"{path}/noise")).json()
            assert rates["rates"] == {"rho_0": 0.1, "rho_1": 0.2}
        fresh = await copy_of(store, path)
        assert fresh.fold.learner.n_label_features == 2
        assert fresh.fold.learner.active.tolist() == [True, False, True, True]
        assert fresh.fold.contest.label_features == {0: [1.0, 0.5], 3: [0.25, 2.0]}
        assert fresh.fold.rejected == 0


async def test_promotions_that_the_log_still_has_lead_to_the_same(store_url: str) -> None:
    """Each is gone through once more, and who was asked before the other version still counts."""
    async with opened(store_url) as store:
        async with app_client(store_url) as client:
            path = await create(
                client, learner={"kind": "banditron"}, challengers=[PASSIVE], log_keep=0
            )
            for number in range(4):
                await answer_one(client, path, number)
            await (await copy_of(store, path)).save_snapshot()
            await answer_one(client, path, 4)
            for name in ("passive", "original", "passive"):
                await said(client, f"{path}/challengers/{name}/promote", {})
                await answer_one(client, path, 5)
            await said(client, f"{path}/labels", {"add": ["d"], "retire": ["a"]})
            replica = await copy_of(store, path)
            await replica.save_snapshot()
            model = (await client.get(path)).json()
        address = replica.address
        assert (await store.read(address, 0))[2][0].seq == 5
        await raw_client(store).delete(address.part("snap1"))
        await make_foreign(store, address, replica.fold, "learner.gamma")
        fresh = await copy_of(store, path)
        assert [each.name for each in fresh.fold.contest.named] == ["passive", "original"]
        assert fresh.fold.contest.deciding_since == model["seq"] == fresh.fold.seq
        assert fresh.fold.learner.active.tolist() == [False, True, True, True]


async def test_a_snapshot_is_replaced_only_as_meant(store_url: str) -> None:
    """By its digest, at any event; the replaced one stays as the one before."""
    async with opened(store_url) as store:
        address = await make(store)
        replica = await replica_of(store, address)
        await play(replica, 4)
        await replica.save_snapshot()
        (stored,) = await load_snapshots(store, address)
        other = foreign(replica.fold, "rejected")
        assert not await store_snapshot(store, address, other)
        assert not await store_snapshot(store, address, other, "0" * 64)
        assert await store_snapshot(store, address, other, stored.digest)
        assert await load_snapshots(store, address) == [other, stored]
        await play(replica, 1, 4)
        later = foreign(replica.fold, "rejected")
        assert not await store_snapshot(store, address, later, stored.digest)


async def said(client: httpx.AsyncClient, path: str, body: Json) -> None:
    """Change a model."""
    answer = await client.post(path, json=body)
    assert answer.is_success, answer.text


async def answer_one(client: httpx.AsyncClient, path: str, number: int) -> None:
    """Play one round with a model."""
    x = np.random.default_rng(number).normal(size=3).round(2).tolist()
    made = await client.post(f"{path}/predict", json={"x": x})
    assert made.status_code == 200, made.text
    click = {"decision_id": made.json()["decision_id"], "feedback": number % 2}
    await said(client, f"{path}/feedback", click)


async def copy_of(store: Store, path: str) -> Replica:
    """Return a worker's copy of a model of the application."""
    key = f"default/{path.rsplit('/', 1)[1]}"
    meta = await store.meta(key)
    return await replica_of(store, Address.of(key, meta.uid, meta.spec))
