"""Hashes of graphs, scores and states, for processes that run on different BLAS kernels."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from learners.neighbors.hubness_learner import HwKNN
from learners.neighbors.metrics import METRIC_NAMES
from learners.neighbors.nhbnn import NHBNN
from learners.neighbors.rknn import RkNN
from learners.neighbors.window_learner import WindowLearner


def digests() -> dict[str, str]:
    """Return a hash for each metric: of lists, keys, scores and states of three learners."""
    return {metric: _digest(metric) for metric in METRIC_NAMES}


def _digest(metric: str) -> str:
    rng = np.random.default_rng(0)
    digest = hashlib.sha256()
    learners: tuple[WindowLearner, ...] = (
        RkNN(33, 3, window=150, k_noise=20, metric=metric),
        HwKNN(33, 3, window=150, metric=metric),
        NHBNN(33, 3, window=150, metric=metric),
    )
    for learner in learners:
        # Far from the origin single precision has few digits left for the distances.
        xs = rng.normal(size=(220, 33)) * 3 + 50
        learner.learn_many(xs, rng.integers(0, 3, size=220))
        assert learner._graph is not None
        live = learner._examples.live()
        digest.update(learner._graph.neighbors(live).tobytes())
        digest.update(learner._graph.keys(live).tobytes())
        for query in xs[:20]:
            digest.update(learner.scores(query + 0.1).tobytes())
    return digest.hexdigest()


if __name__ == "__main__":
    print(json.dumps(digests()))
