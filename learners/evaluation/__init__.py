"""What a policy is worth, from a log of clicks that lie.

rounds
    `Rounds`, the log; `AssumedRates`, what its bits are corrected by.
values
    `ips`, `snips`, `doubly_robust`: a `Value` with its interval; `weights_of`, `effective_size`.
prediction
    `predict_rewards`, the model that `doubly_robust` leans on.
policies
    `uniform`, `always`, `fixed`, `progressive`: what to evaluate.

Which one? `doubly_robust` where all probabilities of the policy are known, else `snips`; `ips` is
there because nothing is simpler to check. All of it decides nothing and is no state, so it may
use BLAS.
"""

from learners.evaluation.policies import always, fixed, progressive, uniform
from learners.evaluation.prediction import predict_rewards
from learners.evaluation.rounds import AssumedRates, Rounds
from learners.evaluation.values import (
    Value,
    doubly_robust,
    effective_size,
    ips,
    snips,
    weights_of,
)

__all__ = [
    "AssumedRates",
    "Rounds",
    "Value",
    "always",
    "doubly_robust",
    "effective_size",
    "fixed",
    "ips",
    "predict_rewards",
    "progressive",
    "snips",
    "uniform",
    "weights_of",
]
