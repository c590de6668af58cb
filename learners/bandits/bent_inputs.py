"""What the learners that bend regress on."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import numpy as np

from learners.bandits.linear import MIN_SQUARED_NORM
from learners.bandits.random_features import RandomFeatures
from learners.base import FloatArray, State, StateValue, state_array
from learners.errors import StateError, expected

#: Instances of which the centre is the mean: more would hardly move it, but what weights mean.
CENTRE_ROUNDS = 10_000


class BentInputs:
    """Turns an instance into z: it centred and of length 1, a constant 1, waves over it, padding.

    With c the mean of x / |x| over the first 10,000 instances learned from::

        v = x / |x| - c,       z = (v / |v|, 1, waves(v / |v|), 0 ... 0)

    What all instances have in common (pixels that are never negative, a constant that somebody
    added) would be a second constant, with a weight as free as any: a label that is often clicked
    by mistake could pass for one that is always likely. Of length 1, no instance moves c far. One
    whose square is below 1e-12 counts as 0 where it would be divided by its length.

    Parameters
    ----------
    n_features
        Length d of an instance; z[d] is the constant.
    n_waves
        Number of `RandomFeatures`; 0 for none.
    padded
        Length of z, at least d + 1 + n_waves; what is left over is 0.
    seed
        Of the waves.
    """

    def __init__(self, n_features: int, n_waves: int, *, padded: int, seed: int) -> None:
        self.n_features = n_features
        self._n_waves = n_waves
        self._padded = padded
        self._waves = RandomFeatures(n_features, n_waves, seed=seed)
        self._centre: FloatArray = np.zeros(n_features)

    def __call__(self, xs: FloatArray) -> FloatArray:
        """Return z of each row of `xs`, shape (n, d); the answer is (n, padded)."""
        return self._bend(_units(xs) - self._centre)

    def take_in(self, x: FloatArray, rounds: float) -> FloatArray:
        """Return z of `x`, shape (padded,), which is learned from after `rounds` others."""
        rest = _units(x[np.newaxis]) - self._centre
        if rounds < CENTRE_ROUNDS:
            # As if one instance of zeros had come before all others.
            self._centre += rest[0] / (rounds + 2.0)
        z: FloatArray = self._bend(rest)[0]
        return z

    def state(self) -> State:
        """Return the centre, a copy."""
        return {"centre": self._centre.copy()}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Take what `state` returned; StateError unless it can be a mean of lengths 1."""
        centre = state_array(state, "centre", self._centre.shape)
        if not (np.abs(centre) <= 1.0).all():
            what = "a mean of instances of length 1"
            raise StateError(expected("state's centre", what, float(np.abs(centre).max())))
        self._centre = centre

    def _bend(self, rest: FloatArray) -> FloatArray:
        d = self.n_features
        inputs = np.zeros((len(rest), self._padded))
        unit = inputs[:, :d]
        np.multiply(rest, _scales(rest), out=unit)
        inputs[:, d] = 1.0
        if self._n_waves:
            inputs[:, d + 1 : d + 1 + self._n_waves] = self._waves(unit)
        return inputs


def _units(xs: FloatArray) -> FloatArray:
    """Return the rows of `xs`, each of length 1."""
    return np.multiply(xs, _scales(xs))


def _scales(xs: FloatArray) -> FloatArray:
    """Return what each row is multiplied by to be of length 1, shape (n, 1); 0 if too short."""
    # In C order whatever `xs` is: sums along a row depend on how it lies in memory.
    squares = np.add.reduce(np.multiply(xs, xs, order="C"), 1).tolist()
    scales = [0.0 if square < MIN_SQUARED_NORM else 1.0 / sqrt(square) for square in squares]
    return np.array(scales)[:, np.newaxis]
