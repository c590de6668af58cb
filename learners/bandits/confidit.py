"""Confidit: second-order confidence bounds instead of random exploration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np

from learners.bandits.linear import (
    MIN_SQUARED_NORM,
    LinearLearner,
    check_at_least,
    check_covariances,
    check_entries,
    product_space,
    row_sums,
    sum_product,
)
from learners.base import Outcome
from learners.states import State, StateValue, state_array
from learners.validation import FloatArray, check_choice, check_number


class Confidit(LinearLearner):
    """Learns each label's score by regression and plays the highest upper confidence bound.

    Use it where rounds are precious: with the full matrix it needs the fewest. Flips that do not
    depend on the label shrink its scores but never change their order, so it needs no noise rates.
    Not for off-policy evaluation: it plays its argmax with propensity 1. "full" costs O(K d^2) a
    decision, "diagonal" O(K d) (and suffers from correlated features).

    Instances are scaled to norm 1, here called x. Score and update, [1]_, with s = 1 on a click
    and -1 otherwise, from A_i = (1 + alpha)^2 I and w_i = 0; only the shown label moves::

        score_i = w_i . x + sqrt(eta x' A_i^-1 x)
        w_i <- (A_i + x x')^-1 (A_i w_i + s x),    A_i <- A_i + x x'

    One round moves the row by at most (1 + |w_i|) / (1 + alpha)^2. An instance with
    |x|^2 < 1e-12 before scaling counts as 0 and changes nothing.

    Parameters
    ----------
    n_features
        Length d of an instance, at least 1.
    n_labels
        Number K of labels, at least 1.
    alpha
        Sets the first A, in [0, 1000]; 1 by default.
    eta
        Weight of the confidence term, in [0, 1e6]; 1 by default. 0 never explores.
    matrix
        "diagonal" (default) or "full"; full takes K d^2 <= 4,000,000 entries.

    Raises
    ------
    ParameterError
        If a parameter is of the wrong type or out of range, or a full matrix too large (also
        in `add_labels`).

    References
    ----------
    .. [1] Crammer and Gentile, *Multiclass classification with bandit feedback using adaptive
       regularization*, 2011.

    Examples
    --------
    >>> learner = Confidit(n_features=2, n_labels=2)
    >>> x = np.array([3.0, 0.0])
    >>> learner.update(Outcome(x, label=0, greedy=0, propensity=1.0, feedback=0))
    >>> learner.weights.tolist(), learner.distribution(x).greedy
    ([[-0.2, 0.0], [0.0, 0.0]], 1)
    """

    kind: ClassVar[str] = "confidit"

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        *,
        alpha: float = 1.0,
        eta: float = 1.0,
        matrix: str = "diagonal",
    ) -> None:
        super().__init__(n_features, n_labels, gamma=0.0)
        self.alpha = check_number("alpha", alpha, 0, 1000)
        self.eta = check_number("eta", eta, 0, 1e6)
        self.matrix = check_choice("matrix", matrix, ("diagonal", "full"))
        form = _Diagonal if self.matrix == "diagonal" else _Full
        self._form: _Diagonal | _Full = form(
            self.n_labels, self.n_features, (1.0 + self.alpha) ** 2
        )

    def update(self, outcome: Outcome) -> None:
        """Learn from one finished round.

        Raises
        ------
        InputError
            If a part of `outcome` is not what `Outcome` says.
        """
        self._check_outcome(outcome)
        x = _scaled(outcome.x)
        if x is not None:
            sign = 1.0 if outcome.feedback else -1.0
            self._form.fit(self._weights[outcome.label], outcome.label, x, sign)

    def _scores(self, x: FloatArray) -> FloatArray:
        scaled = _scaled(x)
        if scaled is None:
            return np.zeros(self.n_labels)
        bonuses = np.sqrt(self.eta * self._form.variances(scaled))
        scores: FloatArray = super()._scores(scaled) + bonuses
        return scores

    def _score_chunk(self, xs: FloatArray, products: FloatArray, scores: FloatArray) -> None:
        if isinstance(self._form, _Full):
            for i, x in enumerate(xs):
                scores[i] = self._scores(x)
            return
        # In C order whatever `xs` is: sums along a row depend on how it lies in memory.
        squared_norms = np.add.reduce(np.multiply(xs, xs, order="C"), 1)
        short = squared_norms < MIN_SQUARED_NORM
        # Short ones are divided by 1 and corrected below, to avoid 0 / 0.
        scaled = xs / np.sqrt(np.where(short, 1.0, squared_norms))[:, np.newaxis]
        np.multiply(np.multiply(scaled, scaled)[:, np.newaxis, :], self._form.inverse, out=products)
        bonuses = np.sqrt(self.eta * np.add.reduce(products, 2))
        super()._score_chunk(scaled, products, scores)
        scores += bonuses
        scores[short] = 0.0

    def _grow(self, count: int) -> None:
        self._form.grow(count)
        super()._grow(count)

    def state(self) -> State:
        """Return options, weights and matrices as named arrays and scalars; arrays are copies."""
        return {**super().state(), **self._form.state()}

    @classmethod
    def from_state(cls, state: Mapping[str, StateValue]) -> Self:
        """Rebuild the learner: what it then does is bit for bit what the saved one would do."""
        self = super().from_state(state)
        self._form.restore(state)
        return self


def _scaled(x: FloatArray) -> FloatArray | None:
    """Return `x` scaled to norm 1, or None where it is too short for that."""
    squared_norm = sum_product(x, x)
    if squared_norm < MIN_SQUARED_NORM:
        return None
    scaled: FloatArray = x / math.sqrt(squared_norm)
    return scaled


class _Diagonal:
    """The diagonal of each A_i, shape (K, d)."""

    def __init__(self, n_labels: int, n_features: int, first: float) -> None:
        self.first = first
        self._take(np.full((n_labels, n_features), first))

    def _take(self, diagonal: FloatArray) -> None:
        self.diagonal = diagonal
        self.inverse: FloatArray = 1.0 / diagonal
        self.products = product_space(*diagonal.shape)

    def variances(self, x: FloatArray) -> FloatArray:
        """Return x' A_i^-1 x for each label."""
        variances = np.empty(len(self.inverse))
        row_sums(self.inverse, np.multiply(x, x), self.products, variances)
        return variances

    def fit(self, row: FloatArray, label: int, x: FloatArray, sign: float) -> None:
        """Add the example (x, sign) to A_label and to the weights `row`."""
        old = self.diagonal[label]
        new = old + np.multiply(x, x)
        np.divide(np.multiply(old, row) + sign * x, new, out=row)
        self.diagonal[label] = new
        np.divide(1.0, new, out=self.inverse[label])

    def grow(self, count: int) -> None:
        """Make room for `count` more labels."""
        rows = (count, self.diagonal.shape[1])
        self._take(np.vstack((self.diagonal, np.full(rows, self.first))))

    def state(self) -> State:
        return {"diagonal": self.diagonal.copy()}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        diagonal = state_array(state, "diagonal", self.diagonal.shape)
        check_at_least("diagonal", diagonal, self.first)
        self._take(diagonal)


class _Full:
    """Each A_i^-1, shape (K, d, d), kept by Sherman and Morrison's formula."""

    def __init__(self, n_labels: int, n_features: int, first: float) -> None:
        otherwise = "it has n_labels n_features^2; use matrix='diagonal'"
        check_entries("full matrix", n_labels * n_features**2, otherwise)
        self.first = first
        self.inverses = np.zeros((n_labels, n_features, n_features))
        self.inverses[:, range(n_features), range(n_features)] = 1.0 / first
        self.products = product_space(n_features, n_features)

    def _apply(self, inverse: FloatArray, x: FloatArray) -> FloatArray:
        product = np.empty(len(x))
        row_sums(inverse, x, self.products, product)
        return product

    def variances(self, x: FloatArray) -> FloatArray:
        """Return x' A_i^-1 x for each label; never below 0."""
        variances = np.empty(len(self.inverses))
        for label, inverse in enumerate(self.inverses):
            # Rounding can leave -1e-20 of what is tiny, which has no root.
            variances[label] = max(sum_product(self._apply(inverse, x), x), 0.0)
        return variances

    def fit(self, row: FloatArray, label: int, x: FloatArray, sign: float) -> None:
        """Add the example (x, sign) to A_label and to the weights `row`."""
        inverse = self.inverses[label]
        u = self._apply(inverse, x)
        grown = 1.0 + max(sum_product(x, u), 0.0)
        # (A + x x')^-1 x = u / (1 + x . u), and A w = (A + x x') w - x (x . w).
        row += u * ((sign - sum_product(row, x)) / grown)
        v = u / math.sqrt(grown)
        inverse -= np.multiply(v[:, np.newaxis], v)

    def grow(self, count: int) -> None:
        """Make room for `count` more labels."""
        n_labels, n_features, _ = self.inverses.shape
        grown = _Full(n_labels + count, n_features, self.first)
        grown.inverses[:n_labels] = self.inverses
        self.inverses = grown.inverses

    def state(self) -> State:
        return {"inverses": self.inverses.copy()}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        inverses = state_array(state, "inverses", self.inverses.shape)
        check_covariances("inverses", inverses, np.array(1.0 / self.first))
        self.inverses = inverses
