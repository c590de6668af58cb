"""The k-nearest-neighbour vote: the baseline that label noise bends."""

from __future__ import annotations

from typing import ClassVar

from learners.neighbors.search import Found
from learners.neighbors.window_learner import DEFAULT_WINDOW, WindowLearner
from learners.validation import FloatArray

#: Default number of neighbours that vote. The literature on noisy labels advises against fewer than
#: 10.
DEFAULT_K = 10


class KNN(WindowLearner):
    """The plurality among the k nearest examples of the window.

    Use it where labels are clean, or wrong equally often in both directions, and as the
    baseline. Under asymmetric noise use `RkNN`, in many dimensions one of the hubness-aware
    learners. O(N d) a decision for a window of N, O(d) an example.

    Rule, [1]_ section 3: with q_c the share of label c among the neighbours, argmax_c q_c; the
    lowest code where several tie, but with two labels ``1[q_1 >= 1/2]``. All that tie with the k-th
    neighbour vote.

    Parameters
    ----------
    n_features
        Length d of an instance, at least 1.
    n_labels
        Number K of labels, at least 1.
    window
        Most examples held, at least 1; 1,000 by default.
    k
        Neighbours that vote, at least 1; 10 by default. With two labels an odd number favours
        neither.
    metric
        ``"euclidean"`` (the default), ``"manhattan"`` or ``"cosine"``.

    Raises
    ------
    ParameterError
        If a parameter is of the wrong type or out of range.

    References
    ----------
    .. [1] Gao, Niu and Zhou, *On the consistency of exact and approximate nearest neighbor
       with noisy data*, 2016.

    Examples
    --------
    >>> import numpy as np
    >>> learner = KNN(n_features=1, n_labels=3, window=100, k=3)
    >>> learner.learn_many(np.array([[0.0], [1.0], [2.0], [9.0]]), np.array([2, 2, 0, 1]))
    >>> learner.distribution(np.array([0.5])).greedy
    2
    >>> [(voter.label, voter.distance) for voter in learner.neighbors(np.array([0.5]))]
    [(2, 0.5), (2, 0.5), (0, 1.5)]
    """

    kind: ClassVar[str] = "knn"
    _ties_vote: ClassVar[bool] = True
    _upper_wins: ClassVar[bool] = True

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        *,
        window: int = DEFAULT_WINDOW,
        k: int = DEFAULT_K,
        metric: str = "euclidean",
    ) -> None:
        super().__init__(n_features, n_labels, window=window, k=k, metric=metric)

    def _scores_from(self, found: Found) -> FloatArray:
        return self._counts_of(found)
