"""An alarm for attacks on hubs, whose labels then look wrong more often than others'."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from learners.errors import StateError, expected
from learners.neighbors.neighborhoods import Neighborhoods

#: Standard deviations beyond which chance is ruled out: it gets there once in a thousand looks.
#: (More often where a few examples are most of the hubs and their sum is far from normal: in one to
#: four looks of a hundred where the only feature has five values.) An alarm ends where chance gets
#: in one look of twenty, so that it does not flicker.
_RAISED_Z, _CLEARED_Z = 3.0902, 1.6449
#: Fewer suspected examples say nothing: one hub among them would raise the alarm.
_LEAST_SUSPECTED = 30
#: Looks per window of new examples, and the least number of these from one look to the next.
_LOOKS_PER_WINDOW, _LEAST_NEW = 10, 100
#: Most neighbours of each example that a watch looks at: a look at a window of 50,000 takes some
#: 30 ms then.
WATCHED_K = 10


class HubAlarm(NamedTuple):
    """What a look at the labels of often-looked-at examples found: exact counts.

    Attributes
    ----------
    n_examples
        Examples in the window.
    n_suspected
        How many of them carry another label than most of their neighbours.
    suspected_total, total
        Occurrences N_k of the suspected, and of all, summed.
    squares
        Sum of the squares of all N_k.
    """

    n_examples: int = 0
    n_suspected: int = 0
    suspected_total: int = 0
    total: int = 0
    squares: int = 0

    @property
    def z(self) -> float:
        """By how many standard deviations the suspected occur too often; 0 if all are alike."""
        size, marked = self.n_examples, self.n_suspected
        variance = (size * self.squares - self.total**2) * marked * (size - marked)
        if variance <= 0:
            return 0.0
        spread = math.sqrt(variance / (size - 1)) / size
        return (self.suspected_total - self.total * marked / size) / spread

    @property
    def p_value(self) -> float:
        """Probability of so many occurrences of the suspected, were they drawn at random."""
        return 0.5 * math.erfc(self.z / math.sqrt(2))

    @property
    def raised(self) -> bool:
        """Whether chance is unlikely to have done it: at most once in a thousand looks."""
        return self.n_suspected >= _LEAST_SUSPECTED and self.z > _RAISED_Z

    @property
    def suspected_occurrences(self) -> float:
        """Mean N_k of the suspected."""
        return self.suspected_total / max(1, self.n_suspected)

    @property
    def mean_occurrences(self) -> float:
        """Mean N_k of all."""
        return self.total / max(1, self.n_examples)


def hub_alarm(near: Neighborhoods) -> HubAlarm:
    """Test whether examples whose labels look wrong are looked at more than others.

    Use it now and then on a stream: whoever wants to do the most harm with few wrong labels
    gives them to hubs, the examples that most others look at. Honest noise hits all alike, and
    without an attack the suspected are rather *less* central than the others. It says nothing
    about attacks on random examples, nor about fewer than 30 suspected ones.

    An example is suspected if its label is not among the winners of its k nearest others. Were
    the m suspected of n drawn at random, their total of N_k would have mean ``m mean(N)`` and
    variance ``m (n - m) / (n - 1) var(N)``; the p-value is the normal tail beyond the observed
    total.

    Parameters
    ----------
    near
        The neighbourhoods of a window.

    Examples
    --------
    >>> near = Neighborhoods(0, np.array([0, 1, 0, 0], np.int32),
    ...     np.array([[1], [2], [1], [1]], np.int32))
    >>> alarm = hub_alarm(near)
    >>> alarm.n_suspected, alarm.suspected_occurrences, alarm.raised
    (4, 1.0, False)
    """
    counts = near.occurrences()
    suspected = _suspected(near)
    return HubAlarm(
        len(counts),
        int(suspected.sum()),
        int(counts[suspected].sum()),
        int(counts.sum()),
        int((counts * counts).sum()),
    )


def _suspected(near: Neighborhoods) -> NDArray[np.bool_]:
    """Return which examples carry a label that does not win among their k nearest others."""
    around = near.labels_around()
    own = (around == near.labels[:, np.newaxis]).sum(axis=1)
    most = np.zeros(len(own), dtype=np.int64)
    for column in around.T:
        votes = (around == column[:, np.newaxis]).sum(axis=1)
        votes[column < 0] = 0
        np.maximum(most, votes, out=most)
    suspected: NDArray[np.bool_] = own < most
    return suspected


class HubWatch:
    """Looks at the hubs of a window each time a tenth of it is new; part of a learner's state.

    Parameters
    ----------
    window
        Most examples in it.

    Attributes
    ----------
    every
        Examples from one look to the next.
    raised
        Whether the alarm is on. It goes on when a look raises it, and off when the suspected occur
        no more often than by chance in one look of twenty.
    since
        How many examples had come when it last went on or off; 0 if it never did.
    looked_at
        How many had come at the last look; 0 before the first.
    last
        What that look found.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self.every = max(_LEAST_NEW, window // _LOOKS_PER_WINDOW)
        self.raised = False
        self.since = 0
        self.looked_at = 0
        self.last = HubAlarm()

    def look(self, near: Neighborhoods) -> None:
        """Look at the window as it is now."""
        self.last = hub_alarm(near)
        self.looked_at = near.first + len(near.labels)
        raised = self.last.z > _CLEARED_Z if self.raised else self.last.raised
        if raised != self.raised:
            self.raised, self.since = raised, self.looked_at

    def state(self) -> NDArray[np.int64]:
        """Return what a later look depends on and what is reported of the last one, (8,)."""
        numbers = (int(self.raised), self.since, self.looked_at, *self.last)
        return np.array(numbers, dtype=np.int64)

    def restore(self, state: object) -> None:
        """Become what `state` returned; raise StateError if it is no such thing."""
        size = len(self.state())
        what = f"{size} counts as int64, of a look at a window of {self._window}"
        if not (
            isinstance(state, np.ndarray)
            and state.dtype == np.int64
            and state.shape == (size,)
            and (state >= 0).all()
        ):
            raise StateError(expected("state's hub_watch", what, state))
        raised, self.since, self.looked_at, *counts = state.tolist()
        last = HubAlarm(*counts)
        if not (raised <= 1 and self.since <= self.looked_at and self._may_be(last)):
            raise StateError(expected("state's hub_watch", what, state))
        self.raised, self.last = bool(raised), last

    def _may_be(self, look: HubAlarm) -> bool:
        """Whether a look at some window may give these counts; for others `z` may fail."""
        size, total = look.n_examples, look.total
        return (
            look.n_suspected <= size <= self._window
            and look.suspected_total <= total <= size * WATCHED_K
            and total**2 <= size * look.squares <= size * total**2
        )
