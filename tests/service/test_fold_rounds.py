"""Rounds that somebody else decided, in a fold: learned from as such, and written down."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from learners import LEARNERS as KINDS
from learners import Learner, Outcome, draw
from learners.base import Distribution
from service import challengers
from service.challengers import Recorded
from service.codec import CodecError, encode_state
from service.events import ChallengerChange, Entry, Event, Kind, LabelChange, Round
from service.fold import Fold
from service.ids import ROUND, nonce_of_request, uniform_of
from tests.service.folds import LEARNERS, admin, entry_of, fold_of, round_of, row_of

SEED = 5
BPA = {"name": "passive", "learner": LEARNERS["bpa"]}
BANDITRON = {"name": "ban", "learner": LEARNERS["banditron"]}


def told_round(number: int, label: int | None = None, propensity: float = 0.25) -> Event:
    """Return a round as somebody else would decide it, for no good reason."""
    code = number % 3 if label is None else label
    payload = Round(code, propensity, row_of(number))
    return Event(Kind.ROUND, number, nonce_of_request(f"r{number}", ROUND), number % 2, payload)


def challenger_event(change: ChallengerChange) -> Event:
    """Return a change of challengers."""
    return Event(Kind.CHALLENGER, 0, bytes(12), None, change)


def copy_of(learner: Learner) -> Learner:
    """Return a learner that does what this one would."""
    return KINDS[learner.kind].from_state(learner.state())


def learn_alone(learner: Learner, event: Event) -> Distribution:
    """Let a learner learn from what was told, beside any fold; return what it would have done."""
    told, feedback = event.payload, event.feedback
    assert isinstance(told, Round)
    assert feedback is not None
    x = told.x.astype(np.float64)
    own = learner.distribution(x)
    learner.update(Outcome(x, told.label, own.greedy, told.propensity, feedback, elsewhere=True))
    return own


def same_record(record: Recorded, events: list[Event], owns: list[Distribution]) -> bool:
    """Whether a record holds what was done alone, with the draws of the rounds' nonces."""
    draws = [draw(own, uniform_of(SEED, e.nonce)) for own, e in zip(owns, events, strict=True)]
    labels = [e.payload.label for e in events if isinstance(e.payload, Round)]
    probabilities = [float(o.probabilities[r]) for o, r in zip(owns, labels, strict=True)]
    return (record.probabilities.tolist(), record.shown.tolist()) == (probabilities, draws)


@pytest.mark.parametrize("kind", LEARNERS)
def test_the_deciding_learner_takes_its_own_best_label(kind: str) -> None:
    """It learns as from another's rounds, bit for bit, and writes down what it would have done."""
    fold = fold_of(learner=LEARNERS[kind])
    for number in range(20):
        fold.apply(round_of(fold, number))
    alone, owns = copy_of(fold.learner), list[Distribution]()
    events = [told_round(number) for number in range(20, 60)]
    for event in events:
        fold.apply(event)
        owns.append(learn_alone(alone, event))
    assert fold.rejected == 0
    assert encode_state(fold.learner.state()) == encode_state(alone.state())
    record = fold.contest.record.rounds()
    assert record.seqs.tolist() == list(range(21, 61))
    assert same_record(record, events, owns)


def test_the_softmax_trusts_only_the_propensities_of_others() -> None:
    """Rounds told move its trust; those that it decides itself never do."""
    fold = fold_of(learner=LEARNERS["forward_softmax"])
    trusts = []
    for number in range(60):
        own = number < 30
        fold.apply(round_of(fold, number) if own else told_round(number, propensity=0.9))
        trusts.append(np.array(fold.state()["learner.common_rates"])[-1])
    assert len(set(map(float, trusts[:30]))) == 1
    assert len(set(map(float, trusts[30:]))) > 1


def test_challengers_follow_what_is_told() -> None:
    """They learn and write down as in any round, and do not change what the others learn."""
    alone, fold = fold_of(), fold_of(challengers=[BPA, BANDITRON])
    twins = [copy_of(each.learner) for each in fold.contest.challengers]
    events = [told_round(number) for number in range(40)]
    owns: list[list[Distribution]] = [[], []]
    for event in events:
        alone.apply(event)
        fold.apply(event)
        for twin, own in zip(twins, owns, strict=True):
            own.append(learn_alone(twin, event))
    for each, twin, own in zip(fold.contest.challengers, twins, owns, strict=True):
        assert encode_state(each.learner.state()) == encode_state(twin.state())
        assert same_record(each.record.rounds(), events, own)
    assert encode_state(fold.learner.state()) == encode_state(alone.learner.state())


def test_a_promoted_learner_brings_what_it_wrote_down() -> None:
    """What the other one would have done is not taken for its own, and stays with that one."""
    fold = fold_of(challengers=[BPA])
    for number in range(9):
        fold.apply(told_round(number))
    (passive,), own = fold.contest.challengers, fold.contest.record
    fold.apply(challenger_event(ChallengerChange("promote", "passive")))
    assert fold.contest.record is passive.record
    assert fold.contest.challengers[0].record is own
    fold.apply(told_round(10))
    for record in (passive.record, own):
        assert record.rounds().seqs.tolist() == [*range(1, 10), 11]
    assert own.rounds().probabilities.tolist() != passive.record.rounds().probabilities.tolist()


def test_rounds_of_others_tell_nothing_of_drift() -> None:
    """The clicks on a policy's labels change with that policy; only our own best labels count."""
    fold = fold_of(estimate_on_drift=True)
    before = [fold.state()[f"drift.{name}"] for name in ("bits", "mean", "up", "down")]
    for number in range(1500):
        event = told_round(number)
        fold.apply(event._replace(feedback=int(number > 1200)))
    assert fold.drift_seq == 0
    assert [fold.state()[f"drift.{name}"] for name in ("bits", "mean", "up", "down")] == before


def test_a_retired_label_is_learned_from() -> None:
    """It may be shown elsewhere still, and what is known of it comes back with it."""
    fold, other = fold_of(), fold_of()
    for each in (fold, other):
        each.apply(admin(LabelChange([], ["b"])))
    fold.apply(told_round(1, label=1))
    assert fold.rejected == 0
    assert fold.contest.record.rounds().probabilities.tolist() == [0.0]
    assert encode_state(fold.learner.state()) != encode_state(other.learner.state())


@pytest.mark.parametrize(
    "event",
    [
        told_round(1, label=3),
        told_round(1, label=65_535),
        told_round(1, propensity=0.0),
        told_round(1, propensity=1.5),
        told_round(1, propensity=float("nan")),
    ],
    ids=["no such label", "far from it", "never", "more than surely", "nan"],
)
def test_what_is_no_round_is_counted_and_leaves_no_trace(event: Event) -> None:
    """An event that got into a log all the same is refused by every learner, on every worker."""
    fold = fold_of(challengers=[BPA])
    before = {name: value for name, value in fold.state().items() if name != "rejected"}
    fold.apply(event)
    after = {name: value for name, value in fold.state().items() if name != "rejected"}
    assert (fold.seq, fold.rejected) == (1, 2)
    assert encode_state(after) == encode_state(before)
    fold.apply(told_round(2))
    assert fold.rejected == 2


@pytest.mark.parametrize("learner", [{"kind": "perceptron"}, {"kind": "knn"}])
def test_a_learner_from_labels_learns_nothing_of_it(learner: dict[str, Any]) -> None:
    """Such an event is counted, and the fold goes on."""
    fold = fold_of(learner=learner)
    fold.apply(told_round(1))
    assert (fold.seq, fold.rejected, fold.contest.record.count) == (1, 1, 0)


def history(fold: Fold) -> list[Entry]:
    """Fold own rounds, others' rounds and a promotion in turns; return the log."""
    entries = []
    for number in range(60):
        event = round_of(fold, number) if number % 3 else told_round(number)
        if number == 31:
            event = challenger_event(ChallengerChange("promote", "ban"))
        entries.append(entry_of(fold, event))
        fold.follow(entries[-1])
    return entries


def test_every_worker_folds_to_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the start, all at once, or from any snapshot, with a full record too."""
    monkeypatch.setattr(challengers, "RECORDED", 7)
    spec = {"challengers": [BANDITRON], "estimate_on_drift": True, "scaling": "standard"}
    one, many, step = fold_of(**spec), fold_of(**spec), fold_of(**spec)
    log = history(one)
    assert one.rejected == 0
    many.follow_many(log)
    assert many.encode() == one.encode()
    for entry in log:
        step.follow(entry)
        copy = fold_of(**spec)
        copy.restore(step.encode(), step.seq, step.chain)
        assert copy.encode() == step.encode()
        copy.follow_many(log[step.seq :])
        assert copy.encode() == one.encode()


@pytest.mark.parametrize(
    "damage",
    [
        lambda s: s | {"record.count": 3},
        lambda s: s | {"record.count": 0},
        lambda s: s | {"record.seqs": np.array([2, 1])},
        lambda s: s | {"record.shown": np.array([0, 3], np.uint16)},
        lambda s: s | {"record.probabilities": np.array([0.5, 1.5])},
        lambda s: {k: v for k, v in s.items() if k != "record.seqs"},
    ],
)
def test_a_damaged_record_is_refused(damage: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """It comes from a file, too."""
    fold = fold_of()
    for number in range(2):
        fold.apply(told_round(number))
    fold_of().restore(fold.encode(), fold.seq, fold.chain)
    with pytest.raises(CodecError):
        fold_of().restore(encode_state(damage(fold.state())), fold.seq, fold.chain)
