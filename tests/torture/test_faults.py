"""Whatever is wrong with the store: refused soon with the reason, repaired without a restart.

After each fault every oracle of the kill storm looks at the model: nothing acknowledged lost,
nothing twice, the worker's state the fold of the log.
"""

from __future__ import annotations

import re
import resource
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.torture.cluster import NO_TLS, Cluster, StoreServer, Worker, wait_until
from tests.torture.rounds import RECOVERED_S, REFUSED_S, Rounds, failing

#: Requests that all come while the store hangs.
CROWD = 16


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Run one worker on a store that may be broken, if it is repaired afterwards."""
    with Cluster(1, settings={"redis_timeout_s": 0.6, "stale_s": 0.2}) as running:
        yield running


@pytest.fixture
def worker(cluster: Cluster) -> Worker:
    """Return the worker."""
    return cluster.workers[0]


@pytest.fixture
def store(cluster: Cluster) -> StoreServer:
    """Return the store."""
    return cluster.store


@pytest.fixture
def client(store: StoreServer) -> Iterator[Any]:
    """Yield a client of the store; its types fit text, not bytes."""
    with store.client() as opened:
        yield opened


def restart(worker: Worker) -> None:
    """Kill the worker and start it again, so that it has to recover every model."""
    worker.kill()
    worker.start()
    worker.wait_until_ready()


# -- the store is away ------------------------------------------------------------------------
def test_store_down(worker: Worker, store: StoreServer) -> None:
    """A store that is not there: 503 that says so, and all is well when it is back."""
    rounds = Rounds(worker)
    rounds.play(3)
    rounds.predict()
    store.kill()
    assert "does not answer" in rounds.refused(CROWD)
    assert rounds.feedback().status_code == 503
    assert failing(worker) == "redis"
    assert httpx.get(f"{worker.url}/livez", verify=NO_TLS).status_code == 200
    store.start()
    rounds.recovers()
    assert rounds.feedback(3).json()["status"] == "applied"
    assert failing(worker) is None
    assert rounds.findings(store) == {}


def test_store_hangs(worker: Worker, store: StoreServer) -> None:
    """A store that does not answer: a crowd of requests is refused in the time of one."""
    loaded, unloaded = Rounds(worker), Rounds(worker)
    loaded.play(3)
    store.kill(signal.SIGSTOP)
    try:
        for rounds in (loaded, unloaded):
            assert "does not answer" in rounds.refused(CROWD)
        assert failing(worker) == "redis"
    finally:
        store.kill(signal.SIGCONT)
    for rounds in (loaded, unloaded):
        rounds.recovers()
        assert rounds.findings(store) == {}


def test_store_cannot_write(worker: Worker, store: StoreServer) -> None:
    """A full disk: what could not be written is not acknowledged, and nothing else is lost."""
    rounds = Rounds(worker)
    rounds.play(3)
    size = sum(path.stat().st_size for path in store.folder.rglob("*.incr.aof"))
    resource.prlimit(store.pid(), resource.RLIMIT_FSIZE, (size + 2000, size + 2000))
    for _ in range(20):
        rounds.predict()
        rounds.feedback()
    assert store.process is not None
    # It ends rather than acknowledge what it has not written.
    store.process.wait(10)
    assert "does not answer" in rounds.refused()
    store.start()
    rounds.recovers()
    assert rounds.findings(store) == {}


# -- the store is not what it should be -------------------------------------------------------
def test_out_of_memory(worker: Worker, store: StoreServer, client: Any) -> None:
    """Above maxmemory: no new decisions, but feedback is taken, and snapshots trim the log."""
    rounds = Rounds(worker)
    for _ in range(5):
        rounds.predict()
    client.config_set("maxmemory", 1)
    try:
        assert "maxmemory" in rounds.refused()
        for which in range(5):
            assert rounds.feedback(which).json()["status"] == "applied"
        assert rounds.feedback(0).json()["status"] == "duplicate"
    finally:
        client.config_set("maxmemory", 0)
    rounds.recovers()
    assert rounds.findings(store) == {}


@pytest.mark.parametrize(
    ("option", "wrong", "check"),
    [
        ("maxmemory-policy", "allkeys-lru", "eviction"),
        ("maxmemory-policy", "volatile-ttl", "eviction"),
        ("appendonly", "no", "appendonly"),
        ("appendfsync", "everysec", "appendfsync"),
    ],
)
def test_wrong_configuration(
    worker: Worker, store: StoreServer, client: Any, option: str, wrong: str, check: str
) -> None:
    """A store that may evict or lose what it acknowledged: nothing is taken, the check is named."""
    rounds = Rounds(worker)
    rounds.play(2)
    right = client.config_get(option)[option]
    client.config_set(option, wrong)
    try:
        assert failing(worker) == check
        wait_until(lambda: rounds.predict().status_code == 503, check, REFUSED_S)
        assert f"not ready: {check}: expected" in rounds.refused(CROWD)
        assert rounds.feedback().status_code == 503
    finally:
        client.config_set(option, right)
    rounds.recovers()
    assert failing(worker) is None
    assert rounds.findings(store) == {}


def test_read_only_replica(worker: Worker, store: StoreServer, client: Any) -> None:
    """A store that became a replica: not ready, writes refused; well again as a primary."""
    rounds = Rounds(worker)
    rounds.play(2)
    client.execute_command("REPLICAOF", "127.0.0.1", "1")
    try:
        assert failing(worker) == "role"
        # The store says so itself, until the worker has looked.
        assert re.search("read only|expected a primary", rounds.refused())
    finally:
        client.execute_command("REPLICAOF", "NO", "ONE")
    rounds.recovers()
    assert failing(worker) is None
    assert rounds.findings(store) == {}


# -- the data is not what it should be --------------------------------------------------------
def swap_log(client: Any, rounds: Rounds, entries: list[Any]) -> None:
    """Put other entries in the place of a model's log."""
    log = f"mc:{{default/{rounds.name}}}:log"
    client.delete(log)
    for entry_id, fields in entries:
        client.xadd(log, fields, id=entry_id)


def drop_snapshots(client: Any, rounds: Rounds) -> None:
    """Remove a model's snapshots."""
    client.delete(*(f"mc:{{default/{rounds.name}}}:{part}" for part in ("snap", "snap1")))


def other_bit(entry: Any) -> Any:
    """Return an entry of a log with the other feedback."""
    entry_id, fields = entry
    body = bytearray(fields[b"b"])
    body[21] ^= 1
    return entry_id, fields | {b"b": bytes(body)}


def test_damaged_logs(worker: Worker, store: StoreServer, client: Any) -> None:
    """A log that does not continue its snapshot: that model fails closed, the others go on."""
    changed, holed, trimmed, sound = (Rounds(worker) for _ in range(4))
    for rounds in (changed, holed, trimmed, sound):
        rounds.play(6)
    worker.kill()
    whole = {
        rounds: client.xrange(f"mc:{{default/{rounds.name}}}:log")
        for rounds in (changed, holed, trimmed)
    }
    for rounds, entries in whole.items():
        drop_snapshots(client, rounds)
        left = {
            changed: [*entries[:2], other_bit(entries[2]), *entries[3:]],
            holed: entries[:2] + entries[3:],
            trimmed: entries[3:],
        }
        swap_log(client, rounds, left[rounds])
    worker.start()
    worker.wait_until_ready()
    for rounds in whole:
        assert "not served" in rounds.refused(CROWD)
        assert rounds.feedback(0, 1).status_code == 503
        sound.play(1)
    for rounds, entries in whole.items():
        swap_log(client, rounds, entries)
    for rounds in (*whole, sound):
        rounds.recovers()
        assert rounds.findings(store) == {}


def test_damaged_snapshots(worker: Worker, store: StoreServer, client: Any) -> None:
    """Snapshots that are damaged are passed over where the log can do without."""
    rounds = Rounds(worker)
    rounds.play(4)
    for part in ("snap", "snap1"):
        key = f"mc:{{default/{rounds.name}}}:{part}"
        client.hset(key, mapping={"seq": 3, "chain": "0" * 16, "digest": "?", "parts": "?"})
    restart(worker)
    rounds.play(2)
    drop_snapshots(client, rounds)
    assert rounds.findings(store) == {}


def test_emptied_store(worker: Worker, store: StoreServer, client: Any) -> None:
    """FLUSHALL: the models are gone and said to be; new ones of the same name know nothing."""
    rounds = Rounds(worker)
    rounds.play(3)
    rounds.predict()
    client.flushall()
    wait_until(lambda: rounds.predict().status_code == 404, "the model to be gone", RECOVERED_S)
    rounds.create()
    assert rounds.feedback().status_code == 404
    rounds.record.decisions.clear()
    rounds.record.acks.clear()
    rounds.play(3)
    assert rounds.findings(store) == {}


def test_frozen_worker(store: StoreServer, client: Any) -> None:
    """A worker that slept while others went on and trimmed the log just catches up."""
    settings = {"snapshot_events": 5, "stale_s": 0.2}
    sleeper, awake = (Worker(store.url, settings=settings) for _ in range(2))
    try:
        for each in (sleeper, awake):
            each.start()
            each.wait_until_ready()
        rounds = Rounds(sleeper, log_keep=0)
        rounds.play(3)
        sleeper.kill(signal.SIGSTOP)
        rounds.worker = awake
        log = f"mc:{{default/{rounds.name}}}:log"

        def trimmed() -> bool:
            rounds.play(5)
            return bool(client.xrange(log, count=1)[0][0] != b"1-0")

        wait_until(trimmed, "trimming")
        sleeper.kill(signal.SIGCONT)
        rounds.worker = sleeper
        rounds.play(3)
        states = [
            httpx.get(f"{each.url}/v1/models/{rounds.name}/state", verify=NO_TLS).headers[
                "x-misclick-sha256"
            ]
            for each in (sleeper, awake)
        ]
        assert states[0] == states[1]
        assert sleeper.rewinds() == 0
    finally:
        for each in (sleeper, awake):
            each.kill(signal.SIGCONT)
            each.close()
