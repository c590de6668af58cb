"""What is believed of noise rates, and how surely: each label's own, and those of all labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from learners.noise.rates import NOTHING_KNOWN

#: Standard deviations that the rates begin with: of the common ones, and of a label's from these.
#: Chosen on four data sets and four kinds of noise: false clicks show in every round and may differ
#: much; missed ones show only where a label is known to be right, and with more doubt about them,
#: labels often clicked by mistake were taken for right ones.
COMMON_DEVIATIONS = (0.2, 0.03)
LABEL_DEVIATIONS = (0.15, 0.03)
#: And of the common missed-click rate once expected clicks stayed away. Most may have been missed
#: from the very start, and a filter so sure of .2 never finds out: where .8 were missed, it stayed
#: at .21. (64-feature digits, 10,000 rounds of .02/.8: .40 wrong instead of .76; .52 with .1. Used
#: from the start, it costs too much: letters with noise by label .86 instead of .57.)
DOUBTED_MISSED = 0.2
#: The sharpness begins at 1 with this standard deviation. Below 1 it would cancel weights that
#: overshoot, as they do in the first few clicks, and keep them from correcting themselves; its
#: upper bound is more than twice the highest seen.
SHARPNESS_DEVIATION, SHARPNESS_BOUNDS = 0.3, (1.0, 10.0)
#: The trust in another decider begins at 0 with this deviation.
TRUST_DEVIATION, TRUST_BOUNDS = 0.3, (0.0, 1.0)
#: Variance that sharpness and trust gain with a click, up to their first: weights go on growing,
#: and in the end know what others knew before. The rates gain none: labels changing places would
#: pass for new noise.
CHANGE = 1e-5
#: Largest rate, and largest sum of both, that is used: beyond it a click would tell less than a
#: tenth of what it tells without noise, and the learner would stop learning for ever.
MAX_RATE, MAX_SUM = 0.8, 0.9
#: Their places among the common numbers, after rho_0 and rho_1.
SHARPNESS, TRUST = 2, 3


class Pair(NamedTuple):
    """A pair of (rho_0, rho_1) and its covariance: v_00, v_01, v_11."""

    rho_0: float
    rho_1: float
    v_00: float
    v_01: float
    v_11: float

    def look(self, right: float) -> tuple[float, float, float]:
        """Return C j, and j' C j, of the slopes j = (1 - right, -right) of a click's chance."""
        wrong = 1.0 - right
        move_0 = self.v_00 * wrong - self.v_01 * right
        move_1 = self.v_01 * wrong - self.v_11 * right
        # Rounding can leave -1e-20 of what is tiny: a variance is never below 0.
        return move_0, move_1, max(wrong * move_0 - right * move_1, 0.0)

    def moved(
        self, moves: tuple[float, float], error: float, total: float, common: list[float]
    ) -> Pair:
        """Return the pair after a click that was off by `error`, of variance `total`.

        Added to the `common` rates, it gives rates in [0, `MAX_RATE`].
        """
        (move_0, move_1), step = moves, error / total
        return Pair(
            min(max(self.rho_0 + move_0 * step, -common[0]), MAX_RATE - common[0]),
            min(max(self.rho_1 + move_1 * step, -common[1]), MAX_RATE - common[1]),
            max(self.v_00 - move_0 * move_0 / total, 0.0),
            self.v_01 - move_0 * move_1 / total,
            max(self.v_11 - move_1 * move_1 / total, 0.0),
        )


#: The pair of a label whose rates are the common ones.
KNOWN = Pair(0.0, 0.0, 0.0, 0.0, 0.0)


class Doubts(NamedTuple):
    """Standard deviations of a label's own rates (rho_0, rho_1).

    Attributes
    ----------
    first
        From the common ones, while nothing is known of the label.
    most
        Largest standard error taken with rates that are set: beyond it nothing is known anyway.
    """

    first: tuple[float, float]
    most: tuple[float, float]

    @property
    def stranger(self) -> Pair:
        """What is believed of a label of which nothing is known yet."""
        first_0, first_1 = self.first
        return KNOWN._replace(v_00=first_0 * first_0, v_11=first_1 * first_1)


#: For rates that are learned with, and for rates only reported: with these it does no harm to think
#: that one label's clicks are missed far more often than others'. (One with .6 missed, the others
#: .1, 64-feature digits: with the doubts for learning, the reported rate was off by .38, 14 of its
#: errors.)
LEARNING = Doubts(LABEL_DEVIATIONS, LABEL_DEVIATIONS)
TELLING = Doubts((LABEL_DEVIATIONS[0], 0.15), (NOTHING_KNOWN, NOTHING_KNOWN))


class Common:
    """(rho_0, rho_1) of all labels, sharpness and trust, and the covariance of the four.

    In plain floats: for four numbers numpy takes longer.

    Parameters
    ----------
    rho_0, rho_1
        The rates to begin with.
    deviations
        Their standard deviations.
    least_sharpness
        As for `RateFilter`.
    """

    def __init__(
        self,
        rho_0: float,
        rho_1: float,
        *,
        deviations: tuple[float, float],
        least_sharpness: float | None,
    ) -> None:
        self.means = [rho_0, rho_1, 1.0, TRUST_BOUNDS[0]]
        #: The variances that the four begin with.
        self.first_variances = np.square([*deviations, SHARPNESS_DEVIATION, TRUST_DEVIATION])
        self.covariance: list[list[float]] = np.diag(self.first_variances).tolist()
        most: list[float] = self.first_variances.tolist()
        #: Bounds of each, the variance that it gains with a click, and the most that it has.
        self.limits = (
            (0.0, MAX_RATE, 0.0, most[0]),
            (0.0, MAX_RATE, 0.0, most[1]),
            (least_sharpness or 1.0, SHARPNESS_BOUNDS[1], CHANGE, most[2]),
            (*TRUST_BOUNDS, CHANGE, most[3]),
        )
        if least_sharpness is None:
            self.know(SHARPNESS, 1.0)

    @property
    def rates(self) -> Pair:
        """The rates alone."""
        (v_00, v_01, _, _), (_, v_11, _, _) = self.covariance[:2]
        return Pair(self.means[0], self.means[1], v_00, v_01, v_11)

    def look(self, slopes: tuple[float, float, float, float]) -> tuple[list[float], float]:
        """Return C j, and j' C j, of the slopes j."""
        i, j, k, m = slopes
        moves = [a * i + b * j + c * k + d * m for a, b, c, d in self.covariance]
        a, b, c, d = moves
        return moves, max(a * i + b * j + c * k + d * m, 0.0)

    def move(self, moves: list[float], error: float, total: float) -> None:
        """Take in a click that was off by `error`, of variance `total`; `moves` is C j."""
        i, j, k, m = moves
        step, means = error / total, self.means
        for place, (row, by, limits) in enumerate(
            zip(self.covariance, moves, self.limits, strict=True)
        ):
            a, b, c, d = row
            row[:] = a - by * i / total, b - by * j / total, c - by * k / total, d - by * m / total
            if row[place] == 0.0:
                continue
            # Unbounded, it would run away where all clicks or none come, and take long to return.
            least, most, change, first = limits
            means[place] = min(max(means[place] + by * step, least), most)
            row[place] = min(max(row[place], 0.0) + change, first)

    def knows(self, place: int) -> bool:
        """Whether a number is taken as known: without any variance; clicks always leave some."""
        return self.covariance[place][place] == 0.0

    def know(self, place: int, value: float) -> None:
        """Take a number as known: clicks do not move it any more."""
        self.means[place] = value
        self.covariance[place] = [0.0] * len(self.means)
        for row in self.covariance:
            row[place] = 0.0
