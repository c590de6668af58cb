"""When an estimate is not to be trusted: each reason appears where it holds, and only there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from learners.noise.verdict import (
    LARGEST_ERROR,
    LEAST_GAIN,
    LEAST_OF_A_KIND,
    LEAST_PERFECT,
    LEAST_RIGHT_OR_WRONG,
    LEAST_ROUNDS,
    Evidence,
    doubts,
    refusals,
)

HALF = np.repeat([0.99, 0.01], 500)
GOOD = Evidence(right=HALF, alone=HALF, gain=300.0, beta=0.6, beta_error=0.01, error=0.008)


def test_good_block_is_not_refused() -> None:
    """A thousand rounds of two labels with both kinds of feedback can be tried."""
    assert refusals(np.arange(1000) % 2, np.arange(1000) % 3 % 2) == []


@pytest.mark.parametrize(
    ("code", "labels", "feedback"),
    [
        ("few_rounds", np.arange(50) % 3, np.arange(50) % 2),
        ("few_rounds", np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)),
        ("one_feedback", np.arange(1000) % 3, np.zeros(1000, dtype=np.int64)),
        ("one_feedback", np.arange(1000) % 3, np.ones(1000, dtype=np.int64)),
        ("few_clicks", np.arange(1000) % 3, (np.arange(1000) % 100 == 0).astype(np.int64)),
        ("few_clicks", np.arange(1000) % 3, (np.arange(1000) % 100 > 0).astype(np.int64)),
        ("one_label", np.full(1000, 2), np.arange(1000) % 2),
    ],
)
def test_refusals(code: str, labels: np.ndarray, feedback: np.ndarray) -> None:
    """Too few rounds, one feedback value, too few of a kind, one label: each is named."""
    assert [doubt.code for doubt in refusals(labels, feedback)] == [code]


@pytest.mark.parametrize("lacks", [0, 1])
def test_what_is_just_enough(lacks: int) -> None:
    """The least number of rounds, of clicks and of no-clicks that is said to be needed will do."""
    n = LEAST_ROUNDS - lacks
    few_rounds = refusals(np.arange(n) % 2, np.arange(n) % 3 % 2)
    assert [doubt.code for doubt in few_rounds] == ["few_rounds"] * lacks
    few = np.arange(1000) < LEAST_OF_A_KIND - lacks
    for feedback in (few, ~few):
        found = refusals(np.arange(1000) % 2, feedback.astype(np.int64))
        assert [doubt.code for doubt in found] == ["few_clicks"] * lacks


def test_good_evidence_is_trusted() -> None:
    """With perfect examples, signal and small errors nothing is said."""
    assert doubts(GOOD, beta_min=0.05) == []


@pytest.mark.parametrize(
    ("codes", "change"),
    [
        (["no_signal"], {"gain": 2.0}),
        (["few_right"], {"right": np.repeat([0.99, 0.01], [30, 970])}),
        (["few_wrong"], {"right": np.repeat([0.999, 0.01], [970, 30])}),
        (["no_perfect_right"], {"right": np.repeat([0.85, 0.01], 500)}),
        (["no_perfect_right"], {"alone": np.repeat([0.5, 0.01], 500)}),
        (["no_perfect_wrong"], {"right": np.repeat([0.99, 0.2], 500)}),
        (["no_perfect_wrong"], {"alone": np.repeat([0.99, 0.5], 500)}),
        (["beta_near_zero"], {"beta": 0.06}),
        (["beta_near_zero"], {"beta": 0.2, "beta_error": 0.1}),
        (["uncertain"], {"error": 0.06}),
    ],
)
def test_doubts(codes: list[str], change: dict[str, Any]) -> None:
    """Each weakness alone gives its own doubt, in a sentence."""
    evidence = GOOD._replace(**change)
    if "right" in change:
        evidence = evidence._replace(alone=evidence.right)
    found = doubts(evidence, beta_min=0.05)
    assert [doubt.code for doubt in found] == codes
    assert all(len(doubt.text) > 20 for doubt in found)


@pytest.mark.parametrize("right", [0.95, 0.05])
@pytest.mark.parametrize("lacks", [0, 1])
def test_what_is_just_enough_evidence(lacks: int, right: float) -> None:
    """The least that is said to be needed will do, and no less: perfect examples, signal, beta."""
    several = np.repeat([right, 0.5, 1.0 - right], [LEAST_PERFECT - lacks, 200, LEAST_PERFECT])
    evidence = GOOD._replace(right=several, alone=several, gain=LEAST_GAIN, error=LARGEST_ERROR)
    evidence = evidence._replace(beta=0.25, beta_error=0.1)
    which = "no_perfect_right" if right > 0.5 else "no_perfect_wrong"
    assert [doubt.code for doubt in doubts(evidence, beta_min=0.05)] == [which] * lacks


def test_wrong_rounds_are_counted_with_what_the_choice_tells() -> None:
    """30 rounds were wrong: that their instances alone would leave more open makes no more."""
    right = np.repeat([0.999, 0.999, 0.01], [870, 100, 30])
    alone = np.repeat([0.999, 0.5, 0.01], [870, 100, 30])
    found = doubts(GOOD._replace(right=right, alone=alone), beta_min=0.05)
    assert [doubt.code for doubt in found] == ["few_wrong"]


def test_as_many_right_and_wrong_rounds_as_are_needed_will_do() -> None:
    """Just so many of either are enough, as the doubt says."""
    sure = np.repeat([1.0, 0.0], int(LEAST_RIGHT_OR_WRONG))
    assert doubts(GOOD._replace(right=sure, alone=sure), beta_min=0.05) == []
