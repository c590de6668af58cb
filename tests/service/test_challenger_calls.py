"""Challengers over HTTP: they come, are promoted, go, and move with their model."""

import asyncio

import httpx
import pytest

from service.spec import MAX_CHALLENGERS
from tests.service.apps import Json, app_client, create
from tests.service.test_challengers import BANDITRON, BPA
from tests.service.test_transfer import exported, imported, play, state


def learners(model: Json) -> list[str]:
    """Return the names of a model's learners, the deciding one first."""
    return [model["deciding"], *(each["name"] for each in model["challengers"])]


async def test_challengers_come_decide_and_go(client: httpx.AsyncClient) -> None:
    """Each call once changes the model, once more changes nothing."""
    path = await create(client, challengers=[BPA])
    await play(client, path, 12)
    for _ in range(2):
        answer = await client.post(f"{path}/challengers", json=BANDITRON)
        assert answer.status_code == 200, answer.text
        assert learners(answer.json()) == ["original", "passive", "ban"]
        seq = answer.json()["seq"]
    for _ in range(2):
        model = (await client.post(f"{path}/challengers/passive/promote")).json()
        assert learners(model) == ["passive", "original", "ban"]
        assert model["learner"] == BPA["learner"]
        assert model["challengers"][0]["learner"]["kind"] == "rcnbf"
        assert model["seq"] == seq + 1
    asked = {"x": [1, 2, 3], "request_id": "after"}
    decision = (await client.post(f"{path}/predict", json=asked)).json()
    assert round(decision["propensity"], 9) in (0.1, 0.8)
    assert (await client.delete(f"{path}/challengers/ban")).status_code == 204
    assert (await client.delete(f"{path}/challengers/ban")).status_code == 404
    model = (await client.post(f"{path}/challengers/original/promote")).json()
    assert learners(model) == ["original", "passive"]
    # The model can be asked for again as it was made, whoever decides now.
    spec = {name: model[name] for name in ("name", "features", "learner")}
    again = await client.post(
        "/v1/models", json=spec | {"labels": ["a", "b", "c"], "challengers": [BPA]}
    )
    assert again.status_code == 200


@pytest.mark.parametrize(
    ("method", "at", "body", "status", "where"),
    [
        ("POST", "", BPA | {"learner": {"kind": "soba"}}, 409, None),
        ("POST", "", {"name": "x", "learner": {"kind": "knn"}}, 422, "learner.kind"),
        ("POST", "", {"name": "x", "learner": {"kind": "bpa", "gamma": 2}}, 422, "learner.gamma"),
        ("POST", "", {"name": "X", "learner": {"kind": "bpa"}}, 422, "name"),
        ("POST", "", {"name": "x"}, 422, "learner"),
        ("POST", "/x/promote", None, 404, None),
        ("DELETE", "/x", None, 404, None),
        ("DELETE", "/original", None, 409, None),
    ],
)
async def test_what_cannot_be_is_refused(
    client: httpx.AsyncClient, method: str, at: str, body: Json | None, status: int, where: str
) -> None:
    """The refusal says why, and changes nothing."""
    path = await create(client, challengers=[BPA])
    answer = await client.request(method, f"{path}/challengers{at}", json=body)
    assert answer.status_code == status, answer.text
    if where:
        assert answer.json()["error"]["details"][0]["where"] == where
    assert (await client.get(path)).json()["seq"] == 0


async def test_there_are_so_many_and_no_more(client: httpx.AsyncClient) -> None:
    """A round must not become dearer without bound."""
    path = await create(client)
    for number in range(MAX_CHALLENGERS + 1):
        body = BPA | {"name": f"c{number}"}
        answer = await client.post(f"{path}/challengers", json=body)
    assert answer.status_code == 422
    assert len((await client.get(path)).json()["challengers"]) == MAX_CHALLENGERS


async def test_a_label_that_one_cannot_take_is_refused(client: httpx.AsyncClient) -> None:
    """Otherwise the label would cost a challenger."""
    full = {"name": "full", "learner": {"kind": "soba", "matrix": "full"}}
    path = await create(client, features={"type": "dense", "size": 660}, challengers=[full])
    answer = await client.post(f"{path}/labels", json={"add": ["d"]})
    assert answer.status_code == 422
    assert "matrix" in answer.text


async def test_a_label_for_which_they_have_no_room_together_is_refused(
    client: httpx.AsyncClient,
) -> None:
    """Each alone could take it, but their states would not fit into an export."""
    full = {"kind": "soba", "matrix": "full"}
    both = [{"name": f"c{i}", "learner": full} for i in range(2)]
    path = await create(client, features={"type": "dense", "size": 500}, challengers=both)
    answer = await client.post(f"{path}/labels", json={"add": ["d"]})
    assert answer.status_code == 422
    assert "together" in answer.text


async def test_two_workers_switch_at_the_same_event(valkey_url: str) -> None:
    """One promotes while the other decides and learns: both lead to the same bytes."""
    async with app_client(valkey_url) as one, app_client(valkey_url, snapshot_events=7) as other:
        path = await create(one, challengers=[BPA, BANDITRON], scaling="standard")
        for turn in range(4):
            name = ["passive", "ban", "original", "passive"][turn]
            promoted = one.post(f"{path}/challengers/{name}/promote")
            await asyncio.gather(
                promoted,
                play(one, path, 20, seed=10 * turn),
                play(other, path, 20, seed=10 * turn + 5),
            )
        assert await state(one, path) == await state(other, path)
        models = [(await each.get(path)).json() for each in (one, other)]
        assert learners(models[0]) == learners(models[1])
        assert models[0]["deciding"] == "passive"
    async with app_client(valkey_url) as third:
        # It begins with a snapshot that was taken in between.
        assert (await state(third, path))[0] == str(models[0]["seq"])
        assert (await third.get(path)).json()["chain"] == models[0]["chain"]


async def test_an_import_has_the_challengers(client: httpx.AsyncClient) -> None:
    """Their states, who decides, and that a promotion goes on from there."""
    path = await create(client, challengers=[BPA])
    await play(client, path, 12)
    await client.post(f"{path}/challengers", json=BANDITRON)
    await client.post(f"{path}/rates", json={"rho_0": 0.2, "rho_1": 0.05})
    await client.post(f"{path}/challengers/passive/promote")
    await client.delete(f"{path}/challengers/original")
    await play(client, path, 12, seed=3)
    lines = await exported(client, path)
    answer = await imported(client, lines)
    assert answer.status_code == 201, answer.text
    copy = f"/v1/models/{answer.json()['name']}"
    assert learners(answer.json()) == ["passive", "ban"]
    assert await state(client, copy) == await state(client, path)
    assert (await exported(client, copy))[1:] == lines[1:]
    model = (await client.post(f"{copy}/challengers/ban/promote")).json()
    assert learners(model) == ["ban", "passive"]
