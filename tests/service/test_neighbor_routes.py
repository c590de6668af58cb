"""What models of neighbours tell: who votes, who looks mislabelled, who the hubs are."""

from __future__ import annotations

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from learners.neighbors import AutoRkNN, HwKNN, RkNN
from learners.noise.corruption import flip_by_hubness
from service.host import Host
from service.neighbor_wire import MAX_LISTED, MAX_MATRIX, MAX_VOTED
from service.settings import Settings
from service.store import Store, connect
from tests.service.apps import Json, app_client, create

NAMED: Json = {
    "type": "named",
    "fields": [
        {"name": "age", "type": "number"},
        {"name": "page", "type": "category", "values": ["home", "cart"]},
    ],
}
ONE: Json = {"type": "dense", "size": 1}


async def _taught(
    client: httpx.AsyncClient,
    learner: Json,
    examples: list[tuple[list[float], str]],
    **spec: object,
) -> str:
    path = await create(client, learner=learner, **({"features": ONE} | spec))
    for start in range(0, len(examples), 1000):
        items = [{"x": x, "label": label} for x, label in examples[start : start + 1000]]
        answer = await client.post(f"{path}/learn/batch", json={"items": items})
        assert answer.status_code == 200, answer.text
    return path


async def test_neighbors_are_those_who_vote(valkey_url: str) -> None:
    """Nearest first, each with its number, label, distance, votes and whether it looks wrong."""
    examples = [([0.0], "a"), ([1.0], "a"), ([1.5], "b"), ([2.0], "a"), ([9.0], "c")]
    async with app_client(valkey_url) as client:
        path = await _taught(client, {"kind": "knn", "k": 3}, examples)
        answer = await client.post(f"{path}/neighbors", json={"x": [1.25]})
        predicted = await client.post(f"{path}/predict", json={"x": [1.25]})
        named = await create(client, learner={"kind": "knn"}, features=NAMED)
        x = {"age": 31, "page": "cart"}
        await client.post(f"{named}/learn", json={"x": x, "label": "b"})
        nearest = (await client.post(f"{named}/neighbors", json={"x": x})).json()["neighbors"]
    found = answer.json()
    assert (found["seq"], found["label"]) == (5, predicted.json()["label"])
    assert found["neighbors"] == [
        {"example": 1, "label": "a", "distance": 0.25, "votes": {"a": 1.0}, "suspected": False},
        {"example": 2, "label": "b", "distance": 0.25, "votes": {"b": 1.0}, "suspected": True},
        {"example": 3, "label": "a", "distance": 0.75, "votes": {"a": 1.0}, "suspected": False},
    ]
    assert [(each["distance"], each["label"]) for each in nearest] == [(0.0, "b")]


async def test_an_empty_window_answers_with_nobody(valkey_url: str) -> None:
    """As a prediction on it is the first label, and no error; it has no hubs either."""
    async with app_client(valkey_url) as client:
        path = await create(client, learner={"kind": "hw_knn"})
        found = (await client.post(f"{path}/neighbors", json={"x": [1, 2, 3]})).json()
        hubs = (await client.get(f"{path}/hubs")).json()
    assert (found["label"], found["neighbors"]) == ("a", [])
    assert (hubs["examples"], hubs["hubs"], hubs["alarm"]["raised"]) == (0, [], False)


async def test_lists_are_bounded(valkey_url: str) -> None:
    """However many tie, and however many labels get a part of a vote."""
    labels = [f"label-{number}" for number in range(30)]
    examples = [([0.0], labels[number % 30]) for number in range(150)]
    async with app_client(valkey_url) as client:
        for kind in ("knn", "h_fnn"):
            learner = {"kind": kind, "k": 150}
            path = await _taught(client, learner, examples, labels=labels)
            found = (await client.post(f"{path}/neighbors", json={"x": [0.5]})).json()
            assert len(found["neighbors"]) == MAX_LISTED
            most = max(len(each["votes"]) for each in found["neighbors"])
            assert most == (1 if kind == "knn" else MAX_VOTED)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"x": [1, 2]}, "x"),
        ({"x": [1, 2, "3"]}, "x[2]"),
        ({}, "x"),
        ({"x": [1, 2, 3], "k": 4}, "k"),
    ],
)
async def test_a_wrong_instance_is_named(valkey_url: str, body: Json, where: str) -> None:
    """The instance is checked as in predict; nothing else is taken."""
    async with app_client(valkey_url) as client:
        path = await create(client, learner={"kind": "knn"})
        answer = await client.post(f"{path}/neighbors", json=body)
    assert answer.status_code == 422
    assert [one["where"] for one in answer.json()["error"]["details"]] == [where]


async def test_other_models_say_that_they_have_none(valkey_url: str) -> None:
    """A linear learner has no neighbours, and plain kNN counts no occurrences."""
    async with app_client(valkey_url) as client:
        linear = await create(client)
        plain = await create(client, learner={"kind": "knn"})
        answers = [
            await client.post(f"{linear}/neighbors", json={"x": [1, 2, 3]}),
            await client.get(f"{linear}/hubs"),
            await client.get(f"{plain}/hubs"),
            await client.get(f"{plain}/noise"),
        ]
        asked = await client.get(f"{plain}/neighbors")
        metrics = (await client.get("/metrics")).text
    assert [answer.status_code for answer in answers] == [422] * 4
    assert "keeps a graph" in answers[2].text
    assert "reads noise off its window (rknn, " in answers[3].text
    for path in (linear, plain):
        assert f'misclick_hub_alarm{{model="{path.rpartition("/")[2]}"}}' not in metrics
    assert (asked.status_code, asked.headers["allow"]) == (405, "POST")


async def test_hubs_are_told_as_the_learner_knows_them(valkey_url: str) -> None:
    """The report over HTTP is the library's on the same examples."""
    rng = np.random.default_rng(5)
    xs = rng.normal(size=(300, 40)).astype(np.float32).astype(float)
    labels = rng.integers(0, 3, size=300)
    learner = HwKNN(40, 3, window=300)
    learner.learn_many(xs, labels)
    report = learner.hubness()
    examples = [(x, "abc"[code]) for x, code in zip(xs.tolist(), labels.tolist(), strict=True)]
    async with app_client(valkey_url) as client:
        dense = {"type": "dense", "size": 40}
        kind = {"kind": "hw_knn", "window": 300}
        path = await _taught(client, kind, examples, features=dense)
        found = (await client.get(f"{path}/hubs")).json()
    assert (found["seq"], found["examples"], found["k"]) == (300, 300, 5)
    assert (found["skewness"], found["threshold"]) == (report.skewness, report.threshold)
    assert (found["n_orphans"], found["bad_share"]) == (report.n_orphans, report.bad_share)
    assert (found["n_hubs"], found["n_bad_hubs"]) == (len(report.hubs), int(report.bad.sum()))
    first = found["hubs"][0]
    assert first == {
        "example": int(report.hubs[0]),
        "label": "abc"[report.labels[0]],
        "occurrences": int(report.occurrences[0]),
        "bad_occurrences": int(report.bad_occurrences[0]),
        "bad": bool(report.bad[0]),
    }


async def test_an_attack_on_hubs_is_seen_in_every_place(
    valkey_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In the answer, in the metrics, and as one line of the log; and so is its end."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, size=500)
    xs = rng.normal(size=(500, 30)) + labels[:, np.newaxis] * 1.3
    probe = HwKNN(30, 2, window=500)
    probe.learn_many(xs, labels)
    attacked = flip_by_hubness(labels, 2, 0.1, probe.occurrences(), rng)
    store = Store(connect(valkey_url, 5.0))
    host = Host(store, Settings(redis_url=valkey_url, max_models=10_000))
    async with app_client(valkey_url) as client:
        dense = {"type": "dense", "size": 30}
        path = await create(client, learner={"kind": "hw_knn", "window": 500}, features=dense)
        name = path.rpartition("/")[2]
        replica = await host.replica(f"default/{name}")
        for codes, raised in ((attacked, True), (labels, False)):
            examples = zip(xs.tolist(), codes.tolist(), strict=True)
            items = [{"x": x, "label": "ab"[code]} for x, code in examples]
            await client.post(f"{path}/learn/batch", json={"items": items})
            assert (await client.get(f"{path}/hubs")).json()["alarm"]["raised"] is raised
            metrics = (await client.get("/metrics")).text
            assert f'misclick_hub_alarm{{model="{name}"}} {float(raised)}' in metrics
            # Another worker finds the same, and says it once; what the first one says, and when,
            # is not looked at.
            await replica.catch_up()
            for lines in (1, 0):
                caplog.clear()
                await host._tell_alarms()
                told = [(line.name, line.__dict__["hub_alarm"]) for line in caplog.records]
                assert told == [("misclick.alarms", raised)] * lines
    await store.close()


def _two_labels(size: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return instances that float32 holds, and labels of which a tenth is wrong."""
    rng = np.random.default_rng(seed)
    xs = rng.normal(size=(size, 1)).astype(np.float32).astype(np.float64)
    return xs, ((xs[:, 0] > 0) ^ (rng.random(size) < 0.1)).astype(np.int64)


async def test_a_window_tells_its_noise(valkey_url: str) -> None:
    """The rates and the matrix are what the library reads off the same window."""
    xs, codes = _two_labels(200, seed=1)
    learner = RkNN(1, 2, k=7, k_noise=30)
    learner.learn_many(xs, codes)
    rates, (_, matrix) = learner.noise_rates(), learner.transition()
    assert rates is not None
    examples = [(x, "ab"[code]) for x, code in zip(xs.tolist(), codes.tolist(), strict=True)]
    options = {"kind": "rknn", "k": 7, "k_noise": 30}
    async with app_client(valkey_url) as client:
        path = await _taught(client, options, examples, labels=["a", "b"])
        found = (await client.get(f"{path}/noise")).json()
        options |= {"rates": "given", "rho_0": 0.1, "rho_1": 0.2}
        given = await _taught(client, options, examples[:5], labels=["a", "b"])
        told = (await client.get(f"{given}/noise")).json()
    estimate = {"k_noise": 30, "rho_0": rates.rho_0, "rho_1": rates.rho_1, "labels": ["a", "b"]}
    estimate["matrix"] = matrix.tolist()
    expected = {"seq": 200, "examples": 200, "k": 7, "estimates": [estimate], "pairs": []}
    assert found == expected
    assert told == {"seq": 5, "examples": 5, "k": 7, "estimates": [], "pairs": []}


async def test_the_choice_of_k_is_told(valkey_url: str) -> None:
    """How each pair did on the stream, and the noise by each k' that is tried."""
    xs, codes = _two_labels(120, seed=2)
    learner = AutoRkNN(1, 2)
    learner.learn_many(xs, codes)
    examples = [(x, "ab"[code]) for x, code in zip(xs.tolist(), codes.tolist(), strict=True)]
    async with app_client(valkey_url) as client:
        path = await _taught(client, {"kind": "rknn_auto"}, examples, labels=["a", "b"])
        found = (await client.get(f"{path}/noise")).json()
    assert found["k"] is None
    assert found["pairs"] == [pair._asdict() for pair in learner.validation()]
    assert len({pair["hits"] for pair in found["pairs"]}) > 1
    assert [each["k_noise"] for each in found["estimates"]] == [5, 20, 50]
    readings = learner.window_noise()
    assert [each["matrix"] for each in found["estimates"]] == [
        reading.transition.tolist() for reading in readings
    ]


async def test_no_matrix_of_many_labels(valkey_url: str) -> None:
    """Its size is the square of theirs; an empty window has none of either."""
    labels = [f"label-{number}" for number in range(MAX_MATRIX + 1)]
    examples = [([float(number)], label) for number, label in enumerate(labels)]
    async with app_client(valkey_url) as client:
        path = await _taught(client, {"kind": "plugin_knn", "k": 3}, examples, labels=labels)
        (many,) = (await client.get(f"{path}/noise")).json()["estimates"]
        empty = await create(client, learner={"kind": "rknn"}, features=ONE)
        (none,) = (await client.get(f"{empty}/noise")).json()["estimates"]
    assert (many["labels"], many["matrix"], many["rho_0"]) == (labels, None, None)
    assert (none["labels"], none["matrix"], none["rho_0"]) == ([], [], None)


async def test_neighbors_vote_once_their_labels_are_retired(valkey_url: str) -> None:
    """Protects from a list of examples that had no part in the label that is told with them."""
    examples = [([float(number)], "a") for number in range(5)]
    examples += [([100.0 + number], "b") for number in range(5)]
    async with app_client(valkey_url) as client:
        path = await _taught(client, {"kind": "knn", "k": 3}, examples, labels=["a", "b"])
        answer = await client.post(f"{path}/labels", json={"retire": ["a"]})
        assert answer.status_code == 200, answer.text
        found = (await client.post(f"{path}/neighbors", json={"x": [1.0]})).json()
    assert found["label"] == "b"
    told = [(each["example"], each["label"], each["votes"]) for each in found["neighbors"]]
    assert told == [(number, "b", {"b": 1.0}) for number in (5, 6, 7)]
