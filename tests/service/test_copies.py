"""Models that are made from another's log: by import, and by relearn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from service.store import Store
from tests.service.apps import app_client, create, spec_of
from tests.service.test_transfer import exported, imported, model_with_history, play


async def test_rates_that_a_copy_has_are_not_logged_again(valkey_url: str) -> None:
    """An application that says its rates at each start changed the copy with the first one."""
    async with app_client(valkey_url) as client:
        path = await model_with_history(client)
        answer = await imported(client, await exported(client, path))
        copy = f"/v1/models/{answer.json()['name']}"
        again = f"{copy}-again"
        asked = {"name": again.rpartition("/")[2]}
        assert (await client.post(f"{path}/relearn", json=asked)).is_success
        for model in (path, copy, again):
            seq = (await client.get(model)).json()["seq"]
            rates = {"rho_0": 0.2, "rho_1": 0.05}
            assert (await client.post(f"{model}/rates", json=rates)).is_success
            assert (await client.get(model)).json()["seq"] == seq


async def test_a_retired_label_stays_away(valkey_url: str) -> None:
    """What was sold out was told as retired, and shown again."""
    learner = {"kind": "banditron", "gamma": 0.9}
    async with app_client(valkey_url) as client:
        path = await create(client, learner=learner)
        await play(client, path, 5)
        await client.post(f"{path}/labels", json={"retire": ["a"]})
        name = spec_of()["name"]
        assert (await client.post(f"{path}/relearn", json={"name": name})).is_success
        for model in (path, f"/v1/models/{name}"):
            items = [{"x": [1, 2, 3]}] * 100
            answer = await client.post(f"{model}/predict/batch", json={"items": items})
            assert {each["label"] for each in answer.json()["items"]} == {"b", "c"}


@pytest.mark.parametrize("call", ["import", "relearn"])
async def test_who_goes_away_meanwhile_leaves_no_name_taken(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """A worker that is stopped, or a client that hangs up: the next try found it under way."""
    begun = asyncio.Event()

    async def slowly(*_: Any) -> None:
        begun.set()
        await asyncio.sleep(60)

    async with app_client(valkey_url) as client:
        path = await create(client)
        await play(client, path, 5)
        lines, name = await exported(client, path), str(spec_of()["name"])

        async def make() -> Any:
            if call == "import":
                return await imported(client, lines, name)
            return await client.post(f"{path}/relearn", json={"name": name})

        with monkeypatch.context() as patch:
            patch.setattr(Store, "import_entries", slowly)
            making = asyncio.create_task(make())
            await begun.wait()
            making.cancel()
            with pytest.raises(asyncio.CancelledError):
                await making
        answer = await make()
        assert answer.is_success, answer.text


async def test_what_a_learner_refuses_it_has_not_learned(valkey_url: str) -> None:
    """Examples are in the log, and the learner that was asked for takes none."""
    async with app_client(valkey_url) as client:
        path = await create(client)
        await play(client, path, 5)
        await client.post(f"{path}/learn", json={"x": [1, 2, 3], "label": "a"})
        asked = {"name": spec_of()["name"], "learner": {"kind": "bpa"}}
        answer = await client.post(f"{path}/relearn", json=asked)
    assert answer.is_success, answer.text
    assert (answer.json()["learned"], answer.json()["refused"]) == (4, 1)
