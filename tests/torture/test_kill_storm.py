"""The short form of the kill storm, and that its oracles see what they are there for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from service.events import chain_after
from tests.torture.cluster import Cluster
from tests.torture.kill_storm import NEVER_S, WORKERS, recoveries, report, run_storm
from tests.torture.oracles import check_all, read_snapshot
from tests.torture.rounds import Rounds
from tests.torture.traffic import MODELS, Ack, nonce_of

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


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Run one worker on a store that takes snapshots soon."""
    with Cluster(1, settings={"snapshot_events": 3}) as running:
        yield running


@pytest.fixture
def rounds(cluster: Cluster) -> Rounds:
    """Return a model with some rounds on it, one of them pending, and nothing wrong."""
    played = Rounds(cluster.workers[0])
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
    while read_snapshot(client, rounds.name, "snap") is None:
        pass
    names = client.hget(part(rounds, "snap"), "parts")
    changed = bytearray(client.hget(part(rounds, "parts"), names[-32:]))
    changed[-1] ^= 1
    client.hset(part(rounds, "parts"), names[-32:], bytes(changed))


@pytest.mark.parametrize(
    ("harm", "found"),
    [
        (invent_ack, {"lost"}),
        (other_value, {"lost"}),
        (lose_decision, {"lost_decisions", "unbalanced"}),
        (log_twice, {"doubled", "unbalanced"}),
        (cut_log, {"gaps"}),
        (miscount, {"unbalanced"}),
        (wrong_propensity, {"propensities"}),
        (wrong_snapshot, {"snapshots"}),
    ],
)
def test_oracles_see(cluster: Cluster, rounds: Rounds, harm: Any, found: set[str]) -> None:
    """Each oracle notices the fault that it is there for."""
    with cluster.store.client() as client:
        harm(client, rounds)
        findings = check_all(client, [rounds.name], rounds.record, cluster.workers, [])
    assert found <= set(findings.wrong()), findings
