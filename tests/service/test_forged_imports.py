"""Exports that somebody has tampered with, chains and all: refused, or no harm to anybody."""

from __future__ import annotations

import base64
from typing import Any

import httpx
import msgspec
import pytest

from service.codec import encode_state
from service.events import (
    ChallengerChange,
    Decision,
    Event,
    Kind,
    LabelChange,
    Payload,
    Rates,
    RatesByLabel,
    chain_after,
    first_chain,
    pack_body,
    unpack_body,
)
from service.exported import entry_of
from service.fold import Fold
from service.spec import MAX_LABEL_FEATURES, MAX_LABELS, ModelSpec
from tests.service.apps import create
from tests.service.test_transfer import Lines, exported, imported, play

HUGE = 5e9


def forged(lines: Lines, kind: Kind, payload: Payload, **header: Any) -> Lines:
    """Return an export with one more event, whose chain is right, and another header."""
    last = lines[-1] if lines[1:] else lines[0]["head"]
    body = pack_body(Event(kind, 7, bytes(12), None, payload))
    place = {"seq": last["seq"] + 1, "chain": chain_after(last["chain"], body)}
    told = msgspec.json.decode(msgspec.json.encode(payload))
    if kind is Kind.CHALLENGER:
        told = {"challenger": told}
    event = place | {"time_ms": 7, "kind": kind.name.lower(), "nonce": "00" * 12} | told
    return [lines[0] | {"head": place} | header, *lines[1:], event]


async def refusal(client: httpx.AsyncClient, lines: Lines) -> str:
    """Return why an import is refused."""
    answer = await imported(client, lines)
    assert answer.status_code == 422, answer.text
    return str(answer.json()["error"]["message"])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (LabelChange([f"n{i}" for i in range(MAX_LABELS)], []), "none of the header's"),
        (LabelChange(["d"], ["e"]), "none of the header's"),
        (LabelChange(["d"], [], {"e": [1.0]}), "none of the header's"),
        (LabelChange(["d"] * (MAX_LABELS + 1), []), "changes more than 1024 labels"),
        (LabelChange([], ["a"] * (MAX_LABELS + 1)), "changes more than 1024 labels"),
        (LabelChange([], [], {"a": [0.0] * (MAX_LABEL_FEATURES + 1)}), "1 to 32 numbers"),
        (LabelChange([], [], {"a": []}), "1 to 32 numbers"),
        (LabelChange([], [], {"a": [1e300]}), "within 1e+06 of 0"),
    ],
)
async def test_no_event_brings_labels_without_end(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, change: LabelChange, why: str
) -> None:
    """A line has room for hundreds of thousands: worker and memory would be gone with it."""
    lines = await exported(client, await create(client))
    applied: list[Event] = []
    monkeypatch.setattr(Fold, "apply", lambda _, event: applied.append(event))
    labels = [*lines[0]["labels"], "d"]
    assert why in await refusal(client, forged(lines, Kind.LABELS, change, labels=labels))
    assert not applied


@pytest.mark.parametrize("values", [[], [1e300], [0.0] * (MAX_LABEL_FEATURES + 1)])
async def test_a_state_describes_labels_as_calls_do(
    client: httpx.AsyncClient, values: list[float]
) -> None:
    """One model that could not be told of would be the end of the tenant's list of models."""
    lines = await exported(client, await create(client))
    fold = Fold(ModelSpec.model_validate(lines[0]["spec"]), lines[0]["uid"])
    text = msgspec.json.encode({0: values}).decode()
    blob = encode_state(fold.state() | {"label_features": text})
    state = base64.b64encode(blob).decode()
    snapshot = {"seq": 0, "chain": first_chain(lines[0]["uid"]), "state": state}
    said = await refusal(client, [lines[0] | {"snapshot": snapshot}])
    assert "it describes labels by what no" in said


async def test_labels_that_calls_could_not_bring_are_refused(client: httpx.AsyncClient) -> None:
    """The bounds on one model hold for one that grows by the events of an import, too."""
    path = await create(client, features={"type": "dense", "size": 4096})
    lines = await exported(client, path)
    names = [f"n{i}" for i in range(MAX_LABELS - 3)]
    labels = [*lines[0]["labels"], *names]
    said = await refusal(client, forged(lines, Kind.LABELS, LabelChange(names, []), labels=labels))
    assert "labels times features at most" in said


async def test_a_challenger_that_no_call_takes_is_refused(client: httpx.AsyncClient) -> None:
    """Protects from a fault of the service over what somebody wrote into a file."""
    lines = await exported(client, await create(client))
    for change in (
        ChallengerChange("add", "c"),
        ChallengerChange("add", "c", {"gamma": 0.1}),
        ChallengerChange("add", "no name", {"kind": "banditron"}),
    ):
        assert "event 1" in await refusal(client, forged(lines, Kind.CHALLENGER, change))


@pytest.mark.parametrize("propensity", [0.0, -0.5, 5.0, 1e300])
async def test_a_decision_has_a_probability(client: httpx.AsyncClient, propensity: float) -> None:
    """An evaluation would divide by it; of a round of somebody else it is looked at, too."""
    path = await create(client)
    await play(client, path, 3)
    lines = await exported(client, path)
    told = lines[-1] | {"propensity": propensity}
    entry = entry_of(msgspec.json.encode(lines[-1]), lines[0]["labels"], 3)
    event = unpack_body(entry.body)
    assert isinstance(event.payload, Decision)
    payload = event.payload._replace(propensity=propensity)
    body = pack_body(event._replace(payload=payload))
    told["chain"] = chain_after(lines[-2]["chain"], body)
    head = {"seq": told["seq"], "chain": told["chain"]}
    said = await refusal(client, [lines[0] | {"head": head}, *lines[1:-1], told])
    assert f"its propensity is {propensity}" in said


async def test_rates_that_nobody_looked_at_are_no_fault_later(client: httpx.AsyncClient) -> None:
    """RCNBF uses common rates only; a challenger that is told each label's refuses these."""
    lines = await exported(client, await create(client))
    each = RatesByLabel([HUGE], [HUGE], [HUGE], [HUGE])
    answer = await imported(client, forged(lines, Kind.RATES, Rates(0.1, 0.2, each)))
    assert answer.status_code == 201, answer.text
    path = f"/v1/models/{answer.json()['name']}"
    await play(client, path, 12)
    assert (await client.get(f"{path}/evaluation")).status_code == 200
    new = {"name": "c", "learner": {"kind": "forward"}}
    answer = await client.post(f"{path}/challengers", json=new)
    assert answer.status_code == 422, answer.text
    assert (await client.get(path)).json()["challengers"] == []
