"""Challengers: they learn as if alone, change nothing that is decided, and can be promoted."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from learners import Banditron, ForwardSoftmax, LearnersError, Outcome
from learners.evaluation import Rounds, progressive
from service import challengers
from service.challengers import Record, learners_text, parse_learners
from service.codec import CodecError, decode_state, encode_state
from service.contest import Anew
from service.errors import Invalid
from service.events import (
    ChallengerChange,
    Decision,
    Entry,
    Event,
    Kind,
    LabelChange,
    Rates,
    pack_body,
)
from service.fold import Fold
from service.ids import uniform_of
from service.rates_in_force import rates_since
from service.spec import ModelSpec
from tests.service.apps import Json
from tests.service.folds import admin as labels_or_rates
from tests.service.folds import entry_of, fold_of, round_of

BPA: Json = {"name": "passive", "learner": {"kind": "bpa", "gamma": 0.3}}
BANDITRON: Json = {"name": "ban", "learner": {"kind": "banditron", "gamma": 0.4}}
RCINE: Json = {"name": "rates", "learner": {"kind": "rcine"}}


def admin(payload: Any) -> Event:
    """Return an administrative event."""
    if isinstance(payload, ChallengerChange):
        return Event(Kind.CHALLENGER, 0, bytes(12), None, payload)
    return labels_or_rates(payload)


def add(named: Json) -> ChallengerChange:
    """Return the change by which a challenger comes."""
    return ChallengerChange("add", named["name"], named["learner"])


def outcome_of(event: Event, greedy: int | None = None) -> Outcome:
    """Return the outcome of a round, with the best label of another learner where given."""
    decision, feedback = event.payload, event.feedback
    assert isinstance(decision, Decision)
    assert feedback is not None
    best = decision.greedy if greedy is None else greedy
    x = decision.x.astype(np.float64)
    return Outcome(x, decision.label, best, decision.propensity, feedback)


CHANGES: dict[int, Any] = {
    4: add(RCINE),
    8: Rates(0.1, 0.2),
    12: LabelChange(["d"], ["a"]),
    16: ChallengerChange("promote", "ban"),
    24: ChallengerChange("drop", "passive"),
    28: ChallengerChange("promote", "rates"),
    33: LabelChange(["a", "e"], []),
}


def history(fold: Fold, rounds: int = 40) -> list[Entry]:
    """Play rounds with every change of challengers on a fold; return the log."""
    entries = []
    for number in range(rounds):
        change = CHANGES.get(number)
        event = round_of(fold, number) if change is None else admin(change)
        entries.append(entry_of(fold, event))
        fold.follow(entries[-1])
    return entries


def test_every_worker_folds_to_the_same_bytes() -> None:
    """From the start or from any snapshot, also one between a promotion and what follows it."""
    spec = {"challengers": [BPA, BANDITRON], "estimate_on_drift": True, "scaling": "standard"}
    first, second = fold_of(**spec), fold_of(**spec)
    log = history(first)
    assert first.rejected == 0
    assert [each.name for each in first.contest.named] == ["rates", "original", "ban"]
    for entry in log:
        second.follow(entry)
        third = fold_of(**spec)
        third.restore(second.encode(), second.seq, second.chain)
        assert third.encode() == second.encode()
        for later in log[second.seq :]:
            third.follow(later)
        assert third.encode() == first.encode()


def test_challengers_change_no_decision() -> None:
    """What the deciding learner knows is the same, byte for byte, as without them."""
    alone, watched = fold_of(), fold_of(challengers=[BPA, BANDITRON])
    for number in range(30):
        event = round_of(alone, number)
        assert pack_body(round_of(watched, number)) == pack_body(event)
        alone.apply(event)
        watched.apply(event)
    assert encode_state(watched.learner.state()) == encode_state(alone.learner.state())


def test_a_challenger_learns_as_progressive_validation_does() -> None:
    """Its state and its record are those of the library's evaluation of the same log."""
    fold = fold_of(challengers=[BANDITRON])
    events = []
    for number in range(60):
        events.append(round_of(fold, number))
        fold.apply(events[-1])
    outcomes = [outcome_of(event) for event in events]
    rounds = Rounds(
        np.array([each.x for each in outcomes]),
        np.array([each.label for each in outcomes]),
        np.array([each.propensity for each in outcomes]),
        np.array([each.feedback for each in outcomes]),
    )
    alone = Banditron(3, 3, gamma=0.4)
    probabilities = progressive(alone, rounds)
    (challenger,) = fold.contest.challengers
    assert encode_state(challenger.learner.state()) == encode_state(alone.state())
    record = challenger.record.rounds()
    assert record.seqs.tolist() == list(range(1, 61))
    assert (record.probabilities == probabilities[range(60), rounds.labels]).all()
    sums = probabilities.cumsum(1)
    drawn = [int(np.argmax(s > uniform_of(5, e.nonce))) for s, e in zip(sums, events, strict=True)]
    assert record.shown.tolist() == drawn
    # Had it learned with the other's best label, it would be another one.
    wrong = Banditron(3, 3, gamma=0.4)
    for outcome in outcomes:
        wrong.update(outcome)
    assert not (wrong.weights == alone.weights).all()


def test_a_promoted_learner_learns_from_what_was_decided_before_with_its_own_best_label() -> None:
    """Decisions that waited while another one was promoted do not mislead it."""
    fold = fold_of(challengers=[BANDITRON])
    for number in range(20):
        fold.apply(round_of(fold, number))
    waiting = [round_of(fold, number) for number in range(20, 60)]
    fold.apply(admin(ChallengerChange("promote", "ban")))
    alone = Banditron.from_state(fold.learner.state())
    others = 0
    for event in waiting:
        fold.apply(event)
        logged = outcome_of(event)
        own = alone.distribution(logged.x).greedy
        others += own != logged.greedy
        alone.update(outcome_of(event, own))
    assert others
    assert (alone.weights == fold.learner.state()["weights"]).all()
    # What it decides itself, it learns from as it was logged, though its best label has changed.
    event = round_of(fold, 99)
    decision = event.payload
    assert isinstance(decision, Decision)
    event = event._replace(payload=decision._replace(greedy=(decision.greedy + 1) % 3))
    fold.apply(event)
    alone.update(outcome_of(event))
    assert (alone.weights == fold.learner.state()["weights"]).all()


def test_a_challenger_that_comes_later_knows_labels_and_rates() -> None:
    """It begins with nothing learned, but with the model's labels and the rates in force."""
    fold = fold_of()
    fold.apply(admin(LabelChange(["d"], ["b"])))
    fold.apply(admin(Rates(0.3, 0.2)))
    fold.apply(admin(add(RCINE)))
    (challenger,) = fold.contest.challengers
    assert challenger.learner.active.tolist() == [True, False, True, True]
    assert challenger.learner.state()["rho_0"] == 0.3
    fold.apply(admin(Rates(0.1, 0.1)))
    assert challenger.learner.state()["rho_0"] == 0.1
    assert fold.rejected == 0


def test_rates_reach_a_challenger_though_the_deciding_learner_has_none() -> None:
    """They are no refused event then; and without any taker they wait for the next one."""
    fold = fold_of(learner=BANDITRON["learner"], challengers=[RCINE])
    fold.apply(admin(Rates(0.3, 0.2)))
    assert (fold.rejected, fold.contest.challengers[0].learner.state()["rho_1"]) == (0, 0.2)
    fold.apply(admin(ChallengerChange("drop", "rates")))
    fold.apply(admin(Rates(0.1, 0.1)))
    fold.apply(admin(ChallengerChange("add", "next", RCINE["learner"])))
    assert (fold.rejected, fold.contest.challengers[0].learner.state()["rho_1"]) == (0, 0.1)


def test_one_that_cannot_take_a_new_label_is_dropped() -> None:
    """A label comes for all or for none: learners of different sizes could not go on."""
    full = {"name": "full", "learner": {"kind": "soba", "matrix": "full"}}
    fold = fold_of(features={"type": "dense", "size": 660}, challengers=[full, BPA])
    fold.apply(admin(LabelChange(["d"], [])))
    assert [each.name for each in fold.contest.challengers] == ["passive"]
    assert fold.contest.challengers[0].learner.n_labels == fold.learner.n_labels == 4


def test_one_that_refuses_a_round_is_counted_and_the_others_learn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Protects the deciding learner from a challenger's refusals."""

    def refuse(*_: Any) -> None:
        raise LearnersError("no")

    fold = fold_of(challengers=[BPA, BANDITRON])
    alone = fold_of()
    event = round_of(alone, 1)
    monkeypatch.setattr(fold.contest.challengers[0].learner, "update", refuse)
    fold.apply(event)
    alone.apply(event)
    assert fold.rejected == 1
    assert encode_state(fold.learner.state()) == encode_state(alone.learner.state())
    assert len(fold.contest.challengers[1].record.rounds().seqs) == 1


@pytest.mark.parametrize(
    "change",
    [
        ChallengerChange("promote", "nobody"),
        ChallengerChange("drop", "original"),
        add(BPA),
        add({"name": "original", "learner": {"kind": "bpa"}}),
        add({"name": "k", "learner": {"kind": "knn"}}),
        add({"name": "k", "learner": {"kind": "bpa", "gamma": 7}}),
    ],
)
def test_what_a_fold_cannot_do_is_counted(change: ChallengerChange) -> None:
    """An event that got into the log all the same changes nothing, on every worker."""
    fold = fold_of(challengers=[BPA])
    before = fold.contest.named
    fold.apply(admin(change))
    assert (fold.rejected, fold.seq, fold.contest.named) == (1, 1, before)


def test_a_model_without_challengers_has_the_state_it_always_had() -> None:
    """Snapshots from before stay the ones that the log leads to."""
    fold = fold_of()
    fold.apply(round_of(fold, 1))
    names = {name.split(".")[0] for name in fold.state()}
    assert names == {"learner", "labels", "rejected"}


# -- the record -------------------------------------------------------------------------------
def test_a_record_holds_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Round by round, before and after it is full, and saved at any time."""
    monkeypatch.setattr(challengers, "RECORDED", 5)
    record = Record()
    for seq in range(1, 14):
        record.add(2 * seq, 1 / seq, seq % 3)
        held = range(max(1, seq - 4), seq + 1)
        copy = Record.from_state(decode_state(encode_state(record.state())), 3)
        for each in (record, copy):
            seqs, probabilities, shown = each.rounds()
            assert seqs.tolist() == [2 * s for s in held]
            assert probabilities.tolist() == [1 / s for s in held]
            assert shown.tolist() == [s % 3 for s in held]
        record = copy


def test_a_record_of_nothing_takes_no_room() -> None:
    """Protects workers of a thousand models whose learners decide every round themselves."""
    assert sum(values.nbytes for values in fold_of().contest.record._ring) == 0


@pytest.mark.parametrize(
    "damage",
    [
        lambda s: s | {"challenger0.record.count": 3},
        lambda s: s | {"challenger0.record.count": -1},
        lambda s: s | {"challenger0.record.count": 2**70},
        lambda s: s | {"challenger0.record.seqs": np.array([0, 1])},
        lambda s: s | {"challenger0.record.seqs": np.array([2, 1])},
        lambda s: s | {"challenger0.record.shown": np.array([0, 3], np.uint16)},
        lambda s: s | {"challenger0.record.probabilities": np.array([0.5, 1.5])},
        lambda s: s | {"challenger0.learner.n_features": 4},
        lambda s: s | {"challenger0.learner.active": np.ones(4, np.bool_)},
        lambda s: s | {"challenger0.learner.kind": "soba"},
        lambda s: {k: v for k, v in s.items() if k != "challenger0.record.seqs"},
        lambda s: s | {"learners": learners_text(parse_learners(s["learners"])[:1]) + "x"},
        lambda s: s | {"learners": learners_text([*parse_learners(s["learners"])] * 2)},
        lambda s: s | {"rates": "{}"},
    ],
)
def test_a_damaged_state_is_refused(damage: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Every part of a challenger's state that is not what it should be is found out."""
    fold = fold_of()
    fold.apply(admin(add(BPA)))
    for number in range(2):
        fold.apply(round_of(fold, number))
    fold_of().restore(fold.encode(), fold.seq, fold.chain)
    blob = encode_state(damage(fold.state()))
    with pytest.raises(CodecError):
        fold_of().restore(blob, fold.seq, fold.chain)


# -- those that begin anew --------------------------------------------------------------------
def test_it_is_known_since_when_a_learners_rates_hold() -> None:
    """Each learner's own last time, in the state too: an evaluation leaves out what was before."""
    softmax: Json = {"kind": "forward_softmax", "n_waves": 0}
    fold = fold_of(learner=softmax, challengers=[BPA, {"name": "other", "learner": softmax}])
    contest = fold.contest
    began: dict[str, Anew] = {}
    number = 0
    # Always clicked, then hardly ever: clicks that are expected stay away.
    while number < 3000 and len(began) < 2:
        feedback = int(number < 1200 or number % 50 == 0)
        fold.apply(round_of(fold, number)._replace(feedback=feedback))
        for named, learner in zip(contest.named, contest.learners, strict=True):
            last = began.get(named.name, Anew())
            if learner.restarts != last.times:
                began[named.name] = Anew(learner.restarts, fold.seq, last.seq)
        number += 1
    assert sorted(began) == ["original", "other"]
    assert contest.began_anew == began
    assert rates_since(fold, "learner") == began["original"].seq
    assert rates_since(fold, "challenger") == began["other"].seq
    assert rates_since(fold, "log") == 0
    again = fold_of(learner=softmax, challengers=[BPA, {"name": "other", "learner": softmax}])
    again.restore(fold.encode(), fold.seq, fold.chain)
    assert again.contest.began_anew == began
    # A state from before it was told when it had begun anew the time before.
    older = {name: (times, seq) for name, (times, seq, _) in began.items()}
    again.restore(encode_state(fold.state() | {"began_anew": json.dumps(older)}), fold.seq, "")
    assert rates_since(again, "learner") == began["original"].seq
    for wrong in ({}, began | {"other": (9, 9)}, began | {"passive": (1, 1)}):
        state = fold.state() | {"began_anew": json.dumps(wrong)}
        with pytest.raises(CodecError, match="began anew"):
            again.restore(encode_state(state), fold.seq, fold.chain)
    assert rates_since(fold_of(), "learner") == 0


@pytest.mark.parametrize("change", [ChallengerChange("drop", "other"), LabelChange(["d"], [])])
def test_of_a_challenger_that_goes_nothing_stays(
    change: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is dropped, or refuses a label: what it began would have made the state none."""
    softmax: Json = {"kind": "forward_softmax", "n_waves": 0}
    fold = fold_of(challengers=[{"name": "other", "learner": softmax}])
    (other,) = fold.contest.challengers
    assert isinstance(other.learner, ForwardSoftmax)
    monkeypatch.setattr(other.learner._shortfall, "alarms", 1)
    fold.apply(round_of(fold, 1))
    assert fold.contest.began_anew == {"other": Anew(1, 1)}
    monkeypatch.setattr(other.learner._shortfall, "alarms", 2)
    fold.apply(round_of(fold, 2))
    assert fold.contest.began_anew == {"other": Anew(2, 2, 1)}

    def refuse(_: int) -> int:
        raise LearnersError("too many")

    monkeypatch.setattr(other.learner, "add_labels", refuse)
    fold.apply(admin(change))
    assert fold.contest.began_anew == {}
    assert not fold.contest.challengers
    fold_of().restore(fold.encode(), fold.seq, fold.chain)


# -- specs ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"challengers": [{"name": "k", "learner": {"kind": "knn"}}]}, "challengers[0].learner"),
        ({"learner": {"kind": "knn"}, "challengers": [BPA]}, "model"),
        ({"challengers": [BPA, {"name": "k", "learner": {"kind": "no"}}]}, "challengers[1].l"),
        (
            {
                "features": {"type": "dense", "size": 600},
                "challengers": [
                    {"name": f"c{i}", "learner": {"kind": "soba", "matrix": "full"}}
                    for i in range(2)
                ],
            },
            "challengers[1].learner",
        ),
    ],
)
def test_a_challenger_must_fit_its_model(change: Json, where: str) -> None:
    """It learns from feedback, and all of them have room in one snapshot."""
    with pytest.raises(Invalid) as refused:
        fold_of(**change)
    assert refused.value.details[0].where.startswith(where)


def test_the_learners_are_written_as_they_are_read() -> None:
    """What guards a change of challengers is the same text on every worker."""
    spec = ModelSpec.model_validate(
        {
            "name": "m",
            "learner": {"kind": "rcnbf", "rho_0": 0.1, "rho_1": 0},
            "labels": ["a"],
            "features": {"type": "dense", "size": 1},
            "challengers": [BPA],
        }
    )
    text = learners_text(spec.learners)
    assert parse_learners(text) == spec.learners
    assert learners_text(parse_learners(text)) == text
    assert parse_learners("") == []
