"""Fold 2,000 fixed rounds with every learner and print the hash of each state.

Run as a module by the determinism test, in processes with other CPU kernels.
"""

from __future__ import annotations

import json

import numpy as np

from learners.assertions import play, state_digest
from tests.learners.cases import CASES

ROUNDS = 2_000


def digests() -> dict[str, str]:
    """Return the hash of each learner's state after the rounds."""
    found = {}
    for name, make in CASES.items():
        # 37 features: longer than numpy's unrolled blocks, and no multiple of them.
        learner = make(37, 5)
        play(learner, np.random.default_rng(0), ROUNDS)
        found[name] = state_digest(learner.state())
    return found


if __name__ == "__main__":
    print(json.dumps(digests()))
