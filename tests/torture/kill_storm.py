"""Kill the store, the workers and their trainers under load; then look whether anything broke.

::

    python -m tests.torture.kill_storm --seconds 60
    python -m tests.torture.kill_storm --seconds 60 --everysec              # a slow disk
    python -m tests.torture.kill_storm --seconds 60 --everysec --unchecked  # has to fail
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import httpx
import redis

from tests.torture.cluster import CHECKED, NO_TLS, UNCHECKED, Cluster, wait_until
from tests.torture.oracles import Findings, Seen, check_all, read_snapshot
from tests.torture.traffic import MODELS, Client, Player, Record, create_models

PLAYERS = 6
WORKERS = 3
#: Of all kills this share hits the store; a store is back in 50 ms, a worker in a second.
STORE_SHARE = 0.65
KILLS_A_MINUTE = 100
#: Of the kills while a trainer estimates noise rates, this share hits it, and as many its worker:
#: some 20 come while it works, and half of the trainers are to reach their end.
TRAINER_SHARE = 0.04
#: Short, so that a storm sees many snapshots, and few enough that recovery folds a tail.
SNAPSHOTS: dict[str, object] = {"snapshot_s": 0.7, "snapshot_events": 400}
#: So much of each worker's log is shown when something failed.
LOG_CHARS = 4000
#: Load goes on for this long after the last kill, so that its recovery is seen too.
QUIET_S = 3.0
#: A recovery that takes longer than this is counted as this.
NEVER_S = 60.0
#: An estimate that began as the storm ended may lose its trainer, wait until its claim has run
#: out, and be made on a machine that is busy with something else.
ESTIMATE_S = 180.0


Victim: TypeAlias = Literal["store", "worker", "trainer"]


class Kill(NamedTuple):
    """One kill: of the store, of a worker (its number) or of a trainer, and when."""

    of: Victim
    worker: int | None
    at_s: float
    #: Whether it came while noise rates were estimated: for a worker, by a trainer of its own.
    in_estimate: bool


@dataclass
class Storm:
    """What happened, and what the oracles found."""

    seconds: float
    kills: list[Kill] = field(default_factory=list)
    record: Record = field(default_factory=Record)
    seen: dict[tuple[str, int, str], Seen] = field(default_factory=dict)
    rewinds: int = 0
    findings: Findings = field(default_factory=Findings)


class Nemesis(threading.Thread):
    """Kills the store, a worker or a trainer, and starts it again, until told to stop."""

    def __init__(self, cluster: Cluster, storm: Storm, pause_s: float, store_share: float) -> None:
        super().__init__(name="nemesis")
        self.error: BaseException | None = None
        self._cluster = cluster
        self._storm = storm
        self._pause_s = pause_s
        self._store_share = store_share
        self._rng = random.Random(17)  # noqa: S311 - a load, not a secret
        self._stop_event = threading.Event()

    def run(self) -> None:
        """Kill."""
        next_s = time.monotonic()
        try:
            while not self._stop_event.wait(max(0.0, next_s - time.monotonic())):
                next_s += self._rng.uniform(0.5, 1.5) * self._pause_s
                self._kill_one()
        except BaseException as error:
            self.error = error

    def _kill_one(self) -> None:
        trainers = self._cluster.trainers()
        pids = [worker.pid() for worker in self._cluster.workers]
        training = [number for number, pid in enumerate(pids) if pid in trainers.values()]
        chance, number = self._rng.random(), self._rng.randrange(len(pids))
        if trainers and chance < TRAINER_SHARE:
            self._note("trainer", None, in_estimate=True)
            with contextlib.suppress(ProcessLookupError):
                os.kill(min(trainers), signal.SIGKILL)
        elif training and chance < 2 * TRAINER_SHARE:
            self._kill_worker(training[0], in_estimate=True)
        elif self._rng.random() < self._store_share:
            self._note("store", None, in_estimate=bool(trainers))
            self._cluster.store.kill()
            self._cluster.store.start()
        else:
            self._kill_worker(number, in_estimate=number in training)

    def _kill_worker(self, number: int, *, in_estimate: bool) -> None:
        self._note("worker", number, in_estimate=in_estimate)
        self._cluster.workers[number].kill()
        self._cluster.workers[number].start()

    def _note(self, of: Victim, worker: int | None, *, in_estimate: bool) -> None:
        self._storm.kills.append(Kill(of, worker, time.monotonic(), in_estimate))

    def end(self) -> None:
        """Stop killing."""
        self._stop_event.set()
        self.join()


class Watcher(threading.Thread):
    """Keeps every snapshot that it sees in the store, to compare each with the fold later."""

    def __init__(self, cluster: Cluster, storm: Storm) -> None:
        super().__init__(name="watcher", daemon=True)
        self._cluster = cluster
        self._storm = storm
        self._stop_event = threading.Event()

    def run(self) -> None:
        """Watch."""
        while not self._stop_event.wait(0.15):
            with (
                contextlib.suppress(redis.exceptions.RedisError),
                self._cluster.store.client() as c,
            ):
                for spec in MODELS:
                    seen = read_snapshot(c, spec["name"], "snap")
                    if seen:
                        self._storm.seen[seen.model, seen.seq, seen.chain] = seen

    def end(self) -> None:
        """Stop watching."""
        self._stop_event.set()
        self.join()


def run_storm(
    seconds: float,
    *,
    kills_a_minute: float = KILLS_A_MINUTE,
    everysec: bool = False,
    unchecked: bool = False,
) -> Storm:
    """Run one storm and every oracle on what it left."""
    storm = Storm(seconds)
    module = UNCHECKED if unchecked else CHECKED
    settings: dict[str, object] = SNAPSHOTS | ({"durability": "relaxed"} if everysec else {})
    with Cluster(WORKERS, everysec=everysec, module=module, settings=settings) as cluster:
        clients = [Client(cluster.workers, storm.record, seed) for seed in range(PLAYERS)]
        create_models(clients[0])
        if everysec:
            # A model whose creation is lost is not there any more; that is no matter of a log.
            time.sleep(QUIET_S)
        stop = threading.Event()
        players = [Player(client, number, stop) for number, client in enumerate(clients)]
        # On a slow disk only the store is killed: a new worker has no lost history to hold.
        store_share = 1.0 if everysec else STORE_SHARE
        nemesis = Nemesis(cluster, storm, 60 / kills_a_minute, store_share)
        watcher = Watcher(cluster, storm)
        for thread in (*players, nemesis, watcher):
            thread.start()
        time.sleep(seconds)
        nemesis.end()
        time.sleep(QUIET_S)
        # The players go on until whoever was killed last has answered, however busy the machine.
        with contextlib.suppress(RuntimeError):
            wait_until(lambda: NEVER_S not in chain(*recoveries(storm)), "answers", NEVER_S)
        stop.set()
        for player in players:
            player.join()
        watcher.end()
        threads: list[Player | Nemesis] = [*players, nemesis]
        for ended in threads:
            if ended.error is not None:
                logs = "\n".join(worker.log.read_text()[-LOG_CHARS:] for worker in cluster.workers)
                raise RuntimeError(
                    f"{ended.name} failed; the workers say:\n{logs}"
                ) from ended.error
        _settle(cluster)
        storm.rewinds = cluster.workers[0].rewinds()
        # A snapshot of a history that was lost is none of this log's.
        seen = [] if everysec else list(storm.seen.values())
        # Nor is an estimate that was promised in it.
        storm.record.promised = [] if everysec else storm.record.promised
        names = [spec["name"] for spec in MODELS]
        with cluster.store.client() as client:
            storm.findings = check_all(client, names, storm.record, cluster.workers, seen)
    return storm


def _settle(cluster: Cluster) -> None:
    """Wait until every worker is ready, and nothing is left to expire or to be estimated."""
    for worker in cluster.workers:
        worker.wait_until_ready()
    with cluster.store.client() as client:
        wait_until(lambda: not client.zcard("mc:{default/brief}:due"), "the last expiry")
        wait_until(lambda: not _estimating(client), "the last estimate", ESTIMATE_S)
    for worker in cluster.workers:
        for spec in MODELS:
            state = httpx.get(
                f"{worker.url}/v1/models/{spec['name']}/state", timeout=30, verify=NO_TLS
            )
            if state.status_code != 200:
                raise RuntimeError(f"{spec['name']}: {state.status_code} {state.text}")


def _estimating(client: redis.Redis) -> bool:
    """Whether an estimate is asked for, or being made."""
    asked, token = cast(
        list[bytes | None], client.hmget("mc:{default/noisy}:estimate", "asked", "token")
    )
    return asked == b"1" or token is not None


def recoveries(storm: Storm) -> tuple[list[float], list[float]]:
    """Return seconds from each kill to the first call sent and answered after it.

    First of the store (by any worker), then of the workers (by the one that was killed).
    """
    store: list[float] = []
    workers: list[float] = []
    for kill in storm.kills:
        if kill.of == "trainer":
            continue
        answers = (
            call.answered_s - kill.at_s
            for call in storm.record.answered
            if call.sent_s > kill.at_s and kill.worker in (None, call.worker)
        )
        (store if kill.worker is None else workers).append(min(answers, default=NEVER_S))
    return store, workers


def report(storm: Storm, *, everysec: bool, kills_wanted: int) -> dict[str, Any]:
    """Return the numbers of a storm, with its targets."""
    findings, record = storm.findings, storm.record
    store, workers = recoveries(storm)
    numbers: dict[str, Any] = {
        "seconds": storm.seconds,
        "kills": len(storm.kills),
        "kills_store": len(store),
        "kills_worker": len(workers),
        "kills_trainer": sum(kill.of == "trainer" for kill in storm.kills),
        "kills_store_in_estimate": _in_estimate(storm, "store"),
        "kills_worker_in_estimate": _in_estimate(storm, "worker"),
        "acks": len(record.acks),
        "acks_repeated": sum(ack.status in ("duplicate", "conflict") for ack in record.acks),
        "decisions": len(record.decisions),
        "events": findings.events,
        "lost": findings.lost,
        "lost_decisions": findings.lost_decisions,
        "forgotten": len(record.forgotten),
        "doubled": findings.doubled,
        "gaps": findings.gaps,
        "divergent": findings.divergent,
        "states_compared": findings.states,
        "snapshots_wrong": findings.snapshots,
        "snapshots_compared": findings.snapshots_seen,
        "propensities_wrong": findings.propensities,
        "propensities_compared": findings.propensities_seen,
        "unbalanced": findings.unbalanced,
        "estimates_promised": len(set(record.promised)),
        "estimates_wrong": findings.estimates,
        "estimates_logged": findings.estimates_seen,
        "rounds_of_challengers": findings.challenged_seen,
        "surprises": findings.surprises,
        "rewinds": storm.rewinds,
        **_times("recovery_store", store),
        **_times("recovery_worker", workers),
    }
    numbers["targets"] = _targets(numbers, everysec, kills_wanted)
    return numbers


def _in_estimate(storm: Storm, of: Victim) -> int:
    return sum(kill.of == of and kill.in_estimate for kill in storm.kills)


def _times(name: str, times: Sequence[float]) -> dict[str, float]:
    if not times:
        return {}
    return {
        f"{name}_median_s": round(statistics.median(times), 3),
        f"{name}_max_s": round(max(times), 3),
    }


def _targets(numbers: dict[str, Any], everysec: bool, kills: int) -> list[dict[str, Any]]:
    zero = ["doubled", "gaps", "divergent", "snapshots_wrong", "propensities_wrong", "unbalanced"]
    zero.append("estimates_wrong")
    # What everysec lost is gone, and the same request may then get another answer.
    zero += [] if everysec else ["lost", "lost_decisions", "forgotten", "surprises", "rewinds"]
    targets = [
        {"name": name, "value": numbers[name], "target": 0, "met": numbers[name] == 0}
        for name in zero
    ]
    least = {"kills": kills, "acks": kills, "states_compared": WORKERS * len(MODELS)}
    least |= {"rounds_of_challengers": kills}
    least |= {"rewinds": 1} if everysec else {}
    # A short storm is over before an estimate is.
    least |= {"estimates_logged": 1} if kills >= KILLS_A_MINUTE else {}
    for name, target in least.items():
        value = numbers[name]
        targets.append({"name": name, "value": value, "target": target, "met": value >= target})
    return targets


def main(argv: Sequence[str] | None = None) -> int:
    """Run a storm, print what happened; 1 if an oracle failed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--kills-a-minute", type=float, default=KILLS_A_MINUTE * 1.2)
    parser.add_argument("--everysec", action="store_true", help="fsync every second, slowed down")
    parser.add_argument("--unchecked", action="store_true", help="without the chain check")
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    args = parser.parse_args(argv)
    storm = run_storm(
        args.seconds,
        kills_a_minute=args.kills_a_minute,
        everysec=args.everysec,
        unchecked=args.unchecked,
    )
    wanted = 0 if args.everysec else int(KILLS_A_MINUTE * args.seconds / 60)
    numbers = report(storm, everysec=args.everysec, kills_wanted=wanted)
    for name, value in numbers.items():
        if name != "targets":
            print(f"{name:24} {value}")
    for note in storm.findings.notes:
        print(f"  {note}")
    missed = [target["name"] for target in numbers["targets"] if not target["met"]]
    print(f"FAILED: {', '.join(missed)}" if missed else "passed")
    if args.json:
        print(json.dumps(numbers))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
