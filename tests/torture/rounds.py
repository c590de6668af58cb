"""Rounds on one model over HTTP, with a memory of what was acknowledged."""

from __future__ import annotations

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from tests.torture.cluster import NO_TLS, StoreServer, Worker, wait_until
from tests.torture.oracles import Findings, check_all
from tests.torture.traffic import MAIN, Ack, Decided, Record

#: A refusal has to come within this time, and a repaired service has to serve within that one.
REFUSED_S = 2.0
RECOVERED_S = 5.0
_numbers = itertools.count()


class Rounds:
    """Plays rounds on a model of its own, and knows what it was told."""

    def __init__(self, worker: Worker, **changes: Any) -> None:
        self.worker = worker
        self.name = f"faulty-{next(_numbers)}"
        self.record = Record()
        self._spec = MAIN | {"name": self.name} | changes
        self.create()

    def create(self) -> None:
        """Create the model."""
        answer = httpx.post(
            f"{self.worker.url}/v1/models", json=self._spec, timeout=30, verify=NO_TLS
        )
        assert answer.status_code in (200, 201), answer.text

    def post(self, call: str, body: dict[str, Any]) -> httpx.Response:
        """Call the model."""
        url = f"{self.worker.url}/v1/models/{self.name}/{call}"
        return httpx.post(url, json=body, timeout=30, verify=NO_TLS)

    def predict(self) -> httpx.Response:
        """Ask for a label; remember the decision if there is one."""
        x = [0.25 * (next(_numbers) % 9) for _ in range(8)]
        answer = self.post("predict", {"x": x})
        if answer.status_code == 200:
            out = answer.json()
            told = (out["label"], out["greedy"], out["propensity"], out["seq"])
            self.record.decisions.append(Decided(self.name, out["decision_id"], *told, None))
        return answer

    def feedback(self, which: int = -1, bit: int = 1) -> httpx.Response:
        """Tell feedback of a decision; remember the receipt if there is one."""
        decision_id = self.record.decisions[which].decision_id
        answer = self.post("feedback", {"decision_id": decision_id, "feedback": bit})
        if answer.status_code == 200:
            out = answer.json()
            receipt = (out["status"], out["seq"], bit, out["feedback"])
            self.record.acks.append(Ack(self.name, decision_id, *receipt))
        return answer

    def play(self, count: int = 1) -> None:
        """Play rounds that have to go well."""
        for _ in range(count):
            for answer in (self.predict(), self.feedback()):
                assert answer.status_code == 200, answer.text

    def refused(self, at_once: int = 1) -> str:
        """Return why predicting is refused, after checking that it is, and how soon."""
        begin_s = time.monotonic()
        with ThreadPoolExecutor(at_once) as pool:
            answers = list(pool.map(lambda _: self.predict(), range(at_once)))
        assert time.monotonic() - begin_s < REFUSED_S
        assert {answer.status_code for answer in answers} == {503}
        assert all(answer.headers["retry-after"] == "1" for answer in answers)
        error = answers[0].json()["error"]
        assert error["code"] == "unavailable"
        return str(error["message"])

    def recovers(self) -> None:
        """Wait until rounds go well again."""
        wait_until(lambda: self.predict().status_code == 200, self.name, RECOVERED_S)
        self.play(2)

    def findings(self, store: StoreServer) -> dict[str, int]:
        """Return what every oracle finds wrong with the model."""
        with store.client() as client:
            findings: Findings = check_all(client, [self.name], self.record, [self.worker], [])
        assert findings.states == 1
        return findings.wrong()


def failing(worker: Worker) -> str | None:
    """Return the readiness check that fails, None if the worker is ready."""
    begin_s = time.monotonic()
    answer = httpx.get(f"{worker.url}/readyz", timeout=30, verify=NO_TLS)
    assert time.monotonic() - begin_s < REFUSED_S
    assert answer.status_code == (200 if answer.json()["failing"] is None else 503)
    check: str | None = answer.json()["failing"]
    return check
