"""Where nothing is clicked, and nobody says so until a window is over.

Run::

    python -m benchmarks.silence [--json]

scikit-learn's digits, pixels from 0 to 1, 15,000 decisions; a click comes 50 to 300 decisions after
its own. Where nothing was clicked, that is known a window of 600 or 2,400 decisions later, at the
next sweep, one every 300 (half a second, as the service has it, at 600 decisions a second). Clicks
are learned as they come, so ahead of silence; or held until the window is over, as the service does
with `on_expiry: no_click`; or as they come beside zeros that somebody sends just as soon, as with
`ignore`. Reported is the share of wrong labels of all that were shown, means of three streams.
"""

from __future__ import annotations

import argparse
import heapq
import math
from itertools import product
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits

from benchmarks.command import at_most, report
from learners import Outcome, create, draw

KINDS = ("forward_softmax", "forward")
ROUNDS, SEEDS = 15_000, 3
WINDOWS, SWEEP = (600, 2_400), 300
NOISES = {"none": (0.0, 0.0), ".15/.15": (0.15, 0.15), ".2/.4": (0.2, 0.4)}
SOONEST, LATEST = 50, 300
AHEAD, HELD, TOLD = "clicks as they come", "clicks held", "zeros sent"
#: Mistakes with clicks held over those with clicks ahead of silence, of our own: at most, where
#: clicks lie; and where they do not, so that clicks alone teach nothing wrong, too.
MOST, MOST_CLEAN = 0.8, 1.5


class Row(NamedTuple):
    """Shares of wrong labels in the streams."""

    learner: str
    noise: str
    window: int
    way: str
    wrong: list[float]


def wrong_share(kind: str, rates: tuple[float, float], window: int, way: str, seed: int) -> float:
    """Play one stream; whatever is learned in which way, rows and uniforms are the same."""
    pixels, digits = load_digits(return_X_y=True)
    xs, digits = pixels / 16, digits.tolist()
    learner, (rho_0, rho_1) = create(kind, xs.shape[1], 10), rates
    coming: list[tuple[float, int, Outcome]] = []
    wrong = 0
    uniforms = np.random.default_rng(seed).random((ROUNDS, 4))
    for now, (at, drawn, flip, late) in enumerate(uniforms.tolist()):
        while coming and coming[0][0] <= now:
            learner.update(heapq.heappop(coming)[2])
        row = int(at * len(xs))
        decision = learner.distribution(xs[row])
        label = draw(decision, drawn)
        right = label == digits[row]
        wrong += not right
        bit = int(flip >= rho_1 if right else flip < rho_0)
        propensity = float(decision.probabilities[label])
        outcome = Outcome(xs[row], label, decision.greedy, propensity, bit)
        learned = now + SOONEST + late * (LATEST - SOONEST)
        if way == HELD or (way == AHEAD and not bit):
            learned = math.ceil((now + window) / SWEEP) * SWEEP
        heapq.heappush(coming, (learned, now, outcome))
    return wrong / ROUNDS


def main() -> None:
    """Print a row for each way; with --json one object as the last line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows, noisy, clean = list[Row](), list[float](), list[float]()
    for kind, (noise, rates), window in product(KINDS, NOISES.items(), WINDOWS):
        found = {}
        for way in (AHEAD, HELD, TOLD):
            shares = [wrong_share(kind, rates, window, way, seed) for seed in range(SEEDS)]
            found[way] = float(np.mean(shares))
            rows.append(Row(kind, noise, window, way, shares))
            between = f"{min(shares):.3f} to {max(shares):.3f}"
            print(
                f"{kind:16}{noise:9}{window:6,}  {way:20} {found[way]:.3f}  {between}", flush=True
            )
        (noisy if any(rates) else clean).append(found[HELD] / found[AHEAD])
    name = "mistakes with clicks held over those with clicks ahead of silence"
    targets = [
        at_most(f"{name}, mean of ratios", float(np.mean(noisy)), MOST),
        at_most(f"{name}, the same without noise", float(np.mean(clean)), MOST_CLEAN),
    ]
    report(targets, as_json=args.json, rows=[row._asdict() for row in rows])


if __name__ == "__main__":
    main()
