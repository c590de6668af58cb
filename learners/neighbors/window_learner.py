"""What all learners from the labels of neighbours share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from learners.base import (
    Distribution,
    FloatArray,
    Learner,
    State,
    StateValue,
    check_count,
    state_value,
)
from learners.errors import StateError, expected
from learners.neighbors.graph import NeighborGraph, Observer
from learners.neighbors.metrics import Rows, Slots
from learners.neighbors.search import Found, find_many
from learners.neighbors.window import Window, check_examples, to_rows
from learners.validation import check_instance, check_instances, is_integer

#: Examples held where no window is given: enough for neighbours to be near in some dimensions,
#: and a decision stays well under a millisecond.
DEFAULT_WINDOW = 1000


class Counter(Observer, Protocol):
    """An observer with an entry per label."""

    def add_label(self) -> None:
        """Make room for one more label."""


class Voter(NamedTuple):
    """One neighbour's part in a decision.

    Attributes
    ----------
    seq
        Which example it is: the window's examples are numbered as they came, from 0.
    label
        Its label, as it was told.
    distance
        From the instance asked about, in the learner's metric.
    votes
        What it adds to the score of each label, (K,).
    suspected
        Whether its own neighbours decide for another label than it carries.
    """

    seq: int
    label: int
    distance: float
    votes: FloatArray
    suspected: bool


class WindowLearner(Learner):
    """Keeps the last examples, and lets the nearest of them vote.

    Decisions are greedy: probability 1 for the best label. On an empty window that is the first
    label that may be chosen. Features are rounded to float32 as they come, in examples and in
    queries alike; ones below 1e-30 count as 0.

    Parameters
    ----------
    n_features
        Length d of an instance, at least 1.
    n_labels
        Number K of labels, at least 1.
    window
        Most examples held, at least 1; the oldest goes first.
    k
        Neighbours that vote, at least 1; all examples, while there are fewer.
    metric
        ``"euclidean"``, ``"manhattan"`` or ``"cosine"``.
    """

    takes_feedback: ClassVar[bool] = False
    takes_labels: ClassVar[bool] = True

    #: Whether all that tie with the k-th neighbour vote too. Otherwise the older come first.
    _ties_vote: ClassVar[bool] = False
    #: Whether label 1 wins where two labels tie: the thresholds of binary rules are "at least".
    _upper_wins: ClassVar[bool] = False

    def __init__(self, n_features: int, n_labels: int, *, window: int, k: int, metric: str) -> None:
        super().__init__(n_features, n_labels)
        self.window = check_count("window", window)
        self.k = check_count("k", k)
        self._examples = Window(self.window, self.n_features, metric)
        self.metric = metric
        self._graph: NeighborGraph | None = None
        self._counters: list[Counter] = []

    def __len__(self) -> int:
        """Return how many examples the window holds."""
        return len(self._examples)

    # -- deciding -------------------------------------------------------------------------
    def distribution(self, x: FloatArray, allowed: Sequence[int] | None = None) -> Distribution:
        """Return probability 1 for the best label; pure.

        Parameters
        ----------
        x
            The instance, float64 of shape (d,), each |x_i| at most 1e6.
        allowed
            Codes that the choice is restricted to; None for all active ones.

        Raises
        ------
        InputError
            If `x` is not such an array, or `allowed` leaves no active label.
        """
        scores = self.scores(x)
        return self._decision(scores, self._choosable(allowed))

    def distributions(self, xs: FloatArray) -> list[Distribution]:
        """Return `distribution` of each row of `xs`, shape (n, d); bit for bit the same."""
        check_instances(xs, self.n_features)
        codes = self._choosable(None)
        found = self._find_all(to_rows(xs))
        return [self._decision(self._scores(self._votes(each)), codes) for each in found]

    def scores(self, x: FloatArray) -> FloatArray:
        """Return the score of each label for `x`, shape (K,): the largest decides."""
        check_instance(x, self.n_features)
        return self._scores(self._votes(self._find_all(to_rows(x)[np.newaxis])[0]))

    def neighbors(self, x: FloatArray) -> list[Voter]:
        """Return who votes on `x`, nearest first, and which of them look mislabelled.

        Parameters
        ----------
        x
            The instance, as for `distribution`.

        Raises
        ------
        InputError
            If `x` is not such an array.
        """
        check_instance(x, self.n_features)
        found = self._find_all(to_rows(x)[np.newaxis])[0]
        if not len(found.slots):
            return []
        suspected = self._greedy_without_self(found.slots) != self._examples.labels[found.slots]
        return [
            Voter(*each)
            for each in zip(
                self._examples.seqs(found.slots).tolist(),
                self._examples.labels[found.slots].tolist(),
                self._examples.metric.distances(found.keys).tolist(),
                self._votes(found),
                suspected.tolist(),
                strict=True,
            )
        ]

    def suspects(self) -> NDArray[np.int64]:
        """Return the seqs of all examples whose neighbours decide for another label, ascending.

        One query per example: for a look now and then, not for each round.
        """
        live = self._examples.live()
        wrong = self._greedy_without_self(live) != self._examples.labels[live]
        return self._examples.seqs(live[wrong])

    # -- learning -------------------------------------------------------------------------
    def learn(self, x: FloatArray, label: int) -> None:
        """Take an instance and its (possibly noisy) label into the window.

        Parameters
        ----------
        x
            The instance, float64 of shape (d,), each |x_i| at most 1e6.
        label
            Its label's code.

        Raises
        ------
        InputError
            If `x` or `label` is not such a value.
        """
        check_instance(x, self.n_features)
        self._check_label(label)
        self._insert(to_rows(x)[np.newaxis], np.array([label], dtype=np.int32))

    def learn_many(self, xs: FloatArray, labels: NDArray[np.integer]) -> None:
        """Learn examples in order; the result is that of `learn` on each, at less cost.

        Parameters
        ----------
        xs
            Instances, float64 of shape (n, d).
        labels
            Their labels' codes, integers of shape (n,).

        Raises
        ------
        InputError
            If an instance or label is not valid; then nothing is learned.
        """
        self._check_examples(xs, labels)
        self._insert(to_rows(xs), labels)

    # -- labels ---------------------------------------------------------------------------
    def add_label(self) -> int:
        """Add a label, which nobody has yet, and return its code."""
        code = super().add_label()
        for counter in self._counters:
            counter.add_label()
        return code

    # -- state ----------------------------------------------------------------------------
    def state(self) -> State:
        """Return the options and the window, oldest example first; arrays are copies.

        The graph is not in it: it follows from the window, and is built anew.
        """
        live = self._examples.live()
        return {
            **self._options(),
            "first": self._examples.first,
            "rows": self._examples.rows[live],
            "labels": self._examples.labels[live],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, StateValue]) -> Self:
        """Rebuild the learner: what it then does is bit for bit what the saved one would do."""
        self = cls._from_options(state)
        first = state_value(state, "first")
        if not is_integer(first) or not isinstance(first, int) or first < 0:
            raise StateError(expected("state's first", "an integer of at least 0", first))
        rows, labels = self._saved_examples(state)
        self._examples.first = self._examples.next = first
        self._insert(rows, labels)
        return self

    # -- for subclasses -------------------------------------------------------------------
    @abstractmethod
    def _votes(self, found: Found) -> FloatArray:
        """Return what each found neighbour adds to the score of each label, (m, K)."""

    def _scores(self, votes: FloatArray) -> FloatArray:
        """Return the labels' scores, (K,), from the votes (m, K)."""
        scores: FloatArray = np.add.reduce(votes, axis=0)
        return scores

    def _follow(self, graph: NeighborGraph, *counters: Counter) -> None:
        """Keep this graph, over the learner's window, and let the counters follow it."""
        self._graph = graph
        self._counters = list(counters)
        graph.observe(counters)

    def _labels_of(self, found: Found) -> FloatArray:
        """Return the found labels as rows of 0 and 1, (m, K)."""
        ballots = np.zeros((len(found.slots), self.n_labels))
        ballots[np.arange(len(ballots)), self._examples.labels[found.slots]] = 1.0
        return ballots

    def _inverse_squares(self, found: Found) -> FloatArray:
        """Return 1 / d^2 of the found, scaled to sum 1; of some at distance 0, only those count."""
        distances = self._examples.metric.distances(found.keys)
        if (distances == 0).any():
            weights: FloatArray = (distances == 0).astype(np.float64)
        else:
            weights = 1.0 / (distances * distances)
        weights /= np.add.reduce(weights)
        return weights

    def _find_all(self, rows: Rows, more: int = 0) -> list[Found]:
        """Return who votes on each row of (q, d), or who would if k were `more`."""
        return find_many(self._examples, rows, self.k + more, ties=self._ties_vote)

    def _check_examples(self, xs: FloatArray, labels: NDArray[np.integer]) -> None:
        check_examples(xs, labels, self.n_features, self.n_labels)

    # -- inside ---------------------------------------------------------------------------
    def _insert(self, rows: Rows, labels: NDArray[np.integer]) -> None:
        if self._graph is None:
            self._examples.push(rows, labels)
        else:
            self._graph.insert(rows, labels)

    def _decision(self, scores: FloatArray, codes: NDArray[np.intp] | None) -> Distribution:
        greedy = int(scores.argmax() if codes is None else codes[scores[codes].argmax()])
        if self._upper_wins and len(scores) == 2 and scores[0] == scores[1]:
            both = codes is None or len(codes) == 2
            greedy = 1 if both and len(self) else greedy
        probabilities = np.zeros(self.n_labels)
        probabilities[greedy] = 1.0
        return Distribution(probabilities, greedy)

    def _greedy_without_self(self, slots: Slots) -> NDArray[np.int64]:
        """Return what the others decide at each of these examples, over all labels.

        An example without others is taken at its word.
        """
        found = self._find_all(self._examples.rows[slots], more=1)
        greedy = []
        for slot, each in zip(slots, found, strict=True):
            others = each.slots != slot
            if others.all():
                # More than k equal examples are older: the last one is one too many.
                others[-1] = False
            if not others.any():
                greedy.append(int(self._examples.labels[slot]))
                continue
            rest = Found(each.slots[others], each.keys[others])
            greedy.append(self._decision(self._scores(self._votes(rest)), None).greedy)
        return np.array(greedy, dtype=np.int64)

    def _saved_examples(self, state: Mapping[str, StateValue]) -> tuple[Rows, NDArray[np.int32]]:
        rows, labels = saved_rows(state, self.n_features), state_value(state, "labels")
        if len(rows) > self.window:
            raise StateError(expected("state's rows", f"at most {self.window}", len(rows)))
        what = f"{len(rows)} codes in [0, {self.n_labels}) as int32"
        if not (
            isinstance(labels, np.ndarray)
            and labels.dtype == np.int32
            and labels.shape == (len(rows),)
        ):
            raise StateError(expected("state's labels", what, _shape(labels)))
        codes = labels.astype(np.int32)
        if len(codes) and not (codes.min() >= 0 and codes.max() < self.n_labels):
            raise StateError(expected("state's labels", what, codes))
        return rows, codes


def saved_rows(state: Mapping[str, StateValue], n_features: int) -> Rows:
    """Return a copy of the rows of a state, float32 (n, d), or raise StateError."""
    rows = state_value(state, "rows")
    if not (
        isinstance(rows, np.ndarray)
        and rows.dtype == np.float32
        and rows.ndim == 2
        and rows.shape[1] == n_features
        and np.isfinite(rows).all()
    ):
        what = f"a finite float32 array (n, {n_features})"
        raise StateError(expected("state's rows", what, _shape(rows)))
    return rows.astype(np.float32)


def _shape(value: StateValue) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}"
    return type(value).__name__
