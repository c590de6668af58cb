"""How a model is written as NDJSON: a header, perhaps with a snapshot in it, and the log's events.

The events are written out (names, numbers, hex), so that anybody can read a log; they hold all that
the stored bytes hold, so an import rebuilds the same bytes and the chain proves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
import numpy as np
from msgspec import Struct

from service.complaints import of_msgspec
from service.errors import Invalid, shorten
from service.events import (
    CHAIN_CHARS,
    ChallengerChange,
    Decision,
    Entry,
    Event,
    Example,
    Kind,
    LabelChange,
    Payload,
    Rates,
    RatesByLabel,
    Round,
    pack_body,
    unpack_body,
)
from service.features import MAX_VALUE, Row
from service.ids import FINGERPRINT_BYTES, NONCE_BYTES
from service.meta import COUNTERS, FORMAT
from service.spec import MAX_LABEL_FEATURES, MAX_LABELS, are_label_features

Value = TypeVar("Value")

#: Longest line but the first: an event that changes 1024 labels of 128 characters and 32 features.
MAX_EVENT_BYTES = 2 * 1024 * 1024
#: Longest parts of the first line: a spec as `POST /v1/models` takes it, whose numbers an export
#: may write longer, and so on.
HEADER_BYTES = {"spec": 1_310_720, "labels": MAX_EVENT_BYTES, "counters": 4096}

#: A count, a seq or a time: Redis' scripts compute with doubles, which hold integers exactly up to
#: 2^53. No log reaches half of that.
Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**52)]
Chain: TypeAlias = Annotated[str, msgspec.Meta(pattern=rf"^[0-9a-f]{{{CHAIN_CHARS}}}\Z")]
Nonce: TypeAlias = Annotated[str, msgspec.Meta(pattern=rf"^[0-9a-f]{{{2 * NONCE_BYTES}}}\Z")]
Fingerprint: TypeAlias = Annotated[
    str, msgspec.Meta(pattern=rf"^[0-9a-f]{{{2 * FINGERPRINT_BYTES}}}\Z")
]


class SnapshotLine(Struct, forbid_unknown_fields=True):
    """A state, which goes on with the event after it."""

    seq: Whole
    chain: Chain
    state: str


class Head(Struct, forbid_unknown_fields=True):
    """An event, and the chain of the log up to it."""

    seq: Whole
    chain: Chain


class Header(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """First line of an export."""

    format: str
    spec: dict[str, Any]
    uid: str
    labels: Annotated[list[str], msgspec.Meta(max_length=MAX_LABELS)]
    counters: Annotated[dict[str, Whole], msgspec.Meta(max_length=len(COUNTERS))]
    head: Head
    snapshot: SnapshotLine | None = None
    #: The event before the first line, where the lines begin before the snapshot.
    begin: Head | None = None


class _Parts(Struct):
    """The header's parts whose size is checked before they are parsed."""

    spec: msgspec.Raw = msgspec.Raw(b"")
    labels: msgspec.Raw = msgspec.Raw(b"")
    counters: msgspec.Raw = msgspec.Raw(b"")


class Line(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One event of an export."""

    seq: Whole
    chain: Chain
    time_ms: Whole
    kind: str
    nonce: Nonce
    feedback: Annotated[int, msgspec.Meta(ge=0, le=1)] | None = None
    label: str | None = None
    greedy: str | None = None
    propensity: float | None = None
    decided_seq: Whole | None = None
    decided_ms: Whole | None = None
    fingerprint: Fingerprint | None = None
    x: list[float] | None = None
    add: list[str] | None = None
    retire: list[str] | None = None
    features: dict[str, list[float]] | None = None
    rho_0: float | None = None
    rho_1: float | None = None
    by_label: RatesByLabel | None = None
    errors: tuple[float, float] | None = None
    challenger: ChallengerChange | None = None


def line_of(entry: Entry, labels: Sequence[str]) -> bytes:
    """Return the line of an entry, of a model with these labels."""
    event = unpack_body(entry.body)
    line = Line(entry.seq, entry.chain, event.time_ms, event.kind.name.lower(), event.nonce.hex())
    payload = event.payload
    if isinstance(payload, Decision):
        line.feedback = event.feedback
        line.label, line.greedy = labels[payload.label], labels[payload.greedy]
        line.propensity, line.decided_seq = payload.propensity, payload.seq
        line.decided_ms = payload.issued_ms
        line.fingerprint = payload.fingerprint.hex()
        line.x = payload.x.tolist()
    elif isinstance(payload, Round):
        line.feedback, line.label = event.feedback, labels[payload.label]
        line.propensity, line.x = payload.propensity, payload.x.tolist()
    elif isinstance(payload, Example):
        line.label, line.x = labels[payload.label], payload.x.tolist()
    elif isinstance(payload, LabelChange):
        line.add, line.retire = payload.add, payload.retire
        line.features = payload.features or None
    elif isinstance(payload, ChallengerChange):
        line.challenger = payload
    else:
        line.rho_0, line.rho_1, line.by_label = payload.rho_0, payload.rho_1, payload.by_label
        line.errors = payload.errors
    return msgspec.json.encode(line) + b"\n"


def parse_header(text: bytes) -> Header:
    """Return the header in the first line; raise Invalid if there is none."""
    try:
        parts = msgspec.json.decode(text, type=_Parts)
        for name, most in HEADER_BYTES.items():
            if len(getattr(parts, name)) > most:
                raise Invalid.of(name, f"at most {most} bytes", "more")
        header = msgspec.json.decode(text, type=Header)
    except msgspec.ValidationError as error:
        raise of_msgspec(str(error), b"").under("line 1") from None
    except (ValueError, RecursionError) as error:
        raise Invalid.of("line 1", "the header of an export", str(error)) from None
    if header.format != FORMAT:
        raise Invalid.of("format", repr(FORMAT), repr(header.format))
    if header.begin is not None and (
        header.snapshot is None or header.begin.seq >= header.snapshot.seq
    ):
        raise Invalid.of("begin", "an event before a snapshot", str(header.begin.seq))
    if len(header.uid) > 64 or not header.uid.isalnum():
        raise Invalid.of("uid", "1 to 64 letters and digits", header.uid)
    if not header.counters.keys() <= set(COUNTERS):
        raise Invalid.of("counters", f"some of {', '.join(COUNTERS)}", list(header.counters))
    return header


def entry_of(text: bytes, labels: Sequence[str], size: int) -> Entry:
    """Return the entry in a line, of a model with these labels and so many columns.

    Raises msgspec's ValidationError, or a ValueError, if it holds none.
    """
    line = msgspec.json.decode(text, type=Line)
    return Entry(line.seq, line.chain, pack_body(_event(line, labels, size)))


def _event(line: Line, labels: Sequence[str], size: int) -> Event:
    if line.kind.upper() not in Kind.__members__:
        raise ValueError(f"its kind is {line.kind!r}")
    kind = Kind[line.kind.upper()]
    payload = _payload(kind, line, labels, size)
    return Event(kind, line.time_ms, bytes.fromhex(line.nonce), line.feedback, payload)


def _payload(kind: Kind, line: Line, labels: Sequence[str], size: int) -> Payload:
    if kind is Kind.LABELS:
        return _label_change(line, labels)
    if kind is Kind.RATES:
        return Rates(_given(line.rho_0), _given(line.rho_1), line.by_label, line.errors)
    if kind is Kind.CHALLENGER:
        return _given(line.challenger)
    x, label = _row(_given(line.x), size), _code(labels, _given(line.label))
    if kind is Kind.LEARN:
        return Example(label, x)
    propensity = _given(line.propensity)
    if not 0.0 < propensity <= 1.0:
        raise ValueError(f"its propensity is {propensity}")
    if kind is Kind.ROUND:
        return Round(label, propensity, x)
    return Decision(
        label,
        _code(labels, _given(line.greedy)),
        propensity,
        _given(line.decided_seq),
        bytes.fromhex(_given(line.fingerprint)),
        x,
        _given(line.decided_ms),
    )


def _label_change(line: Line, labels: Sequence[str]) -> LabelChange:
    # A line has room for hundreds of thousands of labels, and a learner would grow by each.
    add, retire, features = line.add or [], line.retire or [], line.features or {}
    if max(len(add), len(retire)) > MAX_LABELS:
        raise ValueError(f"it changes more than {MAX_LABELS} labels")
    unknown = {*add, *retire, *features} - set(labels)
    if unknown:
        raise ValueError(f"its label {shorten(min(unknown))} is none of the header's")
    if not all(map(are_label_features, features.values())):
        what = f"1 to {MAX_LABEL_FEATURES} numbers within {MAX_VALUE:g} of 0"
        raise ValueError(f"a label's features are not {what}")
    return LabelChange(add, retire, features)


def _row(values: list[float], size: int) -> Row:
    # Scaling takes every row into its means before a learner could refuse it.
    wide = np.array(values, dtype=np.float64)
    if wide.shape != (size,) or not (np.abs(wide) <= MAX_VALUE).all():
        raise ValueError(f"x is no list of {size} numbers in range")
    return wide.astype("<f4")


def _code(labels: Sequence[str], name: str) -> int:
    if name not in labels:
        raise ValueError(f"its label {shorten(name)} is none of the header's")
    return labels.index(name)


def _given(value: Value | None) -> Value:
    if value is None:
        raise ValueError("one of its fields is missing")
    return value
