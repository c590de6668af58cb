"""The two clients send the same requests."""

from __future__ import annotations

from datetime import UTC, datetime

from clients import (
    NoiseRates,
    Round,
)

X = [0.5, -1.0, 2.0]


TOLD = Round(x=X, label="a", propensity=0.5, feedback=1, request_id="r")


OWN = {"a": NoiseRates(rho_0=0.3, rho_1=0.4)}


DAY = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC)
