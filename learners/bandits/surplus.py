"""Whether more clicks come than the noise found so far explains."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from learners.bandits.shortfall import EVEN, LEAST_ROUNDS, MOST_ALARMS, VARIANCE
from learners.errors import StateError, expected
from learners.states import State, StateValue, state_array

#: Surplus clicks per round that may come, on average, for ever. A learner of the log of somebody
#: who is right more surely than its own scores ever say expects slightly too few: on letters and
#: USPS without noise, .07 too few for 20,000 rounds, and more where that decider explores much.
ALLOWANCE = 0.1
#: Clicks beyond that, weighted as in `Shortfall`, at which the alarm is due. (The sum stayed under
#: 14 on eleven data sets with six kinds of noise, 20,000 rounds each, and with nothing wrong gets
#: there once in some 10^11 rounds.)
ALARM = 30.0


class Surplus:
    """Notices that more clicks come than the estimated rates explain: noise has fallen.

    Use it where rates are estimated by a filter that grows ever surer of them. Page's cumulative
    sum, as in `Shortfall`, of bits y beyond the chances m that they had::

        l = m + ALLOWANCE, kept in [EVEN, 1 - ALLOWANCE]
        sum <- max(0, sum + (y - m - ALLOWANCE) VARIANCE / (l (1 - l)))
        where sum > ALARM all begins anew, and it is an alarm if rho_1 > ALLOWANCE

    and nothing is added in the first `LEAST_ROUNDS`. Where at most `ALLOWANCE` of the clicks are
    missed, no fall of noise brings such a surplus; its cause may be another decider whose labels
    are right more often than they were drawn. If .2 false and .4 missed clicks become .05 each, it
    takes a hundred rounds. A fall of false clicks alone is not noticed: where the right label is
    shown, they do not show.

    Attributes
    ----------
    alarms
        How many there were.

    Examples
    --------
    A label that was clicked in every second round is now clicked in every round:

    >>> surplus = Surplus()
    >>> found = [surplus.observe(i % 2, chance=0.5, missed=0.5) for i in range(5000)]
    >>> found += [surplus.observe(1, chance=0.5, missed=0.5) for _ in range(300)]
    >>> found.index(True)
    5070
    """

    def __init__(self) -> None:
        self._sum, self._rounds, self.alarms = 0.0, 0, 0

    def observe(self, feedback: int, *, chance: float, missed: float) -> bool:
        """Take a bit; return whether it is an alarm.

        Parameters
        ----------
        feedback
            The bit.
        chance
            How probable a click was thought to be.
        missed
            rho_1, as estimated.
        """
        if self._rounds < LEAST_ROUNDS:
            self._rounds += 1
            return False
        likely = min(max(chance + ALLOWANCE, EVEN), 1.0 - ALLOWANCE)
        beyond = VARIANCE / (likely * (1.0 - likely)) * (feedback - chance - ALLOWANCE)
        self._sum = max(0.0, self._sum + beyond)
        if self._sum <= ALARM:
            return False
        self.begin_anew()
        if missed <= ALLOWANCE:
            return False
        self.alarms += 1
        return True

    def begin_anew(self) -> None:
        """Forget the surplus, because other rates are expected from now on."""
        self._sum, self._rounds = 0.0, 0

    def state(self, name: str) -> State:
        """Return what later bits are added to, as an array of that name."""
        return {name: np.array([self._sum, self._rounds, self.alarms], dtype=np.float64)}

    def restore(self, state: Mapping[str, StateValue], name: str) -> None:
        """Take what `state` returned.

        Raises
        ------
        StateError
            If it is missing or impossible.
        """
        numbers = state_array(state, name, (3,)).tolist()
        beyond, rounds, alarms = numbers
        counts = all(number.is_integer() and number >= 0 for number in (rounds, alarms))
        bounded = 0 <= beyond <= ALARM and rounds <= LEAST_ROUNDS and alarms <= MOST_ALARMS
        if not (counts and bounded):
            what = f"a sum in [0, {ALARM:g}], rounds up to {LEAST_ROUNDS}, and a count"
            raise StateError(expected(f"state's {name}", what, numbers))
        self._sum, self._rounds, self.alarms = beyond, int(rounds), int(alarms)
