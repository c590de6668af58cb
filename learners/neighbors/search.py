"""Exact nearest neighbours of a few query rows in a window."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from learners.neighbors.metrics import Rows, Slots
from learners.neighbors.window import Window
from learners.validation import FloatArray

#: Two units in the last place of float32, relative, and a step where it has no relative ones.
_TWO_UNITS = 2.0**-22
_LEAST_STEP = 1e-37
#: Floats of temporary memory for the proposals of one pass.
_PASS = 1 << 22


class Found(NamedTuple):
    """Neighbours of one query, nearest first, the older first where distances tie."""

    slots: Slots
    keys: FloatArray


def up(value: float) -> np.float32:
    """Round a bound to float32 so that nothing at or below it is lost."""
    # More than the half unit in the last place that rounding takes, in cheap arithmetic.
    return np.float32(value + abs(value) * _TWO_UNITS + _LEAST_STEP)


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
    array([0, 1, 2], dtype=int32)
    """
    return find_many(window, row[np.newaxis], count, ties=ties)[0]


def find_many(window: Window, rows: Rows, count: int, *, ties: bool = False) -> list[Found]:
    """Return `find` of each row of (q, d); they share the passes over the window."""
    gone = _dead(window)
    step = queries_per_pass(window.extent)
    found = []
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        low, margin = window.propose(some)
        if len(gone):
            low[:, gone] = np.inf
        found += [
            nearest(window, some[i], low[i], float(margin[i]), count, ties=ties)
            for i in range(len(some))
        ]
    return found


def _dead(window: Window) -> Slots:
    """Return the slots that were used and are not alive."""
    if len(window) == window.extent:
        return np.zeros(0, dtype=np.int32)
    alive = np.zeros(window.extent, dtype=np.bool_)
    alive[window.live()] = True
    return np.flatnonzero(~alive).astype(np.int32)


def nearest(
    window: Window,
    query: Rows,
    low: Rows,
    margin: float,
    count: int,
    *,
    ties: bool = False,
) -> Found:
    """Return the exact `count` nearest rows to one query, out of proposals.

    The `count`-th smallest proposal plus the margin is at least the `count`-th smallest key,
    so a row whose proposal is above that cannot be among them, whatever BLAS did.

    Parameters
    ----------
    window
        Where the rows lie.
    query
        Shape (d,).
    low
        Shape (n,): lower bounds of the keys, infinite for rows that are not to be found.
    margin
        How far a key may be above its lower bound.
    count
        How many to find, at least 1; all of the finite ones are found if they are fewer.
    ties
        Whether those that tie with the last one are found as well.
    """
    reach = np.inf
    if count < len(low):
        reach = float(np.partition(low, count - 1)[count - 1]) + margin
    # An infinite reach means that fewer than `count` can be found.
    chosen = (low <= up(reach) if reach < np.inf else low < np.inf).nonzero()[0]
    # Oldest first, so that a stable sort by key leaves ties by age.
    turn = chosen.searchsorted(window.first % window.capacity)
    slots = np.concatenate((chosen[turn:], chosen[:turn])).astype(np.int32)
    keys = window.keys(slots, query)
    order = keys.argsort(kind="stable")
    if not ties or len(order) <= count:
        order = order[:count]
    else:
        order = order[: np.searchsorted(keys[order], keys[order[count - 1]], side="right")]
    return Found(slots[order], keys[order])
