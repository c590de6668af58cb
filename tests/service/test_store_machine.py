"""The store against a plain Python model of it, over random sequences of calls."""

from __future__ import annotations

import asyncio
import time
from typing import Any, ClassVar, Literal

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from service.address import Address
from service.events import Entry, Telling, chain_after, first_chain, unpack_body, unpack_decision
from service.snapshots import Snapshot, load_snapshots, store_snapshot
from service.store import Store, connect
from tests.service.stores import (
    TIMEOUT_S,
    example,
    make,
    nonce,
    raw_client,
    record,
    tell,
    told_round,
)

WINDOW_S = 0.1
MOST_PENDING = 4
KEEP = 5
#: Few, so that calls meet the same decision often.
DECISIONS = st.integers(0, 6)
EXAMPLES = st.integers(100, 103)
ROUNDS = st.integers(200, 203)


def _parts(seq: int) -> list[bytes]:
    """Return the parts of some state after event `seq`: one its own, one of several, one twice."""
    return [b"own %d" % seq, b"shared %d" % (seq // 3), b"always", b"always"]


class StoreMachine(RuleBasedStateMachine):
    """Calls the store, and says beforehand what it has to answer."""

    url: ClassVar[str]
    on_expiry: ClassVar[Literal["ignore", "no_click"]]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.store = Store(connect(self.url, TIMEOUT_S))
        self.address: Address = self.run(
            make(
                self.store,
                window_s=WINDOW_S,
                max_pending=MOST_PENDING,
                log_keep=KEEP,
                on_expiry=self.on_expiry,
            )
        )
        #: number -> the bit that is held for it.
        self.held: dict[int, int] = {}
        #: number -> (issued_ms, label), of what waits; number -> (kind, seq), of what ended.
        self.pending: dict[int, tuple[int, int]] = {}
        self.ended: dict[int, tuple[str, int]] = {}
        self.issued: dict[int, int] = {}
        self.labels: dict[int, int] = {}
        self.learned: dict[int, tuple[int, int]] = {}
        #: (kind, number, feedback) of every event.
        self.log: list[tuple[str, int, int | None]] = []
        self.counts = dict.fromkeys(
            ("decisions", "feedback", "clicks", "expired", "late", "duplicates", "conflicts"), 0
        )
        self.counts |= {"learned": 0, "told": 0, "rewinds": 0}
        self.snapshots: list[int] = []

    def run(self, call: Any) -> Any:
        """Run one call to its end."""
        return self.runner.run(call)

    def now_ms(self) -> int:
        """Return the store's time."""
        seconds, microseconds = self.run(raw_client(self.store).time())
        return int(seconds) * 1000 + int(microseconds) // 1000

    def closed(self, number: int, before_ms: int, after_ms: int) -> bool | None:
        """Say whether the decision's window was closed at a call; None if it may be either."""
        deadline = self.pending[number][0] + self.address.window_ms
        if after_ms <= deadline:
            return False
        return True if before_ms > deadline else None

    def teardown(self) -> None:
        """Remove the model."""
        self.run(self.store.delete(self.address.key))
        self.run(self.store.close())
        self.runner.close()

    # -- calls ----------------------------------------------------------------------------
    @rule(number=DECISIONS, label=st.integers(0, 2))
    def decide(self, number: int, label: int) -> None:
        """Record a decision, or ask for it again."""
        items = [(nonce(number), True, record(label))]
        chain = first_chain(self.address.uid)
        (answer,), seq = self.run(self.store.decide(self.address, items, 0, chain))
        assert seq == len(self.log)
        if number in self.issued:
            told = unpack_decision(answer.old)
            assert (told.issued_ms, told.label) == (self.issued[number], self.labels[number])
        elif len(self.pending) == MOST_PENDING:
            assert answer.full
        else:
            assert answer.old is None
            assert not answer.full
            self.pending[number] = answer.now_ms, label
            self.issued[number], self.labels[number] = answer.now_ms, label
            self.counts["decisions"] += 1

    @rule(number=DECISIONS, bit=st.integers(0, 1))
    def admit(self, number: int, bit: int) -> None:
        """Tell feedback, of whatever decision."""
        before_ms = self.now_ms()
        issued_ms = self.issued.get(number, before_ms)
        items = [(nonce(number), issued_ms, bit)]
        (verdict,), entries = self.run(self.store.admit(self.address, items, len(self.log)))
        after_ms = self.now_ms()
        if number in self.held:
            expected = "duplicate" if bit == self.held[number] else "conflict"
            assert (*verdict, entries) == (expected, None, self.held[number], [])
            self.counts[f"{expected}s"] += 1
            return
        if number in self.pending:
            closed = self.closed(number, before_ms, after_ms)
            taken = "held" if self.address.no_click else "applied"
            assert verdict.status in {None: {"late", taken}, True: {"late"}, False: {taken}}[closed]
            if verdict.status == "held":
                assert (verdict.seq, verdict.feedback, entries) == (None, bit, [])
                self.held[number] = bit
                return
            self.end(number, "x" if verdict.status == "late" else "f", bit)
            assert [entry.seq for entry in entries] == [len(self.log)]
            self.counts["late"] += verdict.status == "late"
            return
        assert entries == []
        if number not in self.ended:
            assert verdict.status == "unknown"
            return
        kind, seq = self.ended[number]
        if kind == "x":
            assert (verdict.status, verdict.seq) == ("late", None)
            self.counts["late"] += 1
            return
        first = self.log[seq - 1][2]
        expected = "duplicate" if bit == first else "conflict"
        assert (verdict.status, verdict.seq, verdict.feedback) == (expected, seq, first)
        self.counts[f"{expected}s"] += 1

    def end(self, number: int, kind: str, bit: int) -> None:
        """Note how a decision ended."""
        del self.pending[number]
        self.log.append((kind, number, bit if kind == "f" else None))
        self.ended[number] = kind, len(self.log)
        self.counts["expired" if kind == "x" else "feedback"] += 1
        self.counts["clicks"] += kind == "f" and bit

    @rule()
    def expire(self) -> None:
        """Sweep."""
        before_ms = self.now_ms()
        count = self.run(self.store.expire_due(self.address))
        after_ms = self.now_ms()
        _, _, entries = self.run(self.store.read(self.address, len(self.log)))
        assert len(entries) == count
        gone = [int.from_bytes(unpack_body(entry.body).nonce, "big") for entry in entries]
        for number in list(self.pending):
            closed = self.closed(number, before_ms, after_ms)
            assert closed is None or closed == (number in gone)
        for number in gone:
            bit = self.held.pop(number, None)
            self.end(number, "x" if bit is None else "f", bit or 0)

    @rule(number=EXAMPLES, label=st.integers(0, 1))
    def learn(self, number: int, label: int) -> None:
        """Log an example, or one that was logged before."""
        self.tell(number, label, example(number, label))

    @rule(number=ROUNDS, bit=st.integers(0, 1))
    def tell_round(self, number: int, bit: int) -> None:
        """Log a round that somebody else decided, or one that was logged before."""
        self.tell(number, bit, told_round(number, feedback=bit))

    def tell(self, number: int, label: int, item: Telling) -> None:
        """Log what is told, and check what becomes of it; `label` is what tells it apart."""
        (verdict,), _ = self.run(tell(self.store, self.address, [item], len(self.log)))
        if number in self.learned:
            seq, first = self.learned[number]
            expected = "duplicate" if first == label else "conflict"
            assert (verdict.status, verdict.seq) == (expected, seq)
            self.counts[f"{expected}s"] += 1
        else:
            self.log.append((item.kind.value, number, item.feedback))
            self.learned[number] = len(self.log), label
            assert (verdict.status, verdict.seq) == ("applied", len(self.log))
            self.counts["learned" if item.feedback is None else "told"] += 1

    @rule(back=st.integers(0, 3))
    def snapshot(self, back: int) -> None:
        """Store a snapshot of the newest event, or of an older one."""
        seq = len(self.log) - back
        entry = next((entry for entry in self.kept() if entry.seq == seq), None)
        if seq < 1 or entry is None:
            return
        newest = self.snapshots[-1] if self.snapshots else 0
        stored = self.run(
            store_snapshot(self.store, self.address, Snapshot(seq, entry.chain, "", _parts(seq)))
        )
        assert stored == (seq > newest)
        if stored:
            self.snapshots.append(seq)
            kept = self.run(raw_client(self.store).hvals(self.address.part("parts")))
            assert set(kept) == {part for s in self.snapshots[-2:] for part in _parts(s)}

    @rule()
    def wait(self) -> None:
        """Let some windows close."""
        time.sleep(WINDOW_S * 0.6)

    # -- what always holds ----------------------------------------------------------------
    def kept(self) -> list[Entry]:
        """Return the entries that the log still holds."""
        _, _, entries = self.run(self.store.read(self.address, 0))
        return list(entries)

    @invariant()
    def the_log_is_the_model(self) -> None:
        """Compare the log with the model's, from the oldest event that is needed, on one chain."""
        entries = self.kept()
        found = [
            (str(e.kind), int.from_bytes(e.nonce, "big"), e.feedback)
            for e in (unpack_body(entry.body) for entry in entries)
        ]
        trimmed = len(self.log) - len(entries)
        assert found == self.log[trimmed:]
        # All after the snapshot before the newest is kept, and `KEEP` events at least.
        before = self.snapshots[-2] if len(self.snapshots) > 1 else 0
        assert trimmed <= max(0, min(before, len(self.log) - KEEP))
        chain = entries[0].chain if trimmed else first_chain(self.address.uid)
        for number, entry in enumerate(entries[1 if trimmed else 0 :], 2 if trimmed else 1):
            chain = chain_after(chain, entry.body)
            assert (entry.seq, entry.chain) == (trimmed + number, chain)

    @invariant()
    def everything_is_counted(self) -> None:
        """Compare the counters; decisions = feedback + expired + pending."""
        meta = self.run(self.store.meta(self.address.key))
        pending, held = self.run(self.store.waiting(self.address.key))
        assert meta.counters == self.counts
        assert (pending, held) == (len(self.pending), len(self.held))
        assert meta.seq == len(self.log)
        ended = meta.counters["feedback"] + meta.counters["expired"]
        assert meta.counters["decisions"] == ended + pending

    @invariant()
    def two_snapshots_are_kept(self) -> None:
        """Find the newest snapshot and the one before."""
        stored = self.run(load_snapshots(self.store, self.address))
        assert [s.seq for s in stored] == self.snapshots[:-3:-1]
        assert [s.parts for s in stored] == [_parts(s.seq) for s in stored]


@pytest.mark.parametrize("silence", ["ignore", "no_click"])
def test_the_store_is_the_model(store_url: str, silence: Literal["ignore", "no_click"]) -> None:
    """Whatever is called in whatever order, the store answers and holds what the model says."""

    class OnThisStore(StoreMachine):
        url = store_url
        on_expiry = silence

    run_state_machine_as_test(
        OnThisStore,
        settings=settings(
            max_examples=12,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
