"""h-FNN: each neighbour votes for the labels it has been a neighbour of."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from learners.neighbors.hubness_learner import DEFAULT_K_HUBNESS, HubnessLearner
from learners.neighbors.options import check_flag, check_smoothing
from learners.neighbors.search import Found
from learners.neighbors.window_learner import DEFAULT_WINDOW
from learners.validation import FloatArray, check_count

#: Added to each label's occurrences by default, as in the authors' library.
_SMOOTHING = 0.001


class HFNN(HubnessLearner):
    """Fuzzy votes from past occurrences: h-FNN.

    Use it under heavy label noise in many dimensions: a neighbour's own label does not matter,
    only the labels of those that it is a neighbour of, so that a mislabelled hub hardly harms.
    In few dimensions with clean labels plain `KNN` is as good. O(N d) a decision and an example.

    Rule, [1]_ eqs. 2 and 3, with N_i the occurrences of i and N_{i,c} those with label c::

        u_{c,i} = (s + N_{i,c}) / (K s + N_i)                                     N_i > anti_hub
        u_{c,i} = (s + sum of N_{j,c}) / (K s + sum of N_j),  y_j = y_i, else
        u_c(x)  = sum_i w_i u_{c,i} / sum_i w_i,              w_i = 1 / d(x, x_i)^2

    Where neighbours lie at distance 0, they alone vote, with equal weight.

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
    anti_hub
        Occurrences up to which an example votes as its label's examples do on average, at least 0;
        0 by default.
    smoothing
        The s above, in [1e-9, 1e9]; 0.001 by default.
    weighted
        Whether nearer neighbours count more (w_i above, the default) or all the same.
    include_self
        Whether each example counts as its own neighbour too: its label then has one vote more.
        False by default, as in the paper; the authors' library says True.

    Raises
    ------
    ParameterError
        If a parameter is of the wrong type or out of range.

    References
    ----------
    .. [1] Tomasev and Buza, *Hubness-aware kNN classification of high-dimensional data in
       presence of label noise*, 2015.

    Examples
    --------
    The example in the middle, nearest to all others, has a wrong label:

    >>> learner = HFNN(n_features=2, n_labels=2, k=1)
    >>> cross = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> learner.learn_many(cross, np.array([0, 1, 1, 1, 1]))
    >>> learner.scores(np.array([0.1, 0.2])).round(4).tolist()
    [0.0002, 0.9998]
    """

    kind: ClassVar[str] = "h_fnn"

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        *,
        window: int = DEFAULT_WINDOW,
        k: int = DEFAULT_K_HUBNESS,
        metric: str = "euclidean",
        anti_hub: int = 0,
        smoothing: float = _SMOOTHING,
        weighted: bool = True,
        include_self: bool = False,
    ) -> None:
        super().__init__(n_features, n_labels, window=window, k=k, metric=metric)
        self.anti_hub = check_count("anti_hub", anti_hub, least=0)
        self.smoothing = check_smoothing(smoothing)
        self.weighted = check_flag("weighted", weighted)
        self.include_self = check_flag("include_self", include_self)

    def _votes(self, found: Found) -> FloatArray:
        if not len(found.slots):
            return np.zeros((0, self.n_labels))
        fuzzy = self._memberships(found)
        if not self.weighted:
            return fuzzy / len(fuzzy)
        return fuzzy * self._inverse_squares(found)[:, np.newaxis]

    def _memberships(self, found: Found) -> FloatArray:
        """Return u_{c,i} of the found examples, (m, K)."""
        occurred = self._occurrences.by_label[found.slots].astype(np.float64)
        rare = self._occurrences.total(found.slots) <= self.anti_hub
        if rare.any():
            # Each label once: in a large window one takes milliseconds.
            labels, which = np.unique(self._examples.labels[found.slots[rare]], return_inverse=True)
            of_labels = [self._occurrences.of_label(label) for label in labels.tolist()]
            occurred[rare] = np.array(of_labels)[which]
        if self.include_self:
            occurred[~rare] += self._labels_of(found)[~rare]
        totals = np.add.reduce(occurred, axis=1)[:, np.newaxis]
        memberships: FloatArray = (self.smoothing + occurred) / (
            self.n_labels * self.smoothing + totals
        )
        return memberships
