"""Noise: its rates and its models.

rates
    `NoiseRates`, `RateEstimator`, `MIN_BETA`.
drift
    `ClickDrift`: whether clicks have changed.
corruption
    `flip_bit`, `flip_bits`, `flip_bits_by_label` for feedback and binary labels; `flip_uniform`,
    `flip_by_matrix`, `flip_by_hubness`, `flip_by_tfidf` (with `tfidf_weights`) for labels.

Not imported from here, because only an estimate needs them, and they need scipy or torch; a process
that answers requests must not import torch:

`learners.noise.nrest`
    `NREst`, which estimates rates from a block of rounds with a network; its `NoiseEstimate`,
    `Reading` and `Doubt` are in `learners.noise.estimate` and `verdict`.
`learners.noise.mixture`, `block_fit`, `held_out`, `reading`
    Its parts: rates fitted to predictions, and the paper's two rules to read them off.
"""

from learners.noise.corruption import (
    flip_bit,
    flip_bits,
    flip_bits_by_label,
    flip_by_hubness,
    flip_by_matrix,
    flip_by_tfidf,
    flip_uniform,
    tfidf_weights,
)
from learners.noise.drift import ClickDrift
from learners.noise.rates import MIN_BETA, NoiseRates, RateEstimator

__all__ = [
    "MIN_BETA",
    "ClickDrift",
    "NoiseRates",
    "RateEstimator",
    "flip_bit",
    "flip_bits",
    "flip_bits_by_label",
    "flip_by_hubness",
    "flip_by_matrix",
    "flip_by_tfidf",
    "flip_uniform",
    "tfidf_weights",
]
