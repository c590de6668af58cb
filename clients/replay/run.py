"""The driver of a replay: it takes players through the rounds of one click stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Request(NamedTuple):
    """One instance that a player shall decide on.

    Attributes
    ----------
    request_id
        `replay-{seed}-{round}`: the player draws by it, so equal ids mean equal draws.
    x
        Shape (d,), float32, finite. A row of the data set: not to be written to.
    """

    request_id: str
    x: NDArray[np.float32]


class Played(NamedTuple):
    """What a player decided.

    Attributes
    ----------
    decision_id
        By what `Click` names this decision.
    label
        The label that was shown.
    greedy
        The label that the learner held for the best.
    propensity
        Probability with which `label` was drawn, in (0, 1].
    """

    decision_id: str
    label: str
    greedy: str
    propensity: float


class Click(NamedTuple):
    """Feedback to one decision: 1 for a click, 0 for none. It may be flipped or repeated."""

    decision_id: str
    feedback: int


class Player(Protocol):
    """Whoever decides and learns: a service over HTTP, or a learner in this process.

    The driver calls the two methods in turn, never at the same time. Everything that a call of
    `feedback` brought has been learned when the next `predict` decides.
    """

    def predict(self, items: Sequence[Request]) -> list[Played]:
        """Decide on every item, in order, with what has been learned so far."""
        ...

    def feedback(self, items: Sequence[Click]) -> None:
        """Learn from the clicks, in order; a repeated click changes nothing."""
        ...
