"""What a challenger learns from the log of somebody else, who is mostly right.

    python -m benchmarks.challenger --data ../shared/data [--json] [--streams 2]

The log: rounds of a linear classifier that should be right in a given share of them (the share
reached is printed), and explores a little (`noise_rates_streams.linear_rounds`), with noisy clicks.
Each challenger begins with nothing and learns from the log's first 30,000 rounds as it would beside
the learner that decides: from the label shown, its propensity, and the click. Then, and on the way,
it is asked for its best label for 2,000 instances of the set, most of which the log has shown in
the end. Learners have their options and instances of `benchmarks.versus`, prepared as there; "told"
are those that know each label's rates.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.command import at_most, report
from benchmarks.datasets import load
from benchmarks.noise_rates_streams import linear_rounds
from benchmarks.versus_ours import NEW, OPTIONS, TOLD, LabelRates, give_rates
from benchmarks.versus_streams import (
    NONE,
    PER_LABEL,
    arguments,
    family,
    noise_rates,
    problem,
)
from learners import Learner, NoiseRates, Outcome, create
from learners.noise.corruption import flip_bits_by_label
from learners.validation import FloatArray

DATASETS = ("usps", "optdigits")
NOISES = (NONE, ".2/.4", ".4/.2", PER_LABEL)
#: In what share of the rounds the label shown should be right; the share reached is printed.
RIGHT = (0.85, 0.95)
SHOWN = "wrong labels in the log"
KNOWING = f"{NEW} {TOLD}"
CHALLENGERS = (NEW, KNOWING, f"forward {TOLD}", f"rcnbf {TOLD}", "banditron")
#: After how many rounds they are asked, and where they are judged.
ASKED_AFTER, JUDGED_AFTER = (1_000, 3_000, 10_000, 30_000), 10_000
N_ASKED = 2_000
#: Mistakes of the default learner over its own when told the rates, on average at most.
MOST = 1.25


class Setting(NamedTuple):
    """A log."""

    data: str
    noise: str
    right: float
    seed: int


def learn(setting: Setting, folder: Path) -> Iterator[tuple[str, list[float]]]:
    """Return each challenger's shares of wrong best labels; first those of the log."""
    raw, data = load(setting.data, folder), problem(setting.data, folder)
    rng = np.random.default_rng(setting.seed)
    rates = noise_rates(setting.noise, data.n_labels, setting.seed)
    rows = rng.integers(len(data.xs), size=ASKED_AFTER[-1])
    labels, propensities = linear_rounds(raw, rows, setting.right, rng)
    each = [NoiseRates(*pair) for pair in zip(*(rho.tolist() for rho in rates), strict=True)]
    is_right = (labels == raw.labels[rows]).astype(np.int64)
    clicks = flip_bits_by_label(is_right, labels, each, rng)
    asked = rng.integers(len(data.xs), size=N_ASKED)
    yield SHOWN, [1.0 - float(is_right.mean())]
    for name in CHALLENGERS:
        kind = family(name)
        learner = create(kind, data.xs.shape[1], data.n_labels, **OPTIONS.get(kind, {}))
        if name.endswith(TOLD):
            give_rates(learner, LabelRates(*rates, *np.zeros((2, data.n_labels))))
        wrong = []
        log = zip(
            rows.tolist(), labels.tolist(), propensities.tolist(), clicks.tolist(), strict=True
        )
        for n_rounds, (row, label, propensity, click) in enumerate(log, 1):
            x = data.xs[row]
            outcome = Outcome(x, label, best(learner, x), propensity, click, elsewhere=True)
            learner.update(outcome)
            if n_rounds in ASKED_AFTER:
                mistakes = [best(learner, data.xs[i]) != data.labels[i] for i in asked.tolist()]
                wrong.append(float(np.mean(mistakes)))
        yield name, wrong


def best(learner: Learner, x: FloatArray) -> int:
    """Return the label that a learner holds to be the best."""
    return learner.distribution(x).greedy


def main() -> None:
    """Measure, print a table, and with --json one object as the last line."""
    args = arguments(__doc__.split("\n", 1)[0])
    print(f"wrong best labels after {', '.join(f'{n:,}' for n in ASKED_AFTER)} rounds")
    rows, ratios = [], []
    for data, noise, right in product(DATASETS, NOISES, RIGHT):
        streams = [
            dict(learn(Setting(data, noise, right, seed), args.data))
            for seed in range(args.streams)
        ]
        means = {name: np.mean([each[name] for each in streams], axis=0) for name in streams[0]}
        for name, wrong in means.items():
            shares = " ".join(f"{share:.3f}" for share in wrong)
            print(f"{data:10} {noise:10} {right:4} {name:23} {shares}", flush=True)
            rows.append([data, noise, right, name, wrong.round(4).tolist()])
        judged = ASKED_AFTER.index(JUDGED_AFTER)
        ratios.append(means[NEW][judged] / means[KNOWING][judged])
    name = f"{NEW}, wrong after {JUDGED_AFTER:,} rounds over told the rates, mean, at most"
    report([at_most(name, float(np.mean(ratios)), MOST)], as_json=args.json, rows=rows)


if __name__ == "__main__":
    main()
