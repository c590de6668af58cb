"""Batches that are taken in turns."""

from __future__ import annotations

import pytest

from service import calls
from tests.service.apps import app_client, create


async def test_what_is_wrong_in_a_batch_has_its_place(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sends a thousand looks for the one: also where they are taken in several turns."""
    monkeypatch.setattr(calls, "TURN_VALUES", 2)
    good = {"x": [1, 2, 3]}
    async with app_client(valkey_url) as client:
        path = await create(client)
        for wrong, where in (
            (good | {"allowed": ["a", "z"]}, "items[2].allowed[1]"),
            ({"x": [1, 2]}, "items[2].x"),
        ):
            answer = await client.post(f"{path}/predict/batch", json={"items": [good, good, wrong]})
            assert answer.status_code == 422
            assert [each["where"] for each in answer.json()["error"]["details"]] == [where]
