"""A client of a real service, and models for it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from clients import Client, Dense, ModelSpec
from tests.serving import Service


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    """Return a client of the session's service."""
    with Client(service.url) as client:
        yield client


def fresh_spec(**options: Any) -> ModelSpec:
    """Return the spec of a model of its own for a test."""
    given: dict[str, Any] = {
        "name": f"t-{secrets.token_hex(6)}",
        "learner": {"kind": "rcnbf", "gamma": 0.1, "rho_0": 0.1, "rho_1": 0.2},
        "labels": ("a", "b", "c"),
        "features": Dense(3),
    }
    return ModelSpec(**(given | options))
