"""Models as files: an import is the exported model bit for bit, or nothing at all."""

import asyncio
import base64
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import httpx
import msgspec
import numpy as np
import pytest
import redis.asyncio

import service.model_routes
import service.transfer
from learners import SOBA
from service.address import MODELS_KEY
from service.codec import encode_state, state_digest
from service.events import (
    Entry,
    Event,
    Kind,
    Rates,
    RatesByLabel,
    chain_after,
    first_chain,
    pack_body,
)
from service.fold import Fold
from service.spec import ModelSpec
from tests.service.apps import NDJSON, Json, app_client, create, spec_of

Lines: TypeAlias = list[Json]


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of an application that snapshots often."""
    async with app_client(valkey_url, snapshot_events=20) as client:
        yield client


async def play(client: httpx.AsyncClient, path: str, rounds: int, seed: int = 0) -> None:
    """Play rounds on a model, every fifth without feedback."""
    items = [
        {"x": [(i + seed) % 7 - 3, i % 3, 0.25], "request_id": f"{seed}.{i}"} for i in range(rounds)
    ]
    made = (await client.post(f"{path}/predict/batch", json={"items": items})).json()["items"]
    clicks = [
        {"decision_id": d["decision_id"], "feedback": i % 2} for i, d in enumerate(made) if i % 5
    ]
    answer = await client.post(f"{path}/feedback/batch", json={"items": clicks})
    assert {r["status"] for r in answer.json()["items"]} == {"applied"}


async def exported(client: httpx.AsyncClient, path: str) -> Lines:
    """Return the lines of a model's export."""
    answer = await client.get(f"{path}/log")
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


async def imported(client: httpx.AsyncClient, lines: Lines, name: str | None = None) -> Any:
    """Import lines under a fresh name; return the answer."""
    name = name or str(spec_of()["name"])
    body = "\n".join(map(json.dumps, lines))
    return await client.post(f"/v1/models/{name}/import", content=body, headers=NDJSON)


async def state(client: httpx.AsyncClient, path: str) -> tuple[str, ...]:
    """Return seq, chain and hash of a model's state."""
    answer = await client.get(f"{path}/state")
    return tuple(answer.headers[f"x-misclick-{name}"] for name in ("seq", "chain", "sha256"))


async def model_with_history(client: httpx.AsyncClient, **change: Any) -> str:
    """Return the path of a model with every kind of event in its log."""
    path = await create(client, **({"scaling": "standard"} | change))
    await play(client, path, 12)
    await client.post(f"{path}/labels", json={"add": ["d"], "retire": ["a"]})
    await client.post(f"{path}/rates", json={"rho_0": 0.2, "rho_1": 0.05})
    await client.post(f"{path}/learn", json={"x": [1, 2, 3], "label": "b"})
    told = {"x": [1, 2, 3], "label": "b", "propensity": 0.3, "feedback": 1}
    await client.post(f"{path}/rounds", json=told)
    await play(client, path, 12, seed=3)
    return path


async def test_an_import_is_the_model_bit_for_bit(client: httpx.AsyncClient) -> None:
    """State, seq, chain, labels and what ended are the exported ones, and it goes on alike."""
    path = await model_with_history(client)
    lines = await exported(client, path)
    kinds = {line["kind"] for line in lines[1:]}
    assert kinds == {"feedback", "labels", "rates", "learn", "round"}
    answer = await imported(client, lines)
    assert answer.status_code == 201, answer.text
    copy = f"/v1/models/{answer.json()['name']}"
    assert await state(client, copy) == await state(client, path)
    old, new = (await client.get(path)).json(), answer.json()
    for name in ("labels", "seq", "chain", "features", "learner", "seed"):
        assert new[name] == old[name]
    # Decisions that wait for feedback stay behind with the ids that name them, and uncounted.
    assert old["counters"]["pending"] > 0
    ended = old["counters"]["feedback"] + old["counters"]["expired"]
    assert new["counters"] == old["counters"] | {"pending": 0, "decisions": ended}
    assert (await exported(client, copy))[1:] == lines[1:]
    bodies = [{"x": [i, 1, -1], "request_id": f"r{i}"} for i in range(30)]
    for body in bodies:
        mine, its = [(await client.post(f"{p}/predict", json=body)).json() for p in (path, copy)]
        for name in ("label", "greedy", "propensity", "seq"):
            assert mine[name] == its[name]


async def test_an_import_is_another_model_than_before(valkey_url: str) -> None:
    """Protects from a worker that goes on with the old spec under the new one's name."""
    # The other one has not looked at its models in between: nobody used them for a while.
    seldom = {"sync_interval_s": 5.0}
    async with app_client(valkey_url) as one, app_client(valkey_url, **seldom) as other:
        path = await model_with_history(one)
        assert await state(other, path) == await state(one, path)
        header, *lines = await exported(one, path)
        await one.delete(path)
        header["spec"] |= {"window_s": 5.0, "seed": 9}
        answer = await imported(one, [header, *lines], path.rpartition("/")[2])
        assert answer.status_code == 201, answer.text
        for client in (one, other):
            assert await state(client, path) == await state(one, path)
            body = {"x": [1, 2, 3], "request_id": "r"}
            answer = await client.post(f"{path}/predict", json=body)
            waits_s = answer.json()["expires_at_ms"] - time.time() * 1000
            assert waits_s < 6000
        # It is exported, and folded again, as what it is a copy of.
        assert (await exported(other, path))[0]["uid"] == header["uid"]


async def test_an_import_is_a_model_like_others(client: httpx.AsyncClient, valkey_url: str) -> None:
    """The bound on models holds for it, too, before anything is read of it."""
    path = await create(client)
    lines = await exported(client, path)
    async with app_client(valkey_url, max_models=1) as small:
        answer = await imported(small, lines)
        assert answer.status_code == 409
        assert "max_models" in answer.json()["error"]["message"]


async def test_the_labels_rates_are_exported_and_imported(client: httpx.AsyncClient) -> None:
    """Protects what an estimate found of each label from being lost with the move."""
    path = await model_with_history(client)
    lines = await exported(client, path)
    each = RatesByLabel([0.1] * 4, [0.2] * 4, [0.01] * 4, [0.02] * 4)
    rates = Rates(0.1, 0.2, each, (0.02, 0.03))
    body = pack_body(Event(Kind.RATES, 7, bytes(12), None, rates))
    told = msgspec.json.decode(msgspec.json.encode(rates))
    place = {"seq": lines[-1]["seq"] + 1, "chain": chain_after(lines[-1]["chain"], body)}
    lines.append(place | {"time_ms": 7, "kind": "rates", "nonce": "00" * 12} | told)
    lines[0] |= {"head": place}
    answer = await imported(client, lines)
    assert answer.status_code == 201, answer.text
    copy = f"/v1/models/{answer.json()['name']}"
    assert (await exported(client, copy))[1:] == lines[1:]


async def test_a_fresh_model_is_exported_too(client: httpx.AsyncClient) -> None:
    """A model without events is a header, and comes back."""
    path = await create(client)
    lines = await exported(client, path)
    assert len(lines) == 1
    assert (await imported(client, lines)).json()["seq"] == 0


async def test_the_largest_spec_comes_back(client: httpx.AsyncClient) -> None:
    """Protects backups of catalogues: what may be made may be imported, and changed in one call."""
    names = [f"item-{i:04}" for i in range(1024)]
    like = {name: [i + j / 3 for j in range(32)] for i, name in enumerate(names)}
    learner = {"kind": "forward", "n_waves": 0, "n_label_features": 32}
    path = await create(client, labels=names, label_features=like, learner=learner)
    answer = await imported(client, await exported(client, path))
    assert answer.status_code == 201, answer.text
    assert answer.json()["label_features"] == like
    described = {"add": names, "features": {name: each[::-1] for name, each in like.items()}}
    answer = await client.post(f"{path}/labels", json=described)
    assert answer.status_code == 200, answer.text
    assert answer.json()["label_features"] == described["features"]


async def test_a_trimmed_log_comes_with_its_snapshot(valkey_url: str) -> None:
    """Where the log no longer begins at 1, the export begins with the state it continues."""
    async with trimmed(valkey_url) as (client, path):
        await play(client, path, 10, 2)
        lines = await exported(client, path)
        assert lines[0]["snapshot"]["seq"] == lines[1]["seq"] - 1 > 0
        answer = await imported(client, lines)
        assert answer.status_code == 201, answer.text
        copy = f"/v1/models/{answer.json()['name']}"
        assert await state(client, copy) == await state(client, path)
        await play(client, copy, 10)


async def test_a_copy_has_all_that_the_log_holds(valkey_url: str) -> None:
    """Protects evaluations and relearning of a copy from missing what came before its state."""
    async with trimmed(valkey_url, log_keep=12) as (client, path):
        lines = await exported(client, path)
        assert 1 < lines[0]["begin"]["seq"] < lines[0]["snapshot"]["seq"] < lines[-1]["seq"]
        found = lines
        for _ in range(2):
            answer = await imported(client, found)
            assert answer.status_code == 201, answer.text
            copy = f"/v1/models/{answer.json()['name']}"
            assert await state(client, copy) == await state(client, path)
            # A copy has one state, at its head: all events are from before it. Each costs one.
            found, before = await exported(client, copy), found
            assert found[1:] == before[2:]
        answer = await client.post(f"{copy}/relearn", json={"name": str(spec_of()["name"])})
        assert answer.json()["learned"] == len(found)
        await play(client, copy, 10)


async def test_what_another_worker_made_anew_is_exported(valkey_url: str) -> None:
    """Protects a backup from a 404 because a worker still holds the model that was deleted."""
    seldom = {"sync_interval_s": 5.0, "stale_s": 5.0}
    async with app_client(valkey_url, **seldom) as one, app_client(valkey_url) as other:
        spec = spec_of()
        path = await create(one, **spec)
        await play(one, path, 5)
        await other.delete(path)
        await create(other, **spec)
        assert len(await exported(one, path)) == 1


async def test_events_from_before_the_state_are_checked(valkey_url: str) -> None:
    """They have to be those that the state came from, each and in order."""
    async with trimmed(valkey_url, log_keep=12) as (client, path):
        header, *lines = await exported(client, path)
        known = header["snapshot"]["seq"]
        before = [line for line in lines if line["seq"] <= known]
        assert len(before) > 2
        ends = {"head": {"seq": known, "chain": header["snapshot"]["chain"]}}
        others = {"snapshot": header["snapshot"] | {"chain": "0" * 16}}
        late = {"begin": header["begin"] | {"seq": known}}
        first = str(before[0]["seq"])
        for where, wrong in (
            (f"event {first}", [header, *lines[1:]]),
            (f"event {first}", [header, before[0] | {"x": [9, 9, 9]}, *lines[1:]]),
            ("event", [header, *before[:2], *lines]),
            ("event", [header | others, *lines]),
            ("event", [header | others | {"head": {"seq": known, "chain": "0" * 16}}, *before]),
            ("events", [header | ends, before[0]]),
            ("begin", [header | late, *lines]),
            ("begin", [header | {"snapshot": None}, *lines]),
        ):
            answer = await imported(client, wrong)
            assert answer.status_code == 422, answer.text
            assert answer.json()["error"]["details"][0]["where"].startswith(where)


async def test_what_cannot_be_exported_is_refused(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the status that is documented, not by an answer that ends in its middle."""
    async with trimmed(valkey_url) as (client, path):
        monkeypatch.setattr("service.transfer.state_digest", lambda *_: "of another state")
        answer = await client.get(f"{path}/log")
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "conflict")


async def test_a_snapshot_that_comes_meanwhile_is_looked_at_again(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects a backup from a 409: it takes the parts of the one that was being read away."""
    async with trimmed(valkey_url) as (client, path):
        wrong = ["older", "header"]
        monkeypatch.setattr(
            "service.transfer.state_digest",
            lambda *parts: wrong.pop() if wrong else state_digest(*parts),
        )
        lines = await exported(client, path)
        assert not wrong
        assert (await imported(client, lines)).status_code == 201


@asynccontextmanager
async def trimmed(url: str, log_keep: int = 0) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
    """Yield a client, and a model whose log no longer begins at 1."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("service.host.SNAPSHOT_CHECK_S", 0.02)
        async with app_client(url, snapshot_events=1) as client:
            path = await create(client, log_keep=log_keep, scaling="standard")
            for seed in range(2):
                await play(client, path, 10, seed)
                await _wait_for_snapshot(client, path)
            yield client, path


async def _wait_for_snapshot(client: httpx.AsyncClient, path: str) -> None:
    for _ in range(400):
        model = (await client.get(path)).json()
        if model["snapshot_seq"] == model["seq"]:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("no snapshot was taken")


async def test_a_name_is_taken_once(client: httpx.AsyncClient) -> None:
    """An import never replaces a model; what is there stays as it was."""
    path = await model_with_history(client)
    before = await state(client, path)
    answer = await imported(client, await exported(client, path), path.rpartition("/")[2])
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "conflict")
    assert await state(client, path) == before


def _event(name: str, value: Any, at: int = 1) -> Callable[[Lines], Lines]:
    def change(lines: Lines) -> Lines:
        return [*lines[:at], lines[at] | {name: value}, *lines[at + 1 :]]

    return change


def _without_head(lines: Lines) -> Lines:
    """Cut off an export, and what would tell."""
    head = {name: value for name, value in lines[0].items() if name != "head"}
    return [head, *lines[1:-3]]


def _header(**values: Any) -> Callable[[Lines], Lines]:
    return lambda lines: [lines[0] | values, *lines[1:]]


DAMAGE: dict[str, tuple[Callable[[Lines], Lines], str]] = {
    "feedback flipped": (_event("feedback", 0), "event 1"),
    "feedback 10": (_event("feedback", 10), "event 1.feedback"),
    "feedback gone": (_event("feedback", None), "event 1"),
    "x changed": (_event("x", [9, 9, 9]), "event 1"),
    "x short": (_event("x", [9]), "event 1"),
    "x huge": (_event("x", [1e300, 0, 0]), "event 1"),
    "label changed": (_event("label", "b"), "event 1"),
    "label unknown": (_event("label", "z"), "event 1"),
    "propensity": (_event("propensity", 0.5), "event 1"),
    "decided_seq": (_event("decided_seq", -1), "event 1.decided_seq"),
    "decided_ms": (_event("decided_ms", 2**70), "event 1.decided_ms"),
    "time_ms": (_event("time_ms", -1), "event 1.time_ms"),
    "nonce": (_event("nonce", "ab"), "event 1.nonce"),
    "nonce blank": (_event("nonce", "ab " * 8), "event 1.nonce"),
    "fingerprint": (_event("fingerprint", ""), "event 1.fingerprint"),
    "chain": (_event("chain", "0" * 16, 5), "event 5"),
    "seq": (_event("seq", 7), "event 1"),
    "kind": (_event("kind", "click"), "event 1"),
    "another kind": (_event("kind", "expire"), "event 1"),
    "unknown field": (_event("weight", 2), "event 1.weight"),
    "an event missing": (lambda lines: lines[:3] + lines[4:], "event 3"),
    "an event twice": (lambda lines: [*lines[:3], lines[2], *lines[3:]], "event 3"),
    "events swapped": (lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]], "event 2"),
    "cut off at the end of a line": (lambda lines: lines[:-1], "events"),
    "head lacking": (_without_head, "line 1"),
    "head no object": (_header(head=7), "line 1.head"),
    "head of another": (_header(head={"seq": 26, "chain": "0" * 16}), "events"),
    "no header": (lambda lines: lines[1:], "line 1"),
    "format": (_header(format="0"), "format"),
    "uid of another": (_header(uid="0123456789abcdef"), "event 1"),
    "uid bad": (_header(uid="a/b"), "uid"),
    "uid empty": (_header(uid=""), "uid"),
    "uid long": (_header(uid="a" * 65), "uid"),
    "labels short": (_header(labels=["a", "b"]), "event"),
    "labels long": (_header(labels=["a", "b", "c", "d", "e"]), "labels"),
    "counters unknown": (_header(counters={"seen": 1}), "counters"),
    "counters negative": (_header(counters={"decisions": -1}), "line 1.counters"),
    "counters too large to count on": (
        _header(counters={"feedback": 2**53}),
        "line 1.counters",
    ),
    "counters huge": (_header(counters={"decisions": 2**80}), "line 1.counters"),
    "spec empty": (_header(spec={}), "spec.labels"),
    "spec no object": (_header(spec=[]), "line 1.spec"),
    "spec huge": (_header(spec={"a": "x" * 300_000}), "spec"),
    "snapshot no object": (_header(snapshot=5), "line 1.snapshot"),
    "snapshot seq": (_header(snapshot={"seq": -1, "chain": "0" * 16, "state": ""}), "line 1"),
    "snapshot state": (
        _header(snapshot={"seq": 0, "chain": "0" * 16, "state": "AAAA"}),
        "snapshot",
    ),
    "snapshot no base64": (
        _header(snapshot={"seq": 0, "chain": "0" * 16, "state": "!"}),
        "snapshot",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
async def test_a_damaged_export_is_refused_and_leaves_nothing(
    client: httpx.AsyncClient, valkey_url: str, name: str
) -> None:
    """Any change is named in a 422, and afterwards Redis holds no key of the model."""
    damage, where = DAMAGE[name]
    lines = await exported(client, await model_with_history(client))
    target = str(spec_of()["name"])
    answer = await imported(client, damage(lines), target)
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"]["details"][0]["where"].startswith(where)
    assert (await client.get(f"/v1/models/{target}")).status_code == 404
    async with redis.asyncio.Redis.from_url(valkey_url) as store:
        assert await store.keys(f"*{target}*") == []
        assert not await store.sismember(MODELS_KEY, f"default/{target}")


async def test_of_many_unknown_names_one_is_told(client: httpx.AsyncClient) -> None:
    """Protects memory and others' turns: an error for each of 190,000 took 200 MB and .3 s."""
    header, *_ = await exported(client, await create(client))
    header["spec"] |= {f"speed-{i}": i for i in range(1000)}
    answer = await imported(client, [header])
    assert answer.status_code == 422
    (told,) = answer.json()["error"]["details"]
    assert told["where"] == "spec.speed-0"


async def test_a_made_up_history_with_a_true_chain_is_checked(client: httpx.AsyncClient) -> None:
    """The chain is no signature: values out of range are refused even where it fits."""
    lines = await exported(client, await model_with_history(client, scaling="standard"))
    forged = {"x": [3e38, 0, 0]}
    answer = await imported(client, [lines[0], lines[1] | forged])
    assert "x is no list of 3 numbers in range" in answer.json()["error"]["message"]


async def test_a_damaged_snapshot_is_refused(client: httpx.AsyncClient) -> None:
    """A state in the header that is not one of this model's is refused, whatever its form."""
    path = await create(client)
    other = await create(client, features={"type": "dense", "size": 4})
    await play(client, path, 5)
    lines = await exported(client, path)
    blob = base64.b64encode(await _state_blob(other, client)).decode()
    snapshot = {"seq": 3, "chain": "0" * 16, "state": blob}
    answer = await imported(client, [lines[0] | {"snapshot": snapshot}])
    assert answer.status_code == 422
    assert "another size" in answer.json()["error"]["message"]


async def test_a_state_that_events_make_infinite_is_refused(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects a copy from being accepted and then not served: no worker could restore it."""
    # No learner that is there takes such weights.
    monkeypatch.setattr(SOBA, "_most_weight", 1e100)
    path = await create(client, learner={"kind": "soba"})
    await play(client, path, 20)
    lines = await exported(client, path)
    spec = ModelSpec.model_validate(lines[0]["spec"])
    forged = Fold(spec, lines[0]["uid"]).state()
    # SOBA sums the squares of margins.
    forged["learner.weights"] = np.outer([9e99, 0.0, -9e99], np.ones(3))
    # Its matrix is 1 yet.
    forged["learner.theta"] = forged["learner.weights"]
    blob = base64.b64encode(encode_state(forged)).decode()
    snapshot = {"seq": 0, "chain": first_chain(lines[0]["uid"]), "state": blob}
    answer = await imported(client, [lines[0] | {"snapshot": snapshot}, *lines[1:]])
    assert answer.status_code == 422, answer.text
    assert "NaN, infinity or a number beyond" in answer.json()["error"]["message"]


async def _state_blob(path: str, client: httpx.AsyncClient) -> bytes:
    model = (await client.get(path)).json()
    names = [label["name"] for label in model["labels"]]
    fields = {name: model[name] for name in ModelSpec.model_fields} | {"labels": names}
    return Fold(ModelSpec.model_validate(fields), "other").encode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\n\n",
        b"\xff",
        b"[" * 100_000,
        b'{"format":"2","spec":{"a":"\xff"},"uid":"a","labels":[],"counters":{}}',
        b'{"format":"2","spec":{"a":' + b"[" * 50_000 + b'},"uid":"a","labels":[],"counters":{}}',
    ],
    ids=["empty", "blank", "bytes", "deep", "utf-8", "deep spec"],
)
async def test_what_is_no_export_is_refused(client: httpx.AsyncClient, body: bytes) -> None:
    """Anything else than an export gets a 422 that says what was expected first."""
    answer = await client.post("/v1/models/m-none/import", content=body, headers=NDJSON)
    assert answer.status_code == 422, answer.text


async def test_blank_lines_and_any_chunks_are_read_alike(client: httpx.AsyncClient) -> None:
    """Line ends may fall anywhere in the stream, and blank lines mean nothing."""
    path = await model_with_history(client)
    body = "\n\n".join(map(json.dumps, await exported(client, path))).encode() + b"\n"

    async def chunks() -> AsyncIterator[bytes]:
        for at in range(0, len(body), 97):
            yield body[at : at + 97]

    target = f"/v1/models/{spec_of()['name']}"
    answer = await client.post(f"{target}/import", content=chunks(), headers=NDJSON)
    assert answer.status_code == 201, answer.text
    assert await state(client, target) == await state(client, path)


async def test_an_import_lets_others_have_their_turn(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many lines come at once; of a window of neighbours each takes milliseconds to fold."""
    path = await model_with_history(client)
    lines = await exported(client, path)
    follow, folded, runs = Fold.follow, 0, [0]

    def slowly(fold: Fold, entry: Entry) -> None:
        nonlocal folded
        time.sleep(0.003)
        follow(fold, entry)
        folded += 1

    async def others() -> None:
        while True:
            before = folded
            await asyncio.sleep(0)
            runs.append(folded - before)

    monkeypatch.setattr(Fold, "follow", slowly)
    task = asyncio.create_task(others())
    answer = await imported(client, lines)
    task.cancel()
    assert answer.status_code == 201
    assert folded == len(lines) - 1 >= 20
    assert max(runs) <= 5


async def test_a_snapshot_is_read_beside_the_others(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph of neighbours takes seconds to be built, in one of the threads that are for that."""
    threads: list[threading.Thread] = []
    restore = Fold.restore

    def watched(fold: Fold, *args: Any) -> None:
        threads.append(threading.current_thread())
        restore(fold, *args)

    async with trimmed(valkey_url) as (client, path):
        lines = await exported(client, path)
        assert lines[0]["snapshot"]
        monkeypatch.setattr(Fold, "restore", watched)
        assert (await imported(client, lines)).status_code == 201
    assert threads
    assert {thread.name.partition("_")[0] for thread in threads} == {"build"}


async def test_files_are_written_and_read_beside_the_others(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state of megabytes takes a tenth of a second to encode: nobody else waits for it."""
    threads: dict[str, threading.Thread] = {}

    def watched(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            threads[function.__name__] = threading.current_thread()
            return function(*args)

        return call

    path = await model_with_history(client)
    for module, name in (
        (service.transfer, "_header"),
        (service.transfer, "parse_header"),
        (service.model_routes, "state_to_npz"),
        (service.model_routes, "state_digest"),
    ):
        monkeypatch.setattr(module, name, watched(getattr(module, name)))
    assert (await imported(client, await exported(client, path))).status_code == 201
    assert await state(client, path)
    assert len(threads) == 4
    assert threading.main_thread() not in threads.values()


def test_the_chain_begins_with_the_incarnation() -> None:
    """An export of another incarnation cannot be appended: its first chain is another."""
    assert chain_after(first_chain("a"), b"event") != chain_after(first_chain("b"), b"event")
