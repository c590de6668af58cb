"""Whether clicks have changed: the Page-Hinkley test on a stream of bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from learners.errors import StateError, expected
from learners.states import State, StateValue, state_number, state_value
from learners.validation import is_integer

#: A change of the share of clicks by no more than this is none: the rates' own standard errors
#: are as large.
TOLERANCE = 0.01
#: Clicks too many, or too few, that raise the alarm. Bits vary by at most .25, so without a change
#: a sum passes it once in some exp(2 TOLERANCE ALARM / .25) / (2 TOLERANCE**2 / .25) = 4,000,000
#: of them; a change by .1 is noticed within some 1,000, one by .05 within 2,000 to 3,000.
ALARM = 100.0
#: Bits before the first alarm, and between two: the least that an estimate is made from.
LEAST_BITS = 1000
#: More bits than any log has; a saved count of a thousand digits would be no float.
MOST_BITS = 2**53

_NUMBERS = ("mean", "up", "down")


class ClickDrift:
    """Notices that the share of clicks has changed since it began to look.

    Use it on the clicks of rounds that showed the greedy label: their share moves when the noise
    rates do, and when the learner gets better or worse; either way what was estimated from older
    rounds may no longer hold. It cannot tell which of the two it was. While a learner learns fast
    it notices that too, a handful of times in its first 100,000 rounds.

    The two-sided test of Page and Hinkley [1]_, over the mean so far m_t::

        up   <- max(0, up + x_t - m_t - TOLERANCE)
        down <- max(0, down - x_t + m_t - TOLERANCE)
        alarm where t >= LEAST_BITS and max(up, down) > ALARM; then it begins anew

    It is river's ``drift.PageHinkley(LEAST_BITS, TOLERANCE, ALARM, alpha=1)`` in a form whose
    sums stay bounded. O(1) a bit, four numbers of state.

    References
    ----------
    .. [1] Page, *Continuous inspection schemes*, Biometrika 41, 1954.

    Examples
    --------
    >>> drift = ClickDrift()
    >>> any(drift.observe(i % 2) for i in range(5000))
    False
    >>> next(i for i in range(5000) if drift.observe(1))
    207
    """

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget what was seen: compare with what comes from now on."""
        self._bits = 0
        self._mean = self._up = self._down = 0.0

    def observe(self, bit: int) -> bool:
        """Take one bit; return whether it raises the alarm."""
        self._bits = min(self._bits + 1, MOST_BITS)
        self._mean += (1.0 / self._bits) * (bit - self._mean)
        off = bit - self._mean
        self._up = max(0.0, self._up + off - TOLERANCE)
        self._down = max(0.0, self._down - off - TOLERANCE)
        if self._bits < LEAST_BITS or max(self._up, self._down) <= ALARM:
            return False
        self.begin_anew()
        return True

    def state(self) -> State:
        """Return what later bits are compared with, as named scalars."""
        return {"bits": self._bits, "mean": self._mean, "up": self._up, "down": self._down}

    @classmethod
    def from_state(cls, state: Mapping[str, StateValue]) -> Self:
        """Rebuild it; it then goes on bit for bit as the saved one would.

        Raises
        ------
        StateError
            If a part is missing or impossible.
        """
        drift = cls()
        bits = state_value(state, "bits")
        if not is_integer(bits) or not 0 <= int(bits) <= MOST_BITS:
            raise StateError(expected("state's bits", f"a count up to {MOST_BITS}", bits))
        drift._bits = int(bits)
        drift._mean, drift._up, drift._down = (state_number(state, n) for n in _NUMBERS)
        if not 0.0 <= drift._mean <= 1.0 or min(drift._up, drift._down) < 0.0:
            what = "a mean in [0, 1] and sums of at least 0"
            raise StateError(expected("state", what, [state[n] for n in _NUMBERS]))
        return drift
