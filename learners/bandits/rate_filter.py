"""Noise rates and a sharpness that are learned from each click, with what clicks are about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from learners.bandits.label_rates import check_estimates
from learners.bandits.linear import check_covariances
from learners.base import FloatArray, State, StateValue, state_array
from learners.errors import StateError, expected
from learners.noise.rates import NoiseRates

#: Standard deviations that the rates begin with: of what all labels have in common, and of a
#: label from it. Of those tried on four data sets and four kinds of noise: false clicks show in
#: every round and may differ much, missed ones show only where a label is known to be right; with
#: more doubt about these, labels that are often clicked by mistake were taken for right ones.
COMMON_DEVIATIONS = (0.2, 0.03)
LABEL_DEVIATIONS = (0.15, 0.03)
#: The sharpness begins with 1 and this standard deviation, which its variance makes up for by so
#: much a click, because the weights go on growing. Below 1 it would undo weights that overshoot,
#: as they do while they are few clicks old, and keep them from coming right by themselves; more
#: than twice the highest that was seen is the most.
SHARPNESS_DEVIATION, SHARPNESS_DRIFT = 0.3, 1e-5
SHARPNESS_BOUNDS = (1.0, 10.0)
#: Largest rate, and largest sum of both, that is used: beyond it a click would tell less than a
#: tenth of what it tells without noise, and the learner would stop learning for ever.
MAX_RATE, MAX_SUM = 0.8, 0.9
#: What rounding may add to a covariance in a state, in shares of it.
_ROUNDING = 1e-9
#: Beyond any number that clicks lead to.
_MAX_NUMBER = 1e3
_FIRST_COMMON = np.square([*COMMON_DEVIATIONS, SHARPNESS_DEVIATION])


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

    def moved(self, move_0: float, move_1: float, error: float, total: float) -> Pair:
        """Return it after a click that was off by `error`, of variance `total`."""
        step = error / total
        return Pair(
            self.rho_0 + move_0 * step,
            self.rho_1 + move_1 * step,
            max(self.v_00 - move_0 * move_0 / total, 0.0),
            self.v_01 - move_0 * move_1 / total,
            max(self.v_11 - move_1 * move_1 / total, 0.0),
        )


class Common(NamedTuple):
    """(rho_0, rho_1) of all labels and the sharpness, and the covariance of the three."""

    rho_0: float
    rho_1: float
    sharpness: float
    v_00: float
    v_01: float
    v_02: float
    v_11: float
    v_12: float
    v_22: float

    def look(self, right: float, bend: float) -> tuple[float, float, float, float]:
        """Return C j, and j' C j, of the slopes j = (1 - right, -right, bend)."""
        wrong = 1.0 - right
        move_0 = self.v_00 * wrong - self.v_01 * right + self.v_02 * bend
        move_1 = self.v_01 * wrong - self.v_11 * right + self.v_12 * bend
        move_2 = self.v_02 * wrong - self.v_12 * right + self.v_22 * bend
        return move_0, move_1, move_2, max(wrong * move_0 - right * move_1 + bend * move_2, 0.0)

    def moved(
        self, move_0: float, move_1: float, move_2: float, error: float, total: float
    ) -> Common:
        """Return it after a click that was off by `error`, of variance `total`."""
        step = error / total
        least, most = SHARPNESS_BOUNDS
        v_22 = self.v_22
        if v_22:  # or else the sharpness is known
            v_22 = max(v_22 - move_2 * move_2 / total, 0.0) + SHARPNESS_DRIFT
        return Common(
            self.rho_0 + move_0 * step,
            self.rho_1 + move_1 * step,
            min(max(self.sharpness + move_2 * step, least), most),
            max(self.v_00 - move_0 * move_0 / total, 0.0),
            self.v_01 - move_0 * move_1 / total,
            self.v_02 - move_0 * move_2 / total,
            max(self.v_11 - move_1 * move_1 / total, 0.0),
            self.v_12 - move_1 * move_2 / total,
            min(v_22, SHARPNESS_DEVIATION * SHARPNESS_DEVIATION),
        )

    def known(self, rho_0: float, rho_1: float) -> Common:
        """Return it with rates that are known."""
        return Common(rho_0, rho_1, self.sharpness, 0.0, 0.0, 0.0, 0.0, 0.0, self.v_22)


class RateFilter:
    """What is believed of each label's rho_0 and rho_1, and how surely; and how sharp p is.

    The rates of label k are t + d_k, of which t is common to all labels. Every click moves them as
    a Kalman filter does, [1]_: a click on label k, which is right with probability
    p = softmax(s f)_k of scores f, has the chance m = rho_0 + (1 - rho_0 - rho_1) p, whose slopes
    in t and the sharpness s are j = (1 - p, -p, h), with h = (1 - rho_0 - rho_1) p (f_k - p' f).
    With `total` the variance of the click around m::

        (t, s) <- (t, s) + C j (y - m) / total,      C <- C - (C j)(C j)' / total

    and d_k likewise, with a covariance of its own. Scores grow slowly where labels are far apart.
    Without s, all the clicks on labels that are right more surely than p says would raise rho_0,
    and for good, because surely wrong labels, which tell of it, are hardly shown any more.

    Use it where the rates are wanted while it is being learned which labels are right. It needs
    a p that is calibrated, as the softmax of exactly one right label is.

    Parameters
    ----------
    n_labels
        K.
    common
        The rates that it begins with.
    sharpens
        Whether the sharpness is learned; True by default. If not, it stays 1.

    References
    ----------
    .. [1] Anderson and Moore, *Optimal filtering*, 1979, section 8.2 (the extended filter).
    """

    def __init__(self, n_labels: int, common: NoiseRates, *, sharpens: bool = True) -> None:
        v_00, v_11, v_22 = _FIRST_COMMON.tolist()
        rates, doubt = (common.rho_0, common.rho_1), v_22 if sharpens else 0.0
        self._common = Common(*rates, 1.0, v_00, 0.0, 0.0, v_11, 0.0, doubt)
        self._own = [_stranger() for _ in range(n_labels)]

    @property
    def each(self) -> tuple[FloatArray, FloatArray]:
        """rho_0 and rho_1 of each label as they are used, each of shape (K,)."""
        rates = np.array([self.of(label) for label in range(len(self._own))])
        return rates[:, 0].copy(), rates[:, 1].copy()

    @property
    def means(self) -> tuple[float, float]:
        """The means of rho_0 and of rho_1 over labels, as they are used."""
        rho_0, rho_1 = (float(np.add.reduce(rates)) / len(rates) for rates in self.each)
        return rho_0, rho_1

    @property
    def errors(self) -> tuple[FloatArray, FloatArray]:
        """Standard errors of the rates of each label, each of shape (K,)."""
        common = self._common
        own = np.array([(each.v_00, each.v_11) for each in self._own])
        return np.sqrt(own[:, 0] + common.v_00), np.sqrt(own[:, 1] + common.v_11)

    @property
    def common_beta(self) -> float:
        """1 - rho_0 - rho_1 of what the labels have in common, as it is used."""
        rho_0, rho_1 = _within(self._common.rho_0, self._common.rho_1)
        return 1.0 - rho_0 - rho_1

    def of(self, label: int) -> tuple[float, float]:
        """Return rho_0 and rho_1 of a label as they are used: at least 0, with a sum below 1."""
        own = self._own[label]
        return _within(self._common.rho_0 + own.rho_0, self._common.rho_1 + own.rho_1)

    @property
    def sharpness(self) -> float:
        """What scores are multiplied by before the softmax."""
        return self._common.sharpness

    def spread(self, label: int, right: float, bend: float) -> float:
        """Return what doubt about rates and sharpness adds to the variance of a click on `label`.

        `right` is the chance that it is right, `bend` the slope of the click's in the sharpness.
        """
        return self._common.look(right, bend)[3] + self._own[label].look(right)[2]

    def learn(self, label: int, right: float, bend: float, error: float, total: float) -> None:
        """Take in a click on `label` that was off by `error`, of variance `total`."""
        common, own = self._common, self._own[label]
        move_0, move_1, move_2, _ = common.look(right, bend)
        self._common = common.moved(move_0, move_1, move_2, error, total)
        move_0, move_1, _ = own.look(right)
        self._own[label] = own.moved(move_0, move_1, error, total)

    def set_common(self, rates: NoiseRates) -> None:
        """Take the same rates for all labels, as known: clicks do not move them any more."""
        self._common = self._common.known(rates.rho_0, rates.rho_1)
        self._own = [Pair(0.0, 0.0, 0.0, 0.0, 0.0) for _ in self._own]

    def set_each(
        self,
        rho_0: FloatArray,
        rho_1: FloatArray,
        rho_0_error: FloatArray,
        rho_1_error: FloatArray,
    ) -> None:
        """Take each label's rates, as surely as their standard errors say.

        Raises
        ------
        InputError
            If an array is not float64 of shape (K,), a rate not in [0, 1), or an error below 0.
        """
        n_labels = len(self._own)
        check_estimates(n_labels, rho_0, rho_1, rho_0_error, rho_1_error)
        means = [float(np.add.reduce(rates)) / n_labels for rates in (rho_0, rho_1)]
        # Doubt beyond what a stranger's rates have says no more than that one knows nothing.
        doubts = (
            np.minimum(errors, most)
            for errors, most in zip((rho_0_error, rho_1_error), LABEL_DEVIATIONS, strict=True)
        )
        self._common = self._common.known(*means)
        self._own = [
            Pair(own_0 - means[0], own_1 - means[1], *_variances(doubt_0, doubt_1))
            for own_0, own_1, doubt_0, doubt_1 in zip(
                rho_0.tolist(), rho_1.tolist(), *(each.tolist() for each in doubts), strict=True
            )
        ]

    def add(self) -> None:
        """Add a label, of which is known what is known of all."""
        self._own.append(_stranger())

    def state(self) -> State:
        """Return all of it as arrays."""
        return {"common_rates": np.array(self._common), "own_rates": np.array(self._own)}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Take what `state` returned."""
        common = state_array(state, "common_rates", (len(Common._fields),))
        own = state_array(state, "own_rates", (len(self._own), len(Pair._fields)))
        _check_sizes("common_rates", common)
        _check_sizes("own_rates", own)
        _check_common(common)
        _check_pairs(own)
        self._common = Common(*common.tolist())
        self._own = [Pair(*row) for row in own.tolist()]


def _stranger() -> Pair:
    return Pair(0.0, 0.0, *_variances(*LABEL_DEVIATIONS))


def _variances(deviation_0: float, deviation_1: float) -> tuple[float, float, float]:
    return deviation_0 * deviation_0, 0.0, deviation_1 * deviation_1


def _within(rho_0: float, rho_1: float) -> tuple[float, float]:
    rho_0, rho_1 = min(max(rho_0, 0.0), MAX_RATE), min(max(rho_1, 0.0), MAX_RATE)
    excess = rho_0 + rho_1
    if excess <= MAX_SUM:
        return rho_0, rho_1
    return rho_0 * (MAX_SUM / excess), rho_1 * (MAX_SUM / excess)


def _check_sizes(name: str, numbers: FloatArray) -> None:
    if not (np.abs(numbers) <= _MAX_NUMBER).all():
        what = f"numbers of size at most {_MAX_NUMBER:g}"
        raise StateError(expected(f"state's {name}", what, numbers.tolist()))


def _check_common(numbers: FloatArray) -> None:
    """Raise StateError unless clicks lead to such a sharpness, and its covariance is one."""
    least, most = SHARPNESS_BOUNDS
    sharpness = float(numbers[2])
    if not least <= sharpness <= most:
        what = f"a sharpness in [{least:g}, {most:g}]"
        raise StateError(expected("state's common_rates", what, sharpness))
    upper = np.triu_indices(3)
    covariance = np.zeros((3, 3))
    covariance[upper] = covariance.T[upper] = numbers[3:]
    check_covariances("common_rates", covariance[np.newaxis], _FIRST_COMMON)


def _check_pairs(rows: FloatArray) -> None:
    """Raise StateError unless these are pairs with their covariances."""
    v_00, v_01, v_11 = rows[:, 2], rows[:, 3], rows[:, 4]
    fits = ((v_00 >= 0) & (v_11 >= 0)).all()
    if not fits or (v_01 * v_01 > v_00 * v_11 * (1 + _ROUNDING) + _ROUNDING**2).any():
        raise StateError(expected("state's own_rates", "rates with covariances", rows.tolist()))
