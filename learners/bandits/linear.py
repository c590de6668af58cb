"""What the linear learners share: one weight row per label, scores, and exploration mixed in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from learners.base import Distribution, Learner
from learners.errors import ParameterError, StateError, expected
from learners.states import MAX_STATE, State, StateValue, state_array
from learners.validation import FloatArray, check_instance, check_instances, check_number

#: Least propensity that a weight 1 / propensity is computed from; smaller ones count as this.
#: No exploration of sensible size is near it (gamma = 0.001 over 1,000 labels is 1e-6); it is
#: there so that a propensity logged by some other policy cannot make a weight infinite.
MIN_PROPENSITY = 1e-9

#: Least sum of squares of an instance that is divided by. A shorter instance (norm 1e-6) carries no
#: information in any sensible unit, and dividing by it would move weights by more than 1e6.
MIN_SQUARED_NORM = 1e-12

#: Most entries of a full second-order matrix: 32 MB in float64, and some 10 ms an update. Beyond
#: it a diagonal or smaller blocks are what an online service can afford.
MAX_MATRIX_ENTRIES = 4_000_000

#: Most that an eigenvalue of a saved covariance may lie below 0, in shares of the first variance.
#: Rounding leaves some 1e-14 of it after 100,000 examples, while the true ones are above 1e-6; and
#: from an eigenvalue of -1e-11 it takes more than a billion examples until numbers overflow.
COVARIANCE_ROUNDING = 1e-11

#: Most that a saved variance may lie above its first, in shares of it. Drift brings variances back
#: to their first ones and rounds on the way: by 1e-16 a round, so that a billion rounds stay below.
VARIANCE_ROUNDING = 1e-6

#: Entries of a product that are worked on at once: 512 KiB, which stays in a core's L2 cache.
#: (Measured at K = 256, d = 784: 150 us a decision, against 277 us in one go.) The sums are the
#: same, since each is along one row.
ENTRIES_AT_ONCE = 65_536


class LinearLearner(Learner):
    """A learner whose greedy label is argmax_r w_r . x, lowest code on ties.

    It plays P(r) = (1 - gamma) 1[r = greedy] + gamma / m over the m labels that may be chosen.
    Scores are summed in one fixed order in the single and in the batch form, without BLAS. One
    object must not be used by two threads at once, because scratch space is kept with it.

    Parameters
    ----------
    n_features
        Length d of an instance.
    n_labels
        Number K of labels.
    gamma
        Share of rounds that explore uniformly, in [0, 1].

    Raises
    ------
    ParameterError
        If a parameter is of the wrong type or out of range.
    """

    #: Largest size of a weight in a state.
    _most_weight: ClassVar[float] = MAX_STATE

    def __init__(self, n_features: int, n_labels: int, *, gamma: float) -> None:
        super().__init__(n_features, n_labels)
        self.gamma = check_number("gamma", gamma, 0, 1)
        self._set_weights(np.zeros((self.n_labels, self.n_features)))

    @property
    def weights(self) -> FloatArray:
        """Shape (K, d), one row per label. A copy."""
        return self._weights.copy()

    # -- deciding -------------------------------------------------------------------------
    def distribution(self, x: FloatArray, allowed: Sequence[int] | None = None) -> Distribution:
        """Return the probabilities with which each label would be chosen for `x`; pure.

        Parameters
        ----------
        x
            The instance, float64 of shape (d,), each |x_i| at most 1e6.
        allowed
            Codes that the choice is restricted to; None for all active ones.

        Raises
        ------
        InputError
            If `x` is not such an array, or `allowed` leaves no active label.
        """
        check_instance(x, self.n_features)
        scores = self._scores(x)
        codes = self._choosable(allowed)
        if codes is None:
            greedy = int(scores.argmax())
            probabilities = self._uniform_part.copy()
            probabilities[greedy] = self._greedy_part
            return Distribution(probabilities, greedy)
        greedy = int(codes[scores[codes].argmax()])
        return mixed(greedy, codes, self.n_labels, self.gamma)

    def distributions(self, xs: FloatArray) -> list[Distribution]:
        """Return `distribution` of each row of `xs`, shape (n, d); bit for bit the same."""
        check_instances(xs, self.n_features)
        n_labels = self.n_labels
        codes = np.arange(n_labels) if self._active_codes is None else self._active_codes
        share = self.gamma / len(codes)
        probabilities = np.zeros((len(xs), n_labels))
        probabilities[:, codes] = share
        greedies = codes[self._batch_scores(xs)[:, codes].argmax(1)] if len(xs) else codes[:0]
        probabilities[np.arange(len(xs)), greedies] = greedy_part(share, len(codes))
        return list(map(Distribution, probabilities, greedies.tolist()))

    def _scores(self, x: FloatArray) -> FloatArray:
        """Return w_r . x for each label, shape (K,), in scratch space."""
        row_sums(self._weights, x, self._products, self._score_buffer)
        return self._score_buffer

    def _batch_scores(self, xs: FloatArray) -> FloatArray:
        """Return the scores of each row of `xs`, shape (n, K)."""
        scores = np.empty((len(xs), self.n_labels))
        n_rows = max(1, ENTRIES_AT_ONCE // self._weights.size)
        products = np.empty((min(n_rows, len(xs)), *self._weights.shape))
        for start in range(0, len(xs), n_rows):
            chunk = xs[start : start + n_rows]
            self._score_chunk(chunk, products[: len(chunk)], scores[start : start + n_rows])
        return scores

    def _score_chunk(self, xs: FloatArray, products: FloatArray, scores: FloatArray) -> None:
        """Write the scores of `xs`, shape (n, d), to `scores`; `products` is (n, K, d) scratch."""
        np.multiply(self._weights, xs[:, np.newaxis, :], out=products)
        np.add.reduce(products, 2, None, out=scores)

    # -- learning -------------------------------------------------------------------------
    def _add_to_row(self, label: int, coefficient: float, x: FloatArray) -> None:
        """Add `coefficient` * `x` to the weights of `label`."""
        row = self._weights[label]
        np.multiply(x, coefficient, out=self._move)
        np.add(row, self._move, out=row)

    # -- labels ---------------------------------------------------------------------------
    def _grow(self, count: int) -> None:
        self._set_weights(np.vstack((self._weights, np.zeros((count, self.n_features)))))

    # -- state ----------------------------------------------------------------------------
    def state(self) -> State:
        """Return the options and the weights, as named arrays and scalars; arrays are copies."""
        return {**self._options(), "weights": self.weights}

    @classmethod
    def from_state(cls, state: Mapping[str, StateValue]) -> Self:
        """Rebuild the learner: what it then does is bit for bit what the saved one would do."""
        self = cls._from_options(state)
        shape = (self.n_labels, self.n_features)
        self._set_weights(state_array(state, "weights", shape, self._most_weight))
        return self

    def _set_weights(self, weights: FloatArray) -> None:
        """Take `weights` (not copied), and make the scratch space that fits them."""
        n_labels, n_features = weights.shape
        self._weights = weights
        self._products = product_space(n_labels, n_features)
        self._score_buffer = np.empty(n_labels)
        self._move = np.empty(n_features)
        share = self.gamma / n_labels
        self._uniform_part = np.full(n_labels, share)
        self._greedy_part = greedy_part(share, n_labels)


class LabelledLinearLearner(LinearLearner):
    """A linear learner that takes full labels, by the perceptron's update."""

    takes_labels: ClassVar[bool] = True

    def learn(self, x: FloatArray, label: int) -> None:
        """Learn from one instance with its (possibly noisy) label: the perceptron's update.

        Parameters
        ----------
        x
            The instance, float64 of shape (d,), each |x_i| at most 1e6.
        label
            Its label's code; a retired one learns too.

        Raises
        ------
        InputError
            If `x` or `label` is not such a value.
        """
        check_instance(x, self.n_features)
        self._check_label(label)
        scores = self._scores(x)
        if self._active_codes is None:
            greedy = int(scores.argmax())
        else:
            # A retired label takes part where it is the answer: its row still learns.
            rivals = np.union1d(self._active_codes, [label])
            greedy = int(rivals[scores[rivals].argmax()])
        if greedy != label:
            self._add_to_row(label, 1.0, x)
            self._add_to_row(greedy, -1.0, x)


def product_space(n_rows: int, n_features: int) -> FloatArray:
    """Return the scratch space in which `row_sums` works on a matrix of `n_rows` rows."""
    return np.empty((min(n_rows, max(1, ENTRIES_AT_ONCE // n_features)), n_features))


def row_sums(matrix: FloatArray, x: FloatArray, products: FloatArray, sums: FloatArray) -> None:
    """Write the sum of each row of `matrix` (K, d) times `x` (d,) to `sums` (K,).

    `products` is scratch from `product_space`; as many rows as it has are worked on at once.
    """
    n_rows = len(products)
    if n_rows == len(matrix):
        np.multiply(matrix, x, out=products)
        np.add.reduce(products, 1, None, out=sums)
        return
    for start in range(0, len(matrix), n_rows):
        rows = matrix[start : start + n_rows]
        part = products[: len(rows)]
        np.multiply(rows, x, out=part)
        np.add.reduce(part, 1, None, out=sums[start : start + n_rows])


def sum_product(left: FloatArray, right: FloatArray) -> float:
    """Return the sum of `left` * `right`, both (d,), in the fixed order that scores have."""
    return float(np.add.reduce(np.multiply(left, right)))


def check_entries(what: str, n_entries: int, otherwise: str) -> None:
    """Raise ParameterError where `what` has too many entries to be kept; say what takes fewer."""
    if n_entries > MAX_MATRIX_ENTRIES:
        most = f"at most {MAX_MATRIX_ENTRIES:,} entries; {otherwise}"
        raise ParameterError(expected(what, most, n_entries))


def check_at_least(name: str, values: FloatArray, least: float) -> None:
    """Raise StateError if an array of a state has a number below `least`."""
    if values.min() < least:
        raise StateError(expected(f"state's {name}", f"at least {least:g}", float(values.min())))


def check_covariances(name: str, covariances: FloatArray, first: FloatArray) -> None:
    """Raise StateError unless examples can have led to these covariances from the first ones.

    They begin with variances and no correlations, and every example reduces one along some
    direction: so each stays symmetric and positive semi-definite, and no variance grows beyond its
    first, but for rounding. With any others, updates enlarge errors and overflow within some ten
    rounds. LAPACK may differ in the last bits from CPU to CPU, so the tolerance for rounding far
    exceeds what honest covariances need: no CPU refuses them.

    Parameters
    ----------
    name
        What they are called in the state.
    covariances
        Shape (n, ..., B, B), finite.
    first
        The first variances, above 0, of a shape that fits (n, ..., B).
    """
    check_variances(name, covariances, first)
    allowed = np.eye(covariances.shape[-1]) * (COVARIANCE_ROUNDING * float(np.max(first)))
    try:
        for some in covariances:
            np.linalg.cholesky(some + allowed)
    except np.linalg.LinAlgError:
        what = "covariances (no direction has a variance below 0)"
        raise StateError(f"state's {name}: expected {what}, got other matrices") from None


def check_variances(name: str, covariances: FloatArray, first: FloatArray) -> None:
    """Raise StateError unless these are symmetric, with no variance above its first.

    It is the part of `check_covariances` that holds whatever rounding has done.
    """
    if not np.array_equal(covariances, covariances.swapaxes(-1, -2)):
        raise StateError(f"state's {name}: expected symmetric matrices, got others")
    variances = np.diagonal(covariances, axis1=-2, axis2=-1)
    grown = variances[variances > first * (1.0 + VARIANCE_ROUNDING)]
    if len(grown):
        what = f"variances of at most the first ones ({float(np.max(first)):g} or less)"
        raise StateError(expected(f"state's {name}", what, float(grown[0])))


def mixed(greedy: int, codes: NDArray[np.intp], n_labels: int, gamma: float) -> Distribution:
    """Return P(r) = (1 - gamma) 1[r = greedy] + gamma / m over the m labels `codes`."""
    share = gamma / len(codes)
    probabilities = np.zeros(n_labels)
    probabilities[codes] = share
    probabilities[greedy] = greedy_part(share, len(codes))
    return Distribution(probabilities, greedy)


def greedy_part(share: float, n_choosable: int) -> float:
    """Return (1 - gamma) + gamma / m, exactly 1 for m = 1, never above 1 or below the others'."""
    # For gamma = 1 rounding can leave the rest a bit below the share of each other label.
    return max(1.0 - share * (n_choosable - 1), share)
