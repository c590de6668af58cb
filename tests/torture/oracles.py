"""What has to hold after a storm, read from the store itself and folded once more.

Nothing here asks the service what it thinks of its log; only the state of each worker is
fetched over HTTP, to be compared.
"""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import httpx
import msgspec
import numpy as np
import redis

from learners import draw
from service.codec import state_digest
from service.errors import LogBroken
from service.events import (
    Decision,
    Entry,
    Event,
    Kind,
    Rates,
    chain_after,
    first_chain,
    unpack_body,
    unpack_decision,
)
from service.fold import Fold
from service.ids import EXAMPLE, ROUND, nonce_of_request, uniform_of
from service.spec import ModelSpec
from service.wire import Estimate
from tests.torture.cluster import NO_TLS, Worker
from tests.torture.traffic import Ack, Decided, Record, nonce_of

#: So many findings of each kind are described; all are counted.
NOTES = 5


class Seen(NamedTuple):
    """A snapshot as it stood in the store at some time."""

    model: str
    seq: int
    chain: str
    blob: bytes


@dataclass
class Findings:
    """What the oracles found; the storm fails unless every count is 0."""

    lost: int = 0
    lost_decisions: int = 0
    doubled: int = 0
    gaps: int = 0
    divergent: int = 0
    snapshots: int = 0
    propensities: int = 0
    unbalanced: int = 0
    surprises: int = 0
    estimates: int = 0
    notes: list[str] = field(default_factory=list)
    #: How much was looked at, so that an oracle that saw nothing is noticed.
    events: int = 0
    states: int = 0
    snapshots_seen: int = 0
    propensities_seen: int = 0
    estimates_seen: int = 0
    #: Rounds in the records of challengers, which are part of the states compared.
    challenged_seen: int = 0

    def note(self, what: str, text: str, count: int = 1) -> None:
        """Count a finding, and say what it was."""
        setattr(self, what, getattr(self, what) + count)
        if sum(note.startswith(f"{what}:") for note in self.notes) < NOTES:
            self.notes.append(f"{what}: {text}")

    def wrong(self) -> dict[str, int]:
        """Return the counts that are not 0."""
        names = (
            "lost",
            "lost_decisions",
            "doubled",
            "gaps",
            "divergent",
            "snapshots",
            "propensities",
            "unbalanced",
            "surprises",
            "estimates",
        )
        return {name: getattr(self, name) for name in names if getattr(self, name)}


class Stored:
    """One model as the store holds it: meta, whole log, pending decisions, snapshots."""

    def __init__(self, client: redis.Redis, name: str) -> None:
        key = f"mc:{{default/{name}}}"
        raw = cast(dict[bytes, bytes], client.hgetall(f"{key}:meta"))
        self.name = name
        self.meta = {field.decode(): value.decode() for field, value in raw.items()}
        self.spec = ModelSpec.from_json(self.meta["spec"])
        self.origin = self.meta.get("origin", self.meta["uid"])
        rows = cast(list[tuple[bytes, dict[bytes, bytes]]], client.xrange(f"{key}:log"))
        self.entries = [
            Entry(int(entry_id.partition(b"-")[0]), row[b"h"].decode(), row[b"b"])
            for entry_id, row in rows
        ]
        self.pending = cast(dict[bytes, bytes], client.hgetall(f"{key}:pending"))
        self.held = cast(dict[bytes, bytes], client.hgetall(f"{key}:held"))
        self.due = set(cast(list[bytes], client.zrange(f"{key}:due", 0, -1)))
        self.snapshots = [
            seen for part in ("snap", "snap1") if (seen := read_snapshot(client, name, part))
        ]
        self.events = [unpack_body(entry.body) for entry in self.entries]
        estimate = cast(dict[bytes, bytes], client.hgetall(f"{key}:estimate"))
        self.estimate = {field.decode(): value.decode() for field, value in estimate.items()}
        history = cast(list[bytes], client.lrange(f"{key}:estimates", 0, -1))
        #: Results of estimates, the newest first.
        self.estimates = [msgspec.json.decode(result, type=Estimate) for result in history]


#: In one step: a newer snapshot may take parts away.
_READ_SNAPSHOT = """
local seq, chain, names = unpack(redis.call('HMGET', KEYS[1], 'seq', 'chain', 'parts'))
if not seq then return {} end
local parts = {}
for at = 1, #names, 32 do
  parts[#parts + 1] = redis.call('HGET', KEYS[2], string.sub(names, at, at + 31))
end
return {seq, chain, parts}
"""


def read_snapshot(client: redis.Redis, name: str, part: str) -> Seen | None:
    """Return a stored snapshot of a model."""
    key = f"mc:{{default/{name}}}"
    found = cast(list[Any], client.eval(_READ_SNAPSHOT, 2, f"{key}:{part}", f"{key}:parts"))
    if not found:
        return None
    seq, chain, parts = found
    return Seen(name, int(seq), chain.decode(), b"".join(parts))


def check_all(
    client: redis.Redis,
    names: Iterable[str],
    record: Record,
    workers: Sequence[Worker],
    seen: Sequence[Seen],
) -> Findings:
    """Look at every model with every oracle."""
    findings = Findings()
    for text in record.surprises:
        findings.note("surprises", text)
    for name in names:
        stored = Stored(client, name)
        _check_chain(stored, findings)
        _check_acks(stored, [a for a in record.acks if a.model == name], findings)
        _check_ends(stored, [d for d in record.decisions if d.model == name], findings)
        _check_balance(stored, findings)
        if stored.spec.learner.kind == "rcine":
            _check_estimates(stored, record.promised, findings)
        snapshots = {*stored.snapshots, *(s for s in seen if s.model == name)}
        fold = _check_fold(stored, record.decisions, snapshots, findings)
        _check_workers(stored, fold, workers, findings)
        findings.events += len(stored.entries)
        findings.challenged_seen += sum(
            len(c.record.rounds().seqs) for c in fold.contest.challengers
        )
    return findings


def _check_chain(stored: Stored, findings: Findings) -> None:
    """Check that the seq is dense from 1 and every chain hash follows from the one before."""
    chain = first_chain(stored.origin)
    for expected, entry in enumerate(stored.entries, 1):
        if entry.seq != expected or chain_after(chain, entry.body) != entry.chain:
            findings.note("gaps", f"{stored.name}: event {entry.seq} as event {expected}")
            return
        chain = entry.chain
    if (str(len(stored.entries)), chain) != (stored.meta["seq"], stored.meta["chain"]):
        findings.note("gaps", f"{stored.name}: the head says {stored.meta['seq']}")


def _check_acks(stored: Stored, acks: Sequence[Ack], findings: Findings) -> None:
    """Check that everything acknowledged stands in the log once, as acknowledged."""
    logged: dict[bytes, list[tuple[int, Event]]] = defaultdict(list)
    for seq, event in enumerate(stored.events, 1):
        logged[event.nonce].append((seq, event))
    for nonce in stored.held.keys() & stored.pending.keys():
        # What it will be, at some later seq, when its window has closed.
        record, bit = unpack_decision(stored.pending[nonce]), int(stored.held[nonce][:1])
        event = Event(Kind.FEEDBACK, 0, nonce, bit, record)
        logged[nonce].append((len(stored.events) + 1, event))
    for nonce, events in logged.items():
        if len(events) > 1:
            findings.note("doubled", f"{stored.name}: {nonce.hex()} at {[s for s, _ in events]}")
    for ack in acks:
        events = logged[_nonce_of(ack)]
        if not events or not _says(ack, *events[0], held=stored.spec.on_expiry == "no_click"):
            findings.note("lost", f"{stored.name}: {ack} against {[s for s, _ in events]}")


def _nonce_of(ack: Ack) -> bytes:
    if ack.told:
        return nonce_of_request(ack.about, ROUND)
    return nonce_of_request(ack.about, EXAMPLE) if ack.sent is None else nonce_of(ack.about)


def _says(ack: Ack, seq: int, event: Event, *, held: bool) -> bool:
    if ack.status == "late":
        return event.kind is Kind.EXPIRE
    if ack.sent is None:
        return event.kind is Kind.LEARN and seq == ack.seq
    if ack.told:
        bits = (event.feedback, ack.first, event.kind, seq)
        return bits == (ack.sent, ack.sent, Kind.ROUND, ack.seq)
    bit = ack.first if ack.status == "conflict" else ack.sent
    return (
        event.kind is Kind.FEEDBACK
        and event.feedback == bit == ack.first
        and (ack.status == "conflict") == (bit != ack.sent)
        # It has none while it is held, nor in a refusal.
        and (ack.seq == seq or (ack.seq is None and (held or ack.status == "conflict")))
    )


def _check_ends(stored: Stored, decisions: Sequence[Decided], findings: Findings) -> None:
    """Check that every decision that was told is pending, or ended in exactly one event."""
    ended = Counter(event.nonce for event in stored.events)
    for decision in decisions:
        places = ended[decision.nonce] + (decision.nonce in stored.pending)
        if places != 1:
            findings.note("lost_decisions", f"{stored.name}: {decision.nonce.hex()} in {places}")
    if stored.due != set(stored.pending):
        findings.note("unbalanced", f"{stored.name}: due and pending differ")
    if not stored.held.keys() <= stored.pending.keys():
        findings.note("unbalanced", f"{stored.name}: feedback is held of what is not pending")


def _check_balance(stored: Stored, findings: Findings) -> None:
    """Check decisions = feedback + expired + pending, and every counter against the log."""
    kinds = Counter(event.kind for event in stored.events)
    clicks = sum(event.feedback or 0 for event in stored.events if event.kind is Kind.FEEDBACK)
    expected = {
        "feedback": kinds[Kind.FEEDBACK],
        "clicks": clicks,
        "expired": kinds[Kind.EXPIRE],
        "learned": kinds[Kind.LEARN],
        "told": kinds[Kind.ROUND],
        "decisions": kinds[Kind.FEEDBACK] + kinds[Kind.EXPIRE] + len(stored.pending),
    }
    counters = {name: int(stored.meta.get(name, 0)) for name in expected}
    if counters != expected:
        findings.note("unbalanced", f"{stored.name}: {counters}, expected {expected}")


def _check_estimates(stored: Stored, promised: Sequence[int], findings: Findings) -> None:
    """Check that each estimate ended once, and that each trusted one became one event."""
    done = int(stored.estimate.get("done", 0))
    numbers = [result.number for result in stored.estimates]
    if numbers != list(range(done, done - len(numbers), -1)):
        findings.note("estimates", f"{stored.name}: {numbers} of {done}")
    events = [(e.payload.rho_0, e.payload.rho_1) for e in stored.events if type(e.payload) is Rates]
    trusted = [(one.rho_0, one.rho_1) for one in reversed(stored.estimates) if one.trusted]
    findings.estimates_seen += len(events)
    count = int(stored.estimate.get("trusted", 0))
    if len(events) != count or events[len(events) - len(trusted) :] != trusted:
        findings.note("estimates", f"{stored.name}: {events} as events, {count}: {trusted}")
    lost = [number for number in promised if number > done]
    if lost:
        findings.note("estimates", f"{stored.name}: never ended: {lost}", len(lost))


def _check_fold(
    stored: Stored, told: Sequence[Decided], snapshots: Iterable[Seen], findings: Findings
) -> Fold:
    """Fold the log; on the way compare each snapshot and each decision with the state then."""
    allowed = {decision.nonce: decision.allowed for decision in told}
    made_at: dict[int, list[tuple[bytes, Decision]]] = defaultdict(list)
    waiting = [(nonce, unpack_decision(raw)) for nonce, raw in stored.pending.items()]
    logged = [(e.nonce, e.payload) for e in stored.events if isinstance(e.payload, Decision)]
    for nonce, decision in [*waiting, *logged]:
        made_at[decision.seq].append((nonce, decision))
    taken_at: dict[int, list[Seen]] = defaultdict(list)
    for snapshot in snapshots:
        taken_at[snapshot.seq].append(snapshot)
    fold = Fold(stored.spec, stored.origin)
    for entry in [None, *stored.entries]:
        try:
            if entry is not None:
                fold.follow(entry)
        except LogBroken:
            break
        for snapshot in taken_at.pop(fold.seq, []):
            findings.snapshots_seen += 1
            if (snapshot.chain, snapshot.blob) != (fold.chain, fold.encode()):
                findings.note("snapshots", f"{stored.name}: the one of event {snapshot.seq}")
        for nonce, decision in made_at.pop(fold.seq, []):
            findings.propensities_seen += 1
            if not _is_drawn_from(fold, nonce, decision, allowed.get(nonce)):
                findings.note("propensities", f"{stored.name}: {nonce.hex()} at {fold.seq}")
    for seq in [*taken_at, *made_at]:
        what = "snapshots" if seq in taken_at else "propensities"
        findings.note(what, f"{stored.name}: event {seq} is not in the log")
    return fold


def _is_drawn_from(
    fold: Fold, nonce: bytes, decision: Decision, allowed: Sequence[str] | None
) -> bool:
    codes = None if allowed is None else [fold.codes[name] for name in allowed]
    x = fold._scaling.apply(decision.x.astype(np.float64))
    distribution = fold.learner.distribution(x, codes)
    label = draw(distribution, uniform_of(fold.spec.seed, nonce))
    return (decision.label, decision.greedy) == (label, distribution.greedy) and struct.pack(
        "d", decision.propensity
    ) == struct.pack("d", distribution.probabilities[label])


def _check_workers(
    stored: Stored, fold: Fold, workers: Sequence[Worker], findings: Findings
) -> None:
    """Check that every worker's state has the bytes of the fold."""
    expected: dict[str, Any] = {
        "x-misclick-seq": str(len(stored.entries)),
        "x-misclick-chain": fold.chain,
        "x-misclick-sha256": state_digest(fold.encode()),
    }
    for worker in workers:
        answer = httpx.get(f"{worker.url}/v1/models/{stored.name}/state", timeout=30, verify=NO_TLS)
        findings.states += 1
        got = {name: answer.headers.get(name) for name in expected}
        if got != expected:
            findings.note("divergent", f"{stored.name} on port {worker.port}: {got}")
