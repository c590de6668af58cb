"""What one model may hold: options that no learner could count with are refused by name."""

from __future__ import annotations

import pytest

from learners import LEARNERS
from service.codec import CodecError, decode_state, encode_state
from service.errors import Invalid
from service.fold import Fold
from service.sizes import MAX_INTEGER
from service.spec import ModelSpec
from tests.service.folds import fold_of

HUGE = 10**400


@pytest.mark.parametrize("kind", LEARNERS)
def test_an_integer_of_a_thousand_digits_is_refused(kind: str) -> None:
    """JSON has them; taken for a k or a seed they were a 500, at once or at the download."""
    for name in LEARNERS[kind].option_names():
        for value in (HUGE, -HUGE, MAX_INTEGER + 1):
            with pytest.raises(Invalid) as refused:
                fold_of(learner={"kind": kind, name: value})
            (detail,) = refused.value.details
            assert detail == (f"learner.{name}", "a number within 64 bits", detail.got)
            assert len(detail.got) < 60


def test_a_challenger_has_none_either() -> None:
    """The place is the challenger's."""
    rival = {"name": "q", "learner": {"kind": "banditron", "gamma": HUGE}}
    with pytest.raises(Invalid, match=r"challengers\[0\]\.learner\.gamma: expected a number"):
        fold_of(challengers=[rival])


@pytest.mark.parametrize("kind", LEARNERS)
def test_a_state_with_one_is_none(kind: str) -> None:
    """An import of it was a 500: wherever it stands, what it is not is said."""
    spec = {"kind": kind, **dict.fromkeys(LEARNERS[kind].required_option_names(), 0.1)}
    fold = fold_of(learner=spec, estimate_on_drift=LEARNERS[kind].takes_rates)
    state = decode_state(fold.encode())
    for name in [name for name, value in state.items() if type(value) in (int, float)]:
        fresh = Fold(ModelSpec.model_validate(fold.spec.model_dump()), "incarnation")
        with pytest.raises(CodecError, match="not a state of this model"):
            fresh.restore(encode_state({**state, name: HUGE}), 0, "0" * 16)
