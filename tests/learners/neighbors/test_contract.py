"""The neighbour learners keep the contract, and the registry knows each of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_iris

from learners import LEARNERS, Outcome, create
from learners.assertions import state_digest
from learners.checks import CHECKS, Check, LearnerFactory
from learners.errors import InputError, ParameterError, StateError, UnsupportedError
from learners.neighbors import AutoRkNN, HwKNN, NeighborBandit, WindowLearner
from tests.learners.neighbors.contract import CASES
from tests.reference.neighbors import PlainWindow


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())
def test_learner_keeps_the_contract(make: LearnerFactory, check: Check) -> None:
    """The promises of the contract, one by one, for each learner."""
    check(make)


def test_cases_cover_the_registry() -> None:
    """A neighbour learner that is registered is also checked, and can be made by its kind."""
    kinds = {
        kind for kind, each in LEARNERS.items() if each.__module__.startswith("learners.neigh")
    }
    assert kinds == {name.partition("-")[0] for name in CASES}
    for kind in kinds:
        assert create(kind, 2, 2).kind == kind


#: Far neighbours of 34 examples of a kind are of another kind.
FEWER = {"plugin_knn": {"k": 10}}


@pytest.mark.parametrize("kind", sorted({name.partition("-")[0] for name in CASES}))
def test_each_rule_knows_irises(kind: str) -> None:
    """Protects from a rule that is as its text says and yet worth nothing: at most .15 wrong."""
    irises = load_iris()
    order = np.random.default_rng(0).permutation(len(irises.target))
    xs = ((irises.data - irises.data.mean(0)) / irises.data.std(0))[order]
    labels = irises.target[order].tolist()
    learner = create(kind, 4, 3, **FEWER.get(kind, {}))
    for x, label in zip(xs[:100], labels[:100], strict=True):
        if learner.takes_labels:
            learner.learn(x, label)
        else:
            for shown in range(3):
                learner.update(Outcome(x, shown, shown, 0.5, int(shown == label)))
    found = [learner.distribution(x).greedy for x in xs[100:]]
    assert np.mean(np.array(found) != labels[100:]) <= 0.15


@pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())
def test_a_batch_of_examples_equals_one_at_a_time(make: LearnerFactory) -> None:
    """`learn_many` leaves the state that `learn` on each would, and refuses all or nothing."""
    one, many = make(3, 3), make(3, 3)
    if not isinstance(one, WindowLearner) or not isinstance(many, WindowLearner):
        return
    rng = np.random.default_rng(1)
    xs, labels = rng.normal(size=(70, 3)), rng.integers(0, 3, size=70)
    for x, label in zip(xs, labels.tolist(), strict=True):
        one.learn(x, label)
    many.learn_many(xs[:20], labels[:20])
    many.learn_many(xs[20:], labels[20:])
    digest = state_digest(one.state())
    assert state_digest(many.state()) == digest
    for bad_xs, bad_labels in ((xs, labels + 1), (xs, labels[1:]), (xs * np.nan, labels)):
        with pytest.raises(InputError):
            many.learn_many(bad_xs, bad_labels)
    assert state_digest(many.state()) == digest


@pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())
def test_one_pass_learns_and_decides_as_two_do(make: LearnerFactory) -> None:
    """`learn_and_decide` is `learn` and then `distribution`; a bad query leaves all as it was."""
    two, one = make(3, 3), make(3, 3)
    if not isinstance(one, WindowLearner) or not isinstance(two, WindowLearner):
        return
    rng = np.random.default_rng(7)
    # Few values, so that many distances tie and the query may be the example itself.
    xs = rng.integers(0, 3, size=(90, 2, 3)).astype(np.float64)
    for (x, query), label in zip(xs, rng.integers(0, 3, size=90).tolist(), strict=True):
        two.learn(x, label)
        expected = two.distribution(query, [0, 2])
        got = one.learn_and_decide(x, label, query, [0, 2])
        assert (got.probabilities.tolist(), got.greedy) == (
            expected.probabilities.tolist(),
            expected.greedy,
        )
    digest = state_digest(two.state())
    assert state_digest(one.state()) == digest
    zero = np.zeros(3)
    bad: tuple[Any, ...]
    for bad in (
        (zero, 9, zero),
        (zero * np.nan, 0, zero),
        (zero, 0, zero[1:]),
        (zero, 0, zero, []),
    ):
        with pytest.raises(InputError):
            one.learn_and_decide(*bad)
    assert state_digest(one.state()) == digest


@pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())
def test_neighborhoods_are_those_of_the_window(make: LearnerFactory) -> None:
    """Hubs and alarms are counted over who is nearest of all, or refused where nobody knows."""
    learner = make(2, 3)
    if not isinstance(learner, WindowLearner):
        return
    rng = np.random.default_rng(5)
    xs, labels = rng.normal(size=(50, 2)), rng.integers(0, 3, size=50)
    learner.learn_many(xs, labels)
    if not learner.keeps_graph:
        for ask in (learner.neighborhoods, learner.hubness, learner.alarm):
            with pytest.raises(UnsupportedError, match="keeps no graph"):
                ask()
        assert learner.hub_watch.looked_at == 0
        return
    plain = PlainWindow(40, learner.metric)
    plain.insert(xs.astype(np.float32), labels)
    with pytest.raises(ParameterError, match="k: expected an integer of at least 1"):
        learner.neighborhoods(-1)
    near = learner.neighborhoods(2)
    assert near.members.tolist() == [[i for _, i in line] for line in plain.neighbors(2)]


def test_who_keeps_a_graph() -> None:
    """As docs/api.md says of the hubs, and the package's docstring."""
    learners = {name.partition("-")[0]: make(2, 2) for name, make in CASES.items()}
    without = {
        kind
        for kind, learner in learners.items()
        if isinstance(learner, WindowLearner) and not learner.keeps_graph
    }
    assert without == {"knn", "aknn", "nwknn"}
    given = create("rknn", 2, 2, rates="given", rho_0=0.1)
    assert isinstance(given, WindowLearner)
    assert not given.keeps_graph


@pytest.mark.parametrize("kind", ["knn", "aknn", "rknn", "rknn_auto", "plugin_knn"])
def test_each_neighbour_votes_for_its_own_label(kind: str) -> None:
    """Also where more than the sum of votes decides: who they are is what is asked."""
    learner = create(kind, 1, 3)
    assert isinstance(learner, WindowLearner)
    learner.learn_many(np.array([[0.0], [3.0], [7.0]]), np.array([2, 0, 2]))
    voters = learner.neighbors(np.zeros(1))
    assert [(each.seq, each.label, each.distance) for each in voters] == [
        (0, 2, 0.0),
        (1, 0, 3.0),
        (2, 2, 7.0),
    ]
    assert [each.votes.tolist() for each in voters] == [[0, 0, 1], [1, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize("kind", ["knn", "aknn", "nwknn", "rknn", "rknn_auto", "plugin_knn"])
def test_of_many_equal_examples_all_decide(kind: str) -> None:
    """Protects from the first ones that came: .14 of the decisions were the rarer label's."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, 4, 2_000)
    labels = (rng.random(2_000) < np.array([0.75, 0.35, 0.7, 0.2])[values]).astype(np.int64)
    xs, learner = np.eye(4)[values], create(kind, 4, 2)
    assert isinstance(learner, WindowLearner)
    learner.learn_many(xs[:1_000], labels[:1_000])
    for x, label in zip(xs[1_000:], labels[1_000:], strict=True):
        learner.learn(x, int(label))
        greedy = [learner.distribution(each).greedy for each in np.eye(4)]
        assert greedy == [1, 0, 1, 0]


@pytest.mark.parametrize(
    "kind", sorted({name.partition("-")[0] for name in CASES} - {"neighbor_bandit"})
)
def test_the_nearest_that_may_be_chosen_decide(kind: str) -> None:
    """Where all voters have a label that is not allowed: the lowest code was always chosen."""
    rng = np.random.default_rng(0)
    centres = np.array([[-9.0, 0.0], [9.0, 9.0], [0.0, 0.0], [9.0, -9.0]])
    labels = rng.integers(0, 4, 800)
    xs = centres[labels] + rng.normal(size=(800, 2))
    learner = create(kind, 2, 4)
    assert isinstance(learner, WindowLearner)
    learner.learn_many(xs, labels)
    between = np.array([[-2.5, 0.0], [1.5, 2.0], [1.5, -2.0]])
    assert [learner.distribution(x).greedy for x in between] == [2, 2, 2]
    assert [learner.distribution(x, [0, 1, 3]).greedy for x in between] == [0, 1, 3]
    learner.retire_label(2)
    assert [learner.distribution(x).greedy for x in between] == [0, 1, 3]
    assert [each.greedy for each in learner.distributions(between)] == [0, 1, 3]
    both = [learner.learn_and_decide(xs[2], int(labels[2]), x).greedy for x in between]
    assert both == [0, 1, 3]
    # Of no label that may be chosen is there an example: the first one of them.
    learner.add_labels(2)
    assert learner.distribution(between[0], [4, 5]).greedy == 4


def test_questions_about_the_window_are_checked() -> None:
    """A negative number does not cut from the far end, and 1.7 is no example."""
    learner = create("knn", 1, 2, k=3)
    assert isinstance(learner, WindowLearner)
    learner.learn_many(np.arange(5.0)[:, np.newaxis], np.array([0, 0, 1, 1, 1]))
    assert [len(learner.neighbors(np.zeros(1), most)) for most in (None, 0, 2, 9)] == [3, 0, 2, 3]
    bad: tuple[Any, ...] = (-1, 1.5, "1", True)
    for most in bad:
        with pytest.raises(InputError, match="most: expected an integer of at least 0"):
            learner.neighbors(np.zeros(1), most)
    worse: tuple[Any, ...] = ([1.7], ["a"], [True], [0, None], 1)
    for among in worse:
        with pytest.raises(InputError, match="among: expected seqs"):
            learner.suspects(among)
    assert learner.suspects([1, 2, 9, 10**30, -1, 1]).tolist() == [1]
    assert learner.suspects(iter([1, 2])).tolist() == [1]


def test_a_state_has_the_order_of_the_ring() -> None:
    """What is learned into a full window changes one row of its state, not the place of all."""
    rng = np.random.default_rng(3)
    xs, labels = rng.normal(size=(23, 2)), rng.integers(0, 2, size=23)
    learner = HwKNN(2, 2, window=7)
    before: NDArray[np.generic] = np.zeros((0, 2), np.float32)
    for seq, (x, label) in enumerate(zip(xs, labels.tolist(), strict=True)):
        learner.learn(x, label)
        rows = learner.state()["rows"]
        assert isinstance(rows, np.ndarray)
        assert len(rows) == min(7, seq + 1)
        changed = (rows[: len(before)] != before).any(axis=1).nonzero()[0].tolist()
        assert changed == ([seq % 7] if seq >= 7 else [])
        before = rows


@pytest.mark.parametrize("learned", range(7, 15))
def test_a_ring_is_restored_wherever_it_begins(learned: int) -> None:
    """Which example is the oldest, and so who goes next, is what the saved one knew."""
    rng = np.random.default_rng(4)
    xs, labels = rng.normal(size=(learned + 9, 2)), rng.integers(0, 2, size=learned + 9)
    learner = HwKNN(2, 2, window=7)
    learner.learn_many(xs[:learned], labels[:learned])
    again = HwKNN.from_state(learner.state())
    bandit = NeighborBandit(2, 2, window=3, rho_0=0.1, rho_1=0.1)
    for x, label in zip(xs[:learned], labels.tolist(), strict=False):
        bandit.update(Outcome(x, label, label, 1.0, 1))
    bandits = [bandit, NeighborBandit.from_state(bandit.state())]
    for x, label in zip(xs[learned:], labels[learned:].tolist(), strict=True):
        for each in (learner, again):
            each.learn(x, label)
        for one in bandits:
            one.update(Outcome(x, label, label, 1.0, 0))
        assert state_digest(again.state()) == state_digest(learner.state())
        assert state_digest(bandits[1].state()) == state_digest(bandits[0].state())


#: Raised, since, looked_at and the counts of a look: examples, suspected, occurrences of the
#: suspected and of all, squares.
_IMPOSSIBLE_WATCHES = (
    (2, 0, 0, 0, 0, 0, 0, 0),
    (0, 7, 6, 0, 0, 0, 0, 0),
    (0, 0, 6, 6, 7, 0, 6, 6),
    (0, 0, 6, 6, 3, 7, 6, 6),
    (0, 0, 6, 1, 2, 0, 0, 0),
    (0, 0, 6, 6, 3, 6, 66, 900),
    (0, 0, 6, 6, 3, 6, 12, 23),
    (0, 0, 6, 6, 3, 6, 12, 145),
    (0, 0, 2**60, 2**60, 3, 6, 12, 24),
)


@pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())
def test_damaged_windows_are_refused(make: LearnerFactory) -> None:
    """Rows or labels that do not fit the options are no state."""
    learner = make(2, 2)
    if not isinstance(learner, WindowLearner):
        return
    learner.learn_many(np.zeros((5, 2)), np.array([0, 1, 0, 1, 0]))
    state = learner.state()
    rows = np.zeros((5, 2), np.float32)
    damaged: dict[str, list[object]] = {
        "rows": [
            rows.astype(np.float64),
            rows[:, :1],
            rows + np.float32(np.nan),
            rows - np.float32(np.inf),
            rows + np.float32(1.1e6),
            rows + np.float32(1e-35),
            np.zeros((999, 2), np.float32),
        ],
        "labels": [np.zeros(4, np.int32), np.full(5, 2, np.int32), np.zeros(5, np.int64)],
        "first": [-1, 1.0, True, 2**62 + 1, 2**200],
        "hub_watch": [
            None,
            np.zeros(8),
            np.zeros(7, np.int64),
            np.full(8, -1),
            *(np.array(watch) for watch in _IMPOSSIBLE_WATCHES),
        ],
    }
    for name, values in damaged.items():
        for value in values:
            with pytest.raises(StateError, match=name):
                type(learner).from_state({**state, name: value})  # type: ignore[dict-item]  # on purpose


def test_damaged_validation_is_refused() -> None:
    """Hits of pairs that no stream can have led to are no state."""
    learner = AutoRkNN(2, 2, window=40)
    learner.learn_many(np.zeros((5, 2)), np.array([0, 1, 0, 1, 0]))
    state = learner.state()
    assert AutoRkNN.from_state(state).validation() == learner.validation()
    hits, weight = learner._hits, np.array([learner._weight])
    for damaged in ({"hits": hits - 9.0}, {"hits": hits + 9.0}, {"weight": weight - 9.0}):
        with pytest.raises(StateError, match="state's hits: expected numbers in"):
            AutoRkNN.from_state({**state, **damaged})
    for name, value in (
        ("hits", hits + np.inf),
        ("hits", hits * np.nan),
        ("weight", weight + np.inf),
    ):
        with pytest.raises(StateError, match=f"state's {name}"):
            AutoRkNN.from_state({**state, name: value})


def test_damaged_rounds_are_refused() -> None:
    """Of the bandit learner: rows that no instance rounds to, seqs beyond all windows."""
    bandit = NeighborBandit(2, 2, window=3, rho_0=0.1, rho_1=0.1)
    for label in (0, 1, 1):
        bandit.update(Outcome(np.ones(2), label, label, 1.0, 1))
    state = bandit.state()
    rows = np.ones((3, 2), np.float32)
    damaged: list[tuple[str, NDArray[np.generic]]] = [
        ("rows", rows * np.float32(np.inf)),
        ("rows", rows * np.float32(np.nan)),
        ("rows", rows * np.float32(1e7)),
        ("firsts", np.array([0, 2**62 + 1])),
        ("firsts", np.array([0, -1])),
        ("counts", np.array([1, 9])),
        ("counts", np.array([-1, 4])),
        ("feedback", np.array([0, 1, 2], np.int32)),
    ]
    for name, value in damaged:
        with pytest.raises(StateError, match=f"state's {name}"):
            NeighborBandit.from_state({**state, name: value})


@pytest.mark.parametrize(
    "kind", sorted({name.partition("-")[0] for name in CASES} - {"neighbor_bandit"})
)
def test_neighbors_are_those_who_vote_once_a_label_is_retired(kind: str) -> None:
    """Protects from a list of examples of retired labels, which decided nothing any more."""
    xs = np.array([*np.linspace(0.0, 1.0, 60), *np.linspace(8.0, 9.0, 20)])[:, np.newaxis]
    labels = np.repeat([1, 2], (60, 20))
    labels[55:60] = 0
    learner = create(kind, 1, 3)
    assert isinstance(learner, WindowLearner)
    learner.learn_many(xs, labels)
    near, between = np.zeros(1), np.ones(1)
    before = [voter.seq for voter in learner.neighbors(between)]
    assert {voter.label for voter in learner.neighbors(near)} == {1}
    learner.retire_label(1)
    told = {voter.label for voter in learner.neighbors(near)}
    assert told <= {0, 2}
    assert learner.distribution(near).greedy in told
    # Where somebody votes for a label that is left, the same examples vote as before.
    assert [voter.seq for voter in learner.neighbors(between)] == before
