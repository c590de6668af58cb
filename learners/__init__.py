"""Learners that survive misclicks: pure, deterministic, one round at a time.

The contract
    `Learner`, `Distribution`, `Outcome`, `draw`, `draw_each`; and the types it uses, `State`,
    `StateValue`, `FloatArray`, `BoolArray`.
Making one
    `create` from plain values, `LEARNERS` by kind.
Bandit learners, from the bit that says whether a shown label was right
    `ForwardSoftmax` (the default: one label is right, and each label's noise is estimated as well),
    `Forward` (regression, read through each label's noise rates), `ForwardAuto` (whichever of
    these two predicts clicks better), `Banditron`, `RCNBF`, `RCINE`
    (first order, importance weighted), `BPA` (passive-aggressive), `SOBA`, `Confidit` (second
    order).
Full information, from labels
    `Perceptron`; and from the labels of neighbours in a moving window `KNN`, `RkNN`, `PlugIn`,
    `AutoRkNN`, `HwKNN`, `HFNN`, `HIKNN`, `NHBNN`, `ANHBNN`, `AKNN`, `NWKNN`. Their bandit is
    `NeighborBandit`; graph, filters and hubness are in `learners.neighbors`.
Noise
    `NoiseRates`; models of noise and estimation of its rates in `learners.noise`.
Evaluation
    What a policy is worth, from a log of clicks that lie: `learners.evaluation`.
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
from learners.bandits.forward import Forward
from learners.bandits.forward_auto import ForwardAuto
from learners.bandits.forward_softmax import ForwardSoftmax
from learners.bandits.perceptron import Perceptron
from learners.bandits.rcine import RCINE
from learners.bandits.rcnbf import RCNBF
from learners.bandits.soba import SOBA
from learners.base import Distribution, Learner, Outcome
from learners.drawing import draw, draw_each
from learners.errors import (
    InputError,
    LearnersError,
    ParameterError,
    StateError,
    UnsupportedError,
)
from learners.neighbors import (
    AKNN,
    ANHBNN,
    HFNN,
    HIKNN,
    KNN,
    NHBNN,
    NWKNN,
    AutoRkNN,
    HwKNN,
    NeighborBandit,
    PlugIn,
    RkNN,
)
from learners.noise.rates import NoiseRates
from learners.registry import LEARNERS, create
from learners.states import State, StateValue
from learners.validation import BoolArray, FloatArray

__all__ = [
    "AKNN",
    "ANHBNN",
    "BPA",
    "HFNN",
    "HIKNN",
    "KNN",
    "LEARNERS",
    "NHBNN",
    "NWKNN",
    "RCINE",
    "RCNBF",
    "SOBA",
    "AutoRkNN",
    "Banditron",
    "BoolArray",
    "Confidit",
    "Distribution",
    "FloatArray",
    "Forward",
    "ForwardAuto",
    "ForwardSoftmax",
    "HwKNN",
    "InputError",
    "Learner",
    "LearnersError",
    "NeighborBandit",
    "NoiseRates",
    "Outcome",
    "ParameterError",
    "Perceptron",
    "PlugIn",
    "RkNN",
    "State",
    "StateError",
    "StateValue",
    "UnsupportedError",
    "create",
    "draw",
    "draw_each",
]
