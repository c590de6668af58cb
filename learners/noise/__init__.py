"""Noise: its rates and its models.

rates
    `NoiseRates`, `RateEstimator`, `MIN_BETA`.

The estimating network is not imported here, because it needs torch: a process that answers
requests must stay without it.
"""

from learners.noise.rates import MIN_BETA, NoiseRates, RateEstimator

__all__ = ["MIN_BETA", "NoiseRates", "RateEstimator"]
