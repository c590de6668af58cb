"""Neighbour lists of whole data sets, from which those of any subset are read off."""

from __future__ import annotations

import numpy as np

from learners.neighbors.search import find_many
from learners.neighbors.window import Window, to_rows
from learners.validation import BoolArray, FloatArray, IntArray


def ranked_neighbors(xs: FloatArray, queries: FloatArray, count: int) -> IntArray:
    """Return for each query the `count` nearest rows of `xs`, nearest first, ties by index."""
    window = Window(len(xs), xs.shape[1])
    window.push(to_rows(xs), np.zeros(len(xs), dtype=np.int64))
    count = min(count, len(xs))
    found = find_many(window, to_rows(queries), count)
    return np.array([each.slots for each in found], dtype=np.int64).reshape(len(queries), count)


def ranked_others(xs: FloatArray, count: int) -> IntArray:
    """Return for each row the `count` nearest others, nearest first, ties by index."""
    count = min(count, len(xs) - 1)
    ranked = ranked_neighbors(xs, xs, count + 1)
    own = ranked == np.arange(len(xs))[:, np.newaxis]
    # Of many equal rows one may not find itself: then the last place is one too many.
    own[~own.any(axis=1), -1] = True
    others: IntArray = ranked[~own].reshape(len(xs), count)
    return others


def within(ranked: IntArray, inside: BoolArray, count: int) -> IntArray:
    """Return the first `count` entries of each line that are inside, shape (n, count).

    Raises
    ------
    ValueError
        If a line has fewer.
    """
    mask = inside[ranked]
    if (mask.sum(axis=1) < count).any():
        raise ValueError(f"expected at least {count} entries of each line inside")
    order = np.argsort(~mask, axis=1, kind="stable")[:, :count]
    first: IntArray = np.take_along_axis(ranked, order, axis=1)
    return first


def scaled(xs: FloatArray) -> FloatArray:
    """Scale each feature to [-1, 1]; a constant one to 0."""
    low, high = xs.min(axis=0), xs.max(axis=0)
    span = np.where(high > low, high - low, 1.0)
    values: FloatArray = np.where(high > low, 2.0 * (xs - low) / span - 1.0, 0.0)
    return values


def standardised(xs: FloatArray) -> FloatArray:
    """Scale each feature to mean 0 and standard deviation 1; a constant one to 0."""
    deviation = xs.std(axis=0)
    values: FloatArray = (xs - xs.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    return values


def folds(n: int, n_folds: int, rng: np.random.Generator) -> list[IntArray]:
    """Split range(n) at random into folds of nearly equal size."""
    return [np.sort(part) for part in np.array_split(rng.permutation(n), n_folds)]
