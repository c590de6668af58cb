"""Worker processes that die, and a parent that dies: nothing is lost, nothing is left over."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.serving import Service, running_service
from tests.torture.cluster import NO_TLS, descendants, wait_until
from tests.torture.traffic import MAIN

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

WORKERS = 2


@pytest.fixture
def service(short_path: Path) -> Iterator[Service]:
    """Run a service with two workers on its embedded Valkey."""
    with running_service(workers=WORKERS, data_dir=short_path) as running:
        yield running


def command_of(pid: int) -> str:
    """Return the command line of a process, empty when it is gone or a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def family(service: Service) -> dict[int, str]:
    """Return the command lines of all processes that a service has started, by pid."""
    try:
        return {pid: command_of(pid) for pid in list(descendants(service.pid))}
    except OSError:
        return family(service)  # one of them ended while we looked


def workers(service: Service) -> set[int]:
    """Return the pids of the workers."""
    return {pid for pid, command in family(service).items() if "spawn_main" in command}


def play(service: Service) -> bool:
    """Play one round with a new connection; say whether it was acknowledged."""
    url = f"{service.url}/v1/models/main"
    try:
        decision = httpx.post(f"{url}/predict", json={"x": [1.0] * 8}, verify=NO_TLS)
        told = {"decision_id": decision.json().get("decision_id"), "feedback": 1}
        receipt = httpx.post(f"{url}/feedback", json=told, verify=NO_TLS)
    except httpx.TransportError:
        return False
    return receipt.status_code == 200 and receipt.json()["status"] == "applied"


def test_processes(service: Service, short_path: Path) -> None:
    """Killed workers come back, a second service is refused, a killed parent leaves nobody."""
    httpx.post(f"{service.url}/v1/models", json=MAIN, verify=NO_TLS).raise_for_status()
    played = sum(play(service) for _ in range(10))
    assert played == 10
    for pid in workers(service):
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: play(service), "the service")
        played += 1
    before = workers(service)
    wait_until(lambda: len(workers(service)) == WORKERS, "both workers")
    assert before
    said = [json.loads(line) for line in service.log.read_text().splitlines()]
    ended = [line for line in said if line["event"] == "a worker ended and is started again"]
    assert [line["status"] for line in ended] == [-signal.SIGKILL] * WORKERS
    model = httpx.get(f"{service.url}/v1/models/main", verify=NO_TLS).json()
    assert model["counters"]["feedback"] >= played

    with pytest.raises(RuntimeError, match=r"another misclick service runs on .*stop it, or name"):
        Service(data_dir=short_path)
    assert play(service)

    pids = family(service)
    assert len(pids) >= WORKERS + 1
    os.kill(service.pid, signal.SIGKILL)
    service.process.wait()
    wait_until(lambda: not any(map(command_of, pids)), "everybody to leave")
    with running_service(data_dir=short_path) as again:
        after = httpx.get(f"{again.url}/v1/models/main", verify=NO_TLS).json()
    assert after["counters"]["feedback"] == model["counters"]["feedback"] + 1
