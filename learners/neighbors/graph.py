"""The neighbour graph of a moving window, exact after every insert and eviction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from learners.errors import InputError, ParameterError, expected
from learners.neighbors.lists import NeighborLists, Revision
from learners.neighbors.metrics import Proposals, Rows, Slots
from learners.neighbors.search import Found, Lines, Wanted, find, queries_per_pass
from learners.neighbors.window import MOST_LABELS, Window, check_rows
from learners.validation import FloatArray, check_codes, check_count, is_integer

#: Arrivals and departures make the length of a list a random walk, whose spread goes with the
#: square root of the length. With a surplus of this many roots of k about one insert in a
#: hundred finds a list that ran dry; longer lists cost more to keep than that saves.
_SURPLUS_IN_ROOTS = 3


def list_width(k: int) -> int:
    """Return the length up to which lists are kept so that they seldom fall below k.

    Examples
    --------
    >>> list_width(10), list_width(50)
    (20, 72)
    """
    return k + math.ceil(_SURPLUS_IN_ROOTS * math.sqrt(k))


#: Below every proposal, and finite.
_FAR_BELOW = np.float32(-3e38)
#: Most places in all lists of one graph: 150 MB. Where all examples are equal a list that ran dry
#: looks at each of them, and an insertion takes .2 s and a peak of 800 MB (with four times as many
#: places up to 4 s and 4.5 GB).
MAX_PLACES = 12_500_000


def check_places(name: str, value: int, capacity: int, k: int, n_pools: int = 1) -> None:
    """Raise ParameterError where lists of k, one for each example and pool, have too many places.

    The message names what the caller was given, `value` of `name`, which need not be the graph's k.

    Examples
    --------
    >>> check_places("window", 10**6, 10**6, 50)
    Traceback (most recent call last):
        ...
    learners.errors.ParameterError: window: expected neighbour lists of at most 12,500,000 places \
in all, here 72,000,000, got 1000000
    """
    if k > MAX_PLACES:  # also what is too large for a float
        raise ParameterError(expected(name, f"an integer of at most {MAX_PLACES:,}", value))
    places = capacity * list_width(k) * n_pools
    if places > MAX_PLACES:
        what = f"neighbour lists of at most {MAX_PLACES:,} places in all, here {places:,}"
        raise ParameterError(expected(name, what, value))


class Observer(Protocol):
    """Something counted over the graph that follows its changes."""

    def forget(self, slots: Slots) -> None:
        """Take back what these slots' lists and labels added; they are about to change."""

    def count(self, slots: Slots) -> None:
        """Add what these slots' lists and labels say now."""


class _Change(NamedTuple):
    """An insertion under way."""

    #: Where the new examples lie.
    new: Slots
    #: What it does to the lists, by pool.
    plans: list[Revision]
    #: Slots whose first k change.
    seen_once: Slots


class NeighborGraph:
    """For each example in a window its k nearest others, nearest first, ties by age.

    The lists equal a search from scratch after every change, to the last bit and on every CPU:
    BLAS proposes, and float64 arithmetic in a fixed order decides. Inserting one example into
    a window of n costs one pass over the window, plus a pass for each list that ran dry (one
    in ten inserts or so); a batch shares the pass. Many *equal* examples are the slow case:
    they are in each other's lists, and each change then touches all of those.

    Parameters
    ----------
    window
        An empty window, changed from now on only through the graph.
    k
        Neighbours per example, at least 1. With fewer others in the window, all of them.
    n_classes
        0 (the default) for one list per example over the whole window; otherwise one list per
        example and class, over the examples of that class.

    Raises
    ------
    ParameterError
        If a parameter is not as said, or the lists would have more than `MAX_PLACES` places.

    Examples
    --------
    >>> graph = NeighborGraph(Window(3, n_features=1), k=1)
    >>> for value in (0.0, 1.0, 5.0, 4.0):
    ...     slots = graph.insert(np.array([[value]], np.float32), np.array([0]))
    >>> slots.tolist(), graph.neighbors(slots).tolist()
    ([0], [[2]])
    """

    def __init__(self, window: Window, k: int, n_classes: int = 0) -> None:
        if len(window):
            raise ParameterError(expected("window", "an empty one", f"{len(window)} examples"))
        self.window = window
        self.k = check_count("k", k)
        n_pools = max(1, check_count("n_classes", n_classes, 0))
        check_places("k", self.k, window.capacity, self.k, n_pools)
        self._by_class = n_classes > 0
        #: Most examples that come in one change.
        self._step = min(window.capacity, queries_per_pass(window.capacity))
        self._observers: list[Observer] = []
        self._pools = [self._new_pool() for _ in range(n_pools)]

    def __len__(self) -> int:
        return len(self.window)

    def observe(self, observers: Sequence[Observer]) -> None:
        """Let `observers` follow every change from now on.

        Raises
        ------
        InputError
            If the window is not empty any more: they would not have counted what is in it.
        """
        if len(self.window):
            what = "to come while the window is empty"
            raise InputError(expected("observers", what, f"{len(self.window)} examples"))
        self._observers.extend(observers)

    # -- reading --------------------------------------------------------------------------
    def neighbors(self, slots: Slots, k: int | None = None, pool: int = 0) -> Slots:
        """Return the first k (default: all k, which is the most) neighbours of each slot, (m, k).

        A place without a neighbour holds ``window.capacity``. `pool` is the class, in a graph
        by class.
        """
        return self._pools[pool].slots.take(slots, axis=0)[:, : self.k if k is None else k]

    def keys(self, slots: Slots, pool: int = 0) -> FloatArray:
        """Return the keys of all `neighbors`, (m, k); infinite in a place without a neighbour."""
        return self._pools[pool].keys.take(slots, axis=0)[:, : self.k]

    # -- changing -------------------------------------------------------------------------
    def insert(self, rows: Rows, labels: NDArray[np.integer]) -> Slots:
        """Append examples, in order, and evict as many of the oldest as that takes.

        Parameters
        ----------
        rows
            Shape (m, d), as `to_rows` makes them; m may be any number; if it exceeds the capacity,
            only the last stay.
        labels
            Shape (m,): codes, below `n_classes` in a graph by class.

        Returns
        -------
        Slots
            Where the inserted examples lie, without those that were pushed out again.

        Raises
        ------
        InputError
            If a row is not `sound`, or `labels` are not as said; then nothing is changed.
        """
        check_rows(rows, self.window.n_features)
        n_labels = len(self._pools) if self._by_class else MOST_LABELS
        check_codes("labels", labels, n_labels, size=len(rows))
        return self.insert_sound(rows, labels)

    def insert_sound(
        self, rows: Rows, labels: NDArray[np.integer], proposals: Proposals | None = None
    ) -> Slots:
        """Do what `insert` does, with rows that are known to be `sound`.

        `proposals` are the window's for these rows, where they are known; they are overwritten.
        """
        if len(rows) and not len(self.window):
            return self._fill(rows, labels)
        window = self.window
        if len(rows) <= self._step:
            return self._replace(window.surplus(len(rows)), rows, labels, proposals)
        for start in range(0, len(rows), self._step):
            some = slice(start, start + self._step)
            self._replace(window.surplus(len(rows[some])), rows[some], labels[some], None)
        return window.live()[-len(rows) :]

    def insert_and_find(
        self, rows: Rows, labels: NDArray[np.integer], proposals: Proposals, wanted: Wanted
    ) -> Found:
        """Insert the first of two `sound` rows, then find who is near the second.

        Both take one pass over a full window, the one that made the window's `proposals` for both
        rows, which are overwritten; where the window grows, two. Not in a graph by class.
        """
        window = self.window
        if len(window) < window.capacity:
            self.insert_sound(rows[:1], labels, proposals=proposals.of(0))
            return find(window, rows[1], wanted.most, ties=wanted.ties)
        low, margin, sizes, _ = proposals
        change = self._begin(1, rows[:1], labels, low[:1], sizes[:1])
        # The example just inserted has no proposal: this makes its key be computed.
        low[1, change.new] = _FAR_BELOW
        self._add_members(change.new)
        (pool,) = self._pools
        known = Proposals(low, margin, sizes, unsure=1)
        own, found = pool.near_and(change.new, rows, known, wanted)
        self._end(change, [own])
        return found

    def evict(self, count: int) -> None:
        """Take the `count` oldest examples out of the window (or all, if there are fewer).

        Raises
        ------
        InputError
            If `count` is no integer of at least 0.
        """
        if not is_integer(count) or count < 0:
            raise InputError(expected("count", "an integer of at least 0", count))
        count = min(count, len(self.window))
        if count:
            self._replace(count, self.window.rows[:0], np.zeros(0, dtype=np.int32), None)

    # -- inside ---------------------------------------------------------------------------
    def _new_pool(self) -> NeighborLists:
        return NeighborLists(self.window, self.k, list_width(self.k))

    def _fill(self, rows: Rows, labels: NDArray[np.integer]) -> Slots:
        """Fill the empty window: each list is searched once, over all that came."""
        window = self.window
        skipped = max(0, len(rows) - window.capacity)
        window.first = window.next = window.next + skipped
        new = window.append(rows[skipped:], labels[skipped:])
        self._add_members(new)
        for pool in self._pools:
            pool.search(new)
        for observer in self._observers:
            observer.count(new)
        return new

    def _replace(
        self, n_gone: int, rows: Rows, labels: NDArray[np.integer], proposals: Proposals | None
    ) -> Slots:
        """Evict the oldest and append new ones, in one change as observers see it."""
        if proposals is None:
            proposals = self.window.propose(rows)
        change = self._begin(n_gone, rows, labels, proposals.low, proposals.sizes)
        self._end(change, self._find(change.new, rows, proposals))
        return change.new

    def _begin(
        self, n_gone: int, rows: Rows, labels: NDArray[np.integer], low: Rows, sizes: FloatArray
    ) -> _Change:
        """Change the window; of the lists, the new examples' are not found yet."""
        window = self.window
        gone = window.slots_between(window.first, window.first + n_gone)
        plans = [self._plan(number, gone, low, rows, labels) for number in range(len(self._pools))]
        seen = [plan.owners[plan.in_front] for _, plan in plans]
        seen_once = seen[0] if len(seen) == 1 else np.unique(np.concatenate(seen))
        before = np.concatenate((seen_once, gone))
        for observer in self._observers:
            observer.forget(before)
        window.forget(n_gone)
        new = window.append(rows, labels, sizes)
        for pool, (left, _) in zip(self._pools, plans, strict=True):
            pool.remove_members(left)
            if not len(new):
                # Otherwise the new examples lie in their slots, and get lists of their own.
                pool.discard(gone)
        return _Change(new, [plan for _, plan in plans], seen_once)

    def _end(self, change: _Change, found: Sequence[Lines]) -> None:
        """Put the lists in order, with what was found for the new examples, by pool."""
        for pool, plan, own in zip(self._pools, change.plans, found, strict=True):
            too_short = pool.revise(plan, change.new, own)
            if len(too_short):
                pool.search(too_short)
        after = np.concatenate((change.seen_once, change.new))
        for observer in self._observers:
            observer.count(after)

    def _plan(
        self, number: int, gone: Slots, low: Rows, rows: Rows, labels: NDArray[np.integer]
    ) -> tuple[Slots, Revision]:
        """Return which members one pool loses, and what that and the new rows do to its lists."""
        pool, window = self._pools[number], self.window
        left, came = gone, window.slots_between(window.next, window.next + len(rows))
        if self._by_class:
            left = gone[window.labels[gone] == number]
            mine = np.flatnonzero(labels == number)
            low, rows, came = low[mine], rows[mine], came[mine]
        return left, pool.plan(gone, left, low, rows, came)

    def _find(self, new: Slots, rows: Rows, proposals: Proposals) -> list[Lines]:
        """Return who is near the new examples, by pool, out of proposals made before they came."""
        window, low = self.window, proposals.low
        if window.extent > low.shape[1]:
            # Slots that were not there have no proposals; what lies in memory could be NaN.
            low = np.full((len(low), window.extent), np.inf, dtype=np.float32)
            low[:, : proposals.low.shape[1]] = proposals.low
            proposals = proposals._replace(low=low)
        if len(new) > 1:
            among = window.propose_among(new)
            low[:, new] = among.low
            proposals = proposals._replace(margin=np.maximum(proposals.margin, among.margin))
        self._add_members(new)
        if self._by_class:
            # Each pool rules out other slots.
            return [
                pool.near(new, rows, proposals._replace(low=low.copy())) for pool in self._pools
            ]
        return [self._pools[0].near(new, rows, proposals)]

    def _add_members(self, new: Slots) -> None:
        """Put new examples into the pools that they belong to."""
        for number, pool in enumerate(self._pools):
            mine = new[self.window.labels[new] == number] if self._by_class else new
            pool.add_members(mine)
