"""Noise rates and a sharpness, learned from clicks together with which labels are right."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from learners.bandits.label_rates import check_estimates
from learners.bandits.linear import check_covariances
from learners.bandits.rate_beliefs import (
    COMMON_DEVIATIONS,
    DOUBTED_MISSED,
    KNOWN,
    LEARNING,
    MAX_RATE,
    MAX_SUM,
    SHARPNESS,
    SHARPNESS_BOUNDS,
    TRUST,
    Common,
    Doubts,
    Pair,
)
from learners.errors import StateError, expected
from learners.noise.rates import NOTHING_KNOWN, NoiseRates
from learners.states import State, StateValue, state_array
from learners.validation import FloatArray

#: Least sharpness of a filter that nothing is learned by: where labels overlap, p stays too sure
#: for ever. (At .4/.4 clicks do not tell by how much: with .1, rates on magic04 came out so low
#: that one in two or three intervals of gains did not hold the truth.)
LEAST_SHARPNESS = 0.5
#: Least variance of a click: one that was all but certain must not move everything.
LEAST_NOISE = 0.01
#: Error of the rates where p was too sure, per unit of sharpness below 1: no single number mends
#: such a p. (Overlapping clouds of points, two to six labels, .1/.3 and .3/.1, 16,000 rounds: with
#: it the worst rate was off by .3 to 2.6 errors; with the sharpness kept from falling below 1 and
#: no such error reported, by 7 to 14.)
_MISFIT = 0.12
#: Error of the rates per unit of trust in another decider, whose labels may be right more often
#: than they were drawn: no trust covers that. (`benchmarks.shadow_values`: without it .79 of 192
#: intervals held the truth, with that of rho_1 all. Of false clicks some then pass for clicks on
#: right labels: of three labels, half of them drawn uniformly, .01 to .05 where .2 was true.)
_MISTRUST = 0.12
#: Deviations of the common rates when they begin anew.
_ANEW = (COMMON_DEVIATIONS[0], DOUBTED_MISSED)
#: What rounding may add to a covariance in a state, in shares of it.
_ROUNDING = 1e-9
#: Beyond any number that clicks lead to.
_MAX_NUMBER = 1e3


class RateFilter:
    """What is believed of each label's rho_0 and rho_1, and how surely; and how sharp p is.

    The rates of label k are t + d_k, where t is common to all labels. Every click moves them as a
    Kalman filter does, [1]_. With p = softmax(s f)_k of scores f, and r the propensity that label k
    was shown with, a click on it has the chance::

        m = rho_0 + beta q,      q = p + u (r - p),      beta = 1 - rho_0 - rho_1

    where somebody else decided, and q = p where p did. The slopes of m in t, the sharpness s and
    the trust u are j = (1 - q, -q, (1 - u) h, beta (r - p)), with h = beta p (f_k - p' f), those of
    d_k are i = (1 - q, -q). With V the variance of beta p that comes from doubt about the scores::

        total = max(m (1 - m), .01) + (1 - u)^2 V + j' C j + i' D_k i
        (t, s, u) <- (t, s, u) + C j (y - m) / total,      C <- C - (C j)(C j)' / total
        d_k <- d_k + D_k i (y - m) / total,                D_k <- D_k - (D_k i)(D_k i)' / total

    Then t, t + d_k, s and u are kept in [0, .8], [0, .8], [`least_sharpness`, 10] and [0, 1], and
    the variances in C of s and u grow by 1e-5, up to their first.

    Scores grow slowly where labels are far apart. Without s, clicks on labels that are right more
    surely than p says would raise rho_0, and for good, because surely wrong labels, which reveal
    it, are hardly shown any more. Without u, so would clicks in the log of somebody who knew what
    was right when the scores did not; r shows how sure that decider was. In the learner's own
    rounds r says nothing that p does not, and less where few labels were allowed.

    Use it where rates are needed while it is still being learned which labels are right. It needs a
    calibrated p, such as a softmax's where exactly one label is right.

    Parameters
    ----------
    n_labels
        K.
    common
        The rates that it begins with.
    least_sharpness
        Lower bound of the sharpness, above 0 and at most 1, its first value; 1 by default. None: it
        stays 1.
    doubts
        Doubts about a label's own rates; by default those good for learning.

    References
    ----------
    .. [1] Anderson and Moore, *Optimal filtering*, 1979, section 8.2 (the extended filter).
    """

    def __init__(
        self,
        n_labels: int,
        common: NoiseRates,
        *,
        least_sharpness: float | None = SHARPNESS_BOUNDS[0],
        doubts: Doubts = LEARNING,
    ) -> None:
        #: The common rates whenever it begins, first or anew. Not part of `state`.
        self.first, self._least_sharpness, self._doubts = common, least_sharpness, doubts
        self._own = [doubts.stranger] * n_labels
        self._begin(COMMON_DEVIATIONS)

    def _begin(self, deviations: tuple[float, float]) -> None:
        rates, least = self.first, self._least_sharpness
        self._common = Common(
            rates.rho_0, rates.rho_1, deviations=deviations, least_sharpness=least
        )
        self._own = [self._doubts.stranger] * len(self._own)

    def begin_anew(self) -> None:
        """Forget what clicks have taught and what was set, and doubt missed clicks more."""
        self._begin(_ANEW)

    def doubt_rates(self) -> None:
        """Begin anew with the rates; sharpness and trust stay, in doubt as at first."""
        kept = self._common.means[SHARPNESS:]
        self.begin_anew()
        self._common.means[SHARPNESS:] = kept

    @property
    def known(self) -> bool:
        """Whether all rates are taken as known, because they were set; an estimate leaves doubt."""
        return self.were_set and not any(own.v_00 or own.v_11 for own in self._own)

    @property
    def were_set(self) -> bool:
        """Whether the common rates were set, as known or as an estimate."""
        return self._common.knows(0)

    @property
    def each(self) -> tuple[FloatArray, FloatArray]:
        """rho_0 and rho_1 of each label as they are used, each of shape (K,)."""
        rates = np.array([self.of(label) for label in range(len(self._own))])
        return rates[:, 0].copy(), rates[:, 1].copy()

    @property
    def errors(self) -> tuple[FloatArray, FloatArray]:
        """Standard errors of the rates of each label, each of shape (K,).

        They allow for what the filter does not: as far as clicks have not replaced them, the first
        common rates were a guess, of which only [0, 1] was known; where the sharpness is below 1, p
        was too sure; and where another decider is trusted, that one may know more.
        """
        common = self._common.rates
        own = np.array([(each.v_00, each.v_11) for each in self._own])
        # The filter begins with less doubt because learning is better with it, not because more is
        # known. (With .15, a true .5 where .2 was guessed lay within the evaluation's intervals for
        # half of the logs of 2,000 rounds.)
        common_0, common_1 = (
            variance + (variance / first * NOTHING_KNOWN) ** 2
            for variance, first in zip(
                (common.v_00, common.v_11), self._common.first_variances[:2].tolist(), strict=True
            )
        )
        lacks = 0.0 if self.were_set else max(1.0 - self.sharpness, 0.0)
        misfit = (_MISFIT * lacks) ** 2
        mistrust = 0.0 if self.were_set else (_MISTRUST * self.trust) ** 2
        doubt = misfit + mistrust
        return np.sqrt(own[:, 0] + common_0 + doubt), np.sqrt(own[:, 1] + common_1 + doubt)

    @property
    def common_beta(self) -> float:
        """1 - rho_0 - rho_1 of the common rates, as used."""
        rho_0, rho_1 = _within(*self._common.means[:2])
        return 1.0 - rho_0 - rho_1

    def of(self, label: int) -> tuple[float, float]:
        """Return rho_0 and rho_1 of a label as they are used: at least 0, with a sum below 1."""
        common, own = self._common.means, self._own[label]
        return _within(common[0] + own.rho_0, common[1] + own.rho_1)

    @property
    def sharpness(self) -> float:
        """What scores are multiplied by before the softmax."""
        return self._common.means[SHARPNESS]

    @property
    def trust(self) -> float:
        """How far another decider's propensities are taken as chances to be right, in [0, 1]."""
        return self._common.means[TRUST]

    def spread(self, label: int, right: float) -> float:
        """Return what doubt about rates adds to the variance of a click on `label`.

        `right` is the chance that it is right.
        """
        return self._common.rates.look(right)[2] + self._own[label].look(right)[2]

    def learn(
        self,
        label: int,
        feedback: int,
        *,
        right: float,
        bend: float,
        doubt: float,
        propensity: float | None,
    ) -> float:
        """Take in whether `label` was clicked; return the chance that a click had.

        Parameters
        ----------
        label, feedback
            Code and bit.
        right
            The chance p that the label is right.
        bend
            h: the slope of beta p in the sharpness.
        doubt
            Variance of beta p, as far as the scores are in doubt.
        propensity
            r, in [0, 1], where somebody else decided; None where p did.
        """
        trust, ahead = (0.0, 0.0) if propensity is None else (self.trust, propensity - right)
        own_word = 1.0 - trust
        seen = right + trust * ahead
        rho_0, rho_1 = self.of(label)
        beta = 1.0 - rho_0 - rho_1
        clicked = rho_0 + beta * seen
        common, own = self._common, self._own[label]
        moves, common_doubt = common.look((1.0 - seen, -seen, own_word * bend, beta * ahead))
        own_0, own_1, own_doubt = own.look(seen)
        total = max(clicked * (1.0 - clicked), LEAST_NOISE)
        total += own_word * own_word * doubt + common_doubt + own_doubt
        error = feedback - clicked
        common.move(moves, error, total)
        self._own[label] = own.moved((own_0, own_1), error, total, common.means)
        return clicked

    def set_common(self, rates: NoiseRates) -> None:
        """Take the same rates for all labels, as known: clicks do not move them any more."""
        self._know(rates.rho_0, rates.rho_1)
        self._own = [KNOWN] * len(self._own)

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
        means = [float(rates.mean()) for rates in (rho_0, rho_1)]
        doubts = (
            np.minimum(errors, most)
            for errors, most in zip((rho_0_error, rho_1_error), self._doubts.most, strict=True)
        )
        self._know(*means)
        self._own = [
            Pair(own_0 - means[0], own_1 - means[1], doubt_0 * doubt_0, 0.0, doubt_1 * doubt_1)
            for own_0, own_1, doubt_0, doubt_1 in zip(
                rho_0.tolist(), rho_1.tolist(), *(each.tolist() for each in doubts), strict=True
            )
        ]

    def _know(self, rho_0: float, rho_1: float) -> None:
        self._common.know(0, rho_0)
        self._common.know(1, rho_1)

    def add(self, count: int) -> None:
        """Add `count` labels, of which only the common rates are known."""
        self._own += [KNOWN if self.known else self._doubts.stranger] * count

    def state(self, prefix: str = "") -> State:
        """Return all of it as arrays whose names begin with `prefix`."""
        return {
            f"{prefix}common_rates": np.array(self._common.means),
            f"{prefix}common_covariance": np.array(self._common.covariance),
            f"{prefix}own_rates": np.array(self._own),
        }

    def restore(
        self, state: Mapping[str, StateValue], prefix: str = "", *, anew: bool = False
    ) -> None:
        """Take what `state` returned; `anew` if that filter had begun anew."""
        if anew:
            self._begin(_ANEW)
        size = len(self._common.means)
        common, own_rates = f"{prefix}common_rates", f"{prefix}own_rates"
        means = state_array(state, common, (size,), _MAX_NUMBER)
        covariance = state_array(state, f"{prefix}common_covariance", (size, size))
        own = state_array(state, own_rates, (len(self._own), len(Pair._fields)), _MAX_NUMBER)
        for place in (SHARPNESS, TRUST):
            least, most = self._common.limits[place][:2]
            if not least <= means[place] <= most:
                what = f"a number in [{least:g}, {most:g}]"
                raise StateError(expected(f"state's {common}", what, float(means[place])))
        first = self._common.first_variances
        check_covariances(f"{prefix}common_covariance", covariance[np.newaxis], first)
        _check_pairs(own_rates, own)
        self._common.means, self._common.covariance = means.tolist(), covariance.tolist()
        self._own = [Pair(*row) for row in own.tolist()]


def _within(rho_0: float, rho_1: float) -> tuple[float, float]:
    rho_0, rho_1 = min(max(rho_0, 0.0), MAX_RATE), min(max(rho_1, 0.0), MAX_RATE)
    excess = rho_0 + rho_1
    if excess <= MAX_SUM:
        return rho_0, rho_1
    return rho_0 * (MAX_SUM / excess), rho_1 * (MAX_SUM / excess)


def _check_pairs(name: str, rows: FloatArray) -> None:
    """Raise StateError unless these are pairs with their covariances."""
    v_00, v_01, v_11 = rows[:, 2], rows[:, 3], rows[:, 4]
    linked = v_01 * v_01 > v_00 * v_11 * (1 + _ROUNDING) + _ROUNDING**2
    bad = np.flatnonzero((v_00 < 0) | (v_11 < 0) | linked)
    if len(bad):
        what = "rates with their covariance"
        raise StateError(expected(f"state's {name}[{bad[0]}]", what, rows[bad[0]].tolist()))
