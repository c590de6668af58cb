"""A model in the replay's own process."""

from __future__ import annotations

import tracemalloc

import numpy as np

from clients.replay.datasets import Dataset
from clients.replay.run import Replay
from clients.replay.stream import ClickStream, Noise
from service.inprocess import InProcessPlayer


def test_decisions_that_nobody_answers_are_not_kept() -> None:
    """Five million rounds of which half are never heard of took more than a gigabyte."""
    toy = Dataset("toy", np.eye(64, dtype=np.float32), np.zeros(64, np.int64), ("left", "right"))
    spec = {
        "name": "toy",
        "labels": ["left", "right"],
        "features": {"type": "dense", "size": 64},
        "learner": {"kind": "banditron"},
    }
    stream = ClickStream(toy, horizon=4_000, noise=Noise(drop=0.5))
    replay = Replay(stream, {"toy": InProcessPlayer(spec)})
    tracemalloc.start()
    try:
        for done in replay.run():
            if done == 1_000:
                before = tracemalloc.get_traced_memory()[0]
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert after - before < 100_000
