"""Distances: a fast single-precision proposal with a certified margin, and the exact value.

A metric answers in *keys*: numbers that grow with the distance and are what the graph sorts
by. The exact key is computed element by element in float64 in a fixed order, so that it is the
same on every machine and symmetric to the last bit. The proposal may use BLAS, which sums in
an order that depends on the CPU; it is only trusted within a bound that holds for every order
of summation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from learners.blas import product
from learners.validation import FloatArray, check_choice

Rows: TypeAlias = NDArray[np.float32]
#: int32 in lists, which are many; intp where made to index, which it does faster.
Slots: TypeAlias = NDArray[np.signedinteger]

#: Unit roundoff of float32.
_UNIT = 2.0**-24
#: Roundings of a proposal besides those of its sum: of norms, of scalars, of the last additions.
_OTHER_ROUNDINGS = 24
#: Products this small may be flushed to zero by the CPU; more than a row's worth of them.
_UNDERFLOW = 1e-30
#: Cosine distance below which two rows have one direction: rounding leaves up to 4e-32 (4,096
#: features), whereas different directions of float32 rows differ by some 1e-15 or more. (Without
#: this, whichever of several parallel neighbours came out as 0 had all the weight.)
_PARALLEL = 1e-28
#: Floats of temporary memory in one piece of a sweep over all rows: 512 KB.
_CHUNK = 1 << 17
#: Floats in one exact evaluation: 256 KB, which stay in the CPU's cache with what they come from.
_EXACT_CHUNK = 1 << 15
#: Multiplications in a matrix product that OpenBLAS still does without repacking.
_SMALL_PRODUCT = 640_000
#: Up to so many queries are multiplied piece by piece: two take a fifth to a half more time than
#: one, 16 half of what a whole product takes; from about 64 on a whole one is faster. This holds
#: for AVX-512 kernels; AVX2 kernels take as long as for a whole product.
_FEW_QUERIES = 16


def _relative_error(n_terms: int) -> float:
    """Bound the relative error of a float32 sum of products, for any order of summation."""
    roundings = (n_terms + _OTHER_ROUNDINGS) * _UNIT
    return roundings / (1.0 - roundings)


#: Sums along the last axis, in numpy's fixed order.
_sums: Callable[[FloatArray], FloatArray] = partial(np.add.reduce, axis=-1)


def _largest(sizes: Rows) -> float:
    return float(np.maximum.reduce(sizes, initial=0.0))


def _products(rows: Rows, queries: Rows, added: Rows | None = None) -> Rows:
    """Return the inner products of the queries (q, d) with all rows (n, d), (q, n), by BLAS.

    `added`, (n,), where it is given, is added to every query's.
    """
    products: Rows
    if len(queries) == 1:
        # One matrix-vector product reads the rows as they lie.
        products = product(rows, queries[0])[np.newaxis]
    elif 1 < len(queries) <= _FEW_QUERIES:
        # A matrix product repacks the rows, which costs more than multiplying them by a few
        # queries; small enough products avoid that.
        products = np.empty((len(queries), len(rows)), dtype=np.float32)
        columns = np.ascontiguousarray(queries.T)
        step = 1 + _SMALL_PRODUCT // queries.size
        for start in range(0, len(rows), step):
            some = slice(start, start + step)
            products[:, some] = product(rows[some], columns).T
    else:
        products = product(queries, rows.T)
    if added is not None:
        products += added
    return products


class Proposals(NamedTuple):
    """What is known of the keys of all rows to some queries before one of them is computed.

    Attributes
    ----------
    low
        Shape (q, n), float32: never above the exact key.
    margin
        Shape (q,): no exact key exceeds ``low + margin``, except of `unsure` ones in each line.
    unsure
        How many in each line may exceed it, by any amount.
    sizes
        Shape (q,): the metric's `sizes` of the queries.
    """

    low: Rows
    margin: FloatArray
    sizes: FloatArray
    unsure: int = 0

    def of(self, line: int) -> Proposals:
        """Return what is known for one query."""
        some = slice(line, line + 1)
        return Proposals(self.low[some], self.margin[some], self.sizes[some], self.unsure)


class Metric(ABC):
    """One distance between float32 rows, with its cache of one number per row.

    Parameters
    ----------
    n_features
        Length d of a row.
    """

    name: ClassVar[str]

    def __init__(self, n_features: int) -> None:
        self._error = _relative_error(n_features)
        #: Rows in one exact evaluation.
        self.at_once = max(1, _EXACT_CHUNK // n_features)

    @abstractmethod
    def sizes(self, rows: Rows) -> FloatArray:
        """Return what `propose` wants to know of each row, shape (n,); 0 for a zero row."""

    @abstractmethod
    def propose(self, rows: Rows, sizes: Rows, queries: Rows) -> Proposals:
        """Return lower bounds of all keys, and how far above them the keys may be.

        Parameters
        ----------
        rows
            Shape (n, d).
        sizes
            Shape (n,), float32: `sizes(rows)`.
        queries
            Shape (q, d).
        """

    @abstractmethod
    def keys(self, left: Rows, right: Rows) -> FloatArray:
        """Return the exact keys between paired rows (m, d) and (m, d) or (d,), shape (m,)."""

    def distances(self, keys: FloatArray) -> FloatArray:
        """Turn keys into distances; they are distances unless a metric says otherwise."""
        return keys

    def keys_in_chunks(
        self, rows: Rows, slots: Slots, right: Rows, lines: NDArray[np.intp] | None = None
    ) -> FloatArray:
        """Return the exact keys of `rows[slots]` against `right`, in bounded memory.

        `right` is one row (d,), a row for each slot (m, d), or rows of which `lines` (m,) says
        which is whose.
        """
        # Widened once, not in each piece; both give exact values.
        right = right.astype(np.float64)
        keys = np.empty(len(slots))
        for start in range(0, len(slots), self.at_once):
            some = slice(start, start + self.at_once)
            other = right
            if right.ndim == 2:
                other = right[some] if lines is None else right.take(lines[some], axis=0)
            keys[some] = self.keys(rows.take(slots[some], axis=0), other)
        return keys


class Euclidean(Metric):
    """The Euclidean distance; the key is its square."""

    name = "euclidean"

    def sizes(self, rows: Rows) -> FloatArray:
        """Return the squared norms, less their share of the error."""
        return _sums(np.square(rows, dtype=np.float64)) * (1.0 - self._error)

    def propose(self, rows: Rows, sizes: Rows, queries: Rows) -> Proposals:
        """Expand |x - y|^2 = |x|^2 + |y|^2 - 2 x.y; the error is at most e (|x|^2 + |y|^2)."""
        low = _products(rows, queries * np.float32(-2.0), sizes)
        own = self.sizes(queries)
        low += (own[:, np.newaxis] - _UNDERFLOW).astype(np.float32)
        margin = (own + _largest(sizes)) * (2.2 * self._error) + 2.0 * _UNDERFLOW
        return Proposals(low, margin, own)

    def keys(self, left: Rows, right: Rows) -> FloatArray:
        """Return the sums of squared differences."""
        gap: FloatArray = np.subtract(left, right, dtype=np.float64)
        gap *= gap
        return _sums(gap)

    def distances(self, keys: FloatArray) -> FloatArray:
        """Return the square roots."""
        roots: FloatArray = np.sqrt(keys)
        return roots


class Manhattan(Metric):
    """The sum of absolute differences."""

    name = "manhattan"

    def sizes(self, rows: Rows) -> FloatArray:
        """Return the sums of absolute values."""
        return _sums(np.abs(rows.astype(np.float64)))

    def propose(self, rows: Rows, sizes: Rows, queries: Rows) -> Proposals:
        """Sum in float32; the error is at most e (|x| + |y|) in the sums of absolute values."""
        low = np.empty((len(queries), len(rows)), dtype=np.float32)
        step = max(1, _CHUNK // rows.shape[1])
        for start in range(0, len(rows), step):
            for line, query in zip(low, queries, strict=True):
                gap = rows[start : start + step] - query
                np.abs(gap, out=gap)
                np.add.reduce(gap, axis=1, out=line[start : start + step])
        own = self.sizes(queries)
        reach = self._error * (own + _largest(sizes)) + _UNDERFLOW
        low -= reach.astype(np.float32)[:, np.newaxis]
        return Proposals(low, 2.1 * reach, own)

    def keys(self, left: Rows, right: Rows) -> FloatArray:
        """Return the sums of absolute differences."""
        gap: FloatArray = np.subtract(left, right, dtype=np.float64)
        np.abs(gap, out=gap)
        return _sums(gap)


class Cosine(Metric):
    """One minus the cosine of the angle, in [0, 2].

    Computed as half the squared distance of the unit vectors, which is exactly 0 for equal rows;
    below 1e-28 it is rounding between parallel rows, and counts as 0. A zero row has distance 1
    from every other and 0 from another zero row.
    """

    name = "cosine"

    def sizes(self, rows: Rows) -> FloatArray:
        """Return one over the norms, and 0 for a zero row."""
        wide = rows.astype(np.float64)
        norms = np.sqrt(_sums(wide * wide))
        inverse: FloatArray = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
        return inverse

    def propose(self, rows: Rows, sizes: Rows, queries: Rows) -> Proposals:
        """Propose 1 - x.y / (|x| |y|) within e; a zero row could be as near as 0."""
        own = self.sizes(queries)
        units = (queries * own[:, np.newaxis]).astype(np.float32)
        low = _products(rows, units)
        low *= -sizes
        low += np.float32(1.0 - 2.0 * self._error)
        zero = sizes == 0
        margin = np.full(len(queries), 4.2 * self._error)
        # A query of zeros is 1 from all others, as its products say.
        if zero.any():
            low[:, zero] = 0.0
            margin += 1.0
        return Proposals(low, margin, own)

    def keys(self, left: Rows, right: Rows) -> FloatArray:
        """Return half the squared distances of the unit vectors."""
        one, other = self._units(left), self._units(right)
        gap = one - other
        gap *= gap
        keys = 0.5 * _sums(gap)
        keys = np.where(keys < _PARALLEL, 0.0, keys)
        lonely = one.any(axis=-1) != other.any(axis=-1)
        return np.where(lonely, 1.0, keys)

    def _units(self, rows: Rows) -> FloatArray:
        wide = rows.astype(np.float64)
        norms = np.sqrt(_sums(wide * wide))[..., np.newaxis]
        units: FloatArray = np.divide(wide, norms, out=np.zeros_like(wide), where=norms > 0)
        return units


_METRICS: dict[str, type[Metric]] = {
    metric.name: metric for metric in (Euclidean, Manhattan, Cosine)
}
METRIC_NAMES = tuple(_METRICS)


def make_metric(name: str, n_features: int) -> Metric:
    """Return the metric of this name.

    Raises
    ------
    ParameterError
        If the name is none of `METRIC_NAMES`.

    Examples
    --------
    >>> metric = make_metric("manhattan", 2)
    >>> metric.keys(np.array([[0, 1], [2, 2]], np.float32), np.array([1, 1], np.float32))
    array([1., 2.])
    """
    return _METRICS[check_choice("metric", name, METRIC_NAMES)](n_features)
