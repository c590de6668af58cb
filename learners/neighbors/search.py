"""Exact nearest neighbours of a few query rows in a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from learners.neighbors.metrics import Proposals, Rows, Slots
from learners.neighbors.window import Window
from learners.validation import FloatArray

_INFINITY: Final = np.float32(np.inf)
#: Floats of temporary memory for the proposals of one pass.
_PASS = 1 << 21
#: The smallest numbers are sought among the minima of at most so many each, at least so many times
#: as many minima as are sought: then few others lie below the bound.
_GROUP = 32
_SPARE = 4


class Found(NamedTuple):
    """Neighbours of one query, nearest first, the older first where distances tie."""

    slots: Slots
    keys: FloatArray


class Lines(NamedTuple):
    """Neighbours of some queries as lists hold them: (q, count), a line for each, as `Found` is.

    A place left over holds ``window.capacity`` and infinity.
    """

    slots: Slots
    keys: FloatArray


class Wanted(NamedTuple):
    """How many neighbours of a query are to be found, all if the window holds fewer.

    With `ties`, all that tie with the last one are found as well, so that of many equally near
    examples not only the oldest count.
    """

    most: int
    ties: bool = False


def above(bounds: FloatArray) -> Rows:
    """Return float32 bounds above all numbers up to `bounds`; infinity for infinity."""
    next_ones: Rows = np.nextafter(bounds.astype(np.float32), _INFINITY)
    return next_ones


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
        Whether all that tie with the last one are found as well, so that of many equally near
        examples not only the oldest count.

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
    return nearest_each(window, rows, proposals, [Wanted(count, ties)] * len(rows))


def _dead(window: Window) -> Slots:
    """Return the slots that were used and are not alive."""
    alive = np.zeros(window.extent, dtype=np.bool_)
    alive[window.live()] = True
    return np.flatnonzero(~alive)


def _bounds_of_smallest(low: Rows, count: int) -> Rows:
    """Return for each line (..., n) a number that at least `count` in it do not exceed.

    The `count`-th smallest of the minima of disjoint groups is one. It is found in a third of the
    time that a partial selection among all takes, and few others lie below it.
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


def nearest_each(
    window: Window, queries: Rows, proposals: Proposals, wanted: Sequence[Wanted]
) -> list[Found]:
    """Return the exact nearest rows to each query, out of proposals.

    If `most` sure proposals are at most some bound, then `most` keys are at most that bound
    plus the margin, so a row whose proposal is above that cannot be among them, whatever BLAS did.

    Parameters
    ----------
    window
        Where the rows lie.
    queries
        Shape (q, d).
    proposals
        Infinite for rows that are not to be found.
    wanted
        What is to be found of each query, (q,).
    """
    chosen = _candidates(proposals, max([each.most for each in wanted]))
    # Oldest first, so that a stable sort by key leaves ties by age.
    start = window.first % window.capacity
    if len(queries) == 1:
        turn = chosen.searchsorted(start)
        slots = np.concatenate((chosen[turn:], chosen[:turn]))
        return [_first(slots, window.keys(slots, queries[0]), wanted[0])]
    size = proposals.low.shape[1]
    begins = [line * size for line in range(len(queries))]
    cuts = chosen.searchsorted([at for b in begins for at in (b + start, b + size)]).tolist()
    turned: list[Slots] = []
    ends = [0, *cuts[1::2]]
    for begin, turn, end in zip(ends, cuts[::2], ends[1:], strict=False):
        turned += (chosen[turn:end], chosen[begin:turn])
    lines, slots = np.divmod(np.concatenate(turned), size)
    keys = window.keys(slots, queries, lines)
    return [
        _first(slots[begin:end], keys[begin:end], each)
        for begin, end, each in zip(ends, ends[1:], wanted, strict=False)
    ]


def _candidates(proposals: Proposals, count: int) -> Slots:
    """Return places in the flattened proposals, among which are the `count` nearest of a line."""
    low, enough = proposals.low, count + proposals.unsure
    if enough < low.shape[1]:
        # An infinite bound means that fewer than `count` can be found.
        reach = above(_bounds_of_smallest(low, enough) + proposals.margin)
        return (low < reach[:, np.newaxis]).ravel().nonzero()[0]
    return (low < np.inf).ravel().nonzero()[0]


def _first(slots: Slots, keys: FloatArray, wanted: Wanted) -> Found:
    """Return the nearest of some candidates, which are given oldest first."""
    order = keys.argsort(kind="stable")
    keys = keys.take(order)
    count = wanted.most
    if count < len(keys):
        stop = keys.searchsorted(keys[count - 1], side="right") if wanted.ties else count
        order, keys = order[:stop], keys[:stop]
    return Found(slots.take(order), keys)


def nearest_lines(window: Window, queries: Rows, proposals: Proposals, count: int) -> Lines:
    """Return the `count` nearest to each query (q, d), out of proposals as for `nearest_each`."""
    low = proposals.low
    if len(low) == 1:
        (found_one,) = nearest_each(window, queries, proposals, [Wanted(count)])
        return as_line(window, found_one, count)
    lines, slots = np.divmod(_candidates(proposals, count), low.shape[1])
    counts = np.bincount(lines, minlength=len(low))
    places = np.arange(len(lines)) - (np.add.accumulate(counts) - counts)[lines]
    # Oldest first, so that a stable sort by key leaves ties by age.
    turned = np.bincount(lines[slots < window.first % window.capacity], minlength=len(low))
    places = (places - turned[lines]) % counts[lines]
    width = max(count, int(counts.max(initial=0)))
    found = np.full((len(low), width), window.capacity, dtype=np.int32)
    keys = np.full((len(low), width), np.inf)
    found[lines, places] = slots
    keys[lines, places] = window.keys(slots, queries, lines)
    order = keys.argsort(axis=1, kind="stable")[:, :count]
    return Lines(np.take_along_axis(found, order, axis=1), np.take_along_axis(keys, order, axis=1))


def as_line(window: Window, found: Found, count: int) -> Lines:
    """Return what was found for one query as a line of `count` places."""
    if len(found.slots) == count:
        return Lines(found.slots.astype(np.int32)[np.newaxis], found.keys[np.newaxis])
    slots = np.full((1, count), window.capacity, dtype=np.int32)
    keys = np.full((1, count), np.inf)
    slots[0, : len(found.slots)] = found.slots
    keys[0, : len(found.keys)] = found.keys
    return Lines(slots, keys)
