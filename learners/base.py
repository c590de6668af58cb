"""The contract that every learner keeps.

A learner is pure: no clock, file, socket or global random state. It answers with a
distribution over labels, and is updated with the whole outcome of a round, because feedback
arrives late, out of order and from another process than the one that decided.

Arithmetic that decides state is element-wise float64 in a fixed order. A matrix product is
not used there: BLAS sums in an order that depends on the CPU, and then two workers that fold
the same log would hold different weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from learners.errors import InputError, ParameterError, StateError, UnsupportedError, expected

FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
StateValue: TypeAlias = NDArray[np.generic] | int | float | bool | str
State: TypeAlias = dict[str, StateValue]


class Distribution(NamedTuple):
    """Probabilities over the labels, and the label that the learner holds for the best.

    Attributes
    ----------
    probabilities
        Shape (K,), float64, summing to 1; 0 for a retired or disallowed label.
    greedy
        Code of the best-scoring allowed label; the lowest code where several tie.
    """

    probabilities: FloatArray
    greedy: int


class Outcome(NamedTuple):
    """One finished round, as the log holds it.

    Attributes
    ----------
    x
        The instance, shape (d,), float64, finite.
    label
        Code of the label that was shown.
    greedy
        Code of the label that was best when the decision was made.
    propensity
        Probability with which `label` was drawn then, in (0, 1].
    feedback
        The observed bit: 1 is a click. It may be flipped.
    """

    x: FloatArray
    label: int
    greedy: int
    propensity: float
    feedback: int


def draw(distribution: Distribution, uniform: float) -> int:
    """Draw a label by inverse CDF from one uniform number.

    Parameters
    ----------
    distribution
        What `Learner.distribution` returned.
    uniform
        A number in [0, 1).

    Returns
    -------
    int
        The label's code. A label of probability 0 is never drawn.

    Examples
    --------
    >>> draw(Distribution(np.array([0.25, 0.0, 0.75]), 2), 0.25)
    2
    """
    cumulative = list(accumulate(distribution.probabilities.tolist()))
    label = bisect_right(cumulative, uniform)
    if label < len(cumulative):
        return label
    # Rounding left the last sum below `uniform`: the last label that can be drawn has it.
    return int(np.flatnonzero(distribution.probabilities)[-1])


class Learner(ABC):
    """What the service, the replay and river's adapter need of a learner.

    Subclasses state their `kind`, keep their own arrays, and implement `_scores`-like
    internals as they please; only the public methods below are the contract. Labels are codes
    0..K-1. A code is never reused: a retired label keeps its row and may be restored.

    Parameters
    ----------
    n_features
        Length d of an instance, at least 1.
    n_labels
        Number K of labels, at least 1.
    """

    #: The name in model specs, metrics and the log.
    kind: ClassVar[str]
    #: Whether `update` learns from bandit feedback.
    takes_feedback: ClassVar[bool] = True
    #: Whether `learn` learns from an instance with its full label.
    takes_labels: ClassVar[bool] = False
    #: Whether `set_rates` changes anything.
    takes_rates: ClassVar[bool] = False

    def __init__(self, n_features: int, n_labels: int) -> None:
        self.n_features = check_count("n_features", n_features)
        self._active: BoolArray = np.ones(check_count("n_labels", n_labels), dtype=np.bool_)

    @property
    def n_labels(self) -> int:
        """Number of label codes ever given out, retired ones included."""
        return int(self._active.size)

    @property
    def active(self) -> BoolArray:
        """Shape (K,): which labels may be chosen. A copy."""
        return self._active.copy()

    # -- deciding -------------------------------------------------------------------------
    @abstractmethod
    def distribution(self, x: FloatArray, allowed: Sequence[int] | None = None) -> Distribution:
        """Return the probabilities with which each label would be chosen for `x`; pure.

        `allowed` restricts the choice (and the exploration share) to those codes, less the
        retired ones; it must leave at least one.
        """

    def distributions(self, xs: FloatArray) -> list[Distribution]:
        """Return `distribution` of each row of `xs`, shape (n, d); bit for bit the same."""
        return [self.distribution(x) for x in xs]

    # -- learning -------------------------------------------------------------------------
    def update(self, outcome: Outcome) -> None:
        """Learn from one finished round."""
        raise UnsupportedError(f"{self.kind} learns from labels, not from feedback")

    def learn(self, x: FloatArray, label: int) -> None:
        """Learn from one instance with its (possibly noisy) label."""
        raise UnsupportedError(f"{self.kind} learns from feedback, not from labels")

    def set_rates(self, rho_0: float, rho_1: float) -> None:
        """Use these noise rates from the next update on."""
        raise UnsupportedError(f"{self.kind} does not use noise rates")

    # -- labels ---------------------------------------------------------------------------
    def add_label(self) -> int:
        """Add a label and return its code; it gets its exploration share at once."""
        self._active = np.append(self._active, True)
        return self.n_labels - 1

    def retire_label(self, label: int) -> None:
        """Stop choosing `label`; what was learned of it stays. The last one cannot go."""
        self._check_label(label)
        if self._active[label] and int(self._active.sum()) == 1:
            raise InputError(f"label {label} is the last active one and cannot be retired")
        self._active[label] = False

    def restore_label(self, label: int) -> None:
        """Let a retired label be chosen again, with what was learned of it before."""
        self._check_label(label)
        self._active[label] = True

    # -- state ----------------------------------------------------------------------------
    @abstractmethod
    def state(self) -> State:
        """Return everything that a later round depends on, as named arrays and scalars.

        It starts with `{"kind": ..., "n_features": ..., "active": ...}` and the options.
        Arrays are copies.
        """

    @classmethod
    @abstractmethod
    def from_state(cls, state: Mapping[str, StateValue]) -> Self:
        """Rebuild the learner: what it then does is bit for bit what the saved one would do."""

    # -- for subclasses -------------------------------------------------------------------
    def _check_label(self, label: int) -> None:
        if not 0 <= label < self.n_labels:
            raise InputError(expected("label", f"a code in [0, {self.n_labels})", label))

    def _choosable(self, allowed: Sequence[int] | None) -> NDArray[np.intp] | None:
        """Return the codes that may be chosen, ascending, or None where all may."""
        if allowed is None:
            return None if self._active.all() else np.flatnonzero(self._active)
        for label in allowed:
            self._check_label(label)
        mask = np.zeros(self.n_labels, dtype=np.bool_)
        mask[list(allowed)] = True
        mask &= self._active
        if not mask.any():
            raise InputError(expected("allowed", "at least one active label", list(allowed)))
        return np.flatnonzero(mask)


def check_count(name: str, value: object, least: int = 1) -> int:
    """Return `value` if it is a plain integer of at least `least`, else raise ParameterError."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ParameterError(expected(name, f"an integer of at least {least}", value))
    return int(value)


def check_kind(state: Mapping[str, StateValue], kind: str) -> None:
    """Raise StateError unless `state` was saved by a learner of this kind."""
    if state.get("kind") != kind:
        raise StateError(expected("state's kind", repr(kind), state.get("kind")))
