"""The neighbour bandit: scores by hand, corrected feedback, rates that hold for the past."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.base import Outcome
from learners.drawing import draw
from learners.errors import InputError, ParameterError
from learners.neighbors.bandit import NeighborBandit
from learners.neighbors.metrics import Rows
from learners.neighbors.search import Found, find_many
from learners.neighbors.window import Window
from learners.noise.corruption import flip_bit
from learners.noise.rates import NoiseRates


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 6), window=st.integers(1, 12))
def test_scores_equal_the_formula_from_scratch(seed: int, k: int, window: int) -> None:
    """Each label's last rounds, its nearest of them with ties, clicks corrected and shrunk."""
    rng = np.random.default_rng(seed)
    learner = NeighborBandit(2, 3, window=window, k=k, rho_0=0.2, rho_1=0.3)
    rounds: list[list[tuple[np.ndarray, int]]] = [[], [], []]
    for _ in range(40):
        x = rng.integers(0, 3, size=2).astype(np.float64)
        label, bit = int(rng.integers(3)), int(rng.integers(2))
        learner.update(Outcome(x, label, 0, 0.5, bit))
        rounds[label] = [*rounds[label], (x, bit)][-window:]
        query = rng.integers(0, 3, size=2).astype(np.float64)
        expected = []
        for each in rounds:
            ranked = sorted((float(((x - query) ** 2).sum()), bit) for x, bit in each)
            bits = [bit for gap, bit in ranked if gap <= ranked[:k][-1][0]]
            clean = (sum(bits) - 0.2 * len(bits)) / 0.5
            expected.append((0.5 + clean) / (1 + len(bits)))
        assert learner.scores(query).tolist() == pytest.approx(expected)


def test_only_labels_that_may_be_chosen_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each label is a search: those that are retired, not allowed or never shown take none."""
    learner = NeighborBandit(1, 6, gamma=0.3)
    for label in range(5):
        learner.update(Outcome(np.ones(1), label, 0, 0.5, label % 2))
    learner.retire_label(1)
    searched: list[Window] = []

    def counted(window: Window, rows: Rows, count: int, *, ties: bool) -> list[Found]:
        searched.append(window)
        return find_many(window, rows, count, ties=ties)

    monkeypatch.setattr("learners.neighbors.bandit.find_many", counted)
    decision = learner.distribution(np.ones(1), [1, 2, 3, 5])
    assert decision.greedy == 3
    assert searched == [learner._rounds[2], learner._rounds[3]]
    learner.distributions(np.ones((2, 1)))
    assert len(searched) == 2 + 4


def test_propensities_are_exact() -> None:
    """(1 - gamma) on the greedy label and gamma / m on each, over the allowed ones."""
    learner = NeighborBandit(1, 4, gamma=0.2)
    assert learner.distribution(np.zeros(1)).probabilities.tolist() == pytest.approx(
        [0.85, 0.05, 0.05, 0.05]
    )
    assert learner.distribution(np.zeros(1), [1, 3]).probabilities.tolist() == [0, 0.9, 0, 0.1]


def test_it_learns_what_is_not_linear_from_flipped_clicks() -> None:
    """A chequered pattern under 20 and 30 % flips: far better than chance, told only clicks."""
    rng = np.random.default_rng(2)
    rates = NoiseRates(0.2, 0.3)
    learner = NeighborBandit(2, 2, window=2000, k=25, gamma=0.2, rho_0=0.2, rho_1=0.3)
    right = 0
    for step in range(4000):
        x = rng.random(2)
        truth = int((x[0] > 0.5) ^ (x[1] > 0.5))
        decision = learner.distribution(x)
        right += int(step >= 3000 and decision.greedy == truth)
        label = draw(decision, rng.random())
        bit = flip_bit(int(label == truth), rates, rng.random())
        learner.update(
            Outcome(x, label, decision.greedy, float(decision.probabilities[label]), bit)
        )
    assert right > 850


def test_new_rates_hold_for_old_rounds() -> None:
    """Feedback is kept as observed: setting the rates later is as good as before."""
    early, late = NeighborBandit(1, 2, rho_0=0.3, rho_1=0.1), NeighborBandit(1, 2)
    for i in range(20):
        outcome = Outcome(np.array([float(i)]), i % 2, 0, 0.5, int(i % 3 == 0))
        early.update(outcome)
        late.update(outcome)
    late.set_rates(0.3, 0.1)
    assert (late.rho_0, late.rho_1) == (0.3, 0.1)
    assert early.scores(np.array([7.2])).tolist() == late.scores(np.array([7.2])).tolist()
    with pytest.raises(InputError, match="rho_0"):
        late.set_rates(0.7, 0.3)


def test_bad_options_are_refused() -> None:
    """Each wrong option is named."""
    with pytest.raises(ParameterError, match="rho_0"):
        NeighborBandit(1, 2, rho_0=0.6, rho_1=0.4)
    with pytest.raises(ParameterError, match="metric"):
        NeighborBandit(1, 2, metric="dot")
    with pytest.raises(ParameterError, match="window: expected at most 50000 for 5 labels of 1000"):
        NeighborBandit(1000, 5, window=50_001)
    full = NeighborBandit(1000, 5, window=50_000)
    with pytest.raises(ParameterError, match="window: expected at most 41666 for 6 labels"):
        full.add_label()
    assert full.n_labels == len(full._rounds) == 5


@pytest.mark.parametrize("x", [np.zeros(3), np.array([0.0, np.nan]), np.array([0.0, 1e7])])
def test_scores_are_of_instances_only(x: np.ndarray) -> None:
    """Whatever was learned, what no decision would take has no scores either."""
    with pytest.raises(InputError, match=r"^x"):
        NeighborBandit(2, 2).scores(x)
