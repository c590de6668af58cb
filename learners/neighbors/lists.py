"""Sorted neighbour lists that know up to where they are complete.

For each owner the list holds every pool member whose (key, age) comes before the list's bound.
It is kept longer than needed: a member that goes leaves a gap at the end, one that comes nearer
than the bound is sorted in, and only a list that ran shorter than needed is searched anew.
With twice the needed length that is seldom.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from learners.neighbors.metrics import Rows, Slots
from learners.neighbors.search import nearest, queries_per_pass, up
from learners.neighbors.window import Seqs, Window
from learners.validation import FloatArray

#: The oldest member of an empty list.
_NEVER: Final = np.iinfo(np.int64).max
_TRUE = np.ones(1, dtype=np.bool_)


class Arrivals(NamedTuple):
    """New members that enter old lists: paired owners, members and exact keys."""

    owners: Slots
    members: Slots
    keys: FloatArray


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
        #: Slots (capacity, width), nearest first; `window.capacity` in an unused place.
        self.slots: Slots = np.full((size, width), size, dtype=np.int32)
        #: Keys (capacity, width), ascending; infinite in an unused place.
        self.keys: FloatArray = np.full((size, width), np.inf)
        # A list holds exactly the members before its bound; a dead owner takes nobody.
        self._bounds: FloatArray = np.full(size, -np.inf)
        self._bounds_up: Rows = np.full(size, -np.inf, dtype=np.float32)
        # What is added to a proposal to keep slots that are not in the pool from being found.
        self._outside: Rows = np.full(size, np.inf, dtype=np.float32)
        # No member of a list is older than this seq. The oldest leave the window first, so this
        # says who may hold them.
        self._oldest: Seqs = np.full(size, _NEVER, dtype=np.int64)
        self.members = 0

    # -- who changes ----------------------------------------------------------------------
    def holders(self, n_gone: int) -> Slots:
        """Return the owners whose lists may hold one of the `n_gone` oldest, ascending.

        The evicted themselves may be among them, and owners that dropped the member since.
        """
        window = self._window
        held = self._oldest[: window.extent] < window.first + n_gone
        return np.flatnonzero(held).astype(np.int32)

    def fronts_with(self, owners: Slots, gone: Slots) -> Slots:
        """Return those of `owners` that have one of `gone` among their first k."""
        fronts: Slots = owners[self._among(self.slots[owners, : self._need], gone).any(axis=1)]
        return fronts

    def fronts_entered(self, arrivals: Arrivals) -> Slots:
        """Return the owners among whose first k a new member comes, ascending."""
        ends = self.keys[arrivals.owners, self._need - 1]
        fronts: Slots = arrivals.owners[arrivals.keys < ends]
        return fronts

    def arrivals(self, low: Rows, rows: Rows, members: Slots) -> Arrivals:
        """Return which new rows enter which lists, by proposals (q, n) and then exactly.

        Ordered by owner, then key, then age.
        """
        extent = low.shape[1]
        flat = np.flatnonzero(low < self._bounds_up[:extent])
        which, places = np.divmod(flat, max(1, extent))
        owners = places.astype(np.int32)
        keys = self._window.keys(owners, rows[which])
        sure = keys < self._bounds[owners]
        owners, keys, which = owners[sure], keys[sure], which[sure]
        if len(rows) > 1:
            order = np.lexsort((which, keys, owners))
            owners, keys, which = owners[order], keys[order], which[order]
        return Arrivals(owners, members[which], keys)

    def shut(self, gone: Slots) -> None:
        """Let nobody enter the lists of these owners any more."""
        self._bounds[gone] = -np.inf
        self._bounds_up[gone] = -np.inf

    # -- changing -------------------------------------------------------------------------
    def discard(self, gone: Slots) -> None:
        """Empty the lists of owners that left the window."""
        self.slots[gone] = self._window.capacity
        self.keys[gone] = np.inf
        self._oldest[gone] = _NEVER
        self.shut(gone)

    def remove_members(self, gone: Slots) -> None:
        """Take slots out of the pool."""
        self.members -= int(np.count_nonzero(self._outside[gone] == 0))
        self._outside[gone] = np.inf

    def add_members(self, new: Slots) -> None:
        """Put slots into the pool."""
        self._outside[new] = 0.0
        self.members += len(new)

    def strike(self, owners: Slots, gone: Slots) -> None:
        """Take `gone` out of the lists of `owners`."""
        slots, keys = self.slots[owners], self.keys[owners]
        dead = self._among(slots, gone)
        slots[dead] = self._window.capacity
        keys[dead] = np.inf
        slots, keys = _sorted(slots, keys)
        self.slots[owners], self.keys[owners] = slots, keys
        self._oldest[owners] = self._seqs(slots).min(axis=1)

    def enter(self, arrivals: Arrivals) -> None:
        """Sort new members into lists, behind the old ones where keys tie: they are younger."""
        owners, members, columns = _columns(arrivals, self._window.capacity)
        slots, keys = _sorted(
            np.concatenate((self.slots[owners], members), axis=1),
            np.concatenate((self.keys[owners], columns), axis=1),
        )
        self.slots[owners] = slots[:, : self.width]
        self.keys[owners] = keys[:, : self.width]
        first_out = keys[:, self.width]
        full = first_out < np.inf
        self._set_bounds(owners[full], first_out[full])

    def too_short(self, owners: Slots) -> Slots:
        """Return those of `owners` whose lists must be searched anew."""
        ends = self.keys[owners, self._need - 1]
        short: Slots = owners[(ends == np.inf) & (self._bounds[owners] < np.inf)]
        return short

    def search(self, owners: Slots) -> None:
        """Search the lists of `owners` anew; equal rows share one search."""
        window = self._window
        rows = window.rows[owners]
        if len(owners) > 1:
            _, firsts, group = np.unique(
                rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel(),
                return_index=True,
                return_inverse=True,
            )
        else:
            firsts = group = np.zeros(1, dtype=np.intp)
        step = queries_per_pass(window.extent)
        for start in range(0, len(firsts), step):
            some = rows[firsts[start : start + step]]
            low, margin = window.propose(some)
            for i in range(len(some)):
                same = owners[group == start + i]
                self.settle(same, some[i], low[i], float(margin[i]))

    def settle(self, owners: Slots, row: Rows, low: Rows, margin: float) -> None:
        """Fill the lists of owners that all have the row `row`, out of its proposals.

        `low` is overwritten.
        """
        if self.members < len(low):
            low += self._outside[: len(low)]
        found = nearest(self._window, row, low, margin, self.width + 1)
        everyone = len(found.slots) <= self.width
        oldest = int(self._seqs(found.slots).min()) if len(found.slots) else _NEVER
        for owner in owners.tolist():
            others = np.flatnonzero(found.slots != owner)[: self.width]
            length = len(others)
            self.slots[owner, :length] = found.slots[others]
            self.slots[owner, length:] = self._window.capacity
            self.keys[owner, :length] = found.keys[others]
            self.keys[owner, length:] = np.inf
            bound = np.inf if everyone else self.keys[owner, -1]
            self._bounds[owner] = bound
            self._bounds_up[owner] = up(bound)
            self._oldest[owner] = oldest

    # -- inside ---------------------------------------------------------------------------
    def _set_bounds(self, owners: Slots, bounds: FloatArray) -> None:
        self._bounds[owners] = bounds
        self._bounds_up[owners] = np.nextafter(bounds.astype(np.float32), np.float32(np.inf))

    def _seqs(self, slots: Slots) -> Seqs:
        """Return the seqs of slots, and of an unused place more than any."""
        window = self._window
        turn, start = divmod(window.first, window.capacity)
        # A slot before that of the first seq belongs to the next turn of the ring.
        seqs = np.where(slots < start, slots + window.capacity, slots)
        seqs = seqs + np.int64(turn * window.capacity)
        return np.where(slots == window.capacity, _NEVER, seqs)

    def _among(self, slots: Slots, gone: Slots) -> NDArray[np.bool_]:
        if len(gone) == 1:
            alone: NDArray[np.bool_] = slots == gone[0]
            return alone
        marked = np.zeros(self._window.capacity + 1, dtype=np.bool_)
        marked[gone] = True
        return marked[slots]


def _sorted(slots: Slots, keys: FloatArray) -> tuple[Slots, FloatArray]:
    """Sort each line by key, leaving equal keys as they stand."""
    order = np.argsort(keys, axis=1, kind="stable")
    order += np.arange(0, keys.size, keys.shape[1])[:, np.newaxis]
    return slots.ravel()[order], keys.ravel()[order]


def _columns(arrivals: Arrivals, nobody: int) -> tuple[Slots, Slots, FloatArray]:
    """Lay arrivals out by owner: unique owners, and their new members and keys as columns."""
    owners = arrivals.owners
    starts = np.flatnonzero(np.concatenate((_TRUE, owners[1:] != owners[:-1])))
    if len(starts) == len(owners):
        return owners, arrivals.members[:, np.newaxis], arrivals.keys[:, np.newaxis]
    lengths = np.diff(starts, append=len(owners))
    line = np.repeat(np.arange(len(starts)), lengths)
    rank = np.arange(len(owners)) - starts[line]
    members = np.full((len(starts), int(lengths.max())), nobody, dtype=np.int32)
    keys = np.full(members.shape, np.inf)
    members[line, rank] = arrivals.members
    keys[line, rank] = arrivals.keys
    return owners[starts], members, keys
