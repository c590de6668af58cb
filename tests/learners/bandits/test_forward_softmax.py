"""ForwardSoftmax."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners import (
    Forward,
    ForwardSoftmax,
    InputError,
    Outcome,
    ParameterError,
    StateError,
    draw,
)
from learners.assertions import state_digest
from learners.bandits.rate_beliefs import DOUBTED_MISSED
from learners.bandits.shortfall import Change
from tests.learners.bandits.streams import (
    accuracy_on_crossed_signs,
    error_on_three_groups,
    error_where_most_are_missed,
    taught,
    update_alone,
)
from tests.reference.bandits import SlowForwardSoftmax

SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize(("block", "drift"), [(1, 0.0), (3, 0.01), (12, 0.0)])
@given(seed=SEEDS)
def test_equals_slow_twin(block: int, drift: float, seed: int) -> None:
    """The same chances and rates as with whole matrices."""
    rng = np.random.default_rng(seed)
    fast = ForwardSoftmax(4, 3, block_size=block, n_waves=7, seed=5, drift=drift)
    slow = SlowForwardSoftmax(4, 3, block, 7, 5, drift)
    for x in rng.normal(size=(40, 4)):
        np.testing.assert_allclose(fast.relevance(x), slow.chances(x), rtol=1e-6, atol=1e-12)
        rates = np.array([slow.told.of(label) for label in range(3)])
        np.testing.assert_allclose(np.transpose(fast.label_rates), rates, rtol=1e-6, atol=1e-9)
        label, bit, shown_with = int(rng.integers(3)), int(rng.integers(2)), 1 - rng.random()
        elsewhere = bool(rng.integers(2))
        fast.update(Outcome(x, label, label, shown_with, bit, elsewhere))
        slow.update(x, label, bit, shown_with if elsewhere else None)
        leads = np.array([0, *slow.behind, slow.expected])
        found = np.asarray(fast.state()["usual_leads"])
        np.testing.assert_allclose(found, leads, rtol=1e-6, atol=1e-9)


def test_trace_by_hand() -> None:
    """One click of one of two labels, with the rates known: slopes of .6 / 4, h of 10 and 1."""
    learner = ForwardSoftmax(1, 2, n_waves=0)
    learner.set_rates(0.2, 0.2)
    learner.update(Outcome(np.array([2.0]), 0, 0, 0.5, 1))
    clicked = 0.2 + 0.6 * 0.5
    total = clicked * (1 - clicked) + 2 * 0.15**2 * 11
    gap = 2 * 0.15 * 11 * (1 - clicked) / total
    right = 1 / (1 + (1 - gap / 1024) ** 1024)
    # Two thirds of the instance are the centre now; this one is as far from it as that was from 0.
    seen = np.array([4 / 3 + 2.0])
    np.testing.assert_allclose(learner.relevance(seen), [right, 1 - right], rtol=1e-12)
    shares = learner.distribution(seen).probabilities
    # Label 1 was never shown: its gap counts 20 * .6 sqrt(0 + 1) times.
    np.testing.assert_allclose(shares[1], 1 / (2 + 12 * (2 * right - 1)), rtol=1e-12)


@given(seed=SEEDS, bit=st.integers(0, 1))
def test_a_click_speaks_of_all_labels(seed: int, bit: int) -> None:
    """A click makes the shown label likelier against each of its rivals; none does the reverse."""
    learner = taught(ForwardSoftmax(3, 4, n_waves=5), seed)
    x = np.random.default_rng(seed + 1).normal(size=3)
    before = np.log(learner.relevance(x))
    update_alone(learner, Outcome(x, 1, 0, 1e-9, bit))
    moved = (np.log(learner.relevance(x)) - before) * (1 if bit else -1)
    assert (moved[1] >= moved[[0, 2, 3]] - 1e-12).all()


@given(seed=SEEDS, bit=st.integers(0, 1))
def test_one_round_is_bounded(seed: int, bit: int) -> None:
    """However surely a round was thought to go the other way, no chance becomes certain by it."""
    learner = taught(ForwardSoftmax(3, 2, n_waves=5, drift=0.01), seed, 200)
    x = np.random.default_rng(seed + 1).normal(size=3)
    scores = np.log(learner.relevance(x))
    learner.update(Outcome(x, 1, 0, 1e-9, bit))
    after = np.log(learner.relevance(x))
    # sqrt(h) / (2 sqrt(v)) with h at most 15.03 and v at least .01.
    assert np.abs(np.diff(after) - np.diff(scores)).max() < 2 * np.sqrt(15.03 / 0.01)


@pytest.mark.parametrize(("n_waves", "more", "apart"), [(0, 0.05, 0.1), (26, 0.03, 0.2)])
def test_is_not_misled_by_the_noise_of_each_label(n_waves: int, more: float, apart: float) -> None:
    """Not told that a label is clicked by mistake in most rounds, it finds out."""
    rho_0 = np.array([0.05, 0.2, 0.75])
    alone, told = (ForwardSoftmax(4, 3, n_waves=n_waves) for _ in range(2))
    told.set_label_rates(rho_0, np.full(3, 0.1), np.zeros(3), np.zeros(3))
    error, known, misled = (
        error_on_three_groups(learner, rho_0, spread=0.5, n_rounds=6_000)
        for learner in (alone, told, Forward(4, 3, n_waves=0))
    )
    assert error < known + more
    assert misled > 1.5 * error
    found_0, found_1 = alone.label_rates
    assert found_0[2] - found_0[:2].max() > apart
    np.testing.assert_allclose(found_1, 0.1, atol=0.05)
    assert (alone.rho_0, alone.rho_1) == pytest.approx((found_0.mean(), found_1.mean()))


@pytest.mark.parametrize("elsewhere", [True, False])
def test_learns_from_the_log_of_somebody_who_is_mostly_right(elsewhere: bool) -> None:
    """Clicks on what he showed do not pass for false ones, if it is said that he decided."""
    rng, learner = np.random.default_rng(0), ForwardSoftmax(6, 10, n_waves=0)
    corners = rng.normal(size=(10, 6))
    for truth in rng.integers(10, size=3_000).tolist():
        best = truth if rng.random() < 0.9 else int(rng.integers(10))
        label = best if rng.random() < 0.95 else int(rng.integers(10))
        clicked = int(rng.random() < (0.6 if label == truth else 0.2))
        share = 0.955 if label == best else 0.005
        x = corners[truth] + 0.4 * rng.normal(size=6)
        learner.update(Outcome(x, label, label, share, clicked, elsewhere))
    greedy = [decision.greedy for decision in learner.distributions(corners)]
    assert (greedy == list(range(10))) == elsewhere
    assert (learner.rho_0 < 0.35) == elsewhere


def test_comes_back_from_a_time_without_clicks() -> None:
    """A counter that was broken for thousands of rounds: rates that are none do not run away."""
    learner = ForwardSoftmax(2, 3, n_waves=0)
    x = np.array([1.0, 0.0])
    for bit in (0, 1):
        for i in range(3_000):
            learner.update(Outcome(x, i % 3, 0, 0.5, bit))
        state = learner.state()
        common, own = np.asarray(state["common_rates"])[:2], np.asarray(state["own_rates"])[:, :2]
        # Those of labels that were not shown last may be a step beyond their bounds.
        for rates in (common, common + own):
            assert ((rates >= -0.05) & (rates <= 0.85)).all()


def test_known_rates_stay() -> None:
    """Rates that were set as known are what every label has, whatever clicks say."""
    learner = ForwardSoftmax(2, 3)
    learner.set_rates(0.1, 0.3)
    taught(learner, 3, 200)
    assert [rates.tolist() for rates in learner.label_rates] == [[0.1] * 3, [0.3] * 3]
    learner.add_label()
    taught(learner, 4, 200)
    assert [rates.tolist() for rates in learner.label_rates] == [[0.1] * 4, [0.3] * 4]


def test_uncertain_rates_are_a_start() -> None:
    """Estimates are taken as they are; clicks move those that may be wrong, and only those."""
    learner, sure = ForwardSoftmax(2, 3), np.zeros(3)
    rho_0, rho_1 = np.array([0.1, 0.2, 0.4]), np.array([0.1, 0.2, 0.3])
    learner.set_label_rates(rho_0, rho_1, np.array([0.0, 0.1, 9.0]), sure)
    np.testing.assert_allclose(learner.label_rates, [rho_0, rho_1], rtol=1e-12)
    taught(learner, 3, 100)
    np.testing.assert_allclose(learner.label_rates[1], rho_1, rtol=1e-12)
    moved = np.abs(learner.label_rates[0] - rho_0)
    assert moved[0] < 1e-12
    assert moved[1:].min() > 1e-3


def test_a_late_click_on_a_retired_label_counts() -> None:
    """It could be right when it was shown: its row learns, and it stays out of the choice."""
    learner = taught(ForwardSoftmax(2, 3, n_waves=0), 4)
    learner.retire_label(2)
    x = np.array([1.0, 2.0])
    assert learner.relevance(x)[2] == 0.0
    before = np.asarray(learner.state()["weights"])[2]
    learner.update(Outcome(x, 2, 0, 0.5, 1))
    assert (np.asarray(learner.state()["weights"])[2] != before).any()
    assert learner.distribution(x).probabilities[2] == 0.0
    learner.restore_label(2)
    assert learner.relevance(x)[2] > 0


def test_a_new_label_begins_as_the_others() -> None:
    """It has the mean of their weights and what is known of all rates, and is tried at once.

    Those of a label that is no more count for nothing.
    """
    learner = taught(ForwardSoftmax(3, 3, n_waves=5), 7, 400)
    learner.retire_label(2)
    learner.set_rates(0.1, 0.2)
    weights = np.asarray(learner.state()["weights"])
    assert learner.add_label() == 3
    np.testing.assert_allclose(np.asarray(learner.state()["weights"])[3], weights[:2].mean(0))
    assert [float(rates[3]) for rates in learner.label_rates] == pytest.approx([0.1, 0.2])
    x = np.array([1.0, -0.5, 2.0])
    chances = learner.relevance(x)
    share = 1 / (3 + 20 * 0.7 * (chances.max() - chances[3]))
    np.testing.assert_allclose(learner.distribution(x).probabilities[3], share, rtol=1e-9)


def test_waves_bend() -> None:
    """What no plane parts (right iff both inputs have one sign) is learned with waves only."""
    assert accuracy_on_crossed_signs(ForwardSoftmax(2, 2, n_waves=63)) > 0.9
    assert accuracy_on_crossed_signs(ForwardSoftmax(2, 2, n_waves=0)) < 0.75


def played(
    learner: ForwardSoftmax,
    n_rounds: int,
    seed: int,
    *,
    rho: float,
    turned: bool = False,
    dead: bool = False,
) -> float:
    """Let a learner find out which of three corners is near, and return how often it was wrong.

    Where `turned`, the next corner's label is right; where `dead`, no click is counted.
    """
    rng, wrong = np.random.default_rng(seed), 0
    for _ in range(n_rounds):
        corner = int(rng.integers(3))
        x = rng.normal(size=4) * 0.4
        x[corner] += 1.0
        truth = (corner + turned) % 3
        decision = learner.distribution(x)
        label = draw(decision, rng.random())
        bit = int((label == truth) != (rng.random() < rho) and not dead)
        share = float(decision.probabilities[label])
        learner.update(Outcome(x, label, decision.greedy, share, bit))
        wrong += label != truth
    return wrong / n_rounds


def test_drift_follows() -> None:
    """With drift, labels that changed places are learned anew though rates are known; else not."""

    def error(drift: float) -> float:
        learner = ForwardSoftmax(4, 3, n_waves=0, drift=drift)
        learner.set_rates(0.3, 0.3)
        played(learner, 10_000, 1, rho=0.3)
        return played(learner, 4_000, 2, rho=0.3, turned=True)

    assert error(1e-3) < 0.4
    assert error(0.0) > 0.5


@pytest.mark.parametrize(("rho", "turned"), [(0.3, False), (0.1, True)])
def test_begins_anew_where_clicks_stay_away(rho: float, turned: bool) -> None:
    """Noise that rose, or labels that changed places, after 5,000 rounds: learned within 2,000."""
    learner = ForwardSoftmax(4, 3, n_waves=0)
    assert played(learner, 5_000, 1, rho=0.1) < 0.1
    assert learner.restarts == 0
    played(learner, 2_000, 2, rho=rho, turned=turned)
    assert learner.restarts == 1
    assert played(learner, 3_000, 3, rho=rho, turned=turned) < 0.1
    assert abs(learner.rho_0 - rho) < 0.15
    assert abs(learner.rho_1 - rho) < 0.1
    assert learner.restarts == 1


def test_learns_nothing_from_a_dead_counter() -> None:
    """Once not even false clicks come it stays as it is, and goes on with the first that comes."""
    learner = ForwardSoftmax(4, 3, n_waves=0)
    played(learner, 5_000, 1, rho=0.2)
    assert played(learner, 300, 2, rho=0.2, dead=True) < 0.12
    assert learner.silent
    before = learner.state()
    assert played(learner, 3_000, 3, rho=0.2, dead=True) < 0.12
    np.testing.assert_equal(learner.state(), before)
    assert ForwardSoftmax.from_state(before).silent
    learner.update(Outcome(np.ones(4), 1, 1, 0.5, 1))
    assert not learner.silent
    assert learner.state()["counts"].sum() == before["counts"].sum() + 1
    assert played(learner, 1_000, 4, rho=0.2) < 0.12
    assert learner.restarts == 0


def test_known_rates_are_not_doubted() -> None:
    """Of rates that were set and do not hold, clicks lack for ever: nothing begins anew."""
    learner = ForwardSoftmax(4, 3, n_waves=0)
    learner.set_rates(0.0, 0.0)
    played(learner, 5_000, 1, rho=0.3)
    assert learner.restarts == 0


def test_estimated_rates_are_doubted() -> None:
    """One estimate, however sure, must not end the search for changes: it is of clicks before."""
    learner = ForwardSoftmax(4, 3, n_waves=0)
    played(learner, 3_000, 1, rho=0.1)
    learner.set_label_rates(*np.full((2, 3), 0.1), *np.full((2, 3), 0.003))
    assert played(learner, 2_000, 2, rho=0.1) < 0.1
    assert learner.restarts == 0
    played(learner, 2_000, 3, rho=0.1, turned=True)
    assert learner.restarts == 1
    assert played(learner, 3_000, 4, rho=0.1, turned=True) < 0.1


@pytest.mark.parametrize("change", list(Change))
def test_what_is_doubted_depends_on_what_has_changed(
    change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise: the rates, missed clicks more. Labels: all but a tenth of the sharpened scores."""
    learner, twin = ForwardSoftmax(4, 3, n_waves=0), ForwardSoftmax(4, 3, n_waves=0)
    for each in (learner, twin):
        played(each, 3_000, 1, rho=0.0)
    monkeypatch.setattr(learner._shortfall, "observe", lambda *_, **__: change)
    for each in (learner, twin):
        each.update(Outcome(np.ones(4), 1, 1, 0.5, 1))
    after, before, first = (
        {name: np.asarray(value) for name, value in each.state().items()}
        for each in (learner, twin, ForwardSoftmax(4, 3, n_waves=0))
    )
    for told in ("", "told_"):
        np.testing.assert_array_equal(after[told + "own_rates"], first[told + "own_rates"])
        variances = first[told + "common_covariance"].copy()
        variances[1, 1] = DOUBTED_MISSED**2
        np.testing.assert_allclose(after[told + "common_covariance"], variances, rtol=1e-12)
        np.testing.assert_array_equal(after[told + "common_rates"][:2], [0.2, 0.2])
    sharpness = before["common_rates"][2]
    assert sharpness > 1.0
    if change is Change.NOISE:
        assert after["common_rates"][2] == sharpness
        np.testing.assert_array_equal(after["covariances"], before["covariances"])
        np.testing.assert_array_equal(after["weights"], before["weights"])
    else:
        assert after["common_rates"][2] == 1.0
        np.testing.assert_array_equal(after["covariances"], first["covariances"])
        scores = 0.1 * sharpness * before["weights"]
        np.testing.assert_allclose(after["weights"], scores, rtol=1e-12)
    for name in ("counts", "centre"):
        np.testing.assert_array_equal(after[name], before[name])


def test_noise_that_comes_and_goes_costs_no_weights() -> None:
    """Seven changes between hardly any noise and much: in the end as few mistakes as without."""
    learner = ForwardSoftmax(4, 3, n_waves=0)
    wrong = [played(learner, 2_000, seed, rho=(0.05, 0.3)[seed % 2]) for seed in range(8)]
    assert learner.restarts >= 3
    assert max(wrong[4:]) < 0.09


def test_told_rates_follow_noise_that_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Protects evaluations, of which .14 were missing; what is learned does not change by it."""
    learner, deaf = ForwardSoftmax(4, 3, n_waves=0), ForwardSoftmax(4, 3, n_waves=0)
    monkeypatch.setattr(deaf._told._surplus, "observe", lambda *_, **__: False)
    for each in (learner, deaf):
        played(each, 5_000, 1, rho=0.3)
        assert each.restarts == 0
        played(each, 1_000, 2, rho=0.05)
    assert (learner.restarts, deaf.restarts) == (1, 0)
    assert abs(learner.rho_1 - 0.05) < 0.03
    assert deaf.rho_1 > 0.1
    state = deaf.state()
    for name, value in learner.state().items():
        if not name.startswith("told_"):
            np.testing.assert_array_equal(value, state[name])


def test_how_sure_the_softmax_is_outlasts_noise_that_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only rates are found anew: that scores are too small, or too large, is known already."""
    learner = ForwardSoftmax(4, 3, n_waves=0)
    played(learner, 6_000, 1, rho=0.3)
    sharpness = learner._told.sharpness
    assert sharpness > 1.1
    monkeypatch.setattr(learner._told._surplus, "observe", lambda *_, **__: True)
    played(learner, 1, 2, rho=0.3)
    assert learner._told.sharpness == pytest.approx(sharpness, abs=0.02)


def test_somebody_who_explores_much_and_is_right_brings_no_noise_that_falls() -> None:
    """Protects shadows: his best labels are right more often than he draws them.

    It began anew in every 1,100 rounds, and no value was trusted any more.
    """
    rng, learner = np.random.default_rng(0), ForwardSoftmax(6, 10, n_waves=0)
    corners = rng.normal(size=(10, 6))
    for truth in rng.integers(10, size=3_000).tolist():
        label = truth if rng.random() < 0.7 else int(rng.integers(10))
        share = 0.73 if label == truth else 0.03
        x = corners[truth] + rng.normal(size=6)
        learner.update(Outcome(x, label, label, share, int(label == truth), elsewhere=True))
    assert learner.restarts == 0


def test_where_it_begins_anew_no_clicks_are_too_many() -> None:
    """Protects what it relearns: it expects few clicks then, and many come."""
    learner = ForwardSoftmax(4, 3, n_waves=0)
    played(learner, 4_000, 1, rho=0.1)
    learner._told._surplus._rounds = 1_000
    learner._begin_anew()
    assert np.asarray(learner.state()["told_surplus"]).tolist() == [0.0, 0.0, 0.0]


def test_loaded_after_noise_has_fallen_it_doubts_as_the_saved_one_does() -> None:
    """Protects intervals of evaluations, and workers that load a snapshot after such an alarm."""
    saved = ForwardSoftmax(2, 3, n_waves=0)
    saved._told._surplus.alarms = 1
    saved._told.doubt_rates()
    taught(saved, 0, 20)
    loaded = ForwardSoftmax.from_state(saved.state())
    assert loaded.restarts == 1
    np.testing.assert_array_equal(loaded.label_rate_errors, saved.label_rate_errors)
    digests = {state_digest(taught(each, 1, 100).state()) for each in (saved, loaded)}
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rho_0", 1.0), ("rho_1", -0.1), ("exploration", "ucb"), ("gain", -1.0), ("gamma", 1.1),
        ("drift", -1e-9), ("block_size", -1), ("block_size", 1025), ("n_waves", -1),
        ("n_waves", 65_537), ("seed", -1), ("seed", 0.5),
    ],
)  # fmt: skip
def test_bad_options_are_refused(name: str, value: object) -> None:
    """Each option out of range, or of the wrong type, is named."""
    with pytest.raises(ParameterError, match=name):
        ForwardSoftmax(2, 2, **{name: value})  # type: ignore[arg-type]


def test_too_many_weights_are_refused() -> None:
    """Size is bounded from the start and when a label is added, which then changes nothing."""
    with pytest.raises(ParameterError, match="features x block_size"):
        ForwardSoftmax(100_000, 2, block_size=64)
    with pytest.raises(ParameterError, match="n_labels x features"):
        ForwardSoftmax(998, 4_001, n_waves=0, block_size=1)
    learner = ForwardSoftmax(998, 4_000, n_waves=0, block_size=1)
    before = state_digest(learner.state())
    with pytest.raises(ParameterError, match="n_labels x features: expected at most 4,000,000"):
        learner.add_label()
    assert state_digest(learner.state()) == before


def test_a_block_that_fits_is_chosen() -> None:
    """The largest shapes that a model may have work by themselves."""
    assert ForwardSoftmax(784, 10).block_size == 32
    assert ForwardSoftmax(1_000, 100).block_size == 32
    assert ForwardSoftmax(4_096, 256).block_size == 32
    assert ForwardSoftmax(200_000, 2).block_size == 16


def test_bad_rates_are_refused() -> None:
    """Common rates that sum past 1, and arrays of another shape, are named; nothing changes."""
    learner = ForwardSoftmax(2, 3, rho_0=0.1)
    before = state_digest(learner.state())
    with pytest.raises(InputError, match="rho_0"):
        learner.set_rates(0.6, 0.6)
    good = np.zeros(3)
    with pytest.raises(InputError, match=r"rho_1: expected a float64 array \(3,\)"):
        learner.set_label_rates(good, np.zeros(2), good, good)
    assert state_digest(learner.state()) == before


@pytest.mark.parametrize(
    "name",
    [
        "counts",
        "covariances",
        "common_rates",
        "common_covariance",
        "own_rates",
        "told_common_rates",
        "told_common_covariance",
        "told_own_rates",
        "told_surplus",
        "shortfall",
        "shortfall_run",
    ],
)
def test_states_out_of_range_are_refused(name: str) -> None:
    """A count or a variance below 0 in a state is named."""
    state = ForwardSoftmax(2, 3, n_waves=0).state()
    array = np.asarray(state[name])
    with pytest.raises(StateError, match=name):
        ForwardSoftmax.from_state({**state, name: np.full(array.shape, -1.0)})


def test_rates_are_not_blamed_for_labels_that_mingle() -> None:
    """Where labels overlap p is too sure: what it misses is not told as missed clicks."""
    learner, rng = ForwardSoftmax(3, 3), np.random.default_rng(0)
    for _ in range(4_000):
        truth = int(rng.integers(3))
        x = np.eye(3)[truth] + rng.normal(size=3)
        shown = learner.distribution(x)
        label = draw(shown, rng.random())
        bit = int((label == truth) != (rng.random() < 0.2))
        propensity = float(shown.probabilities[label])
        learner.update(Outcome(x, label, shown.greedy, propensity, bit))
    for rates, errors in zip(learner.label_rates, learner.label_rate_errors, strict=True):
        assert (np.abs(rates - 0.2) < 2 * errors).all()
    used, errors = learner._rates.each[1], learner._rates.errors[1]
    assert (used - 0.2 > 3 * errors).all()


def test_one_label_may_be_missed_far_more_often_than_others() -> None:
    """Protects its evaluation: told as .25, the doubts for learning hold what labels share."""
    learner, rng = ForwardSoftmax(4, 3, n_waves=0), np.random.default_rng(1)
    missed = np.array([0.6, 0.1, 0.1])
    for _ in range(4_000):
        corner = int(rng.integers(3))
        x = rng.normal(size=4) * 0.2
        x[corner] += 1.0
        decision = learner.distribution(x)
        label = draw(decision, rng.random())
        chance = 1.0 - missed[label] if label == corner else 0.05
        share = float(decision.probabilities[label])
        learner.update(Outcome(x, label, decision.greedy, share, int(rng.random() < chance)))
    told, errors = learner.label_rates[1], learner.label_rate_errors[1]
    assert np.abs(told - missed).max() < 0.15
    assert (np.abs(told - missed) < 3 * errors).all()


@pytest.mark.parametrize(("before", "more", "times"), [(20, 5, 1.0), (20, 32, 2.0), (90, 90, 4.0)])
def test_more_labels_begin_with_more_doubt(before: int, more: int, times: float) -> None:
    """Protects many labels from steps that are a K-th of what few have; also those added later."""
    learner = taught_rounds(ForwardSoftmax(3, before, n_waves=0, drift=1.0), 40)
    learner.add_labels(more)
    again = ForwardSoftmax.from_state(learner.state())
    for each in (learner, again):
        taught_rounds(each, 40)
    assert state_digest(again.state()) == state_digest(learner.state())
    fresh = ForwardSoftmax(3, before + more, n_waves=0).state()["covariances"]
    assert np.asarray(fresh)[0, 0, 0] == 10.0 * times
    assert np.asarray(fresh)[0, 4, 4] == 1.0


@pytest.mark.parametrize("n_waves", [0, 27])
def test_learns_which_labels_are_usual(n_waves: int) -> None:
    """Protects a linear one, which made 23 % mistakes where the usual label alone made 6 %."""
    rng = np.random.default_rng(1)
    corners = 3.0 * rng.normal(size=(3, 2))
    learner, wrong = ForwardSoftmax(2, 3, n_waves=n_waves), 0
    for right in rng.choice(3, 4_000, p=[0.94, 0.05, 0.01]).tolist():
        decision = learner.distribution(x := corners[right] + rng.normal(size=2))
        label = draw(decision, rng.random())
        wrong += label != right
        clicked = int(rng.random() < (0.85 if label == right else 0.15))
        share = float(decision.probabilities[label])
        learner.update(Outcome(x, label, decision.greedy, share, clicked))
    assert wrong < 0.06 * 4_000


def taught_rounds(learner: ForwardSoftmax, n_rounds: int) -> ForwardSoftmax:
    """Show each label in turn; the first three are clicked in one round of two."""
    rng = np.random.default_rng(0)
    for i in range(n_rounds):
        label = i % learner.n_labels
        outcome = Outcome(rng.normal(size=3), label, label, 0.5, int(label < 3 and i % 2 == 0))
        learner.update(outcome)
    return learner


def test_loaded_it_begins_anew_as_the_saved_one_would() -> None:
    """With the rates it was made with, not with those at the time it was saved.

    Protects workers that fold one log: one that has loaded a snapshot would drift away from one
    that has not, at the first round in which too few clicks have come.
    """
    saved = taught(ForwardSoftmax(2, 3, n_waves=0, rho_0=0.1, rho_1=0.3), 0, 100)
    assert abs(saved.rho_0 - 0.1) > 0.01
    loaded = ForwardSoftmax.from_state(saved.state())
    assert (loaded.rho_0, loaded.rho_1) == (saved.rho_0, saved.rho_1)
    for each in (saved, loaded):
        each._begin_anew()
        assert (each.rho_0, each.rho_1) == pytest.approx((0.1, 0.3), abs=1e-12)
    assert state_digest(loaded.state()) == state_digest(saved.state())


def test_most_clicks_may_be_missed() -> None:
    """Clicks stay away then from the start; as sure of .2 as before it begins anew for ever.

    .65 were wrong then, after five times.
    """
    learner = ForwardSoftmax(8, 5)
    assert error_where_most_are_missed(learner) < 0.35
    assert abs(learner.rho_1 - 0.8) < 0.1


def test_loaded_after_it_began_anew_it_doubts_as_the_saved_one_does() -> None:
    """Protects intervals of evaluations, and workers that load a snapshot after an alarm."""
    saved = ForwardSoftmax(2, 3, n_waves=0)
    saved._shortfall.alarms = 1
    saved._begin_anew()
    taught(saved, 0, 20)
    loaded = ForwardSoftmax.from_state(saved.state())
    np.testing.assert_array_equal(loaded.label_rate_errors, saved.label_rate_errors)
    digests = {state_digest(taught(each, 1, 100).state()) for each in (saved, loaded)}
    assert len(digests) == 1


@pytest.mark.parametrize("size", [9e19, 2e20])
def test_weights_that_no_rounds_lead_to_are_refused(size: float) -> None:
    """What is taken stays finite; of weights of 1e99 the rates would become NaN."""
    state = ForwardSoftmax(2, 3, n_waves=0).state()
    weights = np.zeros(np.asarray(state["weights"]).shape)
    weights[1, :2] = size
    if size > 1e20:
        with pytest.raises(StateError, match="state's weights: expected finite numbers of size"):
            ForwardSoftmax.from_state({**state, "weights": weights})
        return
    learner = taught(ForwardSoftmax.from_state({**state, "weights": weights}), 0, 300)
    ForwardSoftmax.from_state(learner.state())


def _usual(told: ForwardSoftmax, rounds: int, seed: int = 0, tells: float = 0.0) -> float:
    """Return the share of wrong greedy labels in the last half; label 1 is right in .6 of them.

    An instance tells of the right one by `tells`.
    """
    rng, wrong = np.random.default_rng(seed), 0
    for turn in range(rounds):
        right = int(rng.choice(5, p=[0.1, 0.6, 0.1, 0.1, 0.1]))
        x = rng.normal(size=5) + tells * np.eye(5)[right]
        shares = told.distribution(x)
        label = draw(shares, rng.random())
        clicked = int(rng.random() < (0.6 if label == right else 0.2))
        chance = float(shares.probabilities[label])
        told.update(Outcome(x, label, shares.greedy, chance, clicked))
        wrong += turn >= rounds // 2 and shares.greedy != right
    return wrong / (rounds - rounds // 2)


def test_takes_the_usual_label_where_instances_tell_nothing() -> None:
    """Weights that follow chance are given up for the clicks of each label; .60 were wrong."""
    learner = ForwardSoftmax(5, 5)
    assert not learner.context_free
    assert _usual(learner, 4_000) < 0.42
    assert learner.context_free
    again = ForwardSoftmax.from_state(learner.state())
    xs = np.random.default_rng(1).normal(size=(6, 5))
    # One answer to all, also in batches, of one that was read back, and without retired labels.
    for each in (learner, again):
        each.retire_label(1)
        shares = [each.distribution(x).probabilities for x in xs]
        for share, same in zip(shares, each.distributions(xs), strict=True):
            np.testing.assert_array_equal(share, shares[0])
            np.testing.assert_array_equal(same.probabilities, share)
        assert shares[0][1] == each.relevance(xs[0])[1] == 0.0
        each.add_labels(1)
        # Nobody knows it: it wants to be tried.
        assert each.distribution(xs[0]).greedy == 5
    assert state_digest(learner.state()) == state_digest(again.state())


def test_does_not_take_the_usual_label_where_instances_tell() -> None:
    """Nor for good where they begin to."""
    learner = ForwardSoftmax(5, 5)
    _usual(learner, 4_000, tells=3.0)
    assert not learner.context_free
    learner = ForwardSoftmax(5, 5)
    _usual(learner, 3_000)
    assert learner.context_free
    assert _usual(learner, 8_000, seed=1, tells=4.0) < 0.1
    assert not learner.context_free


def test_somebody_else_who_knows_what_is_right_does_not_show_that_instances_tell_nothing() -> None:
    """Protects challengers: what he shows is right, and is clicked whatever label it is."""
    rng, learner = np.random.default_rng(0), ForwardSoftmax(5, 5)
    for _ in range(3_000):
        right = int(rng.integers(5))
        x = rng.normal(size=5) + 0.2 * np.eye(5)[right]
        clicked = int(rng.random() < 0.9)
        learner.update(Outcome(x, right, right, 0.9, clicked, elsewhere=True))
    assert not learner.context_free


def test_what_was_usual_is_forgotten_when_clicks_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it is noise that has changed."""
    for change in (Change.NOISE, Change.LABELS):
        learner = ForwardSoftmax(5, 5)
        _usual(learner, 3_000)
        assert learner.context_free
        monkeypatch.setattr(learner._shortfall, "observe", lambda *_, kind=change, **__: kind)
        learner.update(Outcome(np.ones(5), 0, 0, 0.5, 1))
        assert not learner.context_free
        assert not np.any(learner.state()["usual_rounds"])


def test_rates_that_are_known_keep_instances_in_charge() -> None:
    """Where they are too low clicks are told badly whatever instances tell: .8 wrong, not .5."""
    learner = ForwardSoftmax(5, 5)
    _usual(learner, 3_000)
    assert learner.context_free
    learner.set_rates(0.2, 0.2)
    assert not learner.context_free
    shares = [learner.relevance(x) for x in np.eye(5)]
    assert np.ptp(shares, axis=0).max() > 0.01
    rounds = learner.state()["usual_rounds"]
    _usual(learner, 100)
    np.testing.assert_array_equal(np.asarray(learner.state()["usual_rounds"]), np.asarray(rounds))


def test_usual_labels_are_told_by_the_rates_that_were_estimated() -> None:
    """Else the one that is clicked by mistake most often would be shown for good."""
    rng, learner = np.random.default_rng(0), ForwardSoftmax(5, 5)
    rho_0, errors = np.array([0.6, 0.1, 0.1, 0.1, 0.1]), np.full(5, 0.01)
    learner.set_label_rates(rho_0, np.full(5, 0.1), errors, errors)
    for _ in range(4_000):
        right = int(rng.choice(5, p=[0.1, 0.5, 0.15, 0.15, 0.1]))
        shares = learner.distribution(rng.normal(size=5))
        label = draw(shares, rng.random())
        clicked = int(rng.random() < (0.9 if label == right else rho_0[label]))
        chance = float(shares.probabilities[label])
        learner.update(Outcome(rng.normal(size=5), label, shares.greedy, chance, clicked))
    assert learner.context_free
    assert learner.distribution(np.zeros(5)).greedy == 1
