"""A model as NDJSON: a header, perhaps a snapshot in it, and every event after it.

The events are written out (names, numbers, hex), so that a log can be read by anybody; they
hold all that the stored bytes hold, so an import rebuilds the same bytes and the chain proves
it.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from pydantic import ValidationError

from service.codec import CodecError, state_digest
from service.errors import Conflict, Invalid, LogBroken, ServiceError, shorten
from service.events import (
    Decision,
    Entry,
    Event,
    Example,
    Kind,
    LabelChange,
    Rates,
    chain_after,
    pack_body,
    unpack_body,
)
from service.fold import Fold
from service.host import active_labels_text, initial_fields
from service.replica import Replica
from service.spec import ModelSpec
from service.store import COUNTERS, FORMAT, Snapshot, Store

#: Entries imported at once: one script call and some 5 ms of folding.
IMPORT_ENTRIES = 250
#: Longest line of an import; a snapshot of the largest model takes 12 MiB.
MAX_LINE_BYTES = 64 * 1024 * 1024


class SnapshotLine(Struct, forbid_unknown_fields=True):
    """The state that the first event of an export follows."""

    seq: int
    chain: str
    state: str


class Header(Struct, forbid_unknown_fields=True):
    """First line of an export."""

    format: str
    spec: dict[str, Any]
    uid: str
    labels: list[str]
    counters: dict[str, int]
    snapshot: SnapshotLine | None = None


class Line(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One event of an export."""

    seq: int
    chain: str
    time_ms: int
    kind: str
    nonce: str
    feedback: int | None = None
    label: str | None = None
    greedy: str | None = None
    propensity: float | None = None
    decided_seq: int | None = None
    decided_ms: int | None = None
    fingerprint: str | None = None
    x: list[float] | None = None
    add: list[str] | None = None
    retire: list[str] | None = None
    rho_0: float | None = None
    rho_1: float | None = None


# -- export -----------------------------------------------------------------------------------
async def export(store: Store, replica: Replica) -> AsyncIterator[bytes]:
    """Yield the model's NDJSON, from the oldest state that the log still continues."""
    await replica.catch_up()
    meta = await store.meta(replica.key)
    last = replica.fold.seq
    first = await store.first_seq(replica.address)
    snapshot = None
    if first is None or first > 1:
        stored = await store.snapshots(replica.address)
        snapshot = stored[-1] if stored else None
    labels = list(replica.fold.labels)
    yield _header(meta.spec, meta.uid, labels, meta.counters, snapshot)
    after = snapshot.seq if snapshot else 0
    while after < last:
        _, _, entries = await store.read(replica.address, after)
        if not entries or entries[0].seq != after + 1:
            raise Conflict("the log was trimmed while it was exported: try again")
        yield b"".join(_line(entry, labels) for entry in entries if entry.seq <= last)
        after = entries[-1].seq


def _header(
    spec: ModelSpec,
    uid: str,
    labels: list[str],
    counters: dict[str, int],
    snapshot: Snapshot | None,
) -> bytes:
    kept = None
    if snapshot is not None:
        state = base64.b64encode(snapshot.blob).decode()
        kept = SnapshotLine(snapshot.seq, snapshot.chain, state)
    header = Header(FORMAT, spec.to_dict(), uid, labels, counters, kept)
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
    elif isinstance(payload, Example):
        line.label, line.x = labels[payload.label], payload.x.tolist()
    elif isinstance(payload, LabelChange):
        line.add, line.retire = payload.add, payload.retire
    else:
        line.rho_0, line.rho_1 = payload.rho_0, payload.rho_1
    return msgspec.json.encode(line) + b"\n"


# -- import -----------------------------------------------------------------------------------
async def import_model(store: Store, key: str, name: str, chunks: AsyncIterator[bytes]) -> None:
    """Create the model `key` from an export; it appears whole, or not at all."""
    lines = _lines(chunks)
    header = _parse_header(await anext(lines, b""))
    fold, spec = _start(header, name)
    token = secrets.token_hex(8)
    fields = initial_fields(fold) | {"importing": token} | _counters(header)
    there = await store.create(key, spec, fields)
    if there is not None:
        raise Conflict(f"there is a model {name!r} already")
    try:
        batch: list[Entry] = []
        async for text in lines:
            batch.append(_entry(fold, text, header.labels))
            if len(batch) == IMPORT_ENTRIES:
                await store.import_entries(key, token, batch)
                batch = []
        await store.import_entries(key, token, batch)
        if fold.labels != header.labels:
            raise Invalid.of("labels", "the labels that the events lead to", header.labels)
        blob = fold.encode()
        whole = Snapshot(fold.seq, fold.chain, state_digest(blob), blob)
        await store.finish_import(key, token, header.uid, active_labels_text(fold), whole)
    except BaseException:
        await store.abandon_import(key, token)
        raise


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield line
        if len(rest) > MAX_LINE_BYTES:
            raise Invalid.of("body", f"lines of at most {MAX_LINE_BYTES} bytes", "a longer one")
    if rest.strip():
        yield rest


def _parse_header(text: bytes) -> Header:
    try:
        header = msgspec.json.decode(text, type=Header)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Invalid.of("line 1", "the header of an export", str(error)) from None
    if header.format != FORMAT:
        raise Invalid.of("format", repr(FORMAT), repr(header.format))
    if not 0 < len(header.uid) <= 64 or not header.uid.isalnum():
        raise Invalid.of("uid", "1 to 64 letters and digits", header.uid)
    return header


def _start(header: Header, name: str) -> tuple[Fold, ModelSpec]:
    try:
        spec = ModelSpec.from_json(msgspec.json.encode(header.spec | {"name": name}))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, ("spec", *first["loc"])))
        raise Invalid.of(where, "a valid model spec", first["msg"]) from None
    fold = Fold(spec, header.uid)
    if header.snapshot is not None:
        try:
            blob = base64.b64decode(header.snapshot.state, validate=True)
            fold.restore(blob, header.snapshot.seq, header.snapshot.chain)
        except (CodecError, ValueError) as error:
            raise Invalid.of("snapshot", "the state of an export", str(error)) from None
    return fold, spec


def _counters(header: Header) -> dict[str, str]:
    return {name: str(header.counters.get(name, 0)) for name in COUNTERS}


def _entry(fold: Fold, text: bytes, labels: Sequence[str]) -> Entry:
    where = f"event {fold.seq + 1}"
    try:
        line = msgspec.json.decode(text, type=Line)
        entry = Entry(line.seq, line.chain, pack_body(_event(line, labels)))
        if chain_after(fold.chain, entry.body) != line.chain:
            raise LogBroken("its chain hash is another")
        fold.follow(entry)
    except ServiceError:
        raise
    except (
        msgspec.DecodeError,
        LogBroken,
        ValueError,
        TypeError,
        KeyError,
        OverflowError,
    ) as error:
        raise Invalid.of(where, "the next event of the export", shorten(str(error))) from None
    return entry


def _event(line: Line, labels: Sequence[str]) -> Event:
    kind = Kind[line.kind.upper()]
    nonce = bytes.fromhex(line.nonce)
    return Event(kind, line.time_ms, nonce, line.feedback, _payload(kind, line, labels))


def _payload(
    kind: Kind, line: Line, labels: Sequence[str]
) -> Decision | Example | LabelChange | Rates:
    if kind is Kind.LABELS:
        return LabelChange(line.add or [], line.retire or [])
    if kind is Kind.RATES:
        return Rates(_given(line.rho_0), _given(line.rho_1))
    x = np.array(_given(line.x), dtype="<f4")
    label = labels.index(_given(line.label))
    if kind is Kind.LEARN:
        return Example(label, x)
    return Decision(
        label,
        labels.index(_given(line.greedy)),
        _given(line.propensity),
        _given(line.decided_seq),
        bytes.fromhex(_given(line.fingerprint)),
        x,
        _given(line.decided_ms),
    )


def _given(value: Any) -> Any:
    if value is None:
        raise ValueError("a field of the event is missing")
    return value
