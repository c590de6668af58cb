"""Whether more clicks come than noise explains that was found before."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from learners.bandits.shortfall import EVEN, LEAST_ROUNDS, MOST_ALARMS, VARIANCE
from learners.errors import StateError, expected
from learners.states import State, StateValue, state_array

#: Clicks a round more than expected, on average, that may come for ever. Who learns the log of
#: somebody that is right more surely than its own scores ever are expects some too few: of letters
#: and USPS without noise .07 of them went on for 20,000 rounds, and more where he explores much.
ALLOWANCE = 0.1
#: Clicks beyond that, counted as those that stay away are, at which the alarm is due. (The sum
#: stayed under 14 on eleven data sets with six kinds of noise, 20,000 rounds each, and of bits that
#: nothing is wrong with gets there once in some 10^11 rounds.)
ALARM = 30.0


class Surplus:
    """Notices that more clicks come than rates explain that were found: noise has fallen.

    Use it where rates are found by a filter that grows ever surer of them. Page's cumulative sum,
    as in `Shortfall`, of bits y beyond the chances m that they had::

        l = m + ALLOWANCE, kept in [EVEN, 1 - ALLOWANCE]
        sum <- max(0, sum + (y - m - ALLOWANCE) VARIANCE / (l (1 - l)))
        where sum > ALARM all begins anew, and it is an alarm if rho_1 > ALLOWANCE

    and nothing is added in the first `LEAST_ROUNDS`. Where fewer clicks are missed than may come
    too many, no fall of noise brings so many: another's labels are right more often than he drew
    them, say. If .2 false and .4 missed clicks become .05 each it takes a hundred rounds. False
    clicks alone that fall are not noticed: where the right label is shown they do not show.

    Attributes
    ----------
    alarms
        How many there were.

    Examples
    --------
    A label that was clicked in each second round is so in each:

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
            rho_1, as it was found.
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
        """Let nothing be beyond any more, because other rates are expected from now on."""
        self._sum, self._rounds = 0.0, 0

    def state(self, name: str) -> State:
        """Return what later bits are added to, as an array of that name."""
        return {name: np.array([self._sum, self._rounds, self.alarms], dtype=np.float64)}

    def restore(self, state: Mapping[str, StateValue], name: str) -> None:
        """Take what `state` returned.

        Raises
        ------
        StateError
            If it is missing, or cannot be.
        """
        numbers = state_array(state, name, (3,)).tolist()
        beyond, rounds, alarms = numbers
        counts = all(number.is_integer() and number >= 0 for number in (rounds, alarms))
        bounded = 0 <= beyond <= ALARM and rounds <= LEAST_ROUNDS and alarms <= MOST_ALARMS
        if not (counts and bounded):
            what = f"a sum in [0, {ALARM:g}], rounds up to {LEAST_ROUNDS}, and a count"
            raise StateError(expected(f"state's {name}", what, numbers))
        self._sum, self._rounds, self.alarms = beyond, int(rounds), int(alarms)
