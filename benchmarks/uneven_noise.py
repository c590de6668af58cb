"""Noise that no learner's model has: it depends on the instance, and not on the label alone.

Run::

    python -m benchmarks.uneven_noise --data ../shared/data [--json] [--streams 2]

Devices: a feature says which of two an instance came from, and clicks lie far more on one of
them (.05/.10 and .40/.30). Neighbours: the label whose instances are nearest to those of the right
one is clicked by mistake in .50, others in .05, and .15 of right ones are not clicked. Hard
instances: noise is .40/.40 on the three in ten that lie nearest to other labels' instances, .05/.05
on the others.

20,000 rounds, features as in `benchmarks.versus`. Reported is the share of wrong labels in the last
fifth, means of the streams; of Vowpal Wabbit's forms (squarecb and regcb, two learning rates each)
the best on these very streams is reported. "told": the default learner, told each label's mean
rates, as they are where labels are shown blindly.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.command import at_most, report
from benchmarks.datasets import check
from benchmarks.versus_ours import ESTIMATED, NEW, OTHER, TOLD, Ours
from benchmarks.versus_peers import FORMS, make_peer
from benchmarks.versus_streams import (
    Contestant,
    NoiseOf,
    Problem,
    Rates,
    arguments,
    play_noise,
    problem,
)
from learners.validation import FloatArray

ROUNDS, ESTIMATE_EVERY = 20_000, 5_000
DATASETS = ("optdigits", "pendigits", "usps")
CONTESTANTS = (NEW, f"{NEW} {TOLD}", f"{OTHER} {ESTIMATED}")
PEERS = tuple(f"vw {FORMS[place]} -l {rate:g}" for place in (0, 3) for rate in (0.5, 2.0))
#: Share of the instances that count as hard.
HARD_SHARE = 0.3
#: Size of the feature that says which device it was, beside features of length 1 together.
DEVICE = 0.3
#: Mistakes of the default learner over those of the best peer: the mean of their logarithms, worst.
MOST = 1.0


def devices(name: str, folder: Path) -> tuple[Problem, NoiseOf]:
    """Return a data set, each instance from one of two devices, and their noise."""
    data = problem(name, folder)
    second = np.random.default_rng(0).integers(2, size=len(data.xs))
    said = np.where(second, DEVICE, -DEVICE)[:, np.newaxis]
    xs = np.hstack([data.xs[:, :-1], said, data.xs[:, -1:]])
    rates, which = ((0.05, 0.1), (0.4, 0.3)), second.tolist()
    return data._replace(xs=xs), lambda row, _: rates[which[row]]


def neighbours(name: str, folder: Path) -> tuple[Problem, NoiseOf]:
    """Return a data set whose labels are taken for their nearest ones."""
    data = problem(name, folder)
    means = label_means(data)
    apart = np.square(means[:, np.newaxis] - means).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    nearest = apart.argmin(axis=1).tolist()
    return data, lambda row, label: (0.5 if label == nearest[data.labels[row]] else 0.05, 0.15)


def hard_instances(name: str, folder: Path) -> tuple[Problem, NoiseOf]:
    """Return a data set with more noise where labels meet."""
    data = problem(name, folder)
    apart = np.square(data.xs[:, np.newaxis] - label_means(data)).sum(axis=2)
    rows = np.arange(len(apart))
    own = apart[rows, data.labels]
    apart[rows, data.labels] = np.inf
    margins = apart.min(axis=1) - own
    hard = (margins < np.quantile(margins, HARD_SHARE)).tolist()
    return data, lambda row, _: (0.4, 0.4) if hard[row] else (0.05, 0.05)


def label_means(data: Problem) -> FloatArray:
    """Return the mean instance of each label, (K, d)."""
    labels = np.array(data.labels)
    return np.array([data.xs[labels == label].mean(axis=0) for label in range(data.n_labels)])


WORLDS: dict[str, Callable[[str, Path], tuple[Problem, NoiseOf]]] = {
    "devices": devices,
    "neighbours": neighbours,
    "hard instances": hard_instances,
}


def mean_rates(data: Problem, noise: NoiseOf) -> Rates:
    """Return each label's rates as they are where labels are shown blindly."""
    right = np.arange(data.n_labels) == np.array(data.labels)[:, np.newaxis]
    pairs = np.array(
        [[noise(row, label) for label in range(data.n_labels)] for row in range(len(data.xs))]
    )
    return Rates(
        *(pairs[..., i].mean(axis=0, where=which) for i, which in enumerate((~right, right)))
    )


def error(name: str, data: Problem, noise: NoiseOf, rates: Rates, streams: int) -> float:
    """Return the share of wrong labels in the last rounds, the mean of some streams."""
    shares = []
    for seed in range(streams):
        contestant: Contestant = (
            Ours(name, data, rates, ESTIMATE_EVERY)
            if name in CONTESTANTS
            else make_peer(name, data)
        )
        shares.append(play_noise(contestant, data, noise, ROUNDS, seed).last(ROUNDS))
    return float(np.mean(shares))


def main() -> None:
    """Print a row for each world and data set; with --json one object as the last line."""
    args = arguments("Noise that depends on the instance.")
    check(DATASETS, args.data)
    found: dict[str, dict[str, float]] = {}
    ratios = []
    for world, make in WORLDS.items():
        for dataset in DATASETS:
            data, noise = make(dataset, args.data)
            rates = mean_rates(data, noise)
            ours = {name: error(name, data, noise, rates, args.streams) for name in CONTESTANTS}
            peers = {name: error(name, data, noise, rates, args.streams) for name in PEERS}
            best = min(peers, key=lambda name: peers[name])
            found[f"{world}, {dataset}"] = {**ours, best: peers[best]}
            ratios.append(ours[NEW] / peers[best])
            row = "".join(f"  {name} {value:.3f}" for name, value in ours.items())
            print(
                f"{world:<15} {dataset:<10}{row}  Vowpal Wabbit {peers[best]:.3f} ({best})",
                flush=True,
            )
    what = f"mistakes of {NEW} over the best of Vowpal Wabbit's forms"
    mean = float(np.exp(np.mean(np.log(ratios))))
    targets = [at_most(f"{what}, the mean", mean, MOST)]
    targets.append(at_most(f"{what}, worst", max(ratios), MOST))
    report(targets, as_json=args.json, errors=found)


if __name__ == "__main__":
    main()
