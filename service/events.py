"""What is in a model's log, byte for byte.

An entry of the log is a body and the chain hash up to it::

    body  = kind 1 | time 8 (ms, big endian) | nonce 12 | feedback 1 | record
    chain = first 16 hex digits of sha1(previous chain | body)

The scripts in Redis write exactly this (they take the record as it was when the decision was
made), and `chain_after` recomputes it, so a worker notices when Redis lost a part of the log
that was already acknowledged and gave its numbers to other events.

The record of a decision, in the log and while it is pending, is::

    issue time 8 (ms, big endian) | label 2 | greedy 2 | propensity 8 | folded seq 8
    | fingerprint 8 | instance, float32 little endian

The issue time is put in front by Redis, the one clock. The record of a round that somebody else
decided, or of an example, is what the model is told::

    label 2 | propensity 8 | instance        label 2 | instance
"""

from __future__ import annotations

import struct
from enum import StrEnum
from hashlib import sha1
from typing import Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from learners.noise.rates import NOTHING_KNOWN
from service.errors import LogBroken
from service.features import Row
from service.ids import NONCE_BYTES

#: A number for each label.
Each: TypeAlias = NDArray[np.float64]
CHAIN_CHARS = 16
_BODY = struct.Struct(f">cQ{NONCE_BYTES}sc")
_BITS = {b"-": None, b"0": 0, b"1": 1}
_DECISION = struct.Struct("<HHdQ8s")
_TIME = struct.Struct(">Q")
_ROUND = struct.Struct("<Hd")
_EXAMPLE = struct.Struct("<H")
#: Bytes of a pending record before the instance: what a tombstone keeps of it.
HEAD_BYTES = _TIME.size + _DECISION.size


class Kind(StrEnum):
    """The kinds of event, by the byte that stands for each in the log."""

    FEEDBACK = "f"
    EXPIRE = "x"
    LEARN = "l"
    ROUND = "o"
    LABELS = "a"
    RATES = "r"
    CHALLENGER = "c"


_WITH_FEEDBACK = (Kind.FEEDBACK, Kind.ROUND)


class Decision(NamedTuple):
    """One recorded choice."""

    label: int
    greedy: int
    propensity: float
    #: How far the log was folded when it was made: the state that the propensity comes from.
    seq: int
    fingerprint: bytes
    x: Row
    issued_ms: int = 0


class Round(NamedTuple):
    """One choice by somebody else, who says how probable it was."""

    label: int
    propensity: float
    x: Row


class Example(NamedTuple):
    """One instance with its full (possibly noisy) label."""

    label: int
    x: Row


class LabelChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Labels that come (or come back), then labels that go, then what some are like."""

    add: list[str]
    retire: list[str]
    features: dict[str, list[float]] = {}


class RatesByLabel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rates and their standard errors by label code, each list as long as the others."""

    rho_0: list[float]
    rho_1: list[float]
    rho_0_error: list[float]
    rho_1_error: list[float]

    def __post_init__(self) -> None:
        if len({len(getattr(self, name)) for name in self.__struct_fields__}) != 1:
            raise ValueError("the labels' rates and errors are not equally many")


class Rates(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Noise rates that hold from this event on; an estimate has them for each label too."""

    rho_0: float
    rho_1: float
    by_label: RatesByLabel | None = None
    #: Standard errors of rho_0 and rho_1, of an estimate that found the labels' rates to be alike.
    errors: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.errors is not None and not all(0.0 <= error <= 1.0 for error in self.errors):
            raise ValueError(f"the rates' errors are {self.errors}")

    def of_labels(self, n_labels: int) -> tuple[Each, Each, Each, Each] | None:
        """Return each label's rates and their errors, of shape (K,); None where all are the same.

        Labels that came while an estimate was made have the common rates, as hardly known; labels
        that came after rates were set have the others' mean, as learners that were told then have.
        """
        each = self.by_label
        if each is None:
            return None
        come = n_labels - len(each.rho_0)
        rest = self.rho_0, self.rho_1, NOTHING_KNOWN, NOTHING_KNOWN
        if not self.estimated:
            rest = float(np.mean(each.rho_0)), float(np.mean(each.rho_1)), 0.0, 0.0
        told = each.rho_0, each.rho_1, each.rho_0_error, each.rho_1_error
        rho_0, rho_1, rho_0_error, rho_1_error = (
            np.array(own + [one] * come) for own, one in zip(told, rest, strict=True)
        )
        return rho_0, rho_1, rho_0_error, rho_1_error

    @property
    def estimated(self) -> bool:
        """Whether they were estimated: whoever sets rates knows them, and says so."""
        each = self.by_label
        return each is not None and any(each.rho_0_error + each.rho_1_error)


class ChallengerChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A challenger that comes, that goes, or that decides from this event on."""

    change: Literal["add", "drop", "promote"]
    name: str
    #: Kind and options of one that comes.
    learner: dict[str, bool | int | float | str] | None = None


Payload: TypeAlias = Decision | Round | Example | LabelChange | Rates | ChallengerChange


class Event(NamedTuple):
    """One event of a log, decoded."""

    kind: Kind
    time_ms: int
    nonce: bytes
    #: 0 or 1 for feedback and rounds, None for every other kind.
    feedback: int | None
    payload: Payload


class Telling(NamedTuple):
    """What is to be logged as it is told: an example, or a round that somebody else decided."""

    kind: Kind
    nonce: bytes
    #: As in the event that it becomes.
    feedback: int | None
    record: bytes


class Entry(NamedTuple):
    """One entry of a log, as it is stored."""

    seq: int
    chain: str
    body: bytes


def first_chain(incarnation: str) -> str:
    """Return the chain hash before the first event of a model."""
    return sha1(incarnation.encode(), usedforsecurity=False).hexdigest()[:CHAIN_CHARS]


def chain_after(chain: str, body: bytes) -> str:
    """Return the chain hash after `body`."""
    return sha1(chain.encode() + body, usedforsecurity=False).hexdigest()[:CHAIN_CHARS]


def pack_decision(decision: Decision) -> bytes:
    """Return the record of a decision, without its issue time."""
    head = _DECISION.pack(
        decision.label,
        decision.greedy,
        decision.propensity,
        decision.seq,
        decision.fingerprint,
    )
    return head + decision.x.tobytes()


def unpack_decision(record: bytes) -> Decision:
    """Return the decision in a record with its issue time; a tombstone's has no instance."""
    (issued_ms,) = _TIME.unpack_from(record)
    label, greedy, propensity, seq, fingerprint = _DECISION.unpack_from(record, _TIME.size)
    x = np.frombuffer(record, dtype="<f4", offset=HEAD_BYTES)
    return Decision(label, greedy, propensity, seq, fingerprint, x, issued_ms)


def pack_round(told: Round) -> bytes:
    """Return the record of a round that somebody else decided."""
    return _ROUND.pack(told.label, told.propensity) + told.x.tobytes()


def pack_example(example: Example) -> bytes:
    """Return the record of an example."""
    return _EXAMPLE.pack(example.label) + example.x.tobytes()


def pack_body(event: Event) -> bytes:
    """Return the body of an event, as the scripts would have written it."""
    return body_of(event.kind, event.time_ms, event.nonce, event.feedback, _pack_payload(event))


def body_of(kind: Kind, time_ms: int, nonce: bytes, feedback: int | None, record: bytes) -> bytes:
    """Return the body of an event with this record, as the scripts write it."""
    bit = b"-" if feedback is None else b"%d" % feedback
    return _BODY.pack(kind.encode(), time_ms, nonce, bit) + record


def stamped(issued_ms: int, record: bytes) -> bytes:
    """Return a record with its issue time in front, as Redis keeps it."""
    return _TIME.pack(issued_ms) + record


def _pack_payload(event: Event) -> bytes:
    payload = event.payload
    if isinstance(payload, Decision):
        return stamped(payload.issued_ms, pack_decision(payload))
    if isinstance(payload, Round):
        return pack_round(payload)
    if isinstance(payload, Example):
        return pack_example(payload)
    return msgspec.json.encode(payload)


def feedback_learned(event: Event, no_click: bool) -> int | None:
    """Return the bit that the fold learned from; None where it learned nothing from a bit.

    `no_click` says whether silence means a missing click.
    """
    if event.kind is Kind.EXPIRE and no_click:
        return 0
    return event.feedback


def is_example(entry: Entry) -> bool:
    """Whether the entry is an example, by its first byte."""
    return entry.body[:1] == Kind.LEARN.encode()


def unpack_body(body: bytes) -> Event:
    """Return the event in a body; raise LogBroken if it is none."""
    try:
        kind_byte, time_ms, nonce, bit = _BODY.unpack_from(body)
        kind = Kind(kind_byte.decode("ascii"))
        feedback = _BITS[bit]
        if (feedback is None) is (kind in _WITH_FEEDBACK):
            raise ValueError("feedback belongs to the kinds feedback and round, and to no other")
        return Event(kind, time_ms, nonce, feedback, _unpack_payload(kind, body[_BODY.size :]))
    except (struct.error, ValueError, KeyError) as error:
        raise LogBroken(f"an entry of the log cannot be read: {error}") from error


def _unpack_payload(kind: Kind, record: bytes) -> Payload:
    if kind is Kind.ROUND:
        label, propensity = _ROUND.unpack_from(record)
        return Round(label, propensity, np.frombuffer(record, dtype="<f4", offset=_ROUND.size))
    if kind is Kind.LEARN:
        (label,) = _EXAMPLE.unpack_from(record)
        return Example(label, np.frombuffer(record, dtype="<f4", offset=_EXAMPLE.size))
    if kind is Kind.LABELS:
        return msgspec.json.decode(record, type=LabelChange)
    if kind is Kind.RATES:
        return msgspec.json.decode(record, type=Rates)
    if kind is Kind.CHALLENGER:
        return msgspec.json.decode(record, type=ChallengerChange)
    return unpack_decision(record)
