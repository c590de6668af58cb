"""What a policy of somebody else is estimated to be worth, by rates found in its own log.

Run::

    python -m benchmarks.shadow_values --data ../shared/data [--json] [--streams 2]

The 64-feature digits, letters and USPS, prepared as in `benchmarks.versus`. Somebody else decides:
his best label is right in 85 to 100 % of the rounds, and 10 to 30 % of his labels are drawn
uniformly, with their true propensities. `forward_softmax`, told nothing, learns from 8,000 of his
rounds. After 3,000 and in the end his share of right labels is estimated (IPS), corrected by the
rates that the learner reports by then, and compared with the true one. Streams are seeded.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.command import at_least, report
from benchmarks.told_values import COVERED, Look, Shown, found, line, look
from benchmarks.versus_streams import arguments, problem
from learners import Outcome, create

DATASETS = ("optdigits", "letter", "usps")
#: Share of labels drawn uniformly, and how often the best one is right.
POLICIES = ((0.3, 1.0), (0.1, 0.9), (0.2, 0.85), (0.1, 0.97))
NOISES = ((0.0, 0.0), (0.1, 0.1), (0.2, 0.2), (0.2, 0.4))
MARKS = (3_000, 8_000)


class Row(NamedTuple):
    """One policy on one data set at one noise; by stream, the looks at `MARKS`."""

    data: str
    policy: tuple[float, float]
    noise: tuple[float, float]
    looks: list[list[Look | None]]


def stream(name: str, case: tuple[float, ...], folder: Path, seed: int) -> list[Look | None]:
    """Let him decide and the learner learn; return what he is estimated to be worth."""
    uniform, sure, rho_0, rho_1 = case
    data, rng = problem(name, folder), np.random.default_rng(seed)
    n_labels = data.n_labels
    learner = create("forward_softmax", data.xs.shape[1], n_labels)
    shown: list[Shown] = []
    looks: list[Look | None] = []
    for now in range(1, MARKS[-1] + 1):
        row = int(rng.integers(len(data.xs)))
        truth = data.labels[row]
        best = truth if rng.random() < sure else int(rng.integers(n_labels))
        label = int(rng.integers(n_labels)) if rng.random() < uniform else best
        propensity = uniform / n_labels + (1.0 - uniform) * (label == best)
        flip, right = rng.random(), label == truth
        bit = int(flip >= rho_1 if right else flip < rho_0)
        learner.update(Outcome(data.xs[row], label, best, propensity, bit, elsewhere=True))
        shown.append(Shown(label, propensity, bit, right))
        if now in MARKS:
            looks.append(look(shown, learner))
    return looks


def main() -> None:
    """Measure, print a table, and with --json one object as the last line."""
    args = arguments(__doc__.split("\n", 1)[0])
    print(f"uniform and sure, noise: estimate less truth after {MARKS} rounds")
    rows = []
    for name, policy, noise in product(DATASETS, POLICIES, NOISES):
        looks = [stream(name, (*policy, *noise), args.data, seed) for seed in range(args.streams)]
        rows.append(Row(name, policy, noise, looks))
        print(f"{name:10} {policy} {noise}: {line(looks)}", flush=True)
    told = found([each for row in rows for looks in row.looks for each in looks])
    held = float(np.mean([each.holds for each in told]))
    targets = [at_least("intervals that hold what he is worth", held, COVERED)]
    report(targets, as_json=args.json, rows=[row._asdict() for row in rows])


if __name__ == "__main__":
    main()
