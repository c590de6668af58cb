"""Forward."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners import (
    Forward,
    InputError,
    Outcome,
    ParameterError,
    StateError,
    UnsupportedError,
    draw,
)
from learners.assertions import state_digest
from tests.learners.bandits.streams import (
    accuracy_on_crossed_signs,
    error_on_three_groups,
    taught,
    update_alone,
    worth_of_rare_clicks,
)
from tests.reference.bandits import SlowForward, argmax

SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("block", [1, 3, 12])
@pytest.mark.parametrize("n_shared", [0, 2])
@given(seed=SEEDS, clicked=st.sampled_from([0.5, 0.02]))
def test_equals_slow_twin(block: int, n_shared: int, seed: int, clicked: float) -> None:
    """The same relevance, choices and shares as with every covariance inverted anew."""
    rng = np.random.default_rng(seed)
    fast = Forward(4, 3, block_size=block, n_waves=7, seed=5, gain=3.0, n_label_features=n_shared)
    # The last label is not described: it shares nothing.
    described = np.vstack((rng.normal(size=(2, n_shared)), np.zeros(n_shared)))
    for label in range(2 if n_shared else 0):
        fast.describe_label(label, described[label])
    slow = SlowForward(4, 3, block, 7, 5, described.tolist() if n_shared else ())
    slow.rho_0, slow.rho_1 = rng.uniform(0, 0.4, (2, 3))
    fast.set_label_rates(slow.rho_0, slow.rho_1, np.zeros(3), np.zeros(3))
    for x in rng.normal(size=(35, 4)):
        relevance = slow.relevance(x)
        np.testing.assert_allclose(fast.relevance(x), relevance, rtol=1e-7, atol=1e-9)
        best, second = sorted(relevance, reverse=True)[:2]
        if best - second > 1e-7:
            decision = fast.distribution(x)
            assert decision.greedy == argmax(relevance)
            shares = slow.probabilities(x, 3.0)
            np.testing.assert_allclose(decision.probabilities, shares, rtol=1e-6, atol=1e-9)
        label, bit = int(rng.integers(3)), int(rng.random() < clicked)
        fast.update(Outcome(x, label, label, 1.0, bit))
        slow.update(x, label, bit)


def test_trace_by_hand() -> None:
    """One click of one label: noise (.25 * 20 + 1) / 21, and steps of .25 and .25 over it and h."""
    learner = Forward(1, 2, n_waves=0)
    learner.update(Outcome(np.array([2.0]), 0, 0, 0.5, 1))
    noise = 0.25 + 0.75 / 21
    # h is .25 for x, which is folded to 1, and .25 for the constant; so is the move of either. Then
    # 4/3, two thirds of it, are the centre, and what is seen is as far from it as usual.
    expected = 0.5 / (noise + 0.5)
    seen = np.array([4 / 3 + 2.0])
    np.testing.assert_allclose(learner.relevance(seen), [expected, 0.0], rtol=1e-13)
    shares = learner.distribution(seen).probabilities
    # Label 1 was never shown: its gap counts 20 sqrt(0 + 1) times.
    np.testing.assert_allclose(shares[1], 1 / (2 + 20 * expected), rtol=1e-13)


@given(seed=SEEDS, bit=st.integers(0, 1))
def test_one_round_is_bounded(seed: int, bit: int) -> None:
    """A prediction moves towards the bit and never past it."""
    learner = taught(Forward(3, 2, n_waves=5, drift=0.01), seed)
    x = np.random.default_rng(seed + 1).normal(size=3)
    before = learner.relevance(x)
    update_alone(learner, Outcome(x, 1, 0, 1e-9, bit))
    after = learner.relevance(x)
    assert after[0] == pytest.approx(before[0], rel=1e-9, abs=1e-9)
    assert abs(bit - after[1]) < abs(bit - before[1]) or before[1] == bit
    assert (bit - after[1]) * (bit - before[1]) >= 0


@given(seed=SEEDS, rho_0=st.floats(0, 0.45), rho_1=st.floats(0, 0.45))
def test_common_rates_change_no_choice(seed: int, rho_0: float, rho_1: float) -> None:
    """Rates that are the same for all labels leave every share as it was: they cannot harm."""
    learner = taught(Forward(3, 4, n_waves=5), seed)
    x = np.random.default_rng(seed + 1).normal(size=3)
    before = learner.distribution(x)
    learner.set_rates(rho_0, rho_1)
    after = learner.distribution(x)
    assert after.greedy == before.greedy
    np.testing.assert_allclose(after.probabilities, before.probabilities, rtol=1e-9, atol=1e-12)
    assert (learner.rho_0, learner.rho_1) == pytest.approx((rho_0, rho_1))


@given(seed=SEEDS)
def test_rates_correct_the_past(seed: int) -> None:
    """Rates set before the rounds or after them give the same learner, bit for bit."""
    rates = np.random.default_rng(seed).uniform(0, 0.4, (2, 3))
    sure = np.zeros(3)
    early, late = Forward(2, 3, n_waves=4), Forward(2, 3, n_waves=4)
    early.set_label_rates(rates[0], rates[1], sure, sure)
    taught(early, seed)
    taught(late, seed).set_label_rates(rates[0], rates[1], sure, sure)
    assert state_digest(early.state()) == state_digest(late.state())


def test_the_largest_rate_stays_one_that_a_state_may_have() -> None:
    """Mean + (rate - mean) may round to 1, and the state that had it was refused."""
    learner, none = Forward(1, 3), np.zeros(3)
    learner.set_label_rates(none, np.array([0.1, 1 - 2**-53, 0.0]), none, none)
    assert learner.label_rates[1].max() < 1.0
    Forward.from_state(learner.state())


def test_uncertain_rates_shrink() -> None:
    """What errors explain goes to the mean; a sure rate stays; wild errors leave all alike."""
    learner = Forward(2, 3)
    rho_0, none = np.array([0.1, 0.2, 0.3]), np.zeros(3)
    learner.set_label_rates(rho_0, none, none, none)
    assert learner.label_rates[0].tolist() == rho_0.tolist()
    for error in (0.5, 1e300):
        learner.set_label_rates(rho_0, none, np.full(3, error), none)
        np.testing.assert_allclose(learner.label_rates[0], 0.2, rtol=1e-12)
    # The rates vary by .02 / 2, of which .0012 are explained by errors of .06 in one of three.
    learner.set_label_rates(rho_0, none, np.array([0.06, 0.0, 0.0]), none)
    real = 0.02 / 2 - 0.0012
    np.testing.assert_allclose(
        learner.label_rates[0], [0.2 - 0.1 * real / (real + 0.0036), 0.2, 0.3], rtol=1e-12
    )


def test_estimates_that_add_up_to_too_much_round_trip() -> None:
    """Each label's rates leave a signal; their means, when errors have drawn them together, none.

    Protects recovery: a snapshot that such an estimate led to is one that loads.
    """
    learner = Forward(2, 2, n_waves=0)
    rho_0, rho_1 = np.array([0.9, 0.1]), np.array([0.05, 0.8])
    learner.set_label_rates(rho_0, rho_1, np.array([0.0, 0.5]), np.array([0.5, 0.0]))
    assert learner.rho_0 + learner.rho_1 > 1
    learner.update(Outcome(np.ones(2), 1, 0, 0.5, 1))
    again = Forward.from_state(learner.state())
    assert state_digest(again.state()) == state_digest(learner.state())


def test_label_rates_undo_what_misleads() -> None:
    """A label clicked by mistake in most rounds misleads regression for ever; rates cure it."""
    rho_0, rho_1 = np.array([0.0, 0.0, 0.85]), np.full(3, 0.1)
    told = Forward(4, 3, n_waves=0)
    told.set_label_rates(rho_0, rho_1, np.zeros(3), np.zeros(3))
    cured, misled = (
        error_on_three_groups(learner, rho_0, spread=0.2, n_rounds=4_000)
        for learner in (told, Forward(4, 3, n_waves=0))
    )
    assert cured < 0.1
    assert misled > 2 * cured


def test_waves_bend() -> None:
    """What no plane parts (right iff both inputs have one sign) is learned with waves only."""
    assert accuracy_on_crossed_signs(Forward(2, 2, n_waves=63)) > 0.85
    assert accuracy_on_crossed_signs(Forward(2, 2, n_waves=0)) < 0.75


def test_drift_follows() -> None:
    """With drift a label that turned bad is left within hundreds of rounds; without, it is not."""

    def misses(drift: float) -> int:
        learner, rng = Forward(1, 2, n_waves=0, drift=drift), np.random.default_rng(2)
        x = np.ones(1)
        missed = 0
        for i in range(6_000):
            decision = learner.distribution(x)
            label = draw(decision, rng.random())
            bit = int(label == (i >= 5_000))
            learner.update(Outcome(x, label, decision.greedy, 1.0, bit))
            missed += i >= 5_500 and not bit
        return missed

    assert misses(1e-3) < 25
    assert misses(0.0) > 100


def test_a_new_label_begins_as_the_others() -> None:
    """It has the mean of their weights and rates, and the share that an unknown one has.

    Those of a label that is no more count for nothing.
    """
    learner = taught(Forward(3, 3, n_waves=5), 7, 400)
    learner.retire_label(2)
    sure = np.zeros(3)
    learner.set_label_rates(np.array([0.1, 0.3, 0.2]), np.array([0.0, 0.2, 0.1]), sure, sure)
    x = np.array([1.0, -0.5, 2.0])
    clicks = learner.relevance(x)[:2] * [0.9, 0.5] + [0.1, 0.3]
    assert learner.add_label() == 3
    assert [float(rates[3]) for rates in learner.label_rates] == pytest.approx([0.2, 0.1])
    new = learner.relevance(x)
    np.testing.assert_allclose(new[3], (clicks.mean() - 0.2) / 0.7, rtol=1e-9)
    gap = new.max() - new[3]
    share = 1 / (3 + 20 * float(np.mean([0.9, 0.5, 0.7])) * gap)
    np.testing.assert_allclose(learner.distribution(x).probabilities[3], share, rtol=1e-9)


def test_a_label_that_nobody_was_shown_says_nothing_of_others() -> None:
    """Protects what was found of nine labels from the tenth, of which nothing could be."""
    rho_0 = np.linspace(0.02, 0.3, 10)
    errors = np.append(np.full(9, 0.015), 12.0**-0.5)
    some, all_ten = Forward(2, 10, n_waves=0), Forward(2, 10, n_waves=0)
    some.set_label_rates(rho_0, np.full(10, 0.1), errors, errors)
    all_ten.set_label_rates(rho_0, np.full(10, 0.1), errors[:1].repeat(10), errors[:1].repeat(10))
    np.testing.assert_allclose(some.label_rates[0][:9], all_ten.label_rates[0][:9], atol=0.01)
    assert abs(some.label_rates[0][9] - rho_0[:9].mean()) < 0.02
    nothing = np.full(10, 12.0**-0.5)
    some.set_label_rates(rho_0, np.full(10, 0.1), nothing, nothing)
    np.testing.assert_allclose(some.label_rates[0], rho_0.mean())


def test_a_described_label_begins_as_those_like_it() -> None:
    """Never shown, it is believed to be clicked about as often as labels with its features."""
    learner, rng = Forward(2, 3, n_waves=0, n_label_features=2), np.random.default_rng(3)
    kinds = np.eye(2)
    for label, kind in enumerate((0, 0, 1)):
        learner.describe_label(label, kinds[kind])
    x = np.array([1.0, 0.0])
    for _ in range(400):
        label = int(rng.integers(3))
        learner.update(Outcome(x, label, label, 0.5, int(label < 2)))
    clicked, ignored = learner.add_label(), learner.add_label()
    learner.describe_label(clicked, kinds[0])
    learner.describe_label(ignored, kinds[1])
    relevance = learner.relevance(x)
    assert abs(relevance[clicked] - relevance[0]) < 0.15
    assert abs(relevance[ignored] - relevance[2]) < 0.3
    assert relevance[clicked] - relevance[ignored] > 0.5


def test_what_was_described_can_be_described_anew() -> None:
    """Only its features change, and between labels that are all alike nothing is shared."""
    learner = taught(Forward(2, 4, n_waves=3, n_label_features=1), 5)
    x = np.array([0.3, -1.0])
    for label in range(3):
        learner.describe_label(label, np.full(1, float(label % 2)))
    taught(learner, 6)
    before = learner.relevance(x)
    learner.describe_label(0, np.ones(1))
    learner.describe_label(2, np.ones(1))
    alike = learner.relevance(x)
    assert (alike[:3] != before[:3]).all()
    assert alike[3] == before[3]
    for label in range(3):
        learner.describe_label(label, np.full(1, float(label % 2)))
    np.testing.assert_array_equal(learner.relevance(x), before)


@pytest.mark.parametrize("n_labels", [1, 2, 7])
def test_features_of_labels_may_be_in_any_unit(n_labels: int) -> None:
    """Protects a category beside a price, and numbers that lie far from 0: both tell alike."""
    rng = np.random.default_rng(n_labels)
    given = rng.normal(size=(n_labels, 4))
    given[:, 3] = 7.0  # tells nothing
    first, other = (Forward(2, n_labels + 1, n_waves=3, n_label_features=4) for _ in range(2))
    for label, features in enumerate(given):
        first.describe_label(label, features)
        other.describe_label(label, features * [1.0, 1e4, 1e-3, 2.0] + [5.0, 1e5, 0.0, 0.1])
    for learner in (first, other):
        taught(learner, 8)
    x = np.array([0.3, -1.0])
    np.testing.assert_allclose(first.relevance(x), other.relevance(x), rtol=1e-6)


def test_nonsense_of_one_label_leaves_others_what_they_are() -> None:
    """Protects a shop from one item whose price is missing, and told as -9999."""
    rng = np.random.default_rng(0)
    given = np.column_stack((rng.uniform(10, 60, size=30), rng.random(30) < 0.5)).astype(float)
    learner = Forward(2, 31, n_waves=3, n_label_features=2)
    for label, features in enumerate(given):
        learner.describe_label(label, features)
    taught(learner, 8)
    x = np.array([0.3, -1.0])
    before = learner.relevance(x)[:30]
    learner.describe_label(30, np.array([-9999.0, 1.0]))
    assert np.abs(learner.relevance(x)[:30] - before).max() < 0.25 * before.std()
    again = Forward.from_state(learner.state())
    np.testing.assert_array_equal(again.relevance(x), learner.relevance(x))


def test_without_features_there_is_nothing_to_describe() -> None:
    """It says which option is missing."""
    with pytest.raises(UnsupportedError, match="n_label_features is 0"):
        Forward(2, 2).describe_label(0, np.ones(1))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rho_0", 1.0), ("rho_1", -0.1), ("exploration", "ucb"), ("gain", -1.0), ("gamma", 1.1),
        ("drift", -1e-9), ("block_size", -1), ("block_size", 1025), ("n_waves", -1),
        ("n_waves", 65_537), ("n_label_features", -1), ("n_label_features", 33), ("seed", -1),
        ("seed", 0.5),
    ],
)  # fmt: skip
def test_bad_options_are_refused(name: str, value: object) -> None:
    """Each option out of range, or of the wrong type, is named."""
    with pytest.raises(ParameterError, match=name):
        Forward(2, 2, **{name: value})  # type: ignore[arg-type]


def test_too_many_covariances_are_refused() -> None:
    """Size is bounded from the start and when a label is added, which then changes nothing."""
    with pytest.raises(ParameterError, match="block_size"):
        Forward(10_000, 100, block_size=32)
    # Two blocks of each label's own, and 63 for the products of 32 features and 63 inputs.
    Forward(61, 1_921, n_waves=1, n_label_features=32, block_size=32)
    with pytest.raises(ParameterError, match="got 4000768"):
        Forward(61, 1_922, n_waves=1, n_label_features=32, block_size=32)
    # 122 labels of 32 blocks of 32 x 32 are within the bound, 123 are not.
    learner = Forward(1_000, 121, n_waves=6, block_size=32)
    assert learner.add_label() == 121
    before = state_digest(learner.state())
    with pytest.raises(ParameterError, match=r"at most 4,000,000 entries; a smaller block_size"):
        learner.add_label()
    assert state_digest(learner.state()) == before


def test_a_block_that_fits_is_chosen() -> None:
    """The largest shapes that a model may have work by themselves, with room for new labels."""
    assert Forward(784, 10).block_size == 32
    assert Forward(1_000, 100).block_size == 8
    assert Forward(4_096, 256).block_size == 1
    learner = Forward(3, 1_024)
    assert learner.block_size == 4
    assert learner.add_label() == 1_024
    assert type(learner).from_state(learner.state()).block_size == 4


def test_bad_rates_are_refused() -> None:
    """Common rates that sum past 1, and arrays of another shape, are named; nothing changes."""
    learner = Forward(2, 3, rho_0=0.1)
    with pytest.raises(InputError, match="rho_0"):
        learner.set_rates(0.6, 0.6)
    good = np.zeros(3)
    with pytest.raises(InputError, match=r"rho_1: expected a float64 array \(3,\)"):
        learner.set_label_rates(good, np.zeros(2), good, good)
    assert learner.rho_0 == pytest.approx(0.1)


def test_rare_clicks_are_learned_from() -> None:
    """Where one item in fifty is clicked: .77 is shown if it expects differences of usual size."""
    assert worth_of_rare_clicks(Forward(8, 10, n_waves=127)) > 0.83


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("label_rho_0", 1.5),
        ("label_rho_1", -0.1),
        ("noises", 0.0),
        ("counts", -1.0),
        ("clicked", 1.5),
        ("clicked", -0.1),
        ("label_features", 1.5e6),
    ],
)
def test_states_out_of_range_are_refused(name: str, value: float) -> None:
    """A rate of 1.5, a variance of 0, a count or share below 0 in a state is named."""
    state = Forward(2, 3, n_label_features=1).state()
    shape = np.asarray(state[name]).shape
    forged = np.full(shape, value) if shape else value
    with pytest.raises(StateError, match=name):
        Forward.from_state({**state, name: forged})
