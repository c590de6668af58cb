"""The Laplace score: which examples sit between the classes, from two neighbour graphs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from learners.neighbors.graph import NeighborGraph
from learners.neighbors.metrics import Slots
from learners.neighbors.window import Labels, Window
from learners.validation import FloatArray, check_count

#: A score this little below 0 is rounding: it is kept.
_TOLERANCE = 1e-12


class LaplaceFilter:
    """Critical examples of a moving window, by the Laplacian of its between-class graph.

    Use it to thin a training set around the class boundary, where mislabelled examples lie too;
    what is kept classifies better by one nearest neighbour under noise. It is no detector with a
    null hypothesis: a weighted sum of the scores is 0, so unless all scores are 0 it removes
    something from clean data as well, and about half of randomly labelled data.

    Rule, [1]_ sections 2 and 3: two undirected graphs join each example to its K nearest of its
    own class (E_wc), and to its K nearest of *each* other class (E_bc), in either direction. With g
    and d the degrees in them::

        score(u) = g(u) - sum over v next to u in E_bc of g(v) / sqrt(d(u) d(v))
        keep u iff score(u) >= 0

    and 0 for an example without edges in E_bc. Degrees and edges follow each insert and
    eviction in O(K C) besides the graph's own work; a score is summed when asked for.

    Parameters
    ----------
    window
        An empty window, changed from now on only through `graph`.
    n_classes
        Number C of classes, at least 1.
    k
        K, at least 1; 1 by default. The paper tries 1, 3 and 5.

    Raises
    ------
    ParameterError
        If a parameter is of the wrong type or out of range.

    References
    ----------
    .. [1] Marchiori, *Graph-based discrete differential geometry for critical instance
       filtering*, 2009.

    Examples
    --------
    >>> points = LaplaceFilter(Window(8, n_features=1), n_classes=2)
    >>> rows = np.array([[0, 1, 2.1, 3.3, 5, 6.2, 7.5, 9]], np.float32).T
    >>> slots = points.graph.insert(rows, np.array([0, 0, 0, 1, 0, 1, 1, 1]))
    >>> np.flatnonzero(~points.kept()).tolist()
    [3, 4]
    """

    def __init__(self, window: Window, n_classes: int, k: int = 1) -> None:
        self.k = check_count("k", k)
        self.graph = NeighborGraph(window, self.k, check_count("n_classes", n_classes))
        self._window = window
        self._n_classes = n_classes
        # Neighbours in E_wc and E_bc by slot: how many of the two ends hold the edge (1 or 2).
        self._within: list[dict[int, int]] = [{} for _ in range(window.capacity)]
        self._between: list[dict[int, int]] = [{} for _ in range(window.capacity)]
        self.graph.observe([self])

    def degrees(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return g and d of all examples, oldest first."""
        live = self._window.live().tolist()
        within = [len(self._within[slot]) for slot in live]
        between = [len(self._between[slot]) for slot in live]
        return np.array(within, dtype=np.int64), np.array(between, dtype=np.int64)

    def score(self, slot: int) -> float:
        """Return the score of the example in one slot."""
        rivals = self._between[slot]
        if not rivals:
            return 0.0
        size = len(rivals)
        terms = [
            len(self._within[other]) / np.sqrt(size * len(self._between[other]))
            for other in sorted(rivals, key=self._age)
        ]
        return len(self._within[slot]) - float(sum(terms))

    def scores(self) -> FloatArray:
        """Return the scores of all examples, oldest first."""
        return np.array([self.score(slot) for slot in self._window.live().tolist()])

    def kept(self) -> NDArray[np.bool_]:
        """Return which examples the filter keeps, oldest first."""
        kept: NDArray[np.bool_] = self.scores() >= -_TOLERANCE
        return kept

    # -- following the graph --------------------------------------------------------------
    def forget(self, slots: Slots) -> None:
        """Take back these slots' edges."""
        self._add(slots, -1)

    def count(self, slots: Slots) -> None:
        """Add these slots' edges."""
        self._add(slots, 1)

    def _add(self, slots: Slots, sign: int) -> None:
        labels: Labels = self._window.labels
        for pool in range(self._n_classes):
            lists = self.graph.neighbors(slots, pool=pool).tolist()
            for slot, own, members in zip(
                slots.tolist(), labels[slots].tolist(), lists, strict=True
            ):
                edges = self._within if own == pool else self._between
                for member in members:
                    if member < self._window.capacity:
                        _change(edges[slot], member, sign)
                        _change(edges[member], slot, sign)

    def _age(self, slot: int) -> int:
        return (slot - self._window.first) % self._window.capacity


def _change(edges: dict[int, int], other: int, sign: int) -> None:
    """Count one more or one less end that holds an edge, and drop it at 0."""
    held = edges.get(other, 0) + sign
    if held:
        edges[other] = held
    else:
        del edges[other]
