"""The experiments of Agarwal and Manwani (2021): bandit learners under flipped feedback.

Run::

    python -m benchmarks.paper_bandits --data ../shared/data [--json] [--quick]
        [--datasets usps iris] [--learners banditron rcnbf] [--settings 0.15/0.15] [--rounds N]
        [--processes 2] [--out out]

A cell is one learner on one data set under one pair of noise rates. Its stream is drawn from the
data set with replacement, raw features, and is the same for every learner: instances, draws and
flips come from the seed, the data set and the rates. Counted are the shown label's mistakes (as
in the paper's figures) and, as a second curve, the greedy label's.

Each finished cell is written to ``paper_bandits.json`` in the output folder at once, and is not
run again as long as its settings are the same: a run can be broken off, resumed or widened.
The figure, ``paper_bandits.png``, shows the cells that were asked for.

``--learners rcnbf rcine`` compares known rates with estimated ones: RCINE trains its network anew
after every 50,000 rounds, each time from the networks before, which takes longer than all else.
It is run only where it is asked for.

Where this differs from the paper: Fashion-MNIST has its raw 784 pixels (the paper: 100 features
from a network of its own); "MNIST" is the 64-feature digits, which is what the authors' code
reads; one run instead of the mean of ten; gamma is 0.03 everywhere (the paper chose it for each
data set and noise from a grid that it does not state).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from benchmarks.command import Target, at_most, count, report
from benchmarks.datasets import Dataset, check, load
from benchmarks.kept import Kept
from learners import RCINE, Learner, NoiseRates, Outcome, create, draw
from learners.noise import flip_bit

GAMMA = 0.03
SEED = 0
SETTINGS = ((0.0, 0.0), (0.15, 0.15), (0.4, 0.4), (0.2, 0.4), (0.4, 0.2))
LEARNERS = ("banditron", "bpa", "soba", "rcnbf")
COLOURS = {
    "banditron": "tab:blue",
    "bpa": "tab:green",
    "soba": "tab:purple",
    "rcnbf": "tab:red",
    "rcine": "tab:orange",
}

#: Rounds of a full run. USPS as in the numbers that it is compared with; the others until the
#: curves are in order and flat enough to be read, within some minutes a data set.
ROUNDS = {
    "usps": 5_000_000,
    "fashion_mnist": 2_000_000,
    "optdigits": 5_000_000,
    "iris": 1_000_000,
    "synsep": 1_000_000,
}
#: Rounds of a quick run: where RCNBF's lead shows on USPS, and enough to run the rest once.
QUICK_ROUNDS = {
    "usps": 120_000,
    "fashion_mnist": 3_000,
    "optdigits": 10_000,
    "iris": 10_000,
    "synsep": 5_000,
}

#: Rounds drawn at once; bounds the memory of a stream.
CHUNK = 50_000
POINTS_A_DECADE = 12


class Cell(NamedTuple):
    """One run: everything that its result depends on, but for the code and the data."""

    dataset: str
    rho_0: float
    rho_1: float
    learner: str
    n_rounds: int
    gamma: float = GAMMA
    seed: int = SEED

    @property
    def key(self) -> str:
        """The name in the results."""
        return (
            f"{self.dataset} rho={self.rho_0:g}/{self.rho_1:g} {self.learner}"
            f" gamma={self.gamma:g} seed={self.seed} rounds={self.n_rounds}"
        )


def run_cell(cell: Cell, folder: Path) -> dict[str, Any]:
    """Play a cell and return its curves."""
    data = load(cell.dataset, folder)
    estimates = Estimates(data.n_labels)
    learner = make_learner(cell, data, estimates)
    rates = NoiseRates(cell.rho_0, cell.rho_1)
    rng = np.random.default_rng(
        [cell.seed, *cell.dataset.encode(), int(1000 * cell.rho_0), int(1000 * cell.rho_1)]
    )
    rows = list(data.xs)
    labels = data.labels.tolist()
    rounds, shown_errors, greedy_errors = [], [], []
    done = shown_wrong = greedy_wrong = 0
    start = time.process_time()  # not the clock: other work may share the cores
    for upto in checkpoints(cell.n_rounds):
        for size in _pieces(upto - done):
            stream = _draw_stream(rng, len(rows), size)
            shown, greedy = play(learner, rows, labels, rates, stream)
            shown_wrong += shown
            greedy_wrong += greedy
        done = upto
        rounds.append(done)
        shown_errors.append(shown_wrong / done)
        greedy_errors.append(greedy_wrong / done)
    seconds = time.process_time() - start
    return {
        **cell._asdict(),
        "n_features": learner.n_features,
        "n_labels": learner.n_labels,
        "us_per_round": seconds / cell.n_rounds * 1e6,
        "round": rounds,
        "shown_error": shown_errors,
        "greedy_error": greedy_errors,
        "estimates": estimates.found,
    }


def play(
    learner: Learner,
    rows: list[NDArray[np.float64]],
    labels: list[int],
    rates: NoiseRates,
    stream: Iterable[tuple[int, float, float]],
) -> tuple[int, int]:
    """Play rounds (row, uniform of the draw, uniform of the flip); count the mistakes."""
    shown_wrong = greedy_wrong = 0
    for row, uniform, flip in stream:
        x, truth = rows[row], labels[row]
        decision = learner.distribution(x)
        label = draw(decision, uniform)
        right = int(label == truth)
        shown_wrong += 1 - right
        greedy_wrong += decision.greedy != truth
        propensity = float(decision.probabilities[label])
        feedback = flip_bit(right, rates, flip)
        learner.update(Outcome(x, label, decision.greedy, propensity, feedback))
    return shown_wrong, greedy_wrong


class Estimates:
    """What RCINE asks for its rates; the estimates that it got, None where not trusted."""

    def __init__(self, n_labels: int) -> None:
        self.found: list[tuple[float, float] | None] = []
        self._n_labels = n_labels
        self._networks: dict[str, NDArray[np.float32]] | None = None

    def __call__(
        self, xs: NDArray[np.float64], labels: NDArray[np.int64], feedback: NDArray[np.int64]
    ) -> NoiseRates | None:
        """Train on a block, from the networks of the last one that was trusted."""
        from learners.noise.nrest import NREst  # noqa: PLC0415 - torch, for this learner alone

        network = NREst(self._n_labels, seed=len(self.found))
        trained = network.estimate(xs, labels, feedback, warm=self._networks)
        rates = trained.estimate.rates
        self._networks = self._networks if rates is None else trained.networks
        self.found.append(None if rates is None else (rates.rho_0, rates.rho_1))
        return rates


def make_learner(cell: Cell, data: Dataset, estimates: Estimates) -> Learner:
    """Make the cell's learner; RCNBF is told the true rates, RCINE asks for estimates."""
    options: dict[str, float] = {"gamma": cell.gamma}
    if cell.learner == "rcine":
        return RCINE(data.xs.shape[1], data.n_labels, gamma=cell.gamma, estimator=estimates)
    if cell.learner == "rcnbf":
        options |= {"rho_0": cell.rho_0, "rho_1": cell.rho_1}
    return create(cell.learner, data.xs.shape[1], data.n_labels, **options)


def checkpoints(n_rounds: int) -> list[int]:
    """Return the rounds after which the curves have a point: evenly on a logarithmic scale."""
    n_points = max(2, int(np.log10(n_rounds) * POINTS_A_DECADE))
    return sorted({round(float(point)) for point in np.geomspace(1, n_rounds, n_points)})


def run(cells: list[Cell], folder: Path, out: Path, processes: int) -> dict[str, dict[str, Any]]:
    """Run those cells that have no result yet; return the results of all."""
    kept = Kept(out / "paper_bandits.json")
    missing = [cell for cell in cells if cell.key not in kept]
    print(f"{len(cells)} cells, {len(missing)} of them to run", flush=True)
    with ProcessPoolExecutor(max_workers=processes) as pool:
        running = {pool.submit(run_cell, cell, folder): cell for cell in missing}
        for finished in as_completed(running):
            cell, result = running[finished], finished.result()
            kept.add(cell.key, result)
            print(
                f"{cell.key}: shown {result['shown_error'][-1]:.4f}"
                f" greedy {result['greedy_error'][-1]:.4f} {result['us_per_round']:.1f} us/round",
                flush=True,
            )
    return {cell.key: kept.cells[cell.key] for cell in cells}


def judge(results: dict[str, dict[str, Any]], *, quick: bool) -> list[Target]:
    """Return the targets that the results can be held to.

    The full ones are what an independent run measured, to the two digits given: Banditron .119
    without noise, .43 against RCNBF's .22 at .15/.15, .78 against .44 at .4/.4. A quick run is
    held to the order only.
    """
    final = {
        (r["dataset"], r["rho_0"], r["rho_1"], r["learner"]): r["shown_error"][-1]
        for r in results.values()
    }
    targets: list[Target] = []

    def add(name: str, value: float, most: float) -> None:
        targets.append(at_most(name, value, most, 4))

    clean = final.get(("usps", 0.0, 0.0, "banditron"))
    if clean is not None and not quick:
        add("usps 0/0: banditron error, at most", clean, 0.125)
    for rho, most in ((0.15, 0.22 / 0.43), (0.4, 0.44 / 0.78)):
        plain = final.get(("usps", rho, rho, "banditron"))
        corrected = final.get(("usps", rho, rho, "rcnbf"))
        if plain is not None and corrected is not None:
            name = f"usps {rho:g}/{rho:g}: rcnbf error over banditron error, at most"
            # 4 % is what the two digits leave open.
            add(name, corrected / plain, 1.0 if quick else round(1.04 * most, 3))
    for rho_0, rho_1 in SETTINGS:
        known = final.get(("usps", rho_0, rho_1, "rcnbf"))
        estimated = final.get(("usps", rho_0, rho_1, "rcine"))
        if known is not None and estimated is not None and not quick:
            name = f"usps {rho_0:g}/{rho_1:g}: rcine error over rcnbf error, at most"
            add(name, estimated / known, 1.05)
    return targets


def draw_figure(results: dict[str, dict[str, Any]], path: Path) -> None:
    """Draw errors against rounds, log-log, one panel a data set and noise setting."""
    names = [n for n in ROUNDS if any(r["dataset"] == n for r in results.values())]
    played = {(r["rho_0"], r["rho_1"]) for r in results.values()}
    settings = [setting for setting in SETTINGS if setting in played]
    figure = Figure(figsize=(3.2 * len(settings), 2.8 * len(names)), layout="constrained")
    axes = figure.subplots(len(names), len(settings), sharex="row", sharey="row", squeeze=False)
    for result in results.values():
        place = (result["rho_0"], result["rho_1"])
        panel = axes[names.index(result["dataset"])][settings.index(place)]
        colour = COLOURS[result["learner"]]
        # Dashed and on top, because without noise RCNBF's curve is the same.
        style, order = ("--", 3) if result["learner"] == "banditron" else ("-", 2)
        for curve, line, width in (("shown_error", style, 1.5), ("greedy_error", ":", 1)):
            errors = np.asarray(result[curve])
            panel.loglog(
                result["round"],
                np.where(errors > 0, errors, np.nan),  # 0 has no place on this scale
                color=colour,
                linestyle=line,
                linewidth=width,
                zorder=order,
                label=result["learner"] if curve == "shown_error" else None,
            )
        panel.set_title(f"{result['dataset']}  rho {place[0]:g} / {place[1]:g}", fontsize=9)
        panel.grid(visible=True, which="major", linewidth=0.3)
    for panel in axes[-1]:
        panel.set_xlabel("round")
    for row in axes:
        row[0].set_ylabel("error so far")
    axes[0][0].legend(fontsize=8, title="shown; dotted: greedy", title_fontsize=8)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Run what is asked for, draw it, and with --json print one object as the last line."""
    parser = argparse.ArgumentParser(description="Bandit learners under flipped feedback.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the npz files")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of the results")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="under two minutes")
    parser.add_argument("--datasets", nargs="+", choices=ROUNDS, default=list(ROUNDS))
    parser.add_argument("--learners", nargs="+", choices=COLOURS, default=list(LEARNERS))
    names = {f"{rho_0:g}/{rho_1:g}": (rho_0, rho_1) for rho_0, rho_1 in SETTINGS}
    parser.add_argument("--settings", nargs="+", choices=names, default=list(names))
    parser.add_argument("--rounds", type=count, help="instead of each data set's own number")
    parser.add_argument("--processes", type=count, default=2)
    args = parser.parse_args()
    rounds = QUICK_ROUNDS if args.quick else ROUNDS
    cells = [
        Cell(name, rho_0, rho_1, learner, args.rounds or rounds[name])
        for name in args.datasets
        for rho_0, rho_1 in map(names.__getitem__, args.settings)
        for learner in args.learners
    ]
    out = args.out / "quick" if args.quick else args.out
    check(args.datasets, args.data)
    results = run(cells, args.data, out, args.processes)
    print_table(results)
    draw_figure(results, out / "paper_bandits.png")
    print(f"figure: {out / 'paper_bandits.png'}")
    final = {
        key: {"shown": r["shown_error"][-1], "greedy": r["greedy_error"][-1]}
        for key, r in results.items()
    }
    targets = judge(results, quick=args.quick)
    report(targets, as_json=args.json, quick=args.quick, final_error=final)


def print_table(results: dict[str, dict[str, Any]]) -> None:
    """Print the shown label's error at the end, a line for each data set and setting."""
    table: dict[str, dict[str, float]] = {}
    for r in results.values():
        row = f"{r['dataset']} {r['rho_0']:g}/{r['rho_1']:g} T={r['n_rounds']:,}"
        table.setdefault(row, {})[r["learner"]] = r["shown_error"][-1]
    print(f"\n{'error of the shown label':40s}" + "".join(f"{name:>11s}" for name in COLOURS))
    for row, errors in table.items():
        cells = (f"{errors[name]:11.4f}" if name in errors else " " * 11 for name in COLOURS)
        print(f"{row:40s}" + "".join(cells))
    print()


def _pieces(n_rounds: int) -> Iterator[int]:
    """Cut a number of rounds into pieces of at most CHUNK."""
    while n_rounds > 0:
        yield min(CHUNK, n_rounds)
        n_rounds -= CHUNK


def _draw_stream(
    rng: np.random.Generator, n_rows: int, size: int
) -> Iterable[tuple[int, float, float]]:
    rows = rng.integers(n_rows, size=size).tolist()
    draws, flips = rng.random((2, size)).tolist()
    return zip(rows, draws, flips, strict=True)


if __name__ == "__main__":
    main()
