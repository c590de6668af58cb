"""What the linear learners share: scores summed in one order, in whatever pieces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners import Banditron, Confidit, Learner, create
from learners.bandits.linear import product_space, row_sums
from learners.validation import FloatArray


def filled(learner: Banditron | Confidit, rng: np.random.Generator) -> Learner:
    """Return `learner` with random weights."""
    learner._set_weights(rng.normal(size=(learner.n_labels, learner.n_features)))
    return learner


@pytest.mark.parametrize(("n_features", "n_labels"), [(1000, 100), (70_000, 3), (784, 10)])
@pytest.mark.parametrize("kind", [Banditron, Confidit])
def test_large_batch_equals_single(
    kind: type[Banditron | Confidit], n_features: int, n_labels: int
) -> None:
    """Where one product no longer fits into the scratch space the bits are still the same."""
    rng = np.random.default_rng(0)
    learner = filled(kind(n_features, n_labels), rng)
    xs = rng.normal(size=(5, n_features))
    for x, decision in zip(xs, learner.distributions(xs), strict=True):
        single = learner.distribution(x)
        assert decision.greedy == single.greedy
        assert decision.probabilities.tobytes() == single.probabilities.tobytes()


@given(st.integers(1, 40), st.integers(1, 300), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_row_sums_do_not_depend_on_the_pieces(
    n_rows: int, n_features: int, n_at_once: int, seed: int
) -> None:
    """Each row's sum is that of the row alone, however many rows are worked on at once."""
    rng = np.random.default_rng(seed)
    matrix, x = rng.normal(size=(n_rows, n_features)), rng.normal(size=n_features)
    sums = np.empty(n_rows)
    row_sums(matrix, x, np.empty((min(n_at_once, n_rows), n_features)), sums)
    alone = [float(np.add.reduce(np.multiply(row, x))) for row in matrix]
    assert sums.tolist() == alone
    stacked: FloatArray = np.add.reduce(matrix * np.stack([x, x])[:, np.newaxis, :], 2)
    assert stacked[1].tolist() == alone


def test_scratch_space_is_bounded() -> None:
    """A model's memory is its weights and half a megabyte, or one row if that is longer."""
    assert product_space(10_000, 784).nbytes <= 8 * 65_536
    assert product_space(10_000, 200_000).shape == (1, 200_000)


def test_ties_go_to_the_lowest_code() -> None:
    """The first of equal scores is greedy, in each form, also among allowed labels."""
    learner = Banditron(2, 4, gamma=0.2)
    x = np.ones(2)
    assert learner.distribution(x).greedy == 0
    assert learner.distributions(np.ones((2, 2)))[1].greedy == 0
    assert learner.distribution(x, [3, 2]).greedy == 2
    learner.retire_label(0)
    assert learner.distribution(x).greedy == 1
    assert learner.distributions(np.ones((2, 2)))[1].greedy == 1


@pytest.mark.parametrize("kind", ["banditron", "neighbor_bandit"])
@pytest.mark.parametrize("n_labels", [1, 5, 10, 13])
def test_the_greedy_label_is_never_less_likely_than_others(kind: str, n_labels: int) -> None:
    """Where all rounds explore, what is left for it must not be a rounding error less."""
    learner = create(kind, 1, n_labels + 1, gamma=1.0)
    learner.retire_label(n_labels)
    x = np.ones(1)
    for decision in (
        learner.distribution(x),
        learner.distribution(x, range(n_labels)),
        *learner.distributions(np.ones((1, 1))),
    ):
        probabilities = decision.probabilities
        assert probabilities[decision.greedy] == probabilities.max()
        assert abs(probabilities.sum() - 1.0) < 1e-15 * n_labels
