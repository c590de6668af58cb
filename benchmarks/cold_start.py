"""New items in a running model: described by features, or unknown.

Run::

    python -m benchmarks.cold_start [--json] [--peers]

Synthetic items: item k is worth sigmoid(4 (w_k . x - 1.2)) to a visitor x of 12 numbers, where
w_k is in part a linear function of the item's 5 features (its share is `told`) and in part its
own. A visit shows one item; clicks come with false ones in 10 % and missed ones in 20 % of the
visits. After half of 6,000 visits a third of the items join the others. Reported is what the shown
items were worth, in shares of the best item's worth, for `forward` with and without the features;
the means of four streams. With `--peers` also for the best of some forms of Vowpal Wabbit and of
LinUCB (`pip install vowpalwabbit`; some 10 minutes).
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np

from benchmarks.cold_start_contestants import FORWARD, PEERS, make
from benchmarks.command import at_least, report
from learners.validation import FloatArray

N_FEATURES, N_ITEM_FEATURES = 12, 5
VISITS, SEEDS = 6_000, 4
RHO_0, RHO_1 = 0.1, 0.2
#: Items, and the share of an item's worth that its features tell: nothing, most, nearly all.
CASES = ((45, 0.0), (45, 0.8), (45, 0.95), (210, 0.8))
#: Beyond so many items LinUCB's whole matrix would take hours.
MOST_FOR_PEERS = 100
#: The one that the target is about.
JUDGED = (45, 0.95)
#: Visits that are averaged: from the start, before the new items, just after them, at the end.
SPANS = {
    "first 1,000": slice(0, 1_000),
    "before": slice(1_000, 3_000),
    "500 after": slice(3_000, 3_500),
    "last 1,000": slice(5_000, 6_000),
}


class Shop(NamedTuple):
    """Items: their features of length 1, and their weights, a row each."""

    features: FloatArray
    weights: FloatArray


def make_shop(n_items: int, told: float, rng: np.random.Generator) -> Shop:
    """Return items whose features tell the share `told` of their worth."""
    features = rng.normal(size=(n_items, N_ITEM_FEATURES))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    common = features @ rng.normal(size=(N_ITEM_FEATURES, N_FEATURES))
    own = rng.normal(size=(n_items, N_FEATURES))
    return Shop(features, told * common + np.sqrt(1 - told**2) * own)


def play(name: str, shop: Shop, seed: int, *, described: bool) -> FloatArray:
    """Return what each visit's item was worth, over the best item's worth."""
    rng = np.random.default_rng([seed, 1])
    n_items = len(shop.features)
    contestant = make(name, N_FEATURES, shop.features, described=described)
    shares = np.empty(VISITS)
    for visit in range(VISITS):
        n_shown = n_items - (n_items // 3 if visit < VISITS // 2 else 0)
        x = rng.normal(size=N_FEATURES)
        x /= np.linalg.norm(x)
        worths = 1 / (1 + np.exp(-4 * (shop.weights[:n_shown] @ x - 1.2)))
        item = contestant.show(x, n_shown, rng.random())
        contestant.hear(bool(rng.random() < RHO_0 + (1 - RHO_0 - RHO_1) * worths[item]))
        shares[visit] = worths[item] / worths.max()
    return shares


def play_all(name: str, n_items: int, told: float, *, described: bool) -> FloatArray:
    """Return the mean over the streams of what each visit's item was worth."""
    rngs = [np.random.default_rng([seed, 0]) for seed in range(SEEDS)]
    shops = [make_shop(n_items, told, rng) for rng in rngs]
    streams = [play(name, shop, seed, described=described) for seed, shop in enumerate(shops)]
    mean: FloatArray = np.mean(streams, axis=0)
    return mean


def contest(n_items: int, told: float, *, described: bool, peers: bool) -> dict[str, FloatArray]:
    """Return the shares of `forward`, and with `peers` those of the best of each family.

    The best is the one that was worth most in all: chosen on these streams, which favours it.
    """
    names = {FORWARD: (FORWARD,), **(PEERS if peers and n_items <= MOST_FOR_PEERS else {})}
    best = {}
    for family, forms in names.items():
        played = [play_all(form, n_items, told, described=described) for form in forms]
        best[family] = max(played, key=lambda shares: float(shares.mean()))
    return best


def main() -> None:
    """Print a row for each kind of shop and learner; with --json one object as the last line."""
    parser = argparse.ArgumentParser(description="New items, described or unknown.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--peers", action="store_true", help="Vowpal Wabbit and LinUCB, too")
    args = parser.parse_args()
    rows: dict[str, dict[str, float]] = {}
    print(f"items {'told':>5}  {'features':<8} {'':<8}" + "".join(f"{name:>14}" for name in SPANS))
    for n_items, told in CASES:
        for described in (False, True):
            found = contest(n_items, told, described=described, peers=args.peers)
            for name, shares in found.items():
                row = {span: float(shares[some].mean()) for span, some in SPANS.items()}
                rows[_name(n_items, told, described, name)] = row
                values = "".join(f"{value:>14.3f}" for value in row.values())
                named = "with" if described else "without"
                print(f"{n_items:>5} {told:>5}  {named:<8} {name:<8}{values}", flush=True)
    after = [rows[_name(*JUDGED, known, FORWARD)]["500 after"] for known in (False, True)]
    name = "worth of 500 visits after new items, with features over without, .95 told"
    report([at_least(name, after[1] / after[0], 1.1)], as_json=args.json, worth=rows)


def _name(n_items: int, told: float, described: bool, contestant: str) -> str:
    known = "with" if described else "without"
    return f"{n_items} items, {told} told, {known}, {contestant}"


if __name__ == "__main__":
    main()
