"""The two clients send the same requests."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from clients import (
    ApiError,
    AsyncClient,
    Client,
    Example,
    Feedback,
    Instance,
    NoiseRates,
    Round,
)
from tests.clients.conftest import fresh_spec

X = [0.5, -1.0, 2.0]


TOLD = Round(x=X, label="a", propensity=0.5, feedback=1, request_id="r")


OWN = {"a": NoiseRates(rho_0=0.3, rho_1=0.4)}


DAY = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "args", "options"),
    [
        ("create_model", [fresh_spec()], {}),
        ("list_models", [], {}),
        ("get_model", ["m"], {}),
        ("delete_model", ["m"], {}),
        ("change_labels", ["m"], {"add": ["d"], "retire": ["a"], "features": {"d": [0.5]}}),
        ("set_rates", ["m"], {"rho_0": 0.1, "rho_1": 0.2, "by_label": OWN}),
        ("add_challenger", ["m", "c", {"kind": "bpa"}], {}),
        ("drop_challenger", ["m", "c"], {}),
        ("promote", ["m", "c"], {}),
        (
            "relearn",
            ["m", "n"],
            {"without": [DAY], "without_retired": True, "learner": {"kind": "bpa"}},
        ),
        ("evaluate", ["m"], {"rounds": 5}),
        ("noise", ["m"], {}),
        ("estimate_noise", ["m"], {}),
        ("cancel_estimate", ["m"], {}),
        ("predict", ["m", X], {"request_id": "r", "allowed": ["a"], "min_seq": 7}),
        ("predict_batch", ["m", [Instance(x=X, request_id="r", allowed=["a"], min_seq=7)]], {}),
        ("feedback", ["m", "d", 1], {}),
        ("feedback_batch", ["m", [Feedback("d", 1)]], {}),
        ("learn", ["m", X, "a"], {"request_id": "r"}),
        ("learn_batch", ["m", [Example(x=X, label="a", request_id="r")]], {}),
        ("tell_round", ["m", X, "a"], {"propensity": 0.5, "feedback": 1, "request_id": "r"}),
        ("tell_rounds", ["m", [TOLD]], {}),
        ("neighbors", ["m", X], {}),
        ("hubs", ["m"], {}),
        ("window_noise", ["m"], {}),
        ("import_log", ["m", b"{}"], {}),
        ("state", ["m"], {}),
        ("ready", [], {}),
        ("live", [], {}),
        ("metrics", [], {}),
    ],
)
async def test_both_clients_ask_the_same(
    name: str, args: list[Any], options: dict[str, Any]
) -> None:
    """What one of them forgot on the way made another model, or had a round learned twice."""
    asked: list[tuple[str, str, bytes]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((request.method, str(request.url), request.content))
        return httpx.Response(500, json={"error": {"code": "internal", "message": "no"}})

    with Client("http://a", transport=httpx.MockTransport(answer)) as client, suppress(ApiError):
        getattr(client, name)(*args, **options)

    transport = httpx.MockTransport(answer)
    async with AsyncClient("http://a", transport=transport) as other:
        with suppress(ApiError):
            await getattr(other, name)(*args, **options)
    one, another = asked
    assert one == another
