"""One worker's fold of one model: it follows the log in Redis, and keeps snapshots of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor

from learners.neighbors import WindowLearner
from learners.states import State
from service.address import Address
from service.anew import begin_anew
from service.codec import CodecError, encode_parts, state_digest
from service.errors import LogBroken, Unavailable
from service.events import Entry
from service.fold import Fold, check_sound
from service.meta import Meta
from service.snapshots import Snapshot, load_snapshots, newest_snapshot_seq, store_snapshot
from service.store import Store
from service.turns import Turns

log = logging.getLogger("misclick.follower")

#: How often a fold is rebuilt before the model is given up for this request.
REBUILDS = 3
#: Building a wider window takes a fifth of a second and more: it grows with the square of the rows.
WIDE_ROWS = 5000
#: Threads in which wide windows, and imports, are built: not those for everything else, of which
#: there are few (6 on two cores). A worker that starts may have ten windows.
BUILDERS = ThreadPoolExecutor(2, "build")


class LogTrimmed(LogBroken):
    """The log no longer holds the events after the fold; a snapshot does."""


class OtherVersion(CodecError):
    """A stored state is intact, but of another version."""


class Unusable(Unavailable):
    """The log continues no snapshot, or leads to an invalid state: the model fails closed."""


class Follower:
    """A fold that follows its model's log, and begins anew where the log became another one.

    Parameters
    ----------
    store
        Where the log is.
    key
        The model's `tenant/name`.
    meta
        The model's meta data when it was loaded.
    """

    def __init__(self, store: Store, key: str, meta: Meta) -> None:
        self.key = key
        self.spec = meta.spec
        self.address = Address.of(key, meta.uid, meta.spec)
        self._origin = meta.origin
        self.fold = Fold(meta.spec, meta.origin)
        #: Times that events were found to be lost; how many of these are counted in Redis.
        self.rewinds = self._counted = 0
        self.snapshot_seq = 0
        self.fresh_at_s = 0.0
        self._store = store
        self._turns = Turns()
        self._catching_up = asyncio.Lock()
        #: When the last catching up that succeeded began.
        self._caught_up_s = 0.0
        self._failed_at_s = 0.0
        self._failure = ""

    # -- folding --------------------------------------------------------------------------
    async def catch_up(self) -> None:
        """Fold the log up to where its head is now; rewind if it does not continue the fold.

        Those who wait share one look at the log that begins after they came.
        """
        asked_s = time.monotonic()
        async with self._catching_up:
            if asked_s < self._failed_at_s:
                # It failed while this caller waited: each would wait as long once more.
                raise Unavailable(self._failure)
            if asked_s < self._caught_up_s:
                return
            began_s = time.monotonic()
            try:
                await self._continue()
            except Unavailable as error:
                self._failed_at_s, self._failure = time.monotonic(), str(error)
                raise
            self._caught_up_s, self.fresh_at_s = began_s, time.monotonic()
            await self._count_rewinds()

    async def _continue(self) -> None:
        held = self.fold.seq
        try:
            await self._fold_to_head(self.fold)
        except LogBroken as error:
            await self.recover()
            # A copy that slept while the log was trimmed past it has lost nothing.
            if not isinstance(error, LogTrimmed):
                self.rewinds += 1
                where = {"model": self.key, "held": held, "now": self.fold.seq}
                log.warning("Redis lost events: rewound", extra=where)

    async def _count_rewinds(self) -> None:
        """Count new rewinds in Redis: any worker may be asked for them, and some restart."""
        times = self.rewinds - self._counted
        if times:
            # If Redis refuses, it is asked again later: this copy is sound, and may be served.
            with contextlib.suppress(Unavailable):
                await self._store.count_rewinds(self.address, times)
                self._counted += times

    async def recover(self) -> None:
        """Rebuild the fold from the newest snapshot that lies on the log, or from its start.

        Where another version wrote the newest snapshot and the log does not go back to its start,
        learners begin anew and learn from what is there.
        """
        why = ""
        for _ in range(REBUILDS):
            stored = await load_snapshots(self._store, self.address)
            foreign: list[Snapshot] = []
            for snapshot in (*stored, None):
                fold = await asyncio.to_thread(Fold, self.spec, self._origin)
                try:
                    if snapshot is not None:
                        loop = asyncio.get_running_loop()
                        await loop.run_in_executor(_builder_of(fold), _restore, fold, snapshot)
                    await self._fold_to_head(fold)
                    if fold.seq > (snapshot.seq if snapshot else 0):
                        await asyncio.to_thread(_check_sound, fold.seq, fold.state())
                except CodecError as error:
                    # Damaged, or written by another version: the log may go back far enough.
                    why = f", of which one cannot be read ({error})"
                    if snapshot is not None and isinstance(error, OtherVersion):
                        foreign.append(snapshot)
                    continue
                except LogBroken:
                    # Redis may have lost this snapshot's tail, or another worker may have
                    # trimmed the log meanwhile: try the next older state, then all of them again.
                    continue
                self.fold = fold
                self.snapshot_seq = snapshot.seq if snapshot else 0
                self.fresh_at_s = time.monotonic()
                return
            if foreign and foreign[0] is stored[0] and await self._begin_anew(foreign[0]):
                return
        raise Unusable(f"the model's log continues none of its snapshots{why}: it is not served")

    async def _begin_anew(self, foreign: Snapshot) -> bool:
        """Learn from what the log still holds, and store that in place of what cannot be read.

        False where another worker was first: what counts is then in its snapshot.
        """
        meta, (rates, _) = await self._store.meta(self.key), await self._store.rates(self.address)
        fold = await asyncio.to_thread(begin_anew, meta, rates, foreign.seq)
        seq, chain, entries = await self._store.read(self.address, 0)
        # The first event is skipped: only the one before it could prove that it is the right one.
        fold.begin_after(*((entries[0].seq, entries[0].chain) if entries else (seq, chain)))
        began = fold.seq
        try:
            await self._fold_to_head(fold)
            snapshot = await self._snapshot_of(fold)
            if not await store_snapshot(self._store, self.address, snapshot, foreign.digest):
                return False
        except LogBroken:
            return False
        self.fold, self.snapshot_seq = fold, snapshot.seq
        self.fresh_at_s = time.monotonic()
        where = {"model": self.key, "from": began + 1, "to": snapshot.seq}
        log.warning(
            "the model's state is of another version: learned anew from its log", extra=where
        )
        return True

    async def _fold_to_head(self, fold: Fold) -> None:
        while True:
            # While Redis answers, a commit of this worker may take the fold further on.
            asked_seq, asked_chain = fold.seq, fold.chain
            seq, chain, entries = await self._store.read(self.address, asked_seq)
            if not entries:
                if (seq, chain) != (asked_seq, asked_chain):
                    raise LogBroken(f"the log ends at event {seq}, the fold at {asked_seq}")
                return
            if entries[0].seq > asked_seq + 1:
                raise LogTrimmed(f"the log begins at event {entries[0].seq}")
            await self._follow(fold, entries)
            if fold.seq >= seq:
                # There may be more by now; if events come faster than round trips, there always is.
                return

    async def _follow(self, fold: Fold, entries: Sequence[Entry]) -> None:
        """Apply what the fold does not have yet; another task may take it further in between."""
        try:
            await self._turns.follow(fold, entries)
        except LogBroken:
            raise
        except Exception as error:
            # An unforeseen error. The event may be half applied, and each try would fail again.
            log.exception("an event cannot be folded", extra={"seq": fold.seq + 1})
            why = f"event {fold.seq + 1} cannot be folded: {type(error).__name__} (see the log)"
            raise Unusable(f"the model is not served: {why}") from error

    # -- snapshots ------------------------------------------------------------------------
    async def save_snapshot(self) -> None:
        """Store the fold as it is now, unless a newer snapshot is there."""
        fold = self.fold
        self.snapshot_seq = await newest_snapshot_seq(self._store, self.key)
        if fold.seq <= self.snapshot_seq:
            return
        snapshot = await self._snapshot_of(fold)
        try:
            saved = await store_snapshot(self._store, self.address, snapshot)
        except LogBroken:
            await self.catch_up()
            return
        if saved:
            self.snapshot_seq = snapshot.seq

    async def _snapshot_of(self, fold: Fold) -> Snapshot:
        seq, chain, state = fold.seq, fold.chain, fold.state()
        await asyncio.to_thread(_check_sound, seq, state)
        return await asyncio.to_thread(_snapshot, seq, chain, state)


def _check_sound(seq: int, state: State) -> None:
    try:
        check_sound(state)
    except ValueError as error:
        raise Unusable(f"the model is not served: after event {seq}, {error}") from error


def _snapshot(seq: int, chain: str, state: State) -> Snapshot:
    parts = encode_parts(state)
    return Snapshot(seq, chain, state_digest(*parts), parts)


def _builder_of(fold: Fold) -> Executor | None:
    """Return the threads in which to restore this fold; None for those of everything else."""
    learner = fold.learner
    wide = isinstance(learner, WindowLearner) and learner.window > WIDE_ROWS
    return BUILDERS if wide else None


def _restore(fold: Fold, snapshot: Snapshot) -> None:
    if state_digest(*snapshot.parts) != snapshot.digest:
        raise CodecError("the snapshot is damaged")
    try:
        fold.restore(b"".join(snapshot.parts), snapshot.seq, snapshot.chain)
    except CodecError as error:
        raise OtherVersion(str(error)) from error
