"""Requests that arrive together are committed together, and every one gets its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from service.commit import MOST_COMMITS, MOST_ITEMS, GroupCommit

#: A request that waits for so long is never answered.
FOREVER_S = 5.0


class Commits:
    """Commits that end when the test opens the gate; an item's answer is its double."""

    def __init__(self) -> None:
        self.gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.batches: list[list[int]] = []
        self.most = MOST_ITEMS
        self.group = GroupCommit(self._commit, lambda: self.most)

    async def _commit(self, items: Sequence[int]) -> list[int]:
        self.batches.append(list(items))
        await asyncio.shield(self.gate)
        if any(item < 0 for item in items):
            raise ValueError("below zero")
        return [2 * item for item in items]

    def submit(self, item: int) -> asyncio.Task[int]:
        """Submit one item in a task of its own."""
        return asyncio.create_task(self.group.submit(item))


async def a_moment() -> None:
    """Let everything that can go on go on."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_what_arrives_meanwhile_goes_together() -> None:
    """While as many commits as may be are under way, all that arrives makes the next one."""
    commits = Commits()
    first = []
    for item in range(MOST_COMMITS):
        first.append(commits.submit(item))
        await a_moment()
    later = [commits.submit(item) for item in range(10, 30)]
    await a_moment()
    assert commits.batches == [[item] for item in range(MOST_COMMITS)]
    commits.gate.set_result(None)
    async with asyncio.timeout(FOREVER_S):
        answers = await asyncio.gather(*first, *later)
    assert answers == [2 * item for item in (*range(MOST_COMMITS), *range(10, 30))]
    assert commits.batches[MOST_COMMITS:] == [list(range(10, 30))]


async def test_a_commit_is_bounded() -> None:
    """However much waits, and may go, one commit takes a bounded part of it, in order."""
    commits = Commits()
    commits.gate.set_result(None)
    commits.most = 3 * MOST_ITEMS
    count = 2 * MOST_ITEMS + 3
    async with asyncio.timeout(FOREVER_S):
        answers = await asyncio.gather(*(commits.submit(item) for item in range(count)))
    assert answers == [2 * item for item in range(count)]
    assert max(map(len, commits.batches)) == MOST_ITEMS
    assert [item for batch in commits.batches for item in batch] == list(range(count))


async def test_a_commit_takes_no_more_than_it_may() -> None:
    """Protects the others' turn: where items have become dear, a commit takes few of them."""
    commits = Commits()
    commits.gate.set_result(None)
    commits.most = 3
    async with asyncio.timeout(FOREVER_S):
        answers = await asyncio.gather(*(commits.submit(item) for item in range(10)))
    assert answers == [2 * item for item in range(10)]
    assert [len(batch) for batch in commits.batches] == [3, 3, 3, 1]


async def test_others_have_their_turn_between_commits() -> None:
    """Commits that await nothing, such as decisions that nobody records, block nobody for long."""
    turns: list[str] = []

    async def commit(items: Sequence[int]) -> Sequence[int]:
        turns.append("commit")
        return items

    async def others() -> None:
        for _ in range(20):
            turns.append("|")
            await asyncio.sleep(0)

    group = GroupCommit(commit, lambda: 1)
    async with asyncio.timeout(FOREVER_S):
        await asyncio.gather(*(group.submit(item) for item in range(20)), others())
    assert turns.count("commit") == 20
    assert max(run.count("commit") for run in " ".join(turns).split("|")) == MOST_COMMITS


async def test_an_error_is_everybodys() -> None:
    """What a commit raises is raised for its items and for who waits, and for no later one."""
    commits = Commits()
    failing = []
    for item in range(MOST_COMMITS):
        failing.append(commits.submit(-1 - item))
        await a_moment()
    failing += [commits.submit(item) for item in (1, 2, 3)]
    await a_moment()
    commits.gate.set_result(None)
    async with asyncio.timeout(FOREVER_S):
        results = await asyncio.gather(*failing, return_exceptions=True)
        assert [str(result) for result in results] == ["below zero"] * len(failing)
        assert await commits.submit(4) == 8
    assert len(commits.batches) == MOST_COMMITS + 1


async def test_a_client_that_goes_away_stops_nothing() -> None:
    """A cancelled request is committed all the same; the others get their answers."""
    commits = Commits()
    tasks = [commits.submit(item) for item in (1, 2, 3)]
    await a_moment()
    tasks[1].cancel()
    commits.gate.set_result(None)
    async with asyncio.timeout(FOREVER_S):
        with pytest.raises(asyncio.CancelledError):
            await tasks[1]
        assert [await tasks[0], await tasks[2]] == [2, 6]
    assert sorted(item for batch in commits.batches for item in batch) == [1, 2, 3]


async def test_nobody_is_forgotten_as_the_last_commits_end() -> None:
    """What is submitted in the very turn in which every commit ends is committed too."""
    commits = Commits()
    tasks = []
    for item in range(MOST_COMMITS):
        tasks.append(commits.submit(item))
        await a_moment()

    async def submit_as_they_end() -> int:
        # Wakes after the commits, which waited first, and before anything else.
        await asyncio.shield(commits.gate)
        return await commits.group.submit(50)

    last = asyncio.create_task(submit_as_they_end())
    await a_moment()
    commits.gate.set_result(None)
    async with asyncio.timeout(FOREVER_S):
        assert await last == 100
        assert await asyncio.gather(*tasks) == [2 * item for item in range(MOST_COMMITS)]
