"""Instances of a few numbers, in whatever units they came.

Run::

    python -m benchmarks.few_features --data ../shared/data [--json] [--streams 2]

Three worlds of ours, in which what is right depends on where an instance lies and not only on its
direction, and data sets of 2 to 36 features, from standardised ones to hundreds beside hundredths.
Our learners take them as they are; Vowpal Wabbit, which could not tell 280 from 300 otherwise, gets
them standardised, and so do ours a second time. 10,000 rounds, noise of .15/.15 and noise that
differs by label (as in `benchmarks.versus`); nobody is told any rates. Reported is the share of
wrong labels in the last 2,000 rounds, means of the streams. Our learners have their default
options. Of Vowpal Wabbit's forms (squarecb and regcb, planes and with products of two features, two
learning rates) the best on these very streams is reported.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.command import at_most, report
from benchmarks.datasets import check, load
from benchmarks.versus_ours import NEW, OTHER, Ours
from benchmarks.versus_peers import FORMS, make_peer
from benchmarks.versus_streams import (
    PER_LABEL,
    Contestant,
    Problem,
    arguments,
    noise_rates,
    play,
)
from learners.validation import FloatArray

ROUNDS = 10_000
NOISES = (".15/.15", PER_LABEL)
N_MADE = 20_000
DATASETS = ("fourclass", "raetsch_banana", "magic04", "segment", "landsat")
MADE = ("bands", "rings", "planes")
EVEN = "standardised"
PRODUCTS = "--interactions ssa"
PEERS = tuple(
    f"vw {FORMS[place]}{products} -l {rate:g}"
    for place in (0, 3)
    for products in ("", f" {PRODUCTS}")
    for rate in (0.5, 2.0)
)
#: Mistakes of the default learner over those of the best peer, the mean of their logarithms.
MOST = 1.0


def made(name: str) -> Problem:
    """Return one of the worlds that are made here.

    Bands: three thirds of the temperatures from 280 to 300. Rings: five numbers, of the usual
    normal distribution, whose distance from 0 is among the least third, the middle one or the last.
    Planes: two numbers, and the largest of four linear functions that do not meet in 0.
    """
    rng = np.random.default_rng(list(name.encode()))
    if name == "bands":
        xs = rng.uniform(280.0, 300.0, (N_MADE, 1))
        labels = np.digitize(xs[:, 0], [280.0 + 20.0 / 3.0, 300.0 - 20.0 / 3.0])
    elif name == "rings":
        xs = rng.normal(size=(N_MADE, 5))
        distances = np.linalg.norm(xs, axis=1)
        labels = np.digitize(distances, np.quantile(distances, [1 / 3, 2 / 3]))
    else:
        xs = rng.normal(size=(N_MADE, 2))
        labels = (xs @ rng.normal(size=(2, 4)) + rng.normal(size=4)).argmax(axis=1)
    return with_constant(name, xs, labels.tolist())


def with_constant(name: str, xs: FloatArray, labels: list[int]) -> Problem:
    """Return a problem with the constant in the last column that contestants expect."""
    return Problem(name, np.hstack([xs, np.ones((len(xs), 1))]), labels, max(labels) + 1)


def as_it_is(name: str, folder: Path) -> Problem:
    """Read a data set."""
    data = load(name, folder)
    return with_constant(name, data.xs, data.labels.tolist())


def standardised(data: Problem) -> Problem:
    """Return a problem with each feature of mean 0 and deviation 1, but for the constant."""
    xs = data.xs[:, :-1] - data.xs[:, :-1].mean(axis=0)
    spread = xs.std(axis=0)
    xs /= np.where(spread > 0.0, spread, 1.0)
    return data._replace(xs=np.hstack([xs, data.xs[:, -1:]]))


def error(name: str, data: Problem, noise: str, streams: int) -> float:
    """Return the share of wrong labels in the last rounds, the mean of some streams."""
    shares = []
    for seed in range(streams):
        rates = noise_rates(noise, data.n_labels, seed)
        contestant: Contestant = (
            Ours(name, data, rates, ROUNDS) if name in (NEW, OTHER) else make_peer(name, data)
        )
        shares.append(play(contestant, data, rates, ROUNDS, seed).last(ROUNDS))
    return float(np.mean(shares))


def main() -> None:
    """Print a row for each problem and noise; with --json one object as the last line."""
    args = arguments("Instances of a few numbers, in whatever units they came.")
    check(DATASETS, args.data)
    problems = [made(name) for name in MADE] + [as_it_is(name, args.data) for name in DATASETS]
    found: dict[str, dict[str, float]] = {}
    ratios = []
    for data in problems:
        for noise in NOISES:
            even = standardised(data)
            peers = {name: error(name, even, noise, args.streams) for name in PEERS}
            best = min(peers, key=lambda name: peers[name])
            ours = {name: error(name, data, noise, args.streams) for name in (NEW, OTHER)}
            ours |= {
                f"{name} {EVEN}": error(name, even, noise, args.streams) for name in (NEW, OTHER)
            }
            found[f"{data.name}, {noise}"] = {**ours, best: peers[best]}
            ratios.append(ours[NEW] / peers[best])
            n_features = data.xs.shape[1] - 1
            row = "".join(f"  {name} {value:.3f}" for name, value in ours.items())
            print(
                f"{data.name:<15}{n_features:>3} features  {noise:<10}{row}"
                f"  Vowpal Wabbit {peers[best]:.3f} ({best})",
                flush=True,
            )
    mean = float(np.exp(np.mean(np.log(ratios))))
    name = "mistakes of forward_softmax over the best of Vowpal Wabbit's forms, the mean"
    report([at_most(name, mean, MOST)], as_json=args.json, errors=found)


if __name__ == "__main__":
    main()
