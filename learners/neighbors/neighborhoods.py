"""Who is near whom in a window at one moment, apart from the window that moves on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from learners.neighbors.graph import NeighborGraph
from learners.neighbors.window import Labels

Counts = NDArray[np.int64]


class Neighborhoods(NamedTuple):
    """The k nearest others of each example, oldest example first.

    Attributes
    ----------
    first
        Seq of the oldest example.
    labels
        Shape (n,): the examples' labels.
    members
        Shape (n, k): places of the nearest, from 0 for the oldest; n where there is nobody.
    """

    first: int
    labels: Labels
    members: NDArray[np.int32]

    def occurrences(self) -> Counts:
        """Return N_k: in how many lists each example is, (n,)."""
        size = len(self.labels)
        return np.bincount(self.members.ravel(), minlength=size + 1)[:size]

    def bad_occurrences(self) -> Counts:
        """Return BN_k: in how many lists of examples with another label each is, (n,)."""
        size = len(self.labels)
        other = self.labels_around() != self.labels[:, np.newaxis]
        return np.bincount(self.members[other], minlength=size + 1)[:size]

    def labels_around(self) -> Labels:
        """Return the labels of the nearest, (n, k); -1 where there is nobody."""
        return np.append(self.labels, np.int32(-1))[self.members]


def neighborhoods(graph: NeighborGraph, k: int) -> Neighborhoods:
    """Copy the first k neighbours (at most the graph's k) of each example in a graph's window.

    Examples
    --------
    >>> from learners.neighbors.window import Window
    >>> graph = NeighborGraph(Window(3, n_features=1), k=1)
    >>> for value in (9.0, 0.0, 1.0, 5.0):
    ...     slots = graph.insert(np.array([[value]], np.float32), np.array([0]))
    >>> found = neighborhoods(graph, 1)
    >>> found.first, found.members[:, 0].tolist(), found.occurrences().tolist()
    (1, [1, 0, 1], [1, 2, 0])
    """
    window = graph.window
    live = window.live()
    places = np.full(window.capacity + 1, len(live), dtype=np.int32)
    places[live] = np.arange(len(live), dtype=np.int32)
    return Neighborhoods(window.first, window.labels[live], places[graph.neighbors(live, k)])
