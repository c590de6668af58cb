"""What is counted over the graph, kept up to date by integer additions alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from learners.neighbors.graph import NeighborGraph
from learners.neighbors.metrics import Slots
from learners.validation import check_count

Counts = NDArray[np.int64]


class Occurrences:
    """How often each example is among the k nearest of others, in all and by their labels.

    ``N_k(i)`` is the number of examples j that have i among their k nearest, ``N_{k,c}(i)``
    the number of those with label c, ``BN(i)`` of those with another label than i.

    Parameters
    ----------
    graph
        What is counted over. Register with it while its window is empty:
        ``graph.observe([occurrences])``.
    n_labels
        Number K of labels.
    k
        Neighbours counted, at most the graph's k.

    Raises
    ------
    ParameterError
        If `k` is not as said.

    References
    ----------
    .. [1] Tomasev and Buza, *Hubness-aware kNN classification of high-dimensional data in
       presence of label noise*, 2015, section 3.
    """

    def __init__(self, graph: NeighborGraph, n_labels: int, k: int) -> None:
        self.graph = graph
        self.k = check_count("k", k, 1, graph.k)
        size = graph.window.capacity + 1
        self._by_label: Counts = np.zeros((size, n_labels), dtype=np.int64)
        self._n_labels = n_labels

    @property
    def by_label(self) -> Counts:
        """N_{k,c} by slot and label, (capacity + 1, K); the last line is meaningless.

        Their sum over the labels is N_k.
        """
        self._by_label = _widened(self._by_label, self._n_labels)
        return self._by_label

    def add_labels(self, count: int) -> None:
        """Make room for `count` more: at the next reading, once for all that were added."""
        self._n_labels += count

    def total(self, slots: Slots) -> Counts:
        """Return N_k of these slots."""
        total: Counts = np.add.reduce(self.by_label.take(slots, axis=0), axis=1)
        return total

    def most(self) -> int:
        """Return the largest N_k; 0 for an empty window."""
        # Slots that are not alive occur nowhere.
        used = self.by_label[: self.graph.window.extent]
        # Takes a third of the time of a sum along such short lines.
        return int(np.einsum("ij->i", used).max(initial=0))

    def bad(self, slots: Slots) -> Counts:
        """Return BN of these slots."""
        bad: Counts = self.total(slots) - self.by_label[slots, self.graph.window.labels[slots]]
        return bad

    def of_label(self, label: int) -> Counts:
        """Return the sum of N_{k,c} over the examples of one label, by c, (K,)."""
        used = self.graph.window.extent
        # Slots that are not alive occur nowhere.
        own = np.flatnonzero(self.graph.window.labels[:used] == label)
        places: Counts = np.add.reduce(self.by_label.take(own, axis=0), axis=0)
        return places

    def forget(self, slots: Slots) -> None:
        """Take back the places in these slots' lists."""
        self._add(slots, -1)

    def count(self, slots: Slots) -> None:
        """Add the places in these slots' lists."""
        self._add(slots, 1)

    def _add(self, slots: Slots, sign: int) -> None:
        labels, by_label = self.graph.window.labels, self.by_label
        n_labels = by_label.shape[1]
        # Places that hold nobody are counted in the last entry.
        lists = self.graph.neighbors(slots, self.k)
        places = np.multiply(lists, n_labels, dtype=np.intp)
        places += labels.take(slots)[:, np.newaxis]
        np.add.at(by_label.reshape(-1), places.ravel(), sign)


class NeighborhoodLabels:
    """For each example the labels among itself and its k' nearest, and how often each count occurs.

    These are the k'-averages from which the noise rates are estimated: entry (i, c) of
    `by_label` over `size` is the share of label c around example i. `histogram` says how many
    examples have each count, so that extremes and quantiles of the shares are read off without
    a pass over the window.

    Parameters
    ----------
    graph
        What is counted over. Register with it while its window is empty:
        ``graph.observe([labels])``.
    n_labels
        Number K of labels.
    k
        k', the neighbours counted besides the example itself, at most the graph's k.

    Raises
    ------
    ParameterError
        If `k` is not as said.

    Attributes
    ----------
    histogram
        (K, k' + 2): entry (c, m) is the number of examples with m times label c around them.

    References
    ----------
    .. [1] Gao, Niu and Zhou, *On the consistency of exact and approximate nearest neighbor
       with noisy data*, 2016, section 4 (pi_0(x_j) = j: the example itself counts).
    """

    def __init__(self, graph: NeighborGraph, n_labels: int, k: int) -> None:
        self._graph = graph
        self.k = check_count("k", k, 0, graph.k)
        self._by_label: Counts = np.zeros((graph.window.capacity, n_labels), dtype=np.int64)
        self.histogram: Counts = np.zeros((n_labels, k + 2), dtype=np.int64)
        self._lines = self._line_starts()

    @property
    def by_label(self) -> Counts:
        """Counts by slot and label, (capacity, K)."""
        self._by_label = _widened(self._by_label, len(self.histogram))
        return self._by_label

    @property
    def size(self) -> int:
        """How many labels are counted around each example: k' + 1, or all there are."""
        return min(self.k + 1, len(self._graph))

    def add_labels(self, count: int) -> None:
        """Make room for `count` more labels, which no example has yet."""
        # The counts by slot are widened when next read, once for all that were added.
        self.histogram = np.pad(self.histogram, ((0, count), (0, 0)))
        self.histogram[-count:, 0] = len(self._graph)
        self._lines = self._line_starts()

    def forget(self, slots: Slots) -> None:
        """Take these slots out of the histogram."""
        self._tally(self.by_label.take(slots, axis=0), -1)

    def count(self, slots: Slots) -> None:
        """Count the labels around these slots anew and put them into the histogram."""
        members = self._graph.neighbors(slots, self.k)
        around = np.concatenate((slots[:, np.newaxis], members), axis=1)
        # The first column takes the places that hold nobody: there the label is -1.
        width = len(self.histogram) + 1
        firsts = np.arange(1, len(slots) * width, width)
        places = self._graph.window.labels.take(around) + firsts[:, np.newaxis]
        tally = np.bincount(places.ravel(), minlength=len(slots) * width)
        counts = tally.reshape(len(slots), width)[:, 1:]
        self.by_label[slots] = counts
        self._tally(counts, 1)

    def _tally(self, counts: Counts, sign: int) -> None:
        np.add.at(self.histogram.reshape(-1), (counts + self._lines).ravel(), sign)

    def _line_starts(self) -> Counts:
        """Return where each label's line begins in the histogram."""
        return np.arange(0, self.histogram.size, self.histogram.shape[1])


def _widened(counts: Counts, n_labels: int) -> Counts:
    """Return the counts with `n_labels` columns, new ones empty; as they are where they have them.

    A copy takes some 20 ms for a large window, and many labels may be added at once.
    """
    more = n_labels - counts.shape[1]
    return np.pad(counts, ((0, 0), (0, more))) if more else counts
