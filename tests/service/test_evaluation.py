"""What policies are worth, told over HTTP: the library's numbers, of rounds not learned from."""

import asyncio
from typing import Any

import httpx
import numpy as np
import pytest

from learners import NoiseRates
from learners import create as create_learner
from learners.evaluation import AssumedRates, Evaluation, Rounds, Value, progressive, weights_of
from service import challengers, evaluation
from service.challengers import Record
from service.evaluation_wire import ValueOut
from service.events import Decision, LabelChange, Rates, RatesByLabel
from service.newest import Logged, Newest
from service.rates_in_force import rates_in_force
from service.store import BACK_ENTRIES, BACK_PARTS
from tests.service.apps import RCNBF, Json, create
from tests.service.folds import admin, fold_of, round_of
from tests.service.test_challengers import BPA
from tests.service.test_transfer import exported

GAMMA = 0.5
LEARNER: Json = {"kind": "rcnbf", "gamma": GAMMA, "rho_0": 0.2, "rho_1": 0.3}
RATES = NoiseRates(0.2, 0.3)


async def play(client: httpx.AsyncClient, path: str, rounds: int, seed: int = 0) -> list[str]:
    """Play rounds whose clicks lie; return the right labels."""
    rng = np.random.default_rng(seed)
    rights = rng.choice(["a", "b", "c"], size=rounds, p=[0.6, 0.3, 0.1])
    centres = {"a": [2.0, 0.0, 0.0], "b": [0.0, 2.0, 0.0], "c": [0.0, 0.0, 2.0]}
    for start in range(0, rounds, 100):
        some = rights[start : start + 100].tolist()
        # A request_id decides the draw: the same rounds each time.
        items = [
            {
                "x": (rng.normal(size=3) + centres[right]).tolist(),
                "request_id": f"{seed}-{start + i}",
            }
            for i, right in enumerate(some)
        ]
        answer = await client.post(f"{path}/predict/batch", json={"items": items})
        clicks = []
        for decision, right in zip(answer.json()["items"], some, strict=True):
            bit = decision["label"] == right
            bit ^= rng.random() < (RATES.rho_1 if bit else RATES.rho_0)
            clicks.append({"decision_id": decision["decision_id"], "feedback": int(bit)})
        await client.post(f"{path}/feedback/batch", json={"items": clicks})
    return [str(right) for right in rights]


async def evaluated(client: httpx.AsyncClient, path: str, **query: Any) -> Json:
    """Return the evaluation of a model."""
    answer = await client.get(f"{path}/evaluation", params=query)
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


def policy(found: Json, kind: str, name: str | None = None) -> Json:
    """Return one policy of an evaluation."""
    policies: list[Json] = found["policies"]
    return next(p for p in policies if p["policy"] == kind and name in (None, p["name"]))


async def rounds_of(client: httpx.AsyncClient, path: str) -> Rounds:
    """Return the rounds in a model's export."""
    lines = [each for each in (await exported(client, path))[1:] if each["kind"] == "feedback"]
    return Rounds(
        np.array([each["x"] for each in lines]),
        np.array(["abc".index(each["label"]) for each in lines]),
        np.array([each["propensity"] for each in lines]),
        np.array([each["feedback"] for each in lines]),
    )


def near(value: Value) -> Any:
    """Return what a value in an answer has to be."""
    return pytest.approx(value._asdict(), abs=1e-9)


async def test_the_numbers_are_the_librarys(client: httpx.AsyncClient) -> None:
    """Every policy and estimate, worked out again from the model's export."""
    path = await create(client, learner=LEARNER, challengers=[BPA], seed=3)
    rights = await play(client, path, 1500)
    found = await evaluated(client, path)
    told = {name: found[name] for name in ("rounds", "first_seq", "last_seq", "seq")}
    assert told == {"rounds": 1500, "first_seq": 1, "last_seq": 1500, "seq": 1500}
    assert (found["rho_0"], found["rho_1"]) == (pytest.approx(0.2), pytest.approx(0.3))
    assert (found["by_label"], found["rates_from"]) == (False, "learner")
    kinds = [(p["policy"], p["name"]) for p in found["policies"]]
    assert kinds[:3] == [("deciding", "original"), ("uniform", None), ("challenger", "passive")]
    assert {name for kind, name in kinds[3:] if kind == "label"} == {"a", "b", "c"}
    rounds = await rounds_of(client, path)
    expected = Evaluation(rounds, AssumedRates.same(RATES, 3))
    shadow = progressive(create_learner("bpa", 3, 3, gamma=0.3), rounds)
    for kind, name, probabilities in (
        ("uniform", None, np.full((1500, 3), 1 / 3)),
        ("label", "a", np.eye(3)[[0] * 1500]),
        ("challenger", "passive", shadow),
    ):
        weights = weights_of(rounds, probabilities)
        got = policy(found, kind, name)
        assert got["ips"] == near(expected.ips(weights))
        snips = expected.snips(weights)
        assert snips is not None
        assert got["snips"] == near(snips)
        robust = expected.doubly_robust(weights, (probabilities * expected.predicted).sum(1))
        if kind == "challenger":
            # It is told the label that the challenger would have drawn, not all probabilities.
            assert got["dr"]["value"] == pytest.approx(robust.value, abs=robust.error / 2)
        else:
            assert got["dr"] == near(robust)
            followed = (probabilities * expected.predicted).sum(1)
            assert got["gain"] == near(expected.gain(weights, followed))
        assert got["trusted"]
    newest = policy(await evaluated(client, path, rounds=400), "challenger")
    last = expected.only(np.arange(1100, 1500))
    assert newest["ips"] == near(last.ips(weights_of(last.rounds, shadow[1100:])))
    deciding = policy(found, "deciding")
    assert deciding["ips"] == near(expected.ips(np.ones(1500)))
    assert (deciding["effective"], deciding["dr"], deciding["gain"]) == (1500, None, None)
    shown = np.array(list("abc"))[rounds.labels]
    truth = float((shown == np.array(rights)).mean())
    assert deciding["ips"]["low"] < truth < deciding["ips"]["high"]
    assert (
        policy(found, "label", "a")["ips"]["low"] < 0.6 < policy(found, "label", "a")["ips"]["high"]
    )
    # Without correction the clicks say something else of the same policy.
    assert abs(float(rounds.feedback.mean()) - truth) > deciding["ips"]["error"]


async def test_each_policy_is_told_of_by_its_own_rounds(client: httpx.AsyncClient) -> None:
    """A challenger since it came, the deciding one since it was promoted."""
    path = await create(client, learner=LEARNER)
    await play(client, path, 200)
    await client.post(f"{path}/challengers", json=BPA)
    await play(client, path, 300, seed=1)
    found = await evaluated(client, path)
    assert (found["rounds"], policy(found, "challenger")["rounds"]) == (500, 300)
    await client.post(f"{path}/challengers/passive/promote")
    empty = policy(await evaluated(client, path), "deciding")
    assert (empty["name"], empty["rounds"], empty["ips"]) == ("passive", 0, None)
    assert not empty["trusted"]
    await play(client, path, 400, seed=2)
    found = await evaluated(client, path)
    assert policy(found, "deciding")["rounds"] == 400
    # Beside the challenger it wrote down what it would do in 300 of its own.
    assert policy(found, "challenger", "original")["rounds"] == 700
    assert policy(found, "uniform")["rounds"] == 900
    newest = await evaluated(client, path, rounds=150)
    assert (newest["rounds"], newest["last_seq"]) == (150, newest["seq"])
    assert policy(newest, "deciding")["rounds"] == 150


async def test_a_label_is_told_of_by_rounds_that_could_show_it(client: httpx.AsyncClient) -> None:
    """Since it came, or came back: before, it was not shown because it could not be."""
    path = await create(client, learner=LEARNER)
    await play(client, path, 300)
    for change in ({"add": ["d"]}, {"retire": ["b"]}, {"add": ["b"]}):
        await client.post(f"{path}/labels", json=change)
    waits = (await client.post(f"{path}/predict", json={"x": [1, 1, 1]})).json()
    for change in ({"retire": ["b"]}, {"add": ["b"]}):
        await client.post(f"{path}/labels", json=change)
    await client.post(f"{path}/feedback", json={"decision_id": waits["decision_id"], "feedback": 1})
    await play(client, path, 200, seed=1)
    found = await evaluated(client, path)
    told = {p["name"]: p["rounds"] for p in found["policies"] if p["policy"] == "label"}
    assert told == {"a": 501, "b": 200, "c": 501, "d": 201}
    lines = [each for each in (await exported(client, path))[1:] if each["kind"] == "feedback"]
    weights = np.array([(each["label"] == "d") / each["propensity"] for each in lines[300:]])
    bits = np.array([each["feedback"] for each in lines[300:]])
    by_hand = float((weights * (bits - 0.2) / 0.5).mean())
    assert policy(found, "label", "d")["ips"]["value"] == pytest.approx(by_hand)


async def test_a_full_record_tells_of_its_rounds(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A challenger that has forgotten its first rounds is told of by the others."""
    monkeypatch.setattr(challengers, "RECORDED", 120)
    path = await create(client, learner=LEARNER, challengers=[BPA])
    await play(client, path, 300)
    assert policy(await evaluated(client, path), "challenger")["rounds"] == 120


async def test_what_the_log_cannot_tell_is_not_trusted(client: httpx.AsyncClient) -> None:
    """Too few rounds; and a learner that never explores, which shows nothing but its best."""
    path = await create(client, learner=LEARNER)
    empty = await evaluated(client, path)
    assert (empty["rounds"], empty["first_seq"], empty["policies"]) == (0, None, [])
    await play(client, path, 100)
    found = policy(await evaluated(client, path), "label", "c")
    assert not found["trusted"]
    assert found["verdict"].startswith("too few")
    path = await create(client, learner={"kind": "confidit"})
    await play(client, path, 1000)
    told = await evaluated(client, path)
    assert told["rates_from"] == "nothing"
    assert policy(told, "deciding")["trusted"]
    # Of a label that no round showed nothing is said, not that it is never right.
    await client.post(f"{path}/labels", json={"add": ["d"]})
    never = policy(await evaluated(client, path), "label", "d")
    assert [never[name] for name in ("ips", "snips", "dr", "gain")] == [None] * 4
    assert (never["effective"], never["trusted"]) == (0.0, False)
    assert policy(told, "uniform")["verdict"].startswith("it does what the log could not show")


async def test_rates_that_a_challenger_has_found_correct_clicks(client: httpx.AsyncClient) -> None:
    """Beside a learner that knows none; what that one was made with is taken for known."""
    softmax = {"name": "soft", "learner": {"kind": "forward_softmax"}}
    path = await create(client, learner={"kind": "banditron"}, challengers=[BPA, softmax])
    await play(client, path, 600)
    found, noise = await evaluated(client, path), (await client.get(f"{path}/noise")).json()
    assert (found["rates_from"], found["by_label"]) == ("challenger", True)
    assert found["rho_0"] == pytest.approx(noise["rates"]["rho_0"])
    assert found["rho_1"] == pytest.approx(noise["rates"]["rho_1"])
    path = await create(client, learner=LEARNER, challengers=[softmax])
    await play(client, path, 10)
    assert (await evaluated(client, path))["rates_from"] == "learner"


async def test_a_twin_gains_nothing_where_feedback_is_late(client: httpx.AsyncClient) -> None:
    """Protects who promotes: what a challenger knew when it heard is no merit of its own."""
    forward: Json = {"kind": "forward", "n_waves": 0}
    twin: Json = {"name": "twin", "learner": forward}
    path = await create(client, learner=forward, challengers=[twin], seed=3)
    await play(client, path, 600)
    found = policy(await evaluated(client, path), "challenger")
    assert found["gain"] == {"value": 0.0, "error": 0.0, "low": 0.0, "high": 0.0}
    # It knew up to 99 rounds more than the one that decided.
    shown = policy(await evaluated(client, path), "deciding")
    assert (shown["rounds"], found["rounds"]) == (600, 600)
    assert found["dr"]["value"] > shown["ips"]["value"] + 0.01
    # Promoted, it brings what it wrote down; a newcomer has nothing to be compared by.
    await client.post(f"{path}/challengers", json=twin | {"name": "other"})
    await client.post(f"{path}/challengers/twin/promote")
    found = await evaluated(client, path)
    nothing = dict.fromkeys(("value", "error", "low", "high"), 0.0)
    assert policy(found, "challenger", "original")["gain"] == nothing
    assert policy(found, "challenger", "other")["gain"] is None
    assert policy(found, "deciding")["rounds"] == 0
    await client.post(f"{path}/challengers/original/promote")
    # In rounds that somebody else decided it is held against him.
    told = [
        {"x": [2, 0, 0], "label": "abc"[n % 3], "propensity": 1 / 3, "feedback": int(n % 3 == 0)}
        for n in range(600)
    ]
    await client.post(f"{path}/rounds/batch", json={"items": told})
    found = policy(await evaluated(client, path, rounds=600), "challenger", "twin")
    assert found["gain"]["value"] > 0.3


def test_rounds_of_which_the_deciding_one_wrote_nothing_down_are_not_compared() -> None:
    """Protects who promotes from a state of an older version, which did not know of it."""
    forward: Json = {"kind": "forward", "n_waves": 0}
    fold = fold_of(learner=forward, challengers=[{"name": "twin", "learner": forward}])
    # All decided before any is heard of: a twin knows more of the later ones.
    events = [round_of(fold, number) for number in range(240)]
    logged = []
    for seq, event in enumerate(events, 1):
        if seq == 41:
            fold.contest.record = Record()
        fold.apply(event)
        assert isinstance(event.payload, Decision)
        logged.append(Logged(seq, event.payload, event.feedback or 0))
    out = evaluation._evaluate(Newest(logged, {}), evaluation._told(fold), "")
    twin = next(each for each in out.policies if each.policy == "challenger")
    assert twin.rounds == 240
    assert twin.gain == ValueOut(0.0, 0.0, 0.0, 0.0)
    # Fewer than 100 of more are too few, while `trusted` is of all of them.
    for last, told in ((140, True), (139, False)):
        out = evaluation._evaluate(Newest(logged[:last], {}), evaluation._told(fold), "")
        twin = next(each for each in out.policies if each.policy == "challenger")
        assert (twin.gain is not None) is told


async def test_silence_is_evaluated_as_it_is_learned(client: httpx.AsyncClient) -> None:
    """An expired decision is a missing click, or nothing, as the spec says."""
    for on_expiry, rounds in (("no_click", 3), ("ignore", 0)):
        path = await create(client, on_expiry=on_expiry, window_s=0.1)
        for number in range(3):
            await client.post(f"{path}/predict", json={"x": [1, 2, number]})
        async with asyncio.timeout(30):
            expired = 0
            while expired < 3:
                await asyncio.sleep(0.02)
                expired = (await client.get(path)).json()["counters"]["expired"]
        assert (await evaluated(client, path))["rounds"] == rounds


async def test_clicks_are_no_merit_before_silence_is_known(client: httpx.AsyncClient) -> None:
    """Nothing is told of a young model whose windows are open, and all of it when they closed."""
    options = {"learner": {"kind": "banditron"}, "on_expiry": "no_click", "window_s": 2.0}
    path = await create(client, **options)
    asked = {"items": [{"x": [1, 2, 3]}] * 150}
    ids = [
        each["decision_id"]
        for each in (await client.post(f"{path}/predict/batch", json=asked)).json()["items"]
    ]
    clicks = [{"decision_id": each, "feedback": 1} for each in ids[:120]]
    answer = await client.post(f"{path}/feedback/batch", json={"items": clicks})
    assert answer.json()["items"] == [{"status": "held", "seq": None, "feedback": 1}] * 120
    assert (await evaluated(client, path))["rounds"] == 0
    async with asyncio.timeout(30):
        pending = 150
        while pending:
            await asyncio.sleep(0.05)
            pending = (await client.get(path)).json()["counters"]["pending"]
    found = await evaluated(client, path)
    assert (found["rounds"], policy(found, "deciding")["ips"]["value"]) == (150, 0.8)


async def test_rates_of_another_hour_are_not_trusted(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is doubted of the learner's rates is doubted of all values."""
    path = await create(client, learner=LEARNER)
    await play(client, path, 300)
    assert policy(await evaluated(client, path), "deciding")["trusted"]
    said = "noise may come and go: the learner began anew at events 100 and 200"
    monkeypatch.setattr(evaluation, "doubt_about_changes", lambda *_: said)
    found = (await evaluated(client, path))["policies"]
    assert [(each["trusted"], each["verdict"]) for each in found] == [(False, said)] * len(found)


async def test_a_log_of_clicks_alone_is_not_trusted(client: httpx.AsyncClient) -> None:
    """Whoever tells of clicks and of nothing else is told so."""
    path = await create(client, learner={"kind": "banditron"})
    asked = {"items": [{"x": [1, 2, 3]}] * 120}
    made = (await client.post(f"{path}/predict/batch", json=asked)).json()["items"]
    clicks = [{"decision_id": each["decision_id"], "feedback": 1} for each in made]
    await client.post(f"{path}/feedback/batch", json={"items": clicks})
    verdict = policy(await evaluated(client, path), "deciding")["verdict"]
    assert verdict == "every round was clicked: rounds without a click seem not to be logged"


async def test_rates_that_clicks_contradict_are_not_trusted(client: httpx.AsyncClient) -> None:
    """Nine of ten clicks cannot be missed where half of the rounds are clicked."""
    path = await create(client, learner=LEARNER | {"rho_0": 0.0, "rho_1": 0.9})
    await play(client, path, 400)
    found = policy(await evaluated(client, path), "deciding")
    assert found["snips"]["value"] - 4 * found["snips"]["error"] > 1
    assert not found["trusted"]
    assert "which is no probability" in found["verdict"]


async def test_few_constant_labels_are_told_of(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were shown most often, and none that is retired."""
    monkeypatch.setattr(evaluation, "MOST_CONSTANT", 1)
    path = await create(client, learner=LEARNER)
    await play(client, path, 300)
    counts = np.bincount((await rounds_of(client, path)).labels, minlength=3)
    most, second, _ = ("abc"[code] for code in np.argsort(-counts, kind="stable"))
    for expected in (most, second):
        found = await evaluated(client, path)
        assert [p["name"] for p in found["policies"] if p["policy"] == "label"] == [expected]
        await client.post(f"{path}/labels", json={"retire": [expected]})


async def test_the_work_is_bounded(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the values of all rounds together, and by the entries that are looked at."""
    path = await create(client, learner=LEARNER)
    await play(client, path, 600)
    monkeypatch.setattr(evaluation, "MOST_VALUES", 300)
    assert (await evaluated(client, path))["rounds"] == 100
    monkeypatch.undo()
    monkeypatch.setattr(evaluation, "MOST_ENTRIES", 1)
    assert (await evaluated(client, path))["rounds"] == BACK_ENTRIES * BACK_PARTS


@pytest.mark.parametrize("rounds", ["1", "20001", "x", "1.5"])
async def test_other_numbers_of_rounds_are_refused(client: httpx.AsyncClient, rounds: str) -> None:
    """The refusal names what was asked."""
    path = await create(client)
    answer = await client.get(f"{path}/evaluation", params={"rounds": rounds})
    assert answer.status_code == 422
    assert answer.json()["error"]["details"][0]["where"].endswith("rounds")


async def test_a_learner_from_labels_is_refused(client: httpx.AsyncClient) -> None:
    """It makes no decisions that could be told of."""
    path = await create(client, learner={"kind": "perceptron"})
    assert (await client.get(f"{path}/evaluation")).status_code == 422


def test_the_rates_are_those_in_force() -> None:
    """The log's last, each label's own where they are known; else the learner's, else none."""
    fold = fold_of(learner=RCNBF)
    rates, source = rates_in_force(fold)
    assert (source, rates.rho_0.tolist(), rates.rho_1.tolist()) == ("learner", [0.1] * 3, [0.2] * 3)
    each = RatesByLabel([0.1, 0.2, 0.3], [0.2, 0.1, 0.0], [0.01] * 3, [0.02] * 3)
    fold.apply(admin(Rates(0.25, 0.15, each)))
    fold.apply(admin(LabelChange(["d"], [])))
    rates, source = rates_in_force(fold)
    assert (source, rates.sharing) == ("log", "own")
    assert rates.rho_0.tolist() == [0.1, 0.2, 0.3, 0.25]
    assert rates.rho_1_error.tolist()[:3] == [0.02] * 3
    assert rates.rho_1_error[3] > 0.25
    # Labels that were found to be alike: what their rates are off by is the same for all.
    fold.apply(admin(Rates(0.25, 0.15, each, (0.03, 0.04))))
    rates, source = rates_in_force(fold)
    assert (source, rates.sharing, rates.rho_0.tolist()) == ("log", "one", [0.25] * 4)
    assert (rates.rho_0_error.tolist(), rates.rho_1_error.tolist()) == ([0.03] * 4, [0.04] * 4)
    # A label of which no click can be corrected: the common rates, for all.
    senseless = RatesByLabel([0.1, 0.6, 0.3], [0.2, 0.4, 0.0], [0.01] * 3, [0.02] * 3)
    fold.apply(admin(Rates(0.25, 0.15, senseless)))
    rates, source = rates_in_force(fold)
    assert (source, rates.sharing, rates.rho_0.tolist()) == ("log", "one", [0.25] * 4)
    for learner in ({"kind": "bpa"}, {"kind": "rcine"}):
        rates, source = rates_in_force(fold_of(learner=learner))
        assert (source, rates.rho_1.tolist()) == ("nothing", [0.0] * 3)


def test_a_learner_that_finds_rates_goes_on_from_an_estimate() -> None:
    """Clicks are corrected by the rates that they show now; those that were set stay."""
    fold = fold_of(learner={"kind": "forward_softmax"}, estimate_every=1000)
    each = RatesByLabel([0.1, 0.2, 0.3], [0.2, 0.1, 0.0], [0.01] * 3, [0.02] * 3)
    fold.apply(admin(Rates(0.2, 0.1, each)))
    rates, source = rates_in_force(fold)
    assert (source, rates.rho_0.tolist()) == ("learner", pytest.approx([0.1, 0.2, 0.3], abs=0.02))
    for number in range(200):
        fold.apply(round_of(fold, number)._replace(feedback=1))
    rates, source = rates_in_force(fold)
    assert (source, rates.rho_0.tolist()) == ("learner", fold.learner.label_rates[0].tolist())
    assert rates.sharing == "unknown"
    assert rates.rho_1[1] < 0.09
    fold.apply(admin(Rates(0.25, 0.15)))
    rates, source = rates_in_force(fold)
    assert (source, rates.rho_0.tolist()) == ("log", [0.25] * 3)
