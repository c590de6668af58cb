"""HIKNN: rare neighbours tell more, and are trusted with their own label."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from learners.neighbors.hubness_learner import DEFAULT_K_HUBNESS, HubnessLearner
from learners.neighbors.options import check_flag
from learners.neighbors.search import Found
from learners.neighbors.window_learner import DEFAULT_WINDOW
from learners.validation import FloatArray


class HIKNN(HubnessLearner):
    """Votes weighted by the information in each occurrence: HIKNN.

    Use it in many dimensions with moderate noise: it mixes a neighbour's own label (trusted the
    more, the rarer the neighbour) with the labels it is a neighbour of. Under heavy noise `HFNN`
    and `NHBNN`, which do not look at own labels, hold out better. O(N d) a decision and an
    example.

    Rule, [1]_ eqs. 4 and 5, each example counted as its own neighbour too, n examples::

        I_i     = log(n / (N_i + 1))
        alpha_i = (I_i - min I) / (log n - min I)
        p_c(i)  = alpha_i 1[c = y_i] + (1 - alpha_i) (N_{i,c} + 1[c = y_i]) / (N_i + 1)
        u_c(x)  = sum_i I_i w_i p_c(i) / log n,      w_i = 1 / d(x, x_i)^2

    scaled to sum 1; where all I_i are 0, the shares of the labels in the window. Where neighbours
    lie at distance 0, they alone vote.

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
    weighted
        Whether nearer neighbours count more (w_i above, the default) or all the same.

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

    >>> learner = HIKNN(n_features=2, n_labels=2, k=1)
    >>> cross = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> learner.learn_many(cross, np.array([0, 1, 1, 1, 1]))
    >>> learner.distribution(np.array([0.1, 0.2])).greedy
    1
    """

    kind: ClassVar[str] = "hiknn"

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        *,
        window: int = DEFAULT_WINDOW,
        k: int = DEFAULT_K_HUBNESS,
        metric: str = "euclidean",
        weighted: bool = True,
    ) -> None:
        super().__init__(n_features, n_labels, window=window, k=k, metric=metric)
        self.weighted = check_flag("weighted", weighted)

    def _votes(self, found: Found) -> FloatArray:
        if len(self) < 2:
            return self._labels_of(found)
        alphas, betas = self._information(found)
        own = self._labels_of(found)
        occurred = self._occurrences.by_label[found.slots] + own
        shares = occurred / (self._occurrences.total(found.slots) + 1)[:, np.newaxis]
        votes = betas * (alphas * own + (1.0 - alphas) * shares)
        return votes * self._inverse_squares(found)[:, np.newaxis] if self.weighted else votes

    def _information(self, found: Found) -> tuple[FloatArray, FloatArray]:
        """Return alpha_i and beta_i = I_i / log n of the found, as columns; n is at least 2."""
        size = len(self)
        most = math.log(size)
        least = math.log(size / (self._occurrences.most() + 1))
        each = [math.log(size / (n + 1)) for n in self._occurrences.total(found.slots).tolist()]
        # Of two examples at least one is a neighbour, so that `least` is below `most`.
        alphas = [(i - least) / (most - least) for i in each]
        betas = [i / most for i in each]
        return np.array(alphas).reshape(-1, 1), np.array(betas).reshape(-1, 1)

    def _scores(self, votes: FloatArray) -> FloatArray:
        scores = super()._scores(votes)
        total = float(np.add.reduce(scores))
        return scores / total if total > 0 else self._priors()
