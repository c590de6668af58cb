"""The automatic choice of k and k': test-then-train, forgetting, and who votes."""

from __future__ import annotations

import numpy as np
import pytest

from learners.neighbors.auto import KS, KS_NOISE, AutoRkNN
from learners.neighbors.rknn import RkNN


def _stream(n: int, seed: int, values: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    xs = rng.integers(0, values, size=(n, 2)) / values
    clean = xs[:, 0] > 0.5
    wrong = rng.random(n) < np.where(clean, 0.3, 0.1)
    return xs, (clean ^ wrong).astype(np.int64)


@pytest.mark.parametrize("values", [1000, 3])
def test_hits_are_those_of_fixed_learners_before_learning(values: int) -> None:
    """Each pair's hits are those of an `RkNN` with that pair, also where most neighbours tie."""
    xs, labels = _stream(150, 1, values)
    auto = AutoRkNN(2, 2, window=80, memory=0.9)
    pairs = [(5, 20), (20, 5), (50, 50)]
    fixed = [RkNN(2, 2, window=80, k=k, k_noise=k_noise) for k, k_noise in pairs]
    hits = np.zeros(3)
    for step, (x, label) in enumerate(zip(xs, labels.tolist(), strict=True)):
        right = [learner.distribution(x).greedy == label for learner in fixed]
        hits = hits * 0.9 + right if step else hits
        auto.learn(x, label)
        for learner in fixed:
            learner.learn(x, label)
    for pair, expected in zip(pairs, hits, strict=True):
        i, j = KS.index(pair[0]), KS_NOISE.index(pair[1])
        assert auto._hits[i, j] == expected


def test_the_three_best_pairs_vote() -> None:
    """Those with the most hits decide, and the report says who they are."""
    xs, labels = _stream(300, 2)
    auto = AutoRkNN(2, 2, window=200)
    auto.learn_many(xs, labels)
    report = auto.validation()
    assert [(each.k, each.k_noise) for each in report] == [(k, n) for k in KS for n in KS_NOISE]
    voting = [each.hits for each in report if each.voting]
    assert len(voting) == 3
    assert min(voting) >= max(each.hits for each in report if not each.voting)
    assert 0.5 < max(voting) < 1.0
    scores = auto.scores(np.array([0.9, 0.5]))
    assert scores[scores > 0].sum() == 3


def test_a_change_of_the_stream_changes_the_choice() -> None:
    """With short memory, yesterday's best pair does not decide for ever."""
    rng = np.random.default_rng(3)
    auto = AutoRkNN(1, 2, window=60, memory=0.9)
    for x in rng.random((200, 1)):
        auto.learn(x, int(x[0] * 12) % 2)
    first = max(auto.validation(), key=lambda pair: pair.hits)
    for x in rng.random((200, 1)):
        auto.learn(x, int(rng.random() < 0.8))
    second = max(auto.validation(), key=lambda pair: pair.hits)
    assert first.k < second.k


def test_the_nearest_decide_where_no_pair_is_for_an_allowed_label() -> None:
    """Where all pairs are for a label that may not be chosen, the choice is not the first code."""
    rng = np.random.default_rng(4)
    xs = rng.random((400, 2))
    truth = (xs[:, 1] > 0.5).astype(np.int64)
    auto = AutoRkNN(2, 3, window=400)
    auto.learn_many(xs, np.where(rng.random(400) < 0.75, 2, truth))
    queries = np.array([[0.5, 0.1], [0.3, 0.2], [0.5, 0.9], [0.7, 0.8]])
    assert [auto.distribution(x).greedy for x in queries] == [2] * 4
    assert [auto.distribution(x, [0, 1]).greedy for x in queries] == [0, 0, 1, 1]
    auto.retire_label(2)
    assert [auto.distribution(x).greedy for x in queries] == [0, 0, 1, 1]


def test_its_window_tells_of_noise_by_each_k() -> None:
    """One reading for each k' that is tried, as an `RkNN` with it would give."""
    xs, labels = _stream(80, 5)
    auto = AutoRkNN(2, 2, window=80)
    assert [noise.labels for noise in auto.window_noise()] == [[]] * len(KS_NOISE)
    auto.learn_many(xs, labels)
    for k_noise, noise in zip(KS_NOISE, auto.window_noise(), strict=True):
        fixed = RkNN(2, 2, window=80, k_noise=k_noise)
        fixed.learn_many(xs, labels)
        (expected,) = fixed.window_noise()
        assert (noise.k_noise, noise.rates) == (k_noise, expected.rates)
        assert noise.transition.tolist() == expected.transition.tolist()


def test_hits_are_shares_of_what_is_remembered() -> None:
    """Where all labels are alike every pair was always right, however old that is."""
    auto = AutoRkNN(1, 2, window=60, memory=0.9)
    for x in np.linspace(0, 1, 120):
        auto.learn(np.array([x]), 1)
    assert [each.hits for each in auto.validation()] == pytest.approx([1.0] * 12)
