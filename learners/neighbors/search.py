"""Exact nearest neighbours of a few query rows in a window."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from learners.neighbors.metrics import Proposals, Rows, Slots
from learners.neighbors.window import Window
from learners.validation import FloatArray

#: Two units in the last place of float32, relative, and a step where it has no relative ones.
_TWO_UNITS = 2.0**-22
_LEAST_STEP = 1e-37
#: Above every proposal but infinity, and finite after rounding up.
_LARGEST = 3e38
#: Floats of temporary memory for the proposals of one pass.
_PASS = 1 << 21
#: The smallest of some numbers are sought among the least of each so many, and there are so many
#: times more such leasts than are sought: then few others lie below the bound.
_GROUP = 32
_SPARE = 4


class Found(NamedTuple):
    """Neighbours of one query, nearest first, the older first where distances tie."""

    slots: Slots
    keys: FloatArray


def up(value: float) -> np.float32:
    """Round a bound to float32 so that nothing at or below it is lost."""
    # More than the half unit in the last place that rounding takes, in cheap arithmetic.
    return np.float32(value + abs(value) * _TWO_UNITS + _LEAST_STEP)


def up_all(values: FloatArray) -> Rows:
    """Return `up` of each."""
    return (values + np.abs(values) * _TWO_UNITS + _LEAST_STEP).astype(np.float32)


def queries_per_pass(extent: int) -> int:
    """Return how many queries keep the proposals of one pass within bounded memory."""
    return max(1, _PASS // max(1, extent))


def find(window: Window, row: Rows, count: int, *, ties: bool = False) -> Found:
    """Return the `count` examples of a window that are nearest to a query row.

    Parameters
    ----------
    window
        May be empty: then nobody is found.
    row
        Shape (d,), as `to_rows` makes it.
    count
        How many to find, at least 1; all, if the window holds fewer.
    ties
        Whether those that tie with the last one are found as well, so that of many equally
        near examples not just the oldest speak.

    Examples
    --------
    >>> window = Window(9, n_features=1)
    >>> slots = window.append(np.array([[0], [2], [2], [5]], np.float32), np.zeros(4, np.int32))
    >>> find(window, np.array([1], np.float32), 2, ties=True).slots
    array([0, 1, 2])
    """
    return find_many(window, row[np.newaxis], count, ties=ties)[0]


def find_many(window: Window, rows: Rows, count: int, *, ties: bool = False) -> list[Found]:
    """Return `find` of each row of (q, d); they share the passes over the window."""
    step = queries_per_pass(window.extent)
    found = []
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        found += find_among(window, some, window.propose(some), count, ties=ties)
    return found


def find_among(
    window: Window, rows: Rows, proposals: Proposals, count: int, *, ties: bool = False
) -> list[Found]:
    """Return `find` of each row, out of proposals for the window as it is; they are overwritten."""
    if len(window) < window.extent:
        proposals.low[:, _dead(window)] = np.inf
    return [
        nearest(window, row, proposals, count, line=line, ties=ties)
        for line, row in enumerate(rows)
    ]


def _dead(window: Window) -> Slots:
    """Return the slots that were used and are not alive."""
    alive = np.zeros(window.extent, dtype=np.bool_)
    alive[window.live()] = True
    return np.flatnonzero(~alive)


def _bounds_of_smallest(low: Rows, count: int) -> Rows:
    """Return for each line (..., n) a number that at least `count` in it do not exceed.

    The `count`-th smallest of the leasts of disjoint groups is one. It is found in a third of
    the time that a partial selection among all takes, and few others lie below it.
    """
    size = low.shape[-1]
    groups = min(_GROUP, size // (_SPARE * count))
    if groups > 1:
        part = size // groups
        some = low[..., : groups * part].reshape(*low.shape[:-1], groups, part)
        low = np.minimum.reduce(some, axis=-2)
    else:
        low = low.copy()
    low.partition(count - 1)
    bounds: Rows = low[..., count - 1]
    return bounds


def nearest(
    window: Window,
    query: Rows,
    proposals: Proposals,
    count: int,
    *,
    line: int = 0,
    ties: bool = False,
) -> Found:
    """Return the exact `count` nearest rows to one query, out of proposals.

    If `count` sure proposals are at most some bound, then `count` keys are at most that bound
    plus the margin, so a row whose proposal is above cannot be among them, whatever BLAS did.

    Parameters
    ----------
    window
        Where the rows lie.
    query
        Shape (d,).
    proposals
        Infinite for rows that are not to be found.
    count
        How many to find, at least 1; all of the finite ones are found if they are fewer.
    line
        Which line of the proposals is the query's.
    ties
        Whether those that tie with the last one are found as well.
    """
    low = proposals.low[line]
    reach, enough = np.inf, count + proposals.unsure
    if enough < len(low):
        reach = float(_bounds_of_smallest(low, enough)) + float(proposals.margin[line])
    # An infinite reach means that fewer than `count` can be found.
    chosen = (low <= up(reach) if reach < np.inf else low < np.inf).nonzero()[0]
    # Oldest first, so that a stable sort by key leaves ties by age.
    turn = chosen.searchsorted(window.first % window.capacity)
    slots = np.concatenate((chosen[turn:], chosen[:turn]))
    keys = window.keys(slots, query)
    order = keys.argsort(kind="stable")
    keys = keys.take(order)
    if count < len(keys):
        stop = keys.searchsorted(keys[count - 1], side="right") if ties else count
        order, keys = order[:stop], keys[:stop]
    return Found(slots.take(order), keys)


def nearest_of_each(window: Window, queries: Rows, proposals: Proposals, count: int) -> Found:
    """Return `nearest` of each query (q, d), out of proposals (q, n): slots and keys (q, count).

    Of fewer than `count`, the places left over hold ``window.capacity`` and infinity.
    """
    low = proposals.low
    if len(low) == 1:
        return _padded(window, nearest(window, queries[0], proposals, count), count)
    size = low.shape[1]
    reach, enough = np.full(len(low), _LARGEST), count + proposals.unsure
    if enough < size:
        reach = np.minimum(_bounds_of_smallest(low, enough) + proposals.margin, _LARGEST)
    lines, slots = np.divmod(np.flatnonzero(low <= up_all(reach)[:, np.newaxis]), size)
    counts = np.bincount(lines, minlength=len(low))
    places = np.arange(len(lines)) - (np.add.accumulate(counts) - counts)[lines]
    # Oldest first, so that a stable sort by key leaves ties by age.
    turned = np.bincount(lines[slots < window.first % window.capacity], minlength=len(low))
    places = (places - turned[lines]) % counts[lines]
    width = max(count, int(counts.max(initial=0)))
    found = np.full((len(low), width), window.capacity, dtype=np.int32)
    keys = np.full((len(low), width), np.inf)
    found[lines, places] = slots
    keys[lines, places] = window.keys_of_pairs(slots, queries, lines)
    order = keys.argsort(axis=1, kind="stable")[:, :count]
    return Found(np.take_along_axis(found, order, axis=1), np.take_along_axis(keys, order, axis=1))


def _padded(window: Window, found: Found, count: int) -> Found:
    """Return what was found for one query as a line of `count` places, as lists hold it."""
    if len(found.slots) == count:
        return Found(found.slots.astype(np.int32)[np.newaxis], found.keys[np.newaxis])
    slots = np.full((1, count), window.capacity, dtype=np.int32)
    keys = np.full((1, count), np.inf)
    slots[0, : len(found.slots)] = found.slots
    keys[0, : len(found.keys)] = found.keys
    return Found(slots, keys)
