"""The hub alarm: raised by an attack on hubs, silent under honest noise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from learners.errors import ParameterError
from learners.neighbors.hubness_learner import HwKNN
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


def test_bad_level_is_refused() -> None:
    """A level is a probability, and neither 0 nor 1."""
    learner = HwKNN(1, 2)
    for level in (0, 1, -0.1, "0.1"):
        with pytest.raises(ParameterError, match="level"):
            learner.alarm(level)  # type: ignore[arg-type]  # a wrong type is tried too
