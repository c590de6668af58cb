"""Learners that learn from a model's log without deciding, and what they would have done.

Somebody else decided the round, so a challenger learns from the label shown and its propensity, as
logged; but as the best label it takes its own, because some updates subtract from the label that
the learner itself would have shown. So every learner that takes feedback may be a challenger.

Before it learns from a round, a challenger writes down what it would have done in it. So its value
can be estimated from rounds that it had not learned from (progressive validation).

The deciding learner does so, too, for comparison: in rounds that were decided outside the service
and, beside challengers, in its own when their feedback comes, which may be long after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from learners import LEARNERS, Learner, LearnersError, Outcome, draw
from learners.states import State, StateValue
from service.errors import Invalid
from service.events import Rates
from service.spec import NamedLearner

#: Rounds that a challenger's record holds: 18 bytes each, in every snapshot.
RECORDED = 20_000


class Recorded(NamedTuple):
    """What a learner would have done in rounds that others decided, oldest first.

    Attributes
    ----------
    seqs
        The events of the log by which the rounds ended, int64 (n,).
    probabilities
        With which it would have shown the label that was shown, float64 (n,).
    shown
        The label that it would have drawn with the same random number, uint16 (n,).
    """

    seqs: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    shown: NDArray[np.uint16]


class Record:
    """What a learner would have done in the last `RECORDED` rounds, just before it learned."""

    def __init__(self) -> None:
        # Room is made with the first round: most learners decide all rounds themselves.
        self._ring = _ring(0)
        #: Rounds so far, including those no longer held; read only.
        self.count = 0

    def add(self, seq: int, probability: float, shown: int) -> None:
        """Add the round that event `seq` ended."""
        if not self.count:
            self._ring = _ring(RECORDED)
        place = self.count % RECORDED
        self._ring.seqs[place] = seq
        self._ring.probabilities[place] = probability
        self._ring.shown[place] = shown
        self.count += 1

    def rounds(self) -> Recorded:
        """Return the rounds held, oldest first."""
        held = min(self.count, RECORDED)
        places = np.arange(self.count - held, self.count) % RECORDED
        seqs, probabilities, shown = self._ring
        return Recorded(seqs[places], probabilities[places], shown[places])

    def state(self) -> State:
        """Return the ring as it lies, so that a snapshot changes only where rounds came."""
        seqs, probabilities, shown = (values[: self.count].copy() for values in self._ring)
        return {
            "count": self.count,
            "seqs": seqs,
            "probabilities": probabilities,
            "shown": shown,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, StateValue], n_labels: int) -> Self:
        """Return the record of this state; raise ValueError if it is invalid."""
        self = cls()
        count = state["count"]
        if type(count) is not int or count < 0:
            raise ValueError("a learner's record counts no rounds")
        held = min(count, RECORDED)
        self._ring = _ring(RECORDED)
        for name, mine in self._ring._asdict().items():
            values = np.asarray(state[name])
            if values.dtype != mine.dtype or values.shape != (held,):
                raise ValueError(f"a learner's record has no {held} {name}")
            mine[:held] = values
        if count > int(self._ring.seqs.max()):
            raise ValueError("a learner's record counts more rounds than events")
        self.count = count
        seqs, probabilities, shown = self.rounds()
        if (np.diff(seqs) <= 0).any() or (shown >= n_labels).any():
            raise ValueError("a learner's record is of other events or labels")
        if not ((probabilities >= 0) & (probabilities <= 1)).all():
            raise ValueError("a learner's record holds no probabilities")
        return self


def _ring(size: int) -> Recorded:
    return Recorded(np.zeros(size, np.int64), np.zeros(size), np.zeros(size, np.uint16))


def follow(learner: Learner, record: Record, outcome: Outcome, uniform: float, seq: int) -> None:
    """Let a learner learn from a round that another decided, and write down what it would do.

    Raises
    ------
    LearnersError
        The learner refuses the round; then nothing is written down of it either.
    """
    own = learner.distribution(outcome.x)
    learner.update(outcome._replace(greedy=own.greedy, elsewhere=True))
    record.add(seq, float(own.probabilities[outcome.label]), draw(own, uniform))


class Challenger:
    """One learner that learns without deciding."""

    def __init__(self, named: NamedLearner, learner: Learner, record: Record | None = None) -> None:
        self.named = named
        self.learner = learner
        self.record = record or Record()

    @property
    def name(self) -> str:
        """The name by which it is promoted."""
        return self.named.name

    def follow(self, outcome: Outcome, uniform: float, seq: int) -> None:
        """Write down what it would have done in a round, and learn from it."""
        follow(self.learner, self.record, outcome, uniform, seq)

    def state(self) -> State:
        """Return learner and record; name and spec are kept by the fold."""
        state = {f"learner.{name}": value for name, value in self.learner.state().items()}
        return state | {f"record.{name}": value for name, value in self.record.state().items()}

    @classmethod
    def restored(
        cls,
        named: NamedLearner,
        learner: Mapping[str, StateValue],
        record: Mapping[str, StateValue],
    ) -> Self:
        """Return the challenger with these states; ValueError or LearnersError if invalid."""
        self = cls(named, LEARNERS[named.learner.kind].from_state(learner))
        self.record = Record.from_state(record, self.learner.n_labels)
        return self


def learners_text(learners: Sequence[NamedLearner]) -> str:
    """Return a model's learners, the deciding one first, as text."""
    return _LEARNERS.dump_json(list(learners)).decode()


def parse_learners(text: str) -> list[NamedLearner]:
    """Return the learners in what `learners_text` wrote; none in an empty text."""
    return _LEARNERS.validate_json(text) if text else []


_LEARNERS = TypeAdapter(list[NamedLearner])


def rate_kinds(learners: Sequence[NamedLearner]) -> list[str]:
    """Of learners, the deciding one first, return the kinds for which rates are estimated.

    If the deciding one needs noise rates, it is its kind alone: no challenger changes what it is
    told, or how often. Else it is the kinds of the challengers that need any. If all that use rates
    find them themselves, an estimate is for these.
    """
    kinds = [each.learner.kind for each in learners]
    users = [kind for kind in kinds if kind in LEARNERS and LEARNERS[kind].takes_rates]
    needy = [kind for kind in users if not LEARNERS[kind].learns_rates]
    return needy[:1] if kinds[0] in needy else needy or users


def no_rates(deciding: Learner) -> Invalid:
    """Return the error for a model without a learner that uses noise rates."""
    what = "a learner that uses noise rates"
    if deciding.takes_feedback:
        # Only such a model can have challengers.
        what += ", or a challenger that does (forward_softmax or rcnbf, say)"
    return Invalid.of("model", what, deciding.kind)


def give_rates(learner: Learner, rates: Rates) -> None:
    """Let a learner use these rates: each label's own, where it can use them and they are known."""
    each = rates.of_labels(learner.n_labels)
    if each is None or not learner.takes_label_rates:
        learner.set_rates(rates.rho_0, rates.rho_1)
    else:
        learner.set_label_rates(*each)


def add_labels(learner: Learner, count: int) -> bool:
    """Add labels; say whether the learner took them: a challenger that did not is dropped."""
    try:
        learner.add_labels(count)
    except LearnersError:
        return False
    return True
