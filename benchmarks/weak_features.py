"""Where features tell little of which label is right, and one label is right most often.

Run::

    python -m benchmarks.weak_features [--json] [--streams 3]

Made here: five labels, of which one is right in .5 or in .8 of 6,000 instances, and eight features,
which tell nothing about it, or a little (normally distributed around a centre for each label,
centres .4 apart in each feature). 10,000 rounds, nobody is told any rates; reported is the share of
wrong labels in the last 2,000 rounds, means of the streams. Beside our learners the best of four
forms of Vowpal Wabbit on these very streams (squarecb and regcb, two learning rates), always
showing the label that is right most often, and what is best where all is known.
"""

from __future__ import annotations

import argparse
from itertools import product
from typing import NamedTuple

import numpy as np

from benchmarks.command import at_most, count, report
from benchmarks.few_features import with_constant
from benchmarks.versus_ours import NEW, OTHER, Ours
from benchmarks.versus_peers import FORMS, make_peer
from benchmarks.versus_streams import NONE, PER_LABEL, Contestant, Problem, noise_rates, play

ROUNDS = 10_000
SHARES = ((0.5, 0.2, 0.1, 0.1, 0.1), (0.8, 0.05, 0.05, 0.05, 0.05))
SPREADS = (0.0, 0.4)
NOISES = (NONE, ".15/.15", ".2/.4", PER_LABEL)
N_INSTANCES, N_FEATURES, WORLD_SEED = 6_000, 8, 1
PEERS = tuple(f"vw {FORMS[place]} -l {rate:g}" for place in (0, 3) for rate in (0.5, 2.0))
#: Mistakes of the default learner over those of `forward`, mean of the cells; of our own.
MOST = 1.1


class World(NamedTuple):
    """Instances with their right labels, and how often they are missed by whoever knows all."""

    problem: Problem
    always: float
    best: float


class Row(NamedTuple):
    """Shares of wrong labels in the last fifth."""

    share: float
    spread: float
    noise: str
    wrong: dict[str, float]


def world(shares: tuple[float, ...], spread: float) -> World:
    """Return a world; the same each time."""
    rng, n_labels = np.random.default_rng(WORLD_SEED), len(shares)
    centres = spread * rng.normal(size=(n_labels, N_FEATURES))
    labels = rng.choice(n_labels, size=N_INSTANCES, p=shares)
    xs = centres[labels] + rng.normal(size=(N_INSTANCES, N_FEATURES))
    likely = xs @ centres.T - 0.5 * (centres**2).sum(axis=1) + np.log(shares)
    best = float((likely.argmax(axis=1) != labels).mean())
    problem = Problem("made", xs, labels.tolist(), n_labels)
    return World(problem, float((labels != 0).mean()), best)


def contestant(name: str, data: Problem, noise: str, seed: int) -> Contestant:
    """Return one that has learned nothing yet."""
    if name in PEERS:
        return make_peer(name, with_constant(data.name, data.xs, data.labels))
    return Ours(name, data, noise_rates(noise, data.n_labels, seed), 0)


def measure(data: Problem, noise: str, streams: int) -> dict[str, float]:
    """Let all play the same streams; of Vowpal Wabbit's forms the best is reported."""
    found = {}
    for name in (NEW, OTHER, *PEERS):
        curves = [
            play(
                contestant(name, data, noise, seed),
                data,
                noise_rates(noise, data.n_labels, seed),
                ROUNDS,
                seed,
            )
            for seed in range(streams)
        ]
        found[name] = float(np.mean([curve.last(ROUNDS) for curve in curves]))
    best = min(found.pop(name) for name in PEERS)
    return found | {"vw": best}


def main() -> None:
    """Measure, print a table, and with --json one object as the last line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--streams", type=count, default=3, help="3 by default")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = []
    for shares, spread in product(SHARES, SPREADS):
        problem, always, best = world(shares, spread)
        print(
            f"right most often {shares[0]}, centres {spread}: always {always:.3f}, best {best:.3f}"
        )
        for noise in NOISES:
            wrong = measure(problem, noise, args.streams)
            rows.append(Row(shares[0], spread, noise, wrong))
            told = ", ".join(f"{name} {share:.3f}" for name, share in wrong.items())
            print(f"  {noise:9} {told}", flush=True)
    ratios = [row.wrong[NEW] / row.wrong[OTHER] for row in rows]
    targets = [
        at_most("mistakes of the default over forward's, mean", float(np.mean(ratios)), MOST)
    ]
    report(targets, as_json=args.json, rows=[row._asdict() for row in rows])


if __name__ == "__main__":
    main()
