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

#: Standard error of rho_1 from which on it is little more than a guess: one of which only [0, 1] is
#: known has `NOTHING_KNOWN`. Intervals take what rates are off by for small, and with .9 where .2
#: was guessed a value that was .28 was told as .05 +- .04.
LARGEST_ERROR = 0.25
#: Share of the labels of which a learner found as much noise as it believes in, from which on an
#: estimate, which has no bounds, is taken instead; and of the rounds in which such labels were
#: shown, from which on clicks cannot be corrected by what it found.
MOST_AT_BOUNDS, BOUND_SHARE = 0.5, 0.05
#: Events between two times at which a learner began anew that are no one change: where it takes
#: one for noise that is none, it begins once more after some 500 rounds.
LEAST_APART = 1_000
#: For so many times what was between them it may be a third time.
FOR_TIMES = 2
#: A sum of rates that is kept to `MAX_SUM` may round to less.
ROUNDING = 1e-9


def rates_in_force(fold: Fold) -> tuple[AssumedRates, RatesFrom]:
    """Return the rates that clicks are corrected by, and where they are from."""
    n_labels, rates = fold.learner.n_labels, fold.contest.rates
    # It goes on from an estimate that it is told: the log knows of no noise that has risen since.
    # Of rates that were set it moves none.
    if fold.learner.learns_rates and (rates is None or rates.estimated):
        found = _found(fold.learner)
        # An estimate may be of more noise than the learner believes in.
        if rates is None or at_bounds(found).mean() <= MOST_AT_BOUNDS:
            return found, "learner"
    if rates is not None:
        return _assumed(rates, n_labels), "log"
    options = fold.contest.deciding.learner.options
    given = NoiseRates(*(float(options.get(name, 0.0)) for name in ("rho_0", "rho_1")))
    # A learner that estimates its rates begins with none: 0 is what is not known.
    if given.rho_0 or given.rho_1:
        return AssumedRates.same(given, n_labels), "learner"
    for challenger in fold.contest.challengers:
        if challenger.learner.learns_rates:
            return _found(challenger.learner), "challenger"
    return AssumedRates.same(given, n_labels), "nothing"


def rates_since(fold: Fold, source: RatesFrom) -> int:
    """Return the event at which a learner began anew with the rates in force; 0 if none did."""
    return _began_anew(fold, source).seq


def doubt_about_changes(fold: Fold, source: RatesFrom) -> str:
    """Return why the learner's rates may be those of another hour; nothing where they may not.

    Where it began anew twice, the same may have happened in between, and again since.
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
    """Return what is told of how far each label's rates may be off that a learner has found.

    Where it found as much noise as it believes in there may be more: nothing is known.
    """
    bounded = at_bounds(_found(learner))
    error_0, error_1 = (
        np.where(bounded, np.maximum(errors, NOTHING_KNOWN), errors)
        for errors in learner.label_rate_errors
    )
    return error_0, error_1


def _found(learner: Learner) -> AssumedRates:
    """Return the rates that a learner has found itself."""
    # Off by what the learner is off by, and each by its own: taken for their own alone, intervals
    # held the truth in .6 of the logs, for one alone in .7 where two labels overlap.
    return AssumedRates(*learner.label_rates, *learner.label_rate_errors, "unknown")


def at_bounds(found: AssumedRates) -> NDArray[np.bool_]:
    """Return of which labels a learner found as much noise as it believes in, within an error."""
    beyond_0 = found.rho_0 + found.rho_0_error >= MAX_RATE
    beyond_1 = found.rho_1 + found.rho_1_error >= MAX_RATE
    return beyond_0 | beyond_1 | (found.rho_0 + found.rho_1 >= MAX_SUM - ROUNDING)


def doubt_about_rates(rates: AssumedRates, labels: NDArray[np.int64]) -> str:
    """Return why clicks on `labels` cannot be corrected by these rates; nothing where they can.

    Clicks are few because wrong labels are shown, or because they are missed: which of the two
    has to be known.
    """
    missed, error = float(rates.rho_1[labels].mean()), float(rates.rho_1_error[labels].mean())
    if rates.sharing == "unknown":
        share = float(at_bounds(rates)[labels].mean())
        if share > BOUND_SHARE:
            where = f"of labels shown in {share:.0%} of the rounds the learner believes in no more"
            return f"there may be more noise than was found: {where}"
    if error > LARGEST_ERROR:
        return f"hardly known is how many clicks are missed: rho_1 = {missed:.2f} +- {error:.2f}"
    return ""


def _assumed(rates: Rates, n_labels: int) -> AssumedRates:
    found = rates.errors or (0.0, 0.0)
    common = AssumedRates.same(NoiseRates(rates.rho_0, rates.rho_1), n_labels, found)
    each = rates.of_labels(n_labels)
    if each is None or rates.errors is not None:
        # What they are off by, where labels are alike, all are: it does not average out over them.
        return common
    try:
        return AssumedRates(*each)
    except InputError:
        # One label's clicks were found to tell nothing at all: nothing to divide by.
        return common
