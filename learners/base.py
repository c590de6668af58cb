"""The contract that every learner keeps.

A learner is pure: no clock, file, socket or global random state. It answers with a
distribution over labels, and is updated with the whole outcome of a round, because feedback
arrives late, out of order and from a process other than the one that decided.

Arithmetic that decides state is element-wise float64 in a fixed order. A matrix product is
not used there: BLAS sums in an order that depends on the CPU, and then two workers that fold
the same log would hold different weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from inspect import Parameter, signature
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from learners.errors import InputError, ParameterError, StateError, UnsupportedError, expected
from learners.states import State, StateValue, check_kind, state_value
from learners.validation import (
    BoolArray,
    FloatArray,
    check_count,
    check_instance,
    is_integer,
    is_number,
)

#: Most labels times features, 2 GB of weights: more is a mistake, and would exhaust memory.
MAX_WEIGHTS = 250_000_000


class Distribution(NamedTuple):
    """Probabilities over the labels, and the label that the learner considers best.

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
    elsewhere
        Whether somebody else decided, who may have known more or less than the learner.
    """

    x: FloatArray
    label: int
    greedy: int
    propensity: float
    feedback: int
    elsewhere: bool = False


class Learner(ABC):
    """What the service, the replay and river's adapter need of a learner.

    Subclasses state their `kind`, keep their own arrays, and implement `_scores`-like
    internals as they please; only the public methods below are the contract. Labels are codes
    0..K-1. A code is never reused: a retired label keeps its row and may be restored.

    A wrong argument raises an `InputError`, a call that the flags below rule out an
    `UnsupportedError`, and an invalid saved state a `StateError`; the learner is then unchanged.

    Parameters
    ----------
    n_features
        Length d of an instance, at least 1.
    n_labels
        Number K of labels, at least 1; K d is at most 250,000,000.

    Raises
    ------
    ParameterError
        If a parameter is of the wrong type or out of range.
    """

    #: The name in model specs, metrics and the log.
    kind: ClassVar[str]
    #: Whether `update` learns from bandit feedback.
    takes_feedback: ClassVar[bool] = True
    #: Whether `learn` learns from an instance with its full label.
    takes_labels: ClassVar[bool] = False
    #: Whether `set_rates` changes anything.
    takes_rates: ClassVar[bool] = False
    #: Whether `set_label_rates` does; such a learner takes rates common to all labels too.
    takes_label_rates: ClassVar[bool] = False
    #: Whether it finds each label's rates itself, from the clicks it learns from.
    learns_rates: ClassVar[bool] = False
    #: How many features `describe_label` takes; 0 where labels have none.
    n_label_features: int = 0

    def __init__(self, n_features: int, n_labels: int) -> None:
        self.n_features = check_count("n_features", n_features, 1, MAX_WEIGHTS)
        most = MAX_WEIGHTS // self.n_features
        self._active = np.ones(check_count("n_labels", n_labels, 1, most), dtype=np.bool_)

    @property
    def restarts(self) -> int:
        """How often it has begun anew by itself; 0 where it never does."""
        return 0

    @property
    def silent(self) -> bool:
        """Whether it assumes that nothing counts clicks, and learns nothing until one comes."""
        return False

    @property
    def context_free(self) -> bool:
        """Whether it decides by click rates alone, because instances predict clicks worse."""
        return False

    @property
    def label_by_label(self) -> bool:
        """Whether it decides label by label, because that predicts clicks better.

        Several may be right for an instance, then, or none: no clicks tell how many are missed.
        """
        return False

    @property
    def n_labels(self) -> int:
        """Number of label codes ever given out, retired ones included."""
        return self._n_labels

    @property
    def _active(self) -> BoolArray:
        """Which labels may be chosen; read-only, so that it changes by assignment only."""
        return self._active_mask

    @_active.setter
    def _active(self, active: BoolArray) -> None:
        self._active_mask: BoolArray = active.copy()
        self._active_mask.setflags(write=False)
        self._n_labels = int(active.size)
        # What `_choosable` answers without `allowed`: asked for in every round.
        self._active_codes = None if active.all() else np.flatnonzero(active)

    @classmethod
    def option_defaults(cls) -> dict[str, StateValue]:
        """Options of the constructor that may be left out, with their defaults."""
        parameters = signature(cls).parameters
        defaults = {name: parameters[name].default for name in cls.option_names()}
        return {name: value for name, value in defaults.items() if value is not Parameter.empty}

    @classmethod
    @cache
    def option_names(cls) -> tuple[str, ...]:
        """Names of the constructor's options that are plain JSON values, as `create` takes them.

        These are its keyword-only arguments, but for those whose default is no plain value
        (an estimator, say). Each is also an attribute.
        """
        plain = (bool, int, float, str)
        return tuple(
            name
            for name, option in signature(cls).parameters.items()
            if option.kind is Parameter.KEYWORD_ONLY
            and (option.default is Parameter.empty or isinstance(option.default, plain))
        )

    @classmethod
    @cache
    def required_option_names(cls) -> tuple[str, ...]:
        """Names of those options that have no default."""
        defaults = cls.option_defaults()
        return tuple(name for name in cls.option_names() if name not in defaults)

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
    def update(self, outcome: Outcome) -> None:  # noqa: ARG002 - the contract's signature
        """Learn from one finished round."""
        raise UnsupportedError(f"{self.kind} learns from labels, not from feedback")

    def learn(self, x: FloatArray, label: int) -> None:  # noqa: ARG002 - the contract's
        """Learn from one instance with its (possibly noisy) label."""
        raise UnsupportedError(f"{self.kind} learns from feedback, not from labels")

    def set_rates(self, rho_0: float, rho_1: float) -> None:  # noqa: ARG002 - the contract's
        """Use these noise rates from the next update on."""
        raise UnsupportedError(f"{self.kind} does not use noise rates")

    def set_label_rates(
        self,
        rho_0: FloatArray,  # noqa: ARG002 - the contract's
        rho_1: FloatArray,  # noqa: ARG002
        rho_0_error: FloatArray,  # noqa: ARG002
        rho_1_error: FloatArray,  # noqa: ARG002
    ) -> None:
        """Use these noise rates of each label, shape (K,) with standard errors, from now on."""
        raise UnsupportedError(f"{self.kind} does not use each label's noise rates")

    @property
    def label_rates(self) -> tuple[FloatArray, FloatArray]:
        """rho_0 and rho_1 of each label as they are believed, each of shape (K,). Copies."""
        raise UnsupportedError(f"{self.kind} does not use each label's noise rates")

    @property
    def label_rate_errors(self) -> tuple[FloatArray, FloatArray]:
        """Standard errors of `label_rates`, where the learner finds those itself. Copies."""
        raise UnsupportedError(f"{self.kind} does not find noise rates itself")

    # -- labels ---------------------------------------------------------------------------
    def add_label(self) -> int:
        """Add a label and return its code, as `add_labels` does."""
        return self.add_labels(1)

    def add_labels(self, count: int) -> int:
        """Add labels and return the code of the first; they get their exploration share at once.

        Many at once take little longer than one: each call copies what is kept by label.

        Parameters
        ----------
        count
            How many, at least 1.

        Raises
        ------
        InputError
            If `count` is not as said.
        ParameterError
            If it would be too many labels; nothing has changed then.
        UnsupportedError
            If the learner cannot have more.
        """
        if not is_integer(count) or count < 1:
            raise InputError(expected("count", "an integer of at least 1", count))
        check_count("n_labels", self.n_labels + count, 1, MAX_WEIGHTS // self.n_features)
        first = self.n_labels
        self._grow(count)
        self._active = np.append(self._active, np.ones(count, dtype=np.bool_))
        return first

    def describe_label(
        self,
        label: int,  # noqa: ARG002 - the contract's
        features: FloatArray,  # noqa: ARG002
    ) -> None:
        """Say what a label is like, so that similar ones share what is learned."""
        raise UnsupportedError(f"{self.kind} does not use features of labels")

    def retire_label(self, label: int) -> None:
        """Stop choosing `label`; what was learned of it stays. The last one cannot go.

        For a label that is away for a while, use `allowed`: a learner may assume that what is right
        is among the labels left, and begin anew where no clicks come.
        """
        self._check_label(label)
        if self._active[label] and int(self._active.sum()) == 1:
            raise InputError(f"label {label} is the last active one and cannot be retired")
        self._active = np.where(np.arange(self.n_labels) == label, False, self._active)

    def restore_label(self, label: int) -> None:
        """Let a retired label be chosen again, with what was learned of it before."""
        self._check_label(label)
        self._active = np.where(np.arange(self.n_labels) == label, True, self._active)

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
    @abstractmethod
    def _grow(self, count: int) -> None:
        """Make room for `count` more labels, or raise and change nothing."""

    def _options(self) -> State:
        """Return the head of a state: kind, shape, labels and options."""
        options: State = {name: getattr(self, name) for name in self.option_names()}
        return {
            "kind": self.kind,
            "n_features": self.n_features,
            "active": self.active,
            **options,
        }

    @classmethod
    def _from_options(cls, state: Mapping[str, StateValue]) -> Self:
        """Build a fresh learner from the head of a state."""
        check_kind(state, cls.kind)
        active = state.get("active")
        if not isinstance(active, np.ndarray) or active.dtype != np.bool_ or active.ndim != 1:
            raise StateError(expected("state's active", "a bool array (K,)", active))
        options = {name: state_value(state, name) for name in cls.option_names()}
        build: Callable[..., Self] = cls  # the constructor checks the type of each value
        try:
            self = build(state_value(state, "n_features"), active.size, **options)
        except ParameterError as error:
            raise StateError(f"state: {error}") from error
        if not active.any():
            raise StateError(expected("state's active", "at least one active label", active))
        self._active = active.astype(np.bool_)
        return self

    def _check_label(self, label: int, name: str = "label") -> None:
        if not is_integer(label) or not 0 <= label < self.n_labels:
            raise InputError(expected(name, f"a code in [0, {self.n_labels})", label))

    def _check_outcome(self, outcome: Outcome) -> None:
        """Raise InputError unless every part of `outcome` is what it should be."""
        x, label, greedy, propensity, feedback, elsewhere = outcome
        check_instance(x, self.n_features)
        if (
            type(label) is int
            and type(greedy) is int
            and type(propensity) is float
            and type(feedback) is int
            and type(elsewhere) is bool
            and 0 <= label < self._n_labels
            and 0 <= greedy < self._n_labels
            and 0.0 < propensity <= 1.0
            and 0 <= feedback <= 1
        ):
            return
        self._check_label(label)
        self._check_label(greedy, "greedy")
        # A shorter float would make 1 / propensity as coarse as itself, or infinite.
        short = isinstance(propensity, np.floating) and not isinstance(propensity, float)
        if short or not is_number(propensity) or not 0.0 < propensity <= 1.0:
            raise InputError(expected("propensity", "a float64 number in (0, 1]", propensity))
        if not is_integer(feedback) or not 0 <= feedback <= 1:
            raise InputError(expected("feedback", "0 or 1", feedback))
        if not isinstance(elsewhere, bool | np.bool_):
            raise InputError(expected("elsewhere", "True or False", elsewhere))

    def _choosable(self, allowed: Sequence[int] | None) -> NDArray[np.intp] | None:
        """Return the codes that may be chosen, ascending, or None where all may."""
        if allowed is None:
            return self._active_codes
        if not isinstance(allowed, Iterable):
            raise InputError(expected("allowed", "codes of labels, or None", allowed))
        codes = list(allowed)  # once: an iterator would be used up
        for label in codes:
            self._check_label(label, "allowed")
        mask = np.zeros(self.n_labels, dtype=np.bool_)
        mask[codes] = True
        mask &= self._active
        if not mask.any():
            raise InputError(expected("allowed", "at least one active label", codes))
        return np.flatnonzero(mask)
