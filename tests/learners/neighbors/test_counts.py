"""What is counted over the graph, beside what it is compared with in `test_graph`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from learners.neighbors import HFNN, RkNN

_WINDOW = 50


@pytest.mark.parametrize("kind", [HFNN, RkNN])
def test_many_labels_come_with_one_copy(
    kind: type[HFNN] | type[RkNN], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand that were added at once held a worker for two seconds, copying 50 MB each time."""
    copied, pad = [], np.pad

    def watched(array: Any, *args: Any) -> Any:
        if len(array) >= _WINDOW:
            copied.append(array.shape)
        return pad(array, *args)

    rng = np.random.default_rng(0)
    xs, labels = rng.normal(size=(_WINDOW, 2)), rng.integers(0, 2, size=_WINDOW)
    grown, wide = kind(2, 2, window=_WINDOW, k=3), kind(2, 42, window=_WINDOW, k=3)
    for learner in (grown, wide):
        learner.learn_many(xs, labels)
    monkeypatch.setattr(np, "pad", watched)
    for _ in range(40):
        grown.add_labels(1)
    for learner in (grown, wide):
        learner.learn(np.zeros(2), 41)
    assert copied == [(_WINDOW + (kind is HFNN), 2)]
    assert np.array_equal(grown.scores(np.ones(2)), wide.scores(np.ones(2)))
