"""The bandit learners in plain Python: one loop an equation, nothing clever, nothing shared."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from learners.base import FloatArray

Matrix = list[list[float]]


def zeros(n_labels: int, n_features: int) -> Matrix:
    """Return a matrix of zeros."""
    return [[0.0] * n_features for _ in range(n_labels)]


def dot(left: Sequence[float], right: Sequence[float]) -> float:
    """Return the sum of products, from left to right."""
    total = 0.0
    for one, other in zip(left, right, strict=True):
        total += one * other
    return total


def argmax(scores: Sequence[float]) -> int:
    """Return the place of the largest, the first on ties."""
    best = 0
    for i, score in enumerate(scores):
        if score > scores[best]:
            best = i
    return best


def mixture(greedy: int, n_labels: int, gamma: float) -> list[float]:
    """Return (1 - gamma) 1[r = greedy] + gamma / K."""
    return [(1 - gamma) * (r == greedy) + gamma / n_labels for r in range(n_labels)]


def hinge_loss(weights: Matrix, x: Sequence[float], label: int) -> float:
    """Return max over j != label of [1 - w_label . x + w_j . x]_+."""
    scores = [dot(row, x) for row in weights]
    others = [s for r, s in enumerate(scores) if r != label]
    return max(max(0.0, 1 - scores[label] + other) for other in others)


class SlowPerceptron:
    """W <- W + x (e_y - e_yhat)."""

    def __init__(self, n_features: int, n_labels: int) -> None:
        self.weights = zeros(n_labels, n_features)

    def learn(self, x: Sequence[float], label: int) -> None:
        """Learn from one instance with its label."""
        greedy = argmax([dot(row, x) for row in self.weights])
        for r, row in enumerate(self.weights):
            for j, value in enumerate(x):
                row[j] += ((r == label) - (r == greedy)) * value


class SlowRCNBF:
    """W <- W + x (h(f) 1[r = ytilde] / P - 1[r = yhat]); Banditron at rates 0."""

    def __init__(self, n_features: int, n_labels: int, rho_0: float, rho_1: float) -> None:
        self.weights = zeros(n_labels, n_features)
        self.rho_0, self.beta = rho_0, 1 - rho_0 - rho_1

    def update(
        self, x: Sequence[float], label: int, greedy: int, propensity: float, feedback: int
    ) -> None:
        """Learn from one round."""
        h = (feedback - self.rho_0) / self.beta
        for r, row in enumerate(self.weights):
            for j, value in enumerate(x):
                row[j] += value * (h * (r == label) / propensity - (r == greedy))


class SlowBPA:
    """Only the shown label's row moves, until its score agrees with the bit."""

    def __init__(self, n_features: int, n_labels: int, variant: str, aggressiveness: float) -> None:
        self.weights = zeros(n_labels, n_features)
        self.variant, self.c = variant, aggressiveness

    def update(self, x: Sequence[float], label: int, feedback: int) -> float:
        """Learn from one round and return tau."""
        row = self.weights[label]
        loss = max(0.0, 1 + (1 - 2 * feedback) * dot(row, x))
        square = dot(x, x)
        tau = {
            "hard": loss / square,
            "I": min(self.c, loss / square),
            "II": loss / (square + 1 / (2 * self.c)),
        }[self.variant]
        for j, value in enumerate(x):
            row[j] += (2 * feedback - 1) * tau * value
        return tau


class SlowSOBA:
    """The second-order Banditron with A written out and W solved for in every round."""

    def __init__(self, n_features: int, n_labels: int, a: float, *, full: bool) -> None:
        self.shape = (n_labels, n_features)
        self.matrix = a * np.eye(n_labels * n_features)
        self.theta = np.zeros(n_labels * n_features)
        self.weights: FloatArray = np.zeros(self.shape)
        self.full = full
        self.margin_sum = 0.0

    def update(self, x: FloatArray, label: int, propensity: float, feedback: int) -> float | None:
        """Learn from one round and return m, or None without a click."""
        if feedback == 0:
            return None
        scores = (self.weights @ x).tolist()
        scores[label] = -math.inf
        direction = np.zeros(self.shape[0])
        direction[argmax(scores)] = 1.0
        direction[label] = -1.0
        g = np.kron(direction, x) / propensity
        z = math.sqrt(propensity) * g
        w = self.weights.ravel()
        m = float(((w @ z) ** 2 + 2 * (w @ g)) / (1 + z @ np.linalg.solve(self.matrix, z)))
        if m + self.margin_sum >= 0:
            self.margin_sum += m
            self.matrix += np.outer(z, z) if self.full else np.diag(z * z)
            self.theta -= g
            solved = np.linalg.solve(self.matrix, self.theta)
            self.weights = solved.astype(np.float64).reshape(self.shape)
        return m


class SlowConfidit:
    """Regression of each label's sign with confidence bounds, A_i written out."""

    def __init__(
        self, n_features: int, n_labels: int, alpha: float, eta: float, *, full: bool
    ) -> None:
        self.matrices = [(1 + alpha) ** 2 * np.eye(n_features) for _ in range(n_labels)]
        self.weights = np.zeros((n_labels, n_features))
        self.eta, self.full = eta, full

    def scores(self, x: FloatArray) -> list[float]:
        """Return w_i . x + sqrt(eta x' A_i^-1 x), x scaled to norm 1."""
        unit = x / np.linalg.norm(x)
        return [
            float(w @ unit + math.sqrt(self.eta * (unit @ np.linalg.solve(matrix, unit))))
            for w, matrix in zip(self.weights, self.matrices, strict=True)
        ]

    def update(self, x: FloatArray, label: int, feedback: int) -> None:
        """Learn from one round."""
        unit = x / np.linalg.norm(x)
        old = self.matrices[label]
        new = old + (np.outer(unit, unit) if self.full else np.diag(unit * unit))
        target = old @ self.weights[label] + (2 * feedback - 1) * unit
        self.weights[label] = np.linalg.solve(new, target)
        self.matrices[label] = new
