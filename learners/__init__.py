"""Learners that survive misclicks: pure, deterministic, one round at a time.

The contract
    `Learner`, `Distribution`, `Outcome`, `draw`, `State`.
Making one
    `create` from plain values, `LEARNERS` by kind.
Bandit learners, from the bit that says whether a shown label was right
    `Banditron`, `RCNBF`, `RCINE`.
Full information, from labels
    `Perceptron`.
Noise
    `NoiseRates`; more in `learners.noise`.
Errors
    `LearnersError` and below it `ParameterError`, `InputError`, `StateError`,
    `UnsupportedError`.
"""

from learners.bandits.banditron import Banditron
from learners.bandits.perceptron import Perceptron
from learners.bandits.rcine import RCINE
from learners.bandits.rcnbf import RCNBF
from learners.base import Distribution, Learner, Outcome, State, draw
from learners.errors import (
    InputError,
    LearnersError,
    ParameterError,
    StateError,
    UnsupportedError,
)
from learners.noise.rates import NoiseRates
from learners.registry import LEARNERS, create

__all__ = [
    "LEARNERS",
    "RCINE",
    "RCNBF",
    "Banditron",
    "Distribution",
    "InputError",
    "Learner",
    "LearnersError",
    "NoiseRates",
    "Outcome",
    "ParameterError",
    "Perceptron",
    "State",
    "StateError",
    "UnsupportedError",
    "create",
    "draw",
]
