"""What the default learner's rates are worth once noise has fallen, and nobody tells it.

Run::

    python -m benchmarks.falling_noise --data ../shared/data [--json] [--streams 2]

The 64-feature digits, USPS, letters and magic04, prepared as in `benchmarks.versus`: 8,000 rounds
at one noise, then 4,000 at less, or at the same. Some time after the change the share of right
labels is estimated (IPS) as the service does it: from the rounds since the learner last began anew,
corrected by the rates that it reports then. Beside it the share that was right in these rounds.
Streams are seeded.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.command import at_least, report
from benchmarks.told_values import COVERED, Look, Shown, found, line, look
from benchmarks.versus_streams import Rates, arguments, problem
from learners import Outcome, create, draw

DATASETS = ("optdigits", "usps", "letter", "magic04")
FALLS = (
    ((0.2, 0.4), (0.05, 0.05)),
    ((0.15, 0.15), (0.0, 0.0)),
    ((0.4, 0.4), (0.15, 0.15)),
    ((0.05, 0.4), (0.05, 0.1)),
    ((0.2, 0.4), (0.2, 0.4)),
)
BEFORE, MARKS = 8_000, (500, 1_000, 2_000, 4_000)


class Row(NamedTuple):
    """One data set at one fall of noise."""

    data: str
    before: tuple[float, float]
    after: tuple[float, float]
    #: Rounds after the change at which each stream's learner began anew; empty where it did not.
    noticed: list[list[int]]
    #: By stream, at each of `MARKS`; None where it had just begun anew.
    looks: list[list[Look | None]]


def stream(
    name: str, fall: tuple[Rates, Rates], folder: Path, seed: int
) -> tuple[list[int], list[Look | None]]:
    """Play one stream; return when the learner began anew after the change, and the looks."""
    data, rng = problem(name, folder), np.random.default_rng(seed)
    learner = create("forward_softmax", data.xs.shape[1], data.n_labels)
    shown: list[Shown] = []
    noticed: list[int] = []
    looks: list[Look | None] = []
    for now in range(1, BEFORE + MARKS[-1] + 1):
        rates = fall[now > BEFORE]
        row = int(rng.integers(len(data.xs)))
        decision = learner.distribution(data.xs[row])
        label = draw(decision, rng.random())
        right, flip = label == data.labels[row], rng.random()
        bit = int(flip >= rates.rho_1[label]) if right else int(flip < rates.rho_0[label])
        propensity, restarts = float(decision.probabilities[label]), learner.restarts
        learner.update(Outcome(data.xs[row], label, decision.greedy, propensity, bit))
        shown.append(Shown(label, propensity, bit, right))
        if learner.restarts > restarts:
            noticed.append(now - BEFORE)
            shown.clear()
        if now - BEFORE in MARKS:
            looks.append(look(shown, learner))
    return noticed, looks


def measure(
    name: str, before: tuple[float, float], after: tuple[float, float], folder: Path, streams: int
) -> Row:
    """Play the streams of one fall."""
    n_labels = problem(name, folder).n_labels
    first, then = (Rates(*(np.full(n_labels, rate) for rate in rates)) for rates in (before, after))
    played = [stream(name, (first, then), folder, seed) for seed in range(streams)]
    return Row(name, before, after, [each[0] for each in played], [each[1] for each in played])


def main() -> None:
    """Measure, print a table, and with --json one object as the last line."""
    args = arguments(__doc__.split("\n", 1)[0])
    print(f"estimate less truth, rounds after the change: {MARKS} | when it began anew")
    rows = []
    for name, fall in product(DATASETS, FALLS):
        row = measure(name, *fall, args.data, args.streams)
        rows.append(row)
        change = f"{name:10} {row.before} to {row.after}"
        print(f"{change}: {line(row.looks)} | {row.noticed}", flush=True)
    targets = []
    for place, mark in enumerate(MARKS):
        looks = found([each[place] for row in rows for each in row.looks])
        held = float(np.mean([each.holds for each in looks]))
        name_of = f"intervals that hold the truth, {mark} rounds after"
        targets.append(at_least(name_of, held, COVERED))
    report(targets, as_json=args.json, rows=[row._asdict() for row in rows])


if __name__ == "__main__":
    main()
