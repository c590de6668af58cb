"""A digest that a module prints, made by processes with other CPU kernels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

#: OpenBLAS kernels that sum in different orders; the last also switches numpy's own SIMD off.
KERNELS = [
    {"OPENBLAS_CORETYPE": "Haswell"},
    {"OPENBLAS_CORETYPE": "Sandybridge"},
    {"OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": "X86_V4 X86_V3"},
]


def digest_on(kernel: dict[str, str], module: str) -> Any:
    """Return what a module prints as JSON where numpy and BLAS run on these kernels."""
    done = subprocess.run(
        [sys.executable, "-m", module],
        env={**os.environ, **kernel},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)
