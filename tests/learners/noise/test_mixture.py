"""The two-level mixture: its gradient, what it recovers, and that nothing makes it fail."""

from __future__ import annotations

import numpy as np
import pytest

from learners.noise import mixture
from learners.noise.mixture import (
    LabelPrior,
    Levels,
    Rounds,
    first_levels,
    fit_levels,
    level_errors,
    right_odds,
    right_probability,
    rounds_of,
)


def draw_rounds(
    n: int,
    rho_0: list[float],
    rho_1: list[float],
    *,
    right: float = 0.4,
    seed: int = 0,
    temperature: float = 1.0,
) -> Rounds:
    """Return rounds with scores whose softmax the class is drawn from, and then times a factor.

    Mostly perfect examples; each tenth instance is torn between two labels.
    """
    rng = np.random.default_rng(seed)
    k = len(rho_0)
    best = rng.integers(k, size=n)
    scores = np.full((n, k), -8.0)
    scores[np.arange(n), best] = 0.0
    torn = rng.random(n) < 0.1
    scores[np.flatnonzero(torn), (best[torn] + 1) % k] = -0.5
    posterior = np.exp(scores)
    posterior /= posterior.sum(axis=1, keepdims=True)
    y = (posterior.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    labels = np.where(rng.random(n) < right, best, rng.integers(k, size=n))
    clicked = np.where(labels == y, 1 - np.array(rho_1)[labels], np.array(rho_0)[labels])
    return rounds_of(scores * temperature, labels, rng.random(n) < clicked)


def test_gradient() -> None:
    """The gradient that the fit follows is that of the loss, in all coordinates."""
    rounds = draw_rounds(300, [0.1, 0.2, 0.3], [0.3, 0.2, 0.1])
    prior = LabelPrior(0.2, 7.0, 0.3, 4.0)
    theta = np.array([0.3, -0.4, -1.0, -1.5, -0.7, -0.9, -0.2, -2.0])
    _, gradient = mixture._objective(theta, rounds, prior)
    for i in range(len(theta)):
        step = np.zeros(len(theta))
        step[i] = 1e-6
        up, _ = mixture._objective(theta + step, rounds, prior)
        down, _ = mixture._objective(theta - step, rounds, prior)
        assert gradient[i] == pytest.approx((up - down) / 2e-6, abs=1e-7)


def test_right_odds_by_hand() -> None:
    """Log odds of the shown label are those of its softmax, with the slope in log T."""
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=(20, 4)), rng.integers(4, size=20)
    rounds = rounds_of(scores, labels, np.zeros(20))
    odds, slope = right_odds(0.0, rounds)
    posterior = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    own = posterior[np.arange(20), labels]
    np.testing.assert_allclose(odds, np.log(own / (1 - own)), rtol=1e-10)
    warmer, _ = right_odds(1e-6, rounds)
    np.testing.assert_allclose(slope, (warmer - odds) / 1e-6, atol=1e-4)


@pytest.mark.parametrize(("temperature", "rho_0", "rho_1"), [(1.0, 0.15, 0.15), (3.0, 0.4, 0.2)])
def test_recovers_rates(temperature: float, rho_0: float, rho_1: float) -> None:
    """Rates come out right although the scores are over-confident by a factor."""
    rounds = draw_rounds(20_000, [rho_0] * 3, [rho_1] * 3, temperature=temperature)
    levels = fit_levels(rounds, first_levels(rounds.feedback))
    error_0, error_1 = level_errors(levels, rounds)
    assert abs(levels.rho_0[0] - rho_0) < 3 * error_0[0] < 0.03
    assert abs(levels.rho_1[0] - rho_1) < 3 * error_1[0] < 0.03


def test_offset_learns_from_the_choice() -> None:
    """A learner that knows the class where the scores do not: the offset makes up for it."""
    rng = np.random.default_rng(1)
    n, k = 30_000, 4
    y = rng.integers(k, size=n)
    known = rng.random(n) < 0.6
    scores = np.where(known[:, np.newaxis] & (np.arange(k) == y[:, np.newaxis]), 9.0, 0.0)
    labels = np.where(rng.random(n) < 0.85, y, (y + rng.integers(1, k, size=n)) % k)
    clicks = rng.random(n) < np.where(labels == y, 0.8, 0.3)
    rounds = rounds_of(scores, labels, clicks)
    levels = fit_levels(rounds, first_levels(rounds.feedback))
    assert levels.rho_0[0] == pytest.approx(0.3, abs=0.03)
    assert levels.rho_1[0] == pytest.approx(0.2, abs=0.02)
    assert levels.offset == pytest.approx(np.log(0.85 / 0.15 * (k - 1)), abs=0.4)
    assert right_probability(levels, rounds)[~known].mean() == pytest.approx(0.85, abs=0.04)


def test_errors_cover() -> None:
    """In 40 blocks, two standard errors hold the true rate about as often as they should."""
    missed = 0
    for seed in range(40):
        rounds = draw_rounds(1500, [0.2] * 3, [0.3] * 3, seed=seed)
        levels = fit_levels(rounds, first_levels(rounds.feedback))
        error_0, error_1 = level_errors(levels, rounds)
        missed += abs(levels.rho_0[0] - 0.2) > 2 * error_0[0]
        missed += abs(levels.rho_1[0] - 0.3) > 2 * error_1[0]
    assert missed <= 10  # of 80; 4 are expected


def test_first_levels_in_range() -> None:
    """Even all clicks, or none, give a start with beta above 0."""
    for clicks in (np.zeros(5), np.ones(5)):
        start: Levels = first_levels(clicks, 2)
        assert ((start.rho_0 > 0) & (start.rho_0 + start.rho_1 < 1)).all()


def test_errors_are_those_of_the_outer_products() -> None:
    """Of each round's gradient, by differences, and of what the priors know besides."""
    rounds = draw_rounds(900, [0.1, 0.2, 0.3], [0.3, 0.2, 0.1])
    prior = LabelPrior(0.2, 60.0, 0.3, 9.0)
    levels = fit_levels(rounds, first_levels(rounds.feedback, 3), prior)
    rates = np.concatenate([levels.rho_0, levels.rho_1])
    theta = np.concatenate([levels[:2], np.log(rates) - np.log1p(-rates)])

    def losses(at: np.ndarray) -> np.ndarray:
        return mixture._slopes(mixture._levels(at), rounds).losses

    steps = 1e-5 * np.eye(len(theta))
    slopes = np.stack([(losses(theta + s) - losses(theta - s)) / 2e-5 for s in steps])
    told = slopes @ slopes.T
    counts = np.repeat([prior.count_0, prior.count_1], 3)
    told += np.diag([1.0, 1 / 9.0, *(counts + 1.0) * rates * (1.0 - rates)])
    expected = np.sqrt(np.diag(np.linalg.inv(told)))[2:] * rates * (1.0 - rates)
    found = np.concatenate(level_errors(levels, rounds, prior))
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_a_rate_of_nearly_0_is_not_known_exactly() -> None:
    """Of a rate that m rounds without a flip tell of, 1 / (1 + m) is left open."""
    right = np.arange(40) % 4 == 0
    scores = np.where(right, 8.0, -8.0)[:, np.newaxis] * [1.0, 0.0]
    rounds = rounds_of(scores, np.zeros(40, dtype=np.int64), right)
    levels = fit_levels(rounds, first_levels(rounds.feedback))
    error_0, error_1 = level_errors(levels, rounds)
    assert max(levels.rho_0[0], levels.rho_1[0]) < 0.001
    assert (error_0[0], error_1[0]) == pytest.approx((1 / 31, 1 / 11), rel=1e-3)
