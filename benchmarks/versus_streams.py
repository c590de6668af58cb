"""The problems of the comparison, their noise, and the play of one contestant on one stream.

A stream is a function of data set and seed alone: rows, uniforms of the draws and uniforms of the
flips are the same for every contestant and every noise, and a shorter stream is the beginning of
a longer one.
"""

from __future__ import annotations

import argparse
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.command import count
from benchmarks.datasets import load
from learners.validation import FloatArray

#: From the most telling to the largest; the last two have 784 features.
DATASETS = ("usps", "optdigits", "pendigits", "letter", "synsep", "mnist", "fashion_mnist")
NONE, PER_LABEL = "none", "per label"
#: False and missed clicks that are the same for every label.
COMMON = {
    NONE: (0.0, 0.0),
    ".15/.15": (0.15, 0.15),
    ".4/.4": (0.4, 0.4),
    ".2/.4": (0.2, 0.4),
    ".4/.2": (0.4, 0.2),
}
NOISES = (*COMMON, PER_LABEL)
#: Few right labels are clicked, as are few wrong ones: no part of the comparison.
MOSTLY_MISSED = {".02/.6": (0.02, 0.6), ".02/.8": (0.02, 0.8), ".1/.7": (0.1, 0.7)}
#: Bounds of the rates that are drawn for each label.
RHO_0_RANGE, RHO_1_RANGE = (0.02, 0.5), (0.02, 0.3)

#: Rounds whose mistakes are counted together.
BLOCK = 1_000
#: A share of a horizon: its end, where a learner should have learned.
LAST_SHARE = 5
#: Least deviation of a feature, in shares of the usual one: a pixel that is nearly always blank
#: would count for more than all others.
LEAST_SPREAD = 0.1
#: Largest standardised value.
LARGEST = 6.0


class Problem(NamedTuple):
    """A data set, prepared the same way for every contestant.

    Attributes
    ----------
    name
        The file's stem.
    xs
        float64 (n, d): standardised features, each instance then scaled to length 1, and a
        constant 1 as the last column.
    labels
        Codes of the right labels.
    n_labels
        K.
    """

    name: str
    xs: FloatArray
    labels: list[int]
    n_labels: int


class Rates(NamedTuple):
    """Noise rates of each label, each of shape (K,)."""

    rho_0: FloatArray
    rho_1: FloatArray


#: rho_0 and rho_1 of a row and the label that is shown for it.
NoiseOf = Callable[[int, int], tuple[float, float]]


class Curve(NamedTuple):
    """What a contestant did.

    Attributes
    ----------
    mistakes
        In each block of `BLOCK` rounds.
    us_per_round
        Processor time of a round.
    aside_s
        Processor time of what was done between the rounds, all together.
    """

    mistakes: list[int]
    us_per_round: float
    aside_s: float

    @property
    def n_rounds(self) -> int:
        """Length of the run."""
        return len(self.mistakes) * BLOCK

    def cumulative(self, horizon: int) -> float:
        """Return the share of mistakes in the first `horizon` rounds."""
        return sum(self.mistakes[: horizon // BLOCK]) / horizon

    def last(self, horizon: int) -> float:
        """Return the share of mistakes in the last fifth of them."""
        some = self.mistakes[: horizon // BLOCK]
        some = some[-max(1, len(some) // LAST_SHARE) :]
        return sum(some) / (len(some) * BLOCK)

    def by_rounds(self, size: int, horizon: int) -> list[float]:
        """Return the share of mistakes in each `size` of the first `horizon` rounds."""
        step = size // BLOCK
        whole = range(0, horizon // BLOCK - step + 1, step)
        return [sum(self.mistakes[i : i + step]) / size for i in whole]


class Arguments(NamedTuple):
    """What benchmarks on such streams are told on the command line."""

    data: Path
    streams: int
    json: bool


def arguments(description: str) -> Arguments:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, required=True, help="folder of the npz files")
    parser.add_argument("--streams", type=count, default=2, help="of each kind; 2 by default")
    parser.add_argument("--json", action="store_true")
    return Arguments(**vars(parser.parse_args()))


class Contestant(ABC):
    """One that shows a label and hears whether it was clicked."""

    @abstractmethod
    def show(self, row: int, uniform: float) -> int:
        """Return the label to show for a row of the problem."""

    @abstractmethod
    def hear(self, feedback: int) -> None:
        """Learn from the bit that came back on the label just shown."""

    def rest(self, n_rounds: int) -> None:  # noqa: B027 - most need no rest
        """Do what is not done in a round; called after every `BLOCK` of them."""


def family(contestant: str) -> str:
    """Return what a contestant's name begins with: its library, or a learner's kind."""
    return contestant.partition(" ")[0]


@cache
def problem(name: str, folder: Path) -> Problem:
    """Read and prepare a data set once."""
    data = load(name, folder)
    spread = data.xs.std(axis=0)
    least = LEAST_SPREAD * float(np.sqrt(np.square(spread).mean()))
    xs = (data.xs - data.xs.mean(axis=0)) / np.maximum(spread, least)
    xs = xs.clip(-LARGEST, LARGEST)
    xs /= np.maximum(np.linalg.norm(xs, axis=1, keepdims=True), 1e-12)
    xs = np.hstack([xs, np.ones((len(xs), 1))])
    return Problem(name, xs, data.labels.tolist(), data.n_labels)


def noise_rates(noise: str, n_labels: int, seed: int) -> Rates:
    """Return each label's rates; those that differ are drawn anew for each seed."""
    if noise == PER_LABEL:
        rng = np.random.default_rng(1000 + seed)
        return Rates(rng.uniform(*RHO_0_RANGE, n_labels), rng.uniform(*RHO_1_RANGE, n_labels))
    rho_0, rho_1 = (COMMON | MOSTLY_MISSED)[noise]
    return Rates(np.full(n_labels, rho_0), np.full(n_labels, rho_1))


def play(contestant: Contestant, data: Problem, rates: Rates, n_rounds: int, seed: int) -> Curve:
    """Let a contestant play, and count the mistakes of the labels that it showed."""
    pairs = list(zip(rates.rho_0.tolist(), rates.rho_1.tolist(), strict=True))
    return play_noise(contestant, data, lambda _, label: pairs[label], n_rounds, seed)


def play_noise(
    contestant: Contestant, data: Problem, noise: NoiseOf, n_rounds: int, seed: int
) -> Curve:
    """Let a contestant play where noise may depend on the instance, too."""
    uniforms = np.random.default_rng([seed, *data.name.encode()]).random((n_rounds, 3))
    rows = (uniforms[:, 0] * len(data.xs)).astype(np.int64).tolist()
    mistakes: list[int] = []
    played_s = aside_s = 0.0
    for begin in range(0, n_rounds, BLOCK):
        some = slice(begin, begin + BLOCK)
        wrong = 0
        begin_s = time.process_time()  # not the clock: other work may share the cores
        for row, (_, draw, flip) in zip(rows[some], uniforms[some].tolist(), strict=True):
            label = contestant.show(row, draw)
            right = label == data.labels[row]
            wrong += not right
            rho_0, rho_1 = noise(row, label)
            contestant.hear(int(flip >= rho_1 if right else flip < rho_0))
        between_s = time.process_time()
        played_s += between_s - begin_s
        mistakes.append(wrong)
        if begin + BLOCK < n_rounds:
            contestant.rest(begin + BLOCK)
            aside_s += time.process_time() - between_s
    return Curve(mistakes, played_s / n_rounds * 1e6, aside_s)
