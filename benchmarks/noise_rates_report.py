"""What the noise-rate benchmark's cells say: targets, and the tables beside the paper's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from benchmarks.command import Target, at_least, at_most
from benchmarks.kept import Cell

SETTINGS = ((0.0, 0.0), (0.15, 0.15), (0.25, 0.25), (0.2, 0.4), (0.4, 0.2), (0.4, 0.4))
#: Estimates of (rho_0, rho_1) in tables 1 and 2 of the paper, in the order of SETTINGS.
PAPER = {
    "optdigits": (
        (0.063, 0.029),
        (0.172, 0.147),
        (0.248, 0.264),
        (0.211, 0.439),
        (0.400, 0.260),
        (0.403, 0.508),
    ),
    "usps": (
        (0.017, 0.000),
        (0.181, 0.153),
        (0.258, 0.257),
        (0.194, 0.419),
        (0.393, 0.229),
        (0.402, 0.515),
    ),
    "fashion_mnist": (
        (0.090, 0.004),
        (0.189, 0.140),
        (0.264, 0.259),
        (0.215, 0.393),
        (0.404, 0.222),
        (0.397, 0.502),
    ),
    "iris": (
        (0.000, 0.000),
        (0.164, 0.172),
        (0.261, 0.288),
        (0.209, 0.423),
        (0.407, 0.244),
        (0.412, 0.412),
    ),
    "synsep": (
        (0.000, 0.003),
        (0.177, 0.143),
        (0.286, 0.282),
        (0.230, 0.459),
        (0.453, 0.268),
        (0.416, 0.499),
    ),
}
TABLE_TARGET = 0.013
#: Largest mean absolute error of a label's rate, by how often the learner is right.
LABEL_TARGETS = {0.5: 0.03, 0.85: 0.04}
TIME_TARGET = 5.0


def judge(cells: Iterable[Cell]) -> list[Target]:
    """Compare what was measured with the targets."""
    cells = list(cells)
    tables = [cell for cell in cells if cell["part"] == "tables"]
    targets = [at_most("tables: mean absolute error", off(tables, "ours"), TABLE_TARGET, 4)]
    labels = [cell for cell in cells if cell["part"] == "labels"]
    groups = sorted({(cell["policy"], cell["rounds"], cell["right"]) for cell in labels})
    for policy, rounds, right in groups:
        own = [
            cell["ours"]
            for cell in labels
            if (cell["policy"], cell["rounds"], cell["right"]) == (policy, rounds, right)
        ]
        for i in range(2):
            name = f"labels: {policy} learner, {right:.0%} right, {rounds:,} rounds, rho_{i}"
            error = float(np.mean([each[i] for each in own]))
            targets.append(at_most(name, error, LABEL_TARGETS[right], 4))
    for cell in cells:
        if cell["part"] == "time":
            faster = cell["plain_s"] / cell["ours_s"]
            targets.append(at_least("time: plain / ours, at least", faster, TIME_TARGET))
            error, plain = off([cell], "ours"), round(off([cell], "plain"), 4)
            targets.append(at_most("time: our error against the plain loop's", error, plain, 4))
            for kind in ("plain", "arrays"):
                ratios = [cell[f"{kind}_s"] / cell[f"{own}_s"] for own in ("ours", "warm")]
                print(f"time: {kind} loop / ours: {ratios[0]:.1f}, started warm: {ratios[1]:.1f}")
    return targets


def off(cells: list[Cell], rule: str) -> float:
    """Return the mean absolute error of a rule over the cells that have it."""
    found = [np.abs(np.subtract(cell[rule], cell["true"])) for cell in cells if rule in cell]
    return float(np.mean(found)) if found else float("nan")


def print_table(cells: list[Cell]) -> None:
    """Print the settings of the tables, means over the seeds, and the errors of every rule."""
    rules = ("ours", "per_label_rule", "authors_rule", "authors")
    print(f"\n{'':24s}{'right':>6s}" + "".join(f"{name:>16s}" for name in (*rules, "paper")))
    tables = [cell for cell in cells if cell["part"] == "tables"]
    compared = tables + [cell for cell in cells if cell["part"] == "plain"]
    for name in dict.fromkeys(cell["data"] for cell in tables):
        for i, setting in enumerate(SETTINGS):
            own = [c for c in compared if c["data"] == name and tuple(c["true"]) == setting]
            right = [cell["right"] for cell in own if "right" in cell]
            if not right:
                continue
            texts = [f"{np.mean(right):6.2f}"]
            for rule in rules:
                read = [cell[rule] for cell in own if rule in cell]
                texts.append(as_text(np.mean(read, axis=0) if read else None))
            texts.append(as_text(PAPER[name][i] if name in PAPER else None))
            print(f"{name:14s}{setting[0]:5.2f}{setting[1]:5.2f}" + "".join(texts))
    print(
        "mean absolute error: " + ", ".join(f"{rule} {off(compared, rule):.4f}" for rule in rules)
    )
    paper = [
        np.abs(np.subtract(each, true))
        for rows in PAPER.values()
        for each, true in zip(rows, SETTINGS, strict=True)
    ]
    print(f"the paper's own, over its five data sets: {np.mean(paper):.4f}")
    if tables:
        z = [np.abs(np.subtract(c["ours"], c["true"])) / c["errors"] for c in tables]
        print(f"within two standard errors: {np.mean(np.array(z) <= 2):.0%}")
        for cell in tables:
            if not cell["trusted"]:
                print(f"not trusted: {cell['data']} {cell['true']}: {cell['verdict']}")
    rcine = [cell for cell in cells if cell["part"] == "rcine"]
    for i in range(2):
        found = [np.abs(np.subtract(cell["ours"][i], cell["true"])) for cell in rcine]
        if found:
            print(f"RCINE's own block {i + 1}: mean absolute error {np.mean(found):.4f}")


def as_text(rates: Any) -> str:
    """Return a pair of rates in 16 columns."""
    return " " * 16 if rates is None else f"{rates[0]:10.3f}{rates[1]:6.3f}"


def show(key: str, cell: Cell) -> None:
    """Print a finished cell."""
    print(key, {name: _rounded(value) for name, value in cell.items()}, flush=True)


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return round(value, 4) if isinstance(value, float) else value
