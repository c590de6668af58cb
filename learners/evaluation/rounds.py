"""What an evaluation is made from: logged rounds, and the noise rates they are corrected by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, Self, TypeAlias, get_args

import numpy as np

from learners.errors import InputError, expected
from learners.noise.rates import MIN_BETA, NoiseRates
from learners.validation import (
    FloatArray,
    IntArray,
    check_codes,
    check_numbers,
    is_integer,
    is_number,
)

#: How the errors of labels' rates are related: each label has its own, all labels share one, or how
#: much of them is which is unknown.
Sharing: TypeAlias = Literal["own", "one", "unknown"]


class Rounds(NamedTuple):
    """Logged rounds, oldest first.

    Attributes
    ----------
    xs
        Instances, float64 of shape (n, d), finite.
    labels
        Codes of the labels that were shown, int64 (n,).
    propensities
        Probability with which each was drawn, float64 (n,), in (0, 1].
    feedback
        Observed bits, int64 (n,); each may be flipped.
    """

    xs: FloatArray
    labels: IntArray
    propensities: FloatArray
    feedback: IntArray


@dataclass(frozen=True, slots=True)
class AssumedRates:
    """Noise rates of each label, and how well they are known.

    Parameters
    ----------
    rho_0, rho_1
        Rates of false and of missed clicks, float64 (K,), each in [0, 1), rho_0 + rho_1 < 1.
    rho_0_error, rho_1_error
        Their standard errors, float64 (K,), at least 0; 0 for rates that are known.
    sharing
        Whether each label's error is its "own" (rates counted label by label), and averages out
        over labels; or is "one" for all (labels with the same rates); or this is "unknown" (rates
        that a learner found for all labels as it learned): then a value's variance is the sum of
        both.

    Raises
    ------
    InputError
        If an array is not as said.
    """

    rho_0: FloatArray
    rho_1: FloatArray
    rho_0_error: FloatArray
    rho_1_error: FloatArray
    sharing: Sharing = "own"

    def __post_init__(self) -> None:
        for name in ("rho_0", "rho_1", "rho_0_error", "rho_1_error"):
            values = getattr(self, name)
            check_numbers(name, values, 1)
            if values.shape != (self.n_labels,) or not np.isfinite(values).all():
                raise InputError(expected(name, f"{self.n_labels} finite numbers", values))
            if (values < 0).any():
                raise InputError(expected(name, "numbers of at least 0", values))
        if (self.beta < MIN_BETA).any():
            raise InputError(expected("beta", f"at least {MIN_BETA:g} for each label", self.beta))
        if self.sharing not in get_args(Sharing):
            raise InputError(expected("sharing", f"one of {get_args(Sharing)}", self.sharing))

    @property
    def n_labels(self) -> int:
        """How many labels have rates."""
        return len(self.rho_0)

    @property
    def beta(self) -> FloatArray:
        """1 - rho_0 - rho_1 of each label, shape (K,)."""
        return 1.0 - self.rho_0 - self.rho_1

    @classmethod
    def same(
        cls, rates: NoiseRates, n_labels: int, errors: tuple[float, float] = (0.0, 0.0)
    ) -> Self:
        """Take one pair of rates, with one pair of standard errors, for all labels.

        Raises
        ------
        InputError
            If `n_labels` is no integer of at least 1, or an error below 0.

        Examples
        --------
        >>> AssumedRates.same(NoiseRates(0.2, 0.4), 2).beta.round(12).tolist()
        [0.4, 0.4]
        """
        if not is_integer(n_labels) or n_labels < 1:
            raise InputError(expected("n_labels", "an integer of at least 1", n_labels))
        for error in errors:
            if not is_number(error) or not error >= 0:
                raise InputError(expected("errors", "numbers of at least 0", errors))
        values = np.array([rates.rho_0, rates.rho_1, *errors], dtype=np.float64)
        rho_0, rho_1, rho_0_error, rho_1_error = np.repeat(values[:, np.newaxis], n_labels, axis=1)
        return cls(rho_0, rho_1, rho_0_error, rho_1_error, "one")

    def rewards(self, labels: IntArray, feedback: IntArray) -> FloatArray:
        """Return (feedback - rho_0) / beta of each round: its mean is 1 if the label was right."""
        result: FloatArray = (feedback - self.rho_0[labels]) / self.beta[labels]
        return result


def check_rounds(rounds: Rounds, n_labels: int) -> None:
    """Raise InputError unless `rounds` is what `Rounds` says, with at least two of them."""
    xs, labels, propensities, feedback = rounds
    check_codes("labels", labels, n_labels)
    n_rounds = len(labels)
    if n_rounds < 2:
        raise InputError(expected("rounds", "at least 2", n_rounds))
    check_numbers("xs", xs, 2)
    if len(xs) != n_rounds or not np.isfinite(xs).all():
        raise InputError(expected("xs", f"finite numbers ({n_rounds}, d)", xs.shape))
    for name, values in (("propensities", propensities), ("feedback", feedback)):
        check_numbers(name, values, 1)
        if values.shape != (n_rounds,):
            raise InputError(expected(name, f"shape ({n_rounds},)", values.shape))
    if not ((propensities > 0) & (propensities <= 1)).all():
        raise InputError(expected("propensities", "numbers in (0, 1]", propensities))
    if not ((feedback == 0) | (feedback == 1)).all():
        raise InputError(expected("feedback", "bits", feedback))
