"""The noise rates of each label, and how often a label is right behind how often it is clicked."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from learners.errors import InputError, StateError, expected
from learners.noise.rates import NOTHING_KNOWN, NoiseRates
from learners.states import State, StateValue, state_array
from learners.validation import FloatArray

#: Least 1 - rho_0 - rho_1 that is divided by: a label whose clicks tell less than a twentieth
#: would have its errors magnified more than twentyfold.
LEAST_BETA = 0.05
#: Standard errors above this all count alike, since a rate lies in [0, 1).
_LARGEST_ERROR = 1e100
#: The largest rate: rounding may turn one this large into 1.
_LARGEST_RATE = float(np.nextafter(1.0, 0.0))


class LabelRates:
    """rho_0 and rho_1 of each of K labels, the same for all until each label's are set.

    Parameters
    ----------
    n_labels
        K.
    common
        The rates that all labels begin with.
    """

    def __init__(self, n_labels: int, common: NoiseRates) -> None:
        self._take(np.full(n_labels, common.rho_0), np.full(n_labels, common.rho_1))

    @property
    def each(self) -> tuple[FloatArray, FloatArray]:
        """rho_0 and rho_1 of each label, each of shape (K,). Copies."""
        return self._rho_0.copy(), self._rho_1.copy()

    def set_common(self, rates: NoiseRates) -> None:
        """Take the same rates for all labels."""
        n_labels = len(self._rho_0)
        self._take(np.full(n_labels, rates.rho_0), np.full(n_labels, rates.rho_1))

    def set_each(
        self,
        rho_0: FloatArray,
        rho_1: FloatArray,
        rho_0_error: FloatArray,
        rho_1_error: FloatArray,
    ) -> None:
        """Take each label's rates, shrunk as far as their standard errors explain.

        Raises
        ------
        InputError
            If an array is not float64 of shape (K,), a rate not in [0, 1), or an error below 0.
        """
        check_estimates(len(self._rho_0), rho_0, rho_1, rho_0_error, rho_1_error)
        self._take(_shrunk(rho_0, rho_0_error), _shrunk(rho_1, rho_1_error))

    def add(self, count: int) -> None:
        """Add `count` labels, which begin with the mean of the others' rates."""
        rho_0, rho_1 = (np.full(count, rates.mean()) for rates in self.each)
        self._take(np.append(self._rho_0, rho_0), np.append(self._rho_1, rho_1))

    def relevance(self, clicks: FloatArray) -> FloatArray:
        """Return how often each label is right, from how often it is clicked, (K,) or (n, K)."""
        relevance: FloatArray = (clicks - self._rho_0) / self._beta
        return relevance

    def state(self) -> State:
        """Return copies of both arrays."""
        return {"label_rho_0": self._rho_0.copy(), "label_rho_1": self._rho_1.copy()}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Take what `state` returned."""
        names, shape = ("label_rho_0", "label_rho_1"), self._rho_0.shape
        rho_0, rho_1 = (state_array(state, name, shape) for name in names)
        try:
            check_label_rates("label_rho_0", rho_0, len(self._rho_0), 1.0)
            check_label_rates("label_rho_1", rho_1, len(self._rho_0), 1.0)
        except InputError as error:
            raise StateError(f"state: {error}") from error
        self._take(rho_0, rho_1)

    def _take(self, rho_0: FloatArray, rho_1: FloatArray) -> None:
        self._rho_0, self._rho_1 = rho_0, rho_1
        self._beta = np.maximum(1.0 - rho_0 - rho_1, LEAST_BETA)
        #: The mean over labels of 1 - rho_0 - rho_1, as used for dividing.
        self.mean_beta = float(self._beta.mean())


def check_estimates(
    n_labels: int,
    rho_0: FloatArray,
    rho_1: FloatArray,
    rho_0_error: FloatArray,
    rho_1_error: FloatArray,
) -> None:
    """Raise InputError unless these are rates of each label with their standard errors."""
    for name, rates in (("rho_0", rho_0), ("rho_1", rho_1)):
        check_label_rates(name, rates, n_labels, 1.0)
    for name, errors in (("rho_0_error", rho_0_error), ("rho_1_error", rho_1_error)):
        check_label_rates(name, errors, n_labels, np.inf)


def check_label_rates(name: str, rates: FloatArray, n_labels: int, below: float) -> None:
    """Raise InputError unless `rates` is float64 of shape (n_labels,), in [0, `below`)."""
    shape = (n_labels,)
    shaped = isinstance(rates, np.ndarray) and rates.dtype == np.float64 and rates.shape == shape
    # Written so that NaN, which compares as false, is refused.
    if not shaped or not ((rates >= 0) & (rates < below)).all():
        what = f"a float64 array ({n_labels},) of numbers in [0, {below:g})"
        raise InputError(expected(name, what, rates))


def _shrunk(rates: FloatArray, errors: FloatArray) -> FloatArray:
    """Return each rate moved towards their mean as far as its standard error can explain.

    A moment estimate of how much the true rates vary, then Bayes' rule for each. Labels of which
    nothing is known (never shown) say nothing about the others.
    """
    known = errors < NOTHING_KNOWN
    if not known.any():
        known[:] = True
    # Beyond this one knows nothing in any case, and squares would overflow.
    squares = np.square(np.minimum(errors, _LARGEST_ERROR))
    some, n_some = rates[known], int(np.count_nonzero(known))
    mean = np.add.reduce(some) / n_some
    varied = np.add.reduce((some - mean) ** 2) / max(n_some - 1, 1)
    real = max(float(varied - np.add.reduce(squares[known]) / n_some), 0.0)
    kept = np.where(squares > 0, real / np.maximum(real + squares, 1e-300), 1.0)
    shrunk: FloatArray = mean + (rates - mean) * kept
    return np.minimum(shrunk, _LARGEST_RATE)
