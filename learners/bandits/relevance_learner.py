"""Shared by the learners that estimate how often each label is right, behind its noise."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from learners.bandits.bent_inputs import N_BESIDE, BentInputs
from learners.bandits.block_covariance import MAX_BLOCK, blocks_of, fitting_block
from learners.bandits.exploration import Eagerness, GapExploration
from learners.bandits.label_rates import LabelRates
from learners.bandits.linear import ENTRIES_AT_ONCE, MAX_MATRIX_ENTRIES
from learners.bandits.random_features import MAX_WAVES
from learners.bandits.rate_filter import RateFilter
from learners.base import Distribution, Learner
from learners.noise.rates import NoiseRates
from learners.validation import (
    FloatArray,
    check_count,
    check_instance,
    check_instances,
    check_number,
)


class RelevanceLearner(Learner):
    """A learner that reads how often each label is right off bent inputs, and explores by gaps.

    Its subclasses say how: from `BentInputs` z, with noise rates in `_rates`.

    Parameters
    ----------
    n_features, n_labels
        d and K.
    exploration, gain, gamma
        See `GapExploration`.
    drift
        Variance that weights gain, in [0, 1].
    block_size
        Inputs per covariance block, 0 to 1024; 0 for the most that fits.
    n_covariances
        How many covariances are to fit.
    n_waves, seed
        See `BentInputs`.

    Raises
    ------
    ParameterError
        If an option is of the wrong type or out of range.
    """

    takes_rates: ClassVar[bool] = True
    takes_label_rates: ClassVar[bool] = True
    #: What is believed of the noise: first what it decides by, last what it reports.
    _noise: Sequence[LabelRates | RateFilter]

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        *,
        exploration: str,
        gain: float,
        gamma: float,
        drift: float,
        block_size: int,
        n_covariances: int,
        n_waves: int,
        seed: int,
    ) -> None:
        super().__init__(n_features, n_labels)
        self._explorer = GapExploration(exploration, gain, gamma)
        self.exploration = self._explorer.exploration
        self.gain, self.gamma = self._explorer.gain, self._explorer.gamma
        self.drift = check_number("drift", drift, 0, 1)
        self.n_waves = check_count("n_waves", n_waves, 0, MAX_WAVES)
        self.seed = check_count("seed", seed, 0)
        self._n_plain = self.n_features + N_BESIDE
        self._width = self._n_plain + self.n_waves
        chosen = check_count("block_size", block_size, 0, MAX_BLOCK)
        fitting = fitting_block(n_covariances, self._width, MAX_MATRIX_ENTRIES)
        self.block_size = chosen or fitting
        n_blocks, block = blocks_of(self._width, self.block_size)
        padded = self._padded = n_blocks * block
        self._inputs = BentInputs(self.n_features, self.n_waves, padded=padded, seed=self.seed)

    # -- noise ----------------------------------------------------------------------------
    @property
    def rho_0(self) -> float:
        """P(feedback = 1 | wrong label) as it is believed, the mean over labels."""
        return float(self.label_rates[0].mean())

    @property
    def rho_1(self) -> float:
        """P(feedback = 0 | right label) as it is believed, the mean over labels."""
        return float(self.label_rates[1].mean())

    @property
    def label_rates(self) -> tuple[FloatArray, FloatArray]:
        """rho_0 and rho_1 of each label as they are believed, each of shape (K,). Copies."""
        return self._noise[-1].each

    def set_rates(self, rho_0: float, rho_1: float) -> None:
        """Use these noise rates, as known, for every label from now on.

        Raises
        ------
        InputError
            If they are no numbers in [0, 1) with a sum below 1.
        """
        rates = NoiseRates(rho_0, rho_1)
        for each in self._noise:
            each.set_common(rates)

    def set_label_rates(
        self,
        rho_0: FloatArray,
        rho_1: FloatArray,
        rho_0_error: FloatArray,
        rho_1_error: FloatArray,
    ) -> None:
        """Use these noise rates of each label from now on, trusted as far as their errors allow.

        Parameters
        ----------
        rho_0, rho_1
            Shape (K,), float64, in [0, 1).
        rho_0_error, rho_1_error
            Their standard errors, shape (K,), float64, at least 0; 0 takes a rate as it is.

        Raises
        ------
        InputError
            If an array is not as said.
        """
        for each in self._noise:
            each.set_each(rho_0, rho_1, rho_0_error, rho_1_error)

    # -- deciding -------------------------------------------------------------------------
    def relevance(self, x: FloatArray) -> FloatArray:
        """Return the estimate of how often each label is right for `x`, shape (K,).

        Raises
        ------
        InputError
            If `x` is no instance.
        """
        check_instance(x, self.n_features)
        return self._relevance(self._inputs(x[np.newaxis])[0])

    def distribution(self, x: FloatArray, allowed: Sequence[int] | None = None) -> Distribution:
        """Return the probabilities with which each label would be chosen for `x`; pure.

        Parameters
        ----------
        x
            The instance, float64 of shape (d,), each |x_i| at most 1e6.
        allowed
            Codes that the choice is restricted to; None for all active ones.

        Raises
        ------
        InputError
            If `x` is not such an array, or `allowed` leaves no active label.
        """
        codes = self._choosable(allowed)
        return self._explorer.choose(self.relevance(x), codes, self._eagerness(codes))

    def distributions(self, xs: FloatArray) -> list[Distribution]:
        """Return `distribution` of each row of `xs`, shape (n, d); bit for bit the same."""
        check_instances(xs, self.n_features)
        codes = self._choosable(None)
        eager = self._eagerness(codes)
        found: list[Distribution] = []
        n_rows = max(1, ENTRIES_AT_ONCE // (self.n_labels * self._padded))
        for start in range(0, len(xs), n_rows):
            relevances = self._relevances(self._inputs(xs[start : start + n_rows]))
            found += self._explorer.choose_each(relevances, codes, eager)
        return found

    @abstractmethod
    def _relevance(self, z: FloatArray) -> FloatArray:
        """Return how often each label is right at `z`."""

    @abstractmethod
    def _relevances(self, zs: FloatArray) -> FloatArray:
        """Return `_relevance` of each row of `zs`, shape (n, padded); bit for bit the same."""

    @abstractmethod
    def _eagerness(self, codes: NDArray[np.intp] | None) -> Eagerness:
        """Return how much each label that may be chosen (None: all) wants to be tried."""


def batch_sums(weights: FloatArray, zs: FloatArray) -> FloatArray:
    """Return the sum of each row of `weights` (K, D) times each of `zs` (n, D), shape (n, K)."""
    sums: FloatArray = np.add.reduce(np.multiply(weights, zs[:, np.newaxis, :]), 2)
    return sums
