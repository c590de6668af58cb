"""Every learner in every variant, for the tests that run over all of them."""

from __future__ import annotations

from functools import partial

import numpy as np

from learners import Learner, create
from learners.checks import LearnerFactory


def described(n_features: int, n_labels: int) -> Learner:
    """Return a learner whose labels have features, but for the first one."""
    options = {"n_label_features": 2, "block_size": 4, "n_waves": 9, "gamma": 0.1, "drift": 1e-3}
    learner = create("forward", n_features, n_labels, **options)
    for label in range(1, n_labels):
        learner.describe_label(label, np.array([float(label), 2.0]))
    return learner


#: Options that show what a learner does: exploration is seen, no option is at its neutral value.
CASES: dict[str, LearnerFactory] = {
    "perceptron": partial(create, "perceptron"),
    "banditron": partial(create, "banditron", gamma=0.2),
    "rcnbf": partial(create, "rcnbf", gamma=0.2, rho_0=0.1, rho_1=0.2),
    "rcine": partial(create, "rcine", gamma=0.2),
    "bpa-hard": partial(create, "bpa", gamma=0.2),
    "bpa-I": partial(create, "bpa", gamma=0.2, variant="I", aggressiveness=0.3),
    "bpa-II": partial(create, "bpa", gamma=0.2, variant="II", aggressiveness=0.5),
    "soba-diagonal": partial(create, "soba", gamma=0.2, a=2.0),
    "soba-full": partial(create, "soba", gamma=0.2, a=2.0, matrix="full"),
    "confidit-diagonal": partial(create, "confidit", alpha=0.5, eta=2.0),
    "confidit-full": partial(create, "confidit", alpha=0.5, eta=2.0, matrix="full"),
    "forward-gaps": partial(
        create,
        "forward",
        rho_0=0.1,
        rho_1=0.2,
        gain=5.0,
        gamma=0.1,
        drift=1e-3,
        block_size=4,
        n_waves=9,
        seed=3,
    ),
    "forward_softmax-gaps": partial(
        create,
        "forward_softmax",
        rho_0=0.1,
        rho_1=0.3,
        gain=5.0,
        gamma=0.1,
        drift=1e-3,
        block_size=4,
        n_waves=9,
        seed=3,
    ),
    "forward_softmax-greedy": partial(
        create, "forward_softmax", exploration="greedy", gamma=0.2, n_waves=0
    ),
    "forward_auto": partial(
        create,
        "forward_auto",
        rho_0=0.1,
        rho_1=0.3,
        gain=5.0,
        gamma=0.1,
        drift=1e-3,
        n_waves=9,
        seed=3,
    ),
    "forward-greedy": partial(create, "forward", exploration="greedy", gamma=0.2, n_waves=0),
    "forward-described": described,
}
