"""A shop in which hardly anybody clicks.

Run::

    python -m benchmarks.rare_clicks [--json] [--peers]

Synthetic items, 20 of them: a visitor x of 12 numbers (of length 1) clicks on item k with
probability sigmoid(w_k . x + b_k - c), and besides one time in a thousand by mistake. c is such
that an item that is shown blindly is clicked by one visitor in 400, in 50 or in 12. Nobody is told
any rates. Reported is in how many of 1,000 visits what was shown is worth a click: over the last
third of 15,000, means of three streams. Our learners have their default options. With `--peers`
also the best of some forms of Vowpal Wabbit and of LinUCB, chosen on these very streams
(`pip install vowpalwabbit`; some twenty minutes).
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np

from benchmarks.cold_start_contestants import PEERS, Ours, make
from benchmarks.command import at_least, report
from learners import create
from learners.validation import FloatArray

N_ITEMS, N_FEATURES = 20, 12
VISITS, SEEDS = 15_000, 3
LAST = slice(VISITS * 2 // 3, VISITS)
BY_MISTAKE = 0.001
#: By how rare clicks are: the c there.
CASES = {"one in 400": 6.5, "one in 50": 4.5, "one in 12": 2.8}
OURS = ("forward", "forward_softmax", "forward_auto")
#: Least share of the best peer's clicks that `forward` should get.
LEAST = 0.9


class Shop(NamedTuple):
    """Items: how they are clicked by whom, shape (K, d), and how much by anybody, (K,)."""

    slopes: FloatArray
    levels: FloatArray

    def chances(self, x: FloatArray) -> FloatArray:
        """Return how probably a visitor clicks on each item."""
        chances: FloatArray = 1 / (1 + np.exp(-(self.slopes @ x + self.levels)))
        return chances


def play(name: str, rare: float, seed: int) -> FloatArray:
    """Return the chances of a click, by merit, of what was shown, of the best, and of any item."""
    rng = np.random.default_rng([seed, N_ITEMS])
    shop = Shop(rng.normal(size=(N_ITEMS, N_FEATURES)), rng.normal(size=N_ITEMS) * 0.5 - rare)
    contestant = (
        Ours(create(name, N_FEATURES, N_ITEMS))
        if name in OURS
        else make(name, N_FEATURES, np.empty((N_ITEMS, 0)), described=False)
    )
    found = np.empty((VISITS, 3))
    for visit in range(VISITS):
        x = rng.normal(size=N_FEATURES)
        x /= np.linalg.norm(x)
        chances = shop.chances(x)
        item = contestant.show(x, N_ITEMS, rng.random())
        contestant.hear(bool(rng.random() < BY_MISTAKE + (1 - BY_MISTAKE) * chances[item]))
        found[visit] = chances[item], chances.max(), chances.mean()
    return found


def worth(name: str, rare: float) -> FloatArray:
    """Return clicks by merit in 1,000 of the last visits: of the shown, the best, and any item."""
    streams = [play(name, rare, seed)[LAST].mean(axis=0) for seed in range(SEEDS)]
    mean: FloatArray = 1_000 * np.mean(streams, axis=0)
    return mean


def main() -> None:
    """Print a row for each learner; with --json one object as the last line."""
    parser = argparse.ArgumentParser(description="A shop in which hardly anybody clicks.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--peers", action="store_true", help="Vowpal Wabbit and LinUCB, too")
    args = parser.parse_args()
    families = {name: (name,) for name in OURS} | (PEERS if args.peers else {})
    clicks: dict[str, dict[str, float]] = {}
    targets = []
    for case, rare in CASES.items():
        found = {name: [worth(form, rare) for form in forms] for name, forms in families.items()}
        _, best, blind = found[OURS[0]][0]
        row = {name: max(float(each[0]) for each in forms) for name, forms in found.items()}
        clicks[case] = {"blindly": float(blind), **row, "best item": float(best)}
        values = "".join(f"{name:>17} {value:7.2f}" for name, value in clicks[case].items())
        print(f"{case:<11}{values}", flush=True)
        if args.peers:
            peer = max(row[name] for name in PEERS)
            name = f"clicks of forward over the best peer's, {case}"
            targets.append(at_least(name, row[OURS[0]] / peer, LEAST))
    report(targets, as_json=args.json, clicks=clicks)


if __name__ == "__main__":
    main()
