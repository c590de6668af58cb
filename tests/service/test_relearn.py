"""Models made anew from another one's log: of what it tells, and of nothing else."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest

from service.address import Address
from service.errors import Conflict, Unavailable
from service.events import Entry, Kind, Rates, RatesByLabel
from service.host import Host
from service.model_wire import RelearnIn
from service.relearn import relearn, source_of
from service.relearn import spec_of as spec_of_new
from service.settings import Settings
from service.snapshots import finish_import
from tests.service.apps import Json, app_client, create, spec_of
from tests.service.stores import make, opened, raw_client, replica_of
from tests.service.stores import play as play_on

LEARNER: Json = {"kind": "rcnbf", "gamma": 0.5, "rho_0": 0.2, "rho_1": 0.3}


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of an application."""
    async with app_client(valkey_url, snapshot_events=50) as client:
        yield client


async def play(client: httpx.AsyncClient, path: str, rounds: int, seed: int) -> list[Json]:
    """Play rounds on a model; return them as somebody else would tell them."""
    rng = np.random.default_rng(seed)
    items = [{"x": x.tolist()} for x in rng.normal(size=(rounds, 3)).round(2)]
    answer = await client.post(f"{path}/predict/batch", json={"items": items})
    made = answer.json()["items"]
    bits = rng.integers(2, size=rounds).tolist()
    clicks = [
        {"decision_id": each["decision_id"], "feedback": bit}
        for each, bit in zip(made, bits, strict=True)
    ]
    await client.post(f"{path}/feedback/batch", json={"items": clicks})
    return [
        {**item, "label": each["label"], "propensity": each["propensity"], "feedback": bit}
        for item, each, bit in zip(items, made, bits, strict=True)
    ]


async def relearned(client: httpx.AsyncClient, path: str, **asked: Any) -> tuple[str, Json]:
    """Make another model of a model's log; return its path and the answer."""
    name = str(spec_of()["name"])
    answer = await client.post(f"{path}/relearn", json={"name": name} | asked)
    assert answer.status_code == 201, answer.text
    return f"/v1/models/{name}", answer.json()


async def told(client: httpx.AsyncClient, rounds: list[Json], **change: Any) -> str:
    """Return the path of a new model that was told these rounds."""
    path = await create(client, **change)
    answer = await client.post(f"{path}/rounds/batch", json={"items": rounds})
    assert answer.status_code == 200, answer.text
    return path


async def arrays(client: httpx.AsyncClient, path: str) -> dict[str, Any]:
    """Return what a model has learned and scales by, without what rounds are numbered by."""
    answer = await client.get(f"{path}/state")
    with np.load(io.BytesIO(answer.content)) as found:
        kept = ("learner.", "scaling.")
        return {name: found[name].tolist() for name in found if name.startswith(kept)}


async def now_ms() -> int:
    """Return a moment that lies between what was logged before and what will be."""
    await asyncio.sleep(0.005)
    moment = round(time.time() * 1000)
    await asyncio.sleep(0.005)
    return moment


async def names(client: httpx.AsyncClient) -> set[str]:
    """Return the names of all models."""
    return {each["name"] for each in (await client.get("/v1/models")).json()["models"]}


async def test_it_is_what_telling_the_rounds_makes(client: httpx.AsyncClient) -> None:
    """Decisions of the first model count as somebody else's, in their order, and all of them."""
    path = await create(client, learner=LEARNER, scaling="standard")
    rounds = await play(client, path, 30, seed=1)
    waiting = await client.post(f"{path}/predict", json={"x": [1, 1, 1]})
    told_too = {"x": [3, 2, 1], "label": "c", "propensity": 0.4, "feedback": 1}
    await client.post(f"{path}/rounds", json=told_too)
    rounds += [told_too, *await play(client, path, 20, seed=2)]
    before = (await client.get(path)).json()
    copy, found = await relearned(client, path)
    other = await told(client, rounds, learner=LEARNER, scaling="standard")
    assert await arrays(client, copy) == await arrays(client, other)
    clicks = sum(each["feedback"] for each in rounds)
    assert found["learned"] == 51 == found["seq"]
    assert (found["clicks"], found["left_out"], found["refused"]) == (clicks, 0, 0)
    assert found["first_ms"] <= found["last_ms"] <= await now_ms()
    model = (await client.get(copy)).json()
    assert model["counters"] == dict.fromkeys(model["counters"], 0) | {"told": 51}
    for name in ("labels", "learner", "scaling", "features", "log_keep", "window_s", "seed"):
        assert model[name] == before[name]
    # The first one goes on as if nothing had been; a snapshot may have been due.
    after = (await client.get(path)).json()
    assert after | {"snapshot_seq": 0} == before | {"snapshot_seq": 0}
    click = {"decision_id": waiting.json()["decision_id"], "feedback": 1}
    assert (await client.post(f"{path}/feedback", json=click)).json()["status"] == "applied"
    assert (await client.post(f"{copy}/predict", json={"x": [1, 2, 3]})).status_code == 200


async def test_a_first_try_may_be_deleted_elsewhere(valkey_url: str) -> None:
    """Protects the second try from a worker that still holds the first one under its name."""
    seldom = {"sync_interval_s": 5.0, "stale_s": 5.0}
    async with app_client(valkey_url, **seldom) as one, app_client(valkey_url) as other:
        path = await create(one)
        await play(one, path, 20, 1)
        again, _ = await relearned(one, path)
        assert (await other.delete(again)).status_code == 204
        name = again.rpartition("/")[2]
        answer = await one.post(f"{path}/relearn", json={"name": name})
        assert answer.status_code == 201, answer.text
        assert (await other.get(again)).json()["seq"] == answer.json()["seq"]


async def test_times_are_left_out(client: httpx.AsyncClient) -> None:
    """What was heard in them is not learned, whatever it was; their ends are as they say."""
    path = await create(client, learner=LEARNER)
    first = await play(client, path, 10, seed=1)
    start = await now_ms()
    wrong = await play(client, path, 12, seed=2)
    end = await now_ms()
    last = await play(client, path, 14, seed=3)
    copy, found = await relearned(client, path, without=[{"from_ms": start, "to_ms": end}])
    assert (found["learned"], found["left_out"]) == (24, 12)
    assert found["left_out_clicks"] == sum(each["feedback"] for each in wrong)
    assert await arrays(client, copy) == await arrays(
        client, await told(client, first + last, learner=LEARNER)
    )
    spans = [{"to_ms": start}, {"from_ms": end}]
    copy, found = await relearned(client, path, without=spans)
    assert (found["learned"], found["left_out"]) == (12, 24)
    assert await arrays(client, copy) == await arrays(
        client, await told(client, wrong, learner=LEARNER)
    )
    _, found = await relearned(client, path, without=[{}])
    assert (found["learned"], found["left_out"], found["seq"]) == (0, 36, 0)
    # A moment is in a time that begins with it, and not in one that ends with it.
    moment = found["last_ms"]
    _, found = await relearned(client, path, without=[{"from_ms": moment}])
    assert found["left_out"] >= 1
    _, others = await relearned(client, path, without=[{"to_ms": moment}])
    assert others["left_out"] == 36 - found["left_out"]


async def test_retired_labels_are_left_out(client: httpx.AsyncClient) -> None:
    """With the rounds that showed them; the others' rates and features go with them."""
    own = {name: [0.1 * i + 0.05, 0.2] for i, name in enumerate("abcd")}
    rates: Json = {
        "rho_0": 0.1,
        "rho_1": 0.2,
        "by_label": {
            name: {"rho_0": rho_0, "rho_1": rho_1} for name, (rho_0, rho_1) in own.items()
        },
    }
    learner = {"kind": "forward", "n_waves": 0, "n_label_features": 1}
    features = {name: [float(i)] for i, name in enumerate("abc")}
    path = await create(client, learner=learner, label_features=features)
    rounds = await play(client, path, 20, seed=1)
    change: Json = {"add": ["d"], "retire": ["a"], "features": {"d": [9.0]}}
    assert (await client.post(f"{path}/labels", json=change)).status_code == 200
    assert (await client.post(f"{path}/rates", json=rates)).status_code == 200
    rounds += await play(client, path, 20, seed=2)
    copy, found = await relearned(client, path, without_retired=True)
    rest = [each for each in rounds if each["label"] != "a"]
    assert 0 < found["left_out"] == 40 - len(rest)
    assert found["left_out_clicks"] == sum(each["feedback"] for each in rounds) - found["clicks"]
    model = (await client.get(copy)).json()
    assert model["labels"] == [{"name": name, "active": True} for name in "bcd"]
    del features["a"]
    other = await create(
        client,
        learner=learner,
        labels=["b", "c", "d"],
        label_features=features | change["features"],
    )
    del rates["by_label"]["a"]
    assert (await client.post(f"{other}/rates", json=rates)).status_code == 200
    await client.post(f"{other}/rounds/batch", json={"items": rest})
    assert await arrays(client, copy) == await arrays(client, other)
    # One that came after the rates has none of its own.
    await client.post(f"{path}/labels", json={"add": ["e"]})
    copy, _ = await relearned(client, path, without_retired=True)
    noise = (await client.get(f"{copy}/noise")).json()
    assert [*noise["rates_by_label"]] == ["b", "c", "d", "e"]


async def test_silence_is_taken_as_the_model_takes_it(client: httpx.AsyncClient) -> None:
    """A decision that expired was a missing click, or nothing."""
    for on_expiry, learned in (("no_click", 3), ("ignore", 0)):
        path = await create(client, learner=LEARNER, on_expiry=on_expiry, window_s=0.1)
        items = [{"x": [1, 2, i]} for i in range(3)]
        await client.post(f"{path}/predict/batch", json={"items": items})
        end_s = time.monotonic() + 30
        while (await client.get(path)).json()["counters"]["expired"] < 3:
            assert time.monotonic() < end_s
            await asyncio.sleep(0.05)
        _, found = await relearned(client, path)
        assert (found["learned"], found["clicks"]) == (learned, 0)


async def test_a_decision_is_left_out_with_its_click_or_its_silence(
    client: httpx.AsyncClient,
) -> None:
    """Protects who leaves out a time without clicks: silence of it is known a window later."""
    path = await create(client, learner=LEARNER, on_expiry="no_click", window_s=0.5)
    made = []
    for place in range(3):
        asked = {"items": [{"x": [1, 2, place]}, {"x": [1, 3, place]}]}
        made.append((await client.post(f"{path}/predict/batch", json=asked)).json()["items"])
        clicked = {"decision_id": made[-1][0]["decision_id"], "feedback": 1}
        await client.post(f"{path}/feedback", json=clicked)
        await asyncio.sleep(0.7)
    pending = 6
    async with asyncio.timeout(30):
        while pending:
            await asyncio.sleep(0.05)
            pending = (await client.get(path)).json()["counters"]["pending"]
    first_ms, last_ms = made[1][0]["expires_at_ms"] - 500, made[1][0]["expires_at_ms"]
    again, found = await relearned(client, path)
    assert found["last_ms"] - found["first_ms"] > 1000
    # Of the new model too, by when they were decided.
    _, found = await relearned(
        client, again, without=[{"from_ms": first_ms, "to_ms": first_ms + 100}]
    )
    assert (found["left_out"], found["left_out_clicks"]) == (2, 1)
    # Whichever of its times is left out: both of the two are, and none that were decided elsewhen.
    for from_ms in (first_ms, (first_ms + last_ms) // 2, last_ms):
        _, found = await relearned(
            client, path, without=[{"from_ms": from_ms, "to_ms": from_ms + 1}]
        )
        assert (found["left_out"], found["left_out_clicks"]) == (2, 1)
    _, found = await relearned(
        client, path, without=[{"from_ms": last_ms + 1, "to_ms": last_ms + 99}]
    )
    assert found["left_out"] == 0


async def test_the_model_around_comes_along(client: httpx.AsyncClient) -> None:
    """Labels as they are now, the learner that decides, what was set; challengers do not."""
    passive = {"kind": "bpa", "gamma": 0.25}
    path = await create(client, learner=LEARNER)
    await play(client, path, 10, seed=1)
    await client.post(f"{path}/labels", json={"add": ["d"], "retire": ["a"]})
    await client.post(f"{path}/challengers", json={"name": "passive", "learner": passive})
    await client.post(f"{path}/rates", json={"rho_0": 0.1, "rho_1": 0.4})
    await play(client, path, 10, seed=2)
    copy, found = await relearned(client, path)
    # Labels and rates are events of their own.
    assert (found["learned"], found["seq"]) == (20, 22)
    model = (await client.get(copy)).json()
    active = {each["name"]: each["active"] for each in model["labels"]}
    assert active == {"a": False, "b": True, "c": True, "d": True}
    assert model["learner"] == LEARNER
    assert model["challengers"] == []
    assert (await client.get(f"{copy}/noise")).json()["rates"] == {"rho_0": 0.1, "rho_1": 0.4}
    await client.post(f"{path}/challengers/passive/promote")
    copy, found = await relearned(client, path)
    model = (await client.get(copy)).json()
    assert (model["learner"], model["deciding"]) == (passive, "original")
    # It uses no rates, so that there is no event of them, which it would refuse.
    assert (found["learned"], found["refused"], found["seq"]) == (20, 0, 21)


async def test_labels_are_like_what_was_said_last(client: httpx.AsyncClient) -> None:
    """A learner that knows labels by their features knows them from the first round on."""
    learner = {"kind": "forward", "n_label_features": 1, "n_waves": 0}
    path = await create(client, learner=learner, label_features={"a": [1.0]})
    await client.post(
        f"{path}/labels", json={"add": ["d", "a"], "features": {"d": [2.0], "a": [3.0]}}
    )
    await play(client, path, 5, seed=1)
    copy, _ = await relearned(client, path)
    model = (await client.get(copy)).json()
    assert model["label_features"] == {"a": [3.0], "d": [2.0]}
    # What only the learner before could use is none of the next one's.
    copy, found = await relearned(client, path, learner={"kind": "banditron", "gamma": 0.1})
    assert found["learned"] == 5
    assert (await client.get(copy)).json()["label_features"] == {}


async def test_estimates_are_for_a_learner_that_uses_them(client: httpx.AsyncClient) -> None:
    """Asked for by the first model, they are kept or let go; a due one begins at once."""
    path = await create(client, learner={"kind": "rcine", "gamma": 0.5}, estimate_every=1000)
    await play(client, path, 3, seed=1)
    copy, _ = await relearned(client, path)
    assert (await client.get(copy)).json()["estimate_every"] == 1000
    copy, found = await relearned(client, path, learner={"kind": "banditron", "gamma": 0.1})
    assert (await client.get(copy)).json()["estimate_every"] is None
    assert found["learned"] == 3


async def test_a_promoted_learner_is_made_anew_with_the_log_that_there_is(
    client: httpx.AsyncClient,
) -> None:
    """Protects the cure: the model's log is short for estimates, and no relearn can say more."""
    path = await create(client, learner=LEARNER, log_keep=20_000)
    forward = {"name": "forward", "learner": {"kind": "forward", "n_waves": 0}}
    assert (await client.post(f"{path}/challengers", json=forward)).status_code == 200
    await client.post(f"{path}/challengers/forward/promote")
    await play(client, path, 3, seed=0)
    _, found = await relearned(client, path)
    assert found["learned"] == 3


async def test_examples_are_learned_again(client: httpx.AsyncClient) -> None:
    """A window of neighbours, which learns from labels, is made anew as well."""
    knn = {"kind": "rknn", "window": 50, "k": 3, "k_noise": 5}
    path = await create(client, learner=knn)
    rng = np.random.default_rng(0)
    examples = [
        {"x": x.tolist(), "label": "abc"[i % 3]} for i, x in enumerate(rng.normal(size=(30, 3)))
    ]
    await client.post(f"{path}/learn/batch", json={"items": examples[:20]})
    start = await now_ms()
    await client.post(f"{path}/learn/batch", json={"items": examples[20:]})
    copy, found = await relearned(client, path, without=[{"from_ms": start}])
    assert (found["learned"], found["left_out"], found["clicks"]) == (20, 10, 0)
    assert (await client.get(copy)).json()["counters"]["learned"] == 20
    other = await create(client, learner=knn)
    await client.post(f"{other}/learn/batch", json={"items": examples[:20]})
    assert await arrays(client, copy) == await arrays(client, other)


async def test_what_the_log_has_lost_is_not_learned(client: httpx.AsyncClient) -> None:
    """It goes back as far as the log, beyond the snapshots, and no further."""
    path = await create(client, learner=LEARNER, log_keep=120)
    for seed in range(10):
        await play(client, path, 30, seed=seed)
        end_s = time.monotonic() + 30
        while (await client.get(path)).json()["snapshot_seq"] < 30 * seed - 60:
            assert time.monotonic() < end_s
            await asyncio.sleep(0.05)
    _, found = await relearned(client, path)
    assert 120 <= found["learned"] < 300


@pytest.mark.parametrize(
    ("asked", "status", "where"),
    [
        ({"name": "no name"}, 422, "name"),
        ({}, 422, "name"),
        ({"without": [{"from_ms": 5, "to_ms": 5}]}, 422, "without[0]"),
        ({"without": [{"from_ms": -1}]}, 422, "without[0].from_ms"),
        ({"without": [{"since_ms": 1}]}, 422, "without[0].since_ms"),
        ({"without": [{}] * 101}, 422, "without"),
        ({"learner": {"kind": "perceptron"}}, 422, "learner.kind"),
        ({"learner": {"kind": "nobody"}}, 422, "learner.kind"),
        ({"learner": {"kind": "bpa", "gamma": 3.0}}, 422, "learner.gamma"),
        ({"learner": {"kind": "forward", "n_label_features": 1}}, 201, None),
    ],
)
async def test_what_cannot_be_made_is_refused(
    client: httpx.AsyncClient, asked: Json, status: int, where: str | None
) -> None:
    """It is said what is wrong, and nothing is left of the attempt."""
    path = await create(client, learner=LEARNER)
    await play(client, path, 3, seed=0)
    before = await names(client)
    given = ({"name": spec_of()["name"]} if asked else {}) | asked
    answer = await client.post(f"{path}/relearn", json=given)
    assert answer.status_code == status, answer.text
    if where is not None:
        assert answer.json()["error"]["details"][0]["where"] == where
        assert await names(client) == before


async def test_names_that_are_taken(client: httpx.AsyncClient, valkey_url: str) -> None:
    """Neither another model nor the first one is replaced; nor is there one too many."""
    path, other = await create(client), await create(client)
    for taken in (path, other):
        body = {"name": taken.rpartition("/")[2]}
        answer = await client.post(f"{path}/relearn", json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "conflict")
    answer = await client.post("/v1/models/none/relearn", json={"name": "nobody"})
    assert answer.status_code == 404
    async with app_client(valkey_url, max_models=1) as small:
        answer = await small.post(f"{path}/relearn", json={"name": spec_of()["name"]})
        assert answer.status_code == 409
        assert "max_models" in answer.json()["error"]["message"]


async def test_it_can_be_used_as_soon_as_it_is_there(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects those who use it at once: nothing that comes later may undo it."""
    async with app_client(valkey_url) as one, app_client(valkey_url) as other:
        path = await create(one)
        await play(one, path, 20, 1)
        name = str(spec_of()["name"])

        async def finish_and_fail(*args: Any) -> None:
            await finish_import(*args)
            # It has its state: nobody has to fold the log first.
            model = (await other.get(f"/v1/models/{name}")).json()
            assert (model["seq"], model["snapshot_seq"]) == (20, 20)
            await play(other, f"/v1/models/{name}", 5, 2)
            raise Unavailable("Redis does not answer")

        monkeypatch.setattr("service.relearn.finish_import", finish_and_fail)
        answer = await one.post(f"{path}/relearn", json={"name": name})
        assert answer.status_code == 503
        assert (await other.get(f"/v1/models/{name}")).json()["counters"]["feedback"] == 5


@pytest.mark.parametrize(
    "estimated",
    [
        Rates(0.1, 0.2, RatesByLabel([0.1] * 3, [0.2] * 3, [0.01] * 3, [0.01] * 3)),
        Rates(0.1, 0.2, None, (0.01, 0.01)),
    ],
    ids=["each label's", "all labels'"],
)
async def test_what_comes_meanwhile_is_not_learned(valkey_url: str, estimated: Rates) -> None:
    """A busy model's log is read up to where it stood; what was estimated of it is left behind."""
    async with opened(valkey_url) as store:
        address = await make(store, learner=LEARNER)
        replica = await replica_of(store, address)
        await play_on(replica, 5)
        record = msgspec.json.encode(estimated)
        guard = ("rates", "", record.decode())
        assert await store.append(address, Kind.RATES, bytes(12), record, guard) == 6
        source = await source_of(store, replica)
        assert (source.seq, source.rates) == (6, None)
        await play_on(replica, 4, first=5)
        host = Host(store, Settings())
        asked = RelearnIn(name="later")
        key = f"{address.key}-later"
        found = await relearn(host, source, key, spec_of_new(source, asked), asked.without)
        assert (found.learned, found.seq) == (5, 5)
        assert (await host.replica(key)).fold.contest.rates is None


async def test_it_is_made_of_the_model_as_others_left_it(valkey_url: str) -> None:
    """A worker that has not heard of the newest rates looks first; what a log lost is not there."""
    async with opened(valkey_url) as store:
        address = await make(store, learner=LEARNER)
        replica, known = await replica_of(store, address), Rates(0.1, 0.2)
        await play_on(await replica_of(store, address), 3)
        record = msgspec.json.encode(known)
        assert await store.append(address, Kind.RATES, bytes(12), record, ("rates", "", "set")) == 4
        source = await source_of(store, replica)
        assert (source.seq, source.rates) == (4, known)
        await raw_client(store).delete(address.part("log"))
        host, asked = Host(store, Settings()), RelearnIn(name="empty")
        spec = spec_of_new(source, asked)
        found = await relearn(host, source, f"{address.key}-empty", spec, [])
        assert (found.learned, found.seq) == (0, 1)


async def test_one_that_cannot_be_kept_is_not_there(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log was written a few events a call; nothing is left of it, in Redis or in the worker."""
    monkeypatch.setattr("service.relearn.IMPORT_ENTRIES", 4)
    sizes = list[int]()

    async def refuse(*_: Any) -> None:
        raise Unavailable("it is full")

    async with opened(valkey_url) as store:
        address = await make(store, learner=LEARNER)
        replica, write = await replica_of(store, address), store.import_entries
        await play_on(replica, 9)

        async def watched(key: str, token: str, entries: Sequence[Entry]) -> None:
            sizes.append(len(entries))
            await write(key, token, entries)

        monkeypatch.setattr(store, "import_entries", watched)
        monkeypatch.setattr("service.relearn.finish_import", refuse)
        source, asked = await source_of(store, replica), RelearnIn(name="full")
        host, key = Host(store, Settings()), f"{address.key}-full"
        with pytest.raises(Unavailable, match="it is full"):
            await relearn(host, source, key, spec_of_new(source, asked), [])
        assert (sizes, host.replicas) == ([4, 4, 1], [])
        assert key not in await store.list_keys()


async def test_a_log_with_a_gap_is_not_learned(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trimmed faster than it is read, it would leave out rounds that nobody asked to leave out."""
    monkeypatch.setattr("service.store.READ_ENTRIES", 4)
    async with opened(valkey_url) as store:
        address = await make(store, learner=LEARNER)
        replica = await replica_of(store, address)
        await play_on(replica, 9)
        source = await source_of(store, replica)
        await raw_client(store).xdel(address.part("log"), "5-0", "6-0")
        host, asked = Host(store, Settings()), RelearnIn(name="gap")
        key = f"{address.key}-gap"
        with pytest.raises(Conflict, match="trimmed"):
            await relearn(host, source, key, spec_of_new(source, asked), [])
        assert key not in await store.list_keys()


async def test_another_worker_has_it_at_once(client: httpx.AsyncClient, valkey_url: str) -> None:
    """It is loaded from a snapshot: nobody folds the whole log once more."""
    path = await create(client, learner=LEARNER)
    await play(client, path, 40, seed=0)
    copy, found = await relearned(client, path)
    assert (await client.get(copy)).json()["snapshot_seq"] == found["seq"] == 40
    key = f"default/{copy.rpartition('/')[2]}"
    async with app_client(valkey_url) as other, opened(valkey_url) as store:
        assert await arrays(other, copy) == await arrays(client, copy)
        meta = await store.meta(key)
        fresh = await replica_of(store, Address.of(key, meta.uid, meta.spec))
        assert fresh.snapshot_seq == 40
