"""Group commit: requests that arrive together go to Redis together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar, cast

Item = TypeVar("Item")
Answer = TypeVar("Answer")

#: Items of one call: Redis takes about a millisecond for them, and runs nothing else meanwhile.
MOST_ITEMS = 128
#: Commits under way at once.
MOST_COMMITS = 2


class GroupCommit(Generic[Item, Answer]):
    """Runs `commit` for everything that was submitted while earlier commits were under way.

    One call of a script costs the client some 100 microseconds whatever it carries, and one
    fsync serves all of it; so the busier the worker, the cheaper each item. Two commits may be
    under way: while Redis writes one to disk, this worker prepares the next.

    Parameters
    ----------
    commit
        Takes 1 to `MOST_ITEMS` items and returns one answer each, in order. What it raises is
        raised for each of the items, and for each that waits: a store that did not answer in
        time would make those wait twice as long.
    most
        Says how many items the next commit may take; as many as `MOST_ITEMS` if not given.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]],
        most: Callable[[], int] = lambda: MOST_ITEMS,
    ) -> None:
        self._commit = commit
        self._most = most
        self._waiting: deque[tuple[Item, asyncio.Future[Answer]]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, item: Item) -> Answer:
        """Return the answer to `item`."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        if len(self._tasks) < MOST_COMMITS:
            self._tasks.add(asyncio.create_task(self._run()))
        return await answer

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._commit_some()
                # Others have their turn: a commit may have taken long without awaiting anything.
                await asyncio.sleep(0)
        finally:
            # In the same turn in which nothing was found waiting: a callback of the task would
            # come a turn later, and what is submitted between the two would wait for ever.
            self._tasks.discard(cast(asyncio.Task[None], asyncio.current_task()))

    async def _commit_some(self) -> None:
        count = min(len(self._waiting), MOST_ITEMS, self._most())
        batch = [self._waiting.popleft() for _ in range(count)]
        try:
            answers = await self._commit([item for item, _ in batch])
        except BaseException as error:
            batch += self._waiting
            self._waiting.clear()
            for _, waiter in batch:
                if not waiter.done():
                    waiter.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for (_, waiter), answer in zip(batch, answers, strict=True):
            # A client that went away has cancelled its waiter; what it asked for still stands.
            if not waiter.done():
                waiter.set_result(answer)
