"""Every learner passes every check, and every check notices a learner that breaks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
import pytest

from learners import LEARNERS, Banditron, Outcome, State, checks, draw
from learners.base import Distribution
from learners.checks import CHECKS, Check, LearnerFactory
from learners.states import StateValue
from learners.validation import FloatArray
from tests.learners.cases import CASES


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())
def test_learner_keeps_the_contract(make: LearnerFactory, check: Check) -> None:
    """The promises of the contract, one by one, for each learner in each variant."""
    check(make)


def test_cases_cover_the_registry() -> None:
    """A learner that is registered is also checked."""
    assert {name.partition("-")[0] for name in CASES} >= {
        kind
        for kind, learner in LEARNERS.items()
        if learner.__module__.startswith("learners.bandits")
    }


class _NotOne(Banditron):
    def distribution(self, x: FloatArray, allowed: Sequence[int] | None = None) -> Distribution:
        decision = super().distribution(x, allowed)
        return decision._replace(probabilities=decision.probabilities * 0.9)


class _NoFloor(Banditron):
    def distribution(self, x: FloatArray, allowed: Sequence[int] | None = None) -> Distribution:
        greedy = super().distribution(x, allowed).greedy
        return Distribution(np.eye(self.n_labels)[greedy], greedy)


class _LearnsWhileDeciding(Banditron):
    def distribution(self, x: FloatArray, allowed: Sequence[int] | None = None) -> Distribution:
        self._weights[0] += 1e-9
        return super().distribution(x, allowed)


class _AnswersWithOneArray(Banditron):
    """Keeps an answer for as long as the question and the weights stay the same."""

    asked: tuple[bytes, Distribution] | None = None

    def distribution(self, x: FloatArray, allowed: Sequence[int] | None = None) -> Distribution:
        question = x.tobytes() + self._weights.tobytes() + repr(allowed).encode()
        if self.asked is None or self.asked[0] != question:
            self.asked = question, super().distribution(x, allowed)
        return self.asked[1]

    def distributions(self, xs: FloatArray) -> list[Distribution]:
        return [self.distribution(x) for x in xs]


class _ScalesItsInput(Banditron):
    def update(self, outcome: Outcome) -> None:
        super().update(outcome)
        outcome.x[:] = outcome.x * 2


class _HandsOutItsArrays(Banditron):
    def state(self) -> State:
        return {**super().state(), "weights": self._weights}


class _HandsOutItsLabels(Banditron):
    def state(self) -> State:
        active = self._active
        active.setflags(write=True)
        return {**super().state(), "active": active}


class _TakesAnything(Banditron):
    def _check_outcome(self, outcome: Outcome) -> None:
        pass


class _KeepsSilent(Banditron):
    def set_rates(self, rho_0: float, rho_1: float) -> None:
        pass


class _DescribesAnything(Banditron):
    n_label_features = 2

    def describe_label(self, label: int, features: FloatArray) -> None:
        pass


class _ClaimsRates(Banditron):
    takes_rates = True

    def set_rates(self, rho_0: float, rho_1: float) -> None:
        pass


class _ForgetsItsGamma(Banditron):
    def state(self) -> State:
        return {**super().state(), "gamma": 0.3}


class _LoadsWhatever(Banditron):
    @classmethod
    def from_state(cls, state: Mapping[str, StateValue]) -> Self:
        return cls(len(state), 4)


class _LoadsInfinity(Banditron):
    @classmethod
    def from_state(cls, state: Mapping[str, StateValue]) -> Self:
        weights = state["weights"]
        assert isinstance(weights, np.ndarray)
        self = super().from_state({**state, "weights": np.zeros_like(weights)})
        self._weights = weights.astype(np.float64)
        return self


class _IgnoresAllowed(Banditron):
    def distribution(self, x: FloatArray, allowed: Sequence[int] | None = None) -> Distribution:
        super().distribution(x, allowed)
        return super().distribution(x)


class _NeverRetires(Banditron):
    def retire_label(self, label: int) -> None:
        self._check_label(label)


class _OtherBatch(Banditron):
    def distributions(self, xs: FloatArray) -> list[Distribution]:
        return [self.distribution(np.nextafter(x, 0) * -1) for x in xs]


class _Overflows(Banditron):
    def update(self, outcome: Outcome) -> None:
        self._check_outcome(outcome)
        with np.errstate(all="ignore"):
            self._weights[outcome.label] += outcome.x / np.float64(outcome.propensity) ** 2


@pytest.mark.parametrize(
    ("check", "broken"),
    [
        (checks.check_distribution_is_one, _NotOne),
        (checks.check_exploration_floor, _NoFloor),
        (checks.check_deciding_is_pure, _LearnsWhileDeciding),
        (checks.check_deciding_is_pure, _AnswersWithOneArray),
        (checks.check_learning_keeps_to_itself, _ScalesItsInput),
        (checks.check_seed_decides, _HandsOutItsArrays),
        (checks.check_seed_decides, _HandsOutItsLabels),
        (checks.check_bad_instances_refused, _TakesAnything),
        (checks.check_bad_outcomes_refused, _TakesAnything),
        (checks.check_unsupported_is_said, _KeepsSilent),
        (checks.check_rates_are_used, _ClaimsRates),
        (checks.check_bad_label_features_refused, _DescribesAnything),
        (checks.check_state_round_trip, _ForgetsItsGamma),
        (checks.check_bad_states_refused, _LoadsWhatever),
        (checks.check_infinite_states_refused, _LoadsInfinity),
        (checks.check_allowed_is_kept, _IgnoresAllowed),
        (checks.check_labels_come_and_go, _NeverRetires),
        (checks.check_batch_equals_single, _OtherBatch),
        (checks.check_extremes_stay_finite, _Overflows),
    ],
)
def test_check_notices(check: Check, broken: type[Banditron]) -> None:
    """A check that passes everything protects nothing: each one fails on a learner made wrong."""
    # Infinite weights first make numpy warn, which here is an error too.
    with pytest.raises((AssertionError, RuntimeWarning)):
        check(lambda n_features, n_labels: broken(n_features, n_labels, gamma=0.2))


def test_draw_check_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chi-square check fails when the draw prefers a label."""
    monkeypatch.setattr(checks, "draw", lambda decision, u: draw(decision, u * 0.9))
    with pytest.raises(AssertionError, match="chi-square"):
        checks.check_draws_follow_the_distribution(CASES["banditron"])
