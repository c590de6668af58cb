"""The application in this process, started and stopped as a server does it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeAlias

import httpx

from service.app import create_app
from service.edge import Edge
from service.settings import Settings

Json: TypeAlias = dict[str, Any]
JSON = {"content-type": "application/json"}
NDJSON = {"content-type": "application/x-ndjson"}
RCNBF: Json = {"kind": "rcnbf", "gamma": 0.1, "rho_0": 0.1, "rho_1": 0.2}


class Answer(NamedTuple):
    """What an ASGI application sent."""

    status: int
    headers: dict[str, str]
    body: bytes


@asynccontextmanager
async def running_app(url: str, **settings: Any) -> AsyncIterator[Edge]:
    """Run the application on the store at `url`."""
    # The store is shared by many tests, each with models of its own.
    app = create_app(Settings(redis_url=url, **({"max_models": 10_000} | settings)))
    asks: asyncio.Queue[Json] = asyncio.Queue()
    says: asyncio.Queue[Json] = asyncio.Queue()
    scope: Json = {"type": "lifespan", "state": {}}
    task = asyncio.create_task(app(scope, asks.get, says.put))  # type: ignore[arg-type]
    await asks.put({"type": "lifespan.startup"})
    assert (await says.get())["type"] == "lifespan.startup.complete"
    try:
        yield app
    finally:
        await asks.put({"type": "lifespan.shutdown"})
        assert (await says.get())["type"] == "lifespan.shutdown.complete"
        await task


@asynccontextmanager
async def app_client(url: str, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Run the application and yield a client of it."""
    async with running_app(url, **settings) as app, client_of(app) as client:
        yield client


def client_of(app: Any, **headers: str) -> httpx.AsyncClient:
    """Return a client that calls an application directly."""
    transport = httpx.ASGITransport(app)
    return httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers)


def spec_of(**change: Any) -> Json:
    """Return the spec of a model of its own for a test."""
    spec = {
        "name": f"t-{secrets.token_hex(6)}",
        "learner": RCNBF,
        "labels": ["a", "b", "c"],
        "features": {"type": "dense", "size": 3},
    }
    return spec | change


async def create(client: httpx.AsyncClient, **change: Any) -> str:
    """Create a model; return its path."""
    spec = spec_of(**change)
    answer = await client.post("/v1/models", json=spec)
    assert answer.status_code == 201, answer.text
    return f"/v1/models/{spec['name']}"


async def call(
    app: Any,
    method: str,
    path: str,
    chunks: Iterable[bytes | float] = (b"",),
    headers: dict[str, str] | None = None,
) -> Answer:
    """Send a request as these chunks, a number being a pause in seconds; None where it waits."""
    waiting = list(chunks)
    found: list[Json] = []

    async def receive() -> Json:
        while waiting:
            chunk = waiting.pop(0)
            if isinstance(chunk, bytes):
                return {"type": "http.request", "body": chunk, "more_body": bool(waiting)}
            await asyncio.sleep(chunk)
        return {"type": "http.disconnect"}

    async def send(message: Json) -> None:
        found.append(message)

    pairs = [(name.lower().encode(), text.encode()) for name, text in (headers or {}).items()]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": pairs,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    await app(scope, receive, send)
    if not found:
        return Answer(0, {}, b"")
    body = b"".join(message.get("body", b"") for message in found[1:])
    sent = {name.decode(): value.decode() for name, value in found[0]["headers"]}
    return Answer(found[0]["status"], sent, body)
