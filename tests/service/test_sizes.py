"""What one model may hold: options that no learner could count with are refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from learners import LEARNERS
from service.codec import CodecError, decode_state, encode_state
from service.errors import Invalid
from service.events import Entry, Event, Kind, LabelChange, chain_after, pack_body
from service.exported import line_of
from service.fold import Fold
from service.sizes import MAX_INTEGER
from service.spec import MAX_WINDOW_ROWS, MAX_WINDOW_VALUES, ModelSpec
from tests.service.apps import NDJSON, app_client, create
from tests.service.folds import fold_of

HUGE = 10**400


@pytest.mark.parametrize("kind", LEARNERS)
def test_an_integer_of_a_thousand_digits_is_refused(kind: str) -> None:
    """JSON has them; taken for a k or a seed they were a 500, at once or at the download."""
    for name in LEARNERS[kind].option_names():
        for value in (HUGE, -HUGE, MAX_INTEGER + 1):
            with pytest.raises(Invalid) as refused:
                fold_of(learner={"kind": kind, name: value})
            (detail,) = refused.value.details
            assert detail == (f"learner.{name}", "a number within 64 bits", detail.got)
            assert len(detail.got) < 60


def test_a_challenger_has_none_either() -> None:
    """The place is the challenger's."""
    rival = {"name": "q", "learner": {"kind": "banditron", "gamma": HUGE}}
    with pytest.raises(Invalid, match=r"challengers\[0\]\.learner\.gamma: expected a number"):
        fold_of(challengers=[rival])


@pytest.mark.parametrize("kind", LEARNERS)
def test_a_state_with_one_is_none(kind: str) -> None:
    """An import of it was a 500: wherever it stands, what it is not is said."""
    spec = {"kind": kind, **dict.fromkeys(LEARNERS[kind].required_option_names(), 0.1)}
    fold = fold_of(learner=spec, estimate_on_drift=LEARNERS[kind].takes_rates)
    state = decode_state(fold.encode())
    for name in [name for name, value in state.items() if type(value) in (int, float)]:
        fresh = Fold(ModelSpec.model_validate(fold.spec.model_dump()), "incarnation")
        with pytest.raises(CodecError, match="not a state of this model"):
            fresh.restore(encode_state({**state, name: HUGE}), 0, "0" * 16)


def test_a_learner_with_a_window_for_each_label_has_room_for_all() -> None:
    """Protects an export, which holds the state in one line, and a worker's memory."""
    most = MAX_WINDOW_VALUES // (3 * 64)
    spec: dict[str, Any] = {"features": {"type": "dense", "size": 64}, "labels": ["a", "b", "c"]}
    fold_of(learner={"kind": "neighbor_bandit", "window": most}, **spec)
    for window in (most + 1, MAX_WINDOW_ROWS):
        with pytest.raises(Invalid, match=r"learner.window: expected window times features times"):
            fold_of(learner={"kind": "neighbor_bandit", "window": window}, **spec)
    # The window that it has where none is given counts too.
    wide = spec | {"features": {"type": "dense", "size": 2048}, "labels": [*"abcdefghi"]}
    with pytest.raises(Invalid, match="got 500 x 2048 x 9"):
        fold_of(learner={"kind": "neighbor_bandit"}, **wide)


@pytest.mark.parametrize("window", [MAX_WINDOW_ROWS + 1, 10**9])
@pytest.mark.parametrize("kind", ["rknn", "knn", "neighbor_bandit"])
def test_what_is_said_of_a_window_is_what_it_may_be(kind: str, window: int) -> None:
    """Not what a learner alone could take, which is refused again; nothing is made of it first."""
    with pytest.raises(Invalid, match=f"learner.window: expected at most {MAX_WINDOW_ROWS}, got"):
        fold_of(learner={"kind": kind, "window": window})


async def test_a_label_for_whose_window_there_is_no_room_is_refused(valkey_url: str) -> None:
    """It would make the state larger than any export holds."""
    learner = {"kind": "neighbor_bandit", "window": MAX_WINDOW_VALUES // (3 * 1024)}
    features = {"type": "dense", "size": 1024}
    async with app_client(valkey_url) as client:
        path = await create(client, learner=learner, features=features)
        refused = await client.post(f"{path}/labels", json={"add": ["d"]})
        described = (await client.get(path)).json()
    assert refused.status_code == 422
    assert "window times features times labels" in refused.json()["error"]["message"]
    assert [each["name"] for each in described["labels"]] == ["a", "b", "c"]


@pytest.mark.parametrize("challengers", [[], [{"name": "wide", "learner": {"kind": "forward"}}]])
async def test_labels_that_a_grown_learner_refuses_are_refused(
    valkey_url: str, challengers: list[Any]
) -> None:
    """Its blocks are those of the labels that it began with: not what a fresh one would take."""
    names = [f"item-{i}" for i in range(460)]
    spec: dict[str, Any] = {"labels": names[:60], "features": {"type": "dense", "size": 2}}
    deciding = {"kind": "banditron" if challengers else "forward"}
    async with app_client(valkey_url) as client:
        path = await create(client, learner=deciding, challengers=challengers, **spec)
        grown = await client.post(f"{path}/labels", json={"add": names[60:260]})
        assert grown.status_code == 200, grown.text
        change = {"add": names[260:], "retire": names[:200]}
        refused = await client.post(f"{path}/labels", json=change)
        assert refused.status_code == 422
        assert "block_size" in refused.json()["error"]["message"]
        described = (await client.get(path)).json()
        assert [each["active"] for each in described["labels"]] == [True] * 260
        assert [each["name"] for each in described["challengers"]] == [
            each["name"] for each in challengers
        ]


async def test_a_copy_grows_as_the_original_did(valkey_url: str) -> None:
    """Protects the backup of a model that outgrew the learner that it began with."""
    names = [f"item-{i}" for i in range(500)]
    spec: dict[str, Any] = {"labels": names[:60], "features": {"type": "dense", "size": 2}}
    plain = {"name": "plain", "learner": {"kind": "forward", "n_waves": 0}}
    async with app_client(valkey_url) as client:
        path = await create(client, learner={"kind": "forward"}, challengers=[plain], **spec)
        for call in (
            client.post(f"{path}/challengers/plain/promote"),
            client.delete(f"{path}/challengers/original"),
            client.post(f"{path}/labels", json={"add": names[60:]}),
        ):
            answer = await call
            assert answer.is_success, answer.text
        log = (await client.get(f"{path}/log")).content
        copied = await client.post(f"{path}-2/import", content=log, headers=NDJSON)
        assert copied.status_code == 201, copied.text
        assert len(copied.json()["labels"]) == 500


async def test_an_import_adds_no_label_for_whose_window_there_is_no_room(valkey_url: str) -> None:
    """It may say what no call would have taken: no memory is taken for it."""
    learner = {"kind": "neighbor_bandit", "window": MAX_WINDOW_VALUES // (3 * 1024)}
    features = {"type": "dense", "size": 1024}
    async with app_client(valkey_url) as client:
        path = await create(client, learner=learner, features=features)
        header, _, _ = (await client.get(f"{path}/log")).text.partition("\n")
        told = json.loads(header)
        body = pack_body(Event(Kind.LABELS, 0, bytes(12), None, LabelChange(["d"], [])))
        chain = chain_after(told["head"]["chain"], body)
        told |= {"labels": [*told["labels"], "d"], "head": {"seq": 1, "chain": chain}}
        line = line_of(Entry(1, chain, body), told["labels"])
        log = json.dumps(told).encode() + b"\n" + line
        refused = await client.post(f"{path}-2/import", content=log, headers=NDJSON)
    assert refused.status_code == 422
    assert "the labels that the events lead to" in refused.json()["error"]["message"]
