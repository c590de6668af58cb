"""Streams of inserts and evictions for Hypothesis."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

#: An insert of rows (m, d) and labels (m,), or the number of examples to evict.
Step: TypeAlias = "tuple[NDArray[np.float32], NDArray[np.int64]] | int"

#: Few values, so that equal rows and tied distances are the rule; a large offset, which costs
#: single precision nearly all its digits; and values between.
_OFFSETS = (0.0, 0.0, 1000.0, 99_999.0)


@st.composite
def streams(draw: st.DrawFn, n_features: int, n_labels: int) -> list[Step]:
    """Draw a sequence of inserts (of 1 to 5 examples) and evictions (of 1 to 4)."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    offset = draw(st.sampled_from(_OFFSETS))
    fine = draw(st.booleans())
    steps: list[Step] = []
    for kind in draw(st.lists(st.integers(-4, 5).filter(bool), max_size=16)):
        if kind < 0:
            steps.append(-kind)
            continue
        rows = rng.integers(0, 3, size=(kind, n_features)).astype(np.float64)
        if fine:
            rows += rng.normal(scale=0.01, size=rows.shape)
        labels = rng.integers(0, n_labels, size=kind)
        steps.append(((rows + offset).astype(np.float32), labels))
    return steps
