"""A model as NDJSON: a header, perhaps a snapshot in it, and every event after it.

The events are written out (names, numbers, hex), so that a log can be read by anybody; they
hold all that the stored bytes hold, so an import rebuilds the same bytes and the chain proves
it.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
import numpy as np
from msgspec import Struct
from pydantic import ValidationError

from learners.base import State
from service.challengers import learners_text
from service.codec import CodecError, encode_parts, state_digest
from service.complaints import of_msgspec, of_pydantic
from service.errors import Conflict, Invalid, LogBroken, shorten
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
    chain_after,
    pack_body,
    unpack_body,
)
from service.features import MAX_VALUE, Row
from service.fold import Fold, check_sound
from service.follower import TURN_S
from service.host import initial_fields
from service.ids import FINGERPRINT_BYTES, NONCE_BYTES
from service.labels import labels_of, parse_labels
from service.replica import Replica
from service.snapshots import Snapshot, finish_import, load_snapshots
from service.spec import MAX_LABELS, ModelSpec
from service.store import COUNTERS, FORMAT, IMPORT_ENTRIES, Meta, Store

Value = TypeVar("Value")

#: Longest first line of an import; a snapshot of the largest model takes 43 MiB.
MAX_HEADER_BYTES = 64 * 1024 * 1024
#: Longest other line: an event that changes 1024 labels of 128 characters and 32 features.
MAX_EVENT_BYTES = 2 * 1024 * 1024
#: Longest parts of the first line: a spec as `POST /v1/models` takes it by default, and so on.
HEADER_BYTES = {"spec": 262_144, "labels": MAX_EVENT_BYTES, "counters": 4096}

#: A count, a seq or a time: Redis' scripts compute with doubles, which hold integers exactly up
#: to 2^53. From half of that on no log gets there.
Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**52)]
Chain: TypeAlias = Annotated[str, msgspec.Meta(pattern=rf"^[0-9a-f]{{{CHAIN_CHARS}}}\Z")]
Nonce: TypeAlias = Annotated[str, msgspec.Meta(pattern=rf"^[0-9a-f]{{{2 * NONCE_BYTES}}}\Z")]
Fingerprint: TypeAlias = Annotated[
    str, msgspec.Meta(pattern=rf"^[0-9a-f]{{{2 * FINGERPRINT_BYTES}}}\Z")
]


class SnapshotLine(Struct, forbid_unknown_fields=True):
    """The state that the first event of an export follows."""

    seq: Whole
    chain: Chain
    state: str


class Head(Struct, forbid_unknown_fields=True):
    """Where the log ended when it was exported."""

    seq: Whole
    chain: Chain


class Header(Struct, forbid_unknown_fields=True):
    """First line of an export; earlier ones do not say where they end."""

    format: str
    spec: dict[str, Any]
    uid: str
    labels: Annotated[list[str], msgspec.Meta(max_length=MAX_LABELS)]
    counters: Annotated[dict[str, Whole], msgspec.Meta(max_length=len(COUNTERS))]
    snapshot: SnapshotLine | None = None
    head: Head | None = None


class _Parts(Struct):
    """The header's parts whose size is looked at before they are parsed."""

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


# -- export -----------------------------------------------------------------------------------
async def export(store: Store, replica: Replica) -> AsyncIterator[bytes]:
    """Yield the model's NDJSON, from the oldest state that the log still continues."""
    await replica.catch_up()
    # Head, labels and counters of one moment; the log goes on while it is exported.
    meta = await store.meta(replica.key)
    last = meta.seq
    labels = [each.name for each in parse_labels(meta.labels)]
    first = await store.first_seq(replica.address)
    snapshot = None
    if first is None or first > 1:
        stored = await load_snapshots(store, replica.address)
        snapshot = stored[-1] if stored else None
    if snapshot is not None and snapshot.seq > last:
        raise Conflict("the log was trimmed while it was exported: try again")
    yield _header(meta, labels, snapshot)
    after = snapshot.seq if snapshot else 0
    while after < last:
        _, _, entries = await store.read(replica.address, after)
        if not entries or entries[0].seq != after + 1:
            raise Conflict("the log was trimmed while it was exported: try again")
        yield b"".join(_line(entry, labels) for entry in entries if entry.seq <= last)
        after = entries[-1].seq


def _header(meta: Meta, labels: list[str], snapshot: Snapshot | None) -> bytes:
    kept = None
    if snapshot is not None:
        if state_digest(*snapshot.parts) != snapshot.digest:
            raise Conflict("the snapshot was replaced while it was exported: try again")
        state = base64.b64encode(b"".join(snapshot.parts)).decode()
        kept = SnapshotLine(snapshot.seq, snapshot.chain, state)
    head = Head(meta.seq, meta.chain)
    header = Header(FORMAT, meta.spec.to_dict(), meta.uid, labels, meta.counters, kept, head)
    return msgspec.json.encode(header) + b"\n"


def _line(entry: Entry, labels: Sequence[str]) -> bytes:
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


# -- import -----------------------------------------------------------------------------------
async def import_model(store: Store, key: str, name: str, chunks: AsyncIterator[bytes]) -> None:
    """Create the model `key` from an export; it appears whole, or not at all."""
    lines = _lines(chunks)
    header = _parse_header(await anext(lines, b""))
    # A window of neighbours takes seconds to be built.
    fold, spec = await asyncio.to_thread(_start, header, name)
    token = secrets.token_hex(8)
    fields = initial_fields(fold) | {"importing": token} | _counters(header)
    there = await store.create(key, spec, fields)
    if there is not None:
        raise Conflict(f"there is a model {name!r} already")
    try:
        batch: list[Entry] = []
        end_s = time.perf_counter() + TURN_S
        async for text in lines:
            batch.append(_entry(fold, text, header.labels))
            if len(batch) == IMPORT_ENTRIES:
                await store.import_entries(key, token, batch)
                batch = []
            if time.perf_counter() > end_s:
                # Many lines may have come at once, and nothing is awaited for them.
                await asyncio.sleep(0)
                end_s = time.perf_counter() + TURN_S
        await store.import_entries(key, token, batch)
        _check_end(header, fold)
        if fold.labels != header.labels:
            raise Invalid.of("labels", "the labels that the events lead to", header.labels)
        whole = await asyncio.to_thread(_whole, fold)
        await finish_import(store, key, token, header.uid, _changed_fields(fold), whole)
    except BaseException:
        await store.abandon_import(key, token)
        raise


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    parts: list[bytes] = []
    size, most = 0, MAX_HEADER_BYTES
    async for chunk in chunks:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line = b"".join([*parts, end])
            parts, size = [], 0
            if line.strip():
                yield _checked(line, most)
                most = MAX_EVENT_BYTES
        parts.append(rest)
        size += len(rest)
        if size > most:
            break
    line = b"".join(parts)
    if line.strip():
        yield _checked(line, most)


def _checked(line: bytes, most: int) -> bytes:
    if len(line) > most:
        raise Invalid.of("body", f"lines of at most {most} bytes", "a longer one")
    return line


def _parse_header(text: bytes) -> Header:
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
    if not 0 < len(header.uid) <= 64 or not header.uid.isalnum():
        raise Invalid.of("uid", "1 to 64 letters and digits", header.uid)
    if not header.counters.keys() <= set(COUNTERS):
        raise Invalid.of("counters", f"some of {', '.join(COUNTERS)}", list(header.counters))
    return header


def _start(header: Header, name: str) -> tuple[Fold, ModelSpec]:
    try:
        spec = ModelSpec.from_json(msgspec.json.encode(header.spec | {"name": name}))
    except ValidationError as error:
        raise of_pydantic(error.errors(include_url=False)).under("spec") from None
    fold = Fold(spec, header.uid)
    if header.snapshot is not None:
        try:
            blob = base64.b64decode(header.snapshot.state, validate=True)
            fold.restore(blob, header.snapshot.seq, header.snapshot.chain)
        except (CodecError, ValueError) as error:
            raise Invalid.of("snapshot", "the state of an export", str(error)) from None
    return fold, spec


def _check_end(header: Header, fold: Fold) -> None:
    """Raise Invalid unless the events are all of the export's: a file may have been cut off."""
    if header.head is not None and (fold.seq, fold.chain) != (header.head.seq, header.head.chain):
        what = f"those up to event {header.head.seq}, as the first line says"
        raise Invalid.of("events", what, f"those up to event {fold.seq}")


def _whole(fold: Fold) -> Snapshot:
    parts = encode_parts(_sound_state(fold))
    return Snapshot(fold.seq, fold.chain, state_digest(*parts), parts)


def _sound_state(fold: Fold) -> State:
    """Return the state that the events lead to; raise Invalid if a copy could not load it."""
    state = fold.state()
    try:
        check_sound(state)
    except ValueError as error:
        raise Invalid.of("events", "events that lead to a state of numbers", str(error)) from None
    return state


def _changed_fields(fold: Fold) -> dict[str, str]:
    """Return the meta fields that administrative events change, as the fold has them now."""
    fields = {"labels": labels_of(fold), "learners": learners_text(fold.contest.named)}
    if fold.contest.rates is not None:
        fields["rates"] = msgspec.json.encode(fold.contest.rates).decode()
    return fields


def _counters(header: Header) -> dict[str, str]:
    counts = {name: header.counters.get(name, 0) for name in COUNTERS}
    # What waits for feedback stays with the original, and is none of the copy's decisions.
    counts["decisions"] = counts["feedback"] + counts["expired"]
    return {name: str(count) for name, count in counts.items()}


def _entry(fold: Fold, text: bytes, labels: Sequence[str]) -> Entry:
    where = f"event {fold.seq + 1}"
    try:
        line = msgspec.json.decode(text, type=Line)
        entry = Entry(line.seq, line.chain, pack_body(_event(line, labels, fold.encoder.size)))
        if chain_after(fold.chain, entry.body) != line.chain:
            raise LogBroken("its chain hash is another")
        fold.follow(entry)
    except msgspec.ValidationError as error:
        raise of_msgspec(str(error), b"").under(where) from None
    except (LogBroken, ValueError, RecursionError) as error:
        raise Invalid.of(where, "the next event of the export", str(error)) from None
    return entry


def _event(line: Line, labels: Sequence[str], size: int) -> Event:
    if line.kind.upper() not in Kind.__members__:
        raise ValueError(f"its kind is {line.kind!r}")
    kind = Kind[line.kind.upper()]
    payload = _payload(kind, line, labels, size)
    return Event(kind, line.time_ms, bytes.fromhex(line.nonce), line.feedback, payload)


def _payload(kind: Kind, line: Line, labels: Sequence[str], size: int) -> Payload:
    if kind is Kind.LABELS:
        return LabelChange(line.add or [], line.retire or [], line.features or {})
    if kind is Kind.RATES:
        return Rates(_given(line.rho_0), _given(line.rho_1), line.by_label, line.errors)
    if kind is Kind.CHALLENGER:
        return _given(line.challenger)
    x, label = _row(_given(line.x), size), _code(labels, _given(line.label))
    if kind is Kind.LEARN:
        return Example(label, x)
    propensity = _given(line.propensity)
    if kind is Kind.ROUND:
        if not 0.0 < propensity <= 1.0:
            raise ValueError(f"its propensity is {propensity}")
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
