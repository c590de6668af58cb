"""What can be asked of the values that come back."""

from __future__ import annotations

from clients.noise_types import Estimate, Noise, NoiseRates


def estimate(number: int, rho_0: float, *, trusted: bool = True) -> Estimate:
    """Return a result."""
    return Estimate(
        number=number,
        ended_at_ms=0,
        took_s=1.0,
        examples=1000,
        trusted=trusted,
        verdict="",
        rho_0=rho_0,
        rho_1=0.2,
    )


def noise(rho_0: float, *history: Estimate) -> Noise:
    """Return what is known with this rate in force."""
    rates = NoiseRates(rho_0=rho_0, rho_1=0.2)
    return Noise(
        rates=rates,
        estimate_every=0,
        estimate_on_drift=False,
        drift_seq=0,
        asked=False,
        running=None,
        history=history,
    )


def test_rates_in_force_lead_to_their_estimate() -> None:
    """Errors are shown only beside the rates that they belong to."""
    new, old = estimate(2, 0.1), estimate(1, 0.3)
    assert noise(0.1, new, old).source == new
    assert noise(0.1, estimate(3, 0.3, trusted=False), new, old).source == new
    assert noise(0.3, estimate(3, 0.3, trusted=False), new, old).source is None
    assert noise(0.1).source is None


def test_results_are_found_by_number() -> None:
    """Waiting for an estimate ends with that one and no other."""
    new, old = estimate(2, 0.1), estimate(1, 0.3)
    known = noise(0.1, new, old)
    assert (known.result(1), known.result(2), known.result(3)) == (old, new, None)
