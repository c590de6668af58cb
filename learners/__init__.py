"""Learners that survive misclicks: pure, deterministic, one round at a time.

The contract
    `Learner`, `Distribution`, `Outcome`, `draw`, `State`.
Making one
    `create` from plain values, `LEARNERS` by kind.
Bandit learners, from the bit that says whether a shown label was right
    `Banditron`, `RCNBF`, `RCINE` (first order, importance weighted), `BPA` (passive-aggressive),
    `SOBA`, `Confidit` (second order).
Full information, from labels
    `Perceptron`.
Noise
    `NoiseRates`; models of noise and estimation of its rates in `learners.noise`.
Not imported from here
    `learners.checks`, what every learner must pass; `learners.river_adapter`, a river classifier
    around any learner (river would take 100 MB of a serving process).
Errors
    `LearnersError` and below it `ParameterError`, `InputError`, `StateError`,
    `UnsupportedError`.
"""

from learners.bandits.banditron import Banditron
from learners.bandits.bpa import BPA
from learners.bandits.confidit import Confidit
from learners.bandits.perceptron import Perceptron
from learners.bandits.rcine import RCINE
from learners.bandits.rcnbf import RCNBF
from learners.bandits.soba import SOBA
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
    "BPA",
    "LEARNERS",
    "RCINE",
    "RCNBF",
    "SOBA",
    "Banditron",
    "Confidit",
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
