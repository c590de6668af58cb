"""What is asked together is decided as if each had come alone, and refused each for itself."""

from __future__ import annotations

import numpy as np
import pytest

from learners import Distribution, InputError
from learners.validation import FloatArray
from service.deciding import Ask, decide_each
from service.errors import Invalid
from service.events import Decision
from service.fold import Fold
from service.ids import nonce_of_request
from tests.service.folds import LEARNERS, fold_of, history, row_of


def asks_of(numbers: range) -> list[Ask]:
    """Return asks: some repeatable, some of two labels only."""
    return [
        Ask(row_of(n), f"r{n}" if n % 2 else None, [1, 2] if n % 5 == 0 else None) for n in numbers
    ]


def nonces_of(asks: list[Ask]) -> list[bytes]:
    """Return a nonce for each ask."""
    return [nonce_of_request(f"n{place}") for place in range(len(asks))]


def alone(fold: Fold, ask: Ask, nonce: bytes) -> Decision:
    """Decide the plain way."""
    return fold.decide(ask.x, nonce, ask.allowed, repeatable=ask.request_id is not None)


def same(one: Decision | Exception, other: Decision) -> bool:
    """Whether two decisions are the same to the last bit."""
    assert isinstance(one, Decision), one
    return one[:5] == other[:5] and one.x.tobytes() == other.x.tobytes()


@pytest.mark.parametrize("count", [1, 2, 3, 21])
@pytest.mark.parametrize("learner", sorted(LEARNERS))
def test_together_as_alone(learner: str, count: int) -> None:
    """Protects propensities: who else asked in the same moment changes no bit of a decision."""
    fold = fold_of(learner=LEARNERS[learner], scaling="standard")
    history(fold, 20)
    asks = asks_of(range(100, 100 + count))
    nonces = nonces_of(asks)
    for made, ask, nonce in zip(decide_each(fold, asks, nonces), asks, nonces, strict=True):
        assert same(made, alone(fold, ask, nonce))


def test_each_is_refused_for_itself() -> None:
    """One that cannot be decided gets its error; the others get their decisions all the same."""
    fold = fold_of()
    history(fold, 20)
    asks = asks_of(range(1, 5))
    nonces = nonces_of(asks)
    wanted = [alone(fold, ask, nonce) for ask, nonce in zip(asks, nonces, strict=True)]
    bad = asks[1]._replace(x=np.full_like(asks[1].x, np.nan))
    # Label a was retired by the history: after this was asked, say.
    late = asks[2]._replace(allowed=[0])
    first, second, third, fourth = decide_each(fold, [asks[0], bad, late, asks[3]], nonces)
    assert same(first, wanted[0])
    assert same(fourth, wanted[3])
    assert isinstance(second, InputError)
    assert isinstance(third, Invalid)
    assert str(third) == "allowed: expected at least one label that is not retired, got ['a']"


def test_what_nobody_foresaw_stays_with_its_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody foresaw is the answer to the one ask that met it."""
    fold = fold_of()
    plain = fold.learner.distribution

    def distribution(x: FloatArray, allowed: list[int] | None = None) -> Distribution:
        if x[0] == row_of(2)[0]:
            raise ZeroDivisionError("nobody foresaw it")
        return plain(x, allowed)

    monkeypatch.setattr(fold.learner, "distribution", distribution)
    monkeypatch.setattr(fold.learner, "distributions", lambda xs: list(map(distribution, xs)))
    answers = decide_each(fold, [Ask(row_of(n), None, None) for n in range(4)], [bytes(12)] * 4)
    kinds = [type(answer) for answer in answers]
    assert kinds == [Decision, Decision, ZeroDivisionError, Decision]
