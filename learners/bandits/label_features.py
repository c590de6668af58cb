"""What labels have in common, as far as their features say."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from learners.bandits.block_regression import BlockRegression, Share
from learners.bandits.linear import MIN_SQUARED_NORM
from learners.base import FloatArray, State, StateValue, state_array
from learners.errors import InputError, StateError, expected
from learners.validation import MAX_FEATURE

#: Most features of a label: each one makes a round dearer by as many products as inputs.
MAX_LABEL_FEATURES = 32
#: What the names of the shared arrays in a state begin with.
_PREFIX = "shared_"


class LabelFeatures:
    """The part of a label's click rate that similar labels share.

    A bilinear term, as in hybrid linear models, [1]_: with f_k the features of label k, scaled to
    length 1, v the first numbers of z, which are the instance and a constant, and S a matrix,
    v . S f_k is added to w_k . z. It is one regression on all products of a feature and an input,
    those of one input side by side, so that covariances are kept between features. A click on one
    label so moves all that are like it, and a label that was never shown is known as far as its
    features go. A label without features has f_k = 0 and shares nothing.

    Parameters
    ----------
    n_labels
        Number K of labels.
    n_features
        Number m of a label's features.
    first
        Variances that a feature's weights begin with, one for each input that takes part.
    block, drift
        See `BlockRegression`.

    Raises
    ------
    ParameterError
        If m times the inputs times the block is more than `linear.MAX_MATRIX_ENTRIES`.

    References
    ----------
    .. [1] Li et al., *A contextual-bandit approach to personalized news article recommendation*,
       2010, section 3.2.
    """

    def __init__(
        self, n_labels: int, n_features: int, first: FloatArray, *, block: int, drift: float
    ) -> None:
        self._each = np.zeros((n_labels, n_features))
        self._shape = (len(first), n_features)
        self._products = BlockRegression(1, first.repeat(n_features), block=block, drift=drift)

    @property
    def size(self) -> int:
        """How many entries the covariances have."""
        return self._products.padded * self._products.block

    def describe(self, label: int, features: FloatArray) -> None:
        """Set the features of a label.

        Raises
        ------
        InputError
            If `features` is not float64 of shape (m,), finite and each at most 1e6 in size.
        """
        shape = self._each.shape[1:]
        shaped = (
            isinstance(features, np.ndarray)
            and features.dtype == np.float64
            and features.shape == shape
        )
        # Written so that NaN, which compares as false, is refused.
        if not shaped or not (np.abs(features) <= MAX_FEATURE).all():
            what = f"a float64 array {shape} of numbers of size at most {MAX_FEATURE:g}"
            raise InputError(expected("features", what, features))
        square = float(np.add.reduce(np.multiply(features, features)))
        short = square < MIN_SQUARED_NORM
        self._each[label] = 0.0 if short else features / np.sqrt(square)

    def add(self, count: int) -> None:
        """Add so many labels without features."""
        self._each = np.vstack((self._each, np.zeros((count, self._each.shape[1]))))

    def clicks(self, z: FloatArray) -> FloatArray:
        """Return what is added to each label's click rate, shape (K,)."""
        n_inputs, n_features = self._shape
        weights = self._products.weights[0, : n_inputs * n_features].reshape(self._shape)
        of_features = np.add.reduce(np.multiply(weights, z[:n_inputs, np.newaxis]), 0)
        clicks: FloatArray = np.add.reduce(np.multiply(self._each, of_features), 1)
        return clicks

    def share(self, label: int, z: FloatArray) -> Share | None:
        """Return what has a part in a label's click rate, if it has features."""
        features = self._each[label]
        if not features.any():
            return None
        n_inputs, n_features = self._shape
        products = np.zeros(self._products.padded)
        some = products[: n_inputs * n_features].reshape(self._shape)
        np.multiply(z[:n_inputs, np.newaxis], features, out=some)
        return Share(self._products, products)

    def state(self) -> State:
        """Return copies of all arrays."""
        rows = {f"{_PREFIX}{name}": value for name, value in self._products.state().items()}
        return {"label_features": self._each.copy(), **rows}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Take what `state` returned."""
        each = state_array(state, "label_features", self._each.shape)
        if not (np.abs(each) <= 1.0).all():
            what = "numbers of size at most 1"
            raise StateError(expected("state's label_features", what, float(np.abs(each).max())))
        rows = {n.removeprefix(_PREFIX): v for n, v in state.items() if n.startswith(_PREFIX)}
        self._products.restore(rows)
        self._each = each
