"""The edge: who has no key takes nobody's place, and one tenant leaves room for the others."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from service.auth import Scope, new_key
from service.edge import Edge
from tests.service.apps import JSON, call, client_of, create, running_app

HALF: list[bytes | float] = [b'{"x":', 9.0]


@asynccontextmanager
async def two_tenants(
    url: str, folder: Path, most: int, tenants: tuple[str, str] = ("red", "blue")
) -> AsyncIterator[tuple[Edge, list[str]]]:
    """Run an application with a key of each of two tenants, or two keys of one."""
    made = [new_key("key", tenant, [Scope.ADMIN]) for tenant in tenants]
    file = folder / "keys.json"
    file.write_text("\n".join(line for _, line in made))
    async with running_app(url, keys_file=file, max_requests=most) as app:
        yield app, [f"Bearer {key}" for key, _ in made]


@asynccontextmanager
async def under_way(
    app: Edge, path: str, headers: dict[str, str], count: int
) -> AsyncIterator[None]:
    """Have calls under way whose bodies do not come."""
    sent = JSON | headers
    slow = [asyncio.create_task(call(app, "POST", path, HALF, sent)) for _ in range(count)]
    await asyncio.sleep(0.05)
    yield
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)


async def test_who_has_no_key_takes_nobodys_place(valkey_url: str, tmp_path: Path) -> None:
    """Half bodies from whoever reaches the port: his calls end before a byte of them is read."""
    async with (
        two_tenants(valkey_url, tmp_path, 2) as (app, (red, _)),
        client_of(app, authorization=red) as client,
    ):
        path = await create(client)
        for where in ("/v1/models", f"{path}/labels", f"{path}/predict", "/v1/none"):
            async with under_way(app, where, {}, 4):
                answer = await client.post(f"{path}/predict", json={"x": [1, 2, 3]})
                assert answer.status_code == 200
        await client.delete(path)


async def test_one_tenant_leaves_room_for_others(valkey_url: str, tmp_path: Path) -> None:
    """A key that may only predict keeps no other tenant out, however slow its bodies are."""
    async with (
        two_tenants(valkey_url, tmp_path, 4) as (app, (red, blue)),
        client_of(app, authorization=blue) as client,
    ):
        path = await create(client)
        async with under_way(app, f"{path}/predict", {"authorization": red}, 9):
            answer = await call(app, "GET", path, headers={"authorization": red})
            assert answer.status == 429
            assert "3 requests of this tenant" in json.loads(answer.body)["error"]["message"]
            answer = await call(app, "GET", path, headers={"authorization": blue})
            assert answer.status == 200
        # Their places are free again.
        answer = await call(app, "GET", path, headers={"authorization": red})
        assert answer.status == 404
        await client.delete(path)


async def test_a_tenant_alone_has_all_places(valkey_url: str, tmp_path: Path) -> None:
    """However many keys it has: nobody else is kept out."""
    async with (
        two_tenants(valkey_url, tmp_path, 4, ("red", "red")) as (app, (one, other)),
        under_way(app, "/v1/models/m/predict", {"authorization": one}, 3),
    ):
        answer = await call(app, "GET", "/v1/models/m", headers={"authorization": other})
        assert answer.status == 404


async def test_a_tenant_has_one_place_at_least(valkey_url: str, tmp_path: Path) -> None:
    """Three quarters of one call are none: nobody would ever be answered."""
    async with two_tenants(valkey_url, tmp_path, 1) as (app, keys):
        for key in keys:
            answer = await call(app, "GET", "/v1/models/m", headers={"authorization": key})
            assert answer.status == 404
