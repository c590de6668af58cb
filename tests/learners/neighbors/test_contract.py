"""The neighbour learners keep the contract, and answer like their window's plain twin."""

from __future__ import annotations

import pytest

from learners.checks import CHECKS, Check, LearnerFactory
from tests.learners.neighbors.contract import CASES


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())
def test_learner_keeps_the_contract(make: LearnerFactory, check: Check) -> None:
    """The promises of the contract, one by one, for each learner."""
    check(make)
