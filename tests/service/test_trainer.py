"""The process that estimates noise rates, as the real service starts it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import msgspec
import numpy as np
import psutil
import pytest
import redis

from learners.noise import nrest
from learners.noise.estimate import NoiseEstimate, Reading
from service import trainer
from service.errors import Unavailable
from service.events import Rates, RatesByLabel
from service.settings import Settings
from service.spec import ModelSpec
from service.trainer import READ, Block, Progress, estimate, read_block, record_of, result_of
from service.wire import Estimate, LabelRates
from tests.service.stores import admit, decide, example, opened, tell, told_round
from tests.service.stores import make as make_model
from tests.serving import Service, running_service
from tests.torture.cluster import wait_until

LABELS = ["left", "right"]
RHO_0, RHO_1 = 0.1, 0.25
ROUNDS = 3000
#: A training takes 3 to 5 s on a quiet machine.
DEADLINE_S = 90.0


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Make a folder for the service's data; its path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="misclick-test-") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[Service]:
    """One service for the estimates of this file."""
    with running_service(data_dir=folder) as service:
        yield service


def post(service: Service, path: str, body: Any = None) -> Any:
    """Return the answer to a POST that has to succeed."""
    answer = httpx.post(f"{service.url}/v1/models{path}", json=body, timeout=30)
    answer.raise_for_status()
    return answer.json()


def noise(service: Service, name: str) -> Any:
    """Return what the service says of the model's noise."""
    return httpx.get(f"{service.url}/v1/models/{name}/noise", timeout=30).json()


def make(service: Service, name: str, kind: str = "rcine", **learner: Any) -> None:
    """Create a model of two labels and two features."""
    spec = {
        "name": name,
        "learner": {"kind": kind, "gamma": 0.5} | learner,
        "labels": LABELS,
        "features": {"type": "dense", "size": 2},
    }
    post(service, "", spec)


def click_through(service: Service, name: str, rounds: int, *, click: int | None = None) -> None:
    """Play rounds whose right label is the sign of x[0]; clicks lie, or are all the same."""
    rng = np.random.default_rng(1)
    for start in range(0, rounds, 500):
        xs = rng.normal(size=(min(500, rounds - start), 2)).round(3)
        asked = {"items": [{"x": x.tolist()} for x in xs]}
        decisions = post(service, f"/{name}/predict/batch", asked)["items"]
        feedback = []
        for x, decision in zip(xs, decisions, strict=True):
            right = decision["label"] == LABELS[int(x[0] > 0)]
            bit = int(rng.random() < (1 - RHO_1 if right else RHO_0)) if click is None else click
            feedback.append({"decision_id": decision["decision_id"], "feedback": bit})
        post(service, f"/{name}/feedback/batch", {"items": feedback})


def wait_for_result(service: Service, name: str, number: int) -> Any:
    """Return the result with this number."""
    end_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < end_s:
        history = noise(service, name)["history"]
        if history and history[0]["number"] >= number:
            return history[0]
        time.sleep(0.2)
    raise AssertionError(f"no estimate {number}: {noise(service, name)}")


def trainers(service: Service) -> list[psutil.Process]:
    """Return the trainers that the service has started."""
    found = []
    for child in psutil.Process(service.pid).children(recursive=True):
        # One that has just ended has no command any more.
        with suppress(psutil.Error):
            if "service.trainer" in " ".join(child.cmdline()):
                found.append(child)
    return found


def test_a_killed_trainer_is_begun_again_and_leaves_one_event(
    running: Service, folder: Path
) -> None:
    """Protects the whole way: feedback, log, training, one event, rates near the truth.

    Also from the death of the process that makes the estimate.
    """
    make(running, "killed")
    click_through(running, "killed", ROUNDS)
    assert noise(running, "killed")["rates"] == {"rho_0": 0.0, "rho_1": 0.0}
    seq = httpx.get(f"{running.url}/v1/models/killed").json()["seq"]
    # One that has just ended another estimate would be the wrong victim.
    wait_until(lambda: not trainers(running), "the last trainer to end", DEADLINE_S)
    post(running, "/killed/noise/estimate")
    wait_until(lambda: trainers(running), "a trainer", DEADLINE_S)
    (victim,) = trainers(running)
    # A trainer may outlive its worker, and must not keep the next one from listening.
    assert not [c for c in victim.net_connections("inet") if c.status == psutil.CONN_LISTEN]
    os.kill(victim.pid, signal.SIGKILL)
    with redis.Redis(unix_socket_path=str(folder / "valkey.sock"), decode_responses=True) as store:
        key = "mc:{default/killed}:estimate"
        assert store.hget(key, "tries") == "1"
        # As if its claim had run out: nobody has to wait for that here.
        store.hset(key, "lease", 1)
        wait_until(lambda: store.hget(key, "tries") == "2", "another try", DEADLINE_S)
    estimate = wait_for_result(running, "killed", 1)
    assert estimate["trusted"], estimate["verdict"]
    assert estimate["examples"] == ROUNDS
    assert abs(estimate["rho_0"] - RHO_0) < 0.05
    assert abs(estimate["rho_1"] - RHO_1) < 0.05
    rates = noise(running, "killed")["rates"]
    assert rates == {name: estimate[name] for name in ("rho_0", "rho_1")}
    assert httpx.get(f"{running.url}/v1/models/killed").json()["seq"] == seq + 1
    metrics = httpx.get(f"{running.url}/metrics").text
    assert 'misclick_estimates_total{model="killed",outcome="trusted"} 1.0' in metrics
    (took_s,) = re.findall(r'misclick_estimate_seconds{model="killed"} (.*)', metrics)
    assert float(took_s) == pytest.approx(estimate["took_s"])


def test_the_progress_of_a_small_estimate_is_seen(running: Service) -> None:
    """Protects who waits from a bar that stands at nothing until all is over."""
    make(running, "small")
    click_through(running, "small", 400)
    post(running, "/small/noise/estimate")
    seen: list[float] = []
    end_s = time.monotonic() + DEADLINE_S
    while not (state := noise(running, "small"))["history"]:
        assert time.monotonic() < end_s
        seen += [state["running"]["progress"]] if state["running"] else []
        time.sleep(0.02)
    assert seen == sorted(seen)
    # Loading torch is most of it, and takes longer than the claim is left alone.
    assert READ in seen


def test_a_cancelled_training_ends_and_leaves_no_event(running: Service) -> None:
    """Protects the machine from a training that nobody wants, and the rates from its result."""
    make(running, "cancelled")
    click_through(running, "cancelled", ROUNDS)
    seq = httpx.get(f"{running.url}/v1/models/cancelled").json()["seq"]
    wait_until(lambda: not trainers(running), "the last trainer to end", DEADLINE_S)
    post(running, "/cancelled/noise/estimate")
    wait_until(lambda: trainers(running), "a trainer", DEADLINE_S)
    for _ in range(2):
        answer = httpx.delete(f"{running.url}/v1/models/cancelled/noise/estimate", timeout=30)
        assert (answer.status_code, answer.content) == (204, b"")
    assert noise(running, "cancelled")["history"][0]["verdict"] == "cancelled"
    wait_until(lambda: not trainers(running), "the trainer to end", DEADLINE_S)
    after = noise(running, "cancelled")
    assert (after["asked"], after["running"], len(after["history"])) == (False, None, 1)
    assert httpx.get(f"{running.url}/v1/models/cancelled").json()["seq"] == seq


@pytest.mark.parametrize(
    ("name", "rounds", "click", "said"),
    [("nothing", 0, None, "no feedback"), ("all", 600, 1, "click"), ("few", 50, None, "")],
)
def test_bad_data_gets_a_verdict_and_changes_nothing(
    running: Service, name: str, rounds: int, click: int | None, said: str
) -> None:
    """Protects the rates in force from blocks that tell nothing."""
    make(running, name)
    click_through(running, name, rounds, click=click)
    post(running, f"/{name}/noise/estimate")
    estimate = wait_for_result(running, name, 1)
    assert not estimate["trusted"]
    assert said in estimate["verdict"]
    assert noise(running, name)["rates"] == {"rho_0": 0.0, "rho_1": 0.0}


def test_no_worker_imports_torch(running: Service) -> None:
    """Protects the serving process from 400 MB and seconds of import."""
    mapped = {Path(m.path).name for m in psutil.Process(running.pid).memory_maps()}
    assert mapped
    assert not any("torch" in name for name in mapped)


async def test_an_estimate_is_made_from_the_newest_rounds_whoever_decided(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects from estimates that see only half of what was clicked; examples tell nothing."""
    async with opened(store_url) as store:
        address = await make_model(store)
        spec = (await store.meta(address.key)).spec
        (issued,) = await decide(store, address, 1)
        await tell(store, address, [told_round(2, label=2), example(3)], 0)
        await admit(store, address, 1, issued, 1)
        await tell(store, address, [told_round(4, label=1, feedback=0)], 0)
        block = await read_block(store, address, spec)
        assert (block.labels.tolist(), block.feedback.tolist()) == ([2, 0, 1], [1, 1, 0])
        assert block.xs.tolist() == [[0.5, -1.0]] * 3
        monkeypatch.setattr(ModelSpec, "estimate_block", 2)
        assert (await read_block(store, address, spec)).labels.tolist() == [0, 1]


def test_a_trusted_result_becomes_an_event_with_each_labels_rates() -> None:
    """Protects learners that correct each label by its own rates; others get no event."""
    each = [
        LabelRates("left", 0.1, 0.2, 0.01, 0.02, 9),
        LabelRates("right", 0.3, 0.4, 0.03, 0.04, 9),
    ]
    result = Estimate(1, 1, 1.0, 18, True, "trusted", 0.2, 0.3, 0.01, 0.01, True, each)
    event = msgspec.json.decode(record_of(result), type=Rates)
    assert event == Rates(
        0.2, 0.3, RatesByLabel([0.1, 0.3], [0.2, 0.4], [0.01, 0.03], [0.02, 0.04])
    )
    assert record_of(msgspec.structs.replace(result, trusted=False)) == b""
    alike = msgspec.structs.replace(result, labels_differ=False, rho_1_error=0.05)
    event = msgspec.json.decode(record_of(alike), type=Rates)
    assert event.errors == (0.01, 0.05)


def test_a_refusal_is_a_result_too() -> None:
    """Protects the history from estimates that ended in words."""
    refused = result_of("torch is not installed", 3, LABELS, 20, 0.5)
    assert (refused.number, refused.trusted, refused.verdict) == (
        3,
        False,
        "torch is not installed",
    )


LABELS = ["left", "right"]


READ_OFF = Reading(
    0.11,
    0.22,
    0.01,
    0.02,
    np.array([0.1, 0.12]),
    np.array([0.2, 0.24]),
    np.array([0.03, 0.04]),
    np.array([0.05, 0.06]),
    True,
)


def test_each_number_of_an_estimate_is_told_as_what_it_is() -> None:
    """False and missed clicks of a label in each other's place would be folded by every worker."""
    shown, bins = np.array([7, 8]), np.arange(6).reshape(2, 3)
    found = NoiseEstimate("mixture", 15, shown, READ_OFF, (), bins, 3, 0.5)
    told = result_of(found, 4, LABELS, 15, 2.5)
    assert (told.number, told.examples, told.took_s, told.trusted) == (4, 15, 2.5, True)
    assert (told.rho_0, told.rho_1, told.rho_0_error, told.rho_1_error) == (0.11, 0.22, 0.01, 0.02)
    assert (told.labels_differ, told.histogram) == (True, [[0, 1, 2], [3, 4, 5]])
    assert [msgspec.structs.astuple(each) for each in told.by_label] == [
        ("left", 0.1, 0.2, 0.03, 0.05, 7),
        ("right", 0.12, 0.24, 0.04, 0.06, 8),
    ]
    each = RatesByLabel([0.1, 0.12], [0.2, 0.24], [0.03, 0.04], [0.05, 0.06])
    assert msgspec.json.decode(record_of(told), type=Rates) == Rates(0.11, 0.22, each)


async def test_a_training_hears_that_its_claim_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was cancelled went on to its end: minutes of a core, for nobody."""
    monkeypatch.setattr(trainer, "RENEW_S", 0.001)
    told: list[float] = []

    async def renew(_: str, progress: float) -> bool:
        told.append(progress)
        if len(told) == 1:
            raise Unavailable("Redis is away")
        return len(told) < 4

    lost, progress = threading.Event(), Progress()
    progress.train(0.5, 0.0)
    estimates: Any = SimpleNamespace(renew=renew)
    keeping = asyncio.create_task(trainer._keep(estimates, "token", progress, lost))
    async with asyncio.timeout(10):
        while len(told) < 3:
            assert not lost.is_set()
            await asyncio.sleep(0)
        assert await asyncio.to_thread(lost.wait, 10.0)
    keeping.cancel()
    assert told[0] == pytest.approx(0.55)


async def test_a_store_that_is_away_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart of Redis costs no training of minutes; one that stays away ends it."""
    monkeypatch.setattr(trainer, "RENEW_S", 0.001)
    tries = 0

    async def call() -> int:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise Unavailable("Redis is away")
        return tries

    assert await trainer._patiently(call) == 3
    tries = 0
    monkeypatch.setattr(trainer, "LEASE_MS", -1000)
    with pytest.raises(Unavailable):
        await trainer._patiently(call)
    assert tries == 1


def test_a_training_knows_what_it_is_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model with one label has no rates to find, and the setting says how long one may take."""
    given: dict[str, Any] = {}

    class Network:
        def __init__(self, n_labels: int, **options: Any) -> None:
            given.update(options, n_labels=n_labels)

        def estimate(self, *_: Any, **__: Any) -> Any:
            return SimpleNamespace(estimate="found")

    monkeypatch.setattr(nrest, "NREst", Network)
    bits = np.arange(400) % 2
    block = Block(np.zeros((400, 1)), bits, np.arange(400) // 2 % 2)
    about = (3, Settings(estimate_timeout_s=77.0), Progress(), threading.Event())
    assert "one label" in str(estimate(block, 1, *about))
    assert not given
    assert estimate(block, 2, *about) == "found"
    assert given == {"n_labels": 2, "seed": 3, "time_limit_s": 77.0}
