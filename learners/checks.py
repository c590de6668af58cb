"""What every learner must pass, as functions of a factory.

To check a new learner, run them all over it::

    @pytest.mark.parametrize("check", CHECKS)
    def test_mine_keeps_the_contract(check):
        check(Mine)  # or a partial with options

A check returns nothing and raises AssertionError saying what was broken. They know only the public
contract of `learners.base`; that a learner also learns, and by the right equation, is for its own
tests to show.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from learners.assertions import (
    D,
    K,
    alike,
    assert_batch,
    assert_distribution,
    assert_refused,
    assert_state_refused,
    bad_instances,
    play,
    require,
    state_digest,
    teach,
)
from learners.base import Learner, Outcome
from learners.drawing import draw
from learners.errors import UnsupportedError
from learners.states import State
from learners.validation import FloatArray

#: Makes a fresh learner from (n_features, n_labels).
LearnerFactory: TypeAlias = Callable[[int, int], Learner]
Check: TypeAlias = Callable[[LearnerFactory], None]


def check_distribution_is_one(make: LearnerFactory) -> None:
    """Check that probabilities are at least 0 and sum to 1, and the greedy label has the most."""
    learner = make(D, K)
    rng = np.random.default_rng(1)
    for _ in range(20):
        decision = learner.distribution(rng.normal(size=D))
        assert_distribution(decision, K)
        play(learner, rng, 5)


def check_exploration_floor(make: LearnerFactory) -> None:
    """Check that a learner with an exploration share `gamma` gives each label gamma / m."""
    learner = make(D, K)
    gamma = getattr(learner, "gamma", 0.0)
    play(learner, np.random.default_rng(2))
    x = np.ones(D)
    floor = gamma / K * (1 - 1e-12)
    require((learner.distribution(x).probabilities >= floor).all(), "below gamma / K")
    floor = gamma / 2 * (1 - 1e-12)
    allowed = learner.distribution(x, [1, 3]).probabilities[[1, 3]]
    require((allowed >= floor).all(), "with allowed, the share is over those labels")


def check_deciding_is_pure(make: LearnerFactory) -> None:
    """Check that deciding changes neither learner nor instance, and that its answer is a copy."""
    learner = make(D, K)
    rng = np.random.default_rng(3)
    play(learner, rng)
    before = state_digest(learner.state())
    x = rng.normal(size=D)
    x.setflags(write=False)
    answer = learner.distribution(x)
    first = answer._replace(probabilities=answer.probabilities.copy())
    require(alike(first, learner.distribution(x)), "two equal questions, two answers")
    answer.probabilities.fill(7.0)  # the caller's own, to write to
    for each in learner.distributions(np.stack([x, x])):
        require(alike(first, each), "an answer that was written to changed later ones")
        each.probabilities.fill(7.0)
    require(alike(first, learner.distribution(x)), "a batch hands out the learner's own arrays")
    learner.distribution(rng.normal(size=D), [0, 1])
    learner.distributions(rng.normal(size=(3, D)))
    require(state_digest(learner.state()) == before, "deciding changed the state")


def check_learning_keeps_to_itself(make: LearnerFactory) -> None:
    """Check that learning leaves the instance as it was, and does not hold on to it."""
    learner = make(D, K)
    x = np.arange(1.0, D + 1)
    kept = x.copy()
    teach(learner, x, 1, 1)
    require(np.array_equal(x, kept), "learning changed the instance")
    before = state_digest(learner.state())
    x[:] = 99.0
    require(state_digest(learner.state()) == before, "the learner holds on to the instance")


def check_seed_decides(make: LearnerFactory) -> None:
    """Check that the same rounds give the same state, and that its arrays are copies."""
    one, two = make(D, K), make(D, K)
    shown = play(one, np.random.default_rng(4))
    require(play(two, np.random.default_rng(4)) == shown, "same seed, other draws")
    digest = state_digest(one.state())
    require(state_digest(two.state()) == digest, "same rounds, other state")
    for value in one.state().values():
        if isinstance(value, np.ndarray):
            value.fill(not value.all())  # in every type, other than what was there
    require(state_digest(one.state()) == digest, "state() hands out the learner's own arrays")


def check_bad_instances_refused(make: LearnerFactory) -> None:
    """Check that NaN, infinity, huge values, another shape or type get an InputError on `x`."""
    learner = make(D, K)
    play(learner, np.random.default_rng(5))
    before = state_digest(learner.state())
    for bad in bad_instances():
        assert_refused("x", learner.distribution, bad)
        assert_refused("x", teach, learner, bad, 0, 1)
    rows = np.ones((3, D))
    rows[2, 1] = np.nan
    assert_refused("xs[2][1]", learner.distributions, rows)
    assert_refused("xs", learner.distributions, np.ones((3, D + 1)))
    require(state_digest(learner.state()) == before, "a refused instance changed the state")


def check_bad_outcomes_refused(make: LearnerFactory) -> None:
    """Check that each wrong part of an outcome or example gets an InputError that names it."""
    learner = make(D, K)
    play(learner, np.random.default_rng(6))
    before = state_digest(learner.state())
    good = Outcome(np.ones(D), 1, 0, 0.5, 1)
    wrong: dict[str, tuple[object, ...]] = {
        "label": (-1, K, 0.0, True, None, "0"),
        "greedy": (-1, K, 0.0, True, None),
        "propensity": (0.0, -0.5, 1.5, np.nan, np.inf, True, None, np.float16(0.5)),
        "feedback": (2, -1, 0.5, 1.0, True, None),
        "elsewhere": (1, 0.0, "yes", None),
    }
    build: Callable[..., Outcome] = Outcome  # wrong types are what is tried
    if learner.takes_feedback:
        for name, values in wrong.items():
            for value in values:
                assert_refused(name, learner.update, build(**{**good._asdict(), name: value}))
        # numpy's own scalars are numbers like any other, and leave no trace in the state.
        plain, typed = make(D, K), make(D, K)
        plain.update(good)
        typed.update(build(good.x, np.int64(1), np.int64(0), np.float64(0.5), np.int64(1)))
        require(
            state_digest(plain.state()) == state_digest(typed.state()),
            "numpy's scalars lead to another state than Python's",
        )
    if learner.takes_labels:
        for value in wrong["label"]:
            assert_refused("label", learner.learn, good.x, value)
    require(state_digest(learner.state()) == before, "a refused outcome changed the state")


def check_unsupported_is_said(make: LearnerFactory) -> None:
    """Check that what a learner does not take raises UnsupportedError and changes nothing."""
    learner = make(D, K)
    before = state_digest(learner.state())
    calls: list[tuple[bool, Callable[[], None]]] = [
        (learner.takes_feedback, lambda: learner.update(Outcome(np.ones(D), 1, 0, 0.5, 1))),
        (learner.takes_labels, lambda: learner.learn(np.ones(D), 1)),
        (learner.takes_rates, lambda: learner.set_rates(0.1, 0.2)),
        (learner.takes_label_rates, lambda: learner.set_label_rates(*[np.full(K, 0.1)] * 4)),
        (learner.n_label_features > 0, lambda: learner.describe_label(0, np.ones(2))),
    ]
    for taken, call in calls:
        if taken:
            continue
        try:
            call()
        except UnsupportedError:
            continue
        raise AssertionError("expected an UnsupportedError for what the learner does not take")
    require(state_digest(learner.state()) == before, "what is not taken changed the state")


def check_rates_are_used(make: LearnerFactory) -> None:
    """Check that bad noise rates are refused by name, and exact ones used as they are."""
    learner = make(D, K)
    if learner.takes_rates:
        assert_refused("rho_0", learner.set_rates, -0.1, 0.2)
        assert_refused("rho_1", learner.set_rates, 0.1, float("nan"))
    if learner.takes_label_rates:
        good = np.full(K, 0.1)
        for place, name in enumerate(("rho_0", "rho_1", "rho_0_error", "rho_1_error")):
            for wrong in (good[1:], good - 1.0, good * np.nan):
                given = [good] * place + [wrong] + [good] * (3 - place)
                assert_refused(name, learner.set_label_rates, *given)
        learner.set_label_rates(good, 2 * good, 0 * good, 0 * good)
        require(
            [rates.tolist() for rates in learner.label_rates] == [[0.1] * K, [0.2] * K],
            "rates that are known exactly are not used as they are",
        )
    if learner.learns_rates:
        errors = [each.tolist() for each in learner.label_rate_errors]
        require(errors == [[0.0] * K] * 2, "rates that are known exactly have errors")


def check_bad_label_features_refused(make: LearnerFactory) -> None:
    """Check that features of labels in another shape, type or size are refused by name."""
    learner = make(D, K)
    if learner.n_label_features:
        good = np.ones(learner.n_label_features)
        for bad in (good[1:], good * np.nan, good * np.inf, good.astype(np.float32), [1.0]):
            assert_refused("features", learner.describe_label, 0, bad)
        assert_refused("label", learner.describe_label, K, good)


def check_state_round_trip(make: LearnerFactory) -> None:
    """Check that saving, loading and going on equals just going on, bit for bit."""
    learner = make(D, K)
    play(learner, np.random.default_rng(7), 37)
    learner.retire_label(2)
    learner.add_label()
    state = learner.state()
    require(list(state)[:3] == ["kind", "n_features", "active"], "how a state starts")
    again = type(learner).from_state(state)
    require(state_digest(again.state()) == state_digest(state), "loading changed the state")
    # As `numpy.load` gives back what `numpy.savez` was given.
    saved: State = {name: np.array(value) for name, value in state.items()}
    loaded = type(learner).from_state(saved)
    require(state_digest(loaded.state()) == state_digest(state), "a file changed the state")
    shown = play(learner, np.random.default_rng(8))
    require(play(again, np.random.default_rng(8)) == shown, "loaded, it draws otherwise")
    require(state_digest(again.state()) == state_digest(learner.state()), "loaded, it drifts away")


def check_bad_states_refused(make: LearnerFactory) -> None:
    """Check that a state of another kind, or with a part missing or cut, gets a StateError."""
    learner = make(D, K)
    play(learner, np.random.default_rng(9), 10)
    state = learner.state()
    bad: list[State] = [{**state, "kind": "another"}, {**state, "kind": np.zeros(2)}]
    bad += [{n: v for n, v in state.items() if n != missing} for missing in state]
    bad += [
        {**state, name: value[:-1]}
        for name, value in state.items()
        if isinstance(value, np.ndarray) and value.size
    ]
    for each in bad:
        assert_state_refused(type(learner), each, f"a state with {sorted(each)}")


def check_infinite_states_refused(make: LearnerFactory) -> None:
    """Check that a state with NaN, infinity, or what soon would be one, gets a StateError."""
    learner = make(D, K)
    play(learner, np.random.default_rng(15), 10)
    state = learner.state()
    for name, value in state.items():
        for wrong in (np.nan, np.inf, -np.inf, 1e300, -1e300):
            if isinstance(value, float):
                assert_state_refused(type(learner), {**state, name: wrong}, f"{name}: {wrong}")
            elif isinstance(value, np.ndarray) and value.dtype == np.float64 and value.size:
                array = value.copy()
                array.flat[-1] = wrong
                assert_state_refused(type(learner), {**state, name: array}, f"{wrong} in {name}")


def check_allowed_is_kept(make: LearnerFactory) -> None:
    """Check that only allowed, active labels get probability; what leaves none is refused."""
    learner = make(D, K)
    rng = np.random.default_rng(10)
    play(learner, rng)
    for allowed in ([0], [1, 3], [3, 1, 1], [0, 1, 2, 3]):
        decision = learner.distribution(rng.normal(size=D), allowed)
        assert_distribution(decision, K)
        require(decision.greedy in allowed, "greedy is not among allowed")
        require(set(np.flatnonzero(decision.probabilities)) <= set(allowed), "outside allowed")
    everything = learner.distribution(x := rng.normal(size=D), range(K))
    require(
        np.allclose(everything.probabilities, learner.distribution(x).probabilities, rtol=1e-12),
        "all labels allowed is not the same as no restriction",
    )
    learner.retire_label(3)
    require(
        learner.distribution(x, [1, 3]).probabilities.tolist() == [0.0, 1.0, 0.0, 0.0],
        "of allowed labels only the active one is left",
    )
    for bad in ([], [3], [K], [-1]):
        assert_refused("allowed", learner.distribution, x, bad)


def check_labels_come_and_go(make: LearnerFactory) -> None:
    """Check that a new label takes part at once, a retired one never, a restored one as before."""
    learner = make(D, K)
    rng = np.random.default_rng(11)
    play(learner, rng)
    x = rng.normal(size=D)
    before = learner.distribution(x)
    learner.retire_label(before.greedy)
    after = learner.distribution(x)
    assert_distribution(after, K)
    require(after.probabilities[before.greedy] == 0.0, "a retired label is still chosen")
    require(learner.active.tolist().count(False) == 1, "one label is retired")
    learner.restore_label(before.greedy)
    require(alike(learner.distribution(x), before), "a restored label is not what it was")

    require(learner.add_label() == K == learner.n_labels - 1, "the next code is K")
    gamma = getattr(learner, "gamma", 0.0)
    decision = learner.distribution(x)
    assert_distribution(decision, K + 1)
    require(decision.probabilities[K] >= gamma / (K + 1) * (1 - 1e-12), "no share for the new")
    for _ in range(200):
        teach(learner, x, K, 1)
        greedy = learner.distribution(x).greedy
        if greedy != K and learner.takes_feedback:
            teach(learner, x, greedy, 0)
    require(learner.distribution(x).greedy == K, "a new label cannot be learned")

    check_many_labels_at_once(learner, x)

    for label in range(K):
        learner.retire_label(label)
    assert_refused("label", learner.retire_label, K)
    assert_refused("label", learner.restore_label, K + 1)
    require(
        learner.distribution(x).probabilities.tolist() == [0.0] * K + [1.0],
        "of the only active label the probability is 1",
    )


def check_many_labels_at_once(learner: Learner, x: FloatArray) -> None:
    """Check that labels added together equal those added one by one."""
    together, one_by_one = (type(learner).from_state(learner.state()) for _ in range(2))
    n_labels = learner.n_labels
    require(together.add_labels(3) == n_labels, "the first of the new codes is returned")
    for _ in range(3):
        one_by_one.add_label()
    require(together.n_labels == one_by_one.n_labels == n_labels + 3, "three are three")
    ours, theirs = (each.distribution(x).probabilities for each in (together, one_by_one))
    require(bool(np.allclose(ours, theirs, rtol=1e-9)), "added together they are others")
    again = type(learner).from_state(together.state())
    require(alike(again.distribution(x), together.distribution(x)), "their state is another")
    assert_refused("count", learner.add_labels, 0)


def check_batch_equals_single(make: LearnerFactory) -> None:
    """Check that `distributions` is `distribution` of each row, bit for bit."""
    for n_features, n_labels in ((1, 1), (1, 3), (D, K), (70, 3), (300, 2)):
        learner = make(n_features, n_labels)
        rng = np.random.default_rng(12)
        play(learner, rng)
        for n_rows in (0, 1, 2, 77):
            rows = rng.normal(size=(n_rows, n_features))
            assert_batch(learner, rows)
            # As columns side by side, which is how data frames hand them out.
            assert_batch(learner, np.asfortranarray(rows))
        if n_labels > 1:
            learner.retire_label(0)
            assert_batch(learner, rng.normal(size=(9, n_features)))


def check_draws_follow_the_distribution(make: LearnerFactory) -> None:
    """Check that of many draws each label's share is its probability (chi-square)."""
    learner = make(D, K)
    rng = np.random.default_rng(13)
    play(learner, rng)
    for _ in range(3):
        decision = learner.distribution(rng.normal(size=D))
        n_draws = 10_000
        drawn = [draw(decision, u) for u in rng.random(n_draws).tolist()]
        counts = np.bincount(drawn, minlength=K)
        possible = decision.probabilities > 0
        require(not counts[~possible].any(), "a label of probability 0 was drawn")
        awaited = decision.probabilities[possible] * n_draws
        statistic = float(((counts[possible] - awaited) ** 2 / awaited).sum())
        # Its mean is K - 1 at most; 30 is beyond the 99.999 % point of chi-square with 3.
        require(statistic < 30, f"draws do not follow the distribution: chi-square {statistic}")


def check_extremes_stay_finite(make: LearnerFactory) -> None:
    """Check that extreme instances and propensities leave finite state and decisions."""
    learner = make(D, K)
    rng = np.random.default_rng(14)
    for i in range(2_000):
        size = (1e6, 1e-3, 1e-7, 1e-160, 0.0)[int(rng.integers(5))]
        x = size * rng.choice(np.array([-1.0, 1.0, 0.3, 0.0]), D)
        decision = learner.distribution(x)
        assert_distribution(decision, K)
        label = int(rng.integers(K))
        if learner.takes_feedback and not (learner.takes_labels and i % 3 == 0):
            propensity = (1e-300, 1e-6, 1.0)[int(rng.integers(3))]
            bit = int(rng.integers(2))
            learner.update(Outcome(x, label, decision.greedy, propensity, bit))
        else:
            learner.learn(x, label)
    for name, value in learner.state().items():
        if isinstance(value, np.ndarray) and value.dtype == np.float64:
            require(np.isfinite(value).all(), f"{name} is no longer finite")


CHECKS: tuple[Check, ...] = (
    check_distribution_is_one,
    check_exploration_floor,
    check_deciding_is_pure,
    check_learning_keeps_to_itself,
    check_seed_decides,
    check_bad_instances_refused,
    check_bad_outcomes_refused,
    check_unsupported_is_said,
    check_rates_are_used,
    check_bad_label_features_refused,
    check_state_round_trip,
    check_bad_states_refused,
    check_infinite_states_refused,
    check_allowed_is_kept,
    check_labels_come_and_go,
    check_batch_equals_single,
    check_draws_follow_the_distribution,
    check_extremes_stay_finite,
)
