"""NoiseRates: the corrected feedback, conversions, and what is refused."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners import InputError, NoiseRates
from learners.noise import MIN_BETA


@st.composite
def rates(draw: st.DrawFn) -> NoiseRates:
    """Rates with beta >= 0.05."""
    rho_0 = draw(st.floats(0, 0.95))
    return NoiseRates(rho_0, draw(st.floats(0, 0.95 - rho_0)))


@pytest.mark.parametrize(
    ("rho_0", "rho_1", "h_0", "h_1", "var_0", "var_1"),
    [
        (0.1, 0.2, -0.142857142857, 1.285714285714, 0.183673469388, 0.326530612245),
        (0.4, 0.4, -2, 3, 6, 6),
        (0.2, 0.4, -0.5, 2, 1, 1.5),
        (0.4, 0.2, -1, 1.5, 1.5, 1),
    ],
)
def test_golden_b1(
    rho_0: float, rho_1: float, h_0: float, h_1: float, var_0: float, var_1: float
) -> None:
    """The corrected feedback and its variances, at the paper's noise settings."""
    noise = NoiseRates(rho_0, rho_1)
    low, high = noise.corrected(0), noise.corrected(1)
    assert (low, high) == pytest.approx((h_0, h_1), abs=1e-11)
    assert rho_0 * (1 - rho_0) * (high - low) ** 2 == pytest.approx(var_0, abs=1e-11)
    assert rho_1 * (1 - rho_1) * (high - low) ** 2 == pytest.approx(var_1, abs=1e-11)


@given(rates(), st.integers(0, 1))
def test_corrected_feedback_is_unbiased(noise: NoiseRates, truth: int) -> None:
    """E[h | f] = f and Var[h | f] = rho_f (1 - rho_f) / beta^2, by enumeration."""
    click = 1 - noise.rho_1 if truth else noise.rho_0
    chances = {1: click, 0: 1 - click}
    mean = sum(chance * noise.corrected(bit) for bit, chance in chances.items())
    assert mean == pytest.approx(truth, abs=1e-9)
    variance = sum(c * (noise.corrected(bit) - mean) ** 2 for bit, c in chances.items())
    assert variance == pytest.approx(click * (1 - click) / noise.beta**2, rel=1e-6, abs=1e-9)
    assert noise.corrected(1) - noise.corrected(0) == pytest.approx(1 / noise.beta)


def test_no_noise_corrects_nothing() -> None:
    """At rates 0 h(f) = f exactly, so that RCNBF is the Banditron."""
    assert (NoiseRates().corrected(0), NoiseRates().corrected(1)) == (0.0, 1.0)


def test_conversions() -> None:
    """tau_plus and p_1 are the misses, tau_minus and p_0 the false ones: never the other way."""
    expected = NoiseRates(rho_0=0.2, rho_1=0.1)
    assert NoiseRates.from_tau(tau_plus=0.1, tau_minus=0.2) == expected
    assert NoiseRates.from_p(p_0=0.2, p_1=0.1) == expected


@pytest.mark.parametrize(
    ("rho_0", "rho_1", "message"),
    [
        (-0.01, 0, "rho_0: expected a number in [0, 1), got -0.01"),
        (0, 1, "rho_1: expected a number in [0, 1), got 1"),
        (0.5, 0.5, "rho_0 + rho_1: expected at most 1 - 1e-06, got 1.0"),
        (0.9, 0.9, "rho_0 + rho_1: "),
        (float("nan"), 0, "rho_0: "),
        (0, float("inf"), "rho_1: "),
        (True, 0, "rho_0: "),
        ("0.1", 0, "rho_0: "),
        (None, 0, "rho_0: "),
    ],
)
def test_bad_rates_refused(rho_0: float, rho_1: float, message: str) -> None:
    """Rates are numbers in [0, 1) that leave some signal; nothing is coerced."""
    with pytest.raises(InputError) as refused:
        NoiseRates(rho_0, rho_1)
    assert str(refused.value).startswith(message)


def test_is_a_value() -> None:
    """Equal by value, usable as a key, and not to be changed."""
    noise = NoiseRates(0, 0.25)
    assert noise == NoiseRates(0.0, 0.25)
    assert len({noise, NoiseRates(0, 0.25)}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        noise.rho_0 = 0.1  # type: ignore[misc] # that it cannot be set is what is tried


@given(
    st.floats(0, 0.999),
    st.floats(0, 0.999),
    st.floats(0.001, 1) | st.floats(2 * MIN_BETA, 3 * MIN_BETA),
)
def test_least_beta_is_kept(rho_0: float, rho_1: float, beta_min: float) -> None:
    """Shrunk estimates have beta_min; those that need none stay as they are."""
    noise = NoiseRates.with_least_beta(rho_0, rho_1, beta_min)
    assert noise.beta >= beta_min - 1e-12
    if rho_0 + rho_1 <= 1 - beta_min:
        assert noise == NoiseRates(rho_0, rho_1)
    else:
        assert noise.rho_0 * rho_1 == pytest.approx(noise.rho_1 * rho_0)


def test_least_beta_refuses_what_is_no_rate() -> None:
    """The guard mends sums, not nonsense."""
    with pytest.raises(InputError, match="rho_1"):
        NoiseRates.with_least_beta(0.1, 1.5, 0.05)
    for beta_min in (0.0, MIN_BETA, 1.1, float("nan")):
        with pytest.raises(InputError, match="beta_min: expected a number in"):
            NoiseRates.with_least_beta(0.6, 0.6, beta_min)
