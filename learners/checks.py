"""What every learner must pass, as functions of a factory.

Somebody who adds a learner runs them all over it::

    @pytest.mark.parametrize("check", CHECKS)
    def test_mine_keeps_the_contract(check):
        check(Mine)  # or a partial with options

A check returns nothing and raises AssertionError with words on what was broken. They know only
the public contract of `learners.base`; that a learner also learns, and by the right equation, is
for its own tests to show.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from learners.base import Distribution, FloatArray, Learner, Outcome, State, draw
from learners.errors import InputError, LearnersError, StateError, UnsupportedError

#: Makes a fresh learner from (n_features, n_labels).
LearnerFactory: TypeAlias = Callable[[int, int], Learner]
Check: TypeAlias = Callable[[LearnerFactory], None]

_D, _K = 5, 4
_ROUNDS = 60


def state_digest(state: State) -> str:
    """Return a hash of every name, type, shape and byte of a state, in the order of the names."""
    digest = hashlib.sha256()
    for name in sorted(state):
        value = state[name]
        if isinstance(value, np.ndarray):
            digest.update(f"{name} {value.dtype.str} {value.shape} ".encode())
            digest.update(value.tobytes())
        else:
            digest.update(f"{name} {type(value).__name__} {value!r} ".encode())
    return digest.hexdigest()


def play(learner: Learner, rng: np.random.Generator, n_rounds: int = _ROUNDS) -> list[int]:
    """Let `learner` live through random rounds, with feedback or labels as it takes them.

    Returns
    -------
    list of int
        The labels that were drawn.
    """
    shown = []
    for _ in range(n_rounds):
        x = rng.normal(size=learner.n_features)
        truth = int(np.abs(x).argmax()) % learner.n_labels
        decision = learner.distribution(x)
        label = draw(decision, rng.random())
        shown.append(label)
        if learner.takes_feedback:
            learner.update(_outcome(x, label, decision, int(label == truth)))
        else:
            learner.learn(x, truth)
    return shown


def check_distribution_is_one(make: LearnerFactory) -> None:
    """Check that probabilities are at least 0 and sum to 1, and the greedy label has the most."""
    learner = make(_D, _K)
    rng = np.random.default_rng(1)
    for _ in range(20):
        decision = learner.distribution(rng.normal(size=_D))
        _assert_distribution(decision, _K)
        play(learner, rng, 5)


def check_exploration_floor(make: LearnerFactory) -> None:
    """Check that a learner with an exploration share `gamma` gives each label gamma / m."""
    learner = make(_D, _K)
    gamma = getattr(learner, "gamma", 0.0)
    play(learner, np.random.default_rng(2))
    x = np.ones(_D)
    floor = gamma / _K * (1 - 1e-12)
    _require((learner.distribution(x).probabilities >= floor).all(), "below gamma / K")
    floor = gamma / 2 * (1 - 1e-12)
    allowed = learner.distribution(x, [1, 3]).probabilities[[1, 3]]
    _require((allowed >= floor).all(), "with allowed, the share is over those labels")


def check_deciding_is_pure(make: LearnerFactory) -> None:
    """Check that deciding changes neither learner nor instance, and says the same twice."""
    learner = make(_D, _K)
    rng = np.random.default_rng(3)
    play(learner, rng)
    before = state_digest(learner.state())
    x = rng.normal(size=_D)
    x.setflags(write=False)
    first = learner.distribution(x)
    first.probabilities[0] += 0.0  # the caller's own, to write to
    second = learner.distribution(x)
    learner.distribution(rng.normal(size=_D), [0, 1])
    learner.distributions(rng.normal(size=(3, _D)))
    _require(_same(first, second), "two equal questions, two answers")
    _require(state_digest(learner.state()) == before, "deciding changed the state")


def check_learning_keeps_to_itself(make: LearnerFactory) -> None:
    """Check that learning leaves the instance as it was, and does not hold on to it."""
    learner = make(_D, _K)
    x = np.arange(1.0, _D + 1)
    kept = x.copy()
    _teach(learner, x, 1, 1)
    _require(np.array_equal(x, kept), "learning changed the instance")
    before = state_digest(learner.state())
    x[:] = 99.0
    _require(state_digest(learner.state()) == before, "the learner holds on to the instance")


def check_seed_decides(make: LearnerFactory) -> None:
    """Check that the same rounds give the same state, and that its arrays are copies."""
    one, two = make(_D, _K), make(_D, _K)
    shown = play(one, np.random.default_rng(4))
    _require(play(two, np.random.default_rng(4)) == shown, "same seed, other draws")
    digest = state_digest(one.state())
    _require(state_digest(two.state()) == digest, "same rounds, other state")
    for value in one.state().values():
        if isinstance(value, np.ndarray) and value.dtype == np.float64:
            value.fill(7.0)
    _require(state_digest(one.state()) == digest, "state() hands out the learner's own arrays")


def check_bad_instances_refused(make: LearnerFactory) -> None:
    """Check that NaN, infinity, huge values, another shape or type get an InputError on `x`."""
    learner = make(_D, _K)
    play(learner, np.random.default_rng(5))
    before = state_digest(learner.state())
    for bad in _bad_instances():
        _assert_refused("x", learner.distribution, bad)
        _assert_refused("x", _teach, learner, bad, 0, 1)
    rows = np.ones((3, _D))
    rows[2, 1] = np.nan
    _assert_refused("xs[2][1]", learner.distributions, rows)
    _assert_refused("xs", learner.distributions, np.ones((3, _D + 1)))
    _require(state_digest(learner.state()) == before, "a refused instance changed the state")


def check_bad_outcomes_refused(make: LearnerFactory) -> None:
    """Check that each wrong part of an outcome or example gets an InputError that names it."""
    learner = make(_D, _K)
    play(learner, np.random.default_rng(6))
    before = state_digest(learner.state())
    good = Outcome(np.ones(_D), 1, 0, 0.5, 1)
    wrong: dict[str, tuple[object, ...]] = {
        "label": (-1, _K, 0.0, True, None, "0"),
        "greedy": (-1, _K, 0.0, True, None),
        "propensity": (0.0, -0.5, 1.5, np.nan, np.inf, True, None),
        "feedback": (2, -1, 0.5, 1.0, True, None),
    }
    build: Callable[..., Outcome] = Outcome  # wrong types are what is tried
    if learner.takes_feedback:
        for name, values in wrong.items():
            for value in values:
                _assert_refused(name, learner.update, build(**{**good._asdict(), name: value}))
        # numpy's own scalars are numbers like any other.
        make(_D, _K).update(build(good.x, np.int64(1), np.int64(0), np.float64(0.5), np.int64(1)))
    if learner.takes_labels:
        for value in wrong["label"]:
            _assert_refused("label", learner.learn, good.x, value)
    _require(state_digest(learner.state()) == before, "a refused outcome changed the state")


def check_unsupported_is_said(make: LearnerFactory) -> None:
    """Check that what a learner does not take raises UnsupportedError and changes nothing."""
    learner = make(_D, _K)
    before = state_digest(learner.state())
    calls: list[tuple[bool, Callable[[], None]]] = [
        (learner.takes_feedback, lambda: learner.update(Outcome(np.ones(_D), 1, 0, 0.5, 1))),
        (learner.takes_labels, lambda: learner.learn(np.ones(_D), 1)),
        (learner.takes_rates, lambda: learner.set_rates(0.1, 0.2)),
        (learner.takes_label_rates, lambda: learner.set_label_rates(*[np.full(_K, 0.1)] * 4)),
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
    _require(state_digest(learner.state()) == before, "what is not taken changed the state")
    if learner.takes_rates:
        _assert_refused("rho_0", learner.set_rates, -0.1, 0.2)
        _assert_refused("rho_1", learner.set_rates, 0.1, float("nan"))
    if learner.takes_label_rates:
        good = np.full(_K, 0.1)
        for place, name in enumerate(("rho_0", "rho_1", "rho_0_error", "rho_1_error")):
            for wrong in (good[1:], good - 1.0, good * np.nan):
                given = [good] * place + [wrong] + [good] * (3 - place)
                _assert_refused(name, learner.set_label_rates, *given)
        learner.set_label_rates(good, 2 * good, 0 * good, 0 * good)
        _require(
            [rates.tolist() for rates in learner.label_rates] == [[0.1] * _K, [0.2] * _K],
            "rates that are known exactly are not used as they are",
        )
    if learner.n_label_features:
        good = np.ones(learner.n_label_features)
        for bad in (good[1:], good * np.nan, good * np.inf, good.astype(np.float32), [1.0]):
            _assert_refused("features", learner.describe_label, 0, bad)
        _assert_refused("label", learner.describe_label, _K, good)


def check_state_round_trip(make: LearnerFactory) -> None:
    """Check that saved, loaded and continued is bit for bit what going on would have been."""
    learner = make(_D, _K)
    play(learner, np.random.default_rng(7), 37)
    learner.retire_label(2)
    learner.add_label()
    state = learner.state()
    _require(list(state)[:3] == ["kind", "n_features", "active"], "how a state starts")
    again = type(learner).from_state(state)
    _require(state_digest(again.state()) == state_digest(state), "loading changed the state")
    shown = play(learner, np.random.default_rng(8))
    _require(play(again, np.random.default_rng(8)) == shown, "loaded, it draws otherwise")
    _require(state_digest(again.state()) == state_digest(learner.state()), "loaded, it drifts away")


def check_bad_states_refused(make: LearnerFactory) -> None:
    """Check that a state of another kind, or with a part missing or cut, gets a StateError."""
    learner = make(_D, _K)
    play(learner, np.random.default_rng(9), 10)
    state = learner.state()
    bad: list[State] = [{**state, "kind": "another"}]
    bad += [{n: v for n, v in state.items() if n != missing} for missing in state]
    bad += [
        {**state, name: value[:-1]}
        for name, value in state.items()
        if isinstance(value, np.ndarray) and value.dtype == np.float64
    ]
    for each in bad:
        _assert_state_refused(type(learner), each, f"a state with {sorted(each)}")


def check_infinite_states_refused(make: LearnerFactory) -> None:
    """Check that a state with NaN, infinity, or what soon would be one, gets a StateError."""
    learner = make(_D, _K)
    play(learner, np.random.default_rng(15), 10)
    state = learner.state()
    for name, value in state.items():
        for wrong in (np.nan, np.inf, -np.inf, 1e300, -1e300):
            if isinstance(value, float):
                _assert_state_refused(type(learner), {**state, name: wrong}, f"{name}: {wrong}")
            elif isinstance(value, np.ndarray) and value.dtype == np.float64 and value.size:
                array = value.copy()
                array.flat[-1] = wrong
                _assert_state_refused(type(learner), {**state, name: array}, f"{wrong} in {name}")


def check_allowed_is_kept(make: LearnerFactory) -> None:
    """Check that only allowed, active labels get probability; what leaves none is refused."""
    learner = make(_D, _K)
    rng = np.random.default_rng(10)
    play(learner, rng)
    for allowed in ([0], [1, 3], [3, 1, 1], [0, 1, 2, 3]):
        decision = learner.distribution(rng.normal(size=_D), allowed)
        _assert_distribution(decision, _K)
        _require(decision.greedy in allowed, "greedy is not among allowed")
        _require(set(np.flatnonzero(decision.probabilities)) <= set(allowed), "outside allowed")
    everything = learner.distribution(x := rng.normal(size=_D), range(_K))
    _require(
        np.allclose(everything.probabilities, learner.distribution(x).probabilities, rtol=1e-12),
        "all labels allowed is not the same as no restriction",
    )
    learner.retire_label(3)
    _require(
        learner.distribution(x, [1, 3]).probabilities.tolist() == [0.0, 1.0, 0.0, 0.0],
        "of allowed labels only the active one is left",
    )
    for bad in ([], [3], [_K], [-1]):
        _assert_refused("allowed", learner.distribution, x, bad)


def check_labels_come_and_go(make: LearnerFactory) -> None:
    """Check that a new label takes part at once, a retired one never, a restored one as before."""
    learner = make(_D, _K)
    rng = np.random.default_rng(11)
    play(learner, rng)
    x = rng.normal(size=_D)
    before = learner.distribution(x)
    learner.retire_label(before.greedy)
    after = learner.distribution(x)
    _assert_distribution(after, _K)
    _require(after.probabilities[before.greedy] == 0.0, "a retired label is still chosen")
    _require(learner.active.tolist().count(False) == 1, "one label is retired")
    learner.restore_label(before.greedy)
    _require(_same(learner.distribution(x), before), "a restored label is not what it was")

    _require(learner.add_label() == _K == learner.n_labels - 1, "the next code is K")
    gamma = getattr(learner, "gamma", 0.0)
    decision = learner.distribution(x)
    _assert_distribution(decision, _K + 1)
    _require(decision.probabilities[_K] >= gamma / (_K + 1) * (1 - 1e-12), "no share for the new")
    for _ in range(200):
        _teach(learner, x, _K, 1)
        greedy = learner.distribution(x).greedy
        if greedy != _K and learner.takes_feedback:
            _teach(learner, x, greedy, 0)
    _require(learner.distribution(x).greedy == _K, "a new label cannot be learned")

    for label in range(_K):
        learner.retire_label(label)
    _assert_refused("label", learner.retire_label, _K)
    _assert_refused("label", learner.restore_label, _K + 1)
    _require(
        learner.distribution(x).probabilities.tolist() == [0.0] * _K + [1.0],
        "of the only active label the probability is 1",
    )


def check_batch_equals_single(make: LearnerFactory) -> None:
    """Check that `distributions` is `distribution` of each row, bit for bit."""
    for n_features, n_labels in ((1, 1), (1, 3), (_D, _K), (70, 3), (300, 2)):
        learner = make(n_features, n_labels)
        rng = np.random.default_rng(12)
        play(learner, rng)
        for n_rows in (0, 1, 2, 77):
            _assert_batch(learner, rng.normal(size=(n_rows, n_features)))
        if n_labels > 1:
            learner.retire_label(0)
            _assert_batch(learner, rng.normal(size=(9, n_features)))


def check_draws_follow_the_distribution(make: LearnerFactory) -> None:
    """Check that of many draws each label's share is its probability (chi-square)."""
    learner = make(_D, _K)
    rng = np.random.default_rng(13)
    play(learner, rng)
    for _ in range(3):
        decision = learner.distribution(rng.normal(size=_D))
        n_draws = 10_000
        drawn = [draw(decision, u) for u in rng.random(n_draws).tolist()]
        counts = np.bincount(drawn, minlength=_K)
        possible = decision.probabilities > 0
        _require(not counts[~possible].any(), "a label of probability 0 was drawn")
        awaited = decision.probabilities[possible] * n_draws
        statistic = float(((counts[possible] - awaited) ** 2 / awaited).sum())
        # Its mean is K - 1 at most; 30 is beyond the 99.999 % point of chi-square with 3.
        _require(statistic < 30, f"draws do not follow the distribution: chi-square {statistic}")


def check_extremes_stay_finite(make: LearnerFactory) -> None:
    """Check that extreme instances and propensities leave finite state and decisions."""
    learner = make(_D, _K)
    rng = np.random.default_rng(14)
    for i in range(2_000):
        size = (1e6, 1e-3, 1e-7, 1e-160, 0.0)[int(rng.integers(5))]
        x = size * rng.choice([-1.0, 1.0, 0.3, 0.0], _D)
        decision = learner.distribution(x)
        _assert_distribution(decision, _K)
        label = int(rng.integers(_K))
        if learner.takes_feedback and not (learner.takes_labels and i % 3 == 0):
            propensity = (1e-300, 1e-6, 1.0)[int(rng.integers(3))]
            bit = int(rng.integers(2))
            learner.update(Outcome(x, label, decision.greedy, propensity, bit))
        else:
            learner.learn(x, label)
    for name, value in learner.state().items():
        if isinstance(value, np.ndarray) and value.dtype == np.float64:
            _require(np.isfinite(value).all(), f"{name} is no longer finite")


CHECKS: tuple[Check, ...] = (
    check_distribution_is_one,
    check_exploration_floor,
    check_deciding_is_pure,
    check_learning_keeps_to_itself,
    check_seed_decides,
    check_bad_instances_refused,
    check_bad_outcomes_refused,
    check_unsupported_is_said,
    check_state_round_trip,
    check_bad_states_refused,
    check_infinite_states_refused,
    check_allowed_is_kept,
    check_labels_come_and_go,
    check_batch_equals_single,
    check_draws_follow_the_distribution,
    check_extremes_stay_finite,
)


def _outcome(x: FloatArray, label: int, decision: Distribution, feedback: int) -> Outcome:
    propensity = float(decision.probabilities[label])
    return Outcome(x, label, decision.greedy, propensity, feedback)


def _teach(learner: Learner, x: FloatArray, label: int, feedback: int) -> None:
    """Show `label` and give `feedback`, or tell that `label` is right."""
    if learner.takes_feedback:
        learner.update(Outcome(x, label, 0, 0.5, feedback))
    else:
        learner.learn(x, label)


def _bad_instances() -> Iterator[object]:
    """Yield what no learner may take for an instance; the types are wrong on purpose."""
    for value in (np.nan, np.inf, -np.inf, 1.000001e6, -1e300):
        x = np.ones(_D)
        x[3] = value
        yield x
    yield from (
        np.ones(_D - 1),
        np.ones((1, _D)),
        np.ones(_D, dtype=np.float32),
        np.ones(_D, dtype=np.int64),
        np.ones(_D, dtype=np.complex128),
        [1.0] * _D,
        None,
    )


def _assert_distribution(decision: Distribution, n_labels: int) -> None:
    probabilities = decision.probabilities
    _require(probabilities.dtype == np.float64, "probabilities are float64")
    _require(probabilities.shape == (n_labels,), "one probability a label")
    _require((probabilities >= 0).all(), "a negative probability")
    _require((probabilities <= 1).all(), "a probability above 1")
    _require(abs(float(probabilities.sum()) - 1) < 1e-12 * n_labels, "probabilities sum to 1")
    _require(type(decision.greedy) is int, "greedy is an int")
    _require(probabilities[decision.greedy] == probabilities.max(), "greedy is the likeliest")


def _assert_batch(learner: Learner, xs: FloatArray) -> None:
    batch = learner.distributions(xs)
    _require(len(batch) == len(xs), "a batch answers each row")
    for x, decision in zip(xs, batch, strict=True):
        _require(_same(decision, learner.distribution(x)), "batch and single differ")


def _assert_refused(name: str, call: Callable[..., object], *arguments: object) -> None:
    """Raise unless `call` raises an InputError whose message starts with `name`."""
    try:
        call(*arguments)
    except InputError as error:
        message = str(error)
    except LearnersError as error:
        raise AssertionError(f"expected an InputError on {name}, got {error!r}") from error
    else:
        raise AssertionError(f"expected an InputError on {name}, got none")
    _require(message.startswith(name), f"expected words on {name}, got: {message}")


def _assert_state_refused(kind: type[Learner], state: State, what: str) -> None:
    try:
        kind.from_state(state)
    except StateError:
        return
    raise AssertionError(f"expected a StateError for {what}")


def _require(holds: bool | np.bool_, otherwise: str) -> None:
    """Raise AssertionError with the words `otherwise`; unlike `assert`, also under ``-O``."""
    if not holds:
        raise AssertionError(otherwise)


def _same(one: Distribution, two: Distribution) -> bool:
    return one.greedy == two.greedy and one.probabilities.tobytes() == two.probabilities.tobytes()
