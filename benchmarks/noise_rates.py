"""How well the noise rates are estimated, and how fast.

Run::

    OMP_NUM_THREADS=1 python -m benchmarks.noise_rates --data ../shared/data [--json] [--quick]
        [--out out]

Four parts. ``tables``: the settings of tables 1 and 2 of Agarwal and Manwani (2021), a block of
50,000 rounds of RCNBF with the true rates, three seeds; beside it the paper's two rules on the
predictions of our network, for one seed the authors' network and rule, and what the paper prints.
``rcine``: the estimates that RCINE itself gets at the ends of its first two blocks.
``labels``: rates of their own for each of 10 labels, from [.02, .5] and [.02, .3], from logged
rounds of a learner that is right in half and in 85 % of them; "even": its mistakes are spread
evenly, whatever the instance; "linear": it is a linear classifier, wrong where instances are
hard, and explores. ``time``: processor seconds of a round of training against the plain loop of
70 epochs, 10,000 rows of 794, one thread: with rows loaded one by one ("plain"), and with batches
taken from arrays; "warm" is the next block, started from the networks of the one before, as a
service does. With --quick, one seed of a few settings: a smoke test, whose single cells may miss
targets that are set for means.

Each finished cell is written to ``noise_rates.json`` in the output folder and not run again; one
seed of everything comes first, the authors' network (70 epochs each) last.
Instances are drawn with replacement, raw features. "MNIST" of the paper is the 64-feature digits.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.command import report, want_one_thread
from benchmarks.datasets import Dataset, check, load
from benchmarks.kept import Cell, Kept
from benchmarks.noise_rates_plain import AUTHORS, predict
from benchmarks.noise_rates_report import (
    LABEL_TARGETS,
    SETTINGS,
    judge,
    print_table,
    show,
)
from benchmarks.noise_rates_streams import Block, even_labels, linear_labels, play
from learners import RCINE, RCNBF, NoiseRates
from learners.noise.corruption import flip_bits_by_label
from learners.noise.estimate import NoiseEstimate, Reading
from learners.noise.held_out import read
from learners.noise.nrest import NREst, Trained
from learners.noise.reading import authors
from learners.validation import FloatArray, IntArray

GAMMA = 0.03
#: As in `NREst`.
BETA_MIN = 0.05
BLOCK = 50_000
#: The rates of an estimate that read none.
NOTHING = [math.nan, math.nan]
DATASETS = ("optdigits", "mnist", "usps", "fashion_mnist", "iris", "synsep")
POLICIES = {"even": even_labels, "linear": linear_labels}
LABEL_DATASETS = ("optdigits", "usps", "mnist")


class Plan(NamedTuple):
    """What is run."""

    datasets: tuple[str, ...]
    settings: tuple[tuple[float, float], ...]
    seeds: int
    plain: bool
    rcine: tuple[str, ...]
    label_datasets: tuple[str, ...]
    label_rounds: tuple[int, ...]


FULL = Plan(DATASETS, SETTINGS, 3, True, DATASETS, LABEL_DATASETS, (10_000, 50_000))
QUICK = Plan(("optdigits", "usps", "iris"), SETTINGS[1:4:2], 1, False, (), ("usps",), (10_000,))


def estimate(data: Dataset, block: Block, seed: int) -> Trained:
    """Run NREst on a block."""
    estimator = NREst(data.n_labels, seed=seed)
    return estimator.estimate(data.xs[block.rows], block.labels, block.feedback)


def run_tables(plan: Plan, seed: int, folder: Path, kept: Kept) -> None:
    """Estimate every setting of the paper's tables, and more data sets."""
    for name, (rho_0, rho_1) in product(plan.datasets, plan.settings):
        key = f"tables {name} {rho_0:g}/{rho_1:g} {seed}"
        if key not in kept:
            rates = NoiseRates(rho_0, rho_1)
            keep(kept, key, table_cell(load(name, folder), rates, seed))


def table_block(data: Dataset, rates: NoiseRates, seed: int) -> Block:
    """Return the rounds of a learner that knows the rates."""
    learner = RCNBF(
        data.xs.shape[1], data.n_labels, gamma=GAMMA, rho_0=rates.rho_0, rho_1=rates.rho_1
    )
    return play(learner, data, rates, BLOCK, seed)


def table_cell(data: Dataset, rates: NoiseRates, seed: int) -> Cell:
    """Estimate one setting by our rule and by the paper's two."""
    block = table_block(data, rates, seed)
    begin_s = time.process_time()
    trained = estimate(data, block, seed)
    took_s, ours = time.process_time() - begin_s, trained.estimate
    cell: Cell = {"part": "tables", "data": data.name, "true": [rates.rho_0, rates.rho_1]}
    cell["right"] = float((block.labels == data.labels[block.rows]).mean())
    cell |= {"cpu_s": took_s, "trusted": ours.trusted, "verdict": ours.verdict}
    cell["ours"], cell["errors"] = pair(ours.reading), errors(ours.reading)
    if trained.held_out is not None:
        for rule in ("authors", "per_label"):
            cell[f"{rule}_rule"] = pair(read(trained.held_out, rule, beta_min=BETA_MIN)[0])
    return cell


def run_plain(plan: Plan, folder: Path, kept: Kept) -> None:
    """Estimate the settings of the tables once the authors' way, with their network and rule."""
    for name, (rho_0, rho_1) in product(plan.datasets, plan.settings):
        key = f"plain {name} {rho_0:g}/{rho_1:g}"
        if key not in kept:
            data, options = load(name, folder), AUTHORS[name]
            block = table_block(data, NoiseRates(rho_0, rho_1), 0)
            q = predict(data.xs[block.rows], block.labels, block.feedback, options)
            rates = list(authors(q, percentile=options.percentile))
            cell = {"part": "plain", "data": name, "true": [rho_0, rho_1], "authors": rates}
            keep(kept, key, cell)


def run_rcine(plan: Plan, folder: Path, kept: Kept) -> None:
    """Let RCINE estimate its own rates over two blocks."""
    for name in plan.rcine:
        data = load(name, folder)
        for rho_0, rho_1 in plan.settings:
            key = f"rcine {name} {rho_0:g}/{rho_1:g}"
            if key not in kept:
                keep(kept, key, rcine_cell(data, NoiseRates(rho_0, rho_1)))


def rcine_cell(data: Dataset, rates: NoiseRates) -> Cell:
    """Play two blocks, and keep the answers that the learner got at their ends."""
    readings: list[NoiseEstimate] = []
    estimator = NREst(data.n_labels)

    def ask(xs: FloatArray, labels: IntArray, feedback: IntArray) -> NoiseRates | None:
        readings.append(estimator.estimate(xs, labels, feedback).estimate)
        return readings[-1].rates

    learner = RCINE(data.xs.shape[1], data.n_labels, gamma=GAMMA, block_size=BLOCK, estimator=ask)
    play(learner, data, rates, 2 * BLOCK, 0)
    return {
        "part": "rcine",
        "data": data.name,
        "true": [rates.rho_0, rates.rho_1],
        "ours": [pair(each.reading) for each in readings],
        "errors": [errors(each.reading) for each in readings],
        "trusted": [each.trusted for each in readings],
    }


def run_labels(plan: Plan, seed: int, folder: Path, kept: Kept) -> None:
    """Estimate rates that differ from label to label."""
    kinds = product(plan.label_rounds, plan.label_datasets, POLICIES, LABEL_TARGETS)
    for rounds, name, policy, right in kinds:
        key = f"labels {name} {policy} {rounds} {right:g} {seed}"
        if key not in kept:
            data = load(name, folder)
            cell = label_cell(data, POLICIES[policy], rounds, right, seed)
            keep(kept, key, cell | {"policy": policy})


def label_cell(
    data: Dataset,
    choose: Callable[[Dataset, IntArray, float, np.random.Generator], IntArray],
    rounds: int,
    right: float,
    seed: int,
) -> Cell:
    """Draw rates for each label, log rounds, and compare what comes back."""
    rng = np.random.default_rng(1000 + seed)
    rho_0 = rng.uniform(0.02, 0.5, data.n_labels)
    rho_1 = rng.uniform(0.02, 0.3, data.n_labels)
    rows = rng.integers(len(data.xs), size=rounds)
    labels = choose(data, rows, right, rng)
    is_right = (labels == data.labels[rows]).astype(np.int64)
    rates = [NoiseRates(*each) for each in zip(rho_0.tolist(), rho_1.tolist(), strict=True)]
    block = Block(rows, labels, flip_bits_by_label(is_right, labels, rates, rng))
    ours = estimate(data, block, seed).estimate
    cell: Cell = {"part": "labels", "data": data.name, "rounds": rounds, "right": right}
    cell |= {"trusted": ours.trusted, "was_right": float(is_right.mean()), "ours": NOTHING}
    if ours.reading is not None:
        off_0 = np.abs(ours.reading.label_rho_0 - rho_0)
        off_1 = np.abs(ours.reading.label_rho_1 - rho_1)
        inside = np.concatenate(
            [
                off_0 <= 2 * ours.reading.label_rho_0_error,
                off_1 <= 2 * ours.reading.label_rho_1_error,
            ]
        )
        cell["ours"] = [float(off_0.mean()), float(off_1.mean())]
        cell["within_2_errors"] = float(inside.mean())
    for wrong in (0, 1):
        off = [
            abs(float(block.feedback[own].mean()) - (rho_0[j] if wrong == 0 else 1 - rho_1[j]))
            for j in range(data.n_labels)
            if (own := (labels == j) & (is_right == wrong)).any()
        ]
        cell[f"told_{wrong}"] = float(np.mean(off))
    return cell


def run_time(folder: Path, kept: Kept) -> None:
    """Time a round of training against the plain loop on the same rows, one thread."""
    if "time" in kept:
        return
    data = load("mnist", folder)
    learner = RCNBF(data.xs.shape[1], data.n_labels, gamma=GAMMA, rho_0=0.15, rho_1=0.15)
    block = play(learner, data, NoiseRates(0.15, 0.15), 10_000, 0)
    fresh = play(learner, data, NoiseRates(0.15, 0.15), 10_000, 1)
    cell: Cell = {"part": "time", "true": [0.15, 0.15]}
    warm = None
    for kind, some in (("ours", block), ("warm", fresh)):
        begin_s = time.process_time()
        estimator = NREst(data.n_labels)
        trained = estimator.estimate(data.xs[some.rows], some.labels, some.feedback, warm=warm)
        cell |= {
            f"{kind}_s": time.process_time() - begin_s,
            f"{kind}_epochs": trained.estimate.epochs,
        }
        cell[kind], warm = pair(trained.estimate.reading), trained.networks
    for kind in ("plain", "arrays"):
        begin_s = time.process_time()
        q = predict(
            data.xs[block.rows],
            block.labels,
            block.feedback,
            AUTHORS["mnist"],
            one_hot=data.n_labels,
            row_by_row=kind == "plain",
        )
        cell |= {f"{kind}_s": time.process_time() - begin_s, kind: list(authors(q))}
    keep(kept, "time", cell)


def keep(kept: Kept, key: str, cell: Cell) -> None:
    """Print a finished cell, and keep it."""
    show(key, cell)
    kept.add(key, cell)


def pair(reading: Reading | None) -> list[float]:
    """Return the common rates, NaN where there are none, and then in all that is made of them."""
    return NOTHING if reading is None else [reading.rho_0, reading.rho_1]


def errors(reading: Reading | None) -> list[float]:
    """Return their standard errors, NaN where there are none."""
    return NOTHING if reading is None else [reading.rho_0_error, reading.rho_1_error]


def main() -> None:
    """Run what is not there yet, print the tables, and with --json one object as the last line."""
    parser = argparse.ArgumentParser(description="Estimation of noise rates.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the npz files")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of the results")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="under three minutes")
    args = parser.parse_args()
    out = args.out / "quick" if args.quick else args.out
    want_one_thread()
    plan = QUICK if args.quick else FULL
    check(("mnist", *plan.datasets, *plan.label_datasets), args.data)
    kept = Kept(out / "noise_rates.json")
    run_time(args.data, kept)
    for seed in range(plan.seeds):
        run_tables(plan, seed, args.data, kept)
        run_labels(plan, seed, args.data, kept)
        if seed == 0:
            run_rcine(plan, args.data, kept)
    if plan.plain:
        run_plain(plan, args.data, kept)
    print_table(list(kept.cells.values()))
    targets = judge(kept.cells.values())
    report(targets, as_json=args.json, quick=args.quick, cells=kept.cells)


if __name__ == "__main__":
    main()
