"""What the default learner does when noise rises, or what is right changes, and nobody tells it.

    python -m benchmarks.change --data ../shared/data [--json] [--streams 2]

The 64-feature digits and USPS, prepared as in `benchmarks.versus`: 10,000 rounds, then a change,
then 20,000 rounds more. Either every label becomes the next one; or the first three labels change
places; or clicks that were clean become noisy; or such noise comes and goes every 4,000 rounds.
Beside the learner as it is: one with `drift`, and one that was made at the change, which is what
an operator has who notices at once and begins by hand. Streams are seeded and the same for all.

Then nothing changes, but in the first 4,000 of these rounds nobody counts the clicks; beside it the
same learner with all clicks counted.

Last, most clicks are missed, from the very start: that is no change, but clicks that it expects
stay away. Beside it the same learner, told the rates, and `forward`, to which rates do not matter.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.command import Target, at_most, report
from benchmarks.versus_ours import NEW, OTHER, TOLD, Ours
from benchmarks.versus_streams import (
    BLOCK,
    MOSTLY_MISSED,
    NONE,
    PER_LABEL,
    Rates,
    arguments,
    noise_rates,
    play,
    problem,
)

DATASETS = ("optdigits", "usps")
#: What changes: labels at this noise all the time, or the noise from none to this.
LABELS, THREE, NOISE, ON_AND_OFF = "labels", "three", "noise", "on and off"
CHANGES = (
    (LABELS, NONE),
    (LABELS, ".2/.4"),
    (LABELS, PER_LABEL),
    (THREE, NONE),
    (THREE, ".2/.4"),
    (NOISE, ".15/.15"),
    (NOISE, ".2/.4"),
    (ON_AND_OFF, ".2/.4"),
)
AS_IS, DRIFTING, MADE_ANEW = "as it is", "drift 1e-3", "made anew"
#: No click is counted for a while, at this noise; and all are.
DEAD, COUNTED = "dead", "counted"
DEAD_AT = (".15/.15", ".2/.4", PER_LABEL)
#: From the start, most clicks are missed; and who plays beside it then.
MISSED, BESIDE = "missed", (f"{NEW} {TOLD}", OTHER)
DRIFT = 1e-3
BEFORE, AFTER = 10_000, 20_000
#: Columns of the table, and turns of noise that comes and goes.
N_PARTS = 5
#: Mistakes after a change over those of the learner that was made at it, on average at most: a
#: target of our own, for one that cannot know when to begin.
MOST = 1.1
#: The same for a dead counter, over those where all clicks are counted.
MOST_DEAD = 1.25


class Row(NamedTuple):
    """Share of wrong labels before the change, and in each 4,000 rounds after it."""

    data: str
    change: str
    noise: str
    learner: str
    before: float
    after: list[float]
    restarts: list[int]


def measure(name: str, change: str, noise: str, learner: str, folder: Path, streams: int) -> Row:
    """Play the streams and return the mean shares of wrong labels."""
    data = problem(name, folder)
    moved = {LABELS: data.n_labels, THREE: 3}.get(change, 0)
    none = Rates(np.zeros(data.n_labels), np.ones(data.n_labels))
    changed = data._replace(
        labels=[(label + 1) % moved if label < moved else label for label in data.labels]
    )
    before, after, restarts = [], [], []
    for seed in range(streams):
        rates = noise_rates(noise, data.n_labels, seed)
        noisy = moved or change in (DEAD, COUNTED, MISSED)
        first = rates if noisy else noise_rates(NONE, data.n_labels, seed)
        turns = {ON_AND_OFF: [rates, first], DEAD: [none, *[rates] * (N_PARTS - 1)]}
        drift = DRIFT if learner == DRIFTING else 0.0
        kind = learner if learner in BESIDE else NEW
        player = Ours(kind, data, rates, 0, drift=drift)
        before.append(play(player, data, first, BEFORE, seed).mistakes)
        if learner == MADE_ANEW:
            player = Ours(NEW, data, rates, 0)
        mistakes: list[int] = []
        for part in range(N_PARTS):
            seed_of_part = N_PARTS * seed + part + streams
            some = turns.get(change, [rates])
            turn = some[part % len(some)]
            mistakes += play(player, changed, turn, AFTER // N_PARTS, seed_of_part).mistakes
        after.append(mistakes)
        restarts.append(player.restarts)
    blocks = np.mean(after, axis=0).reshape(N_PARTS, -1).mean(axis=1) / BLOCK
    mean = round(float(np.mean(before)) / BLOCK, 4)
    return Row(name, change, noise, learner, mean, blocks.round(4).tolist(), restarts)


def main() -> None:
    """Measure, print a table, and with --json one object as the last line."""
    args = arguments(__doc__.split("\n", 1)[0])
    rows: list[Row] = []

    def wrong(name: str, change: str, noise: str, learner: str) -> float:
        row = measure(name, change, noise, learner, args.data, args.streams)
        rows.append(row)
        after = " ".join(f"{share:.3f}" for share in row.after)
        what = f"{name:10} {change:10} {noise:9} {learner:20}"
        print(f"{what} {row.before:.3f} | {after} | {row.restarts}", flush=True)
        return float(np.mean(row.after))

    print("share of wrong labels before the change | in each 4,000 rounds after it | restarts")
    changed, dead = [], []
    for name, case in product(DATASETS, CHANGES):
        as_is, _, anew = (wrong(name, *case, learner) for learner in (AS_IS, DRIFTING, MADE_ANEW))
        changed.append(as_is / anew)
    for name, noise in product(DATASETS, DEAD_AT):
        dead.append(wrong(name, DEAD, noise, AS_IS) / wrong(name, COUNTED, noise, AS_IS))
    for name, noise in product(DATASETS, MOSTLY_MISSED):
        for learner in (AS_IS, *BESIDE):
            wrong(name, MISSED, noise, learner)
    targets = [
        _target("mistakes after a change over those of a learner made at it", changed, MOST),
        _target("mistakes around a dead counter over those where all counts", dead, MOST_DEAD),
    ]
    report(targets, as_json=args.json, rows=[row._asdict() for row in rows])


def _target(name: str, ratios: list[float], most: float) -> Target:
    """Print the ratios and return what became of a target."""
    print(f"{name}: " + ", ".join(f"{ratio:.2f}" for ratio in ratios))
    return at_most(f"{name}, mean of ratios", float(np.mean(ratios)), most)


if __name__ == "__main__":
    main()
