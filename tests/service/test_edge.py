"""The edge: limits on bodies and requests, and a shortcut that answers as FastAPI does."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

import service.edge
from service.edge import MAX_SPEC_BYTES, Edge
from tests.service.apps import (
    JSON,
    NDJSON,
    Answer,
    Json,
    call,
    client_of,
    create,
    running_app,
    spec_of,
)
from tests.service.test_auth import ROUTES, Route

LIMIT = 2048
BATCH_LIMIT = 8192
#: A call that takes the shortcut, and one that does not.
BOTH_WAYS = ("/predict", "/neighbors")


@pytest.fixture
async def app(valkey_url: str) -> AsyncIterator[Edge]:
    """Return an application with tight limits."""
    limits: Json = {
        "max_body_bytes": LIMIT,
        "max_batch_body_bytes": BATCH_LIMIT,
        "max_import_bytes": 2 * BATCH_LIMIT,
        "max_batch_items": 3,
        "body_timeout_s": 0.2,
    }
    async with running_app(valkey_url, **limits) as app:
        yield app


@pytest.fixture
async def path(app: Edge) -> str:
    """Return the path of a model."""
    async with client_of(app) as client:
        return await create(client)


def error_of(answer: Answer) -> Json:
    """Return the error in an answer, after checking its form."""
    assert answer.headers["content-type"] == "application/json"
    assert int(answer.headers["content-length"]) == len(answer.body)
    # A key is asked for only where one was missing: browsers and clients ask their users for it.
    assert ("www-authenticate" in answer.headers) == (answer.status == 401)
    (error,) = json.loads(answer.body).values()
    assert error.keys() == {"code", "message", "details"}
    return dict(error)


# -- queries ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "route", [each for each in ROUTES if each.path.startswith("/v1/")], ids=lambda route: route.name
)
async def test_a_query_that_a_call_does_not_take_is_named(app: Edge, route: Route) -> None:
    """Protects whoever mistypes a parameter from an answer to another question."""
    path = route.path.replace("{model}", "m").replace("{challenger}", "c")
    async with client_of(app) as client:
        answer = await client.request(route.method, f"{path}?round=5&seed&round=6", content=b"{}")
        plain = await client.request(route.method, f"{path}?", content=b"{}")
    assert answer.status_code == 422
    assert [each["where"] for each in answer.json()["error"]["details"]] == [
        "query.round",
        "query.seed",
    ]
    assert "no such parameter" not in plain.text


async def test_a_query_that_a_call_takes_is_taken(app: Edge, path: str) -> None:
    """And who looks from outside may add what it likes: scrapers and probes do."""
    async with client_of(app) as client:
        for good in (f"{path}/evaluation?rounds=5", "/metrics?a=1", "/readyz?a", "/livez?a"):
            assert (await client.get(good)).status_code == 200


# -- bodies -----------------------------------------------------------------------------------
CALLS = [
    ("/predict", JSON, LIMIT),
    ("/feedback", JSON, LIMIT),
    ("/learn", JSON, LIMIT),
    ("/rounds", JSON, LIMIT),
    ("/neighbors", JSON, LIMIT),
    ("/labels", JSON, MAX_SPEC_BYTES),
    ("/rates", JSON, LIMIT),
    ("/predict/batch", JSON, BATCH_LIMIT),
    ("/feedback/batch", NDJSON, BATCH_LIMIT),
    ("/learn/batch", NDJSON, BATCH_LIMIT),
    ("/import", NDJSON, 2 * BATCH_LIMIT),
]


@pytest.mark.parametrize(("suffix", "headers", "limit"), CALLS)
async def test_a_body_over_its_limit_is_refused(
    app: Edge, path: str, suffix: str, headers: dict[str, str], limit: int
) -> None:
    """413 by the announced length before a byte is read, else by counting what comes."""
    announced = {**headers, "content-length": str(limit + 1)}
    answer = await call(app, "POST", path + suffix, [9.0], announced)
    assert (answer.status, error_of(answer)["code"]) == (413, "too_large")
    streamed = [b"x" * 1000] * (limit // 1000 + 1)
    answer = await call(app, "POST", path + suffix, [*streamed, 9.0], headers)
    assert (answer.status, error_of(answer)["code"]) == (413, "too_large")
    assert re.search(rf"{limit} bytes \(max_[a-z_]+_bytes\)$", error_of(answer)["message"])
    answer = await call(app, "POST", path + suffix, [b" " * (limit - 1) + b"x"], headers)
    assert answer.status in (400, 422)


async def test_a_new_model_has_a_limit_of_its_own(app: Edge) -> None:
    """Its labels may be many. FastAPI's own body is refused alike, and not answered with 400."""
    for chunks in ([b"x" * (MAX_SPEC_BYTES + 1)], [b"x" * MAX_SPEC_BYTES, b"x"]):
        answer = await call(app, "POST", "/v1/models", chunks, JSON)
        assert (answer.status, error_of(answer)["code"]) == (413, "too_large")


@pytest.mark.parametrize("suffix", ["/predict", "/feedback/batch", "/rates"])
async def test_packed_bodies_are_refused_by_name(app: Edge, path: str, suffix: str) -> None:
    """Who sends gzip is not left to wonder what is wrong with byte 0."""
    headers = {**JSON, "content-encoding": "GZip"}
    answer = await call(app, "POST", path + suffix, [b"\x1f\x8b"], headers)
    assert answer.status == 415
    assert error_of(answer)["message"] == "content-encoding: expected none, got gzip"
    headers["content-encoding"] = "identity"
    answer = await call(app, "POST", path + suffix, [b"{"], headers)
    assert answer.status == 400


@pytest.mark.parametrize("length", ["1" + "0" * 30, "9" * 5000])
async def test_an_absurd_length_is_too_large(app: Edge, path: str, length: str) -> None:
    """A length that Python refuses to read as a number is over the limit all the same."""
    for suffix in BOTH_WAYS:
        headers = {**JSON, "content-length": length}
        assert (await call(app, "POST", path + suffix, [b"{}"], headers)).status == 413


@pytest.mark.parametrize("suffix", [*BOTH_WAYS, "/learn/batch", "/labels"])
@pytest.mark.parametrize("chunks", [[9.0], [b'{"x":', 9.0]], ids=["nothing", "half"])
async def test_a_body_that_does_not_come_is_given_up(
    app: Edge, path: str, suffix: str, chunks: list[bytes | float]
) -> None:
    """A client that stops in the middle, or never begins, does not hold a request for ever."""
    answer = await call(app, "POST", path + suffix, chunks, JSON)
    assert (answer.status, error_of(answer)["code"]) == (400, "malformed")
    assert "did not come" in error_of(answer)["message"]


@pytest.mark.parametrize("suffix", BOTH_WAYS)
async def test_a_body_that_drips_is_given_up(app: Edge, path: str, suffix: str) -> None:
    """The time is for the whole body: a byte now and then does not buy more."""
    chunks: list[bytes | float] = [b" ", 0.05] * 40
    answer = await call(app, "POST", path + suffix, chunks, JSON)
    assert (answer.status, error_of(answer)["code"]) == (400, "malformed")


@pytest.mark.parametrize("too_late", [False, True])
async def test_a_stopped_request_stays_stopped(app: Edge, path: str, too_late: bool) -> None:
    """A body's time limit swallows nobody else's cancelling, not even in the same moment."""
    request = asyncio.create_task(call(app, "POST", path + "/predict", [9.0], JSON))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    if too_late:
        # The loop sleeps past the limit, so its timer and this cancelling come in one turn.
        asyncio.get_running_loop().call_later(0.2, request.cancel)
        time.sleep(0.25)  # noqa: ASYNC251 - on purpose
    else:
        request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request


async def test_an_import_may_take_long(app: Edge) -> None:
    """An import is a stream: only a pause in it is too long."""
    lines = json.dumps({"format": "0"}).encode()
    chunks: list[bytes | float] = [part for b in lines for part in (bytes([b]), 0.02)]
    target = f"/v1/models/{spec_of()['name']}/import"
    answer = await call(app, "POST", target, chunks[:-1], NDJSON)
    assert answer.status == 422
    answer = await call(app, "POST", target, [b"{", 9.0], NDJSON)
    assert answer.status == 400


@pytest.mark.parametrize("suffix", [*BOTH_WAYS, "/labels", "/import"])
async def test_a_client_that_goes_away_is_no_fault(
    app: Edge, path: str, suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Half a body and a closed connection: nothing is done, logged or counted as a 500."""
    headers = NDJSON if suffix == "/import" else JSON
    await call(app, "POST", path + suffix, [b'{"x":[1,', 0.0], headers)
    assert not caplog.records
    text = (await call(app, "GET", "/metrics")).body.decode()
    assert 'status="499"' in text
    assert 'status="500"' not in text


# -- content types ----------------------------------------------------------------------------
@pytest.mark.parametrize(("suffix", "headers", "_limit"), CALLS)
async def test_other_content_types_are_refused(
    app: Edge, path: str, suffix: str, headers: dict[str, str], _limit: int
) -> None:
    """415 for none, for a form, for text: what a page of another site could send unasked."""
    for kind in (None, "text/plain", "application/x-www-form-urlencoded", "json"):
        sent: dict[str, str] = {} if kind is None else {"content-type": kind}
        answer = await call(app, "POST", path + suffix, [b"{}"], sent)
        assert (answer.status, error_of(answer)["code"]) == (415, "unsupported_media_type")
        assert error_of(answer)["message"].endswith(f", got {kind or 'none'}")
    kind = headers["content-type"].upper() + "; charset=utf-8"
    answer = await call(app, "POST", path + suffix, [b"[]"], {"content-type": kind})
    assert answer.status == 422


# -- too many ---------------------------------------------------------------------------------
async def test_too_many_requests_are_turned_away(valkey_url: str) -> None:
    """Beyond max_requests 429 with Retry-After, for every call but the operators'."""
    async with running_app(valkey_url, max_requests=2) as app:
        async with client_of(app) as client:
            path = await create(client)
        slow = [
            asyncio.create_task(call(app, "POST", path + "/predict", [b'{"x":', 9.0], JSON))
            for _ in range(2)
        ]
        await asyncio.sleep(0.05)
        for suffix in BOTH_WAYS:
            answer = await call(app, "POST", path + suffix, [b"{}"], JSON)
            assert (answer.status, error_of(answer)["code"]) == (429, "too_many_requests")
            assert answer.headers["retry-after"] == "1"
        assert (await call(app, "GET", "/livez")).status == 200
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        assert (await call(app, "POST", path + "/predict", [b"{}"], JSON)).status == 422


async def test_bodies_are_not_held_without_end(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large batches that come together are turned away before their bodies fill the memory."""
    monkeypatch.setattr(service.edge, "MOST_HELD_BYTES", BATCH_LIMIT)
    async with running_app(valkey_url, max_batch_body_bytes=BATCH_LIMIT) as app:
        async with client_of(app) as client:
            path = await create(client)
        half = BATCH_LIMIT // 2 * b" "
        slow = [
            asyncio.create_task(call(app, "POST", f"{path}/predict/batch", [half, 9.0], JSON))
            for _ in range(2)
        ]
        await asyncio.sleep(0.05)
        body = json.dumps({"items": [{"x": [1, 2, 3]}]}).encode()
        answer = await call(app, "POST", f"{path}/predict/batch", [body], JSON)
        assert (answer.status, error_of(answer)["code"]) == (429, "too_many_requests")
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        too_large = [half, half, half]
        for _ in range(2):
            answer = await call(app, "POST", f"{path}/predict/batch", too_large, JSON)
            assert answer.status == 413
        answer = await call(app, "POST", f"{path}/predict/batch", [body], JSON)
        assert answer.status == 200


async def test_a_batch_has_a_limit_of_items(app: Edge, path: str) -> None:
    """One item more than allowed is 413, in both forms, and nothing of it is done."""
    items = [{"x": [1, 2, 3]}] * 4
    forms = [
        (json.dumps({"items": items}), JSON),
        ("\n".join(map(json.dumps, items)), NDJSON),
    ]
    for body, headers in forms:
        answer = await call(app, "POST", path + "/predict/batch", [body.encode()], headers)
        assert answer.status == 413
        assert error_of(answer)["message"].startswith("items: expected at most 3, got ")
    model = json.loads((await call(app, "GET", path)).body)
    assert model["counters"]["decisions"] == 0


# -- paths and methods ------------------------------------------------------------------------
@pytest.mark.parametrize(
    "nowhere",
    [
        "/",
        "/v1",
        "/v1/models/",
        "/v1/models/m/predict/",
        "/v1/models/m/x",
        "/v2/models",
        "/v1/models/a/b/predict",
        "/v1/models//predict",
    ],
)
async def test_a_path_that_is_not_there_is_404(app: Edge, nowhere: str) -> None:
    """404 in the one form of errors; nothing is redirected, a body would be lost on the way."""
    for method in ("GET", "POST"):
        answer = await call(app, method, nowhere, [b"{}"], JSON)
        assert (answer.status, error_of(answer)["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("method", "call_of"), [("GET", ""), ("DELETE", ""), ("POST", "/predict"), ("GET", "/state")]
)
async def test_a_name_that_is_no_models_is_quoted_in_short(
    app: Edge, method: str, call_of: str
) -> None:
    """Protects logs and terminals from what somebody puts in a path: as long, or in any sign."""
    for name in ("x" * 5000, "\u202e\x1b"):
        answer = await call(app, method, f"/v1/models/{name}{call_of}", [b'{"x":[1]}'], JSON)
        message = error_of(answer)["message"]
        assert answer.status == 404
        assert len(message) < 100
        assert message.isascii()
        assert message.isprintable()


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", "/v1/models", "GET, POST"),
        ("POST", "/v1/models/m", "DELETE, GET"),
        ("GET", "/v1/models/m/predict", "POST"),
        ("HEAD", "/v1/models/m/log", "GET"),
        ("OPTIONS", "/v1/models/m/feedback", "POST"),
        ("BREW", "/livez", "GET, HEAD"),
    ],
)
async def test_another_method_is_405(app: Edge, method: str, path: str, allow: str) -> None:
    """405 names every method that the path takes."""
    answer = await call(app, method, path)
    assert (answer.status, error_of(answer)["code"]) == (405, "method_not_allowed")
    assert answer.headers["allow"] == allow


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
async def test_health_is_told_to_whoever_asks_for_heads_only(app: Edge, path: str) -> None:
    """Some load balancers and monitors ask so."""
    assert (await call(app, "HEAD", path)).status == 200


async def test_metrics_do_not_grow_with_what_clients_invent(app: Edge) -> None:
    """Unknown methods and paths share one label each: nobody fills the memory with names."""
    for i in range(20):
        await call(app, f"BREW{i}", f"/pot/{i}")
    text = (await call(app, "GET", "/metrics")).body.decode()
    assert "BREW" not in text
    assert "/pot" not in text
    assert 'misclick_requests_total{method="other",route="unmatched",status="404"} 20.0' in text


# -- faults -----------------------------------------------------------------------------------
@pytest.mark.parametrize("suffix", BOTH_WAYS)
async def test_a_fault_is_a_500_that_says_nothing(
    app: Edge,
    path: str,
    suffix: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What nobody foresaw is logged with its trace, and the client learns no detail of it."""

    async def fail(*_: Any) -> None:
        raise RuntimeError("inner workings")

    monkeypatch.setattr("service.host.Host.use", fail)
    answer = await call(app, "POST", path + suffix, [b'{"x":[1,2,3]}'], JSON)
    assert (answer.status, error_of(answer)["code"]) == (500, "internal")
    assert b"inner" not in answer.body
    assert "inner workings" in caplog.text


# -- the shortcut -----------------------------------------------------------------------------
INSTANCE: Json = {"x": [1, 2, 3], "request_id": "r1", "allowed": ["a", "b"], "min_seq": 0}
BODIES = [
    json.dumps(INSTANCE).encode(),
    b'{"x":[1,2,3],"request_id":"r2"}',
    b' {"request_id":"r3", "x":[-1e6,1e6,0.5]}\n',
    b'{"x":[1,2]}',
    b'{"x":[1,2,NaN]}',
    b'{"x":[1,2,1e999]}',
    b'{"x":[1,2,1e7]}',
    b'{"x":{"a":1}}',
    b'{"x":[1,2,3],"allowed":["z"]}',
    b'{"x":[1,2,3],"allowed":[]}',
    b'{"x":[1,2,3],"min_seq":99}',
    b'{"x":[1,2,3],"y":1}',
    b'{"x":"\\ud800"}',
    b"[]",
    b"",
    b"\xff",
    b"[" * 1000,
]


@pytest.mark.parametrize("target", ["own", "other"])
@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
async def test_predict_answers_as_its_route_does(
    app: Edge, path: str, body: bytes, target: str
) -> None:
    """The shortcut and the plain FastAPI route give the same answer to the same body."""
    where = (path if target == "own" else "/v1/models/t-none") + "/predict"
    for headers in (JSON, {}, {"content-type": "application/json;charset=utf-8"}):
        short = await call(app, "POST", where, [body], headers)
        plain = await call(app._app, "POST", where, [body], headers)
        assert short == plain


async def test_feedback_answers_as_its_route_does(app: Edge, path: str) -> None:
    """First, repeated, contradicted, forged and broken feedback, through both ways."""
    for first, second in ((app, app._app), (app._app, app)):
        made = await call(app, "POST", path + "/predict", [b'{"x":[1,2,3]}'], JSON)
        decision = json.loads(made.body)["decision_id"]
        bodies = [
            json.dumps({"decision_id": decision, "feedback": 1}).encode(),
            json.dumps({"decision_id": decision, "feedback": 0}).encode(),
            json.dumps({"decision_id": decision[::-1], "feedback": 1}).encode(),
            json.dumps({"decision_id": decision, "feedback": True}).encode(),
            json.dumps({"decision_id": decision}).encode(),
            b"{",
        ]
        answers = [
            [await call(way, "POST", path + "/feedback", [body], JSON) for body in bodies]
            for way in (first, second)
        ]
        assert [answer.status for answer in answers[0]] == [200, 409, 404, 422, 422, 400]
        assert json.loads(answers[0][0].body)["status"] == "applied"
        assert json.loads(answers[1][0].body)["status"] == "duplicate"
        assert answers[0][1:] == answers[1][1:]


@pytest.mark.parametrize("suffix", ["/learn", "/rounds"])
async def test_what_is_told_is_answered_as_its_route_does(
    app: Edge, path: str, suffix: str
) -> None:
    """Told first, again, with another instance, of an unknown label, and broken: both ways."""
    rest = {"propensity": 0.5, "feedback": 1} if suffix == "/rounds" else {}
    for turn, (first, second) in enumerate(((app, app._app), (app._app, app))):
        told: Json = {"x": [1, 2, 3], "label": "a", "request_id": f"r{turn}"} | rest
        items = [told, told | {"x": [1, 2, 4]}, told | {"label": "z"}, told | {"x": [1]}]
        bodies = [*(json.dumps(item).encode() for item in items), b"{}", b"{"]
        answers = [
            [await call(way, "POST", path + suffix, [body], JSON) for body in bodies]
            for way in (first, second)
        ]
        assert [answer.status for answer in answers[0]] == [200, 409, 422, 422, 422, 400]
        assert json.loads(answers[0][0].body)["status"] == "applied"
        assert json.loads(answers[1][0].body)["status"] == "duplicate"
        assert answers[0][1:] == answers[1][1:]
        assert await call(app, "POST", path + suffix, [bodies[0]], {}) == await call(
            app._app, "POST", path + suffix, [bodies[0]], {}
        )


@pytest.mark.parametrize("suffix", ["/predict", "/feedback", "/learn", "/rounds"])
async def test_a_shortcut_passes_fastapi_by(
    app: Edge, path: str, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects the tests above from comparing a route with itself."""

    async def fail(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(app, "_app", fail)
    assert (await call(app, "POST", path + suffix, [b"{}"], JSON)).status == 422
