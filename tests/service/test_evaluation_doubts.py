"""When an evaluation is not to be trusted: by its weights."""

from __future__ import annotations

import numpy as np

from service.evaluation import verdict_of


def test_weights_that_do_not_average_one_are_noticed() -> None:
    """Unless chance explains it."""
    rng = np.random.default_rng(0)
    possible = (rng.random(5000) < 0.2) / 0.2
    assert verdict_of(possible) == "trusted"
    assert "average 0.20" in verdict_of((rng.random(5000) < 0.2).astype(float))


def test_propensities_told_in_short_are_taken_for_true() -> None:
    """A seventh as .14 is no lie, and no lack of exploration; a third as .2 is one."""
    assert verdict_of(np.full(1000, (1 / 7) / 0.14)) == "trusted"
    assert verdict_of(np.full(1000, (1 / 6) / 0.17)) == "trusted"
    assert "average 1.67" in verdict_of(np.full(1000, (1 / 3) / 0.2))
