"""Models as files: export, and import, by which a model appears whole or not at all."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

import msgspec
from pydantic import ValidationError

from learners.neighbors import WindowLearner
from service.challengers import learners_text
from service.codec import CodecError, state_digest
from service.complaints import of_msgspec, of_pydantic
from service.errors import Conflict, Invalid, LogBroken
from service.events import Entry, chain_after
from service.exported import (
    MAX_EVENT_BYTES,
    Head,
    Header,
    SnapshotLine,
    entry_of,
    line_of,
    parse_header,
)
from service.features import make_encoder
from service.fold import Fold
from service.follower import BUILDERS
from service.host import initial_fields
from service.labels import labels_of, parse_labels
from service.meta import COUNTERS, FORMAT, Meta
from service.replica import Replica
from service.sizes import check_size, check_together
from service.snapshots import Snapshot, finish_import, load_snapshots, sound_snapshot
from service.spec import ModelSpec
from service.store import IMPORT_ENTRIES, IMPORTING, Store
from service.turns import TURN_S, Turns

#: A snapshot that comes while another one is read takes that one's parts away, and trims the log.
TRIES = 3
#: Longest first line of an import; a snapshot of the largest model takes 43 MiB.
MAX_HEADER_BYTES = 64 * 1024 * 1024


# -- export -----------------------------------------------------------------------------------
async def export(store: Store, replica: Replica) -> AsyncIterator[bytes]:
    """Yield the model's NDJSON: a state, if the log does not begin at its first event, and the log.

    The log's events from before that state come too: they are what a copy is evaluated, estimated
    and relearned from.
    """
    opening = await _opened(store, replica)
    yield opening.header
    after, entries = opening.after, opening.entries
    while after < opening.last:
        if not entries:
            _, _, entries = await store.read(replica.address, after)
        if not entries or entries[0].seq != after + 1:
            raise Conflict("the log was trimmed while it was exported: try again")
        some = [entry for entry in entries if entry.seq <= opening.last]
        yield b"".join(line_of(entry, opening.labels) for entry in some)
        after, entries = entries[-1].seq, []


class _Opening(NamedTuple):
    """What an export begins with, and what it has to yield then."""

    header: bytes
    labels: list[str]
    #: The first events after `after`, or none yet; up to `last` they are yielded.
    entries: list[Entry]
    after: int
    last: int


async def _opened(store: Store, replica: Replica) -> _Opening:
    """Return the beginning of an export; look again where a snapshot came in between."""
    for _ in range(TRIES - 1):
        with contextlib.suppress(Conflict):
            return await _look(store, replica)
    return await _look(store, replica)


async def _look(store: Store, replica: Replica) -> _Opening:
    await replica.catch_up()
    # Head, labels and counters of one moment; the log goes on while it is exported.
    meta = await store.meta(replica.key)
    last = meta.seq
    labels = [each.name for each in parse_labels(meta.labels)]
    _, _, entries = await store.read(replica.address, 0)
    snapshot = None
    if not entries or entries[0].seq > 1:
        stored = await load_snapshots(store, replica.address)
        # Not in the threads that build wide windows: a small model would wait for them.
        wide = isinstance(replica.fold.learner, WindowLearner)
        snapshot = await asyncio.to_thread(_oldest, meta, stored, wide=wide)
    begin, after = None, 0
    if snapshot is not None:
        if snapshot.seq > last:
            raise Conflict("the log was trimmed while it was exported: try again")
        after = snapshot.seq
        # What is older than it has to be may be trimmed while it is read.
        oldest = max(0, min(after, last - meta.spec.log_keep - 1))
        _, _, entries = await store.read(replica.address, oldest)
        if entries and entries[0].seq <= after:
            # What follows it can be hashed; what came before it is gone.
            first, *entries = entries
            if first.seq < after:
                after, begin = first.seq, Head(first.seq, first.chain)
    if entries and entries[0].seq != after + 1:
        raise Conflict("the log was trimmed while it was exported: try again")
    # The state of a wide window takes a tenth of a second.
    header = await asyncio.to_thread(_header, meta, labels, snapshot, begin)
    return _Opening(header, labels, entries, after, last)


def _oldest(meta: Meta, stored: Sequence[Snapshot], *, wide: bool) -> Snapshot | None:
    """Return the oldest state, but not another version's: that lies before one begun anew.

    Of a `wide` one, which takes a quarter of a minute to build, the version is not checked.
    """
    if len(stored) < 2:
        return stored[0] if stored else None
    newest, older = stored
    if not wide and state_digest(*older.parts) == older.digest:
        try:
            fold = Fold(meta.spec, meta.origin)
            fold.restore(b"".join(older.parts), older.seq, older.chain)
        except CodecError:
            return newest
    return older


def _header(meta: Meta, labels: list[str], snapshot: Snapshot | None, begin: Head | None) -> bytes:
    kept = None
    if snapshot is not None:
        if state_digest(*snapshot.parts) != snapshot.digest:
            raise Conflict("the snapshot was replaced while it was exported: try again")
        state = base64.b64encode(b"".join(snapshot.parts)).decode()
        kept = SnapshotLine(snapshot.seq, snapshot.chain, state)
    head = Head(meta.seq, meta.chain)
    told = meta.spec.to_dict(), meta.origin, labels, meta.counters
    header = Header(FORMAT, *told, head, kept, begin)
    return msgspec.json.encode(header) + b"\n"


# -- import -----------------------------------------------------------------------------------
async def import_model(
    store: Store, key: str, name: str, chunks: AsyncIterator[bytes], most: int
) -> None:
    """Create the model `key` from an export; it appears whole, or not at all.

    Raises Conflict where its tenant would have more than `most` models.
    """
    lines = _lines(chunks)
    # A large header takes tenths of a second, a window of neighbours seconds: few at once.
    loop = asyncio.get_running_loop()
    first = await anext(lines, b"")
    header, fold, spec = await loop.run_in_executor(BUILDERS, _start, first, name)
    token = secrets.token_hex(8)
    fields = initial_fields(fold) | {IMPORTING: token} | _counters(header)
    if not await store.create(key, spec, fields, most):
        raise Conflict(f"there is a model {name!r} already")
    try:
        turns = Turns()
        async for entries in _batches(_entries(lines, fold, header)):
            await _follow(turns, fold, entries)
            await store.import_entries(key, token, entries)
        _check_end(header, fold)
        if fold.labels != header.labels:
            raise Invalid.of("labels", "the labels that the events lead to", header.labels)
        check_together(fold.contest.learners, "events")
        whole = await asyncio.to_thread(sound_snapshot, fold)
        # Not the original's uid: workers would take this for the model that they had before.
        fields = _changed_fields(fold) | {"origin": header.uid}
        await finish_import(store, key, token, secrets.token_hex(8), fields, whole)
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


def _start(first: bytes, name: str) -> tuple[Header, Fold, ModelSpec]:
    header = parse_header(first)
    try:
        spec = ModelSpec.from_json(msgspec.json.encode(_few_unknown(header.spec) | {"name": name}))
    except ValidationError as error:
        raise of_pydantic(error.errors(include_url=False)).under("spec") from None
    # That a learner refuses so many shows in the labels that the events lead to.
    check_size(make_encoder(spec).size, len(header.labels))
    fold = Fold(spec, header.uid)
    if header.snapshot is not None:
        try:
            blob = base64.b64decode(header.snapshot.state, validate=True)
            fold.restore(blob, header.snapshot.seq, header.snapshot.chain)
        except (CodecError, ValueError) as error:
            raise Invalid.of("snapshot", "the state of an export", str(error)) from None
    return header, fold, spec


def _few_unknown(spec: dict[str, Any]) -> dict[str, Any]:
    """Return it with at most one of the names that no spec has: each costs a complaint."""
    unknown = spec.keys() - ModelSpec.model_fields.keys()
    one = min(unknown, default=None)
    return {name: value for name, value in spec.items() if name == one or name not in unknown}


def _check_end(header: Header, fold: Fold) -> None:
    """Raise Invalid unless the events are all of the export's: a file may have been cut off."""
    if (fold.seq, fold.chain) != (header.head.seq, header.head.chain):
        what = f"those up to event {header.head.seq}, as the first line says"
        raise Invalid.of("events", what, f"those up to event {fold.seq}")


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


async def _entries(lines: AsyncIterator[bytes], fold: Fold, header: Header) -> AsyncIterator[Entry]:
    """Yield what the lines say, each of which has to follow the one before.

    They may begin before the state that the fold has, and then have to lead to its chain.
    """
    known, size = Head(fold.seq, fold.chain), fold.encoder.size
    seq, chain = msgspec.structs.astuple(header.begin or known)
    end_s = time.perf_counter() + TURN_S
    async for text in lines:
        seq, where = seq + 1, f"event {seq + 1}"
        try:
            entry = entry_of(text, header.labels, size)
            chain = chain_after(chain, entry.body)
            off = seq == known.seq and chain != known.chain
            if off or (entry.seq, entry.chain) != (seq, chain):
                raise LogBroken("its number or its chain hash is another")
        except msgspec.ValidationError as error:
            raise of_msgspec(str(error), b"").under(where) from None
        except (LogBroken, ValueError, RecursionError) as error:
            raise _not_next(where, error) from None
        yield entry
        if time.perf_counter() > end_s:
            # Many lines may have come at once, and nothing is awaited for them.
            await asyncio.sleep(0)
            end_s = time.perf_counter() + TURN_S
    if seq < known.seq:
        raise Invalid.of("events", f"those up to event {known.seq}", f"those up to event {seq}")


async def _batches(entries: AsyncIterator[Entry]) -> AsyncIterator[list[Entry]]:
    """Yield as many at a time as one script call appends."""
    batch: list[Entry] = []
    async for entry in entries:
        batch.append(entry)
        if len(batch) == IMPORT_ENTRIES:
            yield batch
            batch = []
    yield batch


async def _follow(turns: Turns, fold: Fold, entries: Sequence[Entry]) -> None:
    try:
        await turns.follow(fold, entries)
    except (LogBroken, ValueError) as error:
        raise _not_next(f"event {fold.seq + 1}", error) from None


def _not_next(where: str, error: Exception) -> Invalid:
    return Invalid.of(where, "the next event of the export", str(error))
