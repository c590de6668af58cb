"""What labels have in common: rows of weights that each label uses as its features say."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from learners.bandits.block_regression import BlockRegression, Share
from learners.bandits.linear import MIN_SQUARED_NORM
from learners.base import FloatArray, State, StateValue, state_array
from learners.errors import InputError, StateError, expected
from learners.validation import MAX_FEATURE

#: Most features of a label: each one makes a round dearer by an update of a row.
MAX_LABEL_FEATURES = 32
#: What the names of the rows' arrays in a state begin with.
_PREFIX = "shared_"


class LabelFeatures:
    """The part of a label's click rate that similar labels share.

    A bilinear term, as in hybrid linear models, [1]_: with f_k the features of label k, scaled to
    length 1, and one row of weights s_j for each feature, sum_j f_kj (s_j . z) is added to
    w_k . z. A click on one label so moves all that are like it, and a label that was never shown
    is known as far as its features go. A label without features has f_k = 0 and shares nothing.

    Parameters
    ----------
    n_labels
        Number K of labels.
    rows
        The regression whose m rows are shared.

    References
    ----------
    .. [1] Li et al., *A contextual-bandit approach to personalized news article recommendation*,
       2010, section 3.2.
    """

    def __init__(self, n_labels: int, rows: BlockRegression) -> None:
        self._rows = rows
        self._each = np.zeros((n_labels, len(rows.weights)))

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

    def add(self) -> None:
        """Add a label without features."""
        self._each = np.vstack((self._each, np.zeros(self._each.shape[1])))

    def clicks(self, z: FloatArray) -> FloatArray:
        """Return what the shared rows add to each label's click rate, shape (K,)."""
        clicks: FloatArray = np.add.reduce(np.multiply(self._each, self._rows.predict(z)), 1)
        return clicks

    def shares(self, label: int, z: FloatArray) -> list[Share]:
        """Return the rows that have a part in a label's click rate."""
        features = self._each[label]
        return [
            Share(self._rows, int(row), np.multiply(z, features[row]))
            for row in np.flatnonzero(features)
        ]

    def state(self) -> State:
        """Return copies of all arrays."""
        rows = {f"{_PREFIX}{name}": value for name, value in self._rows.state().items()}
        return {"label_features": self._each.copy(), **rows}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Take what `state` returned."""
        each = state_array(state, "label_features", self._each.shape)
        if not (np.abs(each) <= 1.0).all():
            what = "numbers of size at most 1"
            raise StateError(expected("state's label_features", what, np.abs(each).max()))
        rows = {n.removeprefix(_PREFIX): v for n, v in state.items() if n.startswith(_PREFIX)}
        self._rows.restore(rows)
        self._each = each
