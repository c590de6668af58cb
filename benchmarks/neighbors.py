"""What a step of the moving neighbour graph costs, beside a bare pass and beside peers.

Run: ``OMP_NUM_THREADS=1 python -m benchmarks.neighbors [--json] [--quick]``

A step is: insert the newest example, evict the oldest, keep the graph, the occurrence counts
N_k and N_{k,c} and RkNN's noise rates, and classify one query (another instance). The floor is
what no exact method avoids: one float32 matrix-vector product over the window and a partial
selection. A step in one call shares its pass over the window; in a second loop its two halves are
called one after the other. (Not in turn in one loop: nobody does that, and each way of use would
find the CPU's caches full of the other's code.) Floor and steps are measured in turn, in CPU time
of the one thread, and medians are compared: in all, and the step with the floor in each of five
parts of the first loop, of which the middle one counts.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benchmarks.command import Target, at_least, at_most, report, want_one_thread
from benchmarks.neighbor_peers import PEERS, build
from learners.neighbors.counts import Occurrences
from learners.neighbors.graph import list_width
from learners.neighbors.rknn import RkNN
from learners.neighbors.window import Window

K = 10
#: The shape that the targets are stated for.
TARGET_SHAPE = (10_000, 64)
SHAPES = tuple((n, d) for n in (1_000, 10_000, 50_000) for d in (16, 64, 784))
QUICK_SHAPES = ((1_000, 64), TARGET_SHAPE)
N_STEPS, N_QUICK_STEPS = 400, 300
BATCH = 64
#: Seconds after which a peer's steps are no longer repeated.
PEER_SECONDS = 5.0
#: Names in the tables.
FLOOR, STEP, APART, BATCHED = "floor", "step", "step in two calls", "insert in 64s"
LEARN, QUERY = "insert + evict", "query"
#: Parts of the loop, each with a ratio of its own: what else the machine does comes and goes.
N_PARTS = 5
LAZY = "river LazySearch"
_NO_TIMES = {"ratio", "least_ratio", "most_ratio", "build_s", "bytes", "allowed_bytes"}

Rows = NDArray[np.float32]


class Everything(RkNN):
    """RkNN that also counts occurrences, as the hubness-aware learners do."""

    def __init__(self, n_features: int, window: int) -> None:
        super().__init__(n_features, 2, window=window, k=K, k_noise=K)
        if self._graph is not None:
            self._graph.observe([Occurrences(self._graph, 2, K)])


def make_rows(n: int, d: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Draw two overlapping clouds with labels, 30 and 10 % of which are wrong."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, size=n)
    xs = rng.normal(size=(n, d)) + labels[:, np.newaxis] * 2.0 / np.sqrt(d)
    wrong = rng.random(n) < np.where(labels, 0.3, 0.1)
    return xs.astype(np.float32).astype(np.float64), np.where(wrong, 1 - labels, labels)


def microseconds(call: Callable[..., object], *arguments: object) -> float:
    """Return how much CPU time one call takes in this thread, whoever else is at work."""
    start = time.thread_time_ns()
    call(*arguments)
    return (time.thread_time_ns() - start) / 1e3


def _pass(window: Rows, query: Rows) -> NDArray[np.intp]:
    return np.argpartition(window @ query, K)[:K]


def measure_ours(n: int, d: int, n_steps: int) -> dict[str, float]:
    """Return median microseconds of floor, step and its parts, and bytes, at one shape."""
    xs, labels = make_rows(n + n_steps, d, 1)
    queries = make_rows(n_steps, d, 2)[0]
    tracemalloc.start()
    learner = Everything(d, n)  # all that it will ever hold, but for what a step borrows
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    start = time.perf_counter()
    learner.learn_many(xs[:n], labels[:n])
    built_s = time.perf_counter() - start
    # Rows that lie as ours do: where numpy puts them by chance, a pass takes up to a tenth longer.
    window = Window(n, d).rows
    window[:] = xs[:n]
    times: dict[str, list[float]] = {FLOOR: [], STEP: [], APART: [], LEARN: [], QUERY: []}
    for i in range(n_steps):
        example, query = (xs[n + i], int(labels[n + i])), queries[i]
        times[FLOOR].append(microseconds(_pass, window, query.astype(np.float32)))
        if i < n_steps // 2:
            times[STEP].append(microseconds(learner.learn_and_decide, *example, query))
            continue
        learn = microseconds(learner.learn, *example)
        ask = microseconds(learner.distribution, query)
        times[LEARN].append(learn)
        times[QUERY].append(ask)
        times[APART].append(learn + ask)
    medians = {name: float(np.median(values)) for name, values in times.items()}
    medians[BATCHED] = measure_batches(learner, d)
    lists = n * list_width(K) * 12
    sizes = {"bytes": held, "allowed_bytes": 2 * n * d * 4 + lists}
    return {**medians, **_ratios(times), "build_s": built_s, **sizes}


def _ratios(times: dict[str, list[float]]) -> dict[str, float]:
    """Return step over floor in the parts of a loop: the middle ratio, the least, the most."""
    floors = np.array_split(times[FLOOR][: len(times[STEP])], N_PARTS)
    steps = np.array_split(times[STEP], N_PARTS)
    ratios = sorted(
        float(np.median(step) / np.median(floor)) for floor, step in zip(floors, steps, strict=True)
    )
    return {"ratio": ratios[N_PARTS // 2], "least_ratio": ratios[0], "most_ratio": ratios[-1]}


def measure_batches(learner: Everything, d: int) -> float:
    """Return microseconds for each example of batches of 64."""
    xs, labels = make_rows(8 * BATCH, d, 3)
    times = [
        microseconds(learner.learn_many, xs[i : i + BATCH], labels[i : i + BATCH])
        for i in range(0, len(xs), BATCH)
    ]
    return float(np.median(times)) / BATCH


def measure_peers(n: int, d: int, n_steps: int) -> dict[str, float]:
    """Return the median microseconds of a step of each peer that can be had."""
    xs, labels = make_rows(n + n_steps, d, 1)
    rows, queries = xs.astype(np.float32), make_rows(n_steps, d, 2)[0].astype(np.float32)
    medians = {}
    for kind in PEERS:
        peer = build(kind, rows[:n], labels[:n], K)
        if peer is None:
            continue
        times: list[float] = []
        while len(times) < n_steps and sum(times) < PEER_SECONDS * 1e6:
            i = len(times)
            times.append(microseconds(peer.step, rows[n + i], int(labels[n + i]), queries[i]))
        medians[kind.name] = float(np.median(times))
    return medians


def judge(measured: dict[str, dict[str, float]]) -> list[Target]:
    """Return the targets with what was measured at the target shape."""
    shape = _name(*TARGET_SHAPE)
    us = measured[shape]
    cheaper, memory = us[LEARN] / us[BATCHED], us["bytes"] / us["allowed_bytes"]
    targets = [
        at_most(f"step over floor, at most, {shape}", us["ratio"], 4.0),
        at_least(f"batch of 64 times cheaper for each, at least, {shape}", cheaper, 2.0),
        at_most(f"memory over (2 x rows + lists), at most, {shape}", memory, 1.0),
    ]
    if LAZY in us:
        faster = us[LAZY] / us[STEP]
        targets.append(at_least(f"step times faster than {LAZY}, {shape}", faster, 60.0))
    return targets


def show(shape: str, us: dict[str, float]) -> None:
    """Print the table of one shape."""
    print(f"\n{shape}, k={K}: median microseconds of CPU")
    for name, value in us.items():
        if name not in _NO_TIMES:
            print(f"  {name:22s}{value:12.1f}{value / us[FLOOR]:10.2f} x floor")
    print(
        f"  step over floor, middle of {N_PARTS} parts: {us['ratio']:.2f} "
        f"({us['least_ratio']:.2f} to {us['most_ratio']:.2f})"
    )
    print(f"  built in {us['build_s']:.2f} s, {us['bytes'] / 1e6:.1f} MB held")


def main() -> None:
    """Measure, print tables, and with --json one object as the last line."""
    parser = argparse.ArgumentParser(description="The cost of a step of the neighbour graph.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="two shapes, fewer steps")
    args = parser.parse_args()
    want_one_thread()
    measured = {}
    for n, d in QUICK_SHAPES if args.quick else SHAPES:
        n_steps = N_QUICK_STEPS if args.quick else N_STEPS
        shape = _name(n, d)
        print(f"\n{shape} ...", flush=True)
        measured[shape] = {**measure_ours(n, d, n_steps), **measure_peers(n, d, n_steps)}
        show(shape, measured[shape])
    report(judge(measured), as_json=args.json, measured=measured)


def _name(n: int, d: int) -> str:
    return f"{n} x {d}"


if __name__ == "__main__":
    main()
