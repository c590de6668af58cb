"""What a model's policies are worth, from the newest rounds of its log.

Each policy is evaluated on rounds that it had not learned from: the deciding one by what it showed;
challengers, and the deciding one where others decided, by what they wrote down before they learned
(`challengers`); and the others never learn. Reading the log takes turns with the event loop; the
arithmetic, on a bounded number of values, is done in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from learners import InputError
from learners.bandits.linear import MIN_PROPENSITY
from learners.evaluation import AssumedRates, Evaluation, Rounds, Value, effective_size
from learners.validation import FloatArray
from service.challengers import RECORDED, Recorded
from service.errors import Unavailable
from service.evaluation_wire import EvaluationOut, PolicyKind, PolicyOut, RatesFrom, ValueOut
from service.events import Decision, Round
from service.fold import Fold
from service.newest import Logged, Newest, doubt_of, read_newest
from service.rates_in_force import (
    doubt_about_changes,
    doubt_about_rates,
    rates_in_force,
    rates_since,
)
from service.replica import Replica
from service.store import Store

#: Features, or labels, of all rounds together: 16 MiB, and three copies at most.
MOST_VALUES = 2_097_152
#: Entries of the log that are looked at: many may be expired decisions that tell nothing.
MOST_ENTRIES = 200_000
#: Constant labels that are evaluated, those shown most often.
MOST_CONSTANT = 20
#: Below this an interval, which assumes normal sums, promises too much.
LEAST_EFFECTIVE = 100
#: Weights average 1 where the log could show all that the policy does and its propensities are
#: true, except for chance, and for propensities rounded to two digits (a seventh as .14).
ROUNDED = 0.03
#: Standard deviations by which averages hardly ever differ by chance.
FAR = 4.0
TRUSTED = "trusted"


class Told(NamedTuple):
    """What a fold said at one moment."""

    seq: int
    labels: list[str]
    active: NDArray[np.bool_]
    rates: AssumedRates
    rates_from: RatesFrom
    #: Rounds that ended before this event may have had other noise.
    rates_since: int
    rates_doubt: str
    deciding: str
    deciding_since: int
    #: What the deciding learner would have done in rounds that were decided elsewhere and, beside
    #: challengers, in its own when their feedback came.
    record: Recorded
    challengers: dict[str, Recorded]


class Slice(NamedTuple):
    """Rounds to evaluate on, oldest first."""

    #: The events that ended them, and the last events folded when they were decided.
    seqs: NDArray[np.int64]
    decided: NDArray[np.int64]
    #: Which of them were decided elsewhere.
    elsewhere: NDArray[np.bool_]
    rounds: Rounds


async def evaluate(store: Store, replica: Replica, most: int) -> EvaluationOut:
    """Return what the model's policies are worth, from its newest `most` rounds at most."""
    await replica.catch_up()
    fold = replica.fold
    widest = max(fold.encoder.size, len(fold.labels))
    most = min(most, RECORDED, MOST_VALUES // widest)
    # The fold goes on while the log is read: all that is taken from it has to be of one moment.
    told = _told(fold)
    newest = await read_newest(store, replica.address, told.seq, most, MOST_ENTRIES)
    doubt = doubt_of(newest.rounds)
    try:
        return await asyncio.to_thread(_evaluate, newest, told, doubt)
    except InputError as error:
        raise Unavailable("the log became another one while it was read: try again") from error


def _told(fold: Fold) -> Told:
    rates, rates_from = rates_in_force(fold)
    return Told(
        fold.seq,
        list(fold.labels),
        fold.learner.active,
        rates,
        rates_from,
        rates_since(fold, rates_from),
        doubt_about_changes(fold, rates_from),
        fold.contest.deciding.name,
        fold.contest.deciding_since,
        fold.contest.record.rounds(),
        {each.name: each.record.rounds() for each in fold.contest.challengers},
    )


# -- policies ---------------------------------------------------------------------------------
class _Policy(NamedTuple):
    """What a policy did in some of the rounds."""

    kind: PolicyKind
    name: str | None
    #: Places of these rounds in the slice.
    which: NDArray[np.intp]
    weights: NDArray[np.float64]
    #: The label it shows in each of them; None for uniform.
    shown: NDArray[np.intp] | None = None
    #: Whether it decided all of them: what it showed is what was logged.
    decided: bool = False
    #: What its gain compares with what, if not all of it with what was shown.
    compared: tuple[_Policy, _Policy] | None = None


def _evaluate(newest: Newest, told: Told, doubt: str) -> EvaluationOut:
    rates, policies = told.rates, list[PolicyOut]()
    # Rates found since then say nothing about the noise before.
    logged = [each for each in newest.rounds if each.seq > told.rates_since]
    if len(logged) > 1:
        slice_ = _slice(logged)
        doubt = doubt or told.rates_doubt or doubt_about_rates(rates, slice_.rounds.labels)
        evaluation = Evaluation(slice_.rounds, rates)
        policies = [
            _value(evaluation, each, told.active, doubt)
            for each in _policies(slice_, told, newest.came)
        ]
    return EvaluationOut(
        len(logged),
        logged[0].seq if logged else None,
        logged[-1].seq if logged else None,
        told.seq,
        float(rates.rho_0.mean()),
        float(rates.rho_1.mean()),
        bool(np.ptp(rates.rho_0) or np.ptp(rates.rho_1)),
        told.rates_from,
        policies,
    )


def _slice(logged: list[Logged]) -> Slice:
    payloads = [each.payload for each in logged]
    propensities = np.array([each.propensity for each in payloads], np.float64)
    rounds = Rounds(
        np.array([each.x for each in payloads], np.float64),
        np.array([each.label for each in payloads], np.int64),
        # As learners do: somebody else may report a propensity of nearly 0.
        np.maximum(propensities, MIN_PROPENSITY),
        np.array([each.feedback for each in logged], np.int64),
    )
    decided = [each.seq if isinstance(each, Decision) else 0 for each in payloads]
    return Slice(
        np.array([each.seq for each in logged], np.int64),
        np.array(decided, np.int64),
        np.array([isinstance(each, Round) for each in payloads], np.bool_),
        rounds,
    )


def _policies(slice_: Slice, told: Told, came: dict[str, int]) -> Iterator[_Policy]:
    _, labels, propensities, _ = slice_.rounds
    active, everywhere = told.active, np.arange(len(labels))
    yield _deciding(slice_, told)
    if slice_.elsewhere.any():
        others = np.flatnonzero(slice_.elsewhere)
        yield _Policy("elsewhere", None, others, np.ones(len(others)), decided=True)
    yield _Policy("uniform", None, everywhere, active[labels] / active.sum() / propensities)
    for name, record in told.challengers.items():
        policy = _Policy("challenger", name, *_recorded(slice_, record))
        yield policy._replace(compared=_compared(slice_, told, policy))
    often = np.argsort(-np.bincount(labels, minlength=len(active)), kind="stable")
    decided = np.where(slice_.elsewhere, slice_.seqs, slice_.decided)
    for code in often[active[often]][:MOST_CONSTANT].tolist():
        # Rounds in which it could not be shown yet say nothing about it.
        which = np.flatnonzero(decided >= came.get(told.labels[code], 0))
        weights = (labels[which] == code) / propensities[which]
        shown = np.full(len(which), code, np.intp)
        yield _Policy("label", told.labels[code], which, weights, shown)


def _deciding(slice_: Slice, told: Told) -> _Policy:
    """Return what the deciding learner did, and would have done where others decided."""
    own = np.flatnonzero(~slice_.elsewhere & (slice_.decided >= told.deciding_since))
    which, weights, shown = _recorded(slice_, told.record)
    told_of = slice_.elsewhere[which]
    which, weights, shown = which[told_of], weights[told_of], shown[told_of]
    return _Policy(
        "deciding",
        told.deciding,
        np.concatenate([own, which]),
        np.concatenate([np.ones(len(own)), weights]),
        np.concatenate([slice_.rounds.labels[own], shown]),
        decided=not len(which),
    )


def _compared(slice_: Slice, told: Told, mine: _Policy) -> tuple[_Policy, _Policy]:
    """Return a challenger in the rounds in which it can be compared, and what it is compared with.

    In rounds decided elsewhere, that is what was shown. In the model's own it is what the deciding
    learner would have shown when their feedback came: by then both knew what had come since the
    decision. Rounds for which that was not written down cannot be compared.
    """
    places, weights, shown = _recorded(slice_, told.record)
    own = ~slice_.elsewhere[places]
    all_weights, all_shown = np.ones(len(slice_.seqs)), slice_.rounds.labels.astype(np.intp)
    all_weights[places[own]], all_shown[places[own]] = weights[own], shown[own]
    known = slice_.elsewhere.copy()
    known[places] = True
    kept = known[mine.which]
    which = mine.which[kept]
    shown_by_me = None if mine.shown is None else mine.shown[kept]
    return (
        mine._replace(which=which, weights=mine.weights[kept], shown=shown_by_me),
        _Policy("deciding", told.deciding, which, all_weights[which], all_shown[which]),
    )


def _recorded(
    slice_: Slice, record: Recorded
) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.intp]]:
    """Return the places of a record's rounds, their weights, and the labels it would show."""
    _, which, at = np.intersect1d(slice_.seqs, record.seqs, assume_unique=True, return_indices=True)
    weights = record.probabilities[at] / slice_.rounds.propensities[which]
    return which, weights, record.shown[at].astype(np.intp)


def _value(
    evaluation: Evaluation, policy: _Policy, active: NDArray[np.bool_], doubt: str
) -> PolicyOut:
    weights, n_rounds = policy.weights, len(policy.which)
    verdict = doubt or verdict_of(weights)
    head = (policy.kind, policy.name, n_rounds, effective_size(weights))
    if n_rounds < 2:
        return PolicyOut(*head, False, verdict)
    part = evaluation.only(policy.which)
    ips, snips = part.ips(weights), part.snips(weights)
    robust = gain = None
    if not policy.decided:
        robust = part.doubly_robust(weights, _followed(part, policy, active))
        gain = _gain(evaluation, policy, active)
    if verdict == TRUSTED:
        verdict = verdict_of_value(robust or snips or ips)
    told = (_out(value) for value in (ips, snips, robust, gain))
    return PolicyOut(*head, verdict == TRUSTED, verdict, *told)


def _gain(evaluation: Evaluation, policy: _Policy, active: NDArray[np.bool_]) -> Value | None:
    """Return how much more a policy is worth than its comparison; None where too few tell."""
    mine, other = policy.compared or (policy, None)
    if len(mine.which) < min(len(policy.which), LEAST_EFFECTIVE):
        return None
    part = evaluation.only(mine.which)
    over = other and (other.weights, _followed(part, other, active))
    return part.gain(mine.weights, _followed(part, mine, active), over)


def _followed(part: Evaluation, policy: _Policy, active: NDArray[np.bool_]) -> FloatArray:
    """Return the predicted probability that what a policy shows is right, by round."""
    if policy.shown is None:
        uniform: FloatArray = part.predicted[:, active].mean(1)
        return uniform
    shown: FloatArray = part.predicted[np.arange(len(policy.shown)), policy.shown]
    return shown


def verdict_of_value(value: Value) -> str:
    """Return `TRUSTED`, or that rates by which a policy is worth that must be wrong.

    Examples
    --------
    >>> verdict_of_value(Value(1.43, 0.04, 1.35, 1.51))
    'worth 1.43, which is no probability: the rates that its clicks are corrected by are wrong'
    """
    if value.low <= 1.0 and value.high >= 0.0:
        return TRUSTED
    wrong = "the rates that its clicks are corrected by are wrong"
    return f"worth {value.value:.2f}, which is no probability: {wrong}"


def verdict_of(weights: NDArray[np.float64]) -> str:
    """Return `TRUSTED`, or why these weights leave no estimate to be trusted.

    Examples
    --------
    >>> verdict_of(np.ones(100)), verdict_of(np.ones(99))
    ('trusted', 'too few rounds tell of it: as good as 99, and 100 are needed')
    >>> verdict_of(np.full(100, 3.0))
    "the log's propensities are too small to be true: weights average 3.00, not 1"
    """
    effective = effective_size(weights)
    if effective < LEAST_EFFECTIVE:
        said = f"as good as {effective:.0f}, and {LEAST_EFFECTIVE} are needed"
        return f"too few rounds tell of it: {said}"
    mean, error = float(weights.mean()), float(weights.std()) / len(weights) ** 0.5
    away = FAR * error + ROUNDED
    if mean + away < 1.0:
        return f"it does what the log could not show: weights average {mean:.2f}, not 1"
    if mean - away > 1.0:
        said = f"weights average {mean:.2f}, not 1"
        return f"the log's propensities are too small to be true: {said}"
    return TRUSTED


def _out(value: Value | None) -> ValueOut | None:
    """Return a value as it is reported; None where no round tells of the policy."""
    return None if value is None or np.isinf(value.error) else ValueOut(*value)
