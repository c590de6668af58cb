"""Whether clicks stay away that were expected."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from learners.base import State, StateValue, state_array
from learners.errors import StateError, expected

#: Clicks a round that may stay away, on average, for ever. Learners that are still learning expect
#: some too many: on five data sets with six kinds of noise (three streams of 20,000 rounds each)
#: the sum below stayed under 24; with .05 it came to 58.
ALLOWANCE = 0.07
#: Clicks lacking beyond that, at which the alarm is due. A sum of bits that nothing is wrong with
#: gets there once in some exp(2 ALLOWANCE ALARM / .25) / (2 ALLOWANCE**2 / .25), or 10^11, rounds.
ALARM = 40.0
#: Rounds before the first alarm, and between two: a learner that has just begun knows too little
#: to be let down.
LEAST_ROUNDS = 1000
#: No log has more events.
_MOST_ALARMS = 2**53


class Shortfall:
    """Notices that fewer clicks come than a learner expects.

    Use it where a learner says for each round how likely a click is: when they stay away, either
    the noise has changed or what is right. Not to tell which of the two; and more clicks than
    expected are no alarm. Page's cumulative sum, [1]_, of expectations m that bits y let down::

        sum <- max(0, sum + m - y - ALLOWANCE)
        alarm where y = 1, sum > ALARM, and t >= LEAST_ROUNDS; then sum and t begin anew

    With a click only, because where none comes at all the counter is dead, more likely than not,
    and who begins anew then has nothing to learn from. If .1 of the rounds lack a click it takes
    1,300 of them, if .4 do 120. O(1) a round, three numbers of state.

    Attributes
    ----------
    alarms
        How many there were.

    References
    ----------
    .. [1] Page, *Continuous inspection schemes*, Biometrika 41, 1954.

    Examples
    --------
    >>> shortfall = Shortfall()
    >>> any(shortfall.observe(i % 2, expected=0.5) for i in range(5000))
    False
    >>> next(i for i in range(5000) if shortfall.observe(int(i % 4 == 0), expected=0.5))
    224
    """

    def __init__(self) -> None:
        self._sum, self._rounds, self.alarms = 0.0, 0, 0

    def observe(self, feedback: int, expected: float) -> bool:
        """Take a bit, and the chance that it was thought to be 1; return whether it is an alarm."""
        self._sum = max(0.0, self._sum + expected - feedback - ALLOWANCE)
        self._rounds = min(self._rounds + 1, LEAST_ROUNDS)
        if not feedback or self._sum <= ALARM or self._rounds < LEAST_ROUNDS:
            return False
        self._sum, self._rounds = 0.0, 0
        self.alarms = min(self.alarms + 1, _MOST_ALARMS)
        return True

    def state(self) -> State:
        """Return what later bits are added to, as one array."""
        return {"shortfall": np.array([self._sum, self._rounds, self.alarms])}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Take what `state` returned.

        Raises
        ------
        StateError
            If it is missing, or cannot be.
        """
        numbers = state_array(state, "shortfall", (3,)).tolist()
        lacking, rounds, alarms = numbers
        counts = rounds.is_integer() and alarms.is_integer()
        if not (counts and lacking >= 0 <= rounds <= LEAST_ROUNDS and 0 <= alarms <= _MOST_ALARMS):
            what = f"a sum of at least 0, rounds up to {LEAST_ROUNDS}, and a count"
            raise StateError(expected("state's shortfall", what, numbers))
        self._sum, self._rounds, self.alarms = lacking, int(rounds), int(alarms)
