"""Logged rounds for the estimation of noise rates: from a learner, or from a fixed policy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import Dataset
from learners import RCNBF, NoiseRates, Outcome, draw
from learners.noise import flip_bit
from learners.validation import IntArray


class Block(NamedTuple):
    """Logged rounds: rows of the data set, shown labels, feedback."""

    rows: IntArray
    labels: IntArray
    feedback: IntArray


def play(learner: RCNBF, data: Dataset, rates: NoiseRates, rounds: int, seed: int) -> Block:
    """Let a learner choose, click with noise, and log it."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(len(data.xs), size=rounds)
    uniforms, flips = rng.random(rounds).tolist(), rng.random(rounds).tolist()
    labels, feedback = np.empty(rounds, dtype=np.int64), np.empty(rounds, dtype=np.int64)
    for t, row in enumerate(rows.tolist()):
        x = data.xs[row]
        distribution = learner.distribution(x)
        label = draw(distribution, uniforms[t])
        click = flip_bit(int(label == data.labels[row]), rates, flips[t])
        propensity = float(distribution.probabilities[label])
        learner.update(Outcome(x, label, distribution.greedy, propensity, click))
        labels[t], feedback[t] = label, click
    return Block(rows, labels, feedback)


def even_labels(data: Dataset, rows: IntArray, right: float, rng: np.random.Generator) -> IntArray:
    """Show the right label in a share `right` of the rounds, else any other alike."""
    y = data.labels[rows]
    other = (y + rng.integers(1, data.n_labels, size=len(y))) % data.n_labels
    return np.where(rng.random(len(y)) < right, y, other)


def linear_labels(
    data: Dataset, rows: IntArray, right: float, rng: np.random.Generator
) -> IntArray:
    """Show the best label of a perceptron trained until it is a bit better; else explore."""
    return linear_rounds(data, rows, right, rng)[0]


def linear_rounds(
    data: Dataset, rows: IntArray, right: float, rng: np.random.Generator
) -> tuple[IntArray, NDArray[np.float64]]:
    """Return `linear_labels`, and the propensities that they were shown with."""
    length = np.maximum(np.linalg.norm(data.xs, axis=1, keepdims=True), 1e-12)
    xs = np.hstack([data.xs / length, np.full((len(data.xs), 1), 0.1)])
    weights = np.zeros((data.n_labels, xs.shape[1]))
    checked = rng.integers(len(xs), size=3000)
    for _ in range(400):
        for row in rng.integers(len(xs), size=50).tolist():
            best = int((weights @ xs[row]).argmax())
            if best != data.labels[row]:
                weights[data.labels[row]] += xs[row]
                weights[best] -= xs[row]
        greedy = (xs[checked] @ weights.T).argmax(axis=1)
        accuracy = float((greedy == data.labels[checked]).mean())
        if accuracy >= right + 0.4 * (1 - right):
            break
    explore = max(0.02, (accuracy - right) / (accuracy - 1 / data.n_labels))
    greedy = (xs[rows] @ weights.T).argmax(axis=1)
    any_label = rng.integers(data.n_labels, size=len(rows))
    labels = np.where(rng.random(len(rows)) < explore, any_label, greedy)
    each = explore / data.n_labels
    return labels, np.where(labels == greedy, 1 - explore + each, each)
