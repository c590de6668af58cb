"""Matrix products by BLAS, without the false alarms of some of its kernels."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_Float = TypeVar("_Float", np.float32, np.float64)


def product(left: NDArray[_Float], right: NDArray[_Float]) -> NDArray[_Float]:
    """Return ``left @ right`` of finite numbers, whatever flags BLAS leaves behind.

    Kernels that work on whole registers may compute with what lies beside the numbers, and throw
    it away: the product is right, but on some CPUs, now and then, numpy sees the flag of an
    invalid operation and warns of it. The caller must know that the numbers are finite and their
    products do not overflow. The order of the sums depends on the CPU.
    """
    with np.errstate(all="ignore"):
        result: NDArray[_Float] = left @ right
    return result
