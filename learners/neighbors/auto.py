"""RkNN that chooses k and k' on the stream, by how often each pair was right before learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from learners.errors import StateError, expected
from learners.neighbors.counts import NeighborhoodLabels
from learners.neighbors.graph import NeighborGraph, check_places
from learners.neighbors.metrics import Proposals, Rows
from learners.neighbors.neighborhood_noise import NeighborhoodNoise, WindowNoise
from learners.neighbors.options import check_quantile
from learners.neighbors.search import Found, find_among
from learners.neighbors.window_learner import DEFAULT_WINDOW, WindowLearner
from learners.states import State, StateValue, state_array
from learners.validation import FloatArray, check_number

#: The candidates; the paper tries 5 to 100 in steps of 5 for both.
KS = (5, 10, 20, 50)
KS_NOISE = (5, 20, 50)
#: How many of the best pairs decide together. On the paper's data sets a vote of the best
#: quarter beats the one best pair, whose lead is mostly luck.
_N_VOTING = len(KS) * len(KS_NOISE) // 4
#: Default share of past validation that each example keeps.
_MEMORY = 0.999


class Validation(NamedTuple):
    """How one pair (k, k') did on the stream.

    Attributes
    ----------
    k, k_noise
        The pair.
    hits
        Weighted share of examples whose given label it predicted before they were learned.
    voting
        Whether it is among those that decide now.
    """

    k: int
    k_noise: int
    hits: float
    voting: bool


class AutoRkNN(WindowLearner):
    """RkNN without k and k': the pairs that predict the stream best decide by majority.

    Use it instead of `RkNN` where no validation data is at hand, or the stream changes. Each
    example is predicted by all pairs of a small grid before it is learned, and their hits are
    kept with exponential forgetting. Hits on *given* (noisy) labels favour plain kNN under
    asymmetric noise, but that matters less than the differences between the pairs; the best three
    of the twelve pairs vote. As in `RkNN`, all that tie with a pair's k-th neighbour vote. With two
    labels a `learn` costs up to twice that of `RkNN` with k' = 50, with more three to four times.

    Update, for the hits h of a pair and given label y::

        h <- memory h + 1[prediction before learning = y]

    Parameters
    ----------
    n_features
        Length d of an instance, at least 1.
    n_labels
        Number K of labels, at least 1.
    window
        Most examples held, at least 1; 1,000 by default.
    metric
        ``"euclidean"`` (the default), ``"manhattan"`` or ``"cosine"``.
    quantile
        As in `RkNN`, in [0, 0.5); 0 by default.
    memory
        In [0, 1]; 0.999 by default, which looks back a thousand examples.

    Raises
    ------
    ParameterError
        If a parameter is of the wrong type or out of range.

    References
    ----------
    .. [1] Gao, Niu and Zhou, *On the consistency of exact and approximate nearest neighbor
       with noisy data*, 2016, whose cross-validation this replaces.

    Examples
    --------
    >>> learner = AutoRkNN(n_features=1, n_labels=2)
    >>> rng = np.random.default_rng(0)
    >>> for x in rng.random(100):
    ...     learner.learn(np.array([x]), int(x > 0.5))
    >>> learner.distribution(np.array([0.9])).greedy
    1
    >>> max(learner.validation(), key=lambda pair: pair.hits).k
    5
    """

    kind: ClassVar[str] = "rknn_auto"
    _ties_vote: ClassVar[bool] = True
    _upper_wins: ClassVar[bool] = True

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        *,
        window: int = DEFAULT_WINDOW,
        metric: str = "euclidean",
        quantile: float = 0.0,
        memory: float = _MEMORY,
    ) -> None:
        super().__init__(n_features, n_labels, window=window, k=KS[-1], metric=metric)
        self.quantile = check_quantile(quantile)
        self.memory = check_number("memory", memory, 0, 1)
        # Before the graph checks, which would name a k that nobody gave.
        check_places("window", self.window, self.window, KS_NOISE[-1])
        graph = NeighborGraph(self._examples, KS_NOISE[-1])
        around = [NeighborhoodLabels(graph, self.n_labels, k) for k in KS_NOISE]
        self._noises = [NeighborhoodNoise(self._examples, each, self.quantile) for each in around]
        self._follow(graph, *around)
        self._hits: FloatArray = np.zeros((len(KS), len(KS_NOISE)))
        self._weight = 0.0

    def validation(self) -> list[Validation]:
        """Return how each pair did, in the order of the grid."""
        voting = set(self._voting())
        total = self._weight or 1.0
        return [
            Validation(k, k_noise, float(self._hits[i, j]) / total, (i, j) in voting)
            for i, k in enumerate(KS)
            for j, k_noise in enumerate(KS_NOISE)
        ]

    def window_noise(self) -> list[WindowNoise]:
        """Return what the window tells of its noise, for each k' tried."""
        return [noise.reading() for noise in self._noises]

    def state(self) -> State:
        """Return the options, the window and the validation; arrays are copies."""
        return {**super().state(), "hits": self._hits.copy(), "weight": np.array([self._weight])}

    @classmethod
    def from_state(cls, state: Mapping[str, StateValue]) -> Self:
        """Rebuild the learner: what it then does is bit for bit what the saved one would do."""
        self = super().from_state(state)
        self._hits = state_array(state, "hits", self._hits.shape)
        self._weight = float(state_array(state, "weight", (1,))[0])
        if not (self._hits.min() >= 0 and self._hits.max() <= self._weight):
            what = f"numbers in [0, {self._weight:g}], the state's weight"
            raise StateError(expected("state's hits", what, self._hits))
        return self

    # -- inside ---------------------------------------------------------------------------
    def _take(
        self, rows: Rows, labels: NDArray[np.integer], proposals: Proposals | None = None
    ) -> None:
        """Validate all pairs on each example before it is taken into the window."""
        for i, label in enumerate(labels.tolist()):
            row = rows[i : i + 1]
            if proposals is None or i:
                proposals = self._examples.propose(row)
            self._foresee(row, label, proposals)
            super()._take(row, labels[i : i + 1], proposals)

    def _foresee(self, row: Rows, label: int, proposals: Proposals) -> None:
        if len(self):
            (found,) = find_among(self._examples, row, proposals.of(0), self.k, ties=True)
            right = self._predictions(found) == label
            self._hits = self._hits * self.memory + right
            self._weight = self._weight * self.memory + 1.0

    def _scores_from(self, found: Found) -> FloatArray:
        """Return how many of the deciding pairs are for each label.

        Labels that no pair is for are ranked below 0, by their share of the nearest: they decide
        where the pairs' labels are retired or not allowed.
        """
        if not len(found.slots):
            return np.zeros(self.n_labels)
        predictions = self._predictions(found)
        chosen = [int(predictions[pair]) for pair in self._voting()]
        pairs = np.bincount(chosen, minlength=self.n_labels)
        shares = np.add.reduce(self._labels_of(found), axis=0) / len(found.slots)
        return np.where(pairs > 0, pairs, shares - 1.0)

    def _voting(self) -> list[tuple[int, int]]:
        """Return the pairs with the most hits, the first of the grid where several tie."""
        best = np.argsort(-self._hits.ravel(), kind="stable")[:_N_VOTING]
        return [divmod(int(each), len(KS_NOISE)) for each in best]

    def _predictions(self, found: Found) -> NDArray[np.int64]:
        """Return what each pair predicts from the nearest and those that tie with its k-th."""
        sums = np.add.accumulate(self._labels_of(found), axis=0)
        predictions = np.empty((len(KS), len(KS_NOISE)), dtype=np.int64)
        for i, k in enumerate(KS):
            last = found.keys[min(k, len(sums)) - 1]
            counts = sums[found.keys.searchsorted(last, side="right") - 1]
            for j, noise in enumerate(self._noises):
                predictions[i, j] = self._decision(noise.scores(counts), None).greedy
        return predictions
