"""Metrics: what Prometheus reads is what happened."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.estimates import OUTCOMES
from service.meta import COUNTERS
from service.metrics import SHARED_BYTES, SHARED_FOLDER, RequestMetrics
from tests.service.apps import create
from tests.service.stores import make, opened, play, replica_of


async def samples(client: httpx.AsyncClient) -> dict[tuple[str, ...], float]:
    """Return every sample of /metrics by its name and sorted label values."""
    answer = await client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, *(v for _, v in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


async def test_a_models_numbers_are_its_own(client: httpx.AsyncClient) -> None:
    """Every counter of the model, what waits, and how far the log is folded."""
    path = await create(client)
    name = path.rpartition("/")[2]
    made = [(await client.post(f"{path}/predict", json={"x": [1, 2, i]})).json() for i in range(5)]
    clicks = [{"decision_id": d["decision_id"], "feedback": i % 2} for i, d in enumerate(made[:3])]
    for click in [*clicks, clicks[0]]:
        await client.post(f"{path}/feedback", json=click)
    await client.post(f"{path}/feedback", json=clicks[1] | {"feedback": 0})
    await client.post(f"{path}/learn", json={"x": [1, 2, 3], "label": "a"})
    told = {"x": [1, 2, 3], "label": "a", "propensity": 0.5, "feedback": 1}
    await client.post(f"{path}/rounds/batch", json={"items": [told, told]})
    found = await samples(client)
    model = (await client.get(path)).json()
    expected = {"decisions": 5, "feedback": 3, "clicks": 1, "duplicates": 1, "conflicts": 1}
    expected |= {"learned": 1, "told": 2, "expired": 0, "late": 0, "rewinds": 0}
    assert expected.keys() == set(COUNTERS)
    assert model["counters"] == expected | {"pending": 2, "held": 0}
    for counter, value in expected.items():
        assert found[f"misclick_{counter}_total", name] == value
    assert found["misclick_redis_up",] == 1
    assert found["misclick_pending", name] == 2
    assert found["misclick_seq", name] == found["misclick_folded_seq", name] == 6
    assert found["misclick_rejected", name] == 0
    await client.delete(path)
    assert not [key for key in await samples(client) if name in key]


#: What series are told apart by.
TOLD_APART = {
    "redis_up": "",
    "requests_total": "method route status",
    **dict.fromkeys((f"request_duration_seconds_{one}" for one in ("count", "sum")), "route"),
    "request_duration_seconds_bucket": "le route",
    **dict.fromkeys((f"{counter}_total" for counter in COUNTERS), "model"),
    **dict.fromkeys(("pending", "held", "seq", "folded_seq", "snapshot_seq", "rejected"), "model"),
    **dict.fromkeys(("hub_alarm", "silent", "context_free", "rho_0", "rho_1"), "model"),
    **dict.fromkeys(("estimate_running", "estimate_seconds"), "model"),
    "restarts_total": "learner model",
    "estimates_total": "model outcome",
}


async def test_series_are_called_as_ever(client: httpx.AsyncClient) -> None:
    """Protects dashboards and alarms, which ask for series by their names and their labels."""
    for kind in ("rcine", "rknn"):
        path = await create(client, learner={"kind": kind})
        await client.get(f"{path}/noise")
    text = (await client.get("/metrics")).text
    found = {
        sample.name.removeprefix("misclick_"): " ".join(sorted(sample.labels))
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    }
    # Told once an estimate has ended, of any model of the server that all tests share.
    found.setdefault("estimate_seconds", "model")
    assert found == TOLD_APART


async def test_estimates_are_told_of_models_that_have_rates(client: httpx.AsyncClient) -> None:
    """How they ended, whether one is being made, and the rates in force; no series for others."""
    path = await create(client, learner={"kind": "rcine", "rho_0": 0.1})
    plain = (await create(client, learner={"kind": "bpa"})).rpartition("/")[2]
    name = path.rpartition("/")[2]
    await client.get(f"{path}/noise")
    before = await samples(client)
    # At once: within a second it is begun, and then is refused for want of rounds.
    await client.post(f"{path}/noise/estimate")
    await client.delete(f"{path}/noise/estimate")
    await client.post(f"{path}/rates", json={"rho_0": 0.2, "rho_1": 0.25})
    found = await samples(client)
    ended = {outcome: found["misclick_estimates_total", name, outcome] for outcome in OUTCOMES}
    assert ended == dict.fromkeys(OUTCOMES, 0) | {"cancelled": 1}
    assert found["misclick_estimate_running", name] == 0
    assert (before["misclick_rho_0", name], before["misclick_rho_1", name]) == (0.1, 0)
    assert (found["misclick_rho_0", name], found["misclick_rho_1", name]) == (0.2, 0.25)
    # Nothing was made yet that could have taken seconds.
    assert ("misclick_estimate_seconds", name) not in found
    assert not [key for key in found if plain in key and ("rho" in key[0] or "estim" in key[0])]


async def test_requests_are_counted_by_route(client: httpx.AsyncClient) -> None:
    """Routes are templates, so the number of series does not grow with the models."""
    paths = [await create(client) for _ in range(2)]
    for path in paths:
        await client.post(f"{path}/predict", json={"x": [1, 2, 3]})
        await client.post(f"{path}/predict", json={"x": [1]})
        await client.get(path)
    found = await samples(client)

    def count(method: str, route: str, status: str) -> float:
        return found["misclick_requests_total", method, route, status]

    assert count("POST", "/v1/models", "201") == 2
    assert count("POST", "/v1/models/{model}/predict", "200") == 2
    assert count("POST", "/v1/models/{model}/predict", "422") == 2
    assert count("GET", "/v1/models/{model}", "200") == 2
    timed = found["misclick_request_duration_seconds_count", "/v1/models/{model}/predict"]
    assert timed == 4
    total_s = found["misclick_request_duration_seconds_sum", "/v1/models/{model}/predict"]
    assert 0 < total_s < 60


def test_workers_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With several workers any of them answers for all: the shared folder is read."""
    alone = RequestMetrics()
    alone.observe("/livez", "GET", 200, 0.001)
    assert b'misclick_requests_total{method="GET",route="/livez",status="200"} 1.0' in alone.render(
        [], []
    )
    monkeypatch.setenv(SHARED_FOLDER, str(tmp_path))
    assert b"misclick_requests_total{" not in alone.render([], [])


#: Counts a request in the shared folder and says so, each time it is told, until it is killed.
COUNTING = """
from service.metrics import RequestMetrics, take_place
take_place()
metrics = RequestMetrics()
while True:
    metrics.observe("/livez", "GET", 200, 0.001)
    print("counted", flush=True)
    input()
"""


def test_a_worker_counts_on_where_one_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost when workers are killed, and files are as many as workers at once."""
    monkeypatch.setenv(SHARED_FOLDER, str(tmp_path))
    for _ in range(3):
        command = [sys.executable, "-c", COUNTING]
        pipe = subprocess.PIPE
        workers = [subprocess.Popen(command, stdin=pipe, stdout=pipe) for _ in range(2)]
        # The second time each counts on from what it knew before the other counted.
        for told in (b"\n", b""):
            for worker in workers:
                assert worker.stdout is not None
                assert worker.stdout.readline() == b"counted\n"
            for worker in workers:
                assert worker.stdin is not None
                worker.stdin.write(told)
                worker.stdin.flush()
        for worker in workers:
            os.kill(worker.pid, signal.SIGKILL)
            worker.communicate()
    assert b'route="/livez",status="200"} 12.0' in RequestMetrics().render([], [])
    assert len(list(tmp_path.glob("*.db"))) <= 4


async def test_what_a_worker_holds_is_told_apart(store_url: str) -> None:
    """Snapshots that stay behind and refused events are alarms; a restart is one learner's."""
    async with opened(store_url) as store:
        challenger = {"name": "next", "learner": {"kind": "forward_softmax"}}
        address = await make(store, challengers=[challenger])
        replica = await replica_of(store, address)
        await play(replica, 4)
        await replica.save_snapshot()
        await play(replica, 2, 4)
        replica.fold.rejected = 3
        text = RequestMetrics().render([], [replica]).decode()
        name = replica.spec.name
        for series, value in (("folded_seq", 6), ("snapshot_seq", 4), ("rejected", 3)):
            assert f'misclick_{series}{{model="{name}"}} {value}.0' in text
        contest = replica.fold.contest
        contest.deciding = contest.challengers[0].named
        text = RequestMetrics().render([], [replica]).decode()
        assert f'misclick_restarts_total{{learner="next",model="{name}"}} 0.0' in text


#: Counts a request where no file may become larger than a thousand bytes, as on a full disk.
FULL = """
import resource
from service.metrics import RequestMetrics, take_place
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
take_place()
metrics = RequestMetrics()
metrics.observe("/livez", "GET", 200, 0.001)
print(metrics.render([], []).decode())
"""


def test_a_worker_for_whose_counts_there_is_no_room_works_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written through a map, a count that the disk had no room for killed it, and the next one."""
    monkeypatch.setenv(SHARED_FOLDER, str(tmp_path))
    ended = subprocess.run(
        [sys.executable, "-c", FULL], capture_output=True, text=True, check=True, timeout=60
    )
    assert "misclick_redis_up 1.0" in ended.stdout
    assert "no room for this worker's request counts" in ended.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="there is no posix_fallocate elsewhere")
def test_room_for_a_workers_counts_is_taken_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that is missing when it is written to ends the process."""
    monkeypatch.setenv(SHARED_FOLDER, str(tmp_path))
    counting = COUNTING.replace("while True:", "for _ in range(1):")
    subprocess.run([sys.executable, "-c", counting], check=True, input=b"\n", timeout=60)
    files = [each.stat() for each in tmp_path.glob("*.db")]
    assert [each.st_size for each in files] == [SHARED_BYTES] * 2
    # In blocks of 512 bytes: none is left out.
    assert all(each.st_blocks * 512 >= SHARED_BYTES for each in files)
