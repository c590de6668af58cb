"""Windowed RkNN on streams with drift and asymmetric label noise, beside river's learners.

Run: ``OMP_NUM_THREADS=1 python -m benchmarks.neighbor_stream [--json] [--quick]``

Each instance is predicted, then learned with a label that is wrong in 20 % of cases where it is 0
and in 40 % where it is 1, or the other way round; what counts is the accuracy on clean labels along
the way. All windows hold 1,000 examples. river's KNN weighs neighbours by their distance, as it
does by default, or counts them alike, as ours do; RkNN is compared with the better one. river's
bundled data are shuffled once (they are sorted).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import datasets, linear_model, neighbors, tree

from benchmarks.command import Target, report
from benchmarks.neighbor_data import standardised
from learners.base import Learner
from learners.neighbors.auto import AutoRkNN
from learners.neighbors.knn import KNN
from learners.neighbors.rknn import RkNN
from learners.noise.corruption import flip_bits
from learners.noise.rates import NoiseRates
from learners.validation import FloatArray, IntArray

WINDOW = 1_000
K, K_NOISE = 20, 100
NOISE = (NoiseRates(0.2, 0.4), NoiseRates(0.4, 0.2))
OURS, RIVERS_KNN, UNWEIGHTED = "rknn", "river knn", "unweighted"

Predict = Callable[[FloatArray], int]
Learn = Callable[[FloatArray, int], None]


def streams(n: int) -> Iterator[tuple[str, FloatArray, IntArray]]:
    """Yield names, standardised instances and clean binary labels."""
    rng = np.random.default_rng(0)
    angles = np.linspace(0, np.pi, n)
    xs = rng.normal(size=(n, 5))
    turned = xs[:, 0] * np.cos(angles) + xs[:, 1] * np.sin(angles)
    yield "turning plane", xs, (turned > 0).astype(np.int64)
    xs = rng.random((n, 2))
    moved = xs + np.linspace(0, 1, n)[:, np.newaxis]
    yield "moving squares", xs, (np.floor(2 * moved).sum(axis=1) % 2).astype(np.int64)
    sources: tuple[Any, ...] = (datasets.Bananas, datasets.Phishing)  # untyped in river
    for source in sources:
        rows, labels = [], []
        for features, label in source():
            rows.append(list(features.values()))
            labels.append(int(label))
        order = rng.permutation(len(rows))[:n]
        xs = standardised(np.array(rows, dtype=np.float64))[order]
        yield source.__name__.lower(), xs, np.array(labels)[order]


def _ours(learner: Learner) -> tuple[Predict, Learn]:
    return lambda x: learner.distribution(x).greedy, learner.learn


def _rivers(model: Any) -> tuple[Predict, Learn]:
    def predict(x: FloatArray) -> int:
        return int(model.predict_one(dict(enumerate(x.tolist()))) or 0)

    def learn(x: FloatArray, label: int) -> None:
        model.learn_one(dict(enumerate(x.tolist())), label)

    return predict, learn


def rivers_knn(*, weighted: bool) -> Any:
    """Return river's KNN on a window like ours."""
    return neighbors.KNNClassifier(K, neighbors.LazySearch(window_size=WINDOW), weighted=weighted)


def players(d: int) -> dict[str, tuple[Predict, Learn]]:
    """Return what predicts and learns, by name."""
    return {
        OURS: _ours(RkNN(d, 2, window=WINDOW, k=K, k_noise=K_NOISE, quantile=0.01)),
        "rknn_auto": _ours(AutoRkNN(d, 2, window=WINDOW, quantile=0.01)),
        "knn": _ours(KNN(d, 2, window=WINDOW, k=K)),
        RIVERS_KNN: _rivers(rivers_knn(weighted=True)),
        UNWEIGHTED: _rivers(rivers_knn(weighted=False)),
        "hoeffding tree": _rivers(tree.HoeffdingTreeClassifier()),
        "logistic": _rivers(linear_model.LogisticRegression()),
    }


def play(xs: FloatArray, clean: IntArray, told: IntArray) -> dict[str, float]:
    """Return each player's share of right predictions, each made before learning."""
    accuracy = {}
    for name, (predict, learn) in players(xs.shape[1]).items():
        right = 0
        for x, truth, label in zip(xs, clean.tolist(), told.tolist(), strict=True):
            right += predict(x) == truth
            learn(x, label)
        accuracy[name] = right / len(xs)
    return accuracy


def main() -> None:
    """Play, print a table, and with --json one object as the last line."""
    parser = argparse.ArgumentParser(description="RkNN on noisy streams beside river's learners.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="1,500 instances instead of 5,000")
    args = parser.parse_args()
    measured: dict[str, dict[str, float]] = {}
    targets = []
    for name, xs, clean in streams(1_500 if args.quick else 5_000):
        for rates in NOISE:
            told: NDArray[np.int64] = flip_bits(clean, rates, np.random.default_rng(1))
            key = f"{name}, {rates.rho_0}/{rates.rho_1}"
            measured[key] = play(xs, clean, told)
            line = "".join(f"  {player} {value:.3f}" for player, value in measured[key].items())
            print(f"{key:26s}{line}", flush=True)
            theirs = max(measured[key][RIVERS_KNN], measured[key][UNWEIGHTED])
            ahead = measured[key][OURS] - theirs
            targets.append(Target(f"rknn over river's knn, {key}", round(ahead, 3), 0, ahead > 0))
    report(targets, as_json=args.json, measured=measured)


if __name__ == "__main__":
    main()
