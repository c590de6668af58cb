"""The learner of a model that names none: it is told no rates and finds them."""

from __future__ import annotations

import httpx
import numpy as np
import pytest

from tests.service.live import Model

LABELS = ["a", "b", "c"]
#: False clicks of each label, and missed ones of any.
RHO_0, RHO_1 = {"a": 0.05, "b": 0.1, "c": 0.7}, 0.1
ROUNDS, BATCH = 3_000, 500


def make(http: httpx.Client) -> Model:
    """Return a model with the default learner, without waves: the corners are far apart."""
    spec = {"labels": LABELS, "features": {"type": "dense", "size": 3}, "scaling": "none"}
    return Model(http, **spec, learner={"kind": "forward_softmax", "n_waves": 0})


def play(model: Model, rounds: int, seed: int, *, turned: int = 0, dead: bool = False) -> None:
    """Let a model decide on points around three corners, and answer with noisy clicks, or none."""
    rng = np.random.default_rng(seed)
    for turn in range(rounds // BATCH):
        corners = rng.integers(3, size=BATCH)
        xs = rng.normal(size=(BATCH, 3)) * 0.3 + np.eye(3)[corners]
        # A request_id decides the draw: the same rounds each time.
        items = [{"x": x.tolist(), "request_id": f"{seed}-{turn}-{i}"} for i, x in enumerate(xs)]
        decisions = model.post_lines("predict", items)
        told = []
        for corner, decision, flip in zip(corners, decisions, rng.random(BATCH), strict=True):
            label = decision["label"]
            right = label == LABELS[(corner + turned) % 3]
            clicked = not dead and (flip >= RHO_1 if right else flip < RHO_0[label])
            told.append({"decision_id": decision["decision_id"], "feedback": int(clicked)})
        model.post_lines("feedback", told)


def test_it_finds_the_noise_by_itself(http: httpx.Client) -> None:
    """Over HTTP: the rates of each label that it found, who found them, and what they correct."""
    model = make(http)
    del model.spec["learner"]
    named = http.post("/v1/models", json=model.spec | {"name": "by-default"}).json()
    assert named["learner"]["kind"] == "forward_softmax"
    play(model, ROUNDS, 0)
    noise = http.get(f"{model.path}/noise").json()
    found = {name: each["rho_0"] for name, each in noise["rates_by_label"].items()}
    assert found["c"] > 0.4 > max(found["a"], found["b"])
    assert abs(noise["rates"]["rho_0"] - np.mean(list(found.values()))) < 1e-9
    assert (noise["estimate_every"], noise["history"], noise["learned"]) == (0, [], True)
    assert not noise["known"]
    # How well: the false clicks of each, and of missed ones that it shows what is right.
    assert 0.01 < noise["errors"]["rho_0"] < 0.1
    assert abs(noise["rates"]["rho_1"] - RHO_1) < 3 * noise["errors"]["rho_1"] < 0.1
    own = noise["errors_by_label"]
    assert own.keys() == noise["rates_by_label"].keys()
    mean = sum(each["rho_0"] for each in own.values()) / len(own)
    assert noise["errors"]["rho_0"] == pytest.approx(mean)
    evaluation = http.get(f"{model.path}/evaluation").json()
    assert (evaluation["rates_from"], evaluation["by_label"]) == ("learner", True)
    assert abs(evaluation["rho_0"] - noise["rates"]["rho_0"]) < 1e-9
    # Somebody who knows better sets them: then they stay.
    answer = http.post(f"{model.path}/rates", json={"rho_0": 0.1, "rho_1": 0.2})
    assert answer.status_code == 200, answer.text
    noise = http.get(f"{model.path}/noise").json()
    assert noise["rates"] == pytest.approx({"rho_0": 0.1, "rho_1": 0.2})
    assert (noise["learned"], noise["known"], noise["errors"]) == (False, True, None)
    assert noise["errors_by_label"] == {}
    http.delete(model.path)
    http.delete("/v1/models/by-default")


def test_it_says_that_no_clicks_come(http: httpx.Client) -> None:
    """A dead counter is seen in the noise and in the metrics, and no rate moves meanwhile."""
    model = make(http)
    play(model, ROUNDS, 0)
    name = model.path.rpartition("/")[2]
    noise = http.get(f"{model.path}/noise").json()
    assert not noise["silent"]
    assert f'misclick_silent{{model="{name}"}} 0.0' in http.get("/metrics").text
    play(model, 2 * BATCH, 1, dead=True)
    noise = http.get(f"{model.path}/noise").json()
    assert noise["silent"]
    assert f'misclick_silent{{model="{name}"}} 1.0' in http.get("/metrics").text
    play(model, BATCH, 2, dead=True)
    assert http.get(f"{model.path}/noise").json() == noise
    play(model, BATCH, 3)
    assert not http.get(f"{model.path}/noise").json()["silent"]
    http.delete(model.path)


def test_it_says_that_features_tell_nothing(http: httpx.Client) -> None:
    """A pipeline that sends noise for features is seen in the noise and in the metrics."""
    labels = ["a", "b", "c", "d", "e"]
    features = {"type": "dense", "size": 5}
    learner = {"kind": "forward_softmax"}
    model = Model(http, labels=labels, features=features, scaling="none", learner=learner)
    name = model.path.rpartition("/")[2]
    assert not http.get(f"{model.path}/noise").json()["context_free"]
    assert f'misclick_context_free{{model="{name}"}} 0.0' in http.get("/metrics").text
    rng = np.random.default_rng(0)
    for turn in range(4_000 // BATCH):
        xs = rng.normal(size=(BATCH, 5)).tolist()
        items = [{"x": x, "request_id": f"{turn}-{i}"} for i, x in enumerate(xs)]
        told = []
        for decision in model.post_lines("predict", items):
            right = rng.choice(labels, p=[0.1, 0.6, 0.1, 0.1, 0.1])
            clicked = rng.random() < (0.6 if decision["label"] == right else 0.2)
            told.append({"decision_id": decision["decision_id"], "feedback": int(clicked)})
        model.post_lines("feedback", told)
    assert http.get(f"{model.path}/noise").json()["context_free"]
    assert f'misclick_context_free{{model="{name}"}} 1.0' in http.get("/metrics").text
    http.delete(model.path)


def test_it_says_that_it_began_anew(http: httpx.Client) -> None:
    """Labels that changed places: the learner tells how often clicks stayed away, everywhere."""
    model = make(http)
    play(model, ROUNDS, 0)
    assert http.get(f"{model.path}/noise").json()["restarts"] == 0
    assert http.get(f"{model.path}/evaluation").json()["first_seq"] == 1
    play(model, 2 * BATCH, 1, turned=1)
    assert http.get(f"{model.path}/noise").json()["restarts"] == 1
    # By the rates that it has found since then, rounds before would be worth anything.
    assert http.get(f"{model.path}/evaluation").json()["first_seq"] > ROUNDS
    name = model.path.rpartition("/")[2]
    told = f'misclick_restarts_total{{learner="original",model="{name}"}} 1.0'
    assert told in http.get("/metrics").text
    http.delete(model.path)
