"""NHBNN: naive Bayes with neighbour occurrences as features."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from learners.neighbors.hubness_learner import DEFAULT_K_HUBNESS, HubnessLearner
from learners.neighbors.options import check_flag, check_smoothing
from learners.neighbors.search import Found
from learners.neighbors.window import Labels
from learners.neighbors.window_learner import DEFAULT_WINDOW
from learners.validation import FloatArray, check_count

#: Smoothing where none is given: Laplace's.
_SMOOTHING = 1.0
#: What an anti-hub's factor is mixed from: its own likelihood, and that of its label's examples.
_OWN_PART, _LABEL_PART = 0.4, 0.6
#: Added to the rates at which labels occur near labels, so that none is 0.
_RATE_SMOOTHING = 1e-5


class NHBNN(HubnessLearner):
    """Naive Bayes over who the neighbours are: NHBNN.

    Use it in many dimensions, under heavy noise or with uneven classes: it asks how likely each
    class is to have *these* neighbours, whatever labels they carry. Where each example is a
    neighbour of few (small windows, few dimensions) there is little to count, and `KNN` does
    better. O(N d) a decision and an example.

    Rule, [1]_, with each example its own neighbour too, n_c of n examples of class c::

        p(i | c)   = (N_{i,c} + 1[c = y_i] + s) / ((k + 1) n_c + s n)
        score of c = log(n_c / n) + sum_i log p(i | c)

    over the classes in the window. A neighbour with at most `anti_hub` occurrences has the
    factor ``0.4 q_c + 0.6 g_c`` instead, q its own p(i | c) and g the rate at which examples of
    its label are neighbours of class c, each scaled to sum 1. The p(i | c) of a class sum to 1
    over the examples; with fewer than k + 1 of those, n takes the place of k + 1.

    Parameters
    ----------
    n_features
        Length d of an instance, at least 1.
    n_labels
        Number K of labels, at least 1.
    window
        Most examples held, at least 1; 1,000 by default.
    k
        Neighbours that count, at least 1; 5 by default.
    metric
        ``"euclidean"`` (the default), ``"manhattan"`` or ``"cosine"``.
    smoothing
        The s above, in [1e-9, 1e9]; 1 by default.
    anti_hub
        Occurrences up to which a neighbour is an anti-hub, at least -1; -1 (the default) for
        none. The authors' library says 2.
    normalised
        True (the default) for the p(i | c) above; False leaves the examples' own places out of
        the denominator, ``k n_c + s n``, which favours frequent classes a little. So does the
        authors' library, with s = 1 / (2 K).

    Raises
    ------
    ParameterError
        If a parameter is of the wrong type or out of range.

    References
    ----------
    .. [1] Tomasev and Buza, *Hubness-aware kNN classification of high-dimensional data in
       presence of label noise*, 2015, eq. 6.

    Examples
    --------
    The example in the middle, nearest to all others, has a wrong label:

    >>> learner = NHBNN(n_features=2, n_labels=2, k=1)
    >>> cross = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> learner.learn_many(cross, np.array([0, 1, 1, 1, 1]))
    >>> learner.distribution(np.array([0.1, 0.2])).greedy
    1
    """

    kind: ClassVar[str] = "nhbnn"

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        *,
        window: int = DEFAULT_WINDOW,
        k: int = DEFAULT_K_HUBNESS,
        metric: str = "euclidean",
        smoothing: float = _SMOOTHING,
        anti_hub: int = -1,
        normalised: bool = True,
    ) -> None:
        super().__init__(n_features, n_labels, window=window, k=k, metric=metric)
        self.smoothing = check_smoothing(smoothing)
        self.anti_hub = check_count("anti_hub", anti_hub, least=-1)
        self.normalised = check_flag("normalised", normalised)

    def _votes(self, found: Found) -> FloatArray:
        counts = self._examples.label_counts(self.n_labels)
        occurred = self._occurrences.by_label[found.slots] + self._labels_of(found)
        places = self._places() if self.normalised else self._places() - 1
        room = places * counts + self.smoothing * len(self)
        likelihoods = (occurred + self.smoothing) / room
        rare = self._occurrences.total(found.slots) <= self.anti_hub
        if rare.any():
            labels = self._examples.labels[found.slots[rare]]
            likelihoods[rare] = self._anti_hub_factors(likelihoods[rare], labels, counts)
        return logs(likelihoods)

    def _anti_hub_factors(
        self, likelihoods: FloatArray, labels: Labels, counts: NDArray[np.int64]
    ) -> FloatArray:
        """Mix anti-hubs' own likelihoods, (m, K), with those of their labels' examples."""
        # Each label once: in a large window one takes milliseconds.
        distinct, which = np.unique(labels, return_inverse=True)
        rates = np.array([self._rates_of(label, counts) for label in distinct.tolist()])
        own = np.where(counts > 0, likelihoods, 0.0)
        factors = _OWN_PART * own / np.add.reduce(own, axis=1)[:, np.newaxis]
        factors += (_LABEL_PART * rates / np.add.reduce(rates, axis=1)[:, np.newaxis])[which]
        return np.where(counts > 0, factors, 1.0)

    def _rates_of(self, label: int, counts: NDArray[np.int64]) -> FloatArray:
        """Return the rates at which a label's examples are neighbours of each class, (K,)."""
        places = self._occurrences.of_label(label).astype(np.float64)
        places[label] += counts[label]
        near = self._places() * counts[label] * np.maximum(counts, 1)
        rates: FloatArray = places / near + _RATE_SMOOTHING
        rates[counts == 0] = 0.0
        return rates

    def _scores(self, votes: FloatArray) -> FloatArray:
        return posterior(super()._scores(votes), self._priors())


def posterior(likelihoods: FloatArray, priors: FloatArray) -> FloatArray:
    """Return the logarithms of likelihoods times priors, (K,); -inf where a prior is 0.

    Without any prior, as on an empty window, the likelihoods as they are.
    """
    if not priors.any():
        return likelihoods
    held = priors > 0
    return np.where(held, likelihoods + logs(np.where(held, priors, 1.0)), -np.inf)


def logs(values: FloatArray) -> FloatArray:
    """Return natural logarithms, by the C library: numpy's own differ between more CPUs.

    Examples
    --------
    >>> logs(np.array([[1.0, math.e]])).tolist()
    [[0.0, 1.0]]
    """
    each = map(math.log, values.ravel().tolist())
    return np.fromiter(each, np.float64, values.size).reshape(values.shape)
