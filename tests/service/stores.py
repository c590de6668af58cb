"""Models in a real store, for tests of what works on them."""

from __future__ import annotations

import secrets
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import numpy as np

from service.address import Address
from service.deciding import Ask
from service.events import (
    Decision,
    Entry,
    Example,
    Kind,
    Round,
    Telling,
    chain_after,
    first_chain,
    pack_decision,
    pack_example,
    pack_round,
)
from service.features import Row
from service.fold import Fold
from service.host import initial_fields
from service.ids import NO_FINGERPRINT
from service.replica import Decided, Replica
from service.replies import Verdict
from service.spec import ModelSpec
from service.store import Store, connect

SECRET = bytes(range(32))
TIMEOUT_S = 5.0
SPEC: dict[str, Any] = {
    "name": "m",
    "learner": {"kind": "banditron", "gamma": 0.5},
    "labels": ["a", "b", "c"],
    "features": {"type": "dense", "size": 2},
    "scaling": "standard",
    "window_s": 600.0,
    "seed": 5,
}
#: A learner that takes full labels.
LABELLED: dict[str, Any] = {"learner": {"kind": "perceptron"}}


@asynccontextmanager
async def opened(url: str, timeout_s: float = TIMEOUT_S) -> AsyncIterator[Store]:
    """Yield a store, closed afterwards."""
    store = Store(connect(url, timeout_s))
    try:
        yield store
    finally:
        await store.close()


@contextmanager
def deaf_server() -> Iterator[str]:
    """Yield the URL of a server that takes no connection: one waits there, and no more may."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        host, port = server.getsockname()
        with socket.create_connection((host, port)):
            yield f"redis://{host}:{port}"


async def make(store: Store, **changes: Any) -> Address:
    """Create a model under a name of its own; return its address."""
    spec = ModelSpec.model_validate(SPEC | changes)
    key, uid = f"test/{secrets.token_hex(6)}", secrets.token_hex(8)
    assert await store.create(key, spec, initial_fields(Fold(spec, uid)) | {"uid": uid})
    return Address.of(key, uid, spec)


async def replica_of(store: Store, address: Address) -> Replica:
    """Return a worker's copy of the model, folded to the head of its log."""
    replica = Replica(store, address.key, await store.meta(address.key), SECRET)
    await replica.recover()
    return replica


def nonce(number: int) -> bytes:
    """Return the nonce with this number."""
    return number.to_bytes(12, "big")


def record(label: int = 0, seq: int = 0, fingerprint: bytes = NO_FINGERPRINT) -> bytes:
    """Return the record of some decision."""
    x = np.array([0.5, -1.0], dtype="<f4")
    return pack_decision(Decision(label, 0, 0.5, seq, fingerprint, x))


def example(number: int, label: int = 0) -> Telling:
    """Return some example as it is logged, under the nonce with this number."""
    record = pack_example(Example(label, np.array([0.5, -1.0], dtype="<f4")))
    return Telling(Kind.LEARN, nonce(number), None, record)


def told_round(number: int, label: int = 0, feedback: int = 1, propensity: float = 0.5) -> Telling:
    """Return some round of somebody else as it is logged, under the nonce with this number."""
    record = pack_round(Round(label, propensity, np.array([0.5, -1.0], dtype="<f4")))
    return Telling(Kind.ROUND, nonce(number), feedback, record)


def row(number: int) -> Row:
    """Return some instance."""
    return np.array([np.cos(number), np.sin(2 * number)], dtype="<f4")


async def play(replica: Replica, rounds: int, first: int = 0) -> list[Decided]:
    """Play rounds on a replica: a decision, and a click on label a."""
    played = []
    for number in range(first, first + rounds):
        decided = await replica.predict(Ask(row(number), f"round-{number}", None))
        assert decided.decision_id is not None
        await replica.feedback(decided.decision_id, int(decided.decision.label == 0))
        played.append(decided)
    return played


async def lose_tail(store: Store, address: Address, last: int) -> None:
    """Make the store forget every event after `last`, as a lost tail of its file would."""
    log, client = address.part("log"), raw_client(store)
    kept = await client.xrange(log, "-", f"{last}-0")
    await client.delete(log)
    chain = first_chain(address.uid)
    for entry_id, fields in kept:
        await client.xadd(log, fields, id=entry_id)
        chain = fields[b"h"].decode()
    await client.hset(address.part("meta"), mapping={"seq": last, "chain": chain})


def raw_client(store: Store) -> Any:
    """Return the store's client for what only a test does; its types fit text, not bytes."""
    return store.client


async def decide(store: Store, address: Address, *numbers: int) -> list[int]:
    """Record a decision under each number's nonce; return the issue times."""
    items = [(nonce(number), True, record()) for number in numbers]
    answers, _ = await store.decide(address, items, 0, first_chain(address.uid))
    assert all(answer.old is None and not answer.full for answer in answers)
    return [answer.now_ms for answer in answers]


async def admit(
    store: Store, address: Address, number: int, issued_ms: int, bit: int
) -> tuple[str, int | None, int | None]:
    """Admit one feedback; return its verdict."""
    (verdict,), _ = await store.admit(address, [(nonce(number), issued_ms, bit)], 0)
    return verdict.status, verdict.seq, verdict.feedback


async def whole_log(store: Store, address: Address) -> list[Entry]:
    """Return every entry, after checking that seqs are dense and the chain holds."""
    after, chain, entries = 0, first_chain(address.uid), list[Entry]()
    while True:
        seq, head, some = await store.read(address, after)
        if not some:
            assert (seq, head) == (after, chain)
            return entries
        for entry in some:
            assert entry.seq == after + 1
            assert chain_after(chain, entry.body) == entry.chain
            after, chain = entry.seq, entry.chain
        entries += some


async def counters(store: Store, address: Address) -> dict[str, int]:
    """Return the counters that are not 0, with the pending decisions."""
    meta = await store.meta(address.key)
    pending = (await store.waiting(address.key)).pending
    found = {name: count for name, count in meta.counters.items() if count}
    return found | ({"pending": pending} if pending else {})


async def tell(
    store: Store, address: Address, items: Sequence[Telling], after: int = 0
) -> tuple[list[Verdict], list[Entry]]:
    """Log what is told, with labels' codes of the very first fold."""
    return await store.learn(address, items, after, 0, first_chain(address.uid))


async def learn(store: Store, address: Address, first: int, count: int) -> None:
    """Log examples; their number is their seq."""
    await tell(store, address, [example(number) for number in range(first, first + count)])


async def fold_again(store: Store, address: Address) -> bytes:
    """Return the state that a fresh copy gets from the log alone."""
    fresh = Replica(store, address.key, await store.meta(address.key), SECRET)
    await fresh._fold_to_head(fresh.fold)
    return fresh.fold.encode()


async def two_snapshots(store: Store, address: Address) -> Replica:
    """Return a copy whose model has snapshots of events 4 and 8, and ends at event 10."""
    replica = await replica_of(store, address)
    for first in (0, 4):
        await play(replica, 4, first)
        await replica.save_snapshot()
    await play(replica, 2, 8)
    return replica
