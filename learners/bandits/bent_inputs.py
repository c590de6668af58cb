"""What the learners that bend regress on."""

from __future__ import annotations

import numpy as np

from learners.bandits.linear import MIN_SQUARED_NORM
from learners.bandits.random_features import RandomFeatures
from learners.base import FloatArray


class BentInputs:
    """Turns an instance into z: it scaled to length 1, a constant 1, waves over it, and padding.

    An instance with |x|^2 < 1e-12 before scaling counts as 0.

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
        self._n_features = n_features
        self._n_waves = n_waves
        self._padded = padded
        self._waves = RandomFeatures(n_features, n_waves, seed=seed)

    def __call__(self, xs: FloatArray) -> FloatArray:
        """Return z of each row of `xs`, shape (n, d); the answer is (n, padded)."""
        d = self._n_features
        squares = np.add.reduce(np.multiply(xs, xs), 1)
        short = squares < MIN_SQUARED_NORM
        scales = np.where(short, 0.0, 1.0 / np.sqrt(np.where(short, 1.0, squares)))
        inputs = np.zeros((len(xs), self._padded))
        unit = inputs[:, :d]
        np.multiply(xs, scales[:, np.newaxis], out=unit)
        inputs[:, d] = 1.0
        if self._n_waves:
            inputs[:, d + 1 : d + 1 + self._n_waves] = self._waves(unit)
        return inputs
