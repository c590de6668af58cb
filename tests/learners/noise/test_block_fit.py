"""Common rates or rates of each label: the right choice, and never a failure."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.noise import block_fit
from learners.noise.block_fit import anchored_levels, fit_block
from learners.noise.mixture import LabelPrior, Levels, Rounds, first_levels, level_errors, rounds_of
from tests.learners.noise.test_mixture import draw_rounds


def test_labels_differ() -> None:
    """Rates of each label are found where they differ, and the prior learns how much."""
    rho_0, rho_1 = [0.05, 0.5, 0.2, 0.3], [0.3, 0.02, 0.1, 0.2]
    fit = fit_block(draw_rounds(20_000, rho_0, rho_1))
    assert fit.differ
    np.testing.assert_allclose(fit.chosen.rho_0, rho_0, atol=0.03)
    np.testing.assert_allclose(fit.chosen.rho_1, rho_1, atol=0.03)
    assert fit.prior.count_0 < 30


def test_equal_labels_share_rates() -> None:
    """Where the rates are the same for all, the labels are not said to differ."""
    fit = fit_block(draw_rounds(20_000, [0.2] * 4, [0.3] * 4))
    assert not fit.differ
    assert np.ptp(fit.chosen.rho_0) == 0
    assert fit.prior.count_0 > 100


def test_rare_label_leans_on_the_others() -> None:
    """A label shown ten times keeps near the mean, with a larger standard error."""
    rounds = draw_rounds(6000, [0.1, 0.2, 0.15, 0.2], [0.2, 0.3, 0.25, 0.2])
    kept = (rounds.labels != 3) | (np.cumsum(rounds.labels == 3) <= 10)
    rounds = rounds.some(kept)
    fit = fit_block(rounds)
    error_0, _ = level_errors(fit.labels, rounds, fit.prior)
    assert abs(fit.labels.rho_0[3] - 0.15) < 0.1
    assert error_0[3] > 2 * error_0[0]


@pytest.mark.parametrize(
    ("gain", "n", "differ"),
    [(0.05, 100, False), (0.2, 100, True), (0.003, 100_000, False), (0.005, 100_000, True)],
)
def test_labels_differ_by_more_than_chance_and_mistakes(
    gain: float, n: int, *, differ: bool
) -> None:
    """Of few rounds chance explains much; of many the scores' mistakes explain .004 nats each."""
    labels = np.arange(n) % 4
    rounds = Rounds(np.zeros(n), np.zeros((3, n)), labels, np.zeros(n))
    start = first_levels(rounds.feedback)
    common, own = start._replace(loss=0.5), start._replace(loss=0.5 - gain)
    assert block_fit._differ(common, own, rounds) == differ


def test_a_prior_stays_where_nothing_is_told() -> None:
    """Rates that were drawn to it say nothing of how wide it is; ones that are known do."""
    rates = np.array([0.2, 0.2, 0.2])
    unknown = block_fit._next_prior(rates, np.zeros(3), 0.2, 10.0)
    assert unknown == pytest.approx((0.2, 10.0))
    known = block_fit._next_prior(rates, np.full(3, 1e9), 0.2, 10.0)
    assert known == pytest.approx((0.2, 1000.0))


def test_a_rate_of_nearly_0_tells_no_more_than_one_of_a_hundredth() -> None:
    """Else the first rounds without a false click would fix the rate for good."""
    rounds = Rounds(np.full(50, -40.0), np.zeros((1, 50)), np.zeros(50, np.int64), np.zeros(50))
    levels = Levels(0.0, 0.0, np.full(2, 1e-4), np.full(2, 1e-4), 0.0)
    told_0, told_1 = block_fit._information(levels, rounds)
    assert told_0.tolist() == pytest.approx([50 / 0.01, 0.0])
    assert told_1.max() < 1e-9


@given(
    seed=st.integers(0, 1000),
    n=st.integers(1, 40),
    k=st.integers(2, 4),
    scale=st.sampled_from([0.0, 1.0, 1e3, 1e30]),
    clicks=st.sampled_from(["none", "all", "some"]),
)
@settings(max_examples=25)
def test_never_fails(seed: int, n: int, k: int, scale: float, clicks: str) -> None:
    """Any scores, any feedback: finite numbers in range come back, and inputs stay as they were."""
    rng = np.random.default_rng(seed)
    feedback = {
        "none": np.zeros(n),
        "all": np.ones(n),
        "some": rng.integers(2, size=n).astype(np.float64),
    }
    scores = rng.normal(size=(n, k)) * scale
    rounds = rounds_of(scores, rng.integers(k, size=n), feedback[clicks])
    before = rounds.behind.copy()
    fit = fit_block(rounds)
    for levels in (fit.common, fit.labels, fit.chosen):
        errors = level_errors(levels, rounds, fit.prior)
        for values in (levels.rho_0, levels.rho_1, np.array(levels[:2]), levels.loss, *errors):
            assert np.isfinite(values).all()
        assert ((levels.rho_0 > 0) & (levels.rho_0 < 1)).all()
        assert all(((error > 0) & (error <= 0.29)).all() for error in errors)
    assert (rounds.behind == before).all()


def test_labels_that_were_never_shown_explain_nothing_by_chance() -> None:
    """Of ten labels two were shown: .01 nats of 1,000 rounds are more than two explain so."""
    rounds = Rounds(np.zeros(1000), np.zeros((9, 1000)), np.arange(1000) % 2, np.zeros(1000))
    start = first_levels(rounds.feedback)
    common, own = start._replace(loss=0.5), start._replace(loss=0.49)
    assert block_fit._differ(common, own, rounds)


def test_anchored_labels_are_drawn_to_the_common_rates() -> None:
    """Not to the prior's own means: a label of which nothing is told has just the common ones."""
    rounds = draw_rounds(3000, [0.2] * 3, [0.3] * 3)
    rounds = rounds.some(rounds.labels < 2)
    common = fit_block(rounds).common
    labels = anchored_levels(rounds, common, LabelPrior(0.7, 50.0, 0.1, 50.0))
    assert labels.rho_0[2] == pytest.approx(common.rho_0[0], abs=1e-3)
    assert labels.rho_1[2] == pytest.approx(common.rho_1[0], abs=1e-3)


def test_false_clicks_and_missed_ones_are_two_sides_of_one() -> None:
    """With two labels a click on one is none on the other: priors change places, too."""
    rounds = draw_rounds(600, [0.1, 0.3], [0.35, 0.15])
    # Labels are shown mostly where they are wrong: more is told of rho_0.
    rounds = rounds.some((rounds.lead < 0) | (np.arange(600) % 5 == 0))
    other = Rounds(-rounds.lead, rounds.behind, 1 - rounds.labels, 1.0 - rounds.feedback)
    fit, mirrored = fit_block(rounds).prior, fit_block(other).prior
    assert (mirrored.mean_1, mirrored.mean_0) == pytest.approx((fit.mean_0, fit.mean_1), rel=0.02)
    assert mirrored.count_1 == pytest.approx(fit.count_0, rel=0.02)
    assert mirrored.count_0 == pytest.approx(fit.count_1, rel=0.02)
