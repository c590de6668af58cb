"""The filter of noise rates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners import InputError, NoiseRates, StateError
from learners.bandits.rate_beliefs import MAX_RATE, MAX_SUM
from learners.bandits.rate_filter import RateFilter

SEEDS = st.integers(0, 2**32 - 1)


def heard(rates: RateFilter, rho_0: list[float], rho_1: list[float], n_rounds: int) -> RateFilter:
    """Let it hear clicks of labels that are right in half of the rounds, as is known."""
    rng = np.random.default_rng(0)
    for _ in range(n_rounds):
        label, right = int(rng.integers(len(rho_0))), float(rng.random() < 0.5)
        chance = 1 - rho_1[label] if right else rho_0[label]
        learn(rates, label, int(rng.random() < chance), right)
    return rates


def learn(
    rates: RateFilter,
    label: int,
    bit: int,
    right: float,
    bend: float = 0.0,
    shown_with: float | None = None,
) -> None:
    """Let it hear a click on a label, which somebody else has shown with a probability if told."""
    rates.learn(label, bit, right=right, bend=bend, doubt=0.0, propensity=shown_with)


def test_finds_what_is_there() -> None:
    """Where it is known which labels are right, rates come near what counting would give."""
    rho_0, rho_1 = [0.05, 0.3, 0.5], [0.15, 0.2, 0.25]
    rates = heard(RateFilter(3, NoiseRates(0.2, 0.2)), rho_0, rho_1, 6_000)
    # 1,000 clicks of each kind: counting has a standard error of .011 to .016.
    np.testing.assert_allclose(rates.each[0], rho_0, atol=0.04)
    np.testing.assert_allclose(rates.each[1], rho_1, atol=0.04)


def test_errors_say_how_much_of_a_guess_the_rates_are() -> None:
    """Before any click they may be far off; what clicks have said is known; so is what was set."""
    rates = RateFilter(3, NoiseRates(0.2, 0.2))
    assert min(error.min() for error in rates.errors) > 0.15
    heard(rates, [0.05, 0.3, 0.5], [0.4, 0.4, 0.4], 6_000)
    assert max(error.max() for error in rates.errors) < 0.08
    assert np.abs(rates.each[1] - 0.4).max() < 2 * rates.errors[1].min()
    rates.set_common(NoiseRates(0.1, 0.1))
    assert max(error.max() for error in rates.errors) == 0


def test_what_is_common_helps_a_label_that_was_never_shown() -> None:
    """A new label begins half way from the first guess to what three others have in common."""
    rates = heard(RateFilter(3, NoiseRates(0.2, 0.2)), [0.4, 0.4, 0.4], [0.3, 0.3, 0.3], 6_000)
    rates.add(1)
    new_0, new_1 = rates.of(3)
    assert (new_0, new_1) == pytest.approx((0.3, 0.3), abs=0.04)
    assert rates.errors[0][3] > 0.15 > rates.errors[0][:3].max()
    assert rates.common_beta == pytest.approx(1 - new_0 - new_1)


@pytest.mark.parametrize("sharpens", [True, False])
def test_scores_that_lag_behind_do_not_pass_for_false_clicks(sharpens: bool) -> None:
    """Clicks never lie, and .8 is a right label's p at first: only with a sharpness is rho_0 0."""
    least = 1.0 if sharpens else None
    rates, gap = RateFilter(2, NoiseRates(0.2, 0.2), least_sharpness=least), np.log(4.0)
    for i in range(2_000):
        truth = int(i % 50 > 0)
        score = gap if truth else -gap
        right = float(1 / (1 + np.exp(-score * rates.sharpness)))
        beta = 1 - sum(rates.of(0))
        learn(rates, 0, truth, right, beta * right * (1 - right) * score)
    assert (rates.sharpness > 2, rates.of(0)[0] < 0.05) == (sharpens, sharpens)
    assert sharpens or rates.sharpness == 1


@pytest.mark.parametrize("knew", [True, False])
def test_what_the_one_who_chose_knew_does_not_pass_for_false_clicks(knew: bool) -> None:
    """In a log of somebody who is mostly right, while p is still .1: his propensities tell."""
    rates, rng = RateFilter(10, NoiseRates(0.2, 0.2)), np.random.default_rng(0)
    for _ in range(2_000):
        explored, label = rng.random() < 0.1, int(rng.integers(10))
        right = rng.random() < (0.1 if explored else 0.9)
        clicked = int(rng.random() < (0.8 if right else 0.1))
        shown_with = (0.01 if explored else 0.91) if knew else None
        learn(rates, label, clicked, 0.1, shown_with=shown_with)
    assert (rates.trust > 0.7, rates.each[0].mean() < 0.25) == (knew, knew)
    assert knew or rates.each[0].mean() > 0.4


def test_known_rates_leave_sharpness_and_trust_to_be_found() -> None:
    """Whoever sets the rates says nothing of the scores, or of somebody else who decides."""
    rates = RateFilter(2, NoiseRates(0.2, 0.2))
    rates.set_common(NoiseRates(0.1, 0.1))
    learn(rates, 0, 1, 0.5, bend=0.2, shown_with=0.9)
    assert rates.sharpness > 1
    assert rates.trust > 0
    assert [each.tolist() for each in rates.each] == [[0.1] * 2] * 2


def test_only_a_sharpness_below_1_adds_to_the_errors() -> None:
    """Above it p was not too sure: by how much says nothing of the rates. Known ones have none."""
    errors = []
    for sharpness in (0.5, 1.0, 4.0):
        rates = RateFilter(2, NoiseRates(0.2, 0.2), least_sharpness=0.5)
        rates._common.means[2] = sharpness
        errors.append(float(rates.errors[0][0]))
        rates.set_common(NoiseRates(0.1, 0.1))
        assert not np.any(rates.errors)
    assert errors[0] > errors[1] == errors[2]


def test_trust_in_somebody_else_adds_to_the_errors() -> None:
    """He may be right more often than he drew. Rates that were set are known all the same."""
    rates = RateFilter(2, NoiseRates(0.2, 0.2))
    before_0, before_1 = rates.errors
    rates._common.means[3] = 0.5
    after_0, after_1 = rates.errors
    np.testing.assert_allclose(after_0, np.hypot(before_0, 0.06), rtol=1e-12)
    np.testing.assert_allclose(after_1, np.hypot(before_1, 0.06), rtol=1e-12)
    rates.set_common(NoiseRates(0.1, 0.1))
    assert not np.any(rates.errors)


def test_what_is_common_stays_at_its_bounds() -> None:
    """Where every click contradicts nothing runs away, to be long in coming back."""
    rates, known = (RateFilter(2, NoiseRates(0.2, 0.2)) for _ in range(2))
    known.set_common(NoiseRates(0.1, 0.1))
    for _ in range(4_000):
        learn(rates, 0, 1, 0.0)
        learn(known, 0, 1, 0.5, bend=1.0)
        learn(known, 0, 1, 0.1, shown_with=0.9)
    assert rates._common.means[0] == MAX_RATE
    assert rates._own[0].rho_0 <= 0
    assert (known.sharpness, known.trust) == (10.0, 1.0)
    for _ in range(4_000):
        learn(known, 0, 0, 0.5, bend=1.0)
        learn(known, 0, 0, 0.1, shown_with=0.9)
    assert (known.sharpness, known.trust) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("common", "own", "used"),
    [
        ([0.5, 0.1], (0.5, -0.2), (MAX_RATE, 0.0)),
        ([0.1, 0.5], (-0.2, 0.5), (0.0, MAX_RATE)),
        ([0.6, 0.3], (0.0, 0.3), (MAX_SUM / 2, MAX_SUM / 2)),
        ([0.5, 0.2], (0.1, 0.1), (0.6, 0.3)),
    ],
)
def test_rates_are_used_within_bounds(
    common: list[float], own: tuple[float, float], used: tuple[float, float]
) -> None:
    """Where others' clicks have moved what is common, a label's own can lie beyond, or the sum."""
    rates = RateFilter(1, NoiseRates(0.2, 0.2))
    rates._common.means[:2] = common
    rates._own[0] = rates._own[0]._replace(rho_0=own[0], rho_1=own[1])
    assert rates.of(0) == pytest.approx(used, abs=1e-12)
    assert np.ravel(rates.each) == pytest.approx(used, abs=1e-12)


@given(seed=SEEDS)
def test_stays_within_bounds(seed: int) -> None:
    """Whatever is heard, all is in range, doubt about rates does not grow, nothing is ever NaN."""
    rng = np.random.default_rng(seed)
    rates = RateFilter(2, NoiseRates(0.2, 0.2))
    doubt = rates.spread(0, 0.5)
    for _ in range(200):
        learn(rates, 0, int(rng.integers(2)), rng.random(), float(rng.normal()), rng.random())
        assert 1 <= rates.sharpness <= 10
        assert 0 <= rates.trust <= 1
        rho_0, rho_1 = rates.of(0)
        assert 0 <= rho_0 <= MAX_RATE
        assert 0 <= rho_1 <= MAX_RATE
        assert rho_0 + rho_1 <= MAX_SUM + 1e-12
        assert rates.spread(0, 0.5) <= doubt + 1e-15
        doubt = rates.spread(0, 0.5)


@pytest.mark.parametrize("known", [True, False])
def test_state_round_trip(known: bool) -> None:
    """What is restored goes on as the saved one would, also where rates were set."""
    rates = heard(RateFilter(2, NoiseRates(0.1, 0.2)), [0.1, 0.3], [0.1, 0.1], 50)
    if known:
        rates.set_common(NoiseRates(0.3, 0.1))
    copy = RateFilter(2, NoiseRates(0.2, 0.2))
    copy.restore(rates.state())
    for each in (rates, copy):
        learn(each, 1, 1, 0.3, 0.1, 0.7)
    for name, array in rates.state().items():
        assert np.asarray(array).tobytes() == np.asarray(copy.state()[name]).tobytes()


@pytest.mark.parametrize(
    "variances", [(-1e-6, 0.0, 0.1), (0.1, 0.5, 0.1), (0.1, 0.0, -1e-6), (0.0, 1e-6, 0.0)]
)
def test_what_is_no_covariance_is_refused(variances: tuple[float, float, float]) -> None:
    """A variance below 0, and a covariance larger than its variances, are named."""
    rates = RateFilter(2, NoiseRates(0.2, 0.2))
    state = rates.state()
    own = np.array(state["own_rates"])
    own[1, 2:] = variances
    with pytest.raises(StateError, match=r"own_rates\[1\]: expected rates with their cov"):
        rates.restore({**state, "own_rates": own})


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("common_rates", 0, 2e3),
        ("common_rates", 2, 0.9),
        ("common_rates", 2, 10.1),
        ("common_rates", 2, np.nan),
        ("common_rates", 3, -0.1),
        ("common_rates", 3, 1.1),
        ("common_covariance", (0, 0), 0.05),
        ("common_covariance", (0, 1), 0.1),
        ("common_covariance", (2, 2), -1.0),
        ("common_covariance", (3, 3), 0.1),
    ],
)
def test_a_common_part_that_no_clicks_lead_to_is_refused(
    name: str, place: int | tuple[int, int], value: float
) -> None:
    """Sharpness or trust out of bounds, a rate without measure, what is no covariance: named."""
    rates = RateFilter(2, NoiseRates(0.2, 0.2))
    state = rates.state()
    common = np.array(state[name])
    common[place] = value
    with pytest.raises(StateError, match=name):
        rates.restore({**state, name: common})


def test_an_estimate_is_doubted_no_more_than_a_new_label() -> None:
    """Whose error is larger says no more than that nothing is known."""
    rates, sure = RateFilter(2, NoiseRates(0.2, 0.2)), np.array([0.1, 0.01])
    rates.set_each(sure, sure, np.array([9.0, 0.1]), np.array([0.01, 9.0]))
    assert [each.tolist() for each in rates.errors] == [[0.15, 0.1], [0.01, 0.03]]


def test_bad_estimates_are_refused() -> None:
    """An error below 0 or without end, and a rate of 1, are named, and nothing has changed."""
    rates, good = RateFilter(2, NoiseRates(0.2, 0.2)), np.array([0.1, 0.2])
    for error in (-good, good * np.inf):
        with pytest.raises(InputError, match="rho_1_error"):
            rates.set_each(good, good, good, error)
    with pytest.raises(InputError, match="rho_1:"):
        rates.set_each(good, np.array([1.0, 0.2]), good, good)
    assert rates.of(0) == (0.2, 0.2)
