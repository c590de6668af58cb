"""Play many rounds on one worker and see whether anything grows.

::

    python -m tests.torture.soak --pairs 100000

Tombstones are kept for three bucket widths (three minutes here), so the store's memory is
looked at without them, and once more when the last of them has gone.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tests.torture.cluster import NO_TLS, Cluster, Worker, wait_until
from tests.torture.traffic import MAIN

CLIENTS = 8
#: Of all rounds this share is not answered: it expires.
SILENT = 0.05
WINDOW_S = 1.0
#: Tombstones live for three buckets of a minute at most.
TOMBSTONES_S = 200.0
#: Ten models of this size are what a worker has to hold in 200 MB.
MODELS, LABELS, FEATURES = 10, 10, 784
WARM_UP = 0.3
MIB = 2**20

SOAKED = MAIN | {
    "name": "soaked",
    "labels": [f"label {code}" for code in range(LABELS)],
    "features": {"type": "dense", "size": 64},
    "window_s": WINDOW_S,
    "log_keep": 500,
}
SETTINGS = {"snapshot_events": 500, "snapshot_s": 1}


class Sample(NamedTuple):
    """What the worker and the store use at one time."""

    rss_mib: float
    descriptors: int
    keys: int
    store_mib: float
    log_entries: int
    pending: int


def sample(cluster: Cluster) -> Sample:
    """Look at the worker and the store."""
    process = cluster.workers[0].process
    assert process is not None
    with cluster.store.client() as opened:
        client: Any = opened
        # A model's second snapshot comes when there is time for it, and is one key for ever.
        passing = (b":done:", b":snap1")
        kept = [key for key in client.scan_iter(count=1000) if not any(p in key for p in passing)]
        tombstones = list(client.scan_iter(match="*:done:*", count=1000))
        used = client.info("memory")["used_memory"]
        used -= sum(client.memory_usage(key, samples=0) or 0 for key in tombstones)
        return Sample(
            resident_mib(process.pid),
            descriptors(process.pid) - store_connections(client),
            len(kept),
            used / MIB,
            client.xlen("mc:{default/soaked}:log"),
            client.hlen("mc:{default/soaked}:pending"),
        )


def descriptors(pid: int) -> int:
    """Return how many files and sockets a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def store_connections(client: Any) -> int:
    """Return how many connections the worker keeps to the store: how many depends on the load."""
    return len(client.client_list()) - 1


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) / 1024


def libraries(pid: int, name: str) -> int:
    """Return how many mapped files of a process have `name` in their path."""
    return sum(name in line for line in Path(f"/proc/{pid}/maps").read_text().splitlines())


class Player(threading.Thread):
    """Plays its share of the rounds, one call after the other."""

    def __init__(self, worker: Worker, number: int, pairs: int) -> None:
        super().__init__(name=f"player-{number}")
        self.error: BaseException | None = None
        self._connection = http.client.HTTPConnection("127.0.0.1", worker.port, timeout=30)
        self._rng = random.Random(number)  # noqa: S311 - a load, not a secret
        self._number = number
        self._pairs = pairs

    def run(self) -> None:
        """Play."""
        try:
            for count in range(self._pairs):
                x = [round(self._rng.gauss(0, 1), 2) for _ in range(64)]
                body: dict[str, Any] = {"x": x}
                if count % 3 == 0:
                    body["request_id"] = f"{self._number}-{count}"
                decision = self._post("predict", body)
                if self._rng.random() >= SILENT:
                    told = {"decision_id": decision["decision_id"], "feedback": count % 2}
                    self._post("feedback", told)
        except BaseException as error:
            self.error = error
        finally:
            self._connection.close()

    def _post(self, call: str, body: dict[str, Any]) -> Any:
        headers = {"content-type": "application/json"}
        self._connection.request("POST", f"/v1/models/soaked/{call}", json.dumps(body), headers)
        response = self._connection.getresponse()
        answer = json.loads(response.read())
        if response.status != 200:
            raise RuntimeError(f"{call}: {response.status} {answer}")
        return answer


def play(worker: Worker, pairs: int) -> None:
    """Play rounds with several clients at once."""
    players = [Player(worker, number, pairs // CLIENTS) for number in range(CLIENTS)]
    for player in players:
        player.start()
    for player in players:
        player.join()
        if player.error is not None:
            raise player.error


def play_ten_models(worker: Worker, rounds: int) -> None:
    """Create ten large models and play rounds on each."""
    with httpx.Client(base_url=worker.url, timeout=30, verify=NO_TLS) as client:
        for number in range(MODELS):
            features = {"type": "dense", "size": FEATURES}
            spec = SOAKED | {"name": f"large-{number}", "features": features}
            model = client.post("/v1/models", json=spec).raise_for_status().json()
            path = f"/v1/models/{model['name']}"
            for count in range(rounds):
                x = [float((count + place) % 7) for place in range(FEATURES)]
                decision = client.post(f"{path}/predict", json={"x": x}).raise_for_status()
                told = {"decision_id": decision.json()["decision_id"], "feedback": 1}
                client.post(f"{path}/feedback", json=told).raise_for_status()


def run(pairs: int, *, parts: int = 10, wait_for_tombstones: bool = False) -> dict[str, Any]:
    """Play, look from time to time, and return the numbers with their targets."""
    with Cluster(1, settings=SETTINGS) as cluster:
        worker = cluster.workers[0]
        httpx.post(f"{worker.url}/v1/models", json=SOAKED, verify=NO_TLS).raise_for_status()
        play_ten_models(worker, rounds=20)
        assert worker.process is not None
        ten_models_mib = resident_mib(worker.process.pid)
        samples, took_s = list[Sample](), 0.0
        for _ in range(parts):
            begin_s = time.monotonic()
            play(worker, pairs // parts)
            took_s += time.monotonic() - begin_s
            _settle(cluster)
            samples.append(sample(cluster))
        torch = libraries(worker.process.pid, "torch")
        if wait_for_tombstones:
            _wait_for_tombstones(cluster)
            samples.append(sample(cluster))
    return _numbers(pairs, took_s, ten_models_mib, torch, samples)


def _settle(cluster: Cluster) -> None:
    """Wait until the silent rounds have expired and the log is trimmed."""
    with cluster.store.client() as opened:
        client: Any = opened
        wait_until(lambda: client.zcard("mc:{default/soaked}:due") == 0, "the last expiry")
        wait_until(lambda: client.xlen("mc:{default/soaked}:log") < 3000, "trimming")


def _wait_for_tombstones(cluster: Cluster) -> None:
    with cluster.store.client() as opened:
        client: Any = opened
        wait_until(lambda: not client.keys("*:done:*"), "the tombstones' end", TOMBSTONES_S)


def _numbers(
    pairs: int, took_s: float, ten_models_mib: float, torch: int, samples: list[Sample]
) -> dict[str, Any]:
    first, last = samples[round(WARM_UP * (len(samples) - 1))], samples[-1]
    numbers: dict[str, Any] = {
        "pairs": pairs,
        "pairs_a_second": round(pairs / took_s),
        "rss_ten_models_mib": round(ten_models_mib, 1),
        "torch_libraries": torch,
        "rss_growth_mib": round(last.rss_mib - first.rss_mib, 2),
        "descriptor_growth": last.descriptors - first.descriptors,
        "key_growth": last.keys - first.keys,
        "store_growth_mib": round(last.store_mib - first.store_mib, 2),
        "log_entries": last.log_entries,
        "pending": last.pending,
        "samples": [each._asdict() for each in samples],
    }
    limits = {
        "rss_ten_models_mib": 200.0,
        "torch_libraries": 0,
        # A mebibyte in 100,000 rounds, and what an allocator may do in any.
        "rss_growth_mib": 1.0 + pairs / 100_000,
        "descriptor_growth": 0,
        "key_growth": 0,
        "store_growth_mib": 1.0,
        "log_entries": 3000,
        "pending": 0,
    }
    numbers["targets"] = [
        {"name": name, "value": numbers[name], "target": limit, "met": numbers[name] <= limit}
        for name, limit in limits.items()
    ]
    return numbers


def main(argv: Sequence[str] | None = None) -> int:
    """Soak, print what grew; 1 if anything did."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    args = parser.parse_args(argv)
    numbers = run(args.pairs, wait_for_tombstones=True)
    for name, value in numbers.items():
        if name not in ("targets", "samples"):
            print(f"{name:24} {value}")
    for each in numbers["samples"]:
        print("  " + "  ".join(f"{name} {value:g}" for name, value in each.items()))
    missed = [target["name"] for target in numbers["targets"] if not target["met"]]
    print(f"FAILED: {', '.join(missed)}" if missed else "passed")
    if args.json:
        print(json.dumps(numbers))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
