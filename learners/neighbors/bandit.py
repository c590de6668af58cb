"""A bandit over neighbours: how often each label was clicked near an instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from learners.bandits.linear import mixed
from learners.base import Distribution, Learner, Outcome
from learners.errors import ParameterError, StateError, expected
from learners.neighbors.knn import DEFAULT_K
from learners.neighbors.metrics import Rows
from learners.neighbors.saved import MAX_SEQ, saved_rows
from learners.neighbors.search import find_many
from learners.neighbors.window import MAX_WINDOW_FLOATS, Window, to_rows, wrapped
from learners.noise.rates import NoiseRates
from learners.states import State, StateValue, state_integers
from learners.validation import (
    FloatArray,
    check_count,
    check_instance,
    check_instances,
    check_number,
)

#: Default exploration share: a label's neighbours must be paid for.
_GAMMA = 0.1
#: Default number of rounds kept for each label.
_WINDOW = 500
#: Score of a label without neighbours, and how many neighbours that belief is worth: better than a
#: label that mostly fails, worse than one that mostly succeeds.
_PRIOR, _PRIOR_WEIGHT = 0.5, 1.0


class NeighborBandit(Learner):
    """Learns from clicks by each label's own nearest rounds, corrected for false clicks.

    Use it where the right label is no linear function of the features, and instances like the
    present one come again. Linear bandits (`RCNBF`) need far fewer rounds where they fit. Each
    label keeps its last `window` rounds, so that rarely played ones are not pushed out:
    4 K N d bytes. O(K N d) a decision, O(d) an update.

    With s of the T nearest rounds of label r clicked (T at most k, plus all that tie with the
    last), its corrected click probability and the distribution over m labels are::

        score_r = (1/2 + (s - rho_0 T) / (1 - rho_0 - rho_1)) / (1 + T)
        P(r)    = (1 - gamma) 1[r = argmax score] + gamma / m

    Feedback is kept as observed and corrected when used, so new rates hold for old rounds too.

    Parameters
    ----------
    n_features
        Length d of an instance, at least 1.
    n_labels
        Number K of labels, at least 1.
    window
        Most rounds held for each label, at least 1; 500 by default.
    k
        Neighbours of each label, at least 1; 10 by default.
    metric
        ``"euclidean"`` (the default), ``"manhattan"`` or ``"cosine"``.
    gamma
        Share of rounds that explore uniformly, in [0, 1]; 0.1 by default.
    rho_0, rho_1
        Rates of false and of missed clicks, each in [0, 1) with a sum below 1; 0 by default.

    Raises
    ------
    ParameterError
        If a parameter is of the wrong type or out of range, or all windows together would hold
        more than 250,000,000 numbers (also in `add_labels`).

    References
    ----------
    .. [1] Agarwal and Manwani, *Learning multiclass classifier under noisy bandit feedback*,
       2021, eq. 4, for the correction.

    Examples
    --------
    >>> learner = NeighborBandit(n_features=1, n_labels=2, k=3, gamma=0.2)
    >>> for _ in range(3):
    ...     learner.update(Outcome(np.array([1.0]), 1, 0, 0.1, 1))
    ...     learner.update(Outcome(np.array([1.0]), 0, 0, 0.9, 0))
    >>> learner.distribution(np.array([1.1])).probabilities.tolist()
    [0.1, 0.9]
    """

    kind: ClassVar[str] = "neighbor_bandit"
    takes_rates: ClassVar[bool] = True

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        *,
        window: int = _WINDOW,
        k: int = DEFAULT_K,
        metric: str = "euclidean",
        gamma: float = _GAMMA,
        rho_0: float = 0.0,
        rho_1: float = 0.0,
    ) -> None:
        super().__init__(n_features, n_labels)
        self.window = check_count("window", window)
        self.k = check_count("k", k)
        self.metric = metric
        self.gamma = check_number("gamma", gamma, 0, 1)
        self._rates = NoiseRates.of_options(rho_0, rho_1)
        self._check_windows(self.n_labels)
        self._rounds = [self._new_window() for _ in range(self.n_labels)]

    @property
    def rho_0(self) -> float:
        """The rate of false clicks in use."""
        return self._rates.rho_0

    @property
    def rho_1(self) -> float:
        """The rate of missed clicks in use."""
        return self._rates.rho_1

    # -- deciding -------------------------------------------------------------------------
    def distribution(self, x: FloatArray, allowed: Sequence[int] | None = None) -> Distribution:
        """Return the probabilities with which each label would be chosen for `x`; pure.

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
        check_instance(x, self.n_features)
        codes = self._choosable(allowed)
        return self._decision(self._scores(to_rows(x)[np.newaxis], codes)[0], codes)

    def distributions(self, xs: FloatArray) -> list[Distribution]:
        """Return `distribution` of each row of `xs`, shape (n, d); bit for bit the same."""
        check_instances(xs, self.n_features)
        codes = self._choosable(None)
        return [self._decision(scores, codes) for scores in self._scores(to_rows(xs), codes)]

    def scores(self, x: FloatArray) -> FloatArray:
        """Return the corrected click probability of each label for `x`, shape (K,).

        Raises
        ------
        InputError
            If `x` is not such an array as for `distribution`.
        """
        check_instance(x, self.n_features)
        scores: FloatArray = self._scores(to_rows(x)[np.newaxis], None)[0]
        return scores

    # -- learning -------------------------------------------------------------------------
    def update(self, outcome: Outcome) -> None:
        """Learn from one finished round.

        Raises
        ------
        InputError
            If a part of `outcome` is not what `Outcome` says.
        """
        self._check_outcome(outcome)
        row = to_rows(outcome.x)[np.newaxis]
        self._rounds[outcome.label].push_sound(row, np.array([outcome.feedback]))

    def set_rates(self, rho_0: float, rho_1: float) -> None:
        """Use these noise rates from now on, for the rounds before as well.

        Raises
        ------
        InputError
            If they are no rates, or add up to 1 or more.
        """
        self._rates = NoiseRates(rho_0, rho_1)

    def _grow(self, count: int) -> None:
        self._check_windows(self.n_labels + count)
        self._rounds += [self._new_window() for _ in range(count)]

    # -- state ----------------------------------------------------------------------------
    def state(self) -> State:
        """Return options, rates and rounds, label by label, as in the rings; arrays are copies."""
        held = [(rounds, np.sort(rounds.live())) for rounds in self._rounds]
        return {
            **self._options(),
            "firsts": np.array([rounds.first for rounds in self._rounds], dtype=np.int64),
            "counts": np.array([len(rounds) for rounds in self._rounds], dtype=np.int64),
            "rows": np.concatenate([rounds.rows[ring] for rounds, ring in held]),
            "feedback": np.concatenate([rounds.labels[ring] for rounds, ring in held]),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, StateValue]) -> Self:
        """Rebuild the learner: what it then does is bit for bit what the saved one would do."""
        self = cls._from_options(state)
        size = self.n_labels
        firsts = state_integers(state, "firsts", np.int64, size, MAX_SEQ + 1)
        counts = state_integers(state, "counts", np.int64, size, self.window + 1)
        feedback = state_integers(state, "feedback", np.int32, int(counts.sum()), 2)
        rows = saved_rows(state, self.n_features)
        if len(rows) != len(feedback):
            raise StateError(expected("state's rows", f"{len(feedback)} of them", len(rows)))
        ends = np.add.accumulate(counts).tolist()
        for rounds, first, count, end in zip(
            self._rounds, firsts.tolist(), counts.tolist(), ends, strict=True
        ):
            rounds.first = rounds.next = first
            some, newest_first = slice(end - count, end), wrapped(first, count, self.window)
            rounds.push_sound(
                np.roll(rows[some], -newest_first, axis=0), np.roll(feedback[some], -newest_first)
            )
        return self

    # -- inside ---------------------------------------------------------------------------
    def _check_windows(self, n_labels: int) -> None:
        most = MAX_WINDOW_FLOATS // (n_labels * self.n_features)
        if self.window > most:
            what = f"at most {most} for {n_labels} labels of {self.n_features} features"
            raise ParameterError(expected("window", what, self.window))

    def _new_window(self) -> Window:
        return Window(self.window, self.n_features, self.metric)

    def _decision(self, scores: FloatArray, codes: NDArray[np.intp] | None) -> Distribution:
        codes = np.arange(self.n_labels) if codes is None else codes
        greedy = int(codes[scores[codes].argmax()])
        return mixed(greedy, codes, self.n_labels, self.gamma)

    def _scores(self, rows: Rows, codes: NDArray[np.intp] | None) -> FloatArray:
        """Return the scores of each row of (n, d), shape (n, K); the prior outside `codes`.

        Each label needs a search: those that may not be chosen, or were never shown, are skipped.
        """
        scores = np.full((len(rows), self.n_labels), _PRIOR)
        for label in range(self.n_labels) if codes is None else codes.tolist():
            rounds = self._rounds[label]
            if not len(rounds):
                continue
            for line, found in enumerate(find_many(rounds, rows, self.k, ties=True)):
                size = len(found.slots)
                clicks = int(rounds.labels[found.slots].sum())
                clean = (clicks - self.rho_0 * size) / self._rates.beta
                belief = _PRIOR * _PRIOR_WEIGHT + clean
                scores[line, label] = belief / (_PRIOR_WEIGHT + size)
        return scores
