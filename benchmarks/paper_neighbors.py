"""Tables of the nearest-neighbour papers, beside what they print.

Run: ``OMP_NUM_THREADS=1 python -m benchmarks.paper_neighbors --data ../shared/data [--quick]
[--json] [--only a b c d]``

(a) RkNN: the synthetic curves and table 2; (b) the plug-in rule's example; (c) the Laplace
filter's tables 2 and 3; (d) the hubness-aware learners' tables 3 and 4.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import neighbor_hubness, neighbor_laplace, neighbor_rknn
from benchmarks.command import Target, at_least, report
from benchmarks.datasets import check


def part_a(folder: Path, *, quick: bool) -> tuple[object, list[Target]]:
    """Make RkNN's synthetic curves and table 2."""
    check(neighbor_rknn.QUICK_SETS if quick else neighbor_rknn.PAPER, folder)
    print(f"(a) section 6.1: errors, Bayes {neighbor_rknn.BAYES_ERROR:.4f}")
    curves, targets = neighbor_rknn.curves(2 if quick else 20)
    for noise, line in curves.items():
        print(f"  {noise:20s}" + "".join(f"  {name} {v:.4f}" for name, v in line.items()))
    agree = float(neighbor_rknn.agree_with_learner())
    targets.append(at_least("(a) tables decide as the learner does", agree, 1.0))
    print("(a) table 2: accuracy of " + ", ".join(neighbor_rknn.Choice._fields) + ", std, paper's")
    table, more = neighbor_rknn.table_2(folder, quick=quick)
    return {"curves": curves, "table_2": table}, targets + more


def part_b(_folder: Path, *, quick: bool) -> tuple[object, list[Target]]:
    """Play the plug-in rule's plateau."""
    wrong, targets = neighbor_rknn.plateau(5_000 if quick else 20_000)
    shares = ", ".join(f"{kind} {share:.3f}" for kind, share in wrong.items())
    print(f"(b) wrong on a share of the space: {shares}")
    return wrong, targets


def part_c(folder: Path, *, quick: bool) -> tuple[object, list[Target]]:
    """Make the Laplace filter's tables 2 and 3."""
    print("(c) accuracy in per cent after filtering, K = 1/3/5")
    return neighbor_laplace.tables(folder, quick=quick)


def part_d(folder: Path, *, quick: bool) -> tuple[object, list[Target]]:
    """Make the hubness-aware learners' tables 3 and 4."""
    check(neighbor_hubness.QUICK_SETS if quick else neighbor_hubness.PAPER_UCI, folder)
    print("(d) accuracy in per cent (the paper's), k = 5, noise 30 %")
    return neighbor_hubness.tables(folder, quick=quick)


PARTS = {"a": part_a, "b": part_b, "c": part_c, "d": part_d}


def main() -> None:
    """Run the parts, print tables, and with --json one object as the last line."""
    parser = argparse.ArgumentParser(description="Tables of the nearest-neighbour papers.")
    parser.add_argument("--data", type=Path, required=True, help="folder of npz files")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="few sets, few repeats")
    parser.add_argument("--only", nargs="+", choices=sorted(PARTS), default=sorted(PARTS))
    args = parser.parse_args()
    measured: dict[str, object] = {}
    targets: list[Target] = []
    for part in args.only:
        measured[part], judged = PARTS[part](args.data, quick=args.quick)
        targets += judged
    report(targets, as_json=args.json, measured=measured)


if __name__ == "__main__":
    main()
