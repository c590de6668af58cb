"""For each example of a moving window its nearest enemy: the nearest one of another label."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from learners.neighbors.graph import NeighborGraph, list_width
from learners.neighbors.lists import NeighborLists, Revision
from learners.neighbors.metrics import Rows, Slots
from learners.neighbors.search import queries_per_pass
from learners.neighbors.window import Window
from learners.validation import FloatArray

_FAR = np.float32(np.inf)


class EnemyGraph(NeighborGraph):
    """For each example the nearest one of another label, exact after every insert and eviction.

    What a change costs does not depend on how many labels there are; with one list per class, which
    `NeighborGraph` can keep, it would.

    Parameters
    ----------
    window
        An empty window, changed from now on only through the graph.

    Examples
    --------
    >>> graph = EnemyGraph(Window(9, n_features=1))
    >>> slots = graph.insert(np.array([[0], [1], [5]], np.float32), np.array([0, 0, 1]))
    >>> graph.neighbors(slots)[:, 0].tolist()
    [2, 2, 1]
    """

    def __init__(self, window: Window) -> None:
        super().__init__(window, k=1)

    def _new_pool(self) -> NeighborLists:
        return _EnemyLists(self.window, self.k, list_width(self.k))

    def _plan(
        self, number: int, gone: Slots, low: Rows, rows: Rows, labels: NDArray[np.integer]
    ) -> tuple[Slots, Revision]:
        friends = self.window.labels[: low.shape[1]] == labels[:, np.newaxis]
        return super()._plan(number, gone, np.where(friends, _FAR, low), rows, labels)


class _EnemyLists(NeighborLists):
    """Lists that hold none of their owner's label."""

    def search(self, owners: Slots) -> None:
        """Search the lists of `owners` anew; equal rows of one label share one search.

        Many equal rows all have the same enemies, which are the oldest: these leave together, and
        then nearly all lists are too short.
        """
        window = self._window
        rows = window.rows[owners]
        alike = np.column_stack((rows.view(np.int32), window.labels[owners].astype(np.int32)))
        _, firsts, group = np.unique(
            alike.view(np.dtype((np.void, alike.itemsize * alike.shape[1]))).ravel(),
            return_index=True,
            return_inverse=True,
        )
        step = queries_per_pass(window.extent)
        for start in range(0, len(firsts), step):
            some = firsts[start : start + step]
            near = self.near(owners[some], rows[some], window.propose(rows[some]))
            mine = np.flatnonzero((group >= start) & (group < start + step))
            lines = group[mine] - start
            self._store(owners[mine], near.slots[lines], near.keys[lines])

    def _rule_out(self, owners: Slots, low: Rows) -> None:
        # This rules out the owner itself too: it has the same label.
        labels = self._window.labels
        low[labels[: low.shape[1]] == labels[owners][:, np.newaxis]] = _FAR

    def _new_keys(
        self, owners: Slots, entered: NDArray[np.bool_], rows: Rows, bounds: FloatArray
    ) -> FloatArray:
        keys = super()._new_keys(owners, entered, rows, bounds)
        keys[~entered[:, owners].T] = np.inf
        return keys
