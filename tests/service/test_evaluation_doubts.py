"""When an evaluation is not to be trusted: by its weights, and by its rates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from learners import ForwardAuto, ForwardSoftmax, NoiseRates
from learners.evaluation import AssumedRates, Value
from learners.noise.rates import NOTHING_KNOWN
from service.contest import Anew
from service.evaluation import verdict_of, verdict_of_value
from service.events import Rates, RatesByLabel
from service.rates_in_force import (
    doubt_about_changes,
    doubt_about_rates,
    errors_of,
    rates_in_force,
)
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
    assert doubt_about_rates(rates, LABELS).startswith("how many clicks are missed is hardly known")
    sure = AssumedRates.same(NoiseRates(0.2, 0.4), 3, (0.3, 0.24))
    assert not doubt_about_rates(sure, LABELS)
    unsure = AssumedRates.same(NoiseRates(0.2, 0.4), 3, (0.0, 0.26))
    assert "rho_1 = 0.40 +- 0.26" in doubt_about_rates(unsure, LABELS)


def test_who_decides_label_by_label_knows_no_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clicks are taken as they are, and not corrected by what fits another kind of world."""
    learner = {"kind": "forward_auto", "n_waves": 7, "rho_0": 0.1, "rho_1": 0.3}
    fold = fold_of(learner=learner)
    watched = fold_of(learner={"kind": "bpa"}, challengers=[{"name": "auto", "learner": learner}])
    assert [rates_in_force(each)[1] for each in (fold, watched)] == ["learner", "challenger"]
    monkeypatch.setattr(ForwardAuto, "label_by_label", True)
    for each in (fold, watched):
        rates, source = rates_in_force(each)
        assert (source, rates.rho_1.tolist()) == ("nothing", [0.0] * 3)
        each.apply(admin(Rates(0.1, 0.2)))
        assert rates_in_force(each)[1] == "log"


def test_rates_that_a_challenger_was_made_with_hold_for_the_clicks_too() -> None:
    """A promotion over the learner that has them does not make an evaluation forget them."""
    known = {"name": "rates", "learner": {"kind": "rcnbf", "rho_0": 0.1, "rho_1": 0.3}}
    fold = fold_of(learner={"kind": "bpa"}, challengers=[known])
    rates, source = rates_in_force(fold)
    assert (source, rates.rho_0.tolist()) == ("challenger", [0.1] * 3)
    guessed = {"name": "guess", "learner": {"kind": "forward_softmax", "rho_0": 0.4}}
    fold = fold_of(learner={"kind": "bpa"}, challengers=[guessed, known])
    assert rates_in_force(fold)[0].rho_0.tolist() != [0.1] * 3


def test_more_noise_than_a_learner_believes_in_is_taken_from_an_estimate() -> None:
    """Nine of ten clicks missed: corrected by its .8, all would be worth half of what they are."""
    learner = {"kind": "forward_softmax", "n_waves": 7, "rho_0": 0.01, "rho_1": 0.9}
    fold = fold_of(learner=learner, estimate_every=1000)
    rates, source = rates_in_force(fold)
    assert (source, rates.rho_1.tolist()) == ("learner", [0.8] * 3)
    assert doubt_about_rates(rates, LABELS).startswith("there may be more noise than was found")
    each = RatesByLabel([0.01] * 3, [0.9] * 3, [0.001] * 3, [0.01] * 3)
    fold.apply(admin(Rates(0.01, 0.9, each, (0.001, 0.01))))
    rates, source = rates_in_force(fold)
    assert (source, rates.rho_1.tolist()) == ("log", [0.9] * 3)
    assert not doubt_about_rates(rates, LABELS)
    # Of both together, too.
    both = {"kind": "forward_softmax", "n_waves": 7, "rho_0": 0.3, "rho_1": 0.65}
    rates, _ = rates_in_force(fold_of(learner=both))
    assert "all that the learner allows for" in doubt_about_rates(rates, LABELS)


def test_a_rate_at_the_bound_of_belief_is_not_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Missed clicks of .85 were told as .77 +- .01, and false ones of .005 as .13 +- .02."""
    bounded = fold_of(learner={"kind": "forward_softmax", "rho_0": 0.01, "rho_1": 0.9}).learner
    within = fold_of(learner={"kind": "forward_softmax", "rho_0": 0.1, "rho_1": 0.5}).learner
    sure = np.array([0.02, 0.01, 0.4])
    monkeypatch.setattr(ForwardSoftmax, "label_rate_errors", (sure, sure))
    assert [each.tolist() for each in errors_of(within)] == [sure.tolist()] * 2
    unsure = [NOTHING_KNOWN, NOTHING_KNOWN, 0.4]
    assert [each.tolist() for each in errors_of(bounded)] == [unsure] * 2


def test_one_label_with_more_noise_than_is_believed_in_counts_as_often_as_it_is_shown() -> None:
    """A banner that is nearly always clicked by mistake was told to be right in .9, trusted."""
    rates = np.full((4, 10), 0.1)
    rates[2:] = 0.03
    rates[0, 4], rates[2, 4] = 0.79, 0.04
    found = AssumedRates(rates[0], rates[1], rates[2], rates[3], "unknown")
    labels = np.arange(1000) % 10
    said = "labels shown in 10% of rounds have all that the learner allows for"
    assert said in doubt_about_rates(found, labels)
    assert not doubt_about_rates(found, np.where(np.arange(1000) < 960, 0, labels))
    rates[0, 4] = 0.75
    assert not doubt_about_rates(
        AssumedRates(rates[0], rates[1], rates[2], rates[3], "unknown"), labels
    )
    # What is set or estimated has no such bounds.
    assert not doubt_about_rates(replace(found, sharing="own"), labels)


def test_noise_that_comes_and_goes_is_not_taken_for_what_it_was() -> None:
    """Half of the values in a day whose clicks go up and down were wrong, and trusted."""
    fold = fold_of(learner={"kind": "forward_softmax", "n_waves": 7})
    for now, last, before, doubted in (
        (9_001, 9_000, 0, False),
        (9_001, 9_000, 4_000, True),
        (19_000, 9_000, 4_000, True),
        (19_001, 9_000, 4_000, False),
        # One change that was taken for noise first.
        (9_001, 9_000, 8_001, False),
        (9_001, 9_000, 8_000, True),
    ):
        fold.seq, fold.contest.began_anew = now, {"original": Anew(2, last, before)}
        said = "noise may come and go: the learner began anew at events"
        assert doubt_about_changes(fold, "learner").startswith(said) is doubted
        assert not doubt_about_changes(fold, "log")


def test_a_value_that_can_be_none_is_not_trusted() -> None:
    """An interval that holds no probability at all says that it is wrong itself."""
    assert verdict_of_value(Value(1.2, 0.2, 0.81, 1.59)) == "trusted"
    assert "worth 1.10" in verdict_of_value(Value(1.1, 0.04, 1.02, 1.18))
    assert "worth 1.42" in verdict_of_value(Value(1.42, 0.18, 1.07, 1.77))
    assert "worth -0.30" in verdict_of_value(Value(-0.3, 0.1, -0.5, -0.1))


def test_a_label_counts_from_a_twentieth_of_the_rounds_on() -> None:
    """In fewer rounds it moves a value by less than its interval; in more it is said."""
    rates = np.full((4, 10), 0.1)
    rates[2:] = 0.03
    rates[0, 4], rates[2, 4] = 0.79, 0.04
    found = AssumedRates(rates[0], rates[1], rates[2], rates[3], "unknown")
    numbers = np.arange(1000)
    assert not doubt_about_rates(found, np.where(numbers < 50, 4, 0))
    assert "shown in 6% of" in doubt_about_rates(found, np.where(numbers < 60, 4, 0))
