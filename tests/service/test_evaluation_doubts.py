"""When an evaluation is not to be trusted: by its weights, and by its rates."""

from __future__ import annotations

import numpy as np

from learners import NoiseRates
from learners.evaluation import AssumedRates
from service.evaluation import doubt_about_rates, rates_in_force, verdict_of
from service.events import Rates, RatesByLabel
from tests.service.folds import admin, fold_of, round_of

LABELS = np.arange(100) % 3


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


def test_few_clicks_are_no_small_worth_while_missed_ones_are_not_known() -> None:
    """A default learner that is hardly clicked and has found nothing may be right each time."""
    fold = fold_of(learner={"kind": "forward_softmax", "n_waves": 7})
    for number in range(50):
        fold.apply(round_of(fold, number)._replace(feedback=int(number % 20 == 0)))
    rates, source = rates_in_force(fold)
    assert source == "learner"
    assert doubt_about_rates(rates, LABELS).startswith("hardly known is how many clicks are missed")
    sure = AssumedRates.same(NoiseRates(0.2, 0.4), 3, (0.3, 0.24))
    assert not doubt_about_rates(sure, LABELS)
    unsure = AssumedRates.same(NoiseRates(0.2, 0.4), 3, (0.0, 0.26))
    assert "rho_1 = 0.40 +- 0.26" in doubt_about_rates(unsure, LABELS)


def test_more_noise_than_a_learner_believes_in_is_taken_from_an_estimate() -> None:
    """Nine of ten clicks missed: corrected by its .8, all would be worth half of what they are."""
    learner = {"kind": "forward_softmax", "n_waves": 7, "rho_0": 0.01, "rho_1": 0.9}
    fold = fold_of(learner=learner, estimate_every=1000)
    rates, source = rates_in_force(fold)
    assert (source, rates.rho_1.tolist()) == ("learner", [0.8] * 3)
    assert doubt_about_rates(rates, LABELS).startswith("more clicks may be missed than was found")
    each = RatesByLabel([0.01] * 3, [0.9] * 3, [0.001] * 3, [0.01] * 3)
    fold.apply(admin(Rates(0.01, 0.9, each, (0.001, 0.01))))
    rates, source = rates_in_force(fold)
    assert (source, rates.rho_1.tolist()) == ("log", [0.9] * 3)
    assert not doubt_about_rates(rates, LABELS)
    # Of both together, too.
    both = {"kind": "forward_softmax", "n_waves": 7, "rho_0": 0.3, "rho_1": 0.65}
    rates, _ = rates_in_force(fold_of(learner=both))
    assert "believes in no more" in doubt_about_rates(rates, LABELS)
