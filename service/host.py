"""The models that one worker serves, and what it does for them in the background."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from service.errors import NotFound, ServiceError
from service.fold import Fold
from service.ids import SECRET_BYTES
from service.replica import Replica
from service.settings import Settings
from service.spec import ModelSpec
from service.store import EXPIRE_BATCH, FORMAT, Address, Meta, ModelGone, Store

Result = TypeVar("Result")
log = logging.getLogger("misclick.host")

#: A replica used within this time is kept fresh in the background; an older one catches up
#: when it is used again.
ACTIVE_S = 10.0
#: How long the list of models is good enough for the expiry sweep.
MODELS_S = 2.0
#: Pause after a background task failed; Redis is probably down.
FAILED_S = 0.5
#: How long a background task gets to notice that it is cancelled.
CANCEL_S = 0.1
#: How often snapshots are considered.
SNAPSHOT_CHECK_S = 1.0


class Host:
    """Holds the replicas of one worker and keeps them fresh, swept and snapshotted."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self._secret: bytes | None = None
        self._replicas: dict[str, Replica] = {}
        self._loading: dict[str, asyncio.Lock] = {}
        self._addresses: dict[str, Address] = {}
        self._snapshot_at_s: dict[str, float] = {}
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def replicas(self) -> list[Replica]:
        """The models loaded now."""
        return list(self._replicas.values())

    # -- serving --------------------------------------------------------------------------
    async def use(self, key: str, action: Callable[[Replica], Awaitable[Result]]) -> Result:
        """Run `action` on a fresh replica of the model; once more if it was made anew."""
        replica = await self.replica(key)
        try:
            return await action(replica)
        except ModelGone:
            self.drop(key)
            return await action(await self.replica(key))

    async def replica(self, key: str) -> Replica:
        """Return this worker's replica of the model, loaded and fresh."""
        replica = self._replicas.get(key)
        now_s = time.monotonic()
        if replica is None:
            return await self._load(key)
        replica.used_at_s = now_s
        if now_s - replica.fresh_at_s > self.settings.stale_s:
            try:
                await replica.catch_up()
            except ModelGone:
                self.drop(key)
                return await self._load(key)
        return replica

    def drop(self, key: str) -> None:
        """Forget the replica; it is loaded again when it is asked for."""
        self._replicas.pop(key, None)
        self._addresses.pop(key, None)
        self._snapshot_at_s.pop(key, None)

    async def _load(self, key: str) -> Replica:
        lock = self._loading.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                replica = self._replicas.get(key)
                if replica is None:
                    meta = await self.store.meta(key)
                    replica = Replica(self.store, key, meta, await self._signing_secret())
                    await replica.recover()
                    self._make_room()
                    self._replicas[key] = replica
                    self._snapshot_at_s[key] = time.monotonic()
                return replica
        finally:
            if not lock.locked():
                self._loading.pop(key, None)

    async def _signing_secret(self) -> bytes:
        if self._secret is None:
            given = self.settings.secret
            if given is not None:
                self._secret = given.get_secret_value().encode()
            else:
                self._secret = await self.store.secret(secrets.token_bytes(SECRET_BYTES))
        return self._secret

    def _make_room(self) -> None:
        while len(self._replicas) >= self.settings.max_loaded_models:
            self.drop(min(self._replicas, key=lambda key: self._replicas[key].used_at_s))

    # -- models ---------------------------------------------------------------------------
    async def create(self, key: str, spec: ModelSpec, uid: str) -> tuple[Meta, bool]:
        """Create the model; return its meta data and whether it is new."""
        fold = Fold(spec, uid)
        there = await self.store.create(key, spec, initial_fields(fold) | {"uid": uid})
        return await self.store.meta(key), there is None

    # -- background -----------------------------------------------------------------------
    def start(self) -> None:
        """Start keeping the replicas fresh, swept and snapshotted."""
        jobs = (
            (self._refresh, self.settings.sync_interval_s),
            (self._sweep, self.settings.sweep_interval_s),
            (self._snapshot, SNAPSHOT_CHECK_S),
        )
        self._tasks = [asyncio.create_task(_forever(job, pause_s)) for job, pause_s in jobs]

    async def stop(self) -> None:
        """Stop the background work, and store what is not yet in a snapshot."""
        waiting = set(self._tasks)
        while waiting:
            for task in waiting:
                # More than once: a client that is just connecting may swallow it.
                task.cancel()
            _, waiting = await asyncio.wait(waiting, timeout=CANCEL_S)
        for replica in self.replicas:
            try:
                await replica.save_snapshot()
            except ServiceError as error:
                log.warning("no last snapshot", extra={"model": replica.key, "why": str(error)})

    async def _refresh(self) -> None:
        now_s = time.monotonic()
        active = [r for r in self.replicas if now_s - r.used_at_s < ACTIVE_S]
        if not active:
            return
        heads = await self.store.heads([replica.key for replica in active])
        for replica, head in zip(active, heads, strict=True):
            if head is None or head[0] != replica.address.uid:
                self.drop(replica.key)
            elif head[1:] == (replica.fold.seq, replica.fold.chain):
                replica.fresh_at_s = now_s
            else:
                # Behind, or ahead of this answer by a commit of its own, or on a lost log.
                await replica.catch_up()

    async def _sweep(self) -> None:
        keys = await self.store.list_keys()
        if not keys:
            return
        now_ms, deadlines = await self.store.first_deadlines(keys)
        for key, deadline in zip(keys, deadlines, strict=True):
            if deadline is not None and deadline < now_ms:
                await self._expire(key)

    async def _expire(self, key: str) -> None:
        try:
            if key not in self._addresses:
                meta = await self.store.meta(key)
                self._addresses[key] = Address.of(key, meta.uid, meta.spec)
            ended = EXPIRE_BATCH
            while ended == EXPIRE_BATCH:
                ended = await self.store.expire_due(self._addresses[key])
        except NotFound:
            self._addresses.pop(key, None)

    async def _snapshot(self) -> None:
        now_s = time.monotonic()
        for replica in self.replicas:
            behind = replica.fold.seq - replica.snapshot_seq
            waited_s = now_s - self._snapshot_at_s.get(replica.key, 0.0)
            if behind >= self.settings.snapshot_events or (
                behind > 0 and waited_s >= self.settings.snapshot_s
            ):
                self._snapshot_at_s[replica.key] = now_s
                try:
                    await replica.save_snapshot()
                except ModelGone:
                    self.drop(replica.key)


def initial_fields(fold: Fold) -> dict[str, str]:
    """Return the meta fields of a log that `fold` has read to its end."""
    return {
        "format": FORMAT,
        "seq": str(fold.seq),
        "chain": fold.chain,
        "labels": active_labels_text(fold),
    }


def active_labels_text(fold: Fold) -> str:
    """Return the labels with whether each is active, as the guard of label changes holds it."""
    active = fold.learner.active.tolist()
    return msgspec.json.encode(list(zip(fold.labels, active, strict=True))).decode()


async def _forever(job: Callable[[], Awaitable[None]], pause_s: float) -> None:
    while True:
        try:
            await job()
            await asyncio.sleep(pause_s)
        except ServiceError as error:
            log.warning("background work failed", extra={"why": str(error)})
            await asyncio.sleep(max(pause_s, FAILED_S))
        except Exception:
            # Nobody foresaw it, and without this work decisions would never expire again.
            log.exception("background work failed")
            await asyncio.sleep(max(pause_s, FAILED_S))
