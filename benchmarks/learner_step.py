"""What one round of a learner costs, against bare numpy and against Vowpal Wabbit.

Run: ``python -m benchmarks.learner_step [--json] [--repeats 7]``

A round is distribution, draw and update on a stream of normal instances with noisy feedback. The
floor is what cannot be left out whoever writes it: ``W @ x`` and two row updates in bare numpy.
Vowpal Wabbit plays the same stream with ``--cb_explore_adf --squarecb``, features crossed with
actions; it gets its text ready-made and parses it once a round, so that only its own work is
counted. All are measured in turn within each repeat, in processor time, because others may use the
cores, too; the medians over the repeats are compared.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from vowpalwabbit import pyvw

from benchmarks.command import Target, at_least, at_most, count, report
from learners import Learner, NoiseRates, Outcome, create, draw
from learners.noise import flip_bit

SHAPES = ((10, 256), (10, 784), (100, 1000))
#: How often the first shape is timed where one learner is compared with Vowpal Wabbit alone.
COMPARED_REPEATS = 5
RATES = NoiseRates(0.15, 0.15)
GAMMA = 0.03
#: Rounds of one measurement: long enough that the clock's resolution does not matter, and short
#: enough that a repeat of everything stays under a few seconds.
N_ROUNDS = 2_000
#: Vowpal Wabbit is slower; fewer rounds say the same, but not just a hundred: its first ones cost a
#: tenth more.
N_VW_ROUNDS = 500
#: Where the full matrices of the second-order learners are still online: 410,000 entries for SOBA.
FULL_SHAPE = (10, 64)
N_FULL_ROUNDS = 200
FLOOR, VW = "numpy floor", "vowpal wabbit"

LEARNERS_HERE: dict[str, tuple[str, dict[str, float | str]]] = {
    "rcnbf": ("rcnbf", {"gamma": GAMMA, "rho_0": RATES.rho_0, "rho_1": RATES.rho_1}),
    "banditron": ("banditron", {"gamma": GAMMA}),
    "rcine": ("rcine", {"gamma": GAMMA}),
    "bpa": ("bpa", {"gamma": GAMMA}),
    "soba diagonal": ("soba", {"gamma": GAMMA}),
    "confidit diagonal": ("confidit", {}),
    "forward": ("forward", {}),
    "forward_softmax": ("forward_softmax", {}),
    "perceptron (labels)": ("perceptron", {}),
}


class Stream(NamedTuple):
    """Instances with their labels and the uniforms that decide draw and noise."""

    xs: list[NDArray[np.float64]]
    labels: list[int]
    draws: list[float]
    flips: list[float]


def make_stream(n_features: int, n_labels: int, n_rounds: int) -> Stream:
    """Draw a stream whose labels are linear in the instances."""
    rng = np.random.default_rng(0)
    xs = rng.normal(size=(n_rounds, n_features))
    labels = (xs @ rng.normal(size=(n_features, n_labels))).argmax(1)
    uniforms = rng.random((2, n_rounds)).tolist()
    return Stream(list(xs), labels.tolist(), *uniforms)


def time_learner(
    kind: str, options: Mapping[str, float | str], n_labels: int, stream: Stream
) -> float:
    """Return the microseconds of a whole round through the contract, from a fresh learner on."""
    learner = create(kind, len(stream.xs[0]), n_labels, **options)
    start = time.process_time()
    if learner.takes_feedback:
        _play(learner, stream)
    else:
        for x, truth in zip(stream.xs, stream.labels, strict=True):
            learner.distribution(x)
            learner.learn(x, truth)
    return _microseconds(start, len(stream.xs))


def _play(learner: Learner, stream: Stream) -> None:
    for x, truth, uniform, flip in zip(*stream, strict=True):
        decision = learner.distribution(x)
        label = draw(decision, uniform)
        feedback = flip_bit(int(label == truth), RATES, flip)
        propensity = float(decision.probabilities[label])
        learner.update(Outcome(x, label, decision.greedy, propensity, feedback))


def time_floor(n_labels: int, stream: Stream) -> float:
    """Return the microseconds of ``W @ x`` and two row updates."""
    weights = np.zeros((n_labels, len(stream.xs[0])))
    start = time.process_time()
    for x, truth in zip(stream.xs, stream.labels, strict=True):
        weights @ x
        weights[truth] += 0.1 * x
        weights[truth - 1] -= 0.1 * x
    return _microseconds(start, len(stream.xs))


def time_vw(n_labels: int, stream: Stream) -> float:
    """Return the microseconds in which Vowpal Wabbit parses, predicts and learns a round."""
    texts = [
        "shared |s " + " ".join(f"{j}:{value:.6g}" for j, value in enumerate(x))
        for x in stream.xs[:N_VW_ROUNDS]
    ]
    workspace = pyvw.Workspace("--cb_explore_adf --squarecb -q sa --quiet")
    actions = [f"|a {label}" for label in range(n_labels)]
    start = time.process_time()
    played = zip(texts, stream.labels, stream.draws, stream.flips, strict=False)
    for text, truth, uniform, flip in played:
        examples = workspace.parse([text, *actions])
        chances = workspace.predict(examples)
        label = min(int(np.searchsorted(np.cumsum(chances), uniform, "right")), n_labels - 1)
        cost = -flip_bit(int(label == truth), RATES, flip)
        examples[1 + label].set_label_string(f"0:{cost}:{chances[label]}")
        workspace.learn(examples)
        workspace.finish_example(examples)
    taken = _microseconds(start, len(texts))
    workspace.finish()
    return taken


def times_faster(kind: str) -> float:
    """Return how many rounds of a kind take as long as one of Vowpal Wabbit's, medians in turn.

    A round is distribution, draw and update; Vowpal Wabbit (squarecb, features crossed with
    actions) gets its text ready-made.
    """
    n_labels, n_features = SHAPES[0]
    stream = make_stream(n_features, n_labels, N_ROUNDS)
    taken_us = [
        (time_vw(n_labels, stream), time_learner(kind, {}, n_labels, stream))
        for _ in range(COMPARED_REPEATS)
    ]
    theirs_us, ours_us = np.median(taken_us, axis=0).tolist()
    return float(theirs_us / ours_us)


def measure(n_labels: int, n_features: int, repeats: int) -> dict[str, float]:
    """Return the median microseconds a round of everything at one shape."""
    stream = make_stream(n_features, n_labels, N_ROUNDS)
    runs: dict[str, Callable[[], float]] = {
        FLOOR: partial(time_floor, n_labels, stream),
        VW: partial(time_vw, n_labels, stream),
    }
    for name, (kind, options) in LEARNERS_HERE.items():
        runs[name] = partial(time_learner, kind, options, n_labels, stream)
    return _medians(runs, repeats)


def measure_full(repeats: int) -> dict[str, float]:
    """Return the median microseconds a round of the learners with full matrices."""
    n_labels, n_features = FULL_SHAPE
    stream = make_stream(n_features, n_labels, N_FULL_ROUNDS)
    runs: dict[str, Callable[[], float]] = {
        f"{kind} full": partial(time_learner, kind, {"matrix": "full"}, n_labels, stream)
        for kind in ("soba", "confidit")
    }
    return _medians(runs, repeats)


def judge(measured: dict[str, dict[str, float]]) -> list[Target]:
    """Return the targets with what was measured."""
    us = measured[_shape(*SHAPES[0])]
    name = f"rcnbf round over numpy floor, at most, {_shape(*SHAPES[0])}"
    targets = [at_most(name, us["rcnbf"] / us[FLOOR], 4.0, 2)]
    for shape, us in measured.items():
        if VW in us:
            name = f"rcnbf times faster than vowpal wabbit squarecb, {shape}"
            targets.append(at_least(name, us[VW] / us["rcnbf"], 10.0, 2))
    return targets


def main() -> None:
    """Measure, print a table, and with --json one object as the last line."""
    parser = argparse.ArgumentParser(description="The cost of one round of each learner.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=count, default=7)
    args = parser.parse_args()
    measured = {_shape(k, d): measure(k, d, args.repeats) for k, d in SHAPES}
    measured[_shape(*FULL_SHAPE)] = measure_full(args.repeats)
    for shape, us in measured.items():
        print(f"\nmicroseconds a round, median of {args.repeats}, {shape}")
        for name, value in us.items():
            ratio = f"{value / us[FLOOR]:8.2f} x floor" if FLOOR in us else ""
            print(f"  {name:20s}{value:10.2f}{ratio}")
    report(judge(measured), as_json=args.json, measured_us=measured)


def _medians(runs: dict[str, Callable[[], float]], repeats: int) -> dict[str, float]:
    """Run each in turn, `repeats` times over, and return the medians."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            taken[name].append(run())
    return {name: statistics.median(values) for name, values in taken.items()}


def _shape(n_labels: int, n_features: int) -> str:
    return f"K={n_labels} d={n_features}"


def _microseconds(start: float, n_rounds: int) -> float:
    return (time.process_time() - start) / n_rounds * 1e6


if __name__ == "__main__":
    main()
