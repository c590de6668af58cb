"""A regression for each label, one example at a time, with a block-diagonal covariance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from learners.bandits.block_covariance import (
    blocks_of,
    let_drift,
    look,
    narrow,
    turned,
    unconnected,
)
from learners.bandits.linear import (
    check_at_least,
    check_covariances,
    check_entries,
    product_space,
    row_sums,
)
from learners.errors import StateError, expected
from learners.states import State, StateValue, state_array, state_number
from learners.validation import FloatArray

#: First variances of the weights of the instance and the constant, and of the waves. Of those tried
#: (1 to 1/100), larger ones learn noise and smaller ones learn late, and with .1 for all a shop
#: whose items' worth is linear showed 4 to 6 % less. (With .05 for waves, clean clicks teach a bit
#: faster and noisy ones slower.)
FIRST_VARIANCE, WAVE_VARIANCE = 0.25, 0.1
#: The first variance of a click around its prediction, the most that a bit can have, and how many
#: examples it counts as.
FIRST_NOISE, FIRST_COUNT = 0.25, 20.0
#: Examples over which that variance is averaged: enough to be steady, few enough to follow.
NOISE_MEMORY = 500.0
#: Least variance: a row that predicted everything right must not become deaf to what is new.
LEAST_NOISE = 0.01
#: Share of clicks among all examples from which on the first variances are right. Where clicks are
#: rarer, their rates differ proportionally less between labels and between instances. (In shops of
#: 20 items where one shown blindly is clicked in 2 %, learning with unscaled first variances showed
#: a fifth less of what is clicked; .17 or .33 was no better.) Below `LEAST_CLICKS` the scaling goes
#: no further: no silence, however long, leaves a row deaf.
USUAL_CLICKS, LEAST_CLICKS = 0.25, 0.005
#: The share begins at this, counted as `FIRST_COUNT` examples, and covers at most so many: enough
#: to know 2 % to a tenth of it, few enough to forget a time when nobody counted clicks.
FIRST_CLICKS, CLICKS_MEMORY = 0.5, 10_000.0


class View(NamedTuple):
    """What a row computes from one z: w . z, P_b z_b of each block, and h_b of each."""

    value: float
    moves: FloatArray
    spreads: FloatArray


class Share(NamedTuple):
    """A regression of one row whose prediction at `z` is part of a sum."""

    regression: BlockRegression
    z: FloatArray


def first_variances(n_plain: int, n_waves: int, share: float) -> FloatArray:
    """Return the variances that weights begin with: the usual ones times `share`.

    First those of the instance and the constant, which are plain, then those of the waves.
    """
    return share * np.repeat([FIRST_VARIANCE, WAVE_VARIANCE], [n_plain, n_waves])


class BlockRegression:
    """K regressions on D numbers; each row's covariance is kept within blocks of B of them.

    A Kalman filter of constant weights. B = D is recursive least squares, B = 1 a step size for
    each weight; in between it learns nearly as fast as the former, and costs O(D B) an update. With
    h_b = z_b' P_b z_b of block b, h their sum, and w, P and r those of the row that learns target y
    at z as its n-th example::

        e = y - w . z
        r <- max(r + (min(e^2, 1) - r) / min(n + 20, 500), .01)
        v = r / min(1, 4 max(m, .005))^2
        w_b <- w_b + P_b z_b e / (v + h)
        P_b <- P_b - (P_b z_b) (P_b z_b)' / (v + h_b),     then back to the first by `drift`

    r is the noise the row has seen: where clicks lie more, each counts less. m is the share of
    clicks among the newest examples of all rows: where clicks are rare, their rates differ little,
    and v acts as if the first variances were small too. A step never carries w . z beyond y.

    Parameters
    ----------
    n_rows
        K.
    first
        Variances that each row's weights begin with, shape (D,). Inputs are padded with zeros to
        `padded` numbers.
    block
        B.
    drift
        Variance that a row's well-known weights gain with each of its examples.
    beside
        Entries of another regression's covariances that count towards the bound.

    Raises
    ------
    ParameterError
        If K D B is more than `linear.MAX_MATRIX_ENTRIES`.
    """

    def __init__(
        self,
        n_rows: int,
        first: FloatArray,
        *,
        block: int,
        drift: float,
        beside: int = 0,
    ) -> None:
        self.n_blocks, self.block = blocks_of(len(first), block)
        self.padded = self.n_blocks * self.block
        self._drift = drift
        self._beside = beside
        # An input that is always 0 keeps its variance, whatever that is.
        padding = np.full(self.padded - len(first), WAVE_VARIANCE)
        self._first = np.append(first, padding).reshape(self.n_blocks, self.block)
        self._check_size(n_rows)
        self._space = np.empty((self.block, self.n_blocks, self.block))
        self._take(
            np.zeros((n_rows, self.padded)),
            np.concatenate([self._new_covariance()] * n_rows),
            np.full(n_rows, FIRST_NOISE),
            np.zeros(n_rows),
            FIRST_CLICKS,
        )

    def predict(self, z: FloatArray) -> FloatArray:
        """Return w . z of each row, shape (K,)."""
        values = np.empty(len(self.weights))
        row_sums(self.weights, z, self._products, values)
        return values

    def fit(self, row: int, z: FloatArray, target: float, shared: Share | None = None) -> float:
        """Let one row learn that `target` was seen at `z`; return what was predicted.

        With `shared`, the prediction was the sum of the row's and `shared`'s; both learn, and h is
        the sum over both. The noise is the row's.
        """
        parts = [(self, row, self.view(row, z))]
        if shared is not None:
            parts.append((shared.regression, 0, shared.regression.view(0, shared.z)))
        # Not sum(): of floats it is compensated on some versions of Python and not on others.
        predicted = spread = 0.0
        for _, _, view in parts:
            predicted += view.value
            spread += float(np.add.reduce(view.spreads))
        error = target - predicted
        noise = self._hear_noise(row, target, error)
        step = error / (noise + spread)
        for regression, its_row, view in parts:
            regression.move(its_row, view, step, noise)
        return predicted

    def view(self, row: int, z: FloatArray) -> View:
        """Return what a row computes from `z`."""
        blocks = z.reshape(self.n_blocks, self.block)
        moves, spreads = look(self._covariances[row], blocks, self._space)
        value = float(np.add.reduce(np.multiply(self.weights[row], z)))
        return View(value, moves, spreads)

    def move(self, row: int, view: View, step: float, noise: float) -> None:
        """Move a row's weights along what it saw, and reduce its covariance there."""
        covariance, moves = self._covariances[row], view.moves
        self.weights[row] += np.multiply(moves.reshape(self.padded), step)
        narrow(covariance, moves, view.spreads, noise, self._space)
        if self._drift:
            let_drift(covariance, self._drift, self._first)

    def grow(self, count: int, weights: FloatArray) -> None:
        """Add `count` rows that begin with `weights`, unsure of them."""
        self._check_size(len(self.weights) + count)
        self._take(
            np.vstack((self.weights, np.tile(weights, (count, 1)))),
            np.concatenate((self._covariances, *[self._new_covariance()] * count)),
            np.append(self._noises, np.full(count, FIRST_NOISE)),
            np.append(self.counts, np.zeros(count)),
            self._clicked,
        )

    def state(self) -> State:
        """Return copies of all arrays."""
        return {
            "weights": self.weights.copy(),
            "covariances": turned(self._covariances),
            "noises": self._noises.copy(),
            "counts": self.counts.copy(),
            "clicked": self._clicked,
        }

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Take what `state` returned; StateError unless examples can have led to it."""
        shape = self._noises.shape
        noises, counts = (state_array(state, name, shape) for name in ("noises", "counts"))
        check_at_least("noises", noises, LEAST_NOISE)
        check_at_least("counts", counts, 0.0)
        weights = state_array(state, "weights", self.weights.shape)
        blocks = (len(noises), self.n_blocks, self.block, self.block)
        covariances = state_array(state, "covariances", blocks)
        check_covariances("covariances", covariances, self._first)
        clicked = state_number(state, "clicked")
        if not 0.0 <= clicked <= 1.0:
            raise StateError(expected("state's clicked", "a share in [0, 1]", clicked))
        self._take(weights, turned(covariances), noises, counts, clicked)

    def _hear_noise(self, row: int, target: float, error: float) -> float:
        """Count an example of a row, and return v, the variance assumed for its clicks."""
        self.counts[row] += 1.0
        self.rounds += 1.0
        memory = min(self.counts[row] + FIRST_COUNT, NOISE_MEMORY)
        seen = self._noises[row]
        noise = max(float(seen + (min(error * error, 1.0) - seen) / memory), LEAST_NOISE)
        self._noises[row] = noise
        memory = min(self.rounds + FIRST_COUNT, CLICKS_MEMORY)
        self._clicked += (target - self._clicked) / memory
        rare = min(max(self._clicked, LEAST_CLICKS) / USUAL_CLICKS, 1.0)
        return noise / (rare * rare)

    def _take(
        self,
        weights: FloatArray,
        covariances: FloatArray,
        noises: FloatArray,
        counts: FloatArray,
        clicked: float,
    ) -> None:
        #: Shape (K, padded); examples of each row, shape (K,); and of all rows.
        self.weights, self.counts = weights, counts
        self._covariances, self._noises, self._clicked = covariances, noises, clicked
        self.rounds = float(np.add.reduce(counts))
        self._products = product_space(*weights.shape)

    def _new_covariance(self) -> FloatArray:
        return unconnected(self._first)[np.newaxis]

    def _check_size(self, n_rows: int) -> None:
        entries = n_rows * self.padded * self.block + self._beside
        check_entries(
            "n_labels x features x block_size", entries, "a smaller block_size takes fewer"
        )
