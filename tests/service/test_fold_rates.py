"""Noise rates in a fold, and the change of clicks that makes them be estimated anew."""

import numpy as np
import pytest

from learners import Forward
from service.codec import CodecError, encode_state
from service.events import (
    ChallengerChange,
    Decision,
    Event,
    Kind,
    LabelChange,
    Rates,
    RatesByLabel,
)
from service.fold import Fold
from tests.service.apps import Json
from tests.service.folds import LEARNERS, admin, fold_of, row_of

EACH = RatesByLabel([0.1, 0.2, 0.3], [0.2, 0.1, 0.0], [0.01] * 3, [0.02] * 3)


def test_a_learner_that_takes_common_rates_gets_these() -> None:
    """Protects learners like RCINE from an event that has each label's rates too."""
    one, other = (fold_of(learner=LEARNERS["rcine"]) for _ in range(2))
    one.apply(admin(Rates(0.2, 0.1, EACH)))
    other.apply(admin(Rates(0.2, 0.1)))
    assert one.rejected == 0
    assert encode_state(one.learner.state()) == encode_state(other.learner.state())


def test_a_learner_that_takes_each_labels_rates_gets_these(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each label's own; one that came after the estimate gets the common ones, hardly known."""
    told: list[list[list[float]]] = []
    monkeypatch.setattr(
        Forward, "set_label_rates", lambda _, *arrays: told.append([a.tolist() for a in arrays])
    )
    fold = fold_of(learner=LEARNERS["forward"])
    fold.apply(admin(LabelChange(["d"], [])))
    fold.apply(admin(Rates(0.25, 0.15, EACH)))
    rho_0, rho_1, error_0, error_1 = told[0]
    assert (rho_0, rho_1) == ([0.1, 0.2, 0.3, 0.25], [0.2, 0.1, 0.0, 0.15])
    assert (error_0[:3], error_1[:3]) == ([0.01] * 3, [0.02] * 3)
    assert min(error_0[3], error_1[3]) > 0.25
    # Rates that somebody set are common to all labels.
    fold.apply(admin(Rates(0.3, 0.3)))
    assert len(told) == 1
    assert fold.learner.state()["rho_0"] == 0.3


SOFTMAX = {"kind": "forward_softmax"}
FORWARD = {"name": "fwd", "learner": LEARNERS["forward"]}
ESTIMATE = Rates(0.2, 0.1, EACH)
KNOWN = Rates(0.2, 0.1, RatesByLabel([0.1, 0.2, 0.3], [0.2, 0.1, 0.0], [0.0] * 3, [0.0] * 3))


@pytest.mark.parametrize(
    ("rates", "options", "told"),
    [
        (ESTIMATE, {}, True),
        (ESTIMATE, {"challengers": [FORWARD]}, False),
        (ESTIMATE, {"challengers": [FORWARD], "estimate_every": 5000}, True),
        (ESTIMATE, {"challengers": [FORWARD], "estimate_on_drift": True}, True),
        (Rates(0.2, 0.1), {"challengers": [FORWARD]}, True),
        (KNOWN, {"challengers": [FORWARD]}, True),
    ],
)
def test_who_finds_rates_itself_is_not_told_what_others_needed(
    rates: Rates, options: Json, told: bool
) -> None:
    """A challenger that has rates estimated changes nothing of the learner that decides."""
    fold = fold_of(learner=SOFTMAX, **options)
    before = encode_state(fold.learner.state())
    fold.apply(admin(rates))
    assert fold.rejected == 0
    assert (encode_state(fold.learner.state()) != before) is told
    for challenger in fold.contest.challengers:
        assert np.array_equal(challenger.learner.label_rates[0], 0.2 * np.ones(3)) is (
            rates.by_label is None
        )
        assert challenger.learner.label_rates[0].any()


def test_a_challenger_that_comes_is_told_as_those_that_are_there() -> None:
    """The estimate in force is for the one that needs it, whenever they came."""
    fold = fold_of(learner=LEARNERS["forward"])
    fold.apply(admin(ESTIMATE))
    for name, learner in {"soft": SOFTMAX, "fwd": LEARNERS["forward"]}.items():
        change = ChallengerChange("add", name, learner)
        fold.apply(Event(Kind.CHALLENGER, 0, bytes(12), None, change))
    soft, forward = (each.learner for each in fold.contest.challengers)
    fresh = fold_of(learner=SOFTMAX).learner
    assert encode_state(soft.state()) == encode_state(fresh.state())
    assert forward.label_rates[0].any()


def test_an_estimate_that_nobody_takes_waits_for_a_challenger() -> None:
    """Whether it ends before or after its challenger goes: the next one is given it."""
    fold = fold_of(learner=LEARNERS["banditron"])
    fold.apply(admin(ESTIMATE))
    assert (fold.rejected, fold.contest.rates) == (0, ESTIMATE)
    change = ChallengerChange("add", "fwd", LEARNERS["forward"])
    fold.apply(Event(Kind.CHALLENGER, 0, bytes(12), None, change))
    assert fold.contest.challengers[0].learner.label_rates[0].any()


def click(fold: Fold, feedback: int, *, greedy: int = 0) -> None:
    """Fold one click, or none, on label 0."""
    decision = Decision(0, greedy, 0.5, 0, bytes(8), row_of(1))
    fold.apply(Event(Kind.FEEDBACK, 0, bytes(12), feedback, decision))


def test_an_estimate_lets_clicks_move_what_was_set() -> None:
    """Rates that somebody set stay, whatever is clicked; those of an estimate do not."""
    fold = fold_of(learner=SOFTMAX)
    for rates, moved in ((Rates(0.2, 0.1), False), (KNOWN, False), (ESTIMATE, True)):
        fold.apply(admin(rates))
        before = fold.learner.label_rates[0].tolist()
        for _ in range(5):
            click(fold, 1)
        assert (fold.learner.label_rates[0].tolist() != before) is moved


def test_a_change_of_the_clicks_is_noticed_at_the_same_event_by_every_worker() -> None:
    """Also by one that starts from a snapshot, and once: it then compares with newer clicks."""
    options = {"learner": LEARNERS["rcine"], "estimate_on_drift": True}
    first, second = fold_of(**options), fold_of(**options)
    for number in range(3000):
        for fold in (first, second):
            click(fold, int(number < 1500))
        if number == 1510:
            blob = second.encode()
            second = fold_of(**options)
            second.restore(blob, first.seq, first.chain)
    assert 1500 < first.drift_seq == second.drift_seq < 1800
    assert first.encode() == second.encode()


def test_clicks_on_explored_labels_are_no_drift() -> None:
    """Protects from an alarm over what the learner itself would not have shown."""
    fold = fold_of(learner=LEARNERS["rcine"], estimate_on_drift=True)
    for number in range(3000):
        click(fold, int(number < 1500), greedy=1)
    assert fold.drift_seq == 0


@pytest.mark.parametrize(
    ("kind", "payload", "noticed"),
    [
        (Kind.RATES, Rates(0.2, 0.1), False),
        (Kind.CHALLENGER, ChallengerChange("promote", "other"), False),
        (Kind.CHALLENGER, ChallengerChange("drop", "other"), True),
    ],
)
def test_what_is_no_news_begins_the_comparison_anew(
    kind: Kind, payload: Rates | ChallengerChange, noticed: bool
) -> None:
    """Rates: the change was estimated. Another learner: it shows other labels. Else it is news."""
    challengers = [{"name": "other", "learner": LEARNERS["banditron"]}]
    options = {"estimate_on_drift": True, "challengers": challengers}
    fold = fold_of(learner=LEARNERS["rcine"], **options)
    for number in range(1000):
        if number == 500:
            fold.apply(Event(kind, 0, bytes(12), None, payload))
        click(fold, int(number < 500))
    assert (fold.drift_seq > 0) is noticed


def test_without_the_option_a_state_has_no_detector() -> None:
    """Protects stored snapshots: those of other models stay what they were."""
    fold = fold_of(learner=LEARNERS["rcine"])
    assert not any("drift" in name for name in fold.state())
    watched = fold_of(learner=LEARNERS["rcine"], estimate_on_drift=True)
    with pytest.raises(CodecError):
        watched.restore(fold.encode(), 0, "0" * 16)
