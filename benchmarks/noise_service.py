"""What an estimate of noise rates costs those who ask for predictions meanwhile.

    python -m benchmarks.noise_service [--json] [--rounds 50000]

One worker, the embedded Valkey, a model of 10 labels and 256 features with 50,000 feedbacks in
its log. Four connections ask for predictions, first in peace, then while a process of its own
trains on that log: a thousand a second, and as many as are answered. Peace and training are
compared by their p99.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from typing import Any

import httpx
import numpy as np

from benchmarks.command import at_most, count, report
from benchmarks.load import Load, http_request, run_load
from tests.serving import running_service

N_LABELS, N_FEATURES = 10, 256
RHO_0, RHO_1 = 0.15, 0.3
CONNECTIONS = 4
BATCH = 1000
#: Requests of one measurement: the last one, in which the estimate ends, is left out.
REQUESTS = 400
#: How often they come, a second: as to a shop with a hundred pages a second, and without end.
PACES = (1000.0, math.inf)
#: Measurements in peace; while it trains, as many as fit.
PEACEFUL = 15
TARGET_RATIO = 1.5
SEED = 1
MODEL = "noise"
#: An estimate that takes longer is given up.
TIMEOUT_S = 600.0


def main() -> None:
    """Measure, print, and with --json one object as the last line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=count, default=50_000)
    args = parser.parse_args()
    with running_service() as service, httpx.Client(base_url=service.url, timeout=60) as client:
        fill(client, args.rounds)
        requests = make_requests(service.url)
        run_load(service.url, requests, CONNECTIONS)
        measured = {_name(pace): compare(client, service.url, requests, pace) for pace in PACES}
    targets = []
    for load, found in measured.items():
        print(f"{load}: estimate {found['estimate']}")
        for when in ("in peace", "while training"):
            print(f"{when:>18}: " + ", ".join(f"{k} {v:.2f}" for k, v in found[when].items()))
        ratio = found["while training"]["p99_ms"] / found["in peace"]["p99_ms"]
        name = f"p99 of predict while an estimate trains, to without, {load}"
        targets.append(at_most(name, ratio, TARGET_RATIO))
    report(targets, as_json=args.json, measured=measured)


def _name(per_second: float) -> str:
    return f"{per_second:g} a second" if per_second < math.inf else "as fast as answered"


def compare(
    client: httpx.Client, url: str, requests: list[bytes], per_second: float
) -> dict[str, Any]:
    """Return what one load measures in peace and while an estimate trains."""
    peaceful = [run_load(url, requests, CONNECTIONS, per_second) for _ in range(PEACEFUL)]
    result, busy = measure_training(client, url, requests, per_second)
    return {
        "in peace": summary(peaceful),
        "while training": summary(busy),
        "estimate": {k: result[k] for k in ("took_s", "examples", "rho_0", "rho_1", "verdict")},
    }


def fill(client: httpx.Client, rounds: int) -> None:
    """Create the model and give it feedback with noise of known rates."""
    rng = np.random.default_rng(SEED)
    centres = rng.normal(size=(N_LABELS, N_FEATURES))
    labels = [f"label-{i}" for i in range(N_LABELS)]
    spec = {
        "name": MODEL,
        "learner": {"kind": "rcine", "gamma": 0.3},
        "labels": labels,
        "features": {"type": "dense", "size": N_FEATURES},
        # Asked for by this benchmark, never by itself.
        "estimate_every": 1_000_000,
        "log_keep": 1_000_000,
    }
    client.post("/v1/models", json=spec).raise_for_status()
    for _ in range(0, rounds, BATCH):
        right = rng.integers(N_LABELS, size=BATCH)
        xs = (centres[right] + rng.normal(size=(BATCH, N_FEATURES)) * 2).round(3)
        asked = {"items": [{"x": x.tolist()} for x in xs]}
        answer = client.post(f"/v1/models/{MODEL}/predict/batch", json=asked)
        items = answer.raise_for_status().json()["items"]
        feedback = []
        for label, item in zip(right.tolist(), items, strict=True):
            rate = 1 - RHO_1 if item["label"] == labels[label] else RHO_0
            bit = int(rng.random() < rate)
            feedback.append({"decision_id": item["decision_id"], "feedback": bit})
        told = client.post(f"/v1/models/{MODEL}/feedback/batch", json={"items": feedback})
        told.raise_for_status()


def make_requests(url: str) -> list[bytes]:
    """Return the predictions that are asked for in one measurement."""
    rows = np.random.default_rng(SEED + 1).normal(size=(REQUESTS, N_FEATURES)).round(4)
    path = f"/v1/models/{MODEL}/predict"
    return [http_request(url, path, json.dumps({"x": row.tolist()}).encode()) for row in rows]


def measure_training(
    client: httpx.Client, url: str, requests: list[bytes], per_second: float
) -> tuple[dict[str, Any], list[Load]]:
    """Ask for an estimate and predict until it has ended; return its result and the loads."""
    number = client.post(f"/v1/models/{MODEL}/noise/estimate").raise_for_status().json()["number"]
    while client.get(f"/v1/models/{MODEL}/noise").json()["running"] is None:
        time.sleep(0.05)
    loads = []
    end_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end_s:
        load = run_load(url, requests, CONNECTIONS, per_second)
        # Asked in between: a thread of this process that asks would hold up those that measure.
        noise = client.get(f"/v1/models/{MODEL}/noise").raise_for_status().json()
        if noise["running"] is None:
            break
        loads.append(load)
    found = next((one for one in noise["history"] if one["number"] == number), None)
    if found is None or not loads:
        raise RuntimeError("the estimate did not end in time, or before one measurement did")
    return found, loads


def summary(loads: list[Load]) -> dict[str, float]:
    """Return rate and percentiles over all answers of some measurements."""
    latencies_s = np.concatenate([load.latencies_s for load in loads])
    seconds = sum(load.seconds for load in loads)
    return {
        "per_second": len(latencies_s) / seconds,
        "p50_ms": float(np.percentile(latencies_s, 50) * 1000),
        "p99_ms": float(np.percentile(latencies_s, 99) * 1000),
    }


if __name__ == "__main__":
    main()
