"""Two workers on different CPUs that fold the same log hold the same bits."""

from __future__ import annotations

from functools import cache

import pytest

from tests.learners.cases import CASES
from tests.learners.fold_digest import digests
from tests.learners.kernels import KERNELS, digest_on


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel["OPENBLAS_CORETYPE"])
def test_state_does_not_depend_on_the_cpu(kernel: dict[str, str]) -> None:
    """The same 2,000 rounds end in the same state hash, whatever kernels numpy and BLAS run on."""
    assert digest_on(kernel, "tests.learners.fold_digest") == _here()


@cache
def _here() -> dict[str, str]:
    """Return the hashes of this process, made once."""
    found = digests()
    assert found.keys() == CASES.keys()
    return found
