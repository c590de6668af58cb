"""What shown labels are estimated to be worth by a learner's noise rates, and what they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from learners import Learner
from learners.evaluation import AssumedRates, Evaluation, Rounds

#: Share of the intervals, at a nominal 95 %, that have to hold the truth; of our own.
COVERED = 0.9
#: Fewer rounds tell nothing.
LEAST_ROUNDS = 50


class Shown(NamedTuple):
    """A label that was shown."""

    label: int
    propensity: float
    feedback: int
    right: bool


class Look(NamedTuple):
    """The share of right labels as it is estimated at one time, and as it is."""

    value: float
    low: float
    high: float
    right: float

    @property
    def holds(self) -> bool:
        """Whether the interval holds the truth."""
        return self.low <= self.right <= self.high


def look(shown: Sequence[Shown], learner: Learner) -> Look | None:
    """Estimate it by the rates that a learner reports (IPS); None from hardly any rounds."""
    if len(shown) < LEAST_ROUNDS:
        return None
    labels, propensities, feedback, right = (np.array(each) for each in zip(*shown, strict=True))
    rounds = Rounds(np.zeros((len(labels), 1)), labels, propensities, feedback)
    rates = AssumedRates(*learner.label_rates, *learner.label_rate_errors, "unknown")
    value = Evaluation(rounds, rates).ips(np.ones(len(labels)))
    return Look(value.value, value.low, value.high, float(right.mean()))


def line(by_stream: Sequence[Sequence[Look | None]]) -> str:
    """Return for each time the estimates less the truth, and how many intervals hold it."""
    cells = []
    for at_once in zip(*by_stream, strict=True):
        some = found(at_once)
        off = float(np.mean([each.value - each.right for each in some]))
        width = float(np.mean([each.high - each.low for each in some])) / 2
        held = sum(each.holds for each in some)
        cells.append(f"{off:+.3f} +- {width:.3f} ({held}/{len(some)})")
    return " | ".join(cells)


def found(looks: Sequence[Look | None]) -> list[Look]:
    """Return those that are not None."""
    return [each for each in looks if each is not None]
