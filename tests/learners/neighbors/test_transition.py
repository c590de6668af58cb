"""Inverting a transition matrix: golden numbers and guards."""

from __future__ import annotations

import numpy as np
import pytest

from learners.neighbors.transition import corrected, inverse, usable_inverse

_T = np.array([[0.8, 0.1, 0.1], [0.05, 0.9, 0.05], [0.2, 0.2, 0.6]])


@pytest.mark.parametrize(
    ("noisy", "clean"),
    [
        ((0.4, 0.3, 0.3), (0.382716049383, 0.197530864198, 0.419753086420)),
        ((0.45, 0.2, 0.35), (0.432098765432, 0.061728395062, 0.506172839506)),
        ((0.3, 0.45, 0.25), (0.265432098765, 0.395061728395, 0.339506172840)),
    ],
)
def test_golden_shares(noisy: tuple[float, ...], clean: tuple[float, ...]) -> None:
    """Shares of true labels from shares of noisy ones, and the label that wins."""
    inverted = usable_inverse(_T)
    assert inverted is not None
    shares = corrected(np.array(noisy), inverted)
    assert shares.tolist() == pytest.approx(clean, abs=1e-12)
    assert shares.argmax() == np.argmax(clean)


def test_inverse_is_one() -> None:
    """Against random matrices, rows exchanged included; singular ones have none."""
    rng = np.random.default_rng(2)
    for size in (1, 2, 5, 12):
        matrix = rng.normal(size=(size, size))
        inverted = inverse(matrix)
        assert inverted is not None
        assert np.allclose(inverted @ matrix, np.eye(size), atol=1e-9)
    assert inverse(np.ones((2, 2))) is None


@pytest.mark.parametrize(
    "matrix",
    [
        [[0.4, 0.6], [0.1, 0.9]],
        [[0.5, 0.5], [0.5, 0.5]],
        [[0.5, 0.5], [0.1, 0.9]],
        [[0.9, 0.1], [0.5, 0.5]],
        [[0.5004, 0.4996], [0.4996, 0.5004]],
    ],
)
def test_a_matrix_that_cannot_be_trusted_has_no_inverse(matrix: list[list[float]]) -> None:
    """A label told as another as often as itself, or more, a singular, a nearly singular one."""
    assert usable_inverse(np.array(matrix)) is None
