"""The graph is the same on every CPU, though BLAS proposes its candidates."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.learners.neighbors.graph_digest import digests

#: OpenBLAS kernels that sum in different orders; the last also switches numpy's own SIMD off.
KERNELS = [
    {"OPENBLAS_CORETYPE": "Haswell"},
    {"OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": "X86_V4 X86_V3"},
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel["OPENBLAS_CORETYPE"])
def test_graph_does_not_depend_on_the_cpu(kernel: dict[str, str]) -> None:
    """Lists, exact keys and scores are equal to the last bit on other kernels."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.learners.neighbors.graph_digest"],
        env={**os.environ, **kernel},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == digests()
