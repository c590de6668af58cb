"""Whether instances predict clicks better than each label's click rate alone."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from learners.errors import StateError, expected
from learners.states import State, StateValue, state_array
from learners.validation import FloatArray

#: Log likelihood by which labels alone must predict better to lead, from the start or from when
#: instances led again; they lead until they have lost all of it. (In nearly all of 246 streams of
#: ten data sets with six kinds of noise it reached at most 6, at .4/.4 14; it reached 20 in one of
#: ten streams of shuttle and of haberman, whose commonest labels have .79 and .74. Where instances
#: say nothing of five labels it takes 200 to 3,500 rounds, and of dozens more than 10,000.)
LEAD = 20.0
#: How far instances can be ahead: when labels change places, they lose 10 to 61 before the learner
#: notices (`Shortfall`; digits and USPS, three kinds of noise), and it must still decide by them
#: then.
MOST_AHEAD = 100.0
#: Factor of a score's variance where it reduces the scores' sharpness in the cautious chance. The
#: covariance narrows along only one direction in K, so it is too large: with pi / 8, right for a
#: true one, no chance was sure enough for clean digits.
CAUTION = 0.1
#: Share of the chances that keeps all labels in the order of their clicks, even those not likely at
#: all: of any that are allowed, one must be the best.
_ORDER = 1e-6
#: Least variance of a click: one that was all but certain must not decide everything.
_LEAST_VARIANCE = 0.05
#: No log has more events.
_MAX_EXPECTED = 2.0**53


class ContextFree:
    """Knows how often each label was clicked, and whether that predicts clicks better.

    Use it beside a learner that reads instances, fed with that learner's own decisions only: where
    instances say nothing about which label is right, weights follow chance for thousands of rounds,
    and the usual label is the best choice. Not where labels differ much in unknown false-click
    rates: one that is clicked by mistake passes for usual.

    With c_k = (clicks_k + .5) / (rounds_k + 1), [1]_ (for labels added later, the mean of the
    others in place of .5, because they are tried for being new), what bit y on label a says for c_a
    against a chance m is, with bits taken as normal with the larger variance v::

        l(m) = ((y - m)^2 - (y - c_a)^2) / 2 v,    v = max(c_a (1 - c_a), m (1 - m), .05)

    Two chances of the learner are tested, each with its own sum S <- max(-100, min(`LEAD`,
    S + l(m))), because either may be the worse: its own, which is far too sure while much is noise;
    and a cautious one (`sharpness_of`), always too unsure, times clicks over what it has predicted
    so far (labels must not win just because most clicks are missed and nobody knows yet). Labels
    alone lead from when both sums are at `LEAD` until one is 0. When clicks have changed, all
    begins anew.

    Rounds decided by somebody else, who showed labels where they were right, say nothing.

    Attributes
    ----------
    leads
        Whether labels alone predict clicks better.

    Parameters
    ----------
    n_labels
        K.

    References
    ----------
    .. [1] Krichevsky and Trofimov, *The performance of universal encoding*, 1981.

    Examples
    --------
    Two labels, of which one is clicked more often whatever the learner thinks:

    >>> usual = ContextFree(2)
    >>> for i in range(400):
    ...     usual.observe(i % 2, int(i % 2 or i % 4 == 0), chance=0.9, cautious=0.6)
    >>> usual.leads, usual.chances(0.0, 0.5, None).round(2).tolist()
    (True, [0.0, 1.0])
    """

    def __init__(self, n_labels: int) -> None:
        self._begin(n_labels)

    def _begin(self, n_labels: int) -> None:
        self._rounds, self._clicks = np.zeros(n_labels), np.zeros(n_labels)
        self._before = np.full(n_labels, 0.5)
        self._sums, self._expected, self.leads = [0.0, 0.0], 0.0, False

    def observe(self, label: int, feedback: int, *, chance: float, cautious: float) -> None:
        """Take in a bit on a label, and two chances of a click given the instance."""
        due = (float(np.add.reduce(self._clicks)) + 1.0) / (self._expected + 1.0)
        self._expected += cautious
        before = self._before.item(label)
        usual = (self._clicks.item(label) + before) / (self._rounds.item(label) + 1.0)
        self._rounds[label] += 1.0
        self._clicks[label] += feedback
        for place, likely in enumerate((chance, min(cautious * due, 1.0))):
            behind = better_by(feedback, likely, usual)
            self._sums[place] = max(min(self._sums[place] + behind, LEAD), -MOST_AHEAD)
        lead = min(self._sums)
        self.leads = lead >= LEAD or (self.leads and lead > 0.0)

    def chances(
        self, false: FloatArray | float, beta: FloatArray | float, codes: NDArray[np.intp] | None
    ) -> FloatArray:
        """Return how often each label is right, shape (K,), if `codes` (None: all) can be.

        The shares, none below 0, whose gaps are those of the click rates less `false` over `beta`,
        each common to all labels or one per label.
        """
        shares = ((self._clicks + 0.5) / (self._rounds + 1.0) - false) / beta
        chosen = shares if codes is None else shares[codes]
        falling = -np.sort(-chosen)
        levels = (np.add.accumulate(falling) - 1.0) / np.arange(1.0, len(chosen) + 1.0)
        level = levels[np.flatnonzero(falling > levels)[-1]]
        found = np.zeros(len(shares))
        order = chosen - falling[-1] + 1.0
        order *= _ORDER / np.add.reduce(order)
        likely = np.maximum(chosen - level, 0.0) * (1.0 - _ORDER) + order
        found[slice(None) if codes is None else codes] = likely
        return found

    def begin_anew(self) -> None:
        """Forget all, because other clicks are expected from now on."""
        self._begin(len(self._rounds))

    def add(self, count: int) -> None:
        """Add `count` labels, which are likely until they are shown."""
        shares = (self._clicks + self._before) / (self._rounds + 1.0)
        mean = float(np.add.reduce(shares)) / len(shares)
        self._before = np.append(self._before, np.full(count, mean))
        self._rounds = np.append(self._rounds, np.zeros(count))
        self._clicks = np.append(self._clicks, np.zeros(count))

    def state(self) -> State:
        """Return what later bits are added to."""
        return {
            "usual_rounds": self._rounds.copy(),
            "usual_clicks": self._clicks.copy(),
            "usual_before": self._before.copy(),
            "usual_leads": np.array([float(self.leads), *self._sums, self._expected]),
        }

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Take what `state` returned; StateError if it is missing or impossible."""
        rounds = state_array(state, "usual_rounds", self._rounds.shape)
        clicks = state_array(state, "usual_clicks", self._clicks.shape)
        bad = np.flatnonzero((clicks < 0) | (clicks > rounds))
        if len(bad):
            what = "of 0 to all rounds"
            raise StateError(
                expected(f"state's usual_clicks[{bad[0]}]", what, float(clicks[bad[0]]))
            )
        before = state_array(state, "usual_before", self._before.shape)
        if not ((before >= 0) & (before <= 1)).all():
            raise StateError(expected("state's usual_before", "shares in [0, 1]", before.tolist()))
        leads, *sums, due = state_array(state, "usual_leads", (4,)).tolist()
        fair = all(-MOST_AHEAD <= each <= LEAD for each in sums) and 0.0 <= due <= _MAX_EXPECTED
        if leads not in (0.0, 1.0) or not fair:
            what = f"0 or 1, two sums in [-{MOST_AHEAD:g}, {LEAD:g}], and clicks"
            raise StateError(expected("state's usual_leads", what, [leads, *sums, due]))
        self._rounds, self._clicks, self._before = rounds, clicks, before
        self.leads, self._sums, self._expected = bool(leads), sums, due


def better_by(feedback: int, chance: float, other: float) -> float:
    """Return the log likelihood by which `other` predicted a bit better than `chance` did."""
    off, miss = feedback - chance, feedback - other
    variance = max(chance * (1.0 - chance), other * (1.0 - other), _LEAST_VARIANCE)
    return (off * off - miss * miss) / (2.0 * variance)


def sharpness_of(sharpness: float, spread: float) -> float:
    """Return the sharpness that is cautious of scores of a variance: s / sqrt(1 + .1 s^2 v)."""
    return sharpness / sqrt(1.0 + CAUTION * sharpness * sharpness * spread)
