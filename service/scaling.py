"""Scaling of instances; what it remembers is part of a model's folded state."""

from __future__ import annotations

import numpy as np

from learners.errors import StateError, expected
from learners.states import State, state_array, state_value
from learners.validation import MAX_FEATURE, BoolArray, FloatArray, is_integer
from service.spec import ModelSpec

#: More instances than any log has; counts up to here are exact in float64.
MOST_INSTANCES = 2**53


def make_scaling(spec: ModelSpec, numbers: BoolArray) -> Scaling:
    """Return the scaling that a spec names, of instances of which these columns are numbers."""
    if spec.scaling == "standard":
        return Standard(numbers)
    return Unit() if spec.scaling == "unit" else Scaling()


class Scaling:
    """Scales rows, and learns how from those that are folded; this one leaves them as they came."""

    def observe(self, x: FloatArray) -> None:
        """Take one folded instance into account."""

    def apply(self, x: FloatArray) -> FloatArray:
        """Return `x`, shape (d,) or (n, d), scaled."""
        return x

    def state(self) -> State:
        """Return what is remembered."""
        return {}

    def restore(self, state: State) -> None:
        """Remember what `state` says."""


class Unit(Scaling):
    """Divide each instance by its Euclidean norm; the zero instance stays."""

    def apply(self, x: FloatArray) -> FloatArray:
        """Return `x / ||x||`, row by row."""
        squared = np.add.reduce(np.multiply(x, x), axis=-1, keepdims=True)
        norm = np.sqrt(squared)
        return x / np.where(norm > 0.0, norm, 1.0)


class Standard(Scaling):
    """Subtract the running mean and divide by the running standard deviation.

    Mean and sum of squared deviations follow Welford's update, element-wise, so the state is
    the same on every CPU. An instance that is folded is part of the mean it is scaled with,
    hence no entry of it exceeds the square root of the number of instances. An instance that is
    only decided on is clipped to what a learner takes, however far out it lies. A feature that has
    not varied yet is scaled to 0. The 0 or 1 of a category's value stays: divided by its deviation,
    a value that hardly anybody has would outweigh all else that is known of who has it.

    Parameters
    ----------
    numbers
        Which columns are numbers, shape (d,).
    """

    def __init__(self, numbers: BoolArray) -> None:
        size = len(numbers)
        self._numbers = numbers
        self._count = 0
        self._mean = np.zeros(size)
        self._squares = np.zeros(size)
        self._rescale()

    def observe(self, x: FloatArray) -> None:
        """Take `x` into the running mean and deviations."""
        self._count = min(self._count + 1, MOST_INSTANCES)
        delta = np.where(self._numbers, x - self._mean, 0.0)
        self._mean += delta / self._count
        self._squares += delta * (x - self._mean)
        self._rescale()

    def apply(self, x: FloatArray) -> FloatArray:
        """Return numbers as `(x - mean) / deviation`, 0 where nothing has varied."""
        scaled: FloatArray = (x - self._mean) * self._scale
        return np.minimum(np.maximum(scaled, -MAX_FEATURE), MAX_FEATURE)

    def state(self) -> State:
        """Return count, mean and sum of squared deviations."""
        return {
            "count": self._count,
            "mean": self._mean.copy(),
            "squares": self._squares.copy(),
        }

    def restore(self, state: State) -> None:
        """Go on from a saved count, mean and sum of squared deviations.

        Raises
        ------
        StateError
            If they are missing, of another size, or impossible.
        """
        count = state_value(state, "count")
        if not is_integer(count) or not 0 <= int(count) <= MOST_INSTANCES:
            what = f"an integer in [0, {MOST_INSTANCES}]"
            raise StateError(expected("state's count", what, count))
        shape = self._mean.shape
        mean = state_array(state, "mean", shape)
        squares = state_array(state, "squares", shape)
        # Twice what instances can lead to leaves room for rounding, and keeps all results finite.
        if not (np.abs(mean) <= 2 * MAX_FEATURE).all():
            what = f"a mean of features, which are within {MAX_FEATURE:g} of 0"
            raise StateError(expected("state's mean", what, float(np.abs(mean).max())))
        most = 2 * MAX_FEATURE**2 * int(count)
        if not ((squares >= 0.0) & (squares <= most)).all():
            what = f"sums of {count} squared deviations, in [0, {most:g}]"
            got = (float(squares.min()), float(squares.max()))
            raise StateError(expected("state's squares", what, got))
        self._count, self._mean, self._squares = int(count), mean, squares
        self._rescale()

    def _rescale(self) -> None:
        deviation = np.sqrt(self._squares / max(self._count, 1))
        varied = deviation > 0.0
        scale = np.where(varied, 1.0 / np.where(varied, deviation, 1.0), 0.0)
        self._scale = np.where(self._numbers, scale, 1.0)
