"""The whole API over real HTTP: every call does what docs/api.md says."""

import io
import time

import httpx
import numpy as np
import pytest

from service.codec import encode_state, state_digest
from service.events import Decision, Event, Example, Kind, LabelChange, Rates
from service.fold import Fold
from service.spec import ModelSpec
from tests.service.apps import JSON, RCNBF, Json
from tests.service.live import Items, Model, refused

BATCH = 1000


# -- models -----------------------------------------------------------------------------------
def test_a_model_is_created_once(http: httpx.Client) -> None:
    """201, then 200 for the same spec, 409 for another; listed, described, deleted."""
    model = Model(http, scaling="unit", window_s=30, seed=5)
    created = model.created
    assert created["labels"] == [{"name": n, "active": True} for n in "abc"]
    assert created["learner"] == RCNBF
    assert (created["seq"], created["snapshot_seq"]) == (0, 0)
    assert set(created["counters"].values()) == {0}
    assert abs(created["created_at_ms"] - time.time() * 1000) < 60_000
    again = http.post("/v1/models", json=model.spec)
    assert (again.status_code, again.json()) == (200, created)
    other = http.post("/v1/models", json=model.spec | {"seed": 6})
    assert (other.status_code, refused(other.json())) == (409, "conflict")
    assert created in http.get("/v1/models").json()["models"]
    assert model.describe() == created
    gone = http.delete(model.path)
    assert (gone.status_code, gone.content) == (204, b"")
    assert http.delete(model.path).status_code == 404
    assert http.get(model.path).status_code == 404
    assert created not in http.get("/v1/models").json()["models"]


@pytest.mark.parametrize(
    "body", [b"{", b"\xff", b'{"labels":' + b"[" * 100_000, b'{"seed":' + b"9" * 5000 + b"}"]
)
def test_a_spec_that_is_no_json_is_malformed(http: httpx.Client, body: bytes) -> None:
    """400 in the one form of errors, whatever it is on which the parser of bodies gives up."""
    answer = http.post("/v1/models", content=body, headers=JSON)
    assert (answer.status_code, refused(answer.json())) == (400, "malformed")


def test_defaults_that_are_spelled_out_make_no_other_spec(http: httpx.Client) -> None:
    """Protects whoever makes sure that a model is there with a client that sends all options."""
    challenger = {"name": "other", "learner": {"kind": "bpa"}}
    model = Model(http, learner={"kind": "forward", "gamma": 0.1}, challengers=[challenger])
    spelled_out = {"kind": "forward", "gamma": 0.1, "seed": 0, "exploration": "gaps"}
    full = {"name": "other", "learner": {"kind": "bpa", "gamma": 0.03}}
    spec = model.spec | {"learner": spelled_out, "challengers": [full]}
    assert http.post("/v1/models", json=spec).status_code == 200
    assert http.post(f"{model.path}/challengers", json=full).status_code == 200
    other = http.post("/v1/models", json=spec | {"learner": spelled_out | {"seed": 1}})
    assert other.status_code == 409
    assert other.json()["error"]["message"].endswith("look at learner.seed")


def test_a_spec_that_is_no_json_says_where(http: httpx.Client) -> None:
    """Who left a comma too many is told at which character."""
    answer = http.post("/v1/models", content=b'{"name": "ads",}', headers=JSON)
    message = answer.json()["error"]["message"]
    assert message.startswith("the body is not JSON: ")
    assert message.endswith((" (character 14)", " (character 15)"))


def test_a_model_made_anew_knows_nothing_of_the_old_one(http: httpx.Client) -> None:
    """Ids of the deleted model are unknown to its successor of the same name."""
    model = Model(http)
    old = model.post("predict", {"x": [1, 2, 3], "request_id": "r"})
    http.delete(model.path)
    http.post("/v1/models", json=model.spec)
    model.post("feedback", {"decision_id": old["decision_id"], "feedback": 1}, 404)
    new = model.post("predict", {"x": [3, 2, 1], "request_id": "r"})
    assert new["decision_id"] != old["decision_id"]
    http.delete(model.path)


# -- rounds -----------------------------------------------------------------------------------
def test_a_round(model: Model) -> None:
    """A decision with its propensity, its feedback, the same again, and another one."""
    now_ms = time.time() * 1000
    decision = model.post("predict", {"x": [0.5, -1, 2]})
    assert len(decision["decision_id"]) == 40
    assert decision["label"] in ("a", "b", "c")
    assert 0 < decision["propensity"] <= 1
    assert decision["seq"] == 0
    assert abs(decision["expires_at_ms"] - now_ms - 600_000) < 60_000
    sent = {"decision_id": decision["decision_id"], "feedback": 1}
    assert model.post("feedback", sent) == {"status": "applied", "seq": 1, "feedback": 1}
    assert model.post("feedback", sent) == {"status": "duplicate", "seq": 1, "feedback": 1}
    answer = model.post("feedback", sent | {"feedback": 0}, 409)
    assert refused(answer) == "conflict"
    assert "is 1 already" in answer["error"]["message"]
    assert model.counters() == {
        "decisions": 1,
        "feedback": 1,
        "clicks": 1,
        "duplicates": 1,
        "conflicts": 1,
    }


def test_a_request_gets_one_decision(model: Model) -> None:
    """A retry gets the same answer before and after feedback; another question a 409."""
    body = {"x": [1, 2, 3], "request_id": "r-1", "allowed": ["b", "a"]}
    first = model.post("predict", body)
    assert first["label"] in ("a", "b")
    assert model.post("predict", body) == first
    assert model.post("predict", body | {"allowed": ["a", "b"]}) == first
    model.post("feedback", {"decision_id": first["decision_id"], "feedback": 0})
    assert model.post("predict", body) == first
    for change in ({"x": [1, 2, 4]}, {"allowed": ["a"]}, {"allowed": None}):
        assert refused(model.post("predict", body | change, 409)) == "conflict"
    assert model.counters() == {"decisions": 1, "feedback": 1}


def test_decisions_can_wait_for_the_log(model: Model) -> None:
    """`min_seq` reads one's writes; a log that is not there yet is a 409."""
    decision = model.post("predict", {"x": [1, 2, 3]})
    seq = model.post("feedback", {"decision_id": decision["decision_id"], "feedback": 1})["seq"]
    assert model.post("predict", {"x": [1, 2, 3], "min_seq": seq})["seq"] >= seq
    ahead = {"x": [1, 2, 3], "min_seq": seq + 1}
    assert refused(model.post("predict", ahead, 409)) == "conflict"
    items = [{"x": [1, 2, 3], "min_seq": seq}, ahead]
    assert refused(model.post("predict/batch", {"items": items}, 409)) == "conflict"
    assert model.post("predict/batch", {"items": items[:1]})["items"][0]["seq"] >= seq


@pytest.mark.parametrize("form", ["json", "ndjson"])
def test_batches_of_a_thousand(model: Model, form: str) -> None:
    """A thousand decisions and feedbacks a call, each with its own answer, in their order."""
    rng = np.random.default_rng(1)
    items: Items = [
        {"x": row, "request_id": f"r{i}"}
        for i, row in enumerate(rng.normal(size=(BATCH, 3)).tolist())
    ]

    def batch(call: str, items: Items) -> Items:
        if form == "ndjson":
            return model.post_lines(call, items)
        found: Items = model.post(f"{call}/batch", {"items": items})["items"]
        return found

    decisions = batch("predict", items)
    assert len({d["decision_id"] for d in decisions}) == BATCH
    for i in (0, 499, 999):
        assert model.post("predict", items[i]) == decisions[i]
    clicks = [{"decision_id": d["decision_id"], "feedback": i % 2} for i, d in enumerate(decisions)]
    receipts = batch("feedback", clicks)
    assert receipts == [
        {"status": "applied", "seq": i + 1, "feedback": i % 2} for i in range(BATCH)
    ]
    mixed = [
        clicks[0],
        {"decision_id": clicks[1]["decision_id"], "feedback": 0},
        {"decision_id": clicks[2]["decision_id"][::-1], "feedback": 1},
        {"decision_id": "x", "feedback": 1},
    ]
    assert batch("feedback", mixed) == [
        {"status": "duplicate", "seq": 1, "feedback": 0},
        {"status": "conflict", "seq": 2, "feedback": 1},
        {"status": "unknown", "seq": None, "feedback": None},
        {"status": "unknown", "seq": None, "feedback": None},
    ]
    assert model.describe()["seq"] == BATCH


def test_a_batch_is_decided_whole_or_not_at_all(model: Model) -> None:
    """One wrong instance, and no decision of the batch is recorded."""
    items: Items = [{"x": [1, 2, 3]}, {"x": [1, 2]}]
    answer = model.post("predict/batch", {"items": items}, 422)
    assert answer["error"]["details"][0]["where"] == "items[1].x"
    model.post("predict/batch", {"items": [{"x": [1, 2, 3]}] * (BATCH + 1)}, 413)
    assert model.counters() == {}


def test_one_feedback_twice_in_a_batch(model: Model) -> None:
    """The first one counts, the second is the duplicate it is."""
    decision = model.post("predict", {"x": [1, 2, 3]})["decision_id"]
    items = [{"decision_id": decision, "feedback": bit} for bit in (1, 1, 0)]
    receipts = model.post("feedback/batch", {"items": items})["items"]
    assert [r["status"] for r in receipts] == ["applied", "duplicate", "conflict"]


# -- examples ---------------------------------------------------------------------------------
def test_examples_are_learned_once(http: httpx.Client) -> None:
    """A label learner learns, alone and in batches; a request id counts once."""
    model = Model(http, learner={"kind": "perceptron"})
    x = {"a": [1, 0, 0], "b": [0, 1, 0], "c": [0, 0, 1]}
    body = {"x": x["a"], "label": "a", "request_id": "e-1"}
    assert model.post("learn", body) == {"status": "applied", "seq": 1, "feedback": None}
    assert model.post("learn", body) == {"status": "duplicate", "seq": 1, "feedback": None}
    assert refused(model.post("learn", body | {"label": "b"}, 409)) == "conflict"
    items = [{"x": x[label], "label": label} for label in "abc"] * 5
    assert [r["seq"] for r in model.post_lines("learn", items)] == list(range(2, 17))
    for label, row in x.items():
        decision = model.post("predict", {"x": row})
        # Nothing is recorded for a learner that takes no feedback.
        assert decision == {
            "decision_id": None,
            "label": label,
            "greedy": label,
            "propensity": 1.0,
            "seq": 16,
            "expires_at_ms": None,
        }
    click = {"decision_id": "x", "feedback": 1}
    for call, told in (("feedback", click), ("feedback/batch", {"items": [click]})):
        answer = model.post(call, told, 422)
        assert "a learner that takes feedback" in answer["error"]["message"]
    answer = model.post("learn", {"x": [1, 2, 3], "label": "z"}, 422)
    assert answer["error"]["details"][0]["where"] == "label"
    answer = model.post("learn/batch", {"items": [items[0], {"x": [1, 2, 3], "label": "z"}]}, 422)
    assert answer["error"]["details"][0]["where"] == "items[1].label"
    assert model.counters() == {"learned": 16, "duplicates": 1, "conflicts": 1}
    http.delete(model.path)


def test_a_request_id_is_one_question(model: Model) -> None:
    """An id may name a decision and an example, which have nothing to do with each other."""
    visit = {"x": [1, 2, 3], "request_id": "visit"}
    example, other = visit | {"label": "a"}, visit | {"x": [1, 2, 4]}
    assert model.post("learn", example)["status"] == "applied"
    decision = model.post("predict", visit)
    model.post("feedback", {"decision_id": decision["decision_id"], "feedback": 1})
    assert model.post("learn", example)["status"] == "duplicate"
    assert model.post("predict", visit)["decision_id"] == decision["decision_id"]
    assert refused(model.post("predict", other, 409)) == "conflict"
    assert refused(model.post("learn", other | {"label": "a"}, 409)) == "conflict"


def test_a_feedback_learner_refuses_what_it_cannot_learn(http: httpx.Client) -> None:
    """Labels for a learner of feedback, rates for one that has none: 422, and nothing logged."""
    model = Model(http, learner={"kind": "bpa"})
    example = {"x": [1, 2, 3], "label": "a"}
    for call, told in (("learn", example), ("learn/batch", {"items": [example]})):
        answer = model.post(call, told, 422)
        assert "a learner that takes labels" in answer["error"]["message"]
    answer = model.post("rates", {"rho_0": 0.1, "rho_1": 0.1}, 422)
    assert "a learner that uses noise rates" in answer["error"]["message"]
    assert model.describe()["seq"] == 0
    http.delete(model.path)


# -- expiry -----------------------------------------------------------------------------------
@pytest.mark.parametrize("on_expiry", ["ignore", "no_click"])
def test_silence_ends_a_decision(http: httpx.Client, on_expiry: str) -> None:
    """After the window exactly one expire event is logged, and feedback is late."""
    model = Model(http, window_s=0.1, on_expiry=on_expiry)
    made = [model.post("predict", {"x": [1, 2, i]})["decision_id"] for i in range(3)]
    end_s = time.monotonic() + 30
    while model.counters().get("expired") != 3 and time.monotonic() < end_s:
        time.sleep(0.05)
    late = {"status": "late", "seq": None, "feedback": None}
    assert model.post("feedback", {"decision_id": made[0], "feedback": 1}) == late
    items = [{"decision_id": d, "feedback": 1} for d in made]
    assert model.post("feedback/batch", {"items": items})["items"] == [late] * 3
    assert model.counters() == {"decisions": 3, "expired": 3, "late": 4}
    assert [(e["kind"], e.get("feedback")) for e in model.log()] == [("expire", None)] * 3
    state = model.http.get(f"{model.path}/state")
    with np.load(io.BytesIO(state.content)) as arrays:
        assert bool(arrays["learner.weights"].any()) is (on_expiry == "no_click")
    http.delete(model.path)


def test_clicks_wait_for_silence_where_it_is_no_click(http: httpx.Client) -> None:
    """A click is acknowledged, counted as held, found again, and learned when the window closes."""
    model = Model(http, window_s=1.5, on_expiry="no_click")
    made = [model.post("predict", {"x": [1, 2, i]})["decision_id"] for i in range(3)]
    click = {"decision_id": made[1], "feedback": 1}
    assert model.post("feedback", click) == {"status": "held", "seq": None, "feedback": 1}
    assert model.post("feedback", click) == {"status": "duplicate", "seq": None, "feedback": 1}
    answer = model.post("feedback", click | {"feedback": 0}, 409)
    assert answer["error"]["message"] == "decision_id: its feedback is 1 already"
    assert model.describe()["seq"] == 0
    counted = {"decisions": 3, "pending": 3, "held": 1, "duplicates": 1, "conflicts": 1}
    assert model.counters() == counted
    name = model.path.rpartition("/")[2]
    assert f'misclick_held{{model="{name}"}} 1.0' in http.get("/metrics").text
    end_s = time.monotonic() + 30
    while model.counters().get("pending") and time.monotonic() < end_s:
        time.sleep(0.05)
    assert [(e["kind"], e.get("feedback")) for e in model.log()] == [
        ("expire", None),
        ("feedback", 1),
        ("expire", None),
    ]
    assert model.post("feedback", click) == {"status": "duplicate", "seq": 2, "feedback": 1}
    http.delete(model.path)


# -- files ------------------------------------------------------------------------------------
def test_the_state_is_the_fold_of_the_log(http: httpx.Client) -> None:
    """The downloaded state equals, bit for bit, what the exported events lead to."""
    model = Model(http, scaling="standard")
    rng = np.random.default_rng(3)
    for turn in range(4):
        items = [{"x": row} for row in rng.normal(size=(25, 3)).tolist()]
        made = model.post("predict/batch", {"items": items})["items"]
        clicks = [{"decision_id": d["decision_id"], "feedback": i % 2} for i, d in enumerate(made)]
        model.post("feedback/batch", {"items": clicks})
        if turn == 1:
            model.post("labels", {"add": ["d"], "retire": ["a"]})
            model.post("rates", {"rho_0": 0.05, "rho_1": 0.4})
            model.post("learn", {"x": [1, 2, 3], "label": "b"})
    fold = Fold(ModelSpec.model_validate(model.spec), "anything")
    names = [label["name"] for label in model.describe()["labels"]]
    for line in model.log():
        fold.apply(_event(line, names))
    answer = http.get(f"{model.path}/state")
    assert answer.headers["x-misclick-seq"] == str(fold.seq) == "103"
    assert answer.headers["x-misclick-chain"] == model.describe()["chain"]
    assert answer.headers["x-misclick-sha256"] == state_digest(encode_state(fold.state()))
    with np.load(io.BytesIO(answer.content), allow_pickle=False) as arrays:
        for name, value in fold.state().items():
            assert arrays[name].tobytes() == np.asarray(value).tobytes()
    http.delete(model.path)


def _event(line: Json, names: list[str]) -> Event:
    """Build an event from an exported line without the service's own reader."""
    kind = Kind[line["kind"].upper()]
    payload: Decision | Example | LabelChange | Rates
    if kind is Kind.LABELS:
        payload = LabelChange(line["add"], line["retire"])
    elif kind is Kind.RATES:
        payload = Rates(line["rho_0"], line["rho_1"])
    else:
        x, label = np.array(line["x"], dtype=np.float32), names.index(line["label"])
        if kind is Kind.LEARN:
            payload = Example(label, x)
        else:
            greedy = names.index(line["greedy"])
            payload = Decision(label, greedy, line["propensity"], 0, bytes(8), x)
    return Event(kind, 0, bytes(12), line.get("feedback"), payload)


# -- limits and operators ---------------------------------------------------------------------
def test_pending_decisions_are_capped(http: httpx.Client) -> None:
    """At max_pending new decisions wait with 503, and feedback makes room."""
    model = Model(http, max_pending=3)
    made = [model.post("predict", {"x": [1, 2, i]}) for i in range(3)]
    answer = model.post("predict", {"x": [1, 2, 3]}, 503)
    assert "max_pending" in answer["error"]["message"]
    model.post("feedback", {"decision_id": made[0]["decision_id"], "feedback": 1})
    model.post("predict", {"x": [1, 2, 3]})
    http.delete(model.path)


def test_operators_are_answered(http: httpx.Client) -> None:
    """Alive, ready with every check, metrics as text."""
    assert http.get("/livez").json() == {"live": True}
    ready = http.get("/readyz").json()
    assert ready["ready"] is True
    assert all(check["ok"] for check in ready["checks"])
    assert "misclick_requests_total" in http.get("/metrics").text


def test_nothing_tells_what_runs_here(http: httpx.Client) -> None:
    """No server header, no page for other sites, no answer without its type."""
    answer = http.get("/livez", headers={"origin": "https://example.org"})
    assert "server" not in answer.headers
    assert "access-control-allow-origin" not in answer.headers
    assert answer.headers["content-type"] == "application/json"
