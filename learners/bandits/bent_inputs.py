"""What the nonlinear learners regress on."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import numpy as np

from learners.bandits.random_features import RandomFeatures
from learners.errors import StateError, expected
from learners.states import State, StateValue, state_array, state_number
from learners.validation import MAX_FEATURE, FloatArray

#: Inputs besides an instance's features and the waves: its distance, a constant.
N_BESIDE = 2
#: Instances that move centre and usual distance: more would hardly move these, but would change
#: what weights mean.
CENTRE_ROUNDS = 10_000
#: Cap on the distance of one instance, in usual distances.
FAR = 3.0
#: Squares of lengths below this count as 0. (An instance that repeats is 2 / n^2 of its length from
#: the centre after n rounds: in the end 4e-16 in the square, which is not rounding.)
LEAST_SQUARE = 1e-30
#: After n rounds of one instance that repeats, the usual distance is 4 ln n / n^2 of the centre's
#: length. From so many rounds on, one below this / n^2 of it counts as none. (In 49 data sets as
#: they come, no usual distance is less than eight times as much.)
REPEATED, REPEATED_ROUNDS = 40.0, 100


class BentInputs:
    """Turns an instance into z: itself, centred and scaled, a constant 1, waves over it, padding.

    With c the mean of the first 10,000 instances learned from, and s their mean distance from it::

        v = x - c,       h = sqrt((|v|^2 + s^2) / 2),       u = (v / h, s / h - 1)
        z = (u, 1, waves(u), 0 ... 0)

    u lies on a sphere onto which all of space is folded: its length is 1 where x is as far from c
    as usual, and never more than sqrt(3). Its last entry, which falls with the distance, lets
    planes cut balls out of space. Neither units nor origins of the features matter. (The direction
    v / |v| alone was too little: of three bands of a single feature, two were mistaken for each
    other.)

    Without centring, what all instances have in common (pixels that are never negative, a constant
    that somebody added) would act as a second constant, with a weight as free as any: a label often
    clicked by mistake could pass for one that is always likely. In the mean the n-th instance
    counts n + 1 times, so that early ones unlike the later ones are forgotten; none counts as
    farther than three times the usual distance. While one instance repeats, as in a load test, no
    distance is usual: the first other one says what is. (Else all that came later would be cut off
    at three times next to nothing, for ever.)

    Parameters
    ----------
    n_features
        Length d of an instance; z[d + 1] is the constant.
    n_waves
        Number of `RandomFeatures`; 0 for none.
    padded
        Length of z, at least d + 2 + n_waves; what is left over is 0.
    seed
        Of the waves.
    """

    def __init__(self, n_features: int, n_waves: int, *, padded: int, seed: int) -> None:
        self.n_features = n_features
        self._n_waves = n_waves
        self._padded = padded
        self._waves = RandomFeatures(n_features + 1, n_waves, seed=seed)
        self._centre: FloatArray = np.zeros(n_features)
        self._distance = 0.0

    def __call__(self, xs: FloatArray) -> FloatArray:
        """Return z of each row of `xs`, shape (n, d); the answer is (n, padded)."""
        rests = xs - self._centre
        return self._bend(rests, _squares(rests))

    def take_in(self, x: FloatArray, rounds: float) -> FloatArray:
        """Let `x`, which follows `rounds` others, move the centre; return its z, (padded,)."""
        rests = x[np.newaxis] - self._centre
        squares = _squares(rests)
        if rounds < CENTRE_ROUNDS:
            self._move(rests[0], sqrt(float(squares[0])), rounds)
        z: FloatArray = self._bend(rests, squares)[0]
        return z

    def state(self) -> State:
        """Return the centre, a copy, and the usual distance from it."""
        return {"centre": self._centre.copy(), "distance": self._distance}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Take what `state` returned; StateError unless instances can have them."""
        centre = state_array(state, "centre", self._centre.shape, MAX_FEATURE)
        distance = state_number(state, "distance")
        farthest = 2.0 * MAX_FEATURE * sqrt(self.n_features)
        if not 0.0 <= distance <= farthest:
            raise StateError(expected("state's distance", f"0 to {farthest:g}", distance))
        self._centre, self._distance = centre, distance

    def _move(self, rest: FloatArray, length: float, rounds: float) -> None:
        """Let centre and usual distance take in an instance that is `rest` from the centre."""
        usual = self._distance
        if usual * usual < LEAST_SQUARE or self._repeats(rounds):
            usual = length
        usual += (min(length, FAR * usual) - usual) * (2.0 / (rounds + 2.0))
        self._distance = usual
        # As if one instance of zeros had come before all others.
        share = 2.0 / (rounds + 3.0)
        if length > FAR * usual:
            share *= FAR * usual / length
        self._centre += np.multiply(rest, share)

    def _repeats(self, rounds: float) -> bool:
        """Return whether the usual distance is what centring leaves of one instance."""
        if rounds < REPEATED_ROUNDS:
            return False
        length = sqrt(float(np.add.reduce(np.multiply(self._centre, self._centre))))
        return self._distance * (rounds + 2.0) ** 2 < REPEATED * length

    def _bend(self, rests: FloatArray, squares: FloatArray) -> FloatArray:
        d, usual = self.n_features, self._distance
        totals = squares + usual * usual
        # What is too short to be divided by counts as 0.
        far = totals >= LEAST_SQUARE
        scales = np.sqrt(2.0 / np.where(far, totals, 1.0)) * far
        inputs = np.zeros((len(rests), self._padded))
        np.multiply(rests, scales[:, np.newaxis], out=inputs[:, :d])
        inputs[:, d] = (scales * usual - 1.0) * far
        inputs[:, d + 1] = 1.0
        if self._n_waves:
            waves = slice(d + N_BESIDE, d + N_BESIDE + self._n_waves)
            inputs[:, waves] = self._waves(inputs[:, : d + 1])
        return inputs


def _squares(xs: FloatArray) -> FloatArray:
    """Return the square of the length of each row of `xs`."""
    # In C order whatever `xs` is: sums along a row depend on how it lies in memory.
    squares: FloatArray = np.add.reduce(np.multiply(xs, xs, order="C"), 1)
    return squares
