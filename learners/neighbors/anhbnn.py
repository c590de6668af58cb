"""ANHBNN: naive Bayes over neighbour occurrences that may depend on each other."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from learners.errors import ParameterError, expected
from learners.neighbors.hubness_learner import DEFAULT_K_HUBNESS, HubnessLearner
from learners.neighbors.nhbnn import logs, posterior
from learners.neighbors.options import check_flag, check_smoothing
from learners.neighbors.search import Found
from learners.neighbors.window_learner import DEFAULT_WINDOW
from learners.validation import FloatArray

#: Smoothing where none is given: a neighbour that a class has had once is half believed.
_SMOOTHING = 1.0
#: Most k^2 (K + `_LABELS_A_PAIR`), .1 s a decision: it looks at each pair of neighbours label by
#: label, and a pair's fixed cost is that of `_LABELS_A_PAIR` labels.
MOST_PAIR_LABELS = 100_000
_LABELS_A_PAIR = 10


class ANHBNN(HubnessLearner):
    """Hidden naive Bayes over who the neighbours are: ANHBNN.

    Use it instead of `NHBNN` where neighbours come in groups, so that their occurrences are no
    independent evidence, and a decision may cost more: O(N d + N k^2). The original text was not
    at hand; this is its form with plain conditional mutual information.

    Rule, [1]_, where example i *occurs* at example q if i is q or among its k nearest, N_c(i)
    and N_c(i, j) count occurrences (of both) at examples of class c, and I(i; j | C) is the
    conditional mutual information of two occurrences given the class::

        score of c = log(n_c / n) + sum_i log sum_{j != i} W_ij p(i | j, c)
        p(i | c) = (N_c(i) + s) / ((k + 1) n_c + s n),     W_ij = I(i; j | C) / sum_j I(i; j | C)
        p(i | j, c) = (N_c(i, j) + s p(i | c)) / (N_c(j) + s)

    with i and j among the instance's neighbours, and n for k + 1 while there are fewer examples.
    Where all I(i; j | C) are 0 the factor of i is p(i | c). The form in circulation has 1 for
    p(i | c) in the last line: a class in which j never occurred then gets p(i | j, c) = 1, and wins
    against those that know both (iris: all wrong). `backoff` False takes it. The authors' further
    weights and their rule for anti-hubs are left out.

    Parameters
    ----------
    n_features
        Length d of an instance, at least 1.
    n_labels
        Number K of labels, at least 1.
    window
        Most examples held, at least 1; 1,000 by default.
    k
        Neighbours that count, at least 1; 5 by default. k^2 (K + 10) <= 100,000.
    metric
        ``"euclidean"`` (the default), ``"manhattan"`` or ``"cosine"``.
    smoothing
        The s above, in [1e-9, 1e9]; 1 by default.
    backoff
        Whether p(i | c) makes up for too few occurrences of j in c; True by default.

    Raises
    ------
    ParameterError
        If a parameter is of the wrong type or out of range, or `k` too large for so many labels
        (also in `add_labels`).

    References
    ----------
    .. [1] Tomasev and Mladenic, *Hub co-occurrence modeling for robust high-dimensional kNN
       classification*, 2013.

    Examples
    --------
    The example in the middle, nearest to all others, has a wrong label:

    >>> learner = ANHBNN(n_features=2, n_labels=2, k=1)
    >>> cross = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> learner.learn_many(cross, np.array([0, 1, 1, 1, 1]))
    >>> learner.distribution(np.array([0.1, 0.2])).greedy
    1
    """

    kind: ClassVar[str] = "anhbnn"

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        *,
        window: int = DEFAULT_WINDOW,
        k: int = DEFAULT_K_HUBNESS,
        metric: str = "euclidean",
        smoothing: float = _SMOOTHING,
        backoff: bool = True,
    ) -> None:
        super().__init__(n_features, n_labels, window=window, k=k, metric=metric)
        self.smoothing = check_smoothing(smoothing)
        self.backoff = check_flag("backoff", backoff)
        self._check_pairs(self.n_labels)

    def _grow(self, count: int) -> None:
        self._check_pairs(self.n_labels + count)
        super()._grow(count)

    def _check_pairs(self, n_labels: int) -> None:
        most = math.isqrt(MOST_PAIR_LABELS // (n_labels + _LABELS_A_PAIR))
        if self.k > most:
            raise ParameterError(expected("k", f"at most {most} for {n_labels} labels", self.k))

    def _votes(self, found: Found) -> FloatArray:
        counts = self._examples.label_counts(self.n_labels)
        pairs = self._pairs(found)
        size = len(found.slots)
        alone = pairs[np.arange(size), np.arange(size)]
        room = self._places() * counts + self.smoothing * len(self)
        factors = (alone + self.smoothing) / np.maximum(room, self.smoothing)
        made_up = self.smoothing * (factors.copy() if self.backoff else np.ones_like(factors))
        for i in range(size):
            weights = [
                _information(alone[i], alone[j], pairs[i, j], counts) if j != i else 0.0
                for j in range(size)
            ]
            # Not sum(): of floats it is compensated on some versions of Python and not on others.
            total = 0.0
            for weight in weights:
                total += weight
            if total > 0:
                given = (pairs[i] + made_up[i]) / (alone + self.smoothing)
                parts = given * (np.array(weights) / total)[:, np.newaxis]
                factors[i] = np.add.reduce(parts, axis=0)
        return logs(factors)

    def _pairs(self, found: Found) -> NDArray[np.int64]:
        """Return N_c(i, j) of the found, (m, m, K); on the diagonal N_c(i)."""
        live, size = self._examples.live(), len(found.slots)
        lists = self._occurrences.graph.neighbors(live, self.k)
        which = np.full(self.window + 1, size, dtype=np.int32)
        which[found.slots] = np.arange(size)
        around = which.take(np.concatenate((live[:, np.newaxis], lists), axis=1))
        # Only examples that have one of them around: in a large window these are few.
        near = np.flatnonzero((around < size).any(axis=1))
        occurs = np.zeros((size + 1, len(near)), dtype=np.bool_)
        occurs[around[near].T, np.arange(len(near))] = True
        occurs = occurs[:size]
        labels = self._examples.labels[live[near]]
        pairs = np.zeros((len(occurs), len(occurs), self.n_labels), dtype=np.int64)
        for i in range(len(occurs)):
            for j in range(i, len(occurs)):
                both = labels[occurs[i] & occurs[j]]
                pairs[i, j] = pairs[j, i] = np.bincount(both, minlength=self.n_labels)
        return pairs

    def _scores(self, votes: FloatArray) -> FloatArray:
        return posterior(super()._scores(votes), self._priors())


def _information(
    one: NDArray[np.int64],
    other: NDArray[np.int64],
    both: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> float:
    """Return I(i; j | C) in nats from counts by class: of i, of j, of both, of examples."""
    size = int(counts.sum())
    total = 0.0
    for a, b, ab, n in zip(
        one.tolist(), other.tolist(), both.tolist(), counts.tolist(), strict=True
    ):
        if not a or not b:
            continue  # One that never occurs at a class tells nothing there.
        cells = ((ab, a, b), (a - ab, a, n - b), (b - ab, n - a, b), (n - a - b + ab, n - a, n - b))
        for cell, row, column in cells:
            if cell:
                total += cell / size * math.log(cell * n / (row * column))
    return max(total, 0.0)
