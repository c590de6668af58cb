"""SOBA: the second-order Banditron."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, NamedTuple, Self

import numpy as np

from learners.bandits.banditron import DEFAULT_GAMMA
from learners.bandits.linear import (
    MIN_PROPENSITY,
    LinearLearner,
    check_at_least,
    check_entries,
    check_variances,
    sum_product,
)
from learners.base import Outcome
from learners.errors import StateError
from learners.states import State, StateValue, state_array, state_number
from learners.validation import FloatArray, check_choice, check_number


class SOBA(LinearLearner):
    """Learns from clicks only, along directions scaled by what it has seen: second order.

    Use it on clean feedback with correlated features, where it needs fewer rounds than the
    `Banditron`. Not under noise: a false click moves the wrong label. Rounds without a click
    teach it nothing. "diagonal" costs O(K d) a round, "full" O(K^2 d^2) and as much memory.

    Update, [1]_ algorithm 1. On a click on label y of propensity P, with ybar the best other
    active label now, and (x) the Kronecker product::

        g = (e_ybar - e_y) (x) x / P,    z = sqrt(P) g
        m = (<W, z>^2 + 2 <W, g>) / (1 + z' A^-1 z)
        if m + (sum of the m of earlier updates) >= 0:
            A <- A + z z',   theta <- theta - g,   W <- A^-1 theta

    from A = a I and theta = 0; "diagonal" keeps the diagonal of A only. After T rounds no weight
    is larger than T / sqrt(a P), P counting as at least 1e-9; one round moves the weights by at
    most (T + 1/2) / sqrt(a P). The full form skips a round in whose direction rounding has used up
    A^-1 (instances of wildly different size).

    Parameters
    ----------
    n_features
        Length d of an instance, at least 1.
    n_labels
        Number K of labels, at least 1.
    gamma
        Share of rounds that explore uniformly, in [0, 1]; 0.03 by default.
    a
        Scale of the first A, in [1e-6, 1e6]; 1 by default. Larger learns more slowly at first.
    matrix
        "diagonal" (default) or "full"; full takes (K d)^2 <= 4,000,000 entries.

    Raises
    ------
    ParameterError
        If a parameter is of the wrong type or out of range, or a full matrix too large (also
        in `add_labels`).

    References
    ----------
    .. [1] Beygelzimer, Orabona and Zhang, *Efficient online bandit multiclass learning with
       O(sqrt(T)) regret*, 2017.

    Examples
    --------
    >>> learner = SOBA(n_features=2, n_labels=2, gamma=0.5)
    >>> x = np.array([1.0, 0.0])
    >>> learner.update(Outcome(x, label=1, greedy=0, propensity=0.25, feedback=1))
    >>> learner.weights.tolist()
    [[-0.8, 0.0], [0.8, 0.0]]
    """

    kind: ClassVar[str] = "soba"
    #: Beyond T / sqrt(a P) of any log; the squares of larger ones would be too large for a margin.
    _most_weight: ClassVar[float] = 1e25

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        *,
        gamma: float = DEFAULT_GAMMA,
        a: float = 1.0,
        matrix: str = "diagonal",
    ) -> None:
        super().__init__(n_features, n_labels, gamma=gamma)
        self.a = check_number("a", a, 1e-6, 1e6)
        self.matrix = check_choice("matrix", matrix, ("diagonal", "full"))
        self._margin_sum = 0.0
        form = _Diagonal if self.matrix == "diagonal" else _Full
        self._form: _Diagonal | _Full = form(self.n_labels, self.n_features, self.a)

    @property
    def margin_sum(self) -> float:
        """Sum of m over the updates made; never below 0."""
        return self._margin_sum

    def update(self, outcome: Outcome) -> None:
        """Learn from one finished round; only a click changes anything.

        Raises
        ------
        InputError
            If a part of `outcome` is not what `Outcome` says.
        """
        self._check_outcome(outcome)
        x, label, _, propensity, feedback, _ = outcome
        if feedback == 0:
            return
        scores = self._scores(x)
        rival = self._best_other(scores, label)
        if rival is not None:
            margin = float(scores[rival] - scores[label])
            # A plain float: with a numpy one, the sum of margins would have another type in the
            # state.
            click = _Click(x, label, rival, max(float(propensity), MIN_PROPENSITY), margin)
            self._margin_sum += self._form.update(self._weights, click, self._margin_sum)

    def _best_other(self, scores: FloatArray, label: int) -> int | None:
        """Return the best-scoring active label but `label`; None where there is none."""
        others = np.flatnonzero(self._active)
        others = others[others != label]
        return int(others[scores[others].argmax()]) if len(others) else None

    def _grow(self, count: int) -> None:
        self._form.grow(count)
        super()._grow(count)

    def state(self) -> State:
        """Return options, weights and matrices as named arrays and scalars; arrays are copies."""
        return {**super().state(), "margin_sum": self._margin_sum, **self._form.state()}

    @classmethod
    def from_state(cls, state: Mapping[str, StateValue]) -> Self:
        """Rebuild the learner: what it then does is bit for bit what the saved one would do."""
        self = super().from_state(state)
        self._margin_sum = state_number(state, "margin_sum")
        check_at_least("margin_sum", np.array(self._margin_sum), 0.0)
        self._form.restore(state)
        return self


class _Click(NamedTuple):
    """A click on `label`, with the margin <W, (e_rival - e_label) (x) x> by which it lost."""

    x: FloatArray
    label: int
    rival: int
    propensity: float
    margin: float

    def gain(self, curvature: float) -> float:
        """Return m, for `curvature` = z' A^-1 z."""
        square = self.margin * self.margin + 2.0 * self.margin
        return square / self.propensity / (1.0 + curvature)


class _Diagonal:
    """A and theta, one entry for each weight."""

    def __init__(self, n_labels: int, n_features: int, a: float) -> None:
        self.least = a
        self.diagonal = np.full((n_labels, n_features), a)
        self.theta = np.zeros((n_labels, n_features))

    def update(self, weights: FloatArray, click: _Click, margin_sum: float) -> float:
        """Bring A, theta and `weights` up to date and return m; 0 where nothing is learned."""
        x, label, rival, propensity, _ = click
        squares = np.multiply(x, x) / propensity
        curvature = sum_product(squares, 1.0 / self.diagonal[rival] + 1.0 / self.diagonal[label])
        m = click.gain(curvature)
        if m + margin_sum < 0.0:
            return 0.0
        step = x / propensity
        self.theta[rival] -= step
        self.theta[label] += step
        for row in (rival, label):
            self.diagonal[row] += squares
            np.divide(self.theta[row], self.diagonal[row], out=weights[row])
        return m

    def grow(self, count: int) -> None:
        """Make room for `count` more labels."""
        rows = (count, self.theta.shape[1])
        self.diagonal = np.vstack((self.diagonal, np.full(rows, self.least)))
        self.theta = np.vstack((self.theta, np.zeros(rows)))

    def state(self) -> State:
        return {"diagonal": self.diagonal.copy(), "theta": self.theta.copy()}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        self.diagonal = state_array(state, "diagonal", self.diagonal.shape)
        check_at_least("diagonal", self.diagonal, self.least)
        self.theta = state_array(state, "theta", self.theta.shape)
        # The same division that every click applies to a row; other rows are 0 / a.
        weights = state_array(state, "weights", self.theta.shape)
        if not np.array_equal(weights, self.theta / self.diagonal):
            raise StateError("state's theta: expected the weights times the diagonal, got others")


class _Full:
    """A^-1, indexed (label, feature, label, feature), kept by Sherman and Morrison's formula."""

    def __init__(self, n_labels: int, n_features: int, a: float) -> None:
        n_weights = n_labels * n_features
        otherwise = "it has (n_labels n_features)^2; use matrix='diagonal'"
        check_entries("full matrix", n_weights**2, otherwise)
        self.least = a
        self.inverse = np.diag(np.full(n_weights, 1.0 / a)).reshape(
            n_labels, n_features, n_labels, n_features
        )

    def update(self, weights: FloatArray, click: _Click, margin_sum: float) -> float:
        """Bring A and `weights` up to date and return m; 0 where nothing is learned."""
        x, label, rival, propensity, margin = click
        root = math.sqrt(propensity)
        columns = self.inverse[:, :, rival, :] - self.inverse[:, :, label, :]
        np.multiply(columns, x, out=columns)
        u = np.add.reduce(columns, 2) / root  # A^-1 z
        curvature = sum_product(x, u[rival] - u[label]) / root
        # A >= a I, hence a |u|^2 <= z' A^-1 z: where that fails by far, u consists of rounding
        # errors.
        if self.least * float(np.add.reduce(np.multiply(u, u), None)) > 2.0 * curvature:
            return 0.0
        m = click.gain(curvature)
        if m + margin_sum < 0.0:
            return 0.0
        # W' = A'^-1 (theta - g) = W - u (<W, z> + 1 / sqrt(P)) / (1 + z' A^-1 z)
        weights -= u * ((margin + 1.0) / root / (1.0 + curvature))
        v = u / math.sqrt(1.0 + curvature)
        for inverse_rows, own in zip(self.inverse, v, strict=True):
            np.subtract(inverse_rows, own[:, np.newaxis, np.newaxis] * v, out=inverse_rows)
        return m

    def grow(self, count: int) -> None:
        """Make room for `count` more labels."""
        n_labels, n_features = self.inverse.shape[:2]
        grown = _Full(n_labels + count, n_features, self.least)
        grown.inverse[:n_labels, :, :n_labels, :] = self.inverse
        self.inverse = grown.inverse

    def state(self) -> State:
        return {"inverse": self.inverse.copy()}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        shape = self.inverse.shape
        inverse = state_array(state, "inverse", shape)
        n_weights = shape[0] * shape[1]
        # That no direction is below 0 is not checked: features of wildly different size can
        # honestly leave one at -13 times the first variance, and `update` skips what such a matrix
        # says.
        check_variances("inverse", inverse.reshape(n_weights, n_weights), np.array(1 / self.least))
        self.inverse = inverse
