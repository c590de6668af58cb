"""The short form of the kill storm, and that its oracles see what they are there for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from service.events import chain_after
from tests.torture.cluster import Cluster, wait_until
from tests.torture.kill_storm import NEVER_S, WORKERS, recoveries, report, run_storm
from tests.torture.oracles import check_all, read_snapshot
from tests.torture.rounds import Rounds
from tests.torture.traffic import LIES, MODELS, NOISY, Ack, Client, Record, nonce_of

SECONDS = 5.0
KILLS = 4


def test_kill_storm() -> None:
    """Whatever is killed: all that was acknowledged is there once, and every worker agrees."""
    storm = run_storm(SECONDS, kills_a_minute=100)
    numbers = report(storm, everysec=False, kills_wanted=KILLS)
    assert [target for target in numbers["targets"] if not target["met"]] == [], storm.findings
    assert numbers["acks"] > 100
    assert numbers["acks_repeated"] > 0
    assert numbers["states_compared"] == WORKERS * len(MODELS)
    assert numbers["snapshots_compared"] > 0
    assert numbers["propensities_compared"] > 100
    store, workers = recoveries(storm)
    assert len(store) + len(workers) == len(storm.kills)
    assert max(store + workers) < NEVER_S


def test_an_estimate_outlives_its_worker_and_the_store() -> None:
    """A trainer whose worker and store are killed brings its result: once, to all workers."""
    with Cluster(2) as cluster, cluster.store.client() as client:
        record = Record()
        noisy = Client(cluster.workers, record, 1)
        assert noisy.call("", NOISY)[0] == 201
        play_noisy(noisy, batches=8)
        record.promised.append(noisy.call("/noisy/noise/estimate", None)[1]["number"])
        wait_until(cluster.trainers, "a trainer")
        ((trainer, parent),) = cluster.trainers().items()
        for worker in cluster.workers:
            if worker.pid() == parent:
                worker.kill()
                worker.start()
        while trainer in cluster.trainers():
            cluster.store.kill()
            cluster.store.start()
            time.sleep(0.3)
        for worker in cluster.workers:
            worker.wait_until_ready()
        noisy.close()
        findings = check_all(client, ["noisy"], record, cluster.workers, [])
    assert findings.wrong() == {}
    assert findings.estimates_seen == 1


def play_noisy(client: Client, batches: int) -> None:
    """Play rounds whose right label shows in the instance; a tenth of the clicks lie."""
    rng = np.random.default_rng(0)
    for _ in range(batches):
        right = rng.integers(3, size=100)
        xs = rng.normal(size=(100, 8)) + 4.0 * np.eye(3, 8)[right]
        asked = {"items": [{"x": x} for x in xs.tolist()]}
        decisions = client.call("/noisy/predict/batch", asked)[1]["items"]
        shown = np.array(["abc".index(decision["label"]) for decision in decisions])
        clicks = (shown == right) != (rng.random(100) < LIES)
        told = [
            {"decision_id": decision["decision_id"], "feedback": int(click)}
            for decision, click in zip(decisions, clicks, strict=True)
        ]
        client.call("/noisy/feedback/batch", {"items": told})


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Run one worker on a store that takes snapshots soon."""
    with Cluster(1, settings={"snapshot_events": 3}) as running:
        yield running


@pytest.fixture
def rounds(cluster: Cluster) -> Rounds:
    """Return a model with some rounds on it, one of them pending, and nothing wrong."""
    played = Rounds(cluster.workers[0], learner={"kind": "rcine", "gamma": 0.2})
    played.play(5)
    played.predict()
    assert played.findings(cluster.store) == {}
    return played


def part(rounds: Rounds, name: str) -> str:
    """Return the key of one part of the model."""
    return f"mc:{{default/{rounds.name}}}:{name}"


def invent_ack(client: Any, rounds: Rounds) -> None:  # noqa: ARG001 - as the others
    """Claim that feedback of the pending decision was acknowledged."""
    decision_id = rounds.record.decisions[-1].decision_id
    rounds.record.acks.append(Ack(rounds.name, decision_id, "applied", 6, 1, 1))


def invent_round(client: Any, rounds: Rounds) -> None:  # noqa: ARG001 - as the others
    """Claim that a round of somebody else was acknowledged."""
    rounds.record.acks.append(Ack(rounds.name, "visit-1", "applied", 6, 1, 1, told=True))


def other_value(client: Any, rounds: Rounds) -> None:  # noqa: ARG001 - as the others
    """Claim that the other value was acknowledged."""
    rounds.record.acks[0] = rounds.record.acks[0]._replace(sent=0, first=0)


def lose_decision(client: Any, rounds: Rounds) -> None:
    """Lose the pending decision."""
    nonce = nonce_of(rounds.record.decisions[-1].decision_id)
    client.hdel(part(rounds, "pending"), nonce)


def log_twice(client: Any, rounds: Rounds) -> None:
    """Log the last event once more, with a right chain."""
    log = part(rounds, "log")
    ((_, fields),) = client.xrevrange(log, count=1)
    chain = chain_after(fields[b"h"].decode(), fields[b"b"])
    client.xadd(log, {"b": fields[b"b"], "h": chain}, id="6-0")
    client.hset(part(rounds, "meta"), mapping={"seq": 6, "chain": chain})


def cut_log(client: Any, rounds: Rounds) -> None:
    """Take an event out of the log."""
    client.xdel(part(rounds, "log"), "3-0")


def miscount(client: Any, rounds: Rounds) -> None:
    """Count a decision too many."""
    client.hincrby(part(rounds, "meta"), "decisions", 1)


def wrong_propensity(client: Any, rounds: Rounds) -> None:
    """Change the propensity of the pending decision in its last bit."""
    ((nonce, raw),) = client.hgetall(part(rounds, "pending")).items()
    changed = bytearray(raw)
    changed[12] ^= 1
    client.hset(part(rounds, "pending"), nonce, bytes(changed))


def wrong_snapshot(client: Any, rounds: Rounds) -> None:
    """Store a snapshot with one bit changed."""
    wait_until(lambda: read_snapshot(client, rounds.name, "snap"), "a snapshot")
    names = client.hget(part(rounds, "snap"), "parts")
    changed = bytearray(client.hget(part(rounds, "parts"), names[-32:]))
    changed[-1] ^= 1
    client.hset(part(rounds, "parts"), names[-32:], bytes(changed))


def invent_promise(client: Any, rounds: Rounds) -> None:  # noqa: ARG001 - as the others
    """Claim that an estimate was promised."""
    rounds.record.promised.append(1)


def log_no_rates(client: Any, rounds: Rounds) -> None:
    """Count a trusted estimate that is in no log."""
    client.hset(part(rounds, "estimate"), mapping={"done": 1, "trusted": 1})


@pytest.mark.parametrize(
    ("harm", "found"),
    [
        (invent_ack, {"lost"}),
        (invent_round, {"lost"}),
        (other_value, {"lost"}),
        (lose_decision, {"lost_decisions", "unbalanced"}),
        (log_twice, {"doubled", "unbalanced"}),
        (cut_log, {"gaps"}),
        (miscount, {"unbalanced"}),
        (wrong_propensity, {"propensities"}),
        (wrong_snapshot, {"snapshots"}),
        (invent_promise, {"estimates"}),
        (log_no_rates, {"estimates"}),
    ],
)
def test_oracles_see(cluster: Cluster, rounds: Rounds, harm: Any, found: set[str]) -> None:
    """Each oracle notices the fault that it is there for."""
    with cluster.store.client() as client:
        harm(client, rounds)
        findings = check_all(client, [rounds.name], rounds.record, cluster.workers, [])
    assert found <= set(findings.wrong()), findings
