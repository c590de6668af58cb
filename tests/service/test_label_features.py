"""Features of labels: in specs, while a model runs, and in its log."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest

from service.errors import Invalid
from service.events import ChallengerChange, LabelChange
from service.fold import Fold
from service.spec import ModelSpec
from tests.service.apps import app_client, create, spec_of
from tests.service.folds import entry_of, round_of
from tests.service.test_challengers import admin

FORWARD: dict[str, Any] = {"kind": "forward", "n_waves": 0, "n_label_features": 2}
FEATURES = {"a": [1.0, 0.0], "b": [0.0, 2.0]}
RIVAL: dict[str, Any] = {"name": "rival", "learner": FORWARD | {"gain": 5.0}}


THREE: dict[str, Any] = {"name": "three", "learner": FORWARD | {"n_label_features": 3}}


def fold_of(**change: Any) -> Fold:
    """Return the fold of a model whose labels a and b are described, and c is not."""
    spec = {"learner": FORWARD, "labels": ["a", "b", "c"], "label_features": FEATURES}
    return Fold(ModelSpec.model_validate(spec_of(**(spec | change))), "0f" * 8)


def test_every_worker_folds_to_the_same_bytes() -> None:
    """From the start or from any snapshot; a challenger that comes later knows them, too."""
    changes: dict[int, Any] = {
        5: LabelChange(["d"], [], {"d": [3.0, 0.0]}),
        9: ChallengerChange("add", **RIVAL),
        13: LabelChange([], ["c"], {"a": [0.0, -1.0]}),
        17: LabelChange(["c", "e"], []),
    }
    first, second = fold_of(), fold_of()
    log = []
    for number in range(24):
        change = changes.get(number)
        event = round_of(first, number) if change is None else admin(change)
        log.append(entry_of(first, event))
        first.follow(log[-1])
    assert first.rejected == 0
    assert first.contest.label_features == {0: [0.0, -1.0], 1: [0.0, 2.0], 3: [3.0, 0.0]}
    features = [learner.state()["label_features"] for learner in first.contest.learners]
    assert len(features) == 2
    expected = [[0.0, -1.0], [0.0, 2.0], [0.0, 0.0], [3.0, 0.0], [0.0, 0.0]]
    assert [np.asarray(each).tolist() for each in features] == [expected, expected]
    for entry in log:
        second.follow(entry)
        third = fold_of()
        third.restore(second.encode(), second.seq, second.chain)
        for later in log[second.seq :]:
            third.follow(later)
        assert third.encode() == first.encode()


def test_a_challenger_of_another_length_is_refused() -> None:
    """It could not be told what the labels are like."""
    fold = fold_of()
    with pytest.raises(Invalid, match="n_label_features: expected 2, as many as the model"):
        fold.contest.new_challenger(
            ModelSpec.model_validate(spec_of(learner=FORWARD, challengers=[THREE])).challengers[0],
            "",
        )


async def refused(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> tuple[str, str]:
    """Return where a 422 says that the fault is, and what it says."""
    answer = await client.post(path, json=body)
    assert answer.status_code == 422, answer.text
    detail = answer.json()["error"]["details"][0]
    return detail["where"], detail["expected"]


@pytest.mark.parametrize(
    ("change", "where", "said"),
    [
        ({"label_features": {"z": [1.0, 2.0]}}, "label_features", "'z' is none of them"),
        ({"label_features": {"a": [1.0]}}, "label_features.a", "2 numbers"),
        ({"label_features": {"a": []}}, "label_features.a", "1 or more"),
        ({"label_features": {"a": [1.0, 1e7]}}, "label_features.a[1]", "1000000"),
        ({"label_features": {"a": ["1", 2.0]}}, "label_features.a[0]", "number"),
        ({"learner": {"kind": "forward"}, "label_features": FEATURES}, "learner", "n_label_feat"),
        ({"learner": {"kind": "bpa"}, "label_features": FEATURES}, "learner", "n_label_features"),
        ({"challengers": [THREE]}, "challengers[0].learner.n_label_features", "2, as another lea"),
    ],
)
async def test_specs_that_cannot_be_are_refused(
    valkey_url: str, change: dict[str, Any], where: str, said: str
) -> None:
    """Unknown labels, other lengths, and learners that use no features are named."""
    async with app_client(valkey_url) as client:
        place, expected = await refused(
            client, "/v1/models", spec_of(**{"learner": FORWARD, **change})
        )
        assert place == where
        assert said in expected


async def test_labels_come_with_their_features(valkey_url: str) -> None:
    """A label is described when it comes and anew later; the same again changes nothing."""
    async with app_client(valkey_url) as client:
        model = await create(client, learner=FORWARD, label_features=FEATURES)
        path = f"{model}/labels"
        body = {"add": ["d"], "features": {"d": [0.5, 0.5]}}
        first = await client.post(path, json=body)
        assert first.status_code == 200, first.text
        assert first.json()["label_features"] == FEATURES | {"d": [0.5, 0.5]}
        seq = first.json()["seq"]
        assert (await client.post(path, json=body)).json()["seq"] == seq
        anew = await client.post(path, json={"add": ["d"], "features": {"d": [0.5, -0.5]}})
        assert anew.json()["seq"] == seq + 1
        assert await refused(client, path, {"features": {"d": [1.0, 1.0]}}) == (
            "features.d",
            "a label that is in add",
        )
        where, said = await refused(client, path, {"add": ["e"], "features": {"e": [1.0]}})
        assert (where, "2 numbers" in said) == ("features.e", True)
        assert (await client.get(model)).json()["seq"] == seq + 1
        await client.post(
            path, json={"add": ["a", "f"], "retire": ["b"], "features": {"a": [0, 3]}}
        )
        # Those of a retired label hold when it comes back; one without any is left out.
        present = (await client.get(model)).json()["label_features"]
        assert present == {"a": [0.0, 3.0], "b": [0.0, 2.0], "d": [0.5, -0.5]}

        exported = (await client.get(f"{model}/log")).content
        digest = (await client.get(f"{model}/state")).headers["x-misclick-sha256"]
        await client.delete(model)
        back = await client.post(
            f"{model}/import",
            content=exported,
            headers={"content-type": "application/x-ndjson"},
        )
        assert back.status_code == 201, back.text
        assert back.json()["label_features"] == present
        assert (await client.get(f"{model}/state")).headers["x-misclick-sha256"] == digest


async def test_learners_want_as_many_features_as_each_other(valkey_url: str) -> None:
    """Also where none were said yet: later none could be, since each learner asks for its own."""
    async with app_client(valkey_url) as client:
        path = await create(client, learner={"kind": "forward"}, challengers=[RIVAL])
        place, expected = await refused(client, f"{path}/challengers", THREE)
        assert (place, expected) == (
            "learner.n_label_features",
            "2, as another learner of the model has",
        )
        for again in ({"name": "two", "learner": FORWARD}, RIVAL):
            assert (await client.post(f"{path}/challengers", json=again)).status_code == 200
