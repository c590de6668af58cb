"""What labels have in common, as far as their features say."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from learners.bandits.block_regression import BlockRegression, Share
from learners.errors import InputError, StateError, expected
from learners.states import State, StateValue, state_array, state_value
from learners.validation import MAX_FEATURE, FloatArray

#: Most features of a label: each costs a round as many more products as there are inputs.
MAX_LABEL_FEATURES = 32
#: Least deviation of a feature between labels, in shares of its size.
LEAST_DEVIATION = 1e-9
#: Most deviations that a label's feature counts for: a few outliers must not make all others alike.
#: (40 items with a price: one more, priced -9999, made those shown in the next 500 rounds worth .77
#: of the best instead of .94.)
FAR = 3.0
#: Prefix of the shared arrays' names in a state.
_PREFIX = "shared_"


class LabelFeatures:
    """The part of a label's click rate that similar labels share.

    A bilinear term, as in hybrid linear models, [1]_: with f_k derived from the features of label
    k, v the first numbers of z (the instance and a constant) and S a matrix, v . S f_k is added to
    w_k . z. It is one regression on all products of a feature and an input, those of one input side
    by side, so that covariances between features are kept. A click on one label thus moves all
    labels like it, and a label never shown is known as far as its features go. A label without
    features has f_k = 0 and shares nothing.

    Features may have any unit and origin, as those of instances may. With the mean and deviation of
    each over the described labels, and m' features that differ between these::

        g = (features - mean) / (deviation sqrt(m')),      f = g sqrt(2 / (|g|^2 + 1))

    So all f_k move a little with each label described. Where no feature differs, all f_k are 0. A
    few nonsense values (-9999 for a missing price) do not count: where the deviation exceeds `FAR`
    times half the range of the middle four sixths of the labels, that half and the median are used
    instead, and nothing counts as further than `FAR` deviations.

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
        self._given = np.zeros((n_labels, n_features))
        self._described = np.zeros(n_labels, dtype=np.bool_)
        self._scaled: FloatArray | None = None
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
        shape = self._given.shape[1:]
        shaped = (
            isinstance(features, np.ndarray)
            and features.dtype == np.float64
            and features.shape == shape
        )
        # Written so that NaN, which compares as false, is refused.
        if not shaped or not (np.abs(features) <= MAX_FEATURE).all():
            what = f"a float64 array {shape} of numbers of size at most {MAX_FEATURE:g}"
            raise InputError(expected("features", what, features))
        self._given[label], self._described[label], self._scaled = features, True, None

    def add(self, count: int) -> None:
        """Add `count` labels without features."""
        self._given = np.vstack((self._given, np.zeros((count, self._given.shape[1]))))
        self._described = np.append(self._described, np.zeros(count, dtype=np.bool_))
        self._scaled = None

    def clicks(self, z: FloatArray) -> FloatArray:
        """Return what is added to each label's click rate, shape (K,)."""
        n_inputs, n_features = self._shape
        weights = self._products.weights[0, : n_inputs * n_features].reshape(self._shape)
        of_features = np.add.reduce(np.multiply(weights, z[:n_inputs, np.newaxis]), 0)
        clicks: FloatArray = np.add.reduce(np.multiply(self._each(), of_features), 1)
        return clicks

    def share(self, label: int, z: FloatArray) -> Share | None:
        """Return the shared part of a label's click rate, if it has features."""
        features = self._each()[label]
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
        return {
            "label_features": self._given.copy(),
            "label_described": self._described.copy(),
            **rows,
        }

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Take what `state` returned."""
        given = state_array(state, "label_features", self._given.shape, MAX_FEATURE)
        described = state_value(state, "label_described")
        if not isinstance(described, np.ndarray) or described.dtype != np.bool_:
            raise StateError(expected("state's label_described", "a bool array (K,)", described))
        if described.shape != self._described.shape:
            what = f"a bool array {self._described.shape}"
            raise StateError(expected("state's label_described", what, described.shape))
        rows = {n.removeprefix(_PREFIX): v for n, v in state.items() if n.startswith(_PREFIX)}
        self._products.restore(rows)
        self._given, self._described, self._scaled = given, described.astype(np.bool_), None

    def _each(self) -> FloatArray:
        """Return f_k of all labels, (K, m)."""
        if self._scaled is None:
            self._scaled = np.zeros_like(self._given)
            self._scaled[self._described] = _scaled(self._given[self._described])
        return self._scaled


def _scaled(given: FloatArray) -> FloatArray:
    """Return f_k of labels with these features, a row each."""
    n_labels = len(given)
    if not n_labels:
        return given
    off = given - np.add.reduce(given, 0) / n_labels
    deviations = np.sqrt(np.add.reduce(np.multiply(off, off), 0) / n_labels)
    # Rounding may leave some deviation where all are equal.
    least = LEAST_DEVIATION * np.abs(given).max(axis=0)
    ordered, sixth = np.sort(given, axis=0), (n_labels - 1) // 6
    usual = 0.5 * (ordered[n_labels - 1 - sixth] - ordered[sixth])
    odd = (usual > least) & (deviations > FAR * usual)
    off = np.where(odd, given - ordered[(n_labels - 1) // 2], off)
    deviations = np.where(odd, usual, deviations)
    differ = deviations > least
    rows = np.where(differ, off / np.where(differ, deviations, 1.0), 0.0).clip(-FAR, FAR)
    rows /= max(float(np.count_nonzero(differ)), 1.0) ** 0.5
    squares = np.add.reduce(np.multiply(rows, rows), 1)
    folded: FloatArray = rows * np.sqrt(2.0 / (squares + 1.0))[:, np.newaxis]
    return folded
