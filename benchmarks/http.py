"""What a round costs over HTTP, against FastAPI endpoints that do nothing.

    python -m benchmarks.http [--json] [--rounds 5] [--requests 3000]

One worker, the embedded Valkey with fsync on every write, 16 connections, everything on one
machine; the two servers take turns, and the ratios are medians over the rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np

from benchmarks.command import Target, at_least, at_most, count, report
from benchmarks.load import Load, http_request, run_load
from tests.serving import running_service

CONNECTIONS = 16
SIZES = (64, 784)
LABELS = [f"label-{i}" for i in range(10)]
BATCH_ITEMS = 1000
BATCHES = 8
#: Distinct instances; their text is what is parsed, so a few hundred are plenty.
INSTANCES = 256
SEED = 1


#: The targets are RCNBF's. Noise rates are given: what an estimate takes is not timed here.
LEARNERS_HERE: dict[str, dict[str, Any]] = {
    "rcnbf": {"kind": "rcnbf", "gamma": 0.05, "rho_0": 0.15, "rho_1": 0.15},
    "forward": {"kind": "forward"},
    "forward_softmax": {"kind": "forward_softmax"},
}


def main() -> None:
    """Measure, print a table, and with --json one object as the last line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=count, default=5)
    parser.add_argument("--requests", type=count, default=3000)
    parser.add_argument("--learner", choices=LEARNERS_HERE, default="rcnbf")
    args = parser.parse_args()
    measured: dict[str, Any] = {}
    with plain_server() as plain_url, running_service() as service:
        for size in SIZES:
            learner = LEARNERS_HERE[args.learner]
            load = (size, args.rounds, args.requests)
            measured[str(size)] = measure(plain_url, service.url, learner, *load)
    print_table(measured)
    report(judge(measured), as_json=args.json, measured=measured)


@contextlib.contextmanager
def plain_server() -> Iterator[str]:
    """Run the endpoints that do nothing, in a process of their own."""
    with contextlib.closing(httpx.Client()) as client:
        port = _free_port()
        command = [sys.executable, "-m", "uvicorn", "benchmarks.plain_app:app"]
        command += ["--port", str(port), "--no-access-log", "--log-level", "warning"]
        process = subprocess.Popen(command)
        try:
            url = f"http://127.0.0.1:{port}"
            end_s = time.monotonic() + 30
            while time.monotonic() < end_s:
                with contextlib.suppress(httpx.TransportError):
                    client.get(url)
                    break
                time.sleep(0.05)
            yield url
        finally:
            process.terminate()
            process.wait(20)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def instances(size: int) -> list[bytes]:
    """Return bodies of predict with `size` features."""
    rows = np.random.default_rng(SEED).normal(size=(INSTANCES, size)).round(6)
    return [json.dumps({"x": row.tolist()}, separators=(",", ":")).encode() for row in rows]


def measure(
    plain_url: str,
    url: str,
    learner: dict[str, Any],
    size: int,
    rounds: int,
    requests: int,
) -> dict[str, list[dict[str, float]]]:
    """Return, per kind of call, what each round measured."""
    model = f"bench-{size}"
    spec = {
        "name": model,
        "learner": learner,
        "labels": LABELS,
        "features": {"type": "dense", "size": size},
        "estimate_every": 0,
    }
    httpx.post(f"{url}/v1/models", json=spec).raise_for_status()
    bodies = instances(size)
    results: dict[str, list[dict[str, float]]] = {"predict": [], "feedback": [], "batch": []}
    plain_predicts = _cycle(plain_url, "/predict", bodies, requests)
    predicts = _cycle(url, f"/v1/models/{model}/predict", bodies, requests)
    run_load(plain_url, plain_predicts[:500], CONNECTIONS)
    _feedback_all(url, model, run_load(url, predicts[:500], CONNECTIONS))
    for _ in range(rounds):
        plain = run_load(plain_url, plain_predicts, CONNECTIONS)
        ours = run_load(url, predicts, CONNECTIONS)
        results["predict"].append(_compare(ours, plain))
        feedbacks = _feedback_bodies(ours)
        plain = run_load(plain_url, _all(plain_url, "/feedback", feedbacks), CONNECTIONS)
        told = run_load(url, _all(url, f"/v1/models/{model}/feedback", feedbacks), CONNECTIONS)
        results["feedback"].append(_compare(told, plain))
        results["batch"].append(_batch(url, model, bodies, ours))
    return results


def _batch(url: str, model: str, bodies: list[bytes], single: Load) -> dict[str, float]:
    items = b",".join(bodies[i % len(bodies)] for i in range(BATCH_ITEMS))
    request = http_request(url, f"/v1/models/{model}/predict/batch", b'{"items":[' + items + b"]}")
    load = run_load(url, [request] * BATCHES, 2)
    _check(load)
    rate = load.per_second * BATCH_ITEMS
    decided = [item for body in load.bodies for item in json.loads(body)["items"]]
    feedback = [
        {"decision_id": item["decision_id"], "feedback": i % 2} for i, item in enumerate(decided)
    ]
    for start in range(0, len(feedback), BATCH_ITEMS):
        answer = httpx.post(
            f"{url}/v1/models/{model}/feedback/batch",
            json={"items": feedback[start : start + BATCH_ITEMS]},
            timeout=30,
        )
        answer.raise_for_status()
    return {"rate": rate, "ratio": rate / single.per_second}


def _compare(ours: Load, plain: Load) -> dict[str, float]:
    _check(ours)
    _check(plain)
    return {
        "rate": ours.per_second,
        "plain_rate": plain.per_second,
        "ratio": ours.per_second / plain.per_second,
        "p50_ms": ours.percentile_ms(50),
        "p99_ms": ours.percentile_ms(99),
        "plain_p99_ms": plain.percentile_ms(99),
        "p99_ratio": ours.percentile_ms(99) / plain.percentile_ms(99),
    }


def _check(load: Load) -> None:
    if set(load.statuses) != {200}:
        raise RuntimeError(f"not every request was answered with 200: {load.statuses}")


def _feedback_bodies(predicted: Load) -> list[bytes]:
    return [
        json.dumps(
            {"decision_id": json.loads(body)["decision_id"], "feedback": i % 2},
            separators=(",", ":"),
        ).encode()
        for i, body in enumerate(predicted.bodies)
    ]


def _feedback_all(url: str, model: str, predicted: Load) -> None:
    run_load(
        url,
        _all(url, f"/v1/models/{model}/feedback", _feedback_bodies(predicted)),
        CONNECTIONS,
    )


def _cycle(url: str, path: str, bodies: list[bytes], count: int) -> list[bytes]:
    requests = _all(url, path, bodies)
    return [requests[i % len(requests)] for i in range(count)]


def _all(url: str, path: str, bodies: list[bytes]) -> list[bytes]:
    return [http_request(url, path, body) for body in bodies]


def median(results: list[dict[str, float]], name: str) -> float:
    """Return the median of one number over the rounds."""
    return statistics.median(result[name] for result in results)


def print_table(measured: dict[str, Any]) -> None:
    """Print medians, a row per size and call."""
    print(
        f"{'features':>8} {'call':>9} {'per s':>9} {'plain/s':>9} {'ratio':>6} "
        f"{'p50 ms':>7} {'p99 ms':>7} {'plain p99':>9}"
    )
    for size, results in measured.items():
        for call in ("predict", "feedback"):
            rows = results[call]
            print(
                f"{size:>8} {call:>9} {median(rows, 'rate'):9.0f} "
                f"{median(rows, 'plain_rate'):9.0f} {median(rows, 'ratio'):6.2f} "
                f"{median(rows, 'p50_ms'):7.2f} {median(rows, 'p99_ms'):7.2f} "
                f"{median(rows, 'plain_p99_ms'):9.2f}"
            )
        print(f"{size:>8} {'batch':>9} {median(results['batch'], 'rate'):9.0f} items a second")


def judge(measured: dict[str, Any]) -> list[Target]:
    """Return the targets with what was measured."""
    wanted = {"64": (0.9, 1.0), "784": (1.2, 1.0)}
    targets = []
    for size, (predict, feedback) in wanted.items():
        results = measured[size]
        for call, least in (("predict", predict), ("feedback", feedback)):
            ratio = median(results[call], "ratio")
            targets.append(at_least(f"{call} rate to plain, {size} features", ratio, least))
            p99 = median(results[call], "p99_ratio")
            targets.append(at_most(f"{call} p99 to plain, {size} features", p99, 2.0))
        batch = median(results["batch"], "ratio")
        targets.append(at_least(f"batch rate to single, {size} features", batch, 10.0))
    return targets


if __name__ == "__main__":
    main()
