"""What a policy is worth, from a log of clicks that lie.

rounds
    `Rounds`, the log; `AssumedRates`, what its bits are corrected by.
values
    `Evaluation`, with IPS, SNIPS and DR; a `Value` with its interval; `weights_of`,
    `effective_size`.
prediction
    `predict_rewards`, the model that DR leans on.
policies
    `uniform`, `always`, `fixed`, `progressive`: what to evaluate.

None of it decides anything or becomes state, so it may use BLAS.
"""

from learners.evaluation.policies import always, fixed, progressive, uniform
from learners.evaluation.prediction import predict_rewards
from learners.evaluation.rounds import AssumedRates, Rounds
from learners.evaluation.values import Evaluation, Value, effective_size, weights_of

__all__ = [
    "AssumedRates",
    "Evaluation",
    "Rounds",
    "Value",
    "always",
    "effective_size",
    "fixed",
    "predict_rewards",
    "progressive",
    "uniform",
    "weights_of",
]
