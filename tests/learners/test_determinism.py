"""Two workers on different CPUs that fold the same log hold the same bits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache

import pytest

from tests.learners.cases import CASES
from tests.learners.fold_digest import digests

#: OpenBLAS kernels that sum in different orders; the last also switches numpy's own SIMD off.
KERNELS = [
    {"OPENBLAS_CORETYPE": "Haswell"},
    {"OPENBLAS_CORETYPE": "Sandybridge"},
    {"OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": "X86_V4 X86_V3"},
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel["OPENBLAS_CORETYPE"])
def test_state_does_not_depend_on_the_cpu(kernel: dict[str, str]) -> None:
    """The same 2,000 rounds end in the same state hash, whatever kernels numpy and BLAS run on."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.learners.fold_digest"],
        env={**os.environ, **kernel},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == _here()


@cache
def _here() -> dict[str, str]:
    """Return the hashes of this process, made once."""
    found = digests()
    assert found.keys() == CASES.keys()
    return found
