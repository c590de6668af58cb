"""The models that one worker serves, and what it does for them in the background."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TypeAlias, TypeVar

from redis.exceptions import ConnectionError as Disconnected

from service.address import Address
from service.alarms import Alarms
from service.errors import Invalid, NotFound, ServiceError, Unavailable, Unreadable
from service.fold import Fold
from service.follower import Unusable
from service.ids import SECRET_BYTES
from service.labels import labels_of
from service.meta import FORMAT, Meta
from service.replica import Replica
from service.settings import Settings
from service.spec import ModelSpec
from service.store import EXPIRE_BATCH, ModelGone, Store

Result = TypeVar("Result")
#: What is done repeatedly, and the seconds in between.
Job: TypeAlias = tuple[Callable[[], Awaitable[None]], float]
log = logging.getLogger("misclick.host")

#: A replica used within this time is kept fresh in the background; an older one catches up
#: when it is used again.
ACTIVE_S = 10.0
#: Pause after a background task failed; Redis is probably down.
FAILED_S = 0.5
#: How often a failure that lasts is logged again.
TELL_AGAIN_S = 60.0
#: A model that could not be loaded is not tried again for this many times as long as that took, at
#: least and at most this long: reading a long log in vain would take the others' time.
RELOAD_TIMES, RELOAD_S = 4.0, (0.5, 3.0)
#: Of the calls that a worker answers at once, this share may wait for one model to be loaded: a
#: wide window takes a quarter of a minute, and the calls on other models need not wait with them.
WAITING_SHARE = 0.5
#: How long a background task gets to notice that it is cancelled.
CANCEL_S = 0.1
#: How often snapshots are considered, and alarms looked at.
SNAPSHOT_CHECK_S = 1.0
#: A model that makes room for others is stored first if this many events are in no snapshot:
#: folding them each time it is loaded until there is one takes about as long as storing it.
REFOLD_EVENTS = 50
#: How long a worker that ends takes for snapshots of all its models: what is in none is in the log,
#: and if the store hangs, each would wait in vain.
LAST_SNAPSHOTS_S = 5.0
#: How often a worker checks whether it still signs as the others do.
SECRET_CHECK_S = 1.0
#: How often the memory of dropped models is freed; after a model is made, it is at once.
FREE_S = 10.0
#: Gives back to the system what malloc keeps, within milliseconds; glibc only.
_MALLOC_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)


class Host:
    """Holds the replicas of one worker and keeps them fresh, swept and snapshotted."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self._replicas: dict[str, Replica] = {}
        self._loading: dict[str, asyncio.Lock] = {}
        self._waiting: Counter[str] = Counter()
        self._most_waiting = max(1, int(settings.max_requests * WAITING_SHARE))
        self._failed: dict[str, tuple[float, str]] = {}
        self._addresses: dict[str, Address] = {}
        self._alarms = Alarms()
        self._secret = secrets.token_bytes(SECRET_BYTES)
        self._tasks: list[asyncio.Task[None]] = []
        self._told_s: dict[tuple[str, str], float] = {}

    @property
    def replicas(self) -> list[Replica]:
        """The models loaded now."""
        return list(self._replicas.values())

    # -- serving --------------------------------------------------------------------------
    async def use(self, key: str, action: Callable[[Replica], Awaitable[Result]]) -> Result:
        """Run `action` on a fresh replica of the model; once more if the model was made anew."""
        replica = await self.replica(key)
        begin_s = time.monotonic()
        try:
            try:
                return await action(replica)
            except (Invalid, NotFound):
                # It may be right for the model that another worker has made under this name since.
                with contextlib.suppress(Unavailable):
                    await replica.catch_up()
                raise
        except ModelGone:
            self._let_go(replica)
            return await action(await self.replica(key))
        except Unusable as error:
            self._give_up(key, begin_s, error)
            raise

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
                self._let_go(replica)
                return await self._load(key)
            except Unusable as error:
                self._give_up(key, now_s, error)
                raise
        return replica

    def drop(self, key: str) -> None:
        """Forget the replica; it is loaded again when it is asked for."""
        self._replicas.pop(key, None)

    def _let_go(self, replica: Replica) -> None:
        """Forget a model that is not in Redis any more, and say so: nobody deleted it here."""
        if self._replicas.get(replica.key) is replica:
            what = "a model is gone: another worker deleted it, or Redis lost it"
            log.warning(what, extra={"model": replica.key, "seq": replica.fold.seq})
            self.drop(replica.key)

    async def _load(self, key: str) -> Replica:
        if self._waiting[key] >= self._most_waiting:
            raise Unavailable("the model is being loaded, and many wait for it: try again")
        lock = self._loading.setdefault(key, asyncio.Lock())
        self._waiting[key] += 1
        try:
            async with lock:
                return self._replicas.get(key) or await self._load_first(key)
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key], self._loading[key]

    async def _load_first(self, key: str) -> Replica:
        begin_s = time.monotonic()
        until_s, why = self._failed.get(key, (0.0, ""))
        if begin_s < until_s:
            raise Unavailable(why)
        try:
            try:
                replica = await self._recovered(key)
            except ModelGone:
                # Another worker has deleted it meanwhile, and perhaps made it anew.
                replica = await self._recovered(key)
            await self._free()
        except Unavailable as error:
            self._give_up(key, begin_s, error)
            raise
        except Invalid as error:
            # A learner, or an option of one, that only a newer version has.
            raise Unreadable(f"the model cannot be made by this version: {error}") from error
        await self._make_room()
        self._replicas[key] = replica
        return replica

    async def _recovered(self, key: str) -> Replica:
        meta = await self.store.meta(key)
        secret = await self._signing_secret()
        replica = await asyncio.to_thread(Replica, self.store, key, meta, secret)
        await replica.recover()
        return replica

    def _give_up(self, key: str, begin_s: float, error: Unavailable) -> None:
        """Drop the model, and remember for a while that it cannot be loaded."""
        self.drop(key)
        now_s = time.monotonic()
        pause_s = min(max(RELOAD_TIMES * (now_s - begin_s), RELOAD_S[0]), RELOAD_S[1])
        # Expired ones go: while Redis is away, every name that is asked for comes in here.
        self._failed = {name: told for name, told in self._failed.items() if now_s < told[0]}
        self._failed[key] = now_s + pause_s, str(error)

    async def _signing_secret(self) -> bytes:
        given = self.settings.secret
        if given is not None:
            return given.get_secret_value().encode()
        # Asked for repeatedly, each time offering the one in use: Redis may lose it (`everysec`,
        # FLUSHALL), and workers with different ones refuse each other's decisions.
        self._secret = await self.store.secret(self._secret)
        return self._secret

    async def _renew_secret(self) -> None:
        """Sign as all workers do, with what is stored now."""
        if self._replicas:
            secret = await self._signing_secret()
            for replica in self.replicas:
                replica.sign_with(secret)

    async def _make_room(self) -> None:
        while len(self._replicas) >= self.settings.max_loaded_models:
            oldest = min(self.replicas, key=lambda replica: replica.used_at_s)
            self.drop(oldest.key)
            if oldest.fold.seq - oldest.snapshot_seq >= REFOLD_EVENTS:
                await self.alone(oldest, oldest.save_snapshot)

    # -- models ---------------------------------------------------------------------------
    async def create(self, key: str, spec: ModelSpec, uid: str) -> tuple[Meta, bool]:
        """Create the model; return its meta data and whether it is new."""
        # The lists of a large window take a second to make, most of it without the GIL.
        fields = await asyncio.to_thread(lambda: initial_fields(Fold(spec, uid)))
        await self._free()
        new = await self.store.create(key, spec, fields | {"uid": uid}, self.settings.max_models)
        return await self.store.meta(key), new

    # -- background -----------------------------------------------------------------------
    def start(self, *others: Job) -> None:
        """Start keeping the replicas fresh, swept and snapshotted, and other jobs beside."""
        jobs = (
            *others,
            (self._refresh, self.settings.sync_interval_s),
            (self._sweep, self.settings.sweep_interval_s),
            (self._snapshot, SNAPSHOT_CHECK_S),
            (self._tell_alarms, SNAPSHOT_CHECK_S),
            (self._renew_secret, SECRET_CHECK_S),
            (self._free, FREE_S),
        )
        self._tasks = [asyncio.create_task(self._forever(job, pause_s)) for job, pause_s in jobs]

    async def stop(self) -> None:
        """Stop the background work, and store what is not yet in a snapshot."""
        await end_tasks(self._tasks)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_SNAPSHOTS_S):
                for replica in self.replicas:
                    await self._save_last(replica)

    async def _save_last(self, replica: Replica) -> None:
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
            if head == (replica.address.uid, replica.fold.seq, replica.fold.chain):
                replica.fresh_at_s = now_s
            else:
                # Behind, or ahead of this answer by a commit of its own, on a lost log, or gone.
                await self.alone(replica, replica.catch_up)

    async def _sweep(self) -> None:
        # A batch of each at a time: one with more than can be ended keeps no other waiting.
        while await self._end_due():
            pass

    async def _end_due(self) -> bool:
        """End a batch of each model's due decisions; say whether any model may have more."""
        keys = await self.store.list_keys()
        self._addresses = {key: self._addresses[key] for key in keys if key in self._addresses}
        if not keys:
            return False
        now_ms, deadlines = await self.store.first_deadlines(keys)
        more = False
        for key, deadline in zip(keys, deadlines, strict=True):
            if deadline is not None and deadline < now_ms:
                more |= await self._expire(key)
        return more

    async def _expire(self, key: str) -> bool:
        """End some decisions whose windows have closed; say whether there may be more."""
        with self._told(key):
            try:
                if key not in self._addresses:
                    meta = await self.store.meta(key)
                    self._addresses[key] = Address.of(key, meta.uid, meta.spec)
                return await self.store.expire_due(self._addresses[key]) == EXPIRE_BATCH
            except NotFound:
                # Deleted; made anew, it has another address.
                self._addresses.pop(key, None)
        return False

    async def _snapshot(self) -> None:
        now_s = time.monotonic()
        for replica in self.replicas:
            behind = replica.fold.seq - replica.snapshot_seq
            waited_s = now_s - replica.snapshot_at_s
            if behind >= self.settings.snapshot_events or (
                behind > 0 and waited_s >= self.settings.snapshot_s
            ):
                replica.snapshot_at_s = now_s
                await self.alone(replica, replica.save_snapshot)

    async def _tell_alarms(self) -> None:
        self._alarms.tell(self.replicas)

    async def _free(self) -> None:
        """Free the memory of models and folds that were let go: 2 to 7 ms with 30 models.

        A replica is part of a cycle, and so is a graph of neighbours; either may hold hundreds of
        megabytes. A worker looks for cycles by the number of objects (`worker.COLLECT_AFTER`),
        and so hardly ever. And malloc keeps what was freed, by thread: half a gigabyte after ten
        wide windows had been made and deleted.
        """
        gc.collect()
        if _MALLOC_TRIM is not None:
            _MALLOC_TRIM(0)

    async def alone(self, replica: Replica, work: Callable[[], Awaitable[None]]) -> None:
        """Do work on one copy; if it fails, the others still get theirs."""
        begin_s = time.monotonic()
        with self._told(replica.key):
            try:
                await work()
            except NotFound:
                self._let_go(replica)
            except Unusable as error:
                self._give_up(replica.key, begin_s, error)
                raise

    async def _forever(self, job: Callable[[], Awaitable[None]], pause_s: float) -> None:
        while True:
            with self._told():
                await job()
                await asyncio.sleep(pause_s)
                continue
            await asyncio.sleep(max(pause_s, FAILED_S))

    @contextlib.contextmanager
    def _told(self, model: str = "") -> Iterator[None]:
        """Turn an error into a line of the log."""
        try:
            yield
        except ServiceError as error:
            self._tell(error, model)
        except Exception:
            # Unforeseen; but without this work decisions would never expire again.
            log.exception("background work failed", extra={"model": model} if model else {})

    def _tell(self, error: ServiceError, model: str = "") -> None:
        """Say in the log that background work failed, once a minute while it does.

        That Redis cannot be reached is logged by `readiness`, once.
        """
        if isinstance(error.__cause__, Disconnected):
            return
        now_s = time.monotonic()
        self._told_s = {t: at_s for t, at_s in self._told_s.items() if now_s - at_s < TELL_AGAIN_S}
        told = model, str(error)
        if told not in self._told_s:
            self._told_s[told] = now_s
            about = {"model": model} if model else {}
            log.warning("background work failed", extra=about | {"why": str(error)})


async def end_tasks(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks until they have ended: one that is just connecting may swallow it."""
    waiting = set(tasks)
    while waiting:
        for task in waiting:
            task.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=CANCEL_S)


def initial_fields(fold: Fold) -> dict[str, str]:
    """Return the meta fields of a log that `fold` has read to its end."""
    return {
        "format": FORMAT,
        "seq": str(fold.seq),
        "chain": fold.chain,
        "labels": labels_of(fold),
    }
