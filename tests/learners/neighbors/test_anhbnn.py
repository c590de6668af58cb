"""ANHBNN by its rule from scratch, and what its family does while the window fills."""

from __future__ import annotations

import math

import numpy as np
import pytest

from learners.neighbors.anhbnn import ANHBNN, _information
from learners.neighbors.hubness_learner import HwKNN
from learners.neighbors.nhbnn import NHBNN


@pytest.mark.parametrize("backoff", [True, False])
def test_a_neighbour_is_expected_as_often_as_the_others_bring_it(*, backoff: bool) -> None:
    """ANHBNN's rule from scratch, with N_c(j) of the other neighbour below N_c(i, j)."""
    rng, k, n, s = np.random.default_rng(3), 4, 30, 0.5
    rows, labels = rng.normal(size=(n, 2)), rng.integers(0, 2, n)
    learner = ANHBNN(2, 2, k=k, smoothing=s, backoff=backoff)
    learner.learn_many(rows, labels)
    gaps = ((rows.astype(np.float32)[:, None] - rows.astype(np.float32)).astype(float) ** 2).sum(2)
    # Each is among its own k + 1, at distance 0.
    occurs = np.zeros((n, n), bool)
    for q in range(n):
        occurs[gaps[q].argsort(kind="stable")[: k + 1], q] = True
    pairs = np.array([[np.bincount(labels[i & j], minlength=2) for j in occurs] for i in occurs])
    counts, x = np.bincount(labels), np.array([0.1, -0.2])
    near = ((rows - x) ** 2).sum(1).argsort()[:k].tolist()
    scores = np.log(counts / n)
    for i in near:
        alone = (pairs[i, i] + s) / ((k + 1) * counts + s * n)
        others = [j for j in near if j != i]
        told = [_information(pairs[i, i], pairs[j, j], pairs[i, j], counts) for j in others]
        factor = alone
        if sum(told) > 0:
            made_up = s * (alone if backoff else 1.0)
            given = [(pairs[i, j] + made_up) / (pairs[j, j] + s) for j in others]
            factor = sum(w / sum(told) * each for w, each in zip(told, given, strict=True))
        scores += np.log(factor)
    np.testing.assert_allclose(learner.scores(x), scores, rtol=1e-9)


def test_badness_of_hw_knn_follows_the_window_while_it_fills() -> None:
    """What was asked on the way, before the first example leaves, changes no later answer."""
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(60, 2)), rng.integers(0, 2, 60)
    asked, fresh = HwKNN(2, 2, k=3), HwKNN(2, 2, k=3)
    for row, label in zip(rows, labels.tolist(), strict=True):
        asked.learn(row, label)
        asked.scores(rows[0])
    fresh.learn_many(rows, labels)
    assert asked.scores(rows[0]).tolist() == fresh.scores(rows[0]).tolist()


@pytest.mark.parametrize("kind", [NHBNN, ANHBNN])
def test_an_empty_window_says_the_same_of_all_labels(kind: type[NHBNN | ANHBNN]) -> None:
    """Without examples there are no priors either: no score is minus infinity."""
    assert kind(2, 3).scores(np.zeros(2)).tolist() == [0.0, 0.0, 0.0]


def test_few_examples_without_their_own_places() -> None:
    """By hand: of two examples each has one other, whatever k: of n_c (n - 1) + s n places."""
    learner = NHBNN(1, 2, k=5, normalised=False)
    learner.learn_many(np.array([[0.0], [1.0]]), np.array([0, 1]))
    # Each occurs once at itself and once at the other, of 1 + 2.
    expected = math.log(0.5) + 2 * math.log(2 / 3)
    assert learner.scores(np.array([0.0])).tolist() == pytest.approx([expected] * 2)
