"""Bounds that must not be closer than they say."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import service.edge
from service.store import Store
from tests.service.apps import JSON, app_client, call, client_of, create, running_app

#: Calls of one instance, which have a way of their own to their bodies.
SINGLE = ("predict", "feedback", "learn", "rounds")


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


@pytest.mark.parametrize("single", SINGLE)
async def test_bodies_of_single_calls_are_not_held_without_end(
    single: str, valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where they may be long, a few of them filled the memory; each of them ends its share."""
    limits = {"max_body_bytes": 4096, "max_batch_body_bytes": 4096}
    monkeypatch.setattr(service.edge, "MOST_HELD_BYTES", 4096)
    async with running_app(valkey_url, **limits, body_timeout_s=0.3) as app:
        async with client_of(app) as client:
            path = await create(client)
        half = 2048 * b" "
        slow = [
            asyncio.create_task(call(app, "POST", f"{path}/{single}", [half, 9.0], JSON))
            for _ in range(2)
        ]
        await asyncio.sleep(0.05)
        for other in (*SINGLE, "predict/batch"):
            answer = await call(app, "POST", f"{path}/{other}", [b"{}"], JSON)
            assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        slow[0].cancel()
        # The other one is too slow.
        await asyncio.gather(*slow, return_exceptions=True)
        whole = 4096 * b" "
        for pieces, status in (
            ([half, half, b" "], 413),  # is too long
            ([half, half[1:], b"x"], 400),  # is no JSON
            ([b"{}".ljust(4096)], 422),  # has nothing in it
            ([half, half], 400),
            ([whole[:-1]], 400),
        ):
            assert (await call(app, "POST", f"{path}/{single}", pieces, JSON)).status == status
        # It goes away.
        await call(app, "POST", f"{path}/{single}", [half, 0.0], JSON)
        body = json.dumps({"items": [{"x": [1, 2, 3]}]}).encode().ljust(4096)
        assert (await call(app, "POST", f"{path}/predict/batch", [body], JSON)).status == 200


async def test_a_body_is_held_until_its_call_ends(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that waits, for Redis say, still has its body in memory."""
    monkeypatch.setattr(service.edge, "MOST_HELD_BYTES", 4096)
    predicted = asyncio.Event()

    async def slowly(*_: Any) -> bytes:
        await predicted.wait()
        return b"{}"

    monkeypatch.setattr("service.calls.Calls.predict", slowly)
    async with running_app(valkey_url, max_batch_body_bytes=4096) as app:
        async with client_of(app) as client:
            path = await create(client)
        body = 3000 * b" "
        first = asyncio.create_task(call(app, "POST", f"{path}/predict", [body], JSON))
        await asyncio.sleep(0.05)
        assert (await call(app, "POST", f"{path}/predict", [body], JSON)).status == 429
        predicted.set()
        assert (await first).status == 200
        assert (await call(app, "POST", f"{path}/predict", [body], JSON)).status == 200
