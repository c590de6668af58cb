"""The two rates at which feedback is flipped, and the feedback corrected by them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from learners.errors import InputError, ParameterError, expected
from learners.validation import is_number

#: Least 1 - rho_0 - rho_1 that is accepted. The corrected feedback is as large as 1 / beta and its
#: variance as 1 / beta**2: below this one bit tells less than a millionth of a click, and a learner
#: that believed it would only be thrown about.
MIN_BETA = 1e-6

#: Standard deviation of a rate of which only [0, 1] is known.
NOTHING_KNOWN = 12.0**-0.5


@dataclass(frozen=True, slots=True)
class NoiseRates:
    """How often feedback lies: rho_0 for a wrong label, rho_1 for the right one.

    One type for what the literature writes in three ways; see `from_tau` and `from_p`.

    Parameters
    ----------
    rho_0
        P(feedback = 1 | the label was wrong), the rate of false clicks, in [0, 1).
    rho_1
        P(feedback = 0 | the label was right), the rate of missed clicks, in [0, 1).

    Raises
    ------
    InputError
        If a rate is no number in [0, 1), or ``beta`` is below `MIN_BETA`.

    References
    ----------
    .. [1] Agarwal and Manwani, *Learning multiclass classifier under noisy bandit feedback*,
       2021, section 3.

    Examples
    --------
    >>> rates = NoiseRates(0.25, 0.25)
    >>> rates.corrected(0), rates.corrected(1)
    (-0.5, 1.5)
    """

    rho_0: float = 0.0
    rho_1: float = 0.0

    def __post_init__(self) -> None:
        _check_each(self.rho_0, self.rho_1)
        object.__setattr__(self, "rho_0", float(self.rho_0))
        object.__setattr__(self, "rho_1", float(self.rho_1))
        if self.beta < MIN_BETA:
            total = self.rho_0 + self.rho_1
            raise InputError(expected("rho_0 + rho_1", f"at most 1 - {MIN_BETA:g}", total))

    @property
    def beta(self) -> float:
        """1 - rho_0 - rho_1: how much of the click's meaning survives, in (0, 1]."""
        return 1.0 - self.rho_0 - self.rho_1

    def corrected(self, feedback: int) -> float:
        """Return h(feedback) = (feedback - rho_0) / beta, whose mean is the true feedback.

        The unbiased estimator of [1]_, eq. 4: E[h] = f, Var[h] = rho_f (1 - rho_f) / beta**2.

        Parameters
        ----------
        feedback
            The observed bit, 0 or 1.
        """
        return (feedback - self.rho_0) / self.beta

    @classmethod
    def of_options(cls, rho_0: float, rho_1: float) -> Self:
        """Take what a constructor was given; raise ParameterError where those are no rates."""
        try:
            return cls(rho_0, rho_1)
        except InputError as error:
            raise ParameterError(str(error)) from error

    @classmethod
    def from_tau(cls, *, tau_plus: float, tau_minus: float) -> Self:
        """Convert from the nearest-neighbour papers' names.

        Parameters
        ----------
        tau_plus
            P(noisy label = 0 | true label = 1), which is rho_1.
        tau_minus
            P(noisy label = 1 | true label = 0), which is rho_0.
        """
        return cls(rho_0=tau_minus, rho_1=tau_plus)

    @classmethod
    def from_p(cls, *, p_0: float, p_1: float) -> Self:
        """Convert from Reeve and Kaban's names: p_0 is rho_0, p_1 is rho_1."""
        return cls(rho_0=p_0, rho_1=p_1)

    @classmethod
    def with_least_beta(cls, rho_0: float, rho_1: float, beta_min: float) -> Self:
        """Take estimates that may add up to too much, and shrink both by one factor if so.

        An estimator under heavy noise overshoots (the authors' own table 1 has .508 + .515);
        then the sum is brought to ``1 - beta_min`` and the ratio kept.

        Parameters
        ----------
        rho_0, rho_1
            Estimates, each in [0, 1).
        beta_min
            Least `beta` of the result, in [2 MIN_BETA, 1]; it is kept but for rounding.

        Raises
        ------
        InputError
            If an argument is not as said.

        Examples
        --------
        >>> rates = NoiseRates.with_least_beta(0.6, 0.6, beta_min=0.2)
        >>> round(rates.rho_0, 12), round(rates.rho_1, 12)
        (0.4, 0.4)
        """
        _check_each(rho_0, rho_1)
        # Not MIN_BETA itself: rounding could then get the result refused.
        if not is_number(beta_min) or not 2 * MIN_BETA <= beta_min <= 1:
            what = f"a number in [{2 * MIN_BETA:g}, 1]"
            raise InputError(expected("beta_min", what, beta_min))
        total = rho_0 + rho_1
        if total > 1 - beta_min:
            shrink = (1 - beta_min) / total
            rho_0, rho_1 = rho_0 * shrink, rho_1 * shrink
        return cls(rho_0, rho_1)


def _check_each(rho_0: float, rho_1: float) -> None:
    for name, value in (("rho_0", rho_0), ("rho_1", rho_1)):
        if not is_number(value) or not 0 <= value < 1:
            raise InputError(expected(name, "a number in [0, 1)", value))


#: Estimates the rates from a block of rounds: instances (n, d), the labels shown (n,) and the
#: observed feedback (n,). None where the block does not tell.
RateEstimator: TypeAlias = Callable[
    [NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]], NoiseRates | None
]
