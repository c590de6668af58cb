"""What the default learner does when what is right changes: with `drift`, and without.

    python -m benchmarks.change --data ../shared/data [--json] [--streams 2]

The 64-feature digits, prepared as in `benchmarks.versus`: 10,000 rounds, then every label becomes
the next one, then 20,000 rounds more. Nobody tells the learner. Streams are seeded and the same
for every `drift`.
"""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np

from benchmarks.versus_ours import NEW, Ours
from benchmarks.versus_streams import (
    NONE,
    PER_LABEL,
    Problem,
    arguments,
    noise_rates,
    play,
    problem,
)

DATA = "optdigits"
NOISES = (NONE, ".2/.4", PER_LABEL)
DRIFTS = (0.0, 1e-5, 1e-4, 1e-3)
BEFORE, AFTER = 10_000, 20_000
#: Blocks of `play`, of 1,000 rounds each, that a column of the table shows.
SHOWN = 4


class Row(NamedTuple):
    """Share of wrong labels before the change, and in each 4,000 rounds after it."""

    noise: str
    drift: float
    before: float
    after: list[float]


def measure(data: Problem, noise: str, drift: float, streams: int) -> Row:
    """Play the streams and return the mean shares of wrong labels."""
    changed = data._replace(labels=[(label + 1) % data.n_labels for label in data.labels])
    before, after = [], []
    for seed in range(streams):
        rates = noise_rates(noise, data.n_labels, seed)
        player = Ours(NEW, data, rates, 0, drift=drift)
        before.append(play(player, data, rates, BEFORE, 2 * seed).mistakes)
        after.append(play(player, changed, rates, AFTER, 2 * seed + 1).mistakes)
    blocks = np.mean(after, axis=0).reshape(-1, SHOWN).mean(axis=1) / 1_000
    return Row(noise, drift, float(np.mean(before)) / 1_000, blocks.round(4).tolist())


def main() -> None:
    """Measure, print a table, and with --json one object as the last line."""
    args = arguments(__doc__.split("\n", 1)[0])
    data = problem(DATA, args.data)
    rows = []
    print(f"{'noise':>10} {'drift':>6} {'before':>7}  after, each 4,000 rounds")
    for noise in NOISES:
        for drift in DRIFTS:
            row = measure(data, noise, drift, args.streams)
            rows.append(row)
            after = " ".join(f"{share:.3f}" for share in row.after)
            print(f"{row.noise:>10} {row.drift:>6g} {row.before:>7.3f}  {after}", flush=True)
    if args.json:
        print(json.dumps({"rows": [row._asdict() for row in rows], "targets": []}))


if __name__ == "__main__":
    main()
