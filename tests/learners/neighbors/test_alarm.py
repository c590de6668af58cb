"""The hub alarm: raised by an attack on hubs, silent under honest noise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from learners.neighbors import alarm as module
from learners.neighbors.alarm import HubAlarm, HubWatch, hub_alarm
from learners.neighbors.hubness_learner import HwKNN
from learners.neighbors.neighborhoods import Neighborhoods
from learners.noise.corruption import flip_by_hubness, flip_uniform


def _clouds(seed: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, size=500)
    return rng.normal(size=(500, 30)) + labels[:, np.newaxis] * 1.3, labels, rng


@pytest.mark.parametrize("seed", range(4))
def test_it_tells_an_attack_on_hubs_from_honest_noise(seed: int) -> None:
    """A tenth of the labels wrong: at hubs an alarm, at random none."""
    xs, labels, rng = _clouds(seed)
    learner = HwKNN(30, 2, window=500)
    learner.learn_many(xs, labels)
    assert not learner.alarm().raised
    attacked = HwKNN(30, 2, window=500)
    attacked.learn_many(xs, flip_by_hubness(labels, 2, 0.1, learner.occurrences(), rng))
    alarm = attacked.alarm()
    assert alarm.raised
    assert alarm.suspected_occurrences > 1.3 * alarm.mean_occurrences == 1.3 * 5
    honest = HwKNN(30, 2, window=500)
    honest.learn_many(xs, flip_uniform(labels, 2, 0.1, rng, exact_count=True))
    assert not honest.alarm().raised


def test_figures_by_hand() -> None:
    """Five points on a line, the middle one mislabelled: mean, variance and tail."""
    learner = HwKNN(1, 2, k=1)
    learner.learn_many(np.array([[0.0], [1.0], [1.9], [7.0], [8.0]]), np.array([0, 1, 0, 1, 1]))
    # Neighbours: 1, 2, 1, 4, 3; so N = 0, 2, 1, 1, 1; 0, 1 and 2 are suspected.
    alarm = learner.alarm()
    assert (alarm.n_examples, alarm.n_suspected) == (5, 3)
    assert (alarm.suspected_occurrences, alarm.mean_occurrences) == (1.0, 1.0)
    assert alarm.p_value == pytest.approx(0.5)
    learner.learn_many(np.array([[0.99], [8.5]]), np.array([0, 1]))
    # Now 5, the point beside 1, is its neighbour and that of 0; N = 0, 2, 0, 0, 2, 2, 0 ...
    alarm = learner.alarm()
    counts = learner.occurrences().tolist()
    assert sum(counts) == 7
    total = alarm.suspected_occurrences * alarm.n_suspected
    spread = math.sqrt(np.var(counts) * alarm.n_suspected * (7 - alarm.n_suspected) / 6)
    z = (total - alarm.n_suspected) / spread
    assert alarm.p_value == pytest.approx(math.erfc(z / math.sqrt(2)) / 2)


def test_the_watch_goes_on_with_an_attack_and_off_after_it() -> None:
    """The window is looked at by itself each tenth, and the alarm knows since when."""
    xs, labels, rng = _clouds(0)
    learner = HwKNN(30, 2, window=500)
    learner.learn_many(xs, labels)
    watch = learner.hub_watch
    assert (watch.every, watch.looked_at, watch.raised, watch.since) == (100, 500, False, 0)
    learner.learn_many(xs, flip_by_hubness(labels, 2, 0.1, learner.occurrences(), rng))
    assert watch.raised
    assert 500 < watch.since <= watch.looked_at == 1000
    assert watch.last == learner.alarm()
    on = watch.since
    learner.learn_many(xs, labels)
    assert not watch.raised
    assert on < watch.since <= 1500


def test_the_watch_does_not_flicker(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on at z = 3.09, and off below 1.64 only."""
    # Of 1,000 examples with variance 5, 100 are suspected: mean 500, standard deviation 21.2.
    looks = [HubAlarm(1000, 100, total, 5000, 30_000) for total in (550, 570, 550, 530, 550)]
    assert [round(look.z, 1) for look in looks] == [2.4, 3.3, 2.4, 1.4, 2.4]
    monkeypatch.setattr(module, "hub_alarm", lambda _near: looks.pop(0))
    watch, raised = HubWatch(1000), []
    near = Neighborhoods(0, np.zeros(1, np.int32), np.ones((1, 1), np.int32))
    for _ in range(5):
        watch.look(near)
        raised.append(watch.raised)
    assert raised == [False, True, True, False, False]


def test_the_watch_looks_at_the_same_examples_in_batches_and_one_by_one() -> None:
    """Whoever folds the stream, and from whichever state, looks when the others do."""
    xs, labels, rng = _clouds(1)
    wrong = flip_uniform(labels, 2, 0.3, rng, exact_count=True)
    single, batched = (HwKNN(30, 2, window=200) for _ in range(2))
    for x, label in zip(xs[:250], wrong[:250].tolist(), strict=True):
        single.learn(x, label)
    batched.learn_many(xs[:250], wrong[:250])
    restored = HwKNN.from_state(batched.state())
    for learner in (single, batched, restored):
        assert learner.hub_watch.looked_at == 200
        learner.learn_many(xs[250:], wrong[250:])
    states = [learner.hub_watch.state().tolist() for learner in (single, batched, restored)]
    assert states[0] == states[1] == states[2]
    assert states[0][2] == 500


def test_few_suspected_are_no_alarm() -> None:
    """One mislabelled hub alone is far from the mean and proves nothing."""
    places = np.arange(200, dtype=np.int32)
    members = np.stack([0 * places, places % 199 + 1, (places + 1) % 199 + 1], axis=1)
    members[0] = [1, 2, 3]
    labels = np.zeros(200, dtype=np.int32)
    labels[0] = 1
    alarm = hub_alarm(Neighborhoods(0, labels, members))
    assert (alarm.n_suspected, alarm.z > 3.1, alarm.raised) == (1, True, False)


def test_places_without_a_neighbour_have_no_vote() -> None:
    """An example whose list is mostly empty is judged by who is in it."""
    members = np.array([[1, 2, 2], [0, 2, 2]], dtype=np.int32)
    assert hub_alarm(Neighborhoods(5, np.array([0, 0], np.int32), members)).n_suspected == 0
    assert hub_alarm(Neighborhoods(5, np.array([0, 1], np.int32), members)).n_suspected == 2


def test_fewer_than_thirty_suspects_raise_no_alarm() -> None:
    """So few may be what any window has, however far above chance."""
    looks = [HubAlarm(1000, n, 8 * n, 5000, 30_000) for n in (29, 30)]
    assert all(look.z > 5 for look in looks)
    assert [look.raised for look in looks] == [False, True]
