"""What happens to a model happens to its challengers too, as far as it is theirs."""

from __future__ import annotations

from service.codec import encode_state
from service.events import Event, Example, Kind
from tests.service.folds import fold_of, row_of
from tests.service.test_challengers import BANDITRON, BPA


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
