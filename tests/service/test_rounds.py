"""Rounds that somebody else decided, over HTTP: told once, learned by all, and judged."""

from __future__ import annotations

import json
from typing import Any

import httpx
import numpy as np
import pytest

from learners import Outcome
from learners import create as create_learner
from learners.evaluation import AssumedRates, Evaluation, Rounds, weights_of
from service.events import Event, Kind, Round, chain_after, pack_body
from service.ids import ROUND, nonce_of_request, uniform_of
from tests.service.apps import NDJSON, Json, create
from tests.service.stores import fold_again, make, opened, play, replica_of, row
from tests.service.test_challengers import BPA
from tests.service.test_evaluation import LEARNER, RATES, evaluated, near, policy
from tests.service.test_transfer import exported, imported, state

TOLD: Json = {"x": [1, 2, 3], "label": "b", "propensity": 0.5, "feedback": 1}
#: The outside policy shows the right label this often, and each of the others half as often as
#: what is left.
RIGHT = 0.6


async def post(client: httpx.AsyncClient, path: str, body: Json, status: int = 200) -> Any:
    """Return the answer to a body, after checking its status."""
    answer = await client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


async def counters(client: httpx.AsyncClient, path: str) -> dict[str, int]:
    """Return the counters that are not 0."""
    found = (await client.get(path)).json()["counters"]
    return {name: count for name, count in found.items() if count}


def simulated(count: int, seed: int = 0) -> tuple[list[Json], list[str]]:
    """Return rounds of a policy that is mostly right, whose clicks lie; and the right labels."""
    rng = np.random.default_rng(seed)
    rounds, rights = [], []
    for _ in range(count):
        code = int(rng.integers(3))
        x = rng.normal(size=3) + 2.0 * np.eye(3)[code]
        chances = np.full(3, (1 - RIGHT) / 2)
        chances[code] = RIGHT
        label = int(rng.choice(3, p=chances))
        bit = (label == code) ^ (rng.random() < (RATES.rho_1 if label == code else RATES.rho_0))
        told = {"x": x.tolist(), "label": "abc"[label], "propensity": float(chances[label])}
        rounds.append(told | {"feedback": int(bit)})
        rights.append("abc"[code])
    return rounds, rights


async def tell(client: httpx.AsyncClient, path: str, rounds: list[Json]) -> list[Json]:
    """Tell rounds in batches; return the receipts."""
    receipts: list[Json] = []
    for start in range(0, len(rounds), 1000):
        body = {"items": rounds[start : start + 1000]}
        receipts += (await post(client, f"{path}/rounds/batch", body))["items"]
    return receipts


# -- telling ----------------------------------------------------------------------------------
async def test_a_round_is_told_once(client: httpx.AsyncClient) -> None:
    """A request id counts once, and names one round; without one, two calls are two rounds."""
    path = await create(client)
    named = TOLD | {"request_id": "visit-1"}
    first = {"status": "applied", "seq": 1, "feedback": 1}
    assert await post(client, f"{path}/rounds", named) == first
    assert await post(client, f"{path}/rounds", named) == first | {"status": "duplicate"}
    for other in ({"feedback": 0}, {"propensity": 0.25}, {"label": "a"}, {"x": [1, 2, 4]}):
        answer = await post(client, f"{path}/rounds", named | other, 409)
        assert answer["error"]["message"] == "request_id: it was used before with another round"
    for seq in (2, 3):
        receipt = await post(client, f"{path}/rounds", TOLD | {"feedback": 0})
        assert receipt == {"status": "applied", "seq": seq, "feedback": 0}
    assert await counters(client, path) == {"told": 3, "duplicates": 1, "conflicts": 4}


async def test_a_visit_may_name_a_decision_and_a_round(client: httpx.AsyncClient) -> None:
    """Beside a policy of one's own both are asked for: neither is taken for the other."""
    path = await create(client)
    asked = {"x": [1, 2, 3], "request_id": "visit-1"}
    decision = await post(client, f"{path}/predict", asked)
    named = TOLD | {"request_id": "visit-1"}
    assert (await post(client, f"{path}/rounds", named))["status"] == "applied"
    click = {"decision_id": decision["decision_id"], "feedback": 0}
    assert (await post(client, f"{path}/feedback", click))["status"] == "applied"
    assert (await post(client, f"{path}/rounds", named))["status"] == "duplicate"
    assert (await post(client, f"{path}/feedback", click))["status"] == "duplicate"
    assert (await post(client, f"{path}/predict", asked)) == decision
    expected = {"decisions": 1, "feedback": 1, "told": 1, "duplicates": 2}
    assert await counters(client, path) == expected


async def test_a_thousand_at_once(client: httpx.AsyncClient) -> None:
    """In order, as JSON or as lines, with the receipts of each; and none is one of ours."""
    path = await create(client)
    rounds, _ = simulated(1000)
    receipts = await tell(client, path, rounds)
    assert [r["seq"] for r in receipts] == list(range(1, 1001))
    lines = "".join(json.dumps(each) + "\n" for each in rounds)
    answer = await client.post(f"{path}/rounds/batch", content=lines, headers=NDJSON)
    assert answer.headers["content-type"] == "application/x-ndjson"
    found = [json.loads(line) for line in answer.text.splitlines()]
    assert [r["seq"] for r in found] == list(range(1001, 2001))
    assert [r["feedback"] for r in found] == [each["feedback"] for each in rounds]
    assert await counters(client, path) == {"told": 2000}
    same, other = TOLD | {"request_id": "r"}, TOLD | {"request_id": "r", "feedback": 0}
    receipts = await tell(client, path, [same, same, other])
    assert [r["status"] for r in receipts] == ["applied", "duplicate", "conflict"]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"label": "z"}, "label"),
        ({"propensity": 0}, "propensity"),
        ({"propensity": -0.5}, "propensity"),
        ({"propensity": 1.001}, "propensity"),
        ({"propensity": "1"}, "propensity"),
        ({"propensity": None}, "propensity"),
        ({"feedback": 2}, "feedback"),
        ({"feedback": None}, "feedback"),
        ({"x": [1, 2]}, "x"),
        ({"greedy": "a"}, "greedy"),
    ],
    ids=str,
)
async def test_what_is_wrong_is_named(client: httpx.AsyncClient, change: Json, where: str) -> None:
    """Alone and in a batch, of which nothing is learned then."""
    path = await create(client)
    answer = await post(client, f"{path}/rounds", TOLD | change, 422)
    assert answer["error"]["details"][0]["where"] == where
    answer = await post(client, f"{path}/rounds/batch", {"items": [TOLD, TOLD | change]}, 422)
    assert answer["error"]["details"][0]["where"] == f"items[1].{where}"
    for name in ("label", "propensity", "feedback", "x"):
        lacking = {key: value for key, value in TOLD.items() if key != name}
        answer = await post(client, f"{path}/rounds", lacking, 422)
        assert name in answer["error"]["message"]
    assert await counters(client, path) == {}


@pytest.mark.parametrize("kind", ["perceptron", "rknn"])
async def test_a_learner_from_labels_refuses_them(client: httpx.AsyncClient, kind: str) -> None:
    """As it refuses feedback, and says what would take them."""
    path = await create(client, learner={"kind": kind})
    for name, body in (("rounds", TOLD), ("rounds/batch", {"items": [TOLD]})):
        answer = await post(client, f"{path}/{name}", body, 422)
        expected = [{"where": "model", "expected": "a learner that takes feedback", "got": kind}]
        assert answer["error"]["details"] == expected
    assert await counters(client, path) == {}


async def test_a_retired_label_may_be_told_of(client: httpx.AsyncClient) -> None:
    """It is not shown here any more, and may be elsewhere."""
    path = await create(client)
    await post(client, f"{path}/labels", {"retire": ["b"]})
    before = await state(client, path)
    assert (await post(client, f"{path}/rounds", TOLD))["status"] == "applied"
    assert (await state(client, path))[2] != before[2]


# -- what becomes of them ---------------------------------------------------------------------
async def test_two_copies_are_equal_bytes(store_url: str) -> None:
    """Each worker reads its own rounds at once; in the end all hold the fold of the log."""
    async with opened(store_url) as store:
        address = await make(store)
        one, two = await replica_of(store, address), await replica_of(store, address)
        for number in range(12):
            teller = (one, two)[number % 2]
            verdict = await teller.tell(Round(number % 3, 0.5, row(number)), number % 2, None)
            assert (verdict.status, verdict.seq) == ("applied", teller.fold.seq)
            await play(teller, 1, number)
        await one.catch_up()
        await two.catch_up()
        assert one.fold.seq == two.fold.seq == 24
        assert one.fold.contest.record.count == 12
        assert one.fold.encode() == two.fold.encode() == await fold_again(store, address)


async def test_they_move_with_the_model(client: httpx.AsyncClient) -> None:
    """Exported as what they are, imported to the same bytes and counters."""
    path = await create(client, challengers=[BPA], scaling="standard")
    rounds, _ = simulated(30)
    await tell(client, path, rounds)
    await post(client, f"{path}/feedback", {"decision_id": "x" * 40, "feedback": 1}, 404)
    lines = await exported(client, path)
    for line, told in zip(lines[1:], rounds, strict=True):
        assert line["kind"] == "round"
        assert {name: line[name] for name in ("label", "propensity", "feedback")} == {
            name: told[name] for name in ("label", "propensity", "feedback")
        }
        assert "greedy" not in line
        assert "decided_seq" not in line
    answer = await imported(client, lines)
    assert answer.status_code == 201, answer.text
    copy = f"/v1/models/{answer.json()['name']}"
    assert await state(client, copy) == await state(client, path)
    assert await counters(client, copy) == {"told": 30}
    assert await evaluated(client, copy) == await evaluated(client, path)
    for name in ("label", "propensity", "feedback", "x"):
        broken = [*lines[:-1], {k: v for k, v in lines[-1].items() if k != name}]
        assert (await imported(client, broken)).status_code == 422
    for propensity in (0.0, 1.5):
        # With a right chain: somebody made this file on purpose.
        payload = Round(0, propensity, np.zeros(3, "<f4"))
        body = pack_body(Event(Kind.ROUND, 7, bytes(12), 1, payload))
        place = {"seq": 31, "chain": chain_after(lines[-1]["chain"], body)}
        line = {"time_ms": 7, "kind": "round", "nonce": "00" * 12, "feedback": 1, "label": "a"}
        broken = [
            lines[0] | {"head": place},
            *lines[1:],
            line | place | {"propensity": propensity, "x": [0, 0, 0]},
        ]
        answer = await imported(client, broken)
        assert (answer.status_code, "propensity" in answer.text) == (422, True)


# -- what policies are worth ------------------------------------------------------------------
def followed(kind: str, rounds: Rounds, **options: Any) -> Any:
    """Return what a learner alone would have done in each round, before it learned from it."""
    learner = create_learner(kind, 3, 3, **options)
    probabilities = []
    for x, label, propensity, bit in zip(*rounds, strict=True):
        own = learner.distribution(x)
        probabilities.append(own.probabilities)
        outcome = Outcome(x, int(label), own.greedy, float(propensity), int(bit), elsewhere=True)
        learner.update(outcome)
    return np.array(probabilities)


def rounds_of(told: list[Json]) -> Rounds:
    """Return rounds as the library takes them, as they are logged."""
    return Rounds(
        np.array([each["x"] for each in told], np.float32).astype(np.float64),
        np.array(["abc".index(each["label"]) for each in told]),
        np.array([each["propensity"] for each in told]),
        np.array([each["feedback"] for each in told]),
    )


async def test_the_deciding_learner_is_judged_as_one_that_did_not_decide(
    client: httpx.AsyncClient,
) -> None:
    """By the weights of what it would have done, as its challengers; and the outside policy too."""
    path = await create(client, learner=LEARNER, challengers=[BPA], seed=3)
    told, rights = simulated(1500)
    await tell(client, path, [each | {"request_id": f"r{i}"} for i, each in enumerate(told)])
    found = await evaluated(client, path)
    kinds = [(p["policy"], p["name"]) for p in found["policies"]]
    assert kinds[:4] == [
        ("deciding", "original"),
        ("elsewhere", None),
        ("uniform", None),
        ("challenger", "passive"),
    ]
    rounds = rounds_of(told)
    expected = Evaluation(rounds, AssumedRates.same(RATES, 3))
    own = followed("rcnbf", rounds, gamma=0.5, rho_0=0.2, rho_1=0.3)
    shadow = followed("bpa", rounds, gamma=0.3)
    for kind, probabilities in (("deciding", own), ("challenger", shadow)):
        weights = weights_of(rounds, probabilities)
        got, snips = policy(found, kind), expected.snips(weights)
        assert snips is not None
        assert (got["rounds"], got["ips"]) == (1500, near(expected.ips(weights)))
        assert got["snips"] == near(snips)
        # The label that it would have drawn stands for all its probabilities.
        uniforms = [uniform_of(3, nonce_of_request(f"r{i}", ROUND)) for i in range(1500)]
        shown = (probabilities.cumsum(1) > np.array(uniforms)[:, np.newaxis]).argmax(1)
        robust = expected.doubly_robust(weights, expected.predicted[np.arange(1500), shown])
        assert got["dr"] == near(robust)
    truth = float(own[np.arange(1500), ["abc".index(right) for right in rights]].mean())
    assert policy(found, "deciding")["dr"]["low"] < truth < policy(found, "deciding")["dr"]["high"]
    other = policy(found, "elsewhere")
    assert (other["rounds"], other["effective"], other["dr"]) == (1500, 1500, None)
    assert other["ips"] == near(expected.ips(np.ones(1500)))
    assert other["ips"]["low"] < RIGHT < other["ips"]["high"]


async def test_own_rounds_and_those_of_others_are_judged_together(
    client: httpx.AsyncClient,
) -> None:
    """A weight of 1 where it decided; of told ones what it wrote down, before it decided, too."""
    path = await create(client, learner=LEARNER, challengers=[BPA])
    told, _ = simulated(300)
    await tell(client, path, told[:100])
    made = await post(
        client, f"{path}/predict/batch", {"items": [{"x": each["x"]} for each in told[100:200]]}
    )
    clicks = [{"decision_id": d["decision_id"], "feedback": 1} for d in made["items"]]
    await post(client, f"{path}/feedback/batch", {"items": clicks})
    found = await evaluated(client, path)
    assert (policy(found, "deciding")["rounds"], policy(found, "elsewhere")["rounds"]) == (200, 100)
    rounds = rounds_of(told[:100])
    weights = weights_of(rounds, followed("rcnbf", rounds, gamma=0.5, rho_0=0.2, rho_1=0.3))
    rewards = AssumedRates.same(RATES, 3).rewards(rounds.labels, rounds.feedback)
    own = (1 - RATES.rho_0) / RATES.beta * 100
    value = (float((weights * rewards).sum()) + own) / 200
    assert policy(found, "deciding")["ips"]["value"] == pytest.approx(value, abs=1e-9)
    assert policy(found, "deciding")["dr"] is not None
    await post(client, f"{path}/challengers/passive/promote", {})
    # What it wrote down of the told ones, before, is of them still; it decided none of the others.
    assert policy(await evaluated(client, path), "deciding")["rounds"] == 100
    await tell(client, path, told[200:])
    assert policy(await evaluated(client, path), "deciding")["rounds"] == 200
    assert policy(await evaluated(client, path), "elsewhere")["rounds"] == 200


async def test_a_policy_that_explores_nothing_shows_little(client: httpx.AsyncClient) -> None:
    """Propensities of 1 say that no other label could come: the verdict says so."""
    path = await create(client, learner={"kind": "banditron", "gamma": 0.5})
    told, _ = simulated(400)
    await tell(client, path, [each | {"propensity": 1.0} for each in told])
    found = policy(await evaluated(client, path), "deciding")
    assert not found["trusted"]
    assert found["verdict"].startswith("it does what the log could not show")


async def test_propensities_that_cannot_be_true_are_found_out(client: httpx.AsyncClient) -> None:
    """Too small, they make anything worth as much as one likes: weights average more than 1."""
    path = await create(client, learner={"kind": "banditron", "gamma": 0.5})
    told, _ = simulated(400)
    await tell(client, path, [each | {"propensity": each["propensity"] / 3} for each in told])
    found = policy(await evaluated(client, path), "deciding")
    assert not found["trusted"]
    assert found["verdict"].startswith("the log's propensities are too small")


async def test_a_propensity_that_hardly_can_be_does_no_harm(client: httpx.AsyncClient) -> None:
    """The state stays one of numbers, and so does the evaluation."""
    for learner in ({"kind": "banditron"}, {"kind": "forward_softmax"}, {"kind": "soba"}):
        path = await create(client, learner=learner, challengers=[BPA])
        told, _ = simulated(200)
        tiny = [each | {"propensity": (5e-324, 1e-300)[i % 2]} for i, each in enumerate(told)]
        await tell(client, path, tiny)
        found = await evaluated(client, path)
        values = [p[name] for p in found["policies"] for name in ("ips", "dr") if p[name]]
        assert values
        assert all(number is not None for value in values for number in value.values())
        await post(client, f"{path}/predict", {"x": [1, 2, 3]})
