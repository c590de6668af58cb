"""Our learners as contestants: as they are, told the true rates, or with rates from NREst.

A name says everything: ``bpa`` (told nothing), ``rcnbf told``, ``forward estimated``.
"""

from __future__ import annotations

import argparse
import time
from typing import NamedTuple

import numpy as np

from benchmarks.versus_streams import Contestant, Problem, Rates, family
from learners import LEARNERS, Learner, Outcome, create, draw
from learners.noise.nrest import NREst
from learners.validation import FloatArray

TOLD, ESTIMATED = "told", "estimated"
#: The default learner, and the one for labels of which several may be right.
NEW, OTHER = "forward_softmax", "forward"
CONTESTANTS = (
    NEW,
    f"{NEW} {TOLD}",
    OTHER,
    f"{OTHER} {TOLD}",
    f"{OTHER} {ESTIMATED}",
    f"rcnbf {TOLD}",
    "bpa",
    "confidit",
    f"rcine {ESTIMATED}",
)
#: What a kind cannot be made without.
OPTIONS: dict[str, dict[str, float]] = {"rcnbf": {"rho_0": 0.0, "rho_1": 0.0}}


class LabelRates(NamedTuple):
    """Rates of each label with their standard errors, each (K,), as a learner takes them."""

    rho_0: FloatArray
    rho_1: FloatArray
    rho_0_error: FloatArray
    rho_1_error: FloatArray


class Ours(Contestant):
    """A learner; if its name says so, every `estimate_every` rounds it gets rates from its own."""

    def __init__(
        self, name: str, data: Problem, true: Rates, estimate_every: int, **options: float
    ) -> None:
        kind, _, knows = name.partition(" ")
        self._data, self._xs, self._true = data, list(data.xs), true
        self._every = estimate_every if knows == ESTIMATED else None
        options = OPTIONS.get(kind, {}) | options
        self._learner = create(kind, len(self._xs[0]), data.n_labels, **options)
        self._heard: list[tuple[int, int, int]] = []
        if knows == TOLD:
            give_rates(self._learner, LabelRates(*true, *np.zeros((2, data.n_labels))))

    @property
    def restarts(self) -> int:
        """How often the learner has begun anew by itself."""
        return self._learner.restarts

    def show(self, row: int, uniform: float) -> int:
        """Draw from the learner's distribution."""
        self._row = row
        self._decision = self._learner.distribution(self._xs[row])
        self._label = draw(self._decision, uniform)
        return self._label

    def hear(self, feedback: int) -> None:
        """Update the learner, and keep the round if rates are to be estimated."""
        propensity = float(self._decision.probabilities[self._label])
        x, greedy = self._xs[self._row], self._decision.greedy
        self._learner.update(Outcome(x, self._label, greedy, propensity, feedback))
        if self._every is not None:
            self._heard.append((self._row, self._label, feedback))

    def rest(self, n_rounds: int) -> None:
        """Estimate the rates, if it is time to, and use them."""
        if self._every is None or n_rounds % self._every:
            return
        begin_s = time.process_time()
        rows, labels, feedback = np.array(self._heard, dtype=np.int64).T.copy()
        estimator = NREst(self._data.n_labels)
        estimate = estimator.estimate(self._data.xs[rows], labels, feedback).estimate
        reading = estimate.reading
        if reading is None:
            return
        off_0 = np.abs(reading.label_rho_0 - self._true.rho_0).mean()
        off_1 = np.abs(reading.label_rho_1 - self._true.rho_1).mean()
        print(
            f"  rates after {n_rounds:,} rounds off by {off_0:.3f} and {off_1:.3f} a label,"
            f" {estimate.verdict}, {time.process_time() - begin_s:.0f} s",
            flush=True,
        )
        if not estimate.trusted:
            return
        give_rates(
            self._learner,
            LabelRates(
                reading.label_rho_0,
                reading.label_rho_1,
                reading.label_rho_0_error,
                reading.label_rho_1_error,
            ),
        )


def give_rates(learner: Learner, rates: LabelRates) -> None:
    """Give a learner each label's rates, or their means if it takes common ones."""
    if learner.takes_label_rates:
        learner.set_label_rates(*rates)
    else:
        learner.set_rates(float(rates.rho_0.mean()), float(rates.rho_1.mean()))


def is_ours(name: str) -> bool:
    """Whether a contestant is one of our learners."""
    return family(name) in LEARNERS


def contestant(text: str) -> str:
    """Read the name of one of ours from the command line."""
    kind, _, knows = text.partition(" ")
    if kind not in LEARNERS or knows not in ("", TOLD, ESTIMATED):
        what = f"a learner's kind, alone or with {TOLD!r} or {ESTIMATED!r}"
        raise argparse.ArgumentTypeError(f"expected {what}, got {text!r}")
    return text
