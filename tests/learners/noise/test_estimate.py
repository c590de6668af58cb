"""What an estimate says of itself."""

from __future__ import annotations

import numpy as np
import pytest

from learners.noise import NoiseRates
from learners.noise.estimate import NoiseEstimate, Reading
from learners.noise.verdict import Doubt

BOTH = np.full(2, 0.1)
READING = Reading(0.1, 0.2, 0.01, 0.01, BOTH, BOTH, BOTH, BOTH, labels_differ=False)
DOUBT = Doubt("uncertain", "a rate's standard error is 0.2, over 0.05")


@pytest.mark.parametrize(
    ("reading", "doubts", "rates", "verdict"),
    [
        (READING, (), NoiseRates(0.1, 0.2), "trusted"),
        (READING, (DOUBT,), None, DOUBT.text),
        (None, (DOUBT, DOUBT), None, f"{DOUBT.text}; {DOUBT.text}"),
    ],
)
def test_rates_only_without_doubt(
    reading: Reading | None, doubts: tuple[Doubt, ...], rates: NoiseRates | None, verdict: str
) -> None:
    """Doubtful rates can be read, but are not handed out as rates to use."""
    histogram = np.zeros((2, 50), dtype=np.int64)
    shown = np.array([5, 5])
    estimate = NoiseEstimate("mixture", 10, shown, reading, doubts, histogram, 3, 0.5)
    assert estimate.rates == rates
    assert estimate.trusted == (rates is not None)
    assert estimate.verdict == verdict
