"""ForwardSoftmax and Forward at once: the one that predicts clicks better decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import numpy as np

from learners.bandits.context_free import better_by
from learners.bandits.forward import Forward
from learners.bandits.forward_softmax import ForwardSoftmax
from learners.base import Distribution, Learner, Outcome
from learners.errors import StateError, expected
from learners.noise.rates import NOTHING_KNOWN
from learners.states import State, StateValue, part_of, state_array
from learners.validation import FloatArray

#: Log likelihood by which `Forward` must predict better before it decides, counted from where
#: `ForwardSoftmax` was furthest ahead, up to `MOST_AHEAD`; it decides until it has lost all of it.
LEAD, MOST_AHEAD = 20.0, 100.0
#: Under which names the two are in a state, and the options that they share.
_SOFTMAX, _FORWARD = "softmax.", "forward."
_SHARED = ("gain", "gamma", "drift", "n_waves", "seed")


class ForwardAuto(Learner):
    """`ForwardSoftmax` and `Forward` at once: the one that predicts clicks better decides.

    Use it where you do not know whether exactly one label is right, or where most clicks on right
    ones may be missed. It takes as much time as both together. Where you know, take one of them:
    `ForwardSoftmax`, where exactly one label is right, decides nearly always the same in two thirds
    of the time; `Forward`, for items of a catalogue, has from the start what this one finds out in
    hundreds or thousands of rounds.

    Both learn from each round, and are compared by what they predicted, [1]_. With m_1 and m_2 the
    chances that they gave the click y, bits taken as normal with the larger variance v,
    `ForwardSoftmax` decides until S reaches `LEAD`, and again from when S is 0::

        S <- max(-100, min(LEAD, S + ((y - m_1)^2 - (y - m_2)^2) / 2 v)),
        v = max(m_1 (1 - m_1), m_2 (1 - m_2), .05)

    Rounds decided by somebody else change both learners, but not S: who shows labels where he knows
    them to be right makes any of them look right more often.

    While `Forward` decides, the noise rates are not known: nothing tells an item that suits and is
    overlooked from one that does not suit.

    Better predictions need not be better decisions: in a few streams without noise, or with rates
    by label, `Forward` has come to lead although exactly one label was right.

    Parameters
    ----------
    n_features
        Length d of an instance.
    n_labels
        Number K of labels.
    rho_0, rho_1
        Rates of false and missed clicks that `ForwardSoftmax` begins with, in [0, 1) with a sum
        below 1; 0.2 each by default. `Forward` needs none.
    gain
        How sharply gaps count, in [0, 1e6]; 20 by default. More explores less.
    gamma
        Share of rounds that explore uniformly, in [0, 1]; 0 by default.
    drift
        Variance that weights gain, in [0, 1]; 0 by default: all clicks count the same.
    block_size
        Inputs per covariance block, up to 1024, as far as either has room for; 0, the default,
        takes 32, or the most that leaves `Forward` room for as many labels again.
    n_waves
        Number of random features, 0 to 65,536; 254 by default. 0 is a linear learner.
    n_label_features
        Number m of features of a label, 0 to 32; 0 by default. `Forward` alone uses them.
    seed
        Of the random features, an integer of at least 0; 0 by default.

    Raises
    ------
    ParameterError
        If a parameter is of the wrong type or out of range, or the weights or covariances too large
        (also in `add_labels`).

    References
    ----------
    .. [1] Dawid, *Present position and potential developments: some personal views. Statistical
       theory: the prequential approach*, 1984.

    Examples
    --------
    Every label is clicked in nine of ten rounds that show it, so more than one is right:

    >>> learner = ForwardAuto(n_features=1, n_labels=4, n_waves=0)
    >>> rng = np.random.default_rng(0)
    >>> for label in rng.integers(4, size=600).tolist():
    ...     x, clicked = rng.normal(size=1), int(rng.random() < 0.9)
    ...     learner.update(Outcome(x, label, 0, 0.25, feedback=clicked))
    >>> learner.label_by_label
    True
    """

    kind: ClassVar[str] = "forward_auto"
    takes_rates: ClassVar[bool] = True
    takes_label_rates: ClassVar[bool] = True
    learns_rates: ClassVar[bool] = True

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        *,
        rho_0: float = 0.2,
        rho_1: float = 0.2,
        gain: float = 20.0,
        gamma: float = 0.0,
        drift: float = 0.0,
        block_size: int = 0,
        n_waves: int = 254,
        n_label_features: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__(n_features, n_labels)
        self._softmax = ForwardSoftmax(
            n_features,
            n_labels,
            rho_0=rho_0,
            rho_1=rho_1,
            gain=gain,
            gamma=gamma,
            drift=drift,
            block_size=block_size,
            n_waves=n_waves,
            seed=seed,
        )
        self._forward = Forward(
            n_features,
            n_labels,
            gain=gain,
            gamma=gamma,
            drift=drift,
            block_size=block_size,
            n_waves=n_waves,
            n_label_features=n_label_features,
            seed=seed,
        )
        own = self._forward
        self.gain, self.gamma, self.drift = own.gain, own.gamma, own.drift
        self.block_size, self.n_waves = own.block_size, own.n_waves
        self.n_label_features, self.seed = own.n_label_features, own.seed
        self._sum, self._several = 0.0, False

    # -- what it found --------------------------------------------------------------------
    @property
    def label_by_label(self) -> bool:
        """Whether `Forward` decides: it predicts clicks better."""
        return self._several

    @property
    def restarts(self) -> int:
        """How often `ForwardSoftmax` has begun anew."""
        return self._softmax.restarts

    @property
    def silent(self) -> bool:
        """Whether not even false clicks come: it learns nothing until one does."""
        return self._softmax.silent

    @property
    def context_free(self) -> bool:
        """Whether it decides by click rates alone, because instances predict clicks worse."""
        return self._softmax.context_free and not self._several

    @property
    def rho_0(self) -> float:
        """P(feedback = 1 | wrong label) as `ForwardSoftmax` reports it, the mean over labels."""
        return self._softmax.rho_0

    @property
    def rho_1(self) -> float:
        """P(feedback = 0 | right label) as `ForwardSoftmax` reports it, the mean over labels."""
        return self._softmax.rho_1

    @property
    def label_rates(self) -> tuple[FloatArray, FloatArray]:
        """rho_0 and rho_1 of each label as `ForwardSoftmax` reports them, each (K,). Copies."""
        return self._softmax.label_rates

    @property
    def label_rate_errors(self) -> tuple[FloatArray, FloatArray]:
        """Standard errors of `label_rates`, each of shape (K,). Copies.

        While `Forward` decides, they say that nothing is known.
        """
        if self._several:
            unknown = np.full(self.n_labels, NOTHING_KNOWN)
            return unknown, unknown.copy()
        return self._softmax.label_rate_errors

    def set_rates(self, rho_0: float, rho_1: float) -> None:
        """Use these noise rates, as known, for every label from now on.

        Raises
        ------
        InputError
            If they are no numbers in [0, 1) with a sum below 1.
        """
        self._softmax.set_rates(rho_0, rho_1)
        self._forward.set_rates(rho_0, rho_1)

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
        for each in (self._softmax, self._forward):
            each.set_label_rates(rho_0, rho_1, rho_0_error, rho_1_error)

    # -- deciding -------------------------------------------------------------------------
    @property
    def _decider(self) -> ForwardSoftmax | Forward:
        return self._forward if self._several else self._softmax

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
        return self._decider.distribution(x, allowed)

    def distributions(self, xs: FloatArray) -> list[Distribution]:
        """Return `distribution` of each row of `xs`, shape (n, d); bit for bit the same."""
        return self._decider.distributions(xs)

    # -- learning -------------------------------------------------------------------------
    def update(self, outcome: Outcome) -> None:
        """Learn from one finished round.

        Raises
        ------
        InputError
            If a part of `outcome` is not what `Outcome` says.
        """
        one = self._softmax.take_in(outcome)
        if one is None:
            # Nothing counts clicks: that there was none says nothing about the label.
            return
        several = min(max(self._forward.take_in(outcome), 0.0), 1.0)
        if not outcome.elsewhere:
            self._count(one, several, outcome.feedback)

    def _count(self, one: float, several: float, feedback: int) -> None:
        """Take in what chances the two gave a click."""
        self._sum = max(min(self._sum + better_by(feedback, one, several), LEAD), -MOST_AHEAD)
        self._several = self._sum >= LEAD or (self._several and self._sum > 0.0)

    # -- labels ---------------------------------------------------------------------------
    def _grow(self, count: int) -> None:
        # The one with the lower limit first: where it refuses, nothing has changed.
        self._forward.add_labels(count)
        self._softmax.add_labels(count)

    def describe_label(self, label: int, features: FloatArray) -> None:
        """Say what a label is like: see `Forward.describe_label`."""
        self._forward.describe_label(label, features)

    def retire_label(self, label: int) -> None:
        """Stop choosing `label`; what was learned of it stays. The last one cannot go."""
        super().retire_label(label)
        self._softmax.retire_label(label)
        self._forward.retire_label(label)

    def restore_label(self, label: int) -> None:
        """Let a retired label be chosen again, with what was learned of it before."""
        super().restore_label(label)
        self._softmax.restore_label(label)
        self._forward.restore_label(label)

    # -- state ----------------------------------------------------------------------------
    def state(self) -> State:
        """Return options and both learners, as named arrays and scalars; copies."""
        softmax = self._softmax.state()
        return {
            **self._options(),
            # The rates that it began with.
            "rho_0": softmax["rho_0"],
            "rho_1": softmax["rho_1"],
            **{f"{_SOFTMAX}{name}": value for name, value in softmax.items()},
            **{f"{_FORWARD}{name}": value for name, value in self._forward.state().items()},
            "label_by_label": np.array([float(self._several), self._sum]),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, StateValue]) -> Self:
        """Rebuild the learner: what it then does is bit for bit what the saved one would do."""
        self = cls._from_options(state)
        self._softmax = ForwardSoftmax.from_state(part_of(state, _SOFTMAX))
        self._forward = Forward.from_state(part_of(state, _FORWARD))
        for part, learner in ((_SOFTMAX, self._softmax), (_FORWARD, self._forward)):
            for name in ("n_features", *_SHARED):
                own, got = getattr(self, name), getattr(learner, name)
                if got != own:
                    raise StateError(expected(f"state's {part}{name}", f"{own}, the state's", got))
            if not np.array_equal(learner.active, self.active):
                what = f"{self.active}, the state's"
                raise StateError(expected(f"state's {part}active", what, learner.active))
        several, total = state_array(state, "label_by_label", (2,)).tolist()
        if several not in (0.0, 1.0) or not -MOST_AHEAD <= total <= LEAD:
            what = f"0 or 1, and a sum in [-{MOST_AHEAD:g}, {LEAD:g}]"
            raise StateError(expected("state's label_by_label", what, [several, total]))
        self._several, self._sum = bool(several), total
        return self
