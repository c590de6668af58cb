"""Noise rates of a model's learners: for whom they are estimated, and how often."""

import asyncio
from typing import Any

import httpx
import pytest

from learners.neighbors.bandit import NeighborBandit
from tests.service.apps import Json, create, spec_of
from tests.service.test_challengers import BPA, RCINE

FORWARD: Json = {"name": "fwd", "learner": {"kind": "forward", "n_waves": 0}}
SOFTMAX: Json = {"name": "soft", "learner": {"kind": "forward_softmax"}}


@pytest.mark.parametrize(
    ("deciding", "challengers", "every"),
    [
        ("bpa", [], None),
        ("bpa", [BPA], None),
        ("bpa", [RCINE], 50_000),
        ("bpa", [RCINE, FORWARD], 10_000),
        ("rcine", [FORWARD], 50_000),
        ("forward", [RCINE], 10_000),
        ("forward_softmax", [], 0),
        ("forward_softmax", [BPA], 0),
        ("forward_softmax", [RCINE, FORWARD], 10_000),
        ("bpa", [SOFTMAX], 0),
        ("bpa", [SOFTMAX, RCINE], 50_000),
    ],
)
async def test_challengers_have_rates_estimated_where_the_deciding_learner_needs_none(
    client: httpx.AsyncClient, deciding: str, challengers: list[Any], every: int | None
) -> None:
    """A challenger is judged as it would be alone; and none changes what the deciding one hears."""
    path = await create(client, learner={"kind": deciding}, challengers=challengers)
    line = f'misclick_estimate_running{{model="{path.rpartition("/")[2]}"}}'
    assert (line in (await client.get("/metrics")).text) == (every is not None)
    answer = await client.get(f"{path}/noise")
    if every is None:
        assert answer.status_code == 422
        assert "a learner that uses noise rates" in answer.json()["error"]["message"]
    else:
        assert answer.json()["estimate_every"] == every


async def test_an_estimate_can_be_cancelled_after_its_challenger_went(
    client: httpx.AsyncClient,
) -> None:
    """Its result would change what clicks are corrected by, and nobody could keep it from it."""
    path = await create(client, learner={"kind": "bpa"}, challengers=[RCINE])
    assert (await client.post(f"{path}/noise/estimate")).status_code == 202
    assert (await client.delete(f"{path}/challengers/{RCINE['name']}")).status_code == 204
    assert (await client.delete(f"{path}/noise/estimate")).status_code == 204
    assert (await client.post(f"{path}/challengers", json=RCINE)).status_code == 200
    assert not (await client.get(f"{path}/noise")).json()["asked"]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("banditron", "or a challenger that does (forward_softmax or rcnbf, say), got banditron"),
        ("perceptron", "expected a learner that uses noise rates, got perceptron"),
    ],
)
async def test_who_has_no_rates_is_told_how_to_have_some(
    client: httpx.AsyncClient, kind: str, said: str
) -> None:
    """Protects users of plain learners from a dead end; for labels there are no challengers."""
    path = await create(client, learner={"kind": kind})
    rates = {"rho_0": 0.1, "rho_1": 0.2}
    for answer in (
        await client.get(f"{path}/noise"),
        await client.post(f"{path}/noise/estimate"),
        await client.post(f"{path}/rates", json=rates),
    ):
        assert answer.status_code == 422
        assert said in answer.json()["error"]["message"]
    if kind == "banditron":
        challenger = SOFTMAX
        assert (await client.post(f"{path}/challengers", json=challenger)).status_code == 200
        assert (await client.post(f"{path}/rates", json=rates)).status_code == 200
        assert (await client.get(f"{path}/noise")).json()["rates"] == pytest.approx(rates)


async def test_a_challenger_is_told_an_estimate(client: httpx.AsyncClient) -> None:
    """A model whose own learner believes every click: the estimate that a challenger needs runs."""
    path = await create(client, learner={"kind": "banditron"}, challengers=[RCINE, FORWARD])
    asked = await client.post(f"{path}/noise/estimate")
    assert asked.json() == {"number": 1}
    async with asyncio.timeout(60):
        while not (await client.get(f"{path}/noise")).json()["history"]:  # noqa: ASYNC110 - over HTTP
            await asyncio.sleep(0.1)
    noise = (await client.get(f"{path}/noise")).json()
    assert noise["history"][0]["verdict"] == "no feedback yet"
    assert noise["rates_by_label"]["a"] == {"rho_0": 0.0, "rho_1": 0.0}
    told = {"rho_0": 0.1, "rho_1": 0.2, "by_label": {"b": {"rho_0": 0.3, "rho_1": 0.2}}}
    await client.post(f"{path}/rates", json=told)
    noise = (await client.get(f"{path}/noise")).json()
    assert noise["rates"] == {"rho_0": 0.1, "rho_1": 0.2}
    assert noise["rates_by_label"]["b"] == {"rho_0": 0.3, "rho_1": 0.2}


async def test_a_log_is_long_enough_for_a_challengers_estimates(client: httpx.AsyncClient) -> None:
    """The same is asked of a spec whoever its estimates are for; without any, nothing."""
    short: Json = {"learner": {"kind": "bpa"}, "challengers": [FORWARD], "log_keep": 100}
    refused = await client.post("/v1/models", json=spec_of(**short))
    assert refused.status_code == 422
    assert refused.json()["error"]["details"][0]["where"] == "log_keep"
    for change in ({"estimate_every": 0}, {"challengers": [BPA]}):
        await create(client, **(short | change))


async def test_one_that_was_promoted_has_its_rates_estimated(client: httpx.AsyncClient) -> None:
    """Estimates are made as often as the kind of the learner that decides now does."""
    path = await create(client, learner={"kind": "bpa"}, challengers=[RCINE, FORWARD])
    assert (await client.get(f"{path}/noise")).json()["estimate_every"] == 10_000
    await client.post(f"{path}/challengers/rates/promote")
    assert (await client.get(f"{path}/noise")).json()["estimate_every"] == 50_000


async def test_rates_are_read_without_the_rest_of_a_state(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two numbers were taken out of a copy of 31 MiB, and others waited meanwhile."""
    learner = {"kind": "neighbor_bandit", "rho_0": 0.1, "rho_1": 0.3}
    path = await create(client, learner=learner)

    def copied(_: NeighborBandit) -> None:
        raise AssertionError("the state is copied")

    monkeypatch.setattr(NeighborBandit, "state", copied)
    answer = await client.get(f"{path}/noise")
    monkeypatch.undo()
    assert answer.json()["rates"] == {"rho_0": 0.1, "rho_1": 0.3}
