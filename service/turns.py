"""Who has a turn: folding beside a worker's other work, and calls that take long."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from service.events import Entry
from service.fold import Fold

#: After deciding or folding for longer than this, others have their turn first. A linear learner
#: does thousands of events in it, a wide window of neighbours a few.
TURN_S = 0.01
#: Events that are folded at once at most: some may cost much more than those before.
MOST_AT_ONCE = 64
#: Models that are looked at together, where each takes a few round trips: 100 of a Redis that is
#: 20 ms away take 6 s one by one. Each takes a connection.
AT_ONCE = 8
#: Least time that either is assumed to take, on a clock that may stand still meanwhile.
LEAST_S = 1e-6

Item = TypeVar("Item")
Result = TypeVar("Result")


class Turns:
    """Folds entries, as many at a time as take a turn; what one costs is learned on the way."""

    def __init__(self) -> None:
        #: What one event is assumed to cost; the first one is folded alone.
        self.event_s = TURN_S

    async def follow(self, fold: Fold, entries: Sequence[Entry]) -> None:
        """Apply what the fold does not have yet; another task may take it further in between.

        Raises whatever `Fold.follow_many` does.
        """
        at, now_s = 0, time.perf_counter()
        end_s = now_s + TURN_S
        while at < len(entries):
            step = min(MOST_AT_ONCE, max(1, int((end_s - now_s) / self.event_s)))
            some = [entry for entry in entries[at : at + step] if entry.seq > fold.seq]
            fold.follow_many(some)
            at, begin_s, now_s = at + step, now_s, time.perf_counter()
            if some:
                # Events that another task has folded tell nothing about what one costs.
                self.event_s = max(now_s - begin_s, LEAST_S) / len(some)
            if now_s > end_s:
                # A request takes several turns; one event may have taken as long as many.
                for _ in range(1 + int((now_s - end_s) / TURN_S)):
                    await asyncio.sleep(0)
                now_s = time.perf_counter()
                end_s = now_s + TURN_S


class OneAtATime:
    """Lets one in at a time; of each tenant's calls, only one competes with the others'."""

    def __init__(self) -> None:
        self._all = asyncio.Lock()
        self._tenants: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @asynccontextmanager
    async def turn(self, tenant: str) -> AsyncIterator[None]:
        """Wait for one's turn, and have it."""
        async with self._tenants[tenant], self._all:
            yield


async def each_of(
    items: Sequence[Item], action: Callable[[Item], Awaitable[Result]]
) -> list[Result]:
    """Return what an action makes of each item, in their order; `AT_ONCE` are under way."""
    found: list[Result] = []
    for start in range(0, len(items), AT_ONCE):
        found += await asyncio.gather(*map(action, items[start : start + AT_ONCE]))
    return found
