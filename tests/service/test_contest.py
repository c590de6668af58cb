"""What happens to a model happens to its challengers too, as far as it is theirs."""

from __future__ import annotations

from service.codec import encode_state
from service.events import ChallengerChange, Event, Example, Kind, LabelChange
from tests.service.folds import fold_of, row_of
from tests.service.test_challengers import BANDITRON, BPA, admin


def test_a_label_that_comes_back_is_everybodys() -> None:
    """One that was promoted later would never have shown what had been sold out once."""
    fold = fold_of(challengers=[BPA, BANDITRON])
    for change, active in (
        (LabelChange([], ["a", "b"]), [False, False, True]),
        (LabelChange(["a"], []), [True, False, True]),
    ):
        fold.apply(admin(change))
        for learner in fold.contest.learners:
            assert learner.active.tolist() == active
    fold.apply(admin(ChallengerChange("promote", "passive")))
    assert fold.learner.active.tolist() == [True, False, True]
    assert fold.rejected == 0


def test_examples_are_for_those_who_take_labels() -> None:
    """A challenger that takes none would have kept the deciding learner from learning them."""
    alone, watched = fold_of(), fold_of(challengers=[BPA, BANDITRON])
    passive, banditron = (each.learner for each in watched.contest.challengers)
    before = [encode_state(each.state()) for each in (passive, banditron)]
    for number in range(3):
        event = Event(Kind.LEARN, number, bytes(12), None, Example(number, row_of(number)))
        alone.apply(event)
        watched.apply(event)
    assert (alone.rejected, watched.rejected) == (0, 0)
    assert encode_state(watched.learner.state()) == encode_state(alone.learner.state())
    after = [encode_state(each.state()) for each in (passive, banditron)]
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False]
