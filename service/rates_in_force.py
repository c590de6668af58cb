"""The noise rates that a model's clicks are corrected by: whose they are, and how sure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from learners import InputError, Learner, NoiseRates
from learners.bandits.rate_beliefs import MAX_RATE, MAX_SUM
from learners.evaluation import AssumedRates
from learners.noise.rates import NOTHING_KNOWN
from learners.validation import FloatArray
from service.contest import Anew
from service.evaluation_wire import RatesFrom
from service.events import Rates
from service.fold import Fold
from service.spec import NamedLearner

#: Standard error of rho_1 from which on it is little more than a guess: a rate known only to lie in
#: [0, 1] has `NOTHING_KNOWN`. Intervals assume small errors of rates; with .9 where .2 was guessed,
#: a value that was .28 was reported as .05 +- .04.
LARGEST_ERROR = 0.25
#: Share of the labels with as much noise as a learner allows for, from which on an estimate, which
#: has no bounds, is taken instead of its rates; and share of the rounds in which such labels were
#: shown, from which on clicks cannot be corrected by its rates.
MOST_AT_BOUNDS, BOUND_SHARE = 0.5, 0.05
#: Events between two restarts that mean two changes: a learner that takes one change of what is
#: right for noise begins anew once more after some 500 rounds.
LEAST_APART = 1_000
#: For this many times the span between the two, a third may follow.
FOR_TIMES = 2
#: A sum of rates bounded by `MAX_SUM` may round to less.
ROUNDING = 1e-9


def rates_in_force(fold: Fold) -> tuple[AssumedRates, RatesFrom]:
    """Return the rates that clicks are corrected by, and where they are from."""
    n_labels, rates = fold.learner.n_labels, fold.contest.rates
    # It goes on from an estimate that it is told, and unlike the log knows of noise that has risen
    # since. Rates that were set it does not move.
    learner = fold.learner
    # Where several labels are right, it finds none: clicks are taken as they are.
    finds = learner.learns_rates and not learner.label_by_label
    if finds and (rates is None or rates.estimated):
        found = _found(learner)
        # An estimate may be of more noise than the learner allows for.
        if rates is None or at_bounds(found).mean() <= MOST_AT_BOUNDS:
            return found, "learner"
    if rates is not None:
        return _assumed(rates, n_labels), "log"
    given = _given(learner, fold.contest.deciding)
    if given is not None:
        return AssumedRates.same(given, n_labels), "learner"
    for challenger in fold.contest.challengers:
        if challenger.learner.learns_rates and not challenger.learner.label_by_label:
            return _found(challenger.learner), "challenger"
        # It was made with rates that hold for the model's clicks, whoever decides.
        given = _given(challenger.learner, challenger.named)
        if given is not None:
            return AssumedRates.same(given, n_labels), "challenger"
    return AssumedRates.same(NoiseRates(), n_labels), "nothing"


def _given(learner: Learner, named: NamedLearner) -> NoiseRates | None:
    """Return the rates that a learner was made with; None where it finds them itself."""
    if learner.learns_rates or not learner.takes_rates:
        return None
    options = named.learner.options
    given = NoiseRates(*(float(options.get(name, 0.0)) for name in ("rho_0", "rho_1")))
    # A learner whose rates are estimated begins with none: 0 means unknown.
    return given if given.rho_0 or given.rho_1 else None


def rates_since(fold: Fold, source: RatesFrom) -> int:
    """Return the event at which a learner began anew with the rates in force; 0 if none did."""
    return _began_anew(fold, source).seq


def doubt_about_changes(fold: Fold, source: RatesFrom) -> str:
    """Return why the learner's rates may be those of another time; empty if nothing says so.

    Where it began anew twice, noise may have changed in between, too, and again since.
    """
    _, last, before = _began_anew(fold, source)
    apart = last - before
    if not before or apart < LEAST_APART or fold.seq - last > FOR_TIMES * apart:
        return ""
    return f"noise may come and go: the learner began anew at events {before:,} and {last:,}"


def _began_anew(fold: Fold, source: RatesFrom) -> Anew:
    contest = fold.contest
    finders = {
        "learner": [contest.deciding.name],
        "challenger": [each.name for each in contest.challengers if each.learner.learns_rates],
    }
    name = next(iter(finders.get(source, [])), "")
    return contest.began_anew.get(name, Anew())


def errors_of(learner: Learner) -> tuple[FloatArray, FloatArray]:
    """Return the errors to report for each label's rates that a learner has found.

    Where it found as much noise as it allows for, there may be more: nothing is known.
    """
    bounded = at_bounds(_found(learner))
    error_0, error_1 = (
        np.where(bounded, np.maximum(errors, NOTHING_KNOWN), errors)
        for errors in learner.label_rate_errors
    )
    return error_0, error_1


def _found(learner: Learner) -> AssumedRates:
    """Return the rates that a learner has found itself."""
    # Part of an error is the learner's, part the label's own: taken as labels' own alone, intervals
    # held the truth in .6 of the logs; as the learner's alone, in .7 where two labels overlap.
    return AssumedRates(*learner.label_rates, *learner.label_rate_errors, "unknown")


def at_bounds(found: AssumedRates) -> NDArray[np.bool_]:
    """Return which labels have, within an error, as much noise as a learner allows for."""
    beyond_0 = found.rho_0 + found.rho_0_error >= MAX_RATE
    beyond_1 = found.rho_1 + found.rho_1_error >= MAX_RATE
    return beyond_0 | beyond_1 | (found.rho_0 + found.rho_1 >= MAX_SUM - ROUNDING)


def doubt_about_rates(rates: AssumedRates, labels: NDArray[np.int64]) -> str:
    """Return why clicks on `labels` cannot be corrected by these rates; empty where they can.

    Clicks are few because wrong labels are shown, or because they are missed: which of the two
    has to be known.
    """
    missed, error = float(rates.rho_1[labels].mean()), float(rates.rho_1_error[labels].mean())
    if rates.sharing == "unknown":
        share = float(at_bounds(rates)[labels].mean())
        if share > BOUND_SHARE:
            where = f"labels shown in {share:.0%} of rounds have all that the learner allows for"
            return f"there may be more noise than was found: {where}"
    if error > LARGEST_ERROR:
        return f"how many clicks are missed is hardly known: rho_1 = {missed:.2f} +- {error:.2f}"
    return ""


def _assumed(rates: Rates, n_labels: int) -> AssumedRates:
    found = rates.errors or (0.0, 0.0)
    common = AssumedRates.same(NoiseRates(rates.rho_0, rates.rho_1), n_labels, found)
    each = rates.of_labels(n_labels)
    if each is None or rates.errors is not None:
        # Where labels are alike, all are off by the same: it does not average out over them.
        return common
    try:
        return AssumedRates(*each)
    except InputError:
        # One label's clicks were found to tell nothing at all: nothing to divide by.
        return common
