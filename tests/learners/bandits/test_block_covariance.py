"""A covariance within blocks."""

from __future__ import annotations

import numpy as np
import pytest

from learners import Outcome, create
from learners.assertions import state_digest
from learners.bandits.block_covariance import (
    blocks_of,
    fitting_block,
    let_drift,
    look,
    narrow,
    turned,
    unconnected,
)


def test_an_example_is_seen_and_narrows_as_bayes_says() -> None:
    """Each block after it is what inverting, adding and inverting again gives."""
    rng = np.random.default_rng(0)
    covariance = unconnected(rng.uniform(0.5, 2.0, (3, 4)))
    space = np.empty_like(covariance)
    for _ in range(5):
        blocks, before = rng.normal(size=(3, 4)), turned(covariance)
        moves, spreads = look(covariance, blocks, space)
        np.testing.assert_allclose(moves, [p @ z for p, z in zip(before, blocks, strict=True)])
        np.testing.assert_allclose(
            spreads, [z @ p @ z for p, z in zip(before, blocks, strict=True)]
        )
        narrow(covariance, moves, spreads, 0.3, space)
        exact = [
            np.linalg.inv(np.linalg.inv(p) + np.outer(z, z) / 0.3)
            for p, z in zip(before, blocks, strict=True)
        ]
        np.testing.assert_allclose(turned(covariance), exact, rtol=1e-9, atol=1e-12)


def test_drift_ends_at_the_first_variances() -> None:
    """What was learned is doubted again, also what it says of others; never more than at first."""
    first = np.array([[1.0, 2.0]])
    covariance = turned(np.array([[[0.5, 0.4], [0.4, 2.0]]]))
    let_drift(covariance, 0.2, first)
    np.testing.assert_allclose(turned(covariance), [[[0.55, 0.36], [0.36, 2.0]]])
    let_drift(covariance, 5.0, first)
    np.testing.assert_allclose(turned(covariance), [[[1.0, 0.0], [0.0, 2.0]]])


def test_drift_does_not_go_where_nothing_is_seen() -> None:
    """Of two inputs that are always equal the sum stays in doubt: it alone is seen.

    Such learners had become deaf: after thousands of rounds nothing moved them any more.
    """
    first, blocks = np.ones((1, 2)), np.ones((1, 2))
    covariance, space = unconnected(first), np.empty((2, 1, 2))
    for _ in range(5_000):
        moves, spreads = look(covariance, blocks, space)
        narrow(covariance, moves, spreads, 0.25, space)
        let_drift(covariance, 1e-3, first)
    # In balance a round takes from h as much as drift gives back of the 2 that it was at first.
    spread = float(look(covariance, blocks, space)[1][0])
    assert spread**2 / (0.25 + spread) == pytest.approx(1e-3 * (2 - spread), rel=0.02)


@pytest.mark.parametrize(
    ("width", "block_size", "expected"), [(10, 4, (3, 4)), (3, 8, (1, 3)), (8, 4, (2, 4))]
)
def test_blocks_hold_all_inputs(width: int, block_size: int, expected: tuple[int, int]) -> None:
    """As few as possible, and none larger than there are inputs."""
    assert blocks_of(width, block_size) == expected


def test_the_block_is_the_largest_that_fits() -> None:
    """Halved until all covariances are within the bound."""
    assert fitting_block(1, 100, 10**6) == 32
    assert fitting_block(10, 1_000, 200_000) == 16
    assert fitting_block(10**6, 1_000, 1_000) == 1


@pytest.mark.parametrize(
    ("kind", "drift"), [("forward", 5e-5), ("forward", 0.05), ("forward_softmax", 0.002)]
)
def test_states_of_learners_that_drift_are_restored(kind: str, drift: float) -> None:
    """Protects recovery: variances that drift back to the first ones may round to a bit more."""
    learner, rng = create(kind, 20, 3, drift=drift), np.random.default_rng(0)
    for x in rng.normal(size=(60, 20)):
        learner.update(Outcome(x, int(rng.integers(3)), 0, 0.5, int(rng.integers(2))))
    again = type(learner).from_state(learner.state())
    assert state_digest(again.state()) == state_digest(learner.state())


def test_the_block_fits_with_what_its_last_one_is_padded_by() -> None:
    """Of 100 inputs blocks of 32 hold up to 132; what just fits is taken."""
    assert fitting_block(1, 100, 132 * 32) == 32
    assert fitting_block(1, 100, 132 * 32 - 1) == 16
