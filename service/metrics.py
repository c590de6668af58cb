"""What Prometheus may ask: requests of every worker, rounds of every model."""

from __future__ import annotations

import fcntl
import itertools
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, values
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from service.alarms import hub_watch_of
from service.estimates import Tally
from service.meta import COUNTERS, Meta
from service.replica import Replica
from service.replies import Waiting

#: Set by `misclick serve` before the workers start: where they share their counts.
SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
#: Seconds; a call takes 1 to 20 ms, and one that waits for Redis up to the timeout.
BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
#: What a worker's counts and times take in the folder at most, each: all routes with all statuses.
SHARED_BYTES = 1 << 18

log = logging.getLogger("misclick.metrics")


def take_place() -> None:
    """From now on count in the place of a worker that has ended, if several share a folder.

    Otherwise each process would leave two files behind, all of which are read for the numbers. A
    place belongs to the process that holds its lock, and a lock ends with its process: so there are
    hardly more places than workers at any one time.
    """
    folder = os.environ.get(SHARED_FOLDER)
    if folder is None:
        return
    for place in itertools.count():
        held = os.open(Path(folder, f"{place}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(held)
        else:
            break
    files = [Path(folder, f"{kind}_{place}.db") for kind in ("counter", "histogram")]
    try:
        for file in files:
            _take_room(file)
    except OSError as error:
        for file in files:
            # Nobody can read an empty one.
            if file.exists() and not file.stat().st_size:
                file.unlink()
        what = "no room for this worker's request counts: /metrics leaves them out"
        log.warning(what, extra={"folder": folder, "why": error.strerror})
        values.ValueClass = values.MutexValue
        return
    values.ValueClass = values.MultiProcessValue(lambda: place)


def _take_room(path: Path) -> None:
    """Have the disk keep room for a file of counts.

    These are written through a map, where no call could fail: a page for which the disk has no room
    would kill the worker (SIGBUS), and the one in its place.
    """
    with path.open("a+b") as file:
        if sys.platform == "linux":
            os.posix_fallocate(file.fileno(), 0, SHARED_BYTES)


class ModelNumbers(NamedTuple):
    """What Redis says of one model."""

    name: str
    meta: Meta
    waiting: Waiting
    #: None where no learner uses noise rates.
    estimates: Tally | None


class RequestMetrics:
    """Counts and times the requests of one worker, by route."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "misclick_requests",
            "Requests answered.",
            ("route", "method", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "misclick_request_duration_seconds",
            "Time from a request's first byte to its answer.",
            ("route",),
            buckets=BUCKETS_S,
            registry=self.registry,
        )
        self._cells: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def observe(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        key = (route, method, status)
        cells = self._cells.get(key)
        if cells is None:
            cells = (
                self._requests.labels(route, method, str(status)),
                self._seconds.labels(route),
            )
            self._cells[key] = cells
        cells[0].inc()
        cells[1].observe(seconds)

    def render(self, models: Iterable[ModelNumbers] | None, replicas: Iterable[Replica]) -> bytes:
        """Return everything in the text format; `models` is None where Redis did not answer."""
        requests = self.registry
        if SHARED_FOLDER in os.environ:
            requests = CollectorRegistry()
            MultiProcessCollector(requests)
        of_models = CollectorRegistry()
        of_models.register(_ModelCollector(models, replicas))
        return generate_latest(requests) + generate_latest(of_models)


class _ModelCollector(Collector):
    """The models' counters as Redis has them, and this worker's copies."""

    def __init__(self, models: Iterable[ModelNumbers] | None, replicas: Iterable[Replica]) -> None:
        self._redis_up = models is not None
        self._models = list(models or ())
        self._replicas = list(replicas)

    def collect(self) -> Iterator[Metric]:
        text = "1 where Redis answered; else what it knows of models is left out."
        yield GaugeMetricFamily("misclick_redis_up", text, value=float(self._redis_up))
        for name in COUNTERS:
            family = CounterMetricFamily(
                f"misclick_{name}", f"The model's {name} so far.", labels=["model"]
            )
            for model in self._models:
                family.add_metric([model.name], model.meta.counters[name])
            yield family
        text = "Decisions whose windows have not closed."
        yield self._gauge("pending", text, self._waiting("pending"))
        text = "Feedbacks that are held until their windows close, where silence is no click."
        yield self._gauge("held", text, self._waiting("held"))
        yield self._gauge("seq", "Events in the log.", self._seqs())
        yield self._gauge("folded_seq", "Events this worker has folded.", self._folded())
        yield self._gauge("snapshot_seq", "Events in the newest snapshot known.", self._snaps())
        yield self._gauge("rejected", "Events that the learner refused.", self._rejected())
        text = "1 while hubs look mislabelled, of models that this worker holds."
        yield self._gauge("hub_alarm", text, self._hub_alarms())
        text = "1 while no clicks come, not even false ones, of models that this worker holds."
        yield self._gauge("silent", text, self._of_learners("silent"))
        text = "1 while instances predict clicks worse than click rates, of models held here."
        yield self._gauge("context_free", text, self._of_learners("context_free"))
        restarts = CounterMetricFamily(
            "misclick_restarts",
            "Times the learner that decides began anew: fewer clicks came than expected, or more.",
            labels=["model", "learner"],
        )
        for replica in self._replicas:
            # By learner: restarts from before its promotion are not new ones.
            contest = replica.fold.contest
            labels = [replica.spec.name, contest.deciding.name]
            restarts.add_metric(labels, contest.learner.restarts)
        yield restarts
        yield from self._estimates()

    def _estimates(self) -> Iterator[Metric]:
        ended = CounterMetricFamily(
            "misclick_estimates",
            "Estimates of noise rates that ended, by outcome.",
            labels=["model", "outcome"],
        )
        tallies = [(m.name, m.estimates) for m in self._models if m.estimates is not None]
        for model, tally in tallies:
            for outcome, count in tally.ended.items():
                ended.add_metric([model, outcome], count)
        yield ended
        running = [(model, float(tally.running)) for model, tally in tallies]
        yield self._gauge("estimate_running", "Whether an estimate is being made.", running)
        took_s = [(model, tally.took_s) for model, tally in tallies if tally.took_s is not None]
        yield self._gauge("estimate_seconds", "Seconds that the last estimate took.", took_s)
        for name, text in (
            ("rho_0", "Rate of false clicks in force, as this worker has folded it."),
            ("rho_1", "Rate of missed clicks in force, as this worker has folded it."),
        ):
            yield self._gauge(name, text, self._rates(name))

    def _rates(self, name: str) -> list[tuple[str, float]]:
        users = [(replica.spec.name, replica.fold.contest.rate_user) for replica in self._replicas]
        return [(model, getattr(user, name)) for model, user in users if user is not None]

    def _hub_alarms(self) -> list[tuple[str, int]]:
        watches = [(replica.spec.name, hub_watch_of(replica)) for replica in self._replicas]
        return [(model, int(watch.raised)) for model, watch in watches if watch is not None]

    def _of_learners(self, what: str) -> list[tuple[str, int]]:
        return [(each.spec.name, int(getattr(each.fold.learner, what))) for each in self._replicas]

    def _waiting(self, what: str) -> list[tuple[str, int]]:
        return [(model.name, getattr(model.waiting, what)) for model in self._models]

    def _seqs(self) -> list[tuple[str, int]]:
        return [(model.name, model.meta.seq) for model in self._models]

    def _folded(self) -> list[tuple[str, int]]:
        return [(replica.spec.name, replica.fold.seq) for replica in self._replicas]

    def _snaps(self) -> list[tuple[str, int]]:
        return [(replica.spec.name, replica.snapshot_seq) for replica in self._replicas]

    def _rejected(self) -> list[tuple[str, int]]:
        return [(replica.spec.name, replica.fold.rejected) for replica in self._replicas]

    @staticmethod
    def _gauge(name: str, text: str, values: Sequence[tuple[str, float]]) -> GaugeMetricFamily:
        family = GaugeMetricFamily(f"misclick_{name}", text, labels=["model"])
        for model, value in values:
            family.add_metric([model], value)
        return family
