"""The last N examples, first in first out, in a ring of float32 rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from learners.errors import InputError, ParameterError, expected
from learners.neighbors.metrics import Proposals, Rows, Slots, make_metric
from learners.validation import (
    MAX_FEATURE,
    FloatArray,
    check_codes,
    check_count,
    described,
)

Labels = NDArray[np.int32]
Seqs = NDArray[np.int64]

#: Features nearer to 0 than this are stored as 0: below about 1e-38 float32 loses digits, and
#: the products of two such features would be lost altogether.
SMALLEST_FEATURE = 1e-30


def to_rows(xs: FloatArray) -> Rows:
    """Round instances to float32 rows, tiny features to 0.

    Examples
    --------
    >>> to_rows(np.array([[0.5, 1e-40]]))
    array([[0.5, 0. ]], dtype=float32)
    """
    # In C order whatever `xs` is: sums along a row depend on how it lies in memory.
    rows: Rows = xs.astype(np.float32, order="C")
    rows[np.abs(rows) < SMALLEST_FEATURE] = 0.0
    return rows


def sound(rows: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Return which features are as `to_rows` leaves them: the search's bounds hold for no others.

    Examples
    --------
    >>> sound(np.array([[0, 0.5, 1e6], [1e-38, np.nan, 3e38]], np.float32)).tolist()
    [[True, True, True], [False, False, False]]
    """
    sizes = np.abs(rows)
    # Written so that NaN, which compares as false, is among the bad.
    good: NDArray[np.bool_] = (sizes <= MAX_FEATURE) & ((sizes >= SMALLEST_FEATURE) | (sizes == 0))
    return good


#: What `sound` features are, in the words of an error.
SOUND = f"0 or a size in [{SMALLEST_FEATURE:g}, {MAX_FEATURE:g}]"

#: Bytes in a line of the CPU's cache.
_LINE = 64
#: Labels are held as int32.
MOST_LABELS = 1 << 31
#: The label of a list place that holds nobody.
NO_LABEL = -1

#: Most features: with more, float32 sums are too far off for the search's bounds to hold.
MOST_FEATURES = 1 << 20

#: Most floats in one window, 1 GB: beyond it a wrong option would exhaust memory.
MAX_WINDOW_FLOATS = 250_000_000


class Window:
    """A ring of labelled rows; a row's place in it is its *slot*, its age its *seq*.

    Example number s (from 0) lies in slot ``s % capacity``, so the live ones are a contiguous
    run of seqs ``[first, next)`` and nothing but these two numbers says who is alive.

    Parameters
    ----------
    capacity
        Most examples held, at least 1. Memory is ``4 d + 8`` bytes for each.
    n_features
        Length d of an instance.
    metric
        Name of the distance: ``"euclidean"``, ``"manhattan"`` or ``"cosine"``.

    Raises
    ------
    ParameterError
        If a parameter is not as said, or the window would hold more than `MAX_WINDOW_FLOATS`.

    Examples
    --------
    >>> window = Window(2, n_features=1)
    >>> for value, label in ((1.0, 0), (2.0, 1), (3.0, 1)):
    ...     window.push(to_rows(np.array([[value]])), np.array([label]))
    >>> window.seqs(window.live()).tolist(), window.rows[window.live(), 0].tolist()
    ([1, 2], [2.0, 3.0])
    """

    def __init__(self, capacity: int, n_features: int, metric: str = "euclidean") -> None:
        self.capacity = check_count("window", capacity)
        self.n_features = check_count("n_features", n_features, 1, MOST_FEATURES)
        if self.capacity * self.n_features > MAX_WINDOW_FLOATS:
            what = f"at most {MAX_WINDOW_FLOATS // self.n_features} for {n_features} features"
            raise ParameterError(expected("window", what, capacity))
        self.rows = _aligned_rows(self.capacity, self.n_features)
        self.metric = make_metric(metric, n_features)
        self._sizes: Rows = np.zeros(self.capacity, dtype=np.float32)
        #: One longer than the ring: the last entry is what an unused list place points to.
        self.labels: Labels = np.zeros(self.capacity + 1, dtype=np.int32)
        self.labels[-1] = NO_LABEL
        self.first = 0
        self.next = 0

    def __len__(self) -> int:
        return self.next - self.first

    @property
    def extent(self) -> int:
        """How many slots were ever used: no live slot is at or beyond it."""
        return min(self.next, self.capacity)

    def live(self) -> Slots:
        """Return the live slots, oldest first."""
        return self.slots_between(self.first, self.next)

    def seqs(self, slots: Slots) -> Seqs:
        """Return the seqs of live slots."""
        ages = (slots.astype(np.int64) - self.first) % self.capacity
        seqs: Seqs = ages + self.first
        return seqs

    def label_counts(self, n_labels: int) -> NDArray[np.int64]:
        """Return how many examples have each label, (n_labels,)."""
        whole = len(self) == self.extent
        labels = self.labels[: self.extent] if whole else self.labels[self.live()]
        return np.bincount(labels, minlength=n_labels)

    def surplus(self, incoming: int) -> int:
        """Return how many must go before `incoming` more fit."""
        return max(0, len(self) + incoming - self.capacity)

    def forget(self, count: int) -> None:
        """Forget the `count` oldest examples."""
        self.first += count

    def append(
        self, rows: Rows, labels: NDArray[np.integer], sizes: FloatArray | None = None
    ) -> Slots:
        """Store new examples, for which there must be room, and return their slots.

        `sizes` are the metric's, where they are known. Unchecked, because a graph has already
        checked them: with a window alone, use `push`.
        """
        slots = self.slots_between(self.next, self.next + len(rows))
        start = self.next % self.capacity
        whole = start + len(rows) <= self.capacity
        # Writing a slice takes less time than single slots.
        places = slice(start, start + len(rows)) if whole else slots
        self.rows[places] = rows
        self._sizes[places] = self.metric.sizes(rows) if sizes is None else sizes
        self.labels[places] = labels
        self.next += len(rows)
        return slots

    def push(self, rows: Rows, labels: NDArray[np.integer]) -> None:
        """Append examples after evicting what is in their way; the last ones stay.

        Raises
        ------
        InputError
            If a row is not `sound`, or `labels` are no codes, one a row; then nothing is changed.
        """
        check_rows(rows, self.n_features)
        check_codes("labels", labels, MOST_LABELS, size=len(rows))
        self.push_sound(rows, labels)

    def push_sound(self, rows: Rows, labels: NDArray[np.integer]) -> None:
        """Do what `push` does, with rows that are known to be `sound`, and labels to be codes."""
        skipped = max(0, len(rows) - self.capacity)
        self.forget(self.surplus(len(rows) - skipped))
        if skipped:
            self.first = self.next = self.next + skipped
        self.append(rows[skipped:], labels[skipped:])

    # -- distances ------------------------------------------------------------------------
    def propose(self, queries: Rows) -> Proposals:
        """Return `Metric.propose` of the queries (q, d) against all slots ever used."""
        extent = self.extent
        return self.metric.propose(self.rows[:extent], self._sizes[:extent], queries)

    def propose_among(self, slots: Slots) -> Proposals:
        """Return `Metric.propose` of the rows in these slots against each other."""
        rows = self.rows[slots]
        return self.metric.propose(rows, self._sizes[slots], rows)

    def keys(self, slots: Slots, right: Rows, lines: NDArray[np.intp] | None = None) -> FloatArray:
        """Return the exact keys of `slots` (m,), in bounded memory; see `Metric.keys_in_chunks`."""
        if len(slots) <= self.metric.at_once:
            others = right if lines is None else right.take(lines, axis=0)
            return self.metric.keys(self.rows.take(slots, axis=0), others)
        return self.metric.keys_in_chunks(self.rows, slots, right, lines)

    def slots_between(self, start: int, stop: int) -> Slots:
        """Return the slots of the seqs [start, stop), whether alive or not."""
        if stop - start == 1:
            return np.array([start % self.capacity], dtype=np.intp)
        slots: Slots = np.arange(start, stop, dtype=np.intp)
        slots %= self.capacity
        return slots


def _aligned_rows(count: int, n_features: int) -> Rows:
    """Return rows of zeros that begin with a line of the cache.

    Numpy aligns to 16 bytes; a product of all rows with two queries then takes a fifth more time.
    """
    memory = np.zeros(count * n_features * 4 + _LINE, dtype=np.uint8)
    start = -memory.ctypes.data % _LINE
    rows: Rows = memory[start : start + count * n_features * 4].view(np.float32)
    return rows.reshape(count, n_features)


def wrapped(first: int, count: int, capacity: int) -> int:
    """Return how many of the newest examples lie before the oldest one in a ring.

    States hold rows in the ring's order: a new example then changes only what it overwrites, not
    every place.

    Examples
    --------
    >>> wrapped(first=3, count=4, capacity=5)  # in the slots 3, 4, 0 and 1
    2
    """
    return max(0, first % capacity + count - capacity)


def check_rows(rows: Rows, n_features: int) -> None:
    """Raise InputError unless these are `sound` float32 rows of shape (n, n_features)."""
    if not (
        isinstance(rows, np.ndarray)
        and rows.dtype == np.float32
        and rows.ndim == 2
        and rows.shape[1] == n_features
    ):
        raise InputError(f"rows: expected a float32 array (n, {n_features}), got {described(rows)}")
    good = sound(rows)
    if not good.all():
        row, feature = np.argwhere(~good)[0].tolist()
        raise InputError(expected(f"rows[{row}, {feature}]", SOUND, float(rows[row, feature])))
