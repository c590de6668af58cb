"""The calls on models, over the application in this process."""

from __future__ import annotations

import secrets

from tests.service.apps import RCNBF, app_client


async def test_a_tenant_has_so_many_models_and_no_more(valkey_url: str) -> None:
    """Protects the store from models without end; the same model again is no new one."""
    names = [f"t-{secrets.token_hex(6)}" for _ in range(2)]
    spec = {"learner": RCNBF, "labels": ["a", "b"], "features": {"type": "dense", "size": 1}}
    async with app_client(valkey_url) as client:
        there = len((await client.get("/v1/models")).json()["models"])
    async with app_client(valkey_url, max_models=there + 1) as client:
        first = await client.post("/v1/models", json=spec | {"name": names[0]})
        assert first.status_code == 201
        second = await client.post("/v1/models", json=spec | {"name": names[1]})
        assert second.status_code == 409
        assert "max_models" in second.json()["error"]["message"]
        assert "retry-after" not in second.headers
        again = await client.post("/v1/models", json=spec | {"name": names[0]})
        assert again.status_code == 200
        await client.delete(f"/v1/models/{names[0]}")
        assert (await client.post("/v1/models", json=spec | {"name": names[1]})).status_code == 201
        await client.delete(f"/v1/models/{names[1]}")
