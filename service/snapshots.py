"""Snapshots in Redis, in parts that are named by their hash: what is there is not written again.

The parts come first; then one script checks that they are there, puts the snapshot in force and
removes what neither it nor the one before names. So every stored snapshot can be loaded, whoever is
killed, and parts that none came to name go with the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from hashlib import sha256
from typing import NamedTuple, TypeVar

from service import scripts
from service.address import Address, part_key
from service.codec import encode_parts, state_digest
from service.errors import Invalid, LogBroken
from service.fold import Fold, check_sound
from service.store import IMPORT_LEASE_MS, IMPORTING, Store

#: Parts of a state that one call stores or reads, 256 KiB at most: it has to arrive in time where
#: the line is thin.
CALL_PARTS = 4
_NAME_BYTES = 32

Item = TypeVar("Item")


class Snapshot(NamedTuple):
    """A stored state: joined, `parts` are its canonical bytes, and `digest` is theirs."""

    seq: int
    chain: str
    digest: str
    parts: list[bytes]


async def load_snapshots(store: Store, address: Address) -> list[Snapshot]:
    """Return the stored snapshots, newest first; one that lacks parts has another digest.

    One after the other: a worker that starts with many models would ask for all states at once, and
    none would arrive in time.
    """
    async with store.loading:
        return [each async for each in _load_each(store, address)]


async def _load_each(store: Store, address: Address) -> AsyncIterator[Snapshot]:
    for name in ("snap", "snap1"):
        raw = await store.guard(store.client.hgetall(address.part(name)))
        if raw:
            parts = await _read_parts(store, address, raw[b"parts"])
            told = (int(raw[b"seq"]), raw[b"chain"].decode(), raw[b"digest"].decode())
            yield Snapshot(*told, parts)


async def newest_snapshot_seq(store: Store, key: str) -> int:
    """Return the seq of the newest snapshot, 0 without one."""
    return int(await store.guard(store.client.hget(part_key(key, "snap"), "seq")) or 0)


async def store_snapshot(
    store: Store, address: Address, snapshot: Snapshot, replaced: str = ""
) -> bool:
    """Store a snapshot; LogBroken if it is of another log.

    False if a newer one is there (or, if the digest of a snapshot to be `replaced` is given, if
    that is no longer the newest), or if one that came in between removed parts of this one.
    """
    names = await put_parts(store, address.key, ("uid", address.uid), snapshot.parts)
    keys = [address.part(name) for name in ("meta", "snap", "snap1", "log", "parts")]
    argv = [address.uid, *snapshot[:3], names, address.log_keep, replaced]
    reply = await store.run(scripts.SNAP, keys, argv)
    if reply[0] == b"foreign":
        raise LogBroken(f"the log at event {snapshot.seq} is not the one that was folded")
    return bool(reply[0] == b"ok")


async def finish_import(
    store: Store, key: str, token: str, uid: str, fields: dict[str, str], snapshot: Snapshot
) -> None:
    """Make an imported model visible, with the state that its events lead to."""
    names = await put_parts(store, key, (IMPORTING, token), snapshot.parts)
    keys = [part_key(key, name) for name in ("meta", "log", "parts", "snap")]
    flat = [text for pair in fields.items() for text in pair]
    await store.run(scripts.FINISH, keys, [token, uid, *snapshot[:3], names, *flat])


def sound_snapshot(fold: Fold) -> Snapshot:
    """Return the state that a log leads to; Invalid if nobody could load it."""
    state = fold.state()
    try:
        check_sound(state)
    except ValueError as error:
        raise Invalid.of("events", "events that lead to a state of numbers", str(error)) from None
    parts = encode_parts(state)
    return Snapshot(fold.seq, fold.chain, state_digest(*parts), parts)


async def put_parts(
    store: Store, key: str, guard: tuple[str, str], parts: Sequence[bytes]
) -> bytes:
    """Store those parts that are not there yet, and return the names of all.

    `guard` is a field of the meta data and what it must say. The next snapshot has to name the
    parts: another one that comes first removes them again.
    """
    names = await asyncio.to_thread(lambda: [sha256(part).digest() for part in parts])
    there = set(await store.guard(store.client.hkeys(part_key(key, "parts"))))
    keys = [part_key(key, "meta"), part_key(key, "parts")]
    named = dict(zip(names, parts, strict=True))
    lease_ms = IMPORT_LEASE_MS if guard[0] == IMPORTING else 0
    lacking = [pair for pair in named.items() if pair[0] not in there]
    for some in _batches(lacking):
        flat = [value for pair in some for value in pair]
        await store.run(scripts.PUT_PARTS, keys, [*guard, lease_ms, *flat])
    return b"".join(names)


async def _read_parts(store: Store, address: Address, names: bytes) -> list[bytes]:
    """Return the parts with these names; what is lacking is left out."""
    each = [names[at : at + _NAME_BYTES] for at in range(0, len(names), _NAME_BYTES)]
    parts: list[bytes | None] = []
    for some in _batches(each):
        parts += await store.guard(store.client.hmget(address.part("parts"), some))
    return [part for part in parts if part is not None]


def _batches(items: Sequence[Item]) -> list[Sequence[Item]]:
    return [items[start : start + CALL_PARTS] for start in range(0, len(items), CALL_PARTS)]
