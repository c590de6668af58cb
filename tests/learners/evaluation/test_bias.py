"""That nothing is off on average, by every log that there can be and how probable it is."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from learners import Outcome, create
from learners.evaluation import AssumedRates, Evaluation, Rounds, progressive, weights_of

#: How often each label is right for each of two kinds of instance, which take turns.
RIGHT = np.array([[0.7, 0.3], [0.2, 0.8]])
XS = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
#: Each label's own, one of whose clicks is nearly as often false as true.
RATES = AssumedRates(np.array([0.1, 0.5]), np.array([0.2, 0.3]), np.zeros(2), np.zeros(2))


class Log(NamedTuple):
    """One log, how probable it is, and what whoever decided it showed with which probability."""

    chance: float
    rounds: Rounds
    deciding: np.ndarray


def logs() -> Iterator[Log]:
    """Yield every log of three rounds that a learner decides as it learns from them."""
    n_rounds = len(XS)
    for labels in itertools.product(range(2), repeat=n_rounds):
        for bits in itertools.product(range(2), repeat=n_rounds):
            learner, chance = create("banditron", 2, 2, gamma=0.4), 1.0
            probabilities = np.empty((n_rounds, 2))
            for t, (label, bit) in enumerate(zip(labels, bits, strict=True)):
                distribution = learner.distribution(XS[t])
                probabilities[t] = distribution.probabilities
                propensity, right = float(probabilities[t, label]), RIGHT[t % 2, label]
                clicked = RATES.rho_0[label] + RATES.beta[label] * right
                chance *= propensity * (clicked if bit else 1.0 - clicked)
                learner.update(Outcome(XS[t], label, distribution.greedy, propensity, bit))
            codes = np.array(labels)
            propensities = probabilities[np.arange(n_rounds), codes]
            yield Log(chance, Rounds(XS, codes, propensities, np.array(bits)), probabilities)


@cache
def means(kind: str) -> dict[str, float]:
    """Return the means over all logs of the estimates for a learner, and of what is true."""
    kinds = RIGHT[np.arange(len(XS)) % 2]
    found = dict.fromkeys(("chance", "ips", "dr", "gain", "value", "ahead"), 0.0)
    for log in logs():
        policy = log.deciding
        if kind != "deciding":
            policy = progressive(create(kind, 2, 2), log.rounds)
        evaluation, weights = Evaluation(log.rounds, RATES), weights_of(log.rounds, policy)
        followed = (policy * evaluation.predicted).sum(1)
        value = float((policy * kinds).sum(1).mean())
        each = {
            "chance": 1.0,
            "ips": evaluation.ips(weights).value,
            "dr": evaluation.doubly_robust(weights, followed).value,
            "gain": evaluation.gain(weights, followed).value,
            "value": value,
            "ahead": value - float((log.deciding * kinds).sum(1).mean()),
        }
        for name, number in each.items():
            found[name] += log.chance * number
    return found


@pytest.mark.parametrize("kind", ["deciding", "bpa", "soba", "forward_softmax"])
def test_estimates_are_right_on_average(kind: str) -> None:
    """Also of learners that learned from the log itself, decided by one that learned from it."""
    found = means(kind)
    assert found["chance"] == pytest.approx(1.0)
    assert found["ips"] == pytest.approx(found["value"], abs=1e-9)
    assert found["dr"] == pytest.approx(found["value"], abs=1e-9)
    assert found["gain"] == pytest.approx(found["ahead"], abs=1e-9)


def test_the_learners_differ() -> None:
    """Else the sums above would compare nothing with nothing."""
    assert means("deciding")["ahead"] == 0.0
    ahead = [means(kind)["ahead"] for kind in ("bpa", "soba", "forward_softmax")]
    assert min(abs(each) for each in ahead) > 0.002
