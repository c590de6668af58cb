"""Two baselines that weigh the vote: by distance to the enemy (AKNN), by class size (NWKNN)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from learners.neighbors.enemies import EnemyGraph
from learners.neighbors.hubness_learner import DEFAULT_K_HUBNESS
from learners.neighbors.metrics import Rows, Slots
from learners.neighbors.options import check_flag
from learners.neighbors.search import Found
from learners.neighbors.window_learner import DEFAULT_WINDOW, WindowLearner
from learners.validation import FloatArray, check_number

#: Least distance to an enemy: equal examples with different labels would divide by 0.
_LEAST_RADIUS = 1e-12
#: Default exponent of the class weights, as in the hubness library.
_EXPONENT = 4.0


class AKNN(WindowLearner):
    """kNN with distances in units of each example's distance to its nearest enemy.

    Use it as a baseline: examples deep inside their class reach further, lonely ones among
    others (as mislabelled ones are) hardly at all. A decision computes all distances exactly:
    slower than `KNN`, and more so than the other learners here.

    Rule, [1]_: rank examples by ``d(x, x_i) / r_i``, r_i the distance from x_i to the nearest
    example of another label (at least 1e-12); the k first vote, and all that tie with the k-th.
    With one label in the window it is `KNN`. Where none of these may be chosen, the first of the
    labels that may vote, by the same ranks.

    Parameters
    ----------
    n_features
        Length d of an instance, at least 1.
    n_labels
        Number K of labels, at least 1.
    window
        Most examples held, at least 1; 1,000 by default.
    k
        Neighbours that vote, at least 1; 5 by default. All that tie with the k-th vote.
    metric
        ``"euclidean"`` (the default), ``"manhattan"`` or ``"cosine"``.

    Raises
    ------
    ParameterError
        If a parameter is of the wrong type or out of range.

    References
    ----------
    .. [1] Wang, Neskovic and Cooper, *Improving nearest neighbor rule with a simple adaptive
       distance measure*, 2007.

    Examples
    --------
    >>> learner = AKNN(n_features=1, n_labels=2, k=1)
    >>> learner.learn_many(np.array([[0.0], [5.0], [6.0]]), np.array([0, 1, 0]))
    >>> learner.distribution(np.array([4.0])).greedy  # 4/5 of a radius from the first
    0
    """

    kind: ClassVar[str] = "aknn"
    _ties_vote: ClassVar[bool] = True

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
        # Not the graph for hubs and alarms: nearest enemies say nothing about those.
        self._enemies = EnemyGraph(self._examples)

    def radii(self) -> FloatArray:
        """Return r_i of all examples, oldest first; infinite where there is no other label."""
        keys = self._enemies.keys(self._examples.live())[:, 0]
        return np.maximum(self._examples.metric.distances(keys), _LEAST_RADIUS)

    def _insert(self, rows: Rows, labels: NDArray[np.integer]) -> None:
        self._enemies.insert_sound(rows, labels)

    def _find_all(self, rows: Rows, more: int = 0) -> list[Found]:
        live, radii = self._examples.live(), self.radii()
        return [self._first(row, live, radii, self.k + more) for row in rows]

    def _find_among(self, row: Rows, may: NDArray[np.bool_]) -> Found:
        # Also enemies that may not be chosen bound how far an example reaches.
        live = self._examples.live()
        members = may[self._examples.labels[live]]
        return self._first(row[0], live[members], self.radii()[members], self.k)

    def _first(self, row: Rows, slots: Slots, radii: FloatArray, count: int) -> Found:
        """Return the first `count` of some examples, and all that tie with the last of them."""
        keys = self._examples.keys(slots, row)
        distances = self._examples.metric.distances(keys)
        # Without an enemy, the only label's radii are all infinite: plain distance ranks.
        ranks = distances / radii if np.isfinite(radii).any() else distances
        order = np.argsort(ranks, kind="stable")
        if count < len(order):
            order = order[: ranks[order].searchsorted(ranks[order[count - 1]], side="right")]
        return Found(slots[order], keys[order])


class NWKNN(WindowLearner):
    """kNN whose votes make up for uneven classes.

    Use it as a baseline, where some labels are rare and their recall matters more than
    accuracy. It does not defend against label noise.

    Rule, [1]_: each vote for label c counts ``(n_c / min n)^(-1 / exponent)``, n_c the number
    of examples with label c and min over the labels in the window.

    Parameters
    ----------
    n_features
        Length d of an instance, at least 1.
    n_labels
        Number K of labels, at least 1.
    window
        Most examples held, at least 1; 1,000 by default.
    k
        Neighbours that vote, at least 1; 5 by default. All that tie with the k-th vote.
    metric
        ``"euclidean"`` (the default), ``"manhattan"`` or ``"cosine"``.
    exponent
        In [1, 1e6]; 4 by default. The larger, the nearer to `KNN`.
    weighted
        Whether nearer neighbours count more, by 1 / d^2, or all the same (the default).

    Raises
    ------
    ParameterError
        If a parameter is of the wrong type or out of range.

    References
    ----------
    .. [1] Tan, *Neighbor-weighted K-nearest neighbor for unbalanced text corpus*, 2005.

    Examples
    --------
    >>> learner = NWKNN(n_features=1, n_labels=2, k=2)
    >>> learner.learn_many(np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 0]))
    >>> learner.distribution(np.array([1.4])).greedy
    1
    """

    kind: ClassVar[str] = "nwknn"
    _ties_vote: ClassVar[bool] = True

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        *,
        window: int = DEFAULT_WINDOW,
        k: int = DEFAULT_K_HUBNESS,
        metric: str = "euclidean",
        exponent: float = _EXPONENT,
        weighted: bool = False,
    ) -> None:
        super().__init__(n_features, n_labels, window=window, k=k, metric=metric)
        self.exponent = check_number("exponent", exponent, 1, 1e6)
        self.weighted = check_flag("weighted", weighted)

    def _votes(self, found: Found) -> FloatArray:
        votes = self._labels_of(found)
        if not len(votes):
            return votes
        counts = self._examples.label_counts(self.n_labels).tolist()
        least = min(count for count in counts if count)
        weights = [(n / least) ** (-1.0 / self.exponent) if n else 0.0 for n in counts]
        votes *= np.array(weights)
        return votes * self._inverse_squares(found)[:, np.newaxis] if self.weighted else votes
