"""Random features: waves over an instance that make a linear learner nonlinear."""

from __future__ import annotations

import numpy as np

from learners.validation import FloatArray

#: Inputs that a wave sums. Sixteen random ones of hundreds are nearly as good as all, and the
#: price of a wave does not grow with d.
N_INPUTS = 16
#: Standard deviation of the radians that a wave turns along an instance of length 1. (On pen
#: digits, letters and handwritten digits, 1 hardly bends, and 3 generalised less far from its
#: examples.)
FREQUENCY = 2.0
#: Most waves that a learner takes: more than a round of a service can afford.
MAX_WAVES = 65_536
#: Steps of the fraction of a 64-bit number that float64 holds exactly.
_STEPS = 2.0**-53


class RandomFeatures:
    """Triangle waves along random directions: a random Fourier basis without the cosine.

    Random features, [1]_, give a linear learner a smooth kernel. Their cosine is not the same to
    the last bit on every CPU; a triangle wave is, and its expansion is that of a cosine with a few
    small overtones. Feature j of an instance x of length 1, with s_j random inputs, weights u
    uniform with variance 1 and a phase b_j uniform in [0, 1)::

        t_j = FREQUENCY / (2 pi) sqrt(d / |s_j|) sum_{i in s_j} u_ji x_i + b_j
        z_j = sqrt(3 / 2m) (4 |t_j - round(t_j)| - 1)

    so that all m together have half the squared length of x. (As long as x, they cost more clicks
    on data that need no nonlinearity, and gained little on data that do.)

    Parameters
    ----------
    n_features
        Length d of an instance.
    count
        Number m of waves.
    seed
        Of directions and phases.

    References
    ----------
    .. [1] Rahimi and Recht, *Random features for large-scale kernel machines*, 2007.

    Examples
    --------
    >>> waves = RandomFeatures(3, 200, seed=0)
    >>> xs = np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [-1.0, 0.0, 0.0]])
    >>> z = waves(xs)
    >>> np.add.reduce(z[0] * z, 1).round(1).tolist()
    [0.5, 0.2, 0.1]
    """

    def __init__(self, n_features: int, count: int, *, seed: int) -> None:
        # Raw numbers only: numpy promises that these stay the same, but not what it draws from
        # them.
        raw = np.random.PCG64(seed).random_raw(count * (2 * N_INPUTS + 1))
        inputs, weights, phases = np.split(raw, [count * N_INPUTS, 2 * count * N_INPUTS])
        chosen = (inputs % np.uint64(n_features)).astype(np.intp).reshape(count, N_INPUTS)
        unit = FREQUENCY / (2 * np.pi) * np.sqrt(n_features / N_INPUTS)
        spread = np.sqrt(12.0) * (_uniform(weights) - 0.5) * unit
        # A wave in each column: a sum over rows adds all waves at once, and takes a quarter of
        # the time of sums of sixteen, wave by wave.
        self._inputs = np.ascontiguousarray(chosen.T)
        self._weights: FloatArray = np.ascontiguousarray(spread.reshape(count, N_INPUTS).T)
        self._phases = _uniform(phases)
        self._height = np.sqrt(1.5 / max(count, 1))

    def __call__(self, xs: FloatArray) -> FloatArray:
        """Return the features of each row of `xs`, shape (n, d); the answer is (n, m)."""
        # `take` lays its answer out row by row whatever n is, and so sums it in one order.
        products = xs.take(self._inputs, axis=1, mode="clip")
        products *= self._weights
        turns = np.add.reduce(products, 1)
        turns += self._phases
        waves: FloatArray = np.abs(turns - np.rint(turns))
        waves *= 4.0
        waves -= 1.0
        waves *= self._height
        return waves


def _uniform(raw: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> FloatArray:
    """Return numbers in [0, 1)."""
    return (raw >> np.uint64(11)).astype(np.float64) * _STEPS
