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


def test_it_finds_the_noise_by_itself(http: httpx.Client) -> None:
    """Over HTTP: the rates of each label that it found, who found them, and what they correct."""
    spec = {"labels": LABELS, "features": {"type": "dense", "size": 3}, "scaling": "none"}
    model = Model(http, **spec, learner={"kind": "forward_softmax", "n_waves": 0})
    del model.spec["learner"]
    named = http.post("/v1/models", json=model.spec | {"name": "by-default"}).json()
    assert named["learner"]["kind"] == "forward_softmax"
    rng = np.random.default_rng(0)
    for _ in range(ROUNDS // BATCH):
        truths = rng.integers(3, size=BATCH)
        xs = rng.normal(size=(BATCH, 3)) * 0.3 + np.eye(3)[truths]
        decisions = model.post_lines("predict", [{"x": x.tolist()} for x in xs])
        told = []
        for truth, decision, flip in zip(truths, decisions, rng.random(BATCH), strict=True):
            label = decision["label"]
            clicked = flip >= RHO_1 if label == LABELS[truth] else flip < RHO_0[label]
            told.append({"decision_id": decision["decision_id"], "feedback": int(clicked)})
        model.post_lines("feedback", told)
    noise = http.get(f"{model.path}/noise").json()
    found = {name: each["rho_0"] for name, each in noise["rates_by_label"].items()}
    assert found["c"] > 0.4 > max(found["a"], found["b"])
    assert abs(noise["rates"]["rho_0"] - np.mean(list(found.values()))) < 1e-9
    assert (noise["estimate_every"], noise["history"], noise["learned"]) == (0, [], True)
    assert not noise["known"]
    evaluation = http.get(f"{model.path}/evaluation").json()
    assert (evaluation["rates_from"], evaluation["by_label"]) == ("learner", True)
    assert abs(evaluation["rho_0"] - noise["rates"]["rho_0"]) < 1e-9
    # Somebody who knows better sets them: then they stay.
    answer = http.post(f"{model.path}/rates", json={"rho_0": 0.1, "rho_1": 0.2})
    assert answer.status_code == 200, answer.text
    noise = http.get(f"{model.path}/noise").json()
    assert noise["rates"] == pytest.approx({"rho_0": 0.1, "rho_1": 0.2})
    assert (noise["learned"], noise["known"]) == (False, True)
    http.delete(model.path)
    http.delete("/v1/models/by-default")
