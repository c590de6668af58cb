"""The learner that CONTRIBUTING.md shows is a learner."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from learners import Learner, Outcome, draw
from learners.checks import CHECKS, Check

GUIDE = Path(__file__).parents[2] / "CONTRIBUTING.md"


def shown_learner() -> type[Learner]:
    """Return the class that the guide's Python block defines."""
    block = re.search(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    names: dict[str, object] = {"__name__": "guide"}
    exec(block.group(1), names)  # noqa: S102 - the guide's own code, which is what is tested
    learner = names["NLMS"]
    assert isinstance(learner, type)
    assert issubclass(learner, Learner)
    return learner


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_shown_learner_keeps_the_contract(check: Check) -> None:
    """Whoever follows the guide ends with a learner that passes every check."""
    check(shown_learner())


def test_shown_learner_learns() -> None:
    """It is no stub: after some rounds its greedy label is mostly right."""
    learner = shown_learner()(3, 3)
    rng = np.random.default_rng(0)
    right = []
    for x in rng.random((2000, 3)) ** 2:
        decision = learner.distribution(x)
        label = draw(decision, rng.random())
        truth = int(x.argmax())
        right.append(decision.greedy == truth)
        propensity = float(decision.probabilities[label])
        learner.update(Outcome(x, label, decision.greedy, propensity, int(label == truth)))
    assert np.mean(right[-500:]) > 0.8
