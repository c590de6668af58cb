"""RCINE: RCNBF whose noise rates are estimated along the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np

from learners.bandits.banditron import DEFAULT_GAMMA
from learners.bandits.rcnbf import RCNBF
from learners.base import Outcome
from learners.errors import ParameterError, StateError, UnsupportedError, expected
from learners.noise.rates import NoiseRates, RateEstimator
from learners.states import State, StateValue, state_array, state_integers
from learners.validation import check_count, check_number

#: Least beta of estimated rates: those that leave less are shrunk.
DEFAULT_BETA_MIN = 0.05

#: Most features in a block of rounds, 8 GB: beyond it a wrong option would exhaust memory.
MOST_BLOCK_FEATURES = 1_000_000_000


class RCINE(RCNBF):
    """Learns the true labels from flipped clicks, estimating how often they flip.

    Use it where the noise rates are unknown. It starts as a `Banditron` (rates 0); the rates then
    come in one of two ways. With an `estimator` it keeps each block of `block_size` rounds, asks
    the estimator at the block's end, and starts a new block ([1]_, algorithm 2). Without one, as
    in the service, it keeps nothing, and the rates arrive through `set_rates`.

    The update is that of `RCNBF`, which this is from the first estimate on. Either way rates that
    add up to more than ``1 - beta_min`` are shrunk by one factor to that sum, because estimates
    overshoot under heavy noise and the update is proportional to 1 / beta. A block with only one
    feedback value tells nothing, and is dropped without asking the estimator.

    Parameters
    ----------
    n_features
        Length d of an instance, at least 1.
    n_labels
        Number K of labels, at least 1.
    gamma
        Share of rounds that explore uniformly, in [0, 1]; 0.03 by default.
    rho_0, rho_1
        Rates to start with, each in [0, 1) with a sum below 1; 0 by default.
    beta_min
        Least 1 - rho_0 - rho_1 of estimated rates, in [0.001, 1]; 0.05 by default. With such rates,
        one round moves a weight by at most (1 / (beta_min max(P, 1e-9)) + 1) |x_i|.
    block_size
        Rounds N_s that an estimate is made from; 50,000 by default, the authors' value. Only
        used with an estimator; the block takes 8 d N_s bytes, with d N_s <= 1,000,000,000.
    estimator
        Called with the block's instances (N_s, d), labels (N_s,) and feedback (N_s,); returns
        the rates, or None to keep those in use. It is not part of the state: hand it to
        `attach_estimator` after `from_state`.

    Raises
    ------
    ParameterError
        If a parameter is of the wrong type or out of range.

    References
    ----------
    .. [1] Agarwal and Manwani, *Learning multiclass classifier under noisy bandit feedback*,
       2021, algorithm 2. (The box stores the greedy label; text and code store the one shown.)

    Examples
    --------
    >>> learner = RCINE(n_features=2, n_labels=3, beta_min=0.2)
    >>> learner.set_rates(0.6, 0.6)
    >>> round(learner.rho_0, 12), round(learner.rho_1, 12)
    (0.4, 0.4)
    """

    kind: ClassVar[str] = "rcine"

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        *,
        gamma: float = DEFAULT_GAMMA,
        rho_0: float = 0.0,
        rho_1: float = 0.0,
        beta_min: float = DEFAULT_BETA_MIN,
        block_size: int = 50_000,
        estimator: RateEstimator | None = None,
    ) -> None:
        super().__init__(n_features, n_labels, rho_0=rho_0, rho_1=rho_1, gamma=gamma)
        self.beta_min = check_number("beta_min", beta_min, 0.001, 1)
        self.block_size = check_count("block_size", block_size)
        self._estimator: RateEstimator | None = None
        self._block: _Block | None = None
        if estimator is not None:
            self.attach_estimator(estimator)

    def attach_estimator(self, estimator: RateEstimator) -> None:
        """Give an estimator to a learner restored from the state of one that had it.

        Raises
        ------
        ParameterError
            If it cannot be called, or the learner had none and its blocks would be too large.
        """
        if not callable(estimator):
            what = "a function of (xs, labels, feedback)"
            raise ParameterError(expected("estimator", what, estimator))
        if self._block is None:
            self._block = self._new_block()
        self._estimator = estimator

    def set_rates(self, rho_0: float, rho_1: float) -> None:
        """Use these noise rates, shrunk if need be, from the next update on.

        Raises
        ------
        InputError
            If a rate is no number in [0, 1).
        """
        self._use(NoiseRates.with_least_beta(rho_0, rho_1, self.beta_min))

    def update(self, outcome: Outcome) -> None:
        """Learn from one finished round; estimate the rates where it completes a block.

        Raises
        ------
        InputError
            If a part of `outcome` is not what `Outcome` says.
        UnsupportedError
            If the state came from a learner with an estimator and none was attached.
        """
        block, estimator = self._block, self._estimator
        if block is None:
            super().update(outcome)
        elif estimator is None:
            raise UnsupportedError("rcine was restored in mid-block: attach_estimator first")
        else:
            super().update(outcome)
            block.append(outcome)
            if block.full():
                self._finish(block, estimator)

    def _finish(self, block: _Block, estimator: RateEstimator) -> None:
        """Ask for the rates, and start a new block; the old one is the estimator's to keep."""
        self._block = self._new_block()
        if block.feedback.min() == block.feedback.max():
            return
        rates = estimator(block.xs, block.labels, block.feedback)
        if rates is not None:
            self.set_rates(rates.rho_0, rates.rho_1)

    def state(self) -> State:
        """Return options, weights and the unfinished block; arrays are copies."""
        state = super().state()
        if self._block is not None:
            state.update(self._block.state())
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, StateValue]) -> Self:
        """Rebuild the learner; one that had an estimator then needs `attach_estimator`."""
        self = super().from_state(state)
        if "block_labels" in state:
            try:
                self._block = self._new_block()
            except ParameterError as error:
                raise StateError(f"state: {error}") from error
            self._block.restore(state, self.n_labels)
        return self

    def _new_block(self) -> _Block:
        most = MOST_BLOCK_FEATURES // self.n_features
        return _Block(check_count("block_size", self.block_size, 1, most), self.n_features)


class _Block:
    """The rounds of a block, up to its capacity."""

    def __init__(self, capacity: int, n_features: int) -> None:
        # Not touched before it is filled: the system allocates its pages one by one.
        self.xs = np.empty((capacity, n_features))
        self.labels = np.empty(capacity, dtype=np.int64)
        self.feedback = np.empty(capacity, dtype=np.int64)
        self.size = 0

    def append(self, outcome: Outcome) -> None:
        self.xs[self.size] = outcome.x
        self.labels[self.size] = outcome.label
        self.feedback[self.size] = outcome.feedback
        self.size += 1

    def full(self) -> bool:
        return self.size == len(self.labels)

    def state(self) -> State:
        return {
            "block_xs": self.xs[: self.size].copy(),
            "block_labels": self.labels[: self.size].copy(),
            "block_feedback": self.feedback[: self.size].copy(),
        }

    def restore(self, state: Mapping[str, StateValue], n_labels: int) -> None:
        labels = state_integers(state, "block_labels", np.int64, None, n_labels)
        size = len(labels)
        if size >= len(self.labels):
            what = f"fewer than {len(self.labels)} rounds"
            raise StateError(expected("state's block_labels", what, size))
        feedback = state_integers(state, "block_feedback", np.int64, size, 2)
        self.xs[:size] = state_array(state, "block_xs", (size, self.xs.shape[1]))
        self.labels[:size] = labels
        self.feedback[:size] = feedback
        self.size = size
