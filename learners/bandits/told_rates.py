"""The noise rates that a learner reports, estimated beside those that it learns by."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from learners.bandits.rate_beliefs import TELLING
from learners.bandits.rate_filter import LEAST_SHARPNESS, RateFilter
from learners.bandits.surplus import Surplus
from learners.base import Outcome
from learners.noise.rates import NoiseRates
from learners.states import State, StateValue
from learners.validation import FloatArray

#: Prefix of their names in a state.
_TOLD = "told_"


class ToldRates(RateFilter):
    """Rates to report, and to correct clicks by: nothing is decided or learned by them.

    Where labels overlap, a softmax stays too sure, and clicks that it expected in vain would be
    reported as missed. So this filter's sharpness may go down to .5, and it doubts each label's
    missed clicks more. Where more clicks come than its rates explain (`Surplus`), noise has fallen:
    it begins anew with the rates. (The weights learn on as they are: they gain by such clicks in
    any case.)

    Parameters
    ----------
    n_labels
        K.
    common
        The rates that it begins with.
    """

    def __init__(self, n_labels: int, common: NoiseRates) -> None:
        self._surplus = Surplus()
        super().__init__(n_labels, common, least_sharpness=LEAST_SHARPNESS, doubts=TELLING)

    @property
    def falls(self) -> int:
        """How often it has begun anew because noise had fallen."""
        return self._surplus.alarms

    def take_in(
        self, outcome: Outcome, chances: FloatArray, scores: FloatArray, spread: float
    ) -> None:
        """Take in a click.

        Parameters
        ----------
        outcome
            Of a finished round.
        chances, scores
            Each label's chance to be right, at this filter's sharpness, and the scores that they
            are the softmax of, each of shape (K,).
        spread
            The variance of a score, z' P z.
        """
        label = outcome.label
        right = float(chances[label])
        rho_0, rho_1 = self.of(label)
        pull = (1.0 - rho_0 - rho_1) * right
        mean = float(np.add.reduce(np.multiply(chances, scores)))
        square = float(np.add.reduce(np.multiply(chances, chances)))
        steep = self.sharpness * pull
        chance = self.learn(
            label,
            outcome.feedback,
            right=right,
            bend=pull * (float(scores[label]) - mean),
            # The slopes are `steep` (1[k = label] - p_k).
            doubt=steep * steep * max(1.0 - 2.0 * right + square, 0.0) * spread,
            propensity=outcome.propensity if outcome.elsewhere else None,
        )
        _, missed, *_ = self._common.means
        if self._surplus.observe(outcome.feedback, chance=chance, missed=missed):
            self.doubt_rates()

    def begin_anew(self) -> None:
        """Forget what clicks have taught and what was set, and doubt missed clicks more."""
        super().begin_anew()
        self._surplus.begin_anew()

    def state(self, prefix: str = _TOLD) -> State:
        """Return all of it as arrays whose names begin with `prefix`."""
        return {**super().state(prefix), **self._surplus.state(f"{prefix}surplus")}

    def restore(
        self, state: Mapping[str, StateValue], prefix: str = _TOLD, *, anew: bool = False
    ) -> None:
        """Take what `state` returned; `anew` if clicks stayed away before."""
        self._surplus.restore(state, f"{prefix}surplus")
        super().restore(state, prefix, anew=anew or self.falls > 0)
