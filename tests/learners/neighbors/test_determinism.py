"""The graph is the same on every CPU, though BLAS proposes its candidates."""

from __future__ import annotations

import pytest

from tests.learners.kernels import KERNELS, digest_on
from tests.learners.neighbors.graph_digest import digests


@pytest.mark.parametrize("kernel", KERNELS[::2], ids=lambda kernel: kernel["OPENBLAS_CORETYPE"])
def test_graph_does_not_depend_on_the_cpu(kernel: dict[str, str]) -> None:
    """Lists, exact keys and scores are equal to the last bit on other kernels."""
    assert digest_on(kernel, "tests.learners.neighbors.graph_digest") == digests()
