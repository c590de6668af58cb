"""Matrix products: right, and deaf to the flags of an invalid operation."""

from __future__ import annotations

import numpy as np

from learners.blas import product


def test_products_are_those_of_numpy() -> None:
    """Matrices and vectors, single and double precision, to the last bit."""
    wide = np.random.default_rng(0).normal(size=(40, 3))
    narrow = wide.astype(np.float32)
    np.testing.assert_array_equal(product(wide, wide.T), wide @ wide.T, strict=True)
    np.testing.assert_array_equal(product(narrow, narrow[0]), narrow @ narrow[0], strict=True)


def test_flags_that_blas_leaves_behind_are_no_warning() -> None:
    """What some kernels do with numbers beside the matrix ended in a warning of no meaning."""
    beside = np.array([[np.inf, 1.0]], dtype=np.float32)
    with np.errstate(all="raise"):
        assert np.isnan(product(beside, np.zeros(2, dtype=np.float32)))
