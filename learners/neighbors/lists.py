"""Sorted neighbour lists that know up to where they are complete.

For each owner the list holds every pool member whose (key, age) comes before the list's bound.
It is kept longer than needed: a member that goes leaves a gap at the end, one that comes nearer
than the bound is sorted in, and only a list that ran shorter than needed is searched anew.
With twice the needed length that is seldom.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from learners.neighbors.metrics import Proposals, Rows, Slots
from learners.neighbors.search import (
    Found,
    Lines,
    Wanted,
    above,
    as_line,
    nearest_each,
    nearest_lines,
    queries_per_pass,
)
from learners.neighbors.window import Window
from learners.validation import FloatArray


class Revision(NamedTuple):
    """What a step does to the lists of one pool, worked out but not yet done."""

    #: Owners whose lists change, ascending.
    owners: Slots
    #: Which of them change within the first k.
    in_front: NDArray[np.bool_]
    #: Their lists without the members that go, and with the new ones from the place of the bound
    #: on; not sorted yet.
    slots: Slots
    keys: FloatArray
    #: Up to where their lists were complete.
    bounds: FloatArray


class NeighborLists:
    """For every live slot of a window its nearest others out of one pool of slots.

    Parameters
    ----------
    window
        Where the rows lie. The lists never change it.
    need
        Length k that each list has at least, unless the pool is smaller.
    width
        Length up to which a list is kept, at least `need`.
    """

    def __init__(self, window: Window, need: int, width: int) -> None:
        self._window = window
        self._need = need
        self.width = width
        size = window.capacity
        #: Slots (capacity, width + 1), nearest first; `window.capacity` in an unused place. The
        #: last place says nothing.
        self.slots: Slots = np.full((size, width + 1), size, dtype=np.int32)
        #: Keys (capacity, width + 1), ascending; infinite in an unused place. The last one is the
        #: list's bound, and no member's: the list holds exactly the members before it.
        self.keys: FloatArray = np.full((size, width + 1), np.inf)
        # The bounds rounded up; a dead owner takes nobody.
        self._bounds_up: Rows = np.full(size, -np.inf, dtype=np.float32)
        # What is added to a proposal to keep slots that are not in the pool from being found.
        self._outside: Rows = np.full(size, np.inf, dtype=np.float32)
        # No member of a list is older than what lies in this slot. The oldest leave the window
        # first, so this says who may hold them.
        self._oldest: Slots = np.full(size, size, dtype=np.int32)
        self.members = 0

    # -- one step: plan, revise, and discard where nobody came ------------------------------
    def plan(self, gone: Slots, left: Slots, low: Rows, rows: Rows, members: Slots) -> Revision:
        """Work out what happens when some members go and others come.

        Parameters
        ----------
        gone
            The window's oldest examples, which go.
        left
            Those of `gone` that are members.
        low
            Lower bounds of the keys of the new rows to all slots, (q, n).
        rows
            The new members' rows, (q, d).
        members
            The slots that they will have, (q,), in the order of their coming.
        """
        extent = low.shape[1]
        held = self._among(self._oldest[:extent], gone)
        entered = low < self._bounds_up[:extent]
        touched = held
        touched |= entered[0] if len(entered) == 1 else entered.any(axis=0)
        touched[gone] = False
        owners = touched.nonzero()[0]
        slots, keys = self.slots.take(owners, axis=0), self.keys.take(owners, axis=0)
        bounds = keys[:, -1].copy()
        dead = self._among(slots, left)
        slots[dead] = self._window.capacity
        keys[dead] = np.inf
        in_front = np.logical_or.reduce(dead[:, : self._need], axis=1)
        if len(rows):
            new_keys = self._new_keys(owners, entered, rows, bounds)
            new_keys, new_slots = _few_columns(new_keys, members)
            in_front |= new_keys[:, 0] < keys[:, self._need - 1]
            keys[:, -1], slots[:, -1] = new_keys[:, 0], new_slots[:, 0]
            if len(rows) > 1:
                keys = np.concatenate((keys, new_keys[:, 1:]), axis=1)
                slots = np.concatenate((slots, new_slots[:, 1:]), axis=1, dtype=np.int32)
        else:
            keys[:, -1] = np.inf
        return Revision(owners, in_front, slots, keys, bounds)

    def revise(self, revision: Revision, new: Slots, found: Lines) -> Slots:
        """Do what was planned, and give new owners what `near` found for them.

        Returns the owners whose lists ran too short, to be searched anew.
        """
        end = self.width + 1
        # A stable sort leaves equal keys as they stand: the new members are the youngest.
        order = revision.keys.argsort(axis=1, kind="stable")
        order += np.arange(0, order.size, order.shape[1])[:, np.newaxis]
        keys, slots = revision.keys.take(order), revision.slots.take(order)
        bounds = np.minimum(revision.bounds, keys[:, self.width], out=keys[:, self.width])
        # All in one: what is written lies far apart, and each visit costs more than its bytes.
        self._store(
            np.concatenate((revision.owners, new)),
            np.concatenate((slots[:, :end], found.slots)),
            np.concatenate((keys[:, :end], found.keys)),
        )
        # No member's key is beyond the bound, but that of an unused place is.
        short: Slots = revision.owners[keys[:, self._need - 1] > bounds]
        return short

    def discard(self, gone: Slots) -> None:
        """Empty the lists of owners that left the window."""
        self.slots[gone] = self._window.capacity
        self.keys[gone] = np.inf
        self._bounds_up[gone] = -np.inf
        self._oldest[gone] = self._window.capacity

    def remove_members(self, gone: Slots) -> None:
        """Take members out of the pool."""
        self._outside[gone] = np.inf
        self.members -= len(gone)

    def add_members(self, new: Slots) -> None:
        """Put slots into the pool."""
        self._outside[new] = 0.0
        self.members += len(new)

    # -- searching ------------------------------------------------------------------------
    def search(self, owners: Slots) -> None:
        """Search the lists of `owners` anew; equal rows share one search."""
        window = self._window
        rows = window.rows[owners]
        _, firsts, group = np.unique(
            rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel(),
            return_index=True,
            return_inverse=True,
        )
        step = queries_per_pass(window.extent)
        if len(firsts) == len(owners):
            self._search_each(owners)
            return
        for start in range(0, len(firsts), step):
            stop = start + step
            queries = rows[firsts[start:stop]]
            mine = np.flatnonzero((group >= start) & (group < stop))
            lines = group[mine] - start
            near = self.near(owners[mine], queries, window.propose(queries), lines)
            self._store(owners[mine], *near)

    def near(
        self,
        owners: Slots,
        queries: Rows,
        proposals: Proposals,
        lines: NDArray[np.intp] | None = None,
    ) -> Lines:
        """Return the members nearest to `owners`, one more than a list holds: its key is the bound.

        They are found out of proposals for the owners' rows, which are overwritten. Each owner has
        a query of its own, or `lines` says whose is whose.
        """
        low = proposals.low
        if self.members < low.shape[1]:
            low += self._outside[: low.shape[1]]
        if lines is None or len(owners) == 1:
            self._rule_out(owners, low)
        found = nearest_lines(self._window, queries, proposals, self.width + 1)
        if lines is not None:
            found = _without(owners, found.slots[lines], found.keys[lines])
        return found

    def near_and(
        self, owner: Slots, rows: Rows, proposals: Proposals, wanted: Wanted
    ) -> tuple[Lines, Found]:
        """Return `near` of one owner, whose row is the first of two, and who is near the second.

        Every live slot is in the pool.
        """
        self._rule_out(owner, proposals.low[:1])
        count = self.width + 1
        own, other = nearest_each(self._window, rows, proposals, [Wanted(count), wanted])
        return as_line(self._window, own, count), other

    # -- inside ---------------------------------------------------------------------------
    def _search_each(self, owners: Slots) -> None:
        """Search the list of each owner by itself."""
        window = self._window
        step = queries_per_pass(window.extent)
        for start in range(0, len(owners), step):
            some = owners[start : start + step]
            rows = window.rows[some]
            self._store(some, *self.near(some, rows, window.propose(rows)))

    def _rule_out(self, owners: Slots, low: Rows) -> None:
        """Let nobody be found who has no place in an owner's list; each has a line of `low`."""
        if len(owners) == 1:
            low[0, owners] = np.inf
        else:
            low[np.arange(len(owners)), owners] = np.inf

    def _store(self, owners: Slots, slots: Slots, keys: FloatArray) -> None:
        """Put sorted lists with their bounds, as `slots` and `keys` hold them, into the pool."""
        self.slots[owners] = slots
        self.keys[owners] = keys
        self._bounds_up[owners] = above(keys[:, -1])
        self._oldest[owners] = self._oldest_of(slots[:, :-1])

    def _oldest_of(self, slots: Slots) -> Slots:
        """Return the slot of the oldest in each list, or of an older one.

        An unused place looks like slot 0, so that such lists are looked at once too often in
        each turn of the ring.
        """
        capacity = np.int32(self._window.capacity)
        start = np.int32(self._window.first % self._window.capacity)
        # From the oldest slot on, round the ring: what is negative wraps to very large.
        turned = (slots - start).view(np.uint32)
        oldest: Slots = np.minimum.reduce(turned, axis=1).view(np.int32)
        oldest += start
        oldest %= capacity
        return oldest

    def _new_keys(
        self, owners: Slots, entered: NDArray[np.bool_], rows: Rows, bounds: FloatArray
    ) -> FloatArray:
        """Return the exact keys of new rows to owners whose lists they enter, else infinity."""
        keys: FloatArray
        if len(rows) == 1:
            keys = self._window.keys(owners, rows[0])
            keys[keys >= bounds] = np.inf
            return keys[:, np.newaxis]
        keys = np.full((len(owners), len(rows)), np.inf)
        lines, which = np.nonzero(entered[:, owners].T)
        keys[lines, which] = self._window.keys(owners[lines], rows[which])
        keys[keys >= bounds[:, np.newaxis]] = np.inf
        return keys

    def _among(self, slots: Slots, gone: Slots) -> NDArray[np.bool_]:
        if len(gone) == 1:
            # A plain number is compared as int32; a numpy scalar would widen all the others.
            alone: NDArray[np.bool_] = slots == int(gone[0])
            return alone
        marked = np.zeros(self._window.capacity + 1, dtype=np.bool_)
        marked[gone] = True
        return marked[slots]


def _few_columns(keys: FloatArray, members: Slots) -> tuple[FloatArray, Slots]:
    """Drop the columns that no line needs: the new keys of each, nearest first, ties by age."""
    if len(members) == 1:
        return keys, members[np.newaxis]
    order = np.argsort(keys, axis=1, kind="stable")
    most = int((keys < np.inf).sum(axis=1).max(initial=1))
    order = order[:, :most]
    return np.take_along_axis(keys, order, axis=1), members[order]


def _without(owners: Slots, slots: Slots, keys: FloatArray) -> Lines:
    """Take each owner out of its line; what is then the last place stays as it was."""
    own = slots == owners[:, np.newaxis]
    last = slots.shape[1] - 1
    place = np.where(own.any(axis=1), own.argmax(axis=1), last)[:, np.newaxis]
    others = np.arange(last + 1)
    others = np.minimum(others + (others >= place), last)
    return Lines(
        np.take_along_axis(slots, others, axis=1), np.take_along_axis(keys, others, axis=1)
    )
