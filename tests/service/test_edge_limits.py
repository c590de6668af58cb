"""Bounds that must not be closer than they say."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import service.edge
from service.store import Store
from tests.service.apps import JSON, app_client, call, client_of, create, running_app


async def test_an_answer_may_take_longer_than_a_body(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An export of many events takes minutes: the time limit of its request's body is over then."""
    read = Store.read

    async def slowly(*args: Any) -> Any:
        await asyncio.sleep(0.4)
        return await read(*args)

    async with app_client(valkey_url, body_timeout_s=0.1) as client:
        path = await create(client)
        told = {"x": [1, 2, 3], "label": "a", "propensity": 0.5, "feedback": 1}
        await client.post(f"{path}/rounds/batch", json={"items": [told, told]})
        monkeypatch.setattr(Store, "read", slowly)
        answer = await client.get(f"{path}/log")
    assert answer.status_code == 200
    assert len(answer.text.splitlines()) == 3


async def test_a_body_of_just_its_limit_is_taken(valkey_url: str) -> None:
    """A client that cuts its batches to the documented limit announces just that."""
    async with running_app(valkey_url, max_body_bytes=2048, max_batch_body_bytes=4096) as app:
        async with client_of(app) as client:
            path = await create(client)
        x = {"x": [1, 2, 3]}
        for suffix, size, body in (("", 2048, x), ("/batch", 4096, {"items": [x]})):
            text = json.dumps(body).encode().ljust(size)
            headers = JSON | {"content-length": str(size)}
            assert (
                await call(app, "POST", f"{path}/predict{suffix}", [text], headers)
            ).status == 200


async def test_one_batch_is_taken_however_large_it_may_be(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever allows batches that are larger than what is held of all means them."""
    monkeypatch.setattr(service.edge, "MOST_HELD_BYTES", 1024)
    async with running_app(valkey_url, max_batch_body_bytes=4096) as app:
        async with client_of(app) as client:
            path = await create(client)
        body = json.dumps({"items": [{"x": [1, 2, 3]}]}).encode().ljust(4096)
        assert (await call(app, "POST", f"{path}/predict/batch", [body], JSON)).status == 200
