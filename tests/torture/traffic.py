"""Clients that never give up: what they were told is what the log has to say afterwards."""

from __future__ import annotations

import base64
import http.client
import json
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.torture.cluster import Worker

#: How long one call is tried again before the storm counts as failed.
PATIENCE_S = 60.0
CALL_TIMEOUT_S = 5.0
#: Of all feedback this share is told once more: the same bit or the other one.
DOUBLED = 0.3
BATCH = 6

MAIN: dict[str, Any] = {
    "name": "main",
    "learner": {"kind": "rcnbf", "gamma": 0.2, "rho_0": 0.1, "rho_1": 0.1},
    "labels": ["a", "b", "c", "d"],
    "features": {"type": "dense", "size": 8},
    "scaling": "standard",
    "window_s": 600.0,
    "seed": 11,
    "log_keep": 1_000_000,
}
#: Learns from full labels, and its labels come and go.
LABELLED: dict[str, Any] = MAIN | {
    "name": "labelled",
    "learner": {"kind": "perceptron"},
    "scaling": "unit",
}
#: Most of its decisions expire, and silence means no click.
BRIEF: dict[str, Any] = MAIN | {
    "name": "brief",
    "learner": {"kind": "banditron", "gamma": 0.3},
    "scaling": "none",
    "window_s": 0.8,
    "on_expiry": "no_click",
}
#: Its noise rates are estimated all the time: some clicks lie, about labels that can be learned.
NOISY: dict[str, Any] = MAIN | {
    "name": "noisy",
    "learner": {"kind": "rcine", "gamma": 0.5},
    "labels": ["a", "b", "c"],
    "scaling": "none",
    "estimate_every": 1000,
}
#: A window that goes round many times, with so wide rows that its state is in several parts.
WINDOW: dict[str, Any] = MAIN | {
    "name": "window",
    "learner": {"kind": "rknn", "window": 100, "k": 5, "k_noise": 10},
    "labels": ["a", "b", "c"],
    "features": {"type": "hashed", "size": 512},
}
#: Learners compete on its log: they come, and are promoted; rates are set label by label.
RIVALS: dict[str, Any] = MAIN | {
    "name": "rivals",
    "learner": {"kind": "forward", "n_waves": 23},
    "estimate_every": 0,
    "challengers": [
        {"name": "passive", "learner": {"kind": "bpa", "gamma": 0.2}},
        {"name": "softmax", "learner": {"kind": "forward_softmax", "n_waves": 23}},
    ],
}
#: One that comes while it runs.
NEWCOMER: dict[str, Any] = {"name": "newcomer", "learner": {"kind": "soba", "gamma": 0.2}}
MODELS = (MAIN, LABELLED, BRIEF, NOISY, WINDOW, RIVALS)
#: Of the noisy model's feedback this share lies.
LIES = 0.1


class Decided(NamedTuple):
    """A decision that a client was told."""

    model: str
    decision_id: str
    label: str
    greedy: str
    propensity: float
    seq: int
    allowed: tuple[str, ...] | None

    @property
    def nonce(self) -> bytes:
        """The decision's nonce: what its id begins with."""
        return nonce_of(self.decision_id)


class Ack(NamedTuple):
    """What a client was told about one feedback, or one example or round (by its request id)."""

    model: str
    about: str
    status: str
    seq: int | None
    sent: int | None
    first: int | None
    #: Whether it is about a round that somebody else decided.
    told: bool = False


class Answered(NamedTuple):
    """One call that was acknowledged: by which worker, and when it was sent and answered."""

    worker: int
    sent_s: float
    answered_s: float


@dataclass
class Record:
    """Everything the clients were told; lists that threads append to."""

    decisions: list[Decided] = field(default_factory=list)
    acks: list[Ack] = field(default_factory=list)
    answered: list[Answered] = field(default_factory=list)
    surprises: list[str] = field(default_factory=list)
    #: Decisions that the service did not know any more: allowed only where fsync is not always.
    forgotten: list[str] = field(default_factory=list)
    #: Numbers of estimates of the noisy model that were promised.
    promised: list[int] = field(default_factory=list)


class Job(NamedTuple):
    """Feedback to be told at some time."""

    at_s: float
    decision: Decided
    feedback: int


class Client:
    """One client with a connection to each worker; calls until somebody acknowledges."""

    def __init__(self, workers: Sequence[Worker], record: Record, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - a load, not a secret
        self.record = record
        self._ports = [worker.port for worker in workers]
        self._open: dict[int, http.client.HTTPConnection] = {}

    def call(self, path: str, body: object) -> tuple[int, Any]:
        """POST to one worker after the other until one gives a final answer."""
        text = json.dumps(body)
        end_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s:
            worker = self.rng.randrange(len(self._ports))
            sent_s = time.monotonic()
            try:
                status, answer = self._post(worker, f"/v1/models{path}", text)
            except (OSError, http.client.HTTPException):
                self._open.pop(worker).close()
                time.sleep(0.01)
                continue
            if status in (429, 503):
                time.sleep(0.01)
                continue
            self.record.answered.append(Answered(worker, sent_s, time.monotonic()))
            return status, answer
        raise RuntimeError(f"{path} was not acknowledged within {PATIENCE_S:g} s")

    def _post(self, worker: int, path: str, text: str) -> tuple[int, Any]:
        if worker not in self._open:
            port = self._ports[worker]
            self._open[worker] = http.client.HTTPConnection(
                "127.0.0.1", port, timeout=CALL_TIMEOUT_S
            )
        connection = self._open[worker]
        connection.request("POST", path, text, {"content-type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())

    def close(self) -> None:
        """Close the connections."""
        for connection in self._open.values():
            connection.close()


class Player(threading.Thread):
    """Plays rounds on all models until told to stop, then tells what is left to tell."""

    def __init__(self, client: Client, number: int, stop: threading.Event) -> None:
        super().__init__(name=f"player-{number}")
        self.error: BaseException | None = None
        self._client = client
        self._rng = client.rng
        self._record = client.record
        self._number = number
        self._stop_event = stop
        self._count = 0
        self._jobs: list[Job] = []

    def run(self) -> None:
        """Play."""
        actions = (self._predict, self._predict_batch, self._learn, self._tell_round, self._change)
        try:
            while not self._stop_event.is_set():
                self._rng.choices(actions, (60, 8, 12, 8, 1))[0]()
                self._tell_due(time.monotonic())
            self._tell_due(float("inf"))
        except BaseException as error:
            self.error = error
        finally:
            self._client.close()

    # -- decisions ------------------------------------------------------------------------
    def _predict(self) -> None:
        model = self._rng.choice(("main", "main", "brief", "noisy", "rivals"))
        item, allowed = self._instance(model)
        decision = self._decide(model, item, allowed)
        if self._rng.random() < 0.1 and self._decide(model, item, allowed) != decision:
            self._record.surprises.append(f"another answer to request {item['request_id']}")
        self._plan(decision, item)

    def _decide(self, model: str, item: dict[str, Any], allowed: Any) -> Decided:
        status, answer = self._client.call(f"/{model}/predict", item)
        if status != 200:
            raise RuntimeError(f"predict: {status} {answer}")
        return self._decided(model, answer, allowed)

    def _predict_batch(self) -> None:
        model = self._rng.choice(("main", "brief", "noisy", "noisy", "noisy", "rivals"))
        instances = [self._instance(model) for _ in range(BATCH)]
        body = {"items": [item for item, _ in instances]}
        status, answer = self._client.call(f"/{model}/predict/batch", body)
        if status != 200:
            raise RuntimeError(f"predict batch: {status} {answer}")
        for out, (item, allowed) in zip(answer["items"], instances, strict=True):
            self._plan(self._decided(model, out, allowed), item)

    def _decided(self, model: str, out: dict[str, Any], allowed: Any) -> Decided:
        decision = Decided(
            model,
            out["decision_id"],
            out["label"],
            out["greedy"],
            out["propensity"],
            out["seq"],
            allowed,
        )
        self._record.decisions.append(decision)
        return decision

    def _instance(self, model: str) -> tuple[dict[str, Any], tuple[str, ...] | None]:
        item: dict[str, Any] = {"x": self._x(), "request_id": self._request_id()}
        if model == "noisy":
            item["x"][self._rng.randrange(3)] += 4.0
        allowed = None
        if model == "main" and self._rng.random() < 0.1:
            allowed = tuple(self._rng.sample(("a", "b", "c"), 2))
            item["allowed"] = list(allowed)
        return item, allowed

    def _x(self) -> list[float]:
        return [round(self._rng.gauss(0, 1), 3) for _ in range(8)]

    def _request_id(self) -> str:
        self._count += 1
        return f"{self._number}-{self._count}"

    # -- feedback -------------------------------------------------------------------------
    def _plan(self, decision: Decided, item: dict[str, Any]) -> None:
        silent, latest_s = (0.6, 1.0) if decision.model == "brief" else (0.1, 0.3)
        if self._rng.random() < silent:
            return
        bit = self._rng.randrange(2)
        if decision.model == "noisy":
            right = decision.label == "abc"[max(range(3), key=item["x"].__getitem__)]
            bit = int(right != (self._rng.random() < LIES))
        now_s = time.monotonic()
        self._jobs.append(Job(now_s + self._rng.uniform(0, latest_s), decision, bit))
        if self._rng.random() < DOUBLED:
            other = bit ^ self._rng.randrange(2)
            self._jobs.append(Job(now_s + self._rng.uniform(0, latest_s), decision, other))

    def _tell_due(self, until_s: float) -> None:
        due = [job for job in self._jobs if job.at_s <= until_s]
        self._jobs = [job for job in self._jobs if job.at_s > until_s]
        while due:
            if len(due) >= BATCH and self._rng.random() < 0.3:
                model = due[0].decision.model
                some = [job for job in due if job.decision.model == model][:BATCH]
                self._tell_batch(model, some)
                due = [job for job in due if job not in some]
            else:
                self._tell(due.pop())

    def _tell(self, job: Job) -> None:
        model, decision_id = job.decision.model, job.decision.decision_id
        body = {"decision_id": decision_id, "feedback": job.feedback}
        status, answer = self._client.call(f"/{model}/feedback", body)
        if status == 200:
            self._acknowledge(job, answer["status"], answer["seq"], answer["feedback"])
        elif status == 409:
            first = int(answer["error"]["message"].split(" is ")[1][0])
            self._acknowledge(job, "conflict", None, first)
        elif status == 404:
            self._record.forgotten.append(decision_id)
        else:
            raise RuntimeError(f"feedback: {status} {answer}")

    def _tell_batch(self, model: str, jobs: Sequence[Job]) -> None:
        items = [{"decision_id": j.decision.decision_id, "feedback": j.feedback} for j in jobs]
        status, answer = self._client.call(f"/{model}/feedback/batch", {"items": items})
        if status != 200:
            raise RuntimeError(f"feedback batch: {status} {answer}")
        for job, receipt in zip(jobs, answer["items"], strict=True):
            if receipt["status"] == "unknown":
                self._record.forgotten.append(job.decision.decision_id)
            else:
                self._acknowledge(job, receipt["status"], receipt["seq"], receipt["feedback"])

    def _acknowledge(self, job: Job, status: str, seq: int | None, first: int | None) -> None:
        model, about = job.decision.model, job.decision.decision_id
        self._record.acks.append(Ack(model, about, status, seq, job.feedback, first))

    # -- examples, rounds of others, labels, rates and challengers ------------------------
    def _learn(self) -> None:
        model, request_id = self._rng.choice(("labelled", "window")), self._request_id()
        x: object = self._x()
        if model == "window":
            x = dict(zip("abcdefgh", self._x(), strict=True))
        body = {"x": x, "label": self._rng.choice("abc"), "request_id": request_id}
        for _ in range(2 if self._rng.random() < DOUBLED else 1):
            status, answer = self._client.call(f"/{model}/learn", body)
            if status != 200:
                raise RuntimeError(f"learn: {status} {answer}")
            self._record.acks.append(
                Ack(model, request_id, answer["status"], answer["seq"], None, None)
            )

    def _tell_round(self) -> None:
        """Tell a round that somebody else decided, to a model whose learners compete."""
        bit, request_id = self._rng.randrange(2), self._request_id()
        body: dict[str, Any] = {"x": self._x(), "label": self._rng.choice("abc")}
        body |= {"propensity": self._rng.uniform(0.05, 1.0), "feedback": bit}
        body["request_id"] = request_id
        for _ in range(2 if self._rng.random() < DOUBLED else 1):
            status, answer = self._client.call("/rivals/rounds", body)
            if status != 200:
                raise RuntimeError(f"rounds: {status} {answer}")
            receipt = answer["status"], answer["seq"]
            self._record.acks.append(
                Ack("rivals", request_id, *receipt, bit, answer["feedback"], told=True)
            )

    def _change(self) -> None:
        """Change a model, or ask for rates; who repeats is no matter."""
        model = self._rng.choice(("main", "labelled", "noisy", "rivals"))
        if model == "noisy":
            status, answer = self._client.call("/noisy/noise/estimate", None)
            if status != 202:
                raise RuntimeError(f"estimate: {status} {answer}")
            self._record.promised.append(answer["number"])
            return
        label = f"extra{self._rng.randrange(3)}"
        changes: list[tuple[str, Any]] = [
            ("labels", {"add": [label]}),
            # Refused with 422 until somebody has added it.
            ("labels", {"retire": [label]}),
        ]
        common = {"rho_0": self._rng.randrange(4) / 10, "rho_1": 0.1}
        if model == "main":
            changes.append(("rates", common))
        if model == "rivals":
            changes.append(("rates", common | {"by_label": {"b": {"rho_0": 0.5, "rho_1": 0.1}}}))
            names = ("original", "passive", "softmax", "newcomer")
            # Refused with 404 until it has come.
            changes += [(f"challengers/{name}/promote", None) for name in names]
            changes.append(("challengers", NEWCOMER))
        path, body = self._rng.choice(changes)
        status, answer = self._client.call(f"/{model}/{path}", body)
        if status not in (200, 409, 422) and (status, body) != (404, None):
            raise RuntimeError(f"{model}/{path}: {status} {answer}")


def create_models(client: Client) -> None:
    """Create the models."""
    for spec in MODELS:
        status, answer = client.call("", spec)
        if status not in (200, 201):
            raise RuntimeError(f"create: {status} {answer}")


def nonce_of(decision_id: str) -> bytes:
    """Return the nonce that a decision id begins with."""
    return base64.urlsafe_b64decode(decision_id)[:12]
