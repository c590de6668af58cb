"""What the hubness-aware learners share, and the simplest of them."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from learners.neighbors.counts import Occurrences
from learners.neighbors.graph import NeighborGraph
from learners.neighbors.hubness import mean_and_deviation
from learners.neighbors.search import Found
from learners.neighbors.window_learner import DEFAULT_WINDOW, WindowLearner
from learners.validation import FloatArray

#: Default number of neighbours: what the authors of the hubness-aware learners use.
DEFAULT_K_HUBNESS = 5


class HubnessLearner(WindowLearner):
    """A window learner that knows how often each example is a neighbour of which labels.

    The k oldest of equally near examples vote: the occurrence models are of exactly k.

    Parameters
    ----------
    n_features
        Length d of an instance.
    n_labels
        Number K of labels.
    window
        Most examples held.
    k
        Neighbours that vote, and that are counted.
    metric
        Name of the distance.
    """

    def __init__(self, n_features: int, n_labels: int, *, window: int, k: int, metric: str) -> None:
        super().__init__(n_features, n_labels, window=window, k=k, metric=metric)
        graph = NeighborGraph(self._examples, self.k)
        self._occurrences = Occurrences(graph, self.n_labels, self.k)
        self._follow(graph, self._occurrences)

    def occurrences(self) -> NDArray[np.int64]:
        """Return N_k of all examples, oldest first: of how many each is among the k nearest."""
        counts: NDArray[np.int64] = self._occurrences.total(self._examples.live())
        return counts

    def _places(self) -> int:
        """Return how many places an example and its list have: k + 1, or all examples there are."""
        return min(self.k + 1, len(self))

    def _priors(self) -> FloatArray:
        """Return the shares of the labels in the window."""
        priors: FloatArray = self._examples.label_counts(self.n_labels) / max(1, len(self))
        return priors


class HwKNN(HubnessLearner):
    """The vote weighted by how good a neighbour each example has been: hw-kNN.

    Use it in many dimensions, where some examples (bad hubs) are neighbours of many that carry
    another label. It weighs, but still believes each neighbour's own label; `HFNN` and `NHBNN`
    do not, and tolerate more noise. O(N d) a decision and an example.

    Rule, [1]_: with BN_i the number of examples that have i among their k nearest and carry
    another label than i, standardised over the window to h_i, a neighbour's vote counts
    ``exp(-h_i)``; 1 where all BN are alike.

    Parameters
    ----------
    n_features
        Length d of an instance, at least 1.
    n_labels
        Number K of labels, at least 1.
    window
        Most examples held, at least 1; 1,000 by default.
    k
        Neighbours that vote, at least 1; 5 by default.
    metric
        ``"euclidean"`` (the default), ``"manhattan"`` or ``"cosine"``.

    Raises
    ------
    ParameterError
        If a parameter is of the wrong type or out of range.

    References
    ----------
    .. [1] Radovanovic, Nanopoulos and Ivanovic, 2009, as in Tomasev and Buza, *Hubness-aware
       kNN classification of high-dimensional data in presence of label noise*, 2015,
       section 4.1.

    Examples
    --------
    The example in the middle, nearest to all others, has a wrong label:

    >>> learner = HwKNN(n_features=2, n_labels=2, k=3)
    >>> cross = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> learner.learn_many(cross, np.array([0, 1, 1, 1, 1]))
    >>> learner.scores(np.array([0.1, 0.2])).round(2).tolist()  # of KNN: 1, 2
    [0.15, 2.69]
    """

    kind: ClassVar[str] = "hw_knn"

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        *,
        window: int = DEFAULT_WINDOW,
        k: int = DEFAULT_K_HUBNESS,
        metric: str = "euclidean",
    ) -> None:
        super().__init__(n_features, n_labels, window=window, k=k, metric=metric)
        self._cached: tuple[tuple[int, int], float, float] | None = None

    def _votes(self, found: Found) -> FloatArray:
        mean, deviation = self._badness()
        bad = self._occurrences.bad(found.slots).tolist()
        weights = [math.exp((mean - each) / deviation) if deviation else 1.0 for each in bad]
        votes: FloatArray = self._labels_of(found) * np.array(weights).reshape(-1, 1)
        return votes

    def _badness(self) -> tuple[float, float]:
        """Return mean and standard deviation of BN over the window."""
        version = (self._examples.first, self._examples.next)
        if self._cached is None or self._cached[0] != version:
            bad = self._occurrences.bad(self._examples.live())
            self._cached = (version, *mean_and_deviation(bad))
        return self._cached[1:]
