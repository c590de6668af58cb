"""The estimator among a host's jobs: it stops whatever its store and its trainer are doing."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import psutil
import pytest

from service import estimator
from service.address import Address
from service.estimates import Estimates
from service.estimator import ESTIMATE_S, Estimator
from service.host import Host
from service.settings import Settings
from service.store import Store
from tests.service.stores import make, opened

RCINE: dict[str, Any] = {"learner": {"kind": "rcine"}}


async def started(store: Store, url: str, pause_s: float = ESTIMATE_S) -> tuple[Host, Address]:
    """Return a host that estimates the rates of its one model."""
    host = Host(store, Settings(redis_url=url, secret=secrets.token_hex(32)))
    address = await make(store, **RCINE)
    await host.replica(address.key)
    host.start((Estimator(host).look, pause_s))
    return host, address


async def test_it_stops_though_a_cancellation_was_swallowed(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects a worker from never ending when its store goes away with it."""
    swallowed = asyncio.Event()

    async def stubborn(*_: object) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            swallowed.set()

    monkeypatch.setattr(Estimates, "claim", stubborn)
    async with opened(valkey_url) as store:
        host, _ = await started(store, valkey_url)
        await asyncio.sleep(0.05)
        async with asyncio.timeout(10):
            await host.stop()
    assert swallowed.is_set()


async def test_it_takes_its_trainer_along(valkey_url: str) -> None:
    """Protects the machine from trainings of a service that has ended."""
    async with opened(valkey_url) as store:
        host, address = await started(store, valkey_url)
        await Estimates(store, address).ask()
        async with asyncio.timeout(20):
            while not (children := _trainers()):  # noqa: ASYNC110 - a process tells nobody
                await asyncio.sleep(0.02)
        await host.stop()
        assert not any(child.is_running() for child in children)
        assert (await Estimates(store, address).history()) == []


async def test_it_goes_on_after_what_nobody_foresaw(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine without memory for one more process costs an estimate, not all that follow."""
    tried = 0

    def start(*_: object) -> None:
        nonlocal tried
        tried += 1
        raise OSError("Cannot allocate memory")

    monkeypatch.setattr(estimator, "start_trainer", start)
    async with opened(valkey_url) as store:
        host, address = await started(store, valkey_url, 0.01)
        async with asyncio.timeout(10):
            while tried < 2:
                await Estimates(store, address).cancel()
                await Estimates(store, address).ask()
                await asyncio.sleep(0.02)
        await host.stop()


def _trainers() -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process().children(recursive=True)
        if "service.trainer" in " ".join(child.cmdline())
    ]
