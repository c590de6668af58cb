"""Models of a service that runs, and what its terminal says."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from tests.service.apps import app_client
from tests.service.live import Model
from tests.serving import Service


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of an application."""
    async with app_client(valkey_url) as client:
        yield client


@pytest.fixture
def _terminal() -> Iterator[None]:
    """Let what is started hear of a closed terminal, also where these tests run with nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="module")
def http(service: Service) -> Iterator[httpx.Client]:
    """Return a client of the session's service."""
    with httpx.Client(base_url=service.url, timeout=30) as client:
        yield client


@pytest.fixture
def model(http: httpx.Client) -> Iterator[Model]:
    """Return a fresh model, deleted afterwards."""
    model = Model(http)
    yield model
    http.delete(model.path)
