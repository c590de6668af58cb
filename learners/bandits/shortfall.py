"""Whether expected clicks stay away, and what may be behind it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from math import sqrt

import numpy as np

from learners.errors import StateError, expected
from learners.states import State, StateValue, state_array

#: Expected clicks per round that may stay away, on average, for ever. Learners that are still
#: learning expect slightly too many: on twelve data sets with six kinds of noise, 20,000 rounds
#: each, the sum below stayed under 20, and under 27 in three streams of Fashion-MNIST with each.
ALLOWANCE = 0.07
#: Chance of an even bit, and its variance; likelier bits count for more, by the ratio of variances:
#: a click that stays away where it is all but certain says four times as much. (Less likely bits do
#: not: where most clicks are missed from the start, they would hide what the others lack.)
EVEN, VARIANCE = 0.5, 0.25
#: Clicks lacking beyond the allowance, so weighted, at which the alarm is due. With nothing wrong,
#: the sum gets there once in some exp(2 ALLOWANCE ALARM / VARIANCE) VARIANCE / 2 ALLOWANCE**2, or
#: 10^11, rounds.
ALARM = 40.0
#: Rounds before anything counts as lacking, and between two alarms: the expectations of a learner
#: that has just begun are worth too little. Half as many after an alarm taken for noise, when less
#: begins anew.
LEAST_ROUNDS, LEAST_AFTER_NOISE = 1000, 500
#: Least rounds since the sum was 0 before an alarm is raised: a dozen all but certain clicks
#: that stay away bring the sum there, and say too little about the share left.
LEAST_RUN = 60
#: Rounds within which another alarm says that what was taken for noise was something else.
SOON = 2000
#: Noise leaves more than this share of the clicks that labels are due for being right (.6 of all,
#: if .4 are missed); where other labels have become right, almost none are left.
LEFT = 0.4
#: Beyond this, what is left varies more between labels than by chance once in exp(UNEVEN) times, by
#: the chi square of bits of the largest variance, [2]_: noise takes from all labels, whereas what
#: is right may have changed for only some. (None of 27 streams in which two or three labels changed
#: places was taken for noise, and none of 32 rises of noise, also by label, for a change of
#: labels.)
UNEVEN = 3.0
#: False clicks due while all clicks stayed away, at which clicks are taken to be no longer counted:
#: where labels are wrong, false clicks go on, and chance keeps all of so many away once in exp(20).
#: At a false-click rate of .1 it takes 200 rounds. With 12 it would take 120; but rates are
#: somewhat off, and waiting for a click where labels have changed is costly.
SILENT = 20.0
#: No log has more events.
MOST_ALARMS = 2**53


class Change(StrEnum):
    """What clicks that stay away are taken for."""

    NOISE = "noise"
    LABELS = "labels"


class Shortfall:
    """Notices that fewer clicks come than a learner expects.

    Use it where a learner says for each round how likely a click is: when clicks stay away, either
    the noise or what is right has changed. More clicks than expected raise no alarm. Page's
    cumulative sum, [1]_, of how far bits y fall short of expectations m::

        l = m - ALLOWANCE, kept in [EVEN, 1 - ALLOWANCE]
        sum <- max(0, sum + (m - y - ALLOWANCE) VARIANCE / (l (1 - l)))
        alarm where y = 1, sum > ALARM, t >= LEAST_ROUNDS, and the sum was last 0 LEAST_RUN
        rounds ago; then sum and t begin anew

    and nothing is added in the very first `LEAST_ROUNDS`. An alarm needs a click, because where
    none comes at all, a learner that begins anew has nothing to learn from. If .1 of the rounds
    lack a click, it takes 1,300 rounds where every second one is clicked, and 400 where nearly all
    are; if .4 do, 120 and 60. It is `silent`, until a click comes, where not even false clicks
    come: no change of labels or noise explains that; a dead counter does.

    What an alarm is taken for: over the rounds since the sum was last 0, and over all labels, the
    share left is the clicks beyond false ones that came, divided by those due. It is `Change.NOISE`
    where that share is at least `LEFT` and not `UNEVEN` between the labels, unless the alarm
    before, less than `SOON` rounds ago, was taken for noise. O(1) a round, and O(K) an alarm.

    Attributes
    ----------
    alarms
        How many there were.

    References
    ----------
    .. [1] Page, *Continuous inspection schemes*, Biometrika 41, 1954.
    .. [2] Laurent and Massart, *Adaptive estimation of a quadratic functional by model selection*,
       Annals of Statistics 28, 2000, lemma 1.

    Examples
    --------
    A label that was clicked in every second round in which it was right now is in every fourth:

    >>> shortfall = Shortfall()
    >>> found = [shortfall.observe(0, i % 2, chance=0.5, false=0.0) for i in range(5000)]
    >>> found += [shortfall.observe(0, int(i % 4 == 0), chance=0.5, false=0.0) for i in range(300)]
    >>> [(i, change.value) for i, change in enumerate(found) if change]
    [(5224, 'noise')]
    """

    def __init__(self) -> None:
        self._sum, self._rounds, self._was_noise, self.alarms = 0.0, 0, False, 0
        # By label, since the sum was last 0: rounds, clicks beyond false ones, and those due.
        self._run: dict[int, tuple[float, float, float]] = {}

    def observe(self, label: int, feedback: int, *, chance: float, false: float) -> Change | None:
        """Take a bit; return what an alarm is taken for, or None where there is none.

        Parameters
        ----------
        label, feedback
            Code and bit.
        chance
            How probable a click was thought to be, at least `false`.
        false
            How probable it would have been had the label been wrong.
        """
        self._rounds = min(self._rounds + 1, SOON)
        if not self.alarms and self._rounds <= LEAST_ROUNDS:
            return None
        likely = min(max(chance - ALLOWANCE, EVEN), 1.0 - ALLOWANCE)
        lacks = VARIANCE / (likely * (1.0 - likely)) * (chance - feedback - ALLOWANCE)
        self._sum = max(0.0, self._sum + lacks)
        if self._sum == 0.0:
            self._run.clear()
        else:
            rounds, came, due = self._run.get(label, (0.0, 0.0, 0.0))
            self._run[label] = (rounds + 1.0, came + feedback - false, due + chance - false)
        least = LEAST_AFTER_NOISE if self._was_noise else LEAST_ROUNDS
        if not feedback or self._sum <= ALARM or self._rounds < least:
            return None
        if sum(int(rounds) for rounds, _, _ in self._run.values()) < LEAST_RUN:
            return None
        change = self._taken_for()
        self._sum, self._rounds, self._was_noise = 0.0, 0, change is Change.NOISE
        self._run.clear()
        self.alarms += 1
        return change

    @property
    def silent(self) -> bool:
        """Whether clicks are lacking, `SILENT` false ones among them: nothing counts clicks."""
        if self._sum <= ALARM:
            return False
        came = 0.0
        for label in sorted(self._run):
            came += self._run[label][1]
        return came < -SILENT

    def end_silence(self) -> None:
        """Forget what was lacking: clicks are counted again."""
        self._sum = 0.0
        self._run.clear()

    def _taken_for(self) -> Change:
        # In the order of labels: sums of floats depend on it, and a state has no other. Not by
        # sum(): of floats it is compensated on some versions of Python and not on others.
        labels = [self._run[label] for label in sorted(self._run)]
        all_came = all_due = 0.0
        for _, came, due in labels:
            all_came += came
            all_due += due
        left = all_came / all_due if all_due > 0.0 else 0.0
        square = 0.0
        for rounds, came, due in labels:
            off = came - left * due
            square += off * off / (VARIANCE * rounds)
        free = len(labels) - 1
        uneven = square > free + 2.0 * sqrt(free * UNEVEN) + 2.0 * UNEVEN
        again = self._was_noise and self._rounds < SOON
        return Change.LABELS if again or uneven or left < LEFT else Change.NOISE

    def state(self, n_labels: int) -> State:
        """Return what later bits are added to, as two arrays."""
        run = np.zeros((n_labels, 3))
        for label, each in self._run.items():
            run[label] = each
        numbers = [self._sum, self._rounds, self._was_noise, self.alarms]
        return {"shortfall": np.array(numbers, dtype=np.float64), "shortfall_run": run}

    def restore(self, state: Mapping[str, StateValue], n_labels: int) -> None:
        """Take what `state` returned.

        Raises
        ------
        StateError
            If a part is missing or impossible.
        """
        numbers = state_array(state, "shortfall", (4,)).tolist()
        lacking, rounds, was_noise, alarms = numbers
        counts = all(number.is_integer() and 0 <= number <= MOST_ALARMS for number in numbers[1:])
        if not (counts and lacking >= 0 and rounds <= SOON and was_noise <= 1):
            what = f"a sum of at least 0, rounds up to {SOON}, a bit, and a count"
            raise StateError(expected("state's shortfall", what, numbers))
        run = state_array(state, "shortfall_run", (n_labels, 3))
        bad = np.flatnonzero((run[:, [0, 2]] < 0).any(1) | (np.abs(run[:, 1]) > run[:, 0]))
        if len(bad):
            what = "rounds and clicks due of at least 0, and no more clicks than rounds"
            raise StateError(
                expected(f"state's shortfall_run[{bad[0]}]", what, run[bad[0]].tolist())
            )
        self._sum, self._rounds, self._was_noise = lacking, int(rounds), bool(was_noise)
        self.alarms = int(alarms)
        self._run = {
            label: (row[0], row[1], row[2]) for label, row in enumerate(run.tolist()) if row[0]
        }
