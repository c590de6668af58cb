"""Classical filters of a training set, in batch: Wilson, ICF, DROP3 and HMN-EI.

All take instances and labels and return which examples they keep, which may be none of a small or
shuffled set. None is cheap: of the n x n distances they hold up to three arrays, 24 n^2 bytes
(2.4 GB for 10,000 examples).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from learners.neighbors.metrics import make_metric
from learners.neighbors.window import to_rows
from learners.validation import FloatArray, IntArray, check_codes, check_count, check_instances

Kept: TypeAlias = NDArray[np.bool_]

#: Neighbours of the first editing pass in ICF and DROP3, their authors' value.
_DEFAULT_K = 3
#: HMN-EI: an example stays if its hits outweigh its misses by at least 1 / this; and the sizes at
#: which its rescue rules act.
_MARGINS_IN_ONE = 10
_LEAST_CLASS_SIZE = 4
_MANY_CLASSES = 3


def wilson(
    xs: FloatArray, labels: IntArray, k: int = _DEFAULT_K, *, repeated: bool = False
) -> Kept:
    """Keep the examples whose label is among the winners of their k nearest others.

    Use it as the simplest noise filter; it also takes true examples at the boundary. [1]_.

    Parameters
    ----------
    xs
        Instances, float64 of shape (n, d).
    labels
        Codes of at least 0, int64 of shape (n,).
    k
        Neighbours, at least 1; 3 by default.
    repeated
        Repeat on what is kept until nothing more goes.

    Returns
    -------
    ndarray of bool
        Shape (n,).

    Raises
    ------
    InputError, ParameterError
        If an argument is not as said.

    References
    ----------
    .. [1] Wilson, *Asymptotic properties of nearest neighbor rules using edited data*, 1972.

    Examples
    --------
    >>> line = np.array([[0, 1, 2.1, 3.3, 5, 6.2, 7.5, 9]]).T
    >>> np.flatnonzero(~wilson(line, np.array([0, 0, 0, 1, 0, 1, 1, 1]))).tolist()
    [3, 4]
    """
    return _edited(*_pairwise(xs, labels), check_count("k", k), repeated=repeated)


def icf(xs: FloatArray, labels: IntArray, k: int = _DEFAULT_K, *, repeated: bool = False) -> Kept:
    """Keep examples that others need more than they need others: iterative case filtering.

    Use it to shrink a training set by a lot. After Wilson editing, pass by pass: an example
    reaches those nearer than its nearest enemy, and is covered by those that reach it; all that
    reach more than cover them go at once, until none does. [1]_.

    Parameters
    ----------
    xs
        Instances, float64 of shape (n, d).
    labels
        Codes of at least 0, int64 of shape (n,).
    k
        Neighbours of the editing, at least 1; 3 by default.
    repeated
        Repeat the editing until nothing more goes, too.

    Returns
    -------
    ndarray of bool
        Shape (n,).

    Raises
    ------
    InputError, ParameterError
        If an argument is not as said.

    References
    ----------
    .. [1] Brighton and Mellish, *Advances in instance selection for instance-based learning
       algorithms*, 2002.

    Examples
    --------
    >>> xs = np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]])
    >>> icf(xs, np.array([0, 0, 0, 1, 1, 1])).tolist()
    [True, True, True, True, True, True]
    """
    keys, codes = _pairwise(xs, labels)
    kept = _edited(keys, codes, check_count("k", k), repeated=repeated)
    while True:
        inside = np.flatnonzero(kept)
        if len(np.unique(codes[inside])) < 2:
            return kept
        reached, covered = reach_and_cover(keys[np.ix_(inside, inside)], codes[inside])
        useless = reached > covered
        if not useless.any():
            return kept
        kept[inside[useless]] = False


def reach_and_cover(keys: FloatArray, labels: IntArray) -> tuple[IntArray, IntArray]:
    """Return for each example how many it reaches and how many reach it (see `icf`)."""
    enemies = _nearest_enemies(keys, labels)
    reaches = keys < enemies[:, np.newaxis]
    return reaches.sum(axis=1), reaches.sum(axis=0)


def drop3(xs: FloatArray, labels: IntArray, k: int = _DEFAULT_K) -> Kept:
    """Keep examples without which others would be classified worse: DROP3.

    Use it to shrink a training set with little loss. After Wilson editing, from the examples
    farthest from their nearest enemy to the nearest: one goes if at least as many of its
    associates (those that have it among their k + 1 nearest) are classified right without it
    as with it. [1]_. O(n^2 k), in a Python loop over examples.

    Parameters
    ----------
    xs
        Instances, float64 of shape (n, d).
    labels
        Codes of at least 0, int64 of shape (n,).
    k
        Neighbours, at least 1; 3 by default.

    Returns
    -------
    ndarray of bool
        Shape (n,).

    Raises
    ------
    InputError, ParameterError
        If an argument is not as said.

    References
    ----------
    .. [1] Wilson and Martinez, *Reduction techniques for instance-based learning algorithms*,
       2000.

    Examples
    --------
    >>> line = np.array([[0, 1, 2.1, 3.3, 4.6, 6, 7.5, 9.1, 10.8, 12.6, 14.5, 16.5]]).T
    >>> labels = np.array([0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 1])
    >>> np.flatnonzero(drop3(line, labels)).tolist()
    [2, 3, 4, 7, 8, 9]
    """
    keys, codes = _pairwise(xs, labels)
    edited = np.flatnonzero(_edited(keys, codes, check_count("k", k), repeated=False))
    keys, own = keys[np.ix_(edited, edited)], codes[edited]
    ranked = np.argsort(keys, axis=1, kind="stable")[:, :-1]
    alive = np.ones(len(edited), dtype=np.bool_)
    near = [_first_alive(line, alive, k + 1) for line in ranked]
    for i in np.argsort(-_nearest_enemies(keys, own), kind="stable").tolist():
        associates = [a for a in range(len(edited)) if i in near[a]]
        right_with = sum(_vote(own[near[a][:k]]) == own[a] for a in associates)
        without = [[n for n in near[a] if n != i][:k] for a in associates]
        right_without = sum(
            _vote(own[others]) == own[a] for a, others in zip(associates, without, strict=True)
        )
        if right_without >= right_with and alive.sum() > 1:
            alive[i] = False
            for a in associates:
                near[a] = _first_alive(ranked[a], alive, k + 1)
    kept = np.zeros(len(labels), dtype=np.bool_)
    kept[edited[alive]] = True
    return kept


def hmn_ei(xs: FloatArray, labels: IntArray) -> Kept:
    """Keep examples that are hit more than missed: the hit-miss-network editor, iterated.

    Use it to clean and shrink at once. Each example points to its nearest in each class; hits
    are arrows from its own class, misses from others. An example goes if its misses outweigh
    its hits, each weighted by the class sizes, except for rules that spare small classes and
    often-hit examples; passes repeat as long as one nearest neighbour on what is kept classifies
    the whole set no worse, and the last set before a drop is returned. [1]_.

    Parameters
    ----------
    xs
        Instances, float64 of shape (n, d).
    labels
        Codes of at least 0, int64 of shape (n,).

    Returns
    -------
    ndarray of bool
        Shape (n,).

    Raises
    ------
    InputError
        If an argument is not as said.

    References
    ----------
    .. [1] Marchiori, *Hit miss networks with applications to instance selection*, 2008.

    Examples
    --------
    >>> xs = np.array([[0.0], [1.0], [2.0], [2.4], [10.0], [11.0], [12.0], [13.0]])
    >>> hmn_ei(xs, np.array([0, 0, 0, 1, 1, 1, 1, 1])).tolist()
    [True, True, True, True, True, True, False, False]
    """
    keys, codes = _pairwise(xs, labels)
    kept = np.ones(len(codes), dtype=np.bool_)
    best = _accuracy(keys, codes, kept)
    while True:
        inside = np.flatnonzero(kept)
        hits, misses = hits_and_misses(keys[np.ix_(inside, inside)], codes[inside])
        gone = inside[_condemned(codes[inside], hits, misses)]
        smaller = kept.copy()
        smaller[gone] = False
        if not len(gone) or not smaller.any():
            return kept
        accuracy = _accuracy(keys, codes, smaller)
        if accuracy < best:
            return kept
        kept, best = smaller, accuracy


def hits_and_misses(keys: FloatArray, labels: IntArray) -> tuple[IntArray, IntArray]:
    """Return how often each example is the nearest of its class, to its own and to others."""
    hits, misses = np.zeros(len(labels), np.int64), np.zeros(len(labels), np.int64)
    for label in np.unique(labels).tolist():
        members = np.flatnonzero(labels == label)
        block = keys[:, members]
        arrows = members[block.argmin(axis=1)]
        real = np.isfinite(block.min(axis=1))
        own = labels == label
        np.add.at(hits, arrows[real & own], 1)
        np.add.at(misses, arrows[real & ~own], 1)
    return hits, misses


def _condemned(labels: IntArray, hits: IntArray, misses: IntArray) -> Kept:
    """Return which examples one pass of HMN-EI takes away."""
    sizes = np.bincount(labels)
    own, size = sizes[labels], len(labels)
    # share * misses + 0.1 > (1 - share) * hits, in whole numbers: of a share of 0.9 and a single
    # hit both sides are exactly 0.1, but not once they are rounded.
    marked: Kept = _MARGINS_IN_ONE * (own * misses - (size - own) * hits) + size > 0
    n_classes = int(np.count_nonzero(sizes))
    pointed = hits + misses > 0
    for label in np.flatnonzero(sizes).tolist():
        members = labels == label
        if np.count_nonzero(members & ~marked) < _LEAST_CLASS_SIZE:
            marked &= ~(members & pointed)
    if n_classes > _MANY_CLASSES:
        marked &= ~((2 * misses < n_classes) & pointed)
    marked &= ~(4 * hits >= own)
    return marked


def _accuracy(keys: FloatArray, labels: IntArray, kept: Kept) -> float:
    """Return the share of the whole set that one nearest neighbour in `kept` gets right."""
    inside = np.flatnonzero(kept)
    if not len(inside):
        return 0.0
    nearest = inside[keys[:, inside].argmin(axis=1)]
    return float(np.mean(labels[nearest] == labels))


def _pairwise(xs: FloatArray, labels: IntArray) -> tuple[FloatArray, IntArray]:
    """Return exact squared Euclidean distances, (n, n), and labels coded without gaps, (n,).

    Each example's distance to itself is infinite: it is not its own neighbour.
    """
    check_instances(xs)
    check_codes("labels", labels, np.iinfo(np.int64).max, size=len(xs))
    rows = to_rows(xs)
    metric = make_metric("euclidean", xs.shape[1])
    keys = np.empty((len(rows), len(rows)))
    for line, row in zip(keys, rows, strict=True):
        line[:] = metric.keys(rows, row)
    np.fill_diagonal(keys, np.inf)
    # Votes are counted by code: without this, there would be as many as the largest label says.
    return keys, np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _edited(keys: FloatArray, labels: IntArray, k: int, *, repeated: bool) -> Kept:
    """Return what Wilson editing keeps."""
    kept = np.ones(len(labels), dtype=np.bool_)
    while True:
        inside = np.flatnonzero(kept)
        passed = _agreeing(keys[np.ix_(inside, inside)], labels[inside], k)
        kept[inside[~passed]] = False
        if passed.all() or not repeated:
            return kept


def _agreeing(keys: FloatArray, labels: IntArray, k: int) -> Kept:
    """Return which examples' labels are among the winners of their k nearest others."""
    ranked = np.argsort(keys, axis=1, kind="stable")[:, :-1][:, :k]
    if not ranked.shape[1]:
        return np.ones(len(labels), dtype=np.bool_)
    votes = np.stack([(labels[ranked] == c).sum(axis=1) for c in range(int(labels.max()) + 1)], 1)
    agreeing: Kept = votes[np.arange(len(labels)), labels] == votes.max(axis=1)
    return agreeing


def _nearest_enemies(keys: FloatArray, labels: IntArray) -> FloatArray:
    """Return each example's key to the nearest of another class, infinite without one."""
    rivals = np.where(labels[:, np.newaxis] != labels, keys, np.inf)
    enemies: FloatArray = rivals.min(axis=1, initial=np.inf)
    return enemies


def _first_alive(ranked: NDArray[np.intp], alive: Kept, count: int) -> list[int]:
    first: list[int] = ranked[alive[ranked]][:count].tolist()
    return first


def _vote(labels: IntArray) -> int:
    """Return the plurality label, the lowest of several; -1 where nobody votes."""
    return int(np.bincount(labels).argmax()) if len(labels) else -1
