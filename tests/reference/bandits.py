"""The bandit learners in plain Python: one loop an equation, nothing clever, nothing shared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from learners.validation import FloatArray

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


def wave_features(x: FloatArray, count: int, seed: int) -> list[float]:
    """Return the triangle waves of an instance, number by number."""
    raw = [int(value) for value in np.random.PCG64(seed).random_raw(count * 33)]
    uniform = [(value >> 11) / 2**53 for value in raw]
    n_inputs = 16
    features = []
    for j in range(count):
        turn = uniform[2 * count * n_inputs + j]
        for i in range(j * n_inputs, (j + 1) * n_inputs):
            spread = math.sqrt(12) * (uniform[count * n_inputs + i] - 0.5)
            turn += math.sqrt(len(x) / n_inputs) / math.pi * spread * x[raw[i] % len(x)]
        features.append(math.sqrt(1.5 / count) * (4 * abs(turn - round(turn)) - 1))
    return features


class SlowBentInputs:
    """An instance around the mean of those learned from, folded onto a sphere, and waves over it.

    The n-th of them counts n + 1 times in that mean, and n times in the usual distance.
    """

    def __init__(self, n_features: int, n_waves: int, seed: int) -> None:
        self.n_waves, self.seed = n_waves, seed
        self.seen: list[FloatArray] = [np.zeros(n_features)]
        self.distances: list[float] = []

    def __call__(self, x: FloatArray) -> FloatArray:
        """Return the folded instance, the constant, and the waves."""
        rest = x - self._mean(self.seen)
        square = dot(rest.tolist(), rest.tolist())
        usual = self._mean(self.distances) if self.distances else 0.0
        half = math.sqrt((square + usual**2) / 2)
        folded = np.array([*(rest / half), usual / half - 1])
        return np.array([*folded, 1.0, *wave_features(folded, self.n_waves, self.seed)])

    def take_in(self, x: FloatArray) -> FloatArray:
        """Return the same, this one's distance being known, and remember it."""
        centre = self._mean(self.seen)
        distance = float(np.linalg.norm(x - centre))
        most = 3 * self._mean(self.distances) if self.distances else distance
        self.distances.append(min(distance, most))
        z, usual = self(x), self._mean(self.distances)
        self.seen.append(centre + (x - centre) * min(1.0, 3 * usual / distance))
        return z

    def _mean(self, values: Sequence[Any]) -> Any:
        return np.average(values, axis=0, weights=range(1, len(values) + 1))


def slow_features(described: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return what is made of the features of labels; of those that are all 0 nothing is known."""
    known = [f for f in described if any(f)]
    rows = [[0.0] * len(f) for f in described]
    columns = list(zip(*known, strict=True))
    means = [sum(column) / len(known) for column in columns]
    deviations = [
        math.sqrt(sum((value - mean) ** 2 for value in column) / len(known))
        for column, mean in zip(columns, means, strict=True)
    ]
    differing = [deviation > 0 for deviation in deviations]
    for row, f in zip(rows, described, strict=True):
        if any(f):
            row[:] = [
                (value - mean) / deviation / math.sqrt(sum(differing)) if deviation else 0.0
                for value, mean, deviation in zip(f, means, deviations, strict=True)
            ]
            row[:] = [value * math.sqrt(2 / (dot(row, row) + 1)) for value in row]
    return rows


class SlowForward:
    """Regression of the raw click, each block's covariance inverted and solved for anew."""

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        block: int,
        n_waves: int,
        seed: int,
        described: Sequence[Sequence[float]] = (),
    ) -> None:
        self.inputs = SlowBentInputs(n_features, n_waves, seed)
        n_shared = len(described[0]) if described else 0
        self.described = slow_features(described) or [[] for _ in range(n_labels)]
        self.n_shared = n_shared * (n_features + 2)
        own, shared = (0.5, 2.0) if described else (1.0, 1.0)
        variances = [0.25 * own] * (n_features + 2) + [0.1 * own] * n_waves
        common = [0.25 * shared] * self.n_shared
        # A row of its own for each label, and the last one of all of them.
        firsts = [variances] * n_labels + [common]
        self.weights = [np.zeros(len(first)) for first in firsts]
        self.parts = [
            [list(range(len(first)))[i : i + block] for i in range(0, len(first), block)]
            for first in firsts
        ]
        self.covariances = [
            [np.diag([first[i] for i in part]) for part in parts]
            for first, parts in zip(firsts, self.parts, strict=True)
        ]
        self.noises, self.counts = [0.25] * n_labels, [0] * n_labels
        self.clicks = 0
        self.rho_0, self.rho_1 = np.zeros(n_labels), np.zeros(n_labels)

    def relevance(self, x: FloatArray) -> list[float]:
        """Return (w_k . z + v . S f_k - rho_0k) / beta_k."""
        z, n_labels = self.inputs(x), len(self.counts)
        clicks = [
            sum(float(self.weights[row] @ seen) for row, seen in self.rows(label, z))
            for label in range(n_labels)
        ]
        return [
            float((click - low) / (1 - low - missed))
            for click, low, missed in zip(clicks, self.rho_0, self.rho_1, strict=True)
        ]

    def probabilities(self, x: FloatArray, gain: float) -> list[float]:
        """Return inverse gap weighting with each label's own gain."""
        relevance, n_labels = self.relevance(x), len(self.counts)
        best = argmax(relevance)
        beta = float(np.mean(1 - self.rho_0 - self.rho_1))
        shares = []
        for value, count in zip(relevance, self.counts, strict=True):
            known = math.sqrt(min(sum(self.counts), n_labels * count) + 1)
            sharp = gain * max(1, n_labels / 10) * beta * known
            shares.append(1 / (n_labels + sharp * (relevance[best] - value)))
        shares[best] = 0.0
        shares[best] = 1 - sum(shares)
        return shares

    def update(self, x: FloatArray, label: int, feedback: int) -> None:
        """Learn from one round."""
        rows = self.rows(label, self.inputs.take_in(x))
        error = feedback - sum(float(self.weights[row] @ seen) for row, seen in rows)
        self.counts[label] += 1
        memory = min(self.counts[label] + 20, 500)
        self.noises[label] += (min(error**2, 1) - self.noises[label]) / memory
        self.noises[label] = max(self.noises[label], 0.01)
        self.clicks += feedback
        # As long as there are no 10,000 rounds, the share of clicks is that of all.
        clicked = (self.clicks + 10) / (sum(self.counts) + 20)
        noise = self.noises[label] / min(1, 4 * clicked) ** 2
        total = sum(
            float(seen[p] @ c @ seen[p])
            for row, seen in rows
            for p, c in zip(self.parts[row], self.covariances[row], strict=True)
        )
        for row, seen in rows:
            covariances = self.covariances[row]
            for i, part in enumerate(self.parts[row]):
                self.weights[row][part] += covariances[i] @ seen[part] * error / (noise + total)
                precision = np.linalg.inv(covariances[i]) + np.outer(seen[part], seen[part]) / noise
                covariances[i] = np.linalg.inv(precision)

    def rows(self, label: int, z: FloatArray) -> list[tuple[int, FloatArray]]:
        """Return the rows that have a part in a label's click rate, and what each makes it of."""
        features = self.described[label]
        inputs: list[float] = z[: self.n_shared // len(features)].tolist() if features else []
        products = np.array([value * feature for value in inputs for feature in features])
        return [(label, z), (len(self.counts), products)]


class SlowRates:
    """Noise rates, a sharpness and a trust in one filter, and each label's own rates in others."""

    def __init__(self, n_labels: int, least_sharpness: float | None, missed: float = 0.03) -> None:
        # rho_0 and rho_1 of all labels, the sharpness and the trust.
        self.common = np.array([0.2, 0.2, 1.0, 0.0])
        self.least = least_sharpness or 1.0
        self.doubt_of_sharpness = 0.09 if least_sharpness else 0.0
        self.doubt = np.diag([0.04, 0.0009, self.doubt_of_sharpness, 0.09])
        self.own = np.zeros((n_labels, 2))
        self.own_doubts = [np.diag([0.0225, missed * missed]) for _ in range(n_labels)]

    def of(self, label: int) -> FloatArray:
        """Return rho_0 and rho_1 of a label within their bounds."""
        rates = np.clip(self.common[:2] + self.own[label], 0, 0.8)
        return np.asarray(rates * min(1.0, 0.9 / rates.sum()) if rates.sum() else rates)

    def chances(self, scores: FloatArray) -> FloatArray:
        """Return the softmax of the sharpened scores, with (1 + s / 1024)^1024 for exp(s)."""
        scores = self.common[2] * scores
        grown = np.array([(1 + max(s - scores.max(), -60) / 1024) ** 1024 for s in scores])
        return np.asarray(grown / grown.sum())

    def learn(
        self, label: int, feedback: int, scores: FloatArray, spread: float, propensity: float | None
    ) -> None:
        """Learn of rates, sharpness and trust, from the chance that they make of p together.

        `spread` is the variance of a score.
        """
        chances = self.chances(scores)
        p, rho = chances[label], self.of(label)
        trust, ahead = (0.0, 0.0) if propensity is None else (self.common[3], propensity - p)
        beta, right = 1 - rho.sum(), p + trust * ahead
        clicked = rho[0] + beta * right
        slopes = beta * p * (np.eye(len(chances))[label] - chances)
        bend = (1 - trust) * float(slopes @ scores)
        doubt = (1 - trust) ** 2 * self.common[2] ** 2 * float(slopes @ slopes) * spread
        in_common = np.array([1 - right, -right, bend, beta * ahead])
        in_own = in_common[:2]
        total = max(clicked * (1 - clicked), 0.01) + doubt
        total += float(in_common @ self.doubt @ in_common)
        total += float(in_own @ self.own_doubts[label] @ in_own)
        for believed, known, slope in (
            (self.common, self.doubt, in_common),
            (self.own[label], self.own_doubts[label], in_own),
        ):
            seen = known @ slope
            np.add(believed, seen * (feedback - clicked) / total, out=believed)
            np.subtract(known, np.outer(seen, seen) / total, out=known)
        np.clip(self.common, [0, 0, self.least, 0], [0.8, 0.8, 10, 1], out=self.common)
        np.clip(self.own[label], -self.common[:2], 0.8 - self.common[:2], out=self.own[label])
        for place, (change, first) in enumerate(
            [(0.0, 0.04), (0.0, 0.0009), (1e-5, self.doubt_of_sharpness), (1e-5, 0.09)]
        ):
            self.doubt[place, place] = min(self.doubt[place, place] + change, first)


class SlowForwardSoftmax:
    """A softmax and its noise in two filters, with whole matrices; and the rates that are told."""

    def __init__(
        self, n_features: int, n_labels: int, block: int, n_waves: int, seed: int, drift: float
    ) -> None:
        width = n_features + 2 + n_waves
        self.inputs, self.drift = SlowBentInputs(n_features, n_waves, seed), drift
        variances = np.full(width, 10.0)
        variances[n_features + 1] = 0.03 if n_waves else 1.0
        self.first = variances
        self.parts = [list(range(width))[i : i + block] for i in range(0, width, block)]
        self.covariance = np.diag(variances)
        self.weights = np.zeros((n_labels, width))
        self.rates = SlowRates(n_labels, None if drift else 1.0)
        self.told = SlowRates(n_labels, 0.1, missed=0.15)
        self.heard: list[tuple[int, int]] = []
        self.behind, self.expected = [0.0, 0.0], 0.0

    def chances(self, x: FloatArray) -> FloatArray:
        """Return how likely each label is right."""
        return self.rates.chances(self.weights @ self.inputs(x))

    def update(self, x: FloatArray, label: int, feedback: int, propensity: float | None) -> None:
        """Learn from one round; without a propensity from one that it decided."""
        z = self.inputs.take_in(x)
        scores = self.weights @ z
        p = self.rates.chances(scores)
        rho_0, rho_1 = self.rates.of(label)
        beta, right = 1 - rho_0 - rho_1, p[label]
        clicked = rho_0 + beta * right
        slopes = self.rates.common[2] * beta * right * (np.eye(len(p))[label] - p)
        noise, square = max(clicked * (1 - clicked), 0.01), float(slopes @ slopes)
        spread = float(z @ self.covariance @ z)
        in_own = np.array([1 - right, -right])
        total = noise + square * spread + float(in_own @ self.rates.doubt[:2, :2] @ in_own)
        total += float(in_own @ self.rates.own_doubts[label] @ in_own)
        step = (feedback - clicked) / total
        self.weights += np.outer(slopes * step, self.covariance @ z)
        for part in self.parts:
            block = np.ix_(part, part)
            seen = self.covariance[block] @ z[part]
            self.covariance[block] -= np.outer(seen, seen) / (
                len(p) * noise / square + float(z[part] @ seen)
            )
        back = self.drift / max(self.first)
        self.covariance += back * (np.diag(self.first) - self.covariance)
        if propensity is None:
            s = self.rates.common[2]
            cautious = self.rates.chances(scores / np.sqrt(1 + 0.1 * s * s * spread))[label]
            self.compare(label, feedback, clicked, rho_0 + beta * cautious)
        for rates in (self.rates, self.told):
            rates.learn(label, feedback, scores, spread, propensity)

    def compare(self, label: int, feedback: int, chance: float, cautious: float) -> None:
        """Add how much worse chances of a click were than the label's share of clicks."""
        bits = [bit for shown, bit in self.heard if shown == label]
        usual = (sum(bits) + 0.5) / (len(bits) + 1)
        due = (sum(bit for _, bit in self.heard) + 1) / (self.expected + 1)
        for place, likely in enumerate((chance, min(cautious * due, 1.0))):
            variance = max(usual * (1 - usual), likely * (1 - likely), 0.05)
            worse = (feedback - likely) ** 2 - (feedback - usual) ** 2
            self.behind[place] = min(self.behind[place] + worse / (2 * variance), 20.0)
        self.heard.append((label, feedback))
        self.expected += cautious
