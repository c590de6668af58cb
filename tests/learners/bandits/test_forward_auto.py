"""Which of two learners decides: the one that predicts clicks better."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from learners import Forward, ForwardAuto, ForwardSoftmax, Outcome, ParameterError, StateError, draw
from learners.bandits.forward_auto import LEAD, MOST_AHEAD
from learners.noise.rates import NOTHING_KNOWN
from learners.states import State, state_array
from learners.validation import FloatArray

D, K = 3, 4
#: How probably each label is clicked for an instance.
Clicks = Callable[[FloatArray], FloatArray]


def one_right(x: FloatArray) -> FloatArray:
    """Return the chances where the largest of four sums says which label is right."""
    right = int((np.array([[2, 0, 0], [0, 2, 0], [0, 0, 2], [-1, -1, -1]]) @ x).argmax())
    chances = np.full(K, 0.1)
    chances[right] = 0.9
    return chances


def rarely_right(x: FloatArray) -> FloatArray:
    """Return the chances where each label is right or not by itself, and mostly none."""
    return np.where(np.array([x[0], x[1], x[2], -x[0]]) > 1.0, 0.22, 0.02)


def play(
    learner: ForwardAuto, clicks: Clicks, rounds: int, *others: Any, seed: int = 0, **change: Any
) -> None:
    """Play rounds that the learner decides; let the others learn from them too."""
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        x = rng.normal(size=D)
        distribution = learner.distribution(x)
        label = draw(distribution, rng.random())
        feedback = int(rng.random() < clicks(x)[label])
        propensity = float(distribution.probabilities[label])
        outcome = Outcome(x, label, distribution.greedy, propensity, feedback)._replace(**change)
        for each in (learner, *others):
            each.update(outcome)


def lead(learner: ForwardAuto) -> tuple[float, float]:
    """Return whether several labels seem right, and the sum that says so."""
    several, total = state_array(learner.state(), "label_by_label", (2,)).tolist()
    return several, total


def same(one: Any, other: Any) -> bool:
    """Whether two learners decide the same, one by one and together."""
    xs = np.random.default_rng(9).normal(size=(20, D))
    pairs = zip(one.distributions(xs), other.distributions(xs), strict=True)
    return all(
        a.greedy == b.greedy and a.probabilities.tobytes() == b.probabilities.tobytes()
        for a, b in [*pairs, (one.distribution(xs[0], [1, 2]), other.distribution(xs[0], [1, 2]))]
    )


def test_where_one_label_is_right_the_softmax_decides() -> None:
    """Bit for bit as it would alone; and it is ahead by no more than what is counted."""
    options: Any = {"rho_0": 0.15, "rho_1": 0.25, "gain": 15.0, "gamma": 0.1, "block_size": 8}
    options["n_waves"] = 20
    learner = ForwardAuto(D, K, **options, drift=1e-4, seed=5)
    alone = ForwardSoftmax(D, K, **options, drift=1e-4, seed=5)
    play(learner, one_right, 2000, alone)
    assert same(learner, alone)
    assert not learner.label_by_label
    assert -MOST_AHEAD <= lead(learner)[1] < -20.0
    assert learner.label_rates[0].tolist() == alone.label_rates[0].tolist()
    assert (learner.rho_0, learner.rho_1) == (alone.rho_0, alone.rho_1) != (0.15, 0.25)
    assert learner.label_rate_errors[1].tolist() == alone.label_rate_errors[1].tolist()


def test_where_several_are_right_forward_decides() -> None:
    """As it would alone, had it learned from the same rounds; and no rates are known then."""
    options: Any = {"gain": 15.0, "gamma": 0.1, "block_size": 8, "n_waves": 20}
    learner = ForwardAuto(D, K, **options, drift=1e-4, seed=5)
    alone = Forward(D, K, **options, drift=1e-4, seed=5)
    play(learner, rarely_right, 1500, alone)
    assert learner.label_by_label
    assert same(learner, alone)
    assert [each.tolist() for each in learner.label_rate_errors] == [[NOTHING_KNOWN] * K] * 2


def test_what_is_summed() -> None:
    """As the formula says: what either would have made of the click, before it learned from it."""
    learner = ForwardAuto(D, K, n_waves=0)
    one, several = ForwardSoftmax(D, K, n_waves=0), Forward(D, K, n_waves=0)
    rng, total = np.random.default_rng(2), 0.0
    for _ in range(300):
        x, label = rng.normal(size=D), int(rng.integers(K))
        feedback = int(rng.random() < rarely_right(x)[label])
        outcome = Outcome(x, label, 0, 0.25, feedback)
        first, second = one.take_in(outcome), several.take_in(outcome)
        assert first is not None
        second = min(max(second, 0.0), 1.0)
        spread = max(first * (1 - first), second * (1 - second), 0.05)
        total += ((feedback - first) ** 2 - (feedback - second) ** 2) / (2 * spread)
        total = min(max(total, -MOST_AHEAD), LEAD)
        learner.update(outcome)
        assert lead(learner)[1] == pytest.approx(total)


def with_sum(learner: ForwardAuto, total: float, *, several: bool) -> ForwardAuto:
    """Return the learner with another sum."""
    state = learner.state() | {"label_by_label": np.array([float(several), total])}
    return ForwardAuto.from_state(state)


def test_who_leads_leads_until_all_of_it_is_lost() -> None:
    """Nobody takes turns while both are about as good."""
    learner = ForwardAuto(D, K, n_waves=0)
    for total, several, then in (
        (19.0, False, False),
        (LEAD, False, True),
        (19.0, True, True),
        (1.0, True, True),
        (0.0, True, False),
        (-5.0, True, False),
    ):
        changed = with_sum(learner, total, several=several)
        changed._count(0.5, 0.5, 1)
        assert changed.label_by_label is then


def test_rounds_of_others_teach_both_and_say_nothing_of_them() -> None:
    """Who shows what he knows to be right makes every label look right."""
    learner = ForwardAuto(D, K, n_waves=0)
    softmax, forward = ForwardSoftmax(D, K, n_waves=0), Forward(D, K, n_waves=0)
    play(learner, rarely_right, 1500, softmax, forward, elsewhere=True)
    assert lead(learner) == (0.0, 0.0)
    assert same(learner, softmax)
    assert same(with_sum(learner, LEAD, several=True), forward)


def test_nothing_is_learned_while_nothing_counts_clicks() -> None:
    """By none of the two: items would all come to look bad."""
    learner = ForwardAuto(D, K, n_waves=0)
    play(learner, one_right, 2500)
    play(learner, lambda _: np.zeros(K), 2500, seed=1)
    assert learner.silent
    before = with_sum(learner, LEAD, several=True)
    play(learner, lambda _: np.zeros(K), 50, seed=2)
    assert same(with_sum(learner, LEAD, several=True), before)


def test_labels_come_and_go_in_both() -> None:
    """Whoever decides knows of all of them, and of what they are like."""
    learner = ForwardAuto(D, K, n_waves=0, n_label_features=2)
    assert learner.n_label_features == 2
    assert learner.add_labels(2) == K
    learner.describe_label(K, np.array([1.0, 2.0]))
    learner.retire_label(0)
    learner.retire_label(1)
    learner.restore_label(1)
    for each in (learner, with_sum(learner, LEAD, several=True)):
        probabilities = each.distribution(np.ones(D)).probabilities
        assert (probabilities > 0).tolist() == [False] + [True] * 5
    with pytest.raises(ParameterError, match="n_labels x features x block_size"):
        learner.add_labels(200_000)
    assert learner.n_labels == K + 2
    learner.update(Outcome(np.ones(D), K + 1, 1, 0.2, 1))


def test_rates_are_told_to_both() -> None:
    """Known ones correct whoever decides."""
    learner = ForwardAuto(2, 2, n_waves=0)
    for i in range(200):
        learner.update(Outcome(np.ones(2), 0, 0, 0.5, feedback=int(i % 5 < 2), elsewhere=True))
        learner.update(Outcome(np.ones(2), 1, 0, 0.5, feedback=i % 2, elsewhere=True))
    several = with_sum(learner, LEAD, several=True)
    assert several.distribution(np.ones(2)).greedy == 1
    sure = np.zeros(2)
    for each in (learner, several):
        each.set_label_rates(np.array([0.02, 0.45]), np.array([0.1, 0.1]), sure, sure)
        assert each.label_rates[0] == pytest.approx([0.02, 0.45])
    assert several.distribution(np.ones(2)).greedy == 0
    several.set_rates(0.1, 0.2)
    assert several.distribution(np.ones(2)).greedy == 1
    assert several.label_rates[1] == pytest.approx([0.2, 0.2])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"label_by_label": np.array([2.0, 0.0])}, "label_by_label"),
        ({"label_by_label": np.array([1.0, LEAD + 1])}, "label_by_label"),
        ({"label_by_label": np.array([0.0, -MOST_AHEAD - 1])}, "label_by_label"),
        ({"gain": 3.0}, "gain"),
        ({"forward.seed": 4}, "forward.seed"),
        ({"softmax.drift": 0.5}, "softmax.drift"),
        ({"forward.active": np.array([True, True, True, False])}, "forward.active"),
        ({"softmax.kind": "forward"}, "kind"),
        ({"rho_0": 2.0}, "rho_0"),
    ],
)
def test_a_state_whose_parts_do_not_belong_together_is_refused(change: State, said: str) -> None:
    """Nothing in it is taken on trust."""
    state = ForwardAuto(D, K, n_waves=0).state()
    assert change.keys() <= state.keys()
    with pytest.raises(StateError, match=said):
        ForwardAuto.from_state(state | change)
