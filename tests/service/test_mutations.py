"""Raw bodies that no client would send: refused with what is documented, and nothing changes.

Every POST call gets hand-made horrors and random mutations of valid bodies. After each refusal
the model's seq and state hash are what they were; the process never answers 5xx but 503.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import httpx
import numpy as np
import psutil
import pytest

from service.edge import Edge
from tests.service.apps import (
    JSON,
    NDJSON,
    RCNBF,
    Json,
    call,
    client_of,
    create,
    running_app,
    spec_of,
)
from tests.serving import Service

#: Mutations of each valid body: some 3,000 requests in all.
MUTATIONS = 200
MANY_MB = 50_000_000
#: The most that a worker may do, in seconds of CPU, while anybody else waits: by the clock it is
#: longer on a busy machine. Without turns it is 1 and more.
LONGEST_CPU_S = 0.5


class Target(NamedTuple):
    """A call with a body that it takes."""

    name: str
    body: bytes
    lines: bool = False

    @property
    def headers(self) -> dict[str, str]:
        """Return the content type."""
        return NDJSON if self.lines else JSON


def _one(**values: Any) -> bytes:
    return json.dumps(values).encode()


def _lines(*items: Json) -> bytes:
    return "".join(json.dumps(item) + "\n" for item in items).encode()


INSTANCE: Json = {
    "x": [0.5, -1.25, 3],
    "request_id": "r\u00e9",
    "allowed": ["a", "b"],
    "min_seq": 0,
}
EXAMPLE: Json = {"x": [0.5, -1.25, 3], "label": "a", "request_id": "e"}
ROUND: Json = {
    "x": [0.5, -1.25, 3],
    "label": "a",
    "propensity": 0.5,
    "feedback": 1,
    "request_id": "o",
}
CLICK: Json = {"decision_id": "A" * 40, "feedback": 1}
TARGETS = [
    Target("predict", _one(**INSTANCE)),
    Target("feedback", _one(**CLICK)),
    Target("learn", _one(**EXAMPLE)),
    Target("rounds", _one(**ROUND)),
    Target("predict/batch", _one(items=[INSTANCE, {"x": [1, 2, 3]}])),
    Target("feedback/batch", _one(items=[CLICK, CLICK])),
    Target("learn/batch", _one(items=[EXAMPLE])),
    Target("rounds/batch", _one(items=[ROUND])),
    Target("predict/batch", _lines(INSTANCE, {"x": [1, 2, 3]}), lines=True),
    Target("feedback/batch", _lines(CLICK, CLICK), lines=True),
    Target("learn/batch", _lines(EXAMPLE), lines=True),
    Target("rounds/batch", _lines(ROUND, ROUND), lines=True),
    Target("labels", _one(add=["d"], retire=["a"])),
    Target("rates", _one(rho_0=0.1, rho_1=0.25, by_label={"b": {"rho_0": 0.5, "rho_1": 0.0}})),
]
IDS = [f"{target.name}{' lines' if target.lines else ''}" for target in TARGETS]

DEEP = b"[" * 100_000
VALUES = [
    *(b"NaN", b"-Infinity", b"1e999", b"-1e999", b"1e400", b"9" * 5000, b"0x10", b"01", b"1."),
    *(b'"\\ud800"', b'"\\udfff\\ud800"', b'"\xff"', b'"\xed\xa0\x80"', b'"\x00"', b'"\\u0000"'),
    *(b"null", b"true", b"{}", b"[]", b'""', b"[[1]]", b'{"a":{"a":1}}', DEEP, b'{"a":' * 20_000),
    *(b'"' + b"a" * 5000 + b'"', b"1e308", b"-0.0", b"1e-999", b"18446744073709551616"),
]
WHOLE = [
    *(b"", b" ", b"\n\n", b"\x00", b"\xff\xfe", b"null", b"[]", b"{}", b"true", b"1e999", b"NaN"),
    *(
        DEEP,
        b'{"a":' * 50_000,
        b'{"x":' + DEEP,
        b'{"items":' + DEEP,
        b'"\\ud800"',
        b"\xef\xbb\xbf{}",
    ),
    *(b'{"items":[]}', b'{"items":[null]}', b'{"items":{}}', b'{"items":[[]]}', b"{}" * 3000),
    b'{"x":[' + b"0," * 60_000 + b"0]}",
    b'{"x":{' + b",".join(b'"f%d":1' % i for i in range(9000)) + b"}}",
]


def spoiled(target: Target) -> Iterator[bytes]:
    """Yield the valid body with each of its values replaced, cut, doubled and extended."""
    body = target.body
    for at, end in _values_of(body):
        for value in VALUES:
            yield body[:at] + value + body[end:]
    for at in range(0, len(body), 7):
        yield body[:at]
    yield body.replace(b"{", b'{"unknown":1,', 1)
    yield body.replace(b"{", b'{"unknown":NaN,', 1)
    yield body.replace(b"{", b'{"__proto__":{},"$ref":"#",', 1)
    yield from (body + body, body + b"x", b"x" + body, body[::-1], body.decode().encode("utf-16"))


def _values_of(body: bytes) -> list[tuple[int, int]]:
    """Return where the top values of the first object of a body stand."""
    text = body.decode()
    places, decoder = [], json.JSONDecoder()
    at = text.find('": ')
    while at >= 0:
        begin = at + 3
        _, end = decoder.raw_decode(text, begin)
        places.append((len(text[:begin].encode()), len(text[:end].encode())))
        at = text.find('": ', begin if text[begin] in "[{" else end)
    return places


def mutated(body: bytes, seed: int) -> Iterator[bytes]:
    """Yield the body with random bytes flipped, cut out, doubled or put in."""
    rng = np.random.default_rng(seed)
    for _ in range(MUTATIONS):
        changed = bytearray(body)
        for _ in range(int(rng.integers(1, 5))):
            at = int(rng.integers(0, len(changed) + 1))
            kind = rng.integers(0, 4)
            if kind == 0 and at < len(changed):
                changed[at] ^= 1 << int(rng.integers(0, 8))
            elif kind == 1:
                del changed[at : at + int(rng.integers(1, 9))]
            elif kind == 2:
                changed[at:at] = changed[at : at + int(rng.integers(1, 9))]
            else:
                changed[at:at] = rng.bytes(int(rng.integers(1, 5)))
        yield bytes(changed)


# -- in this process, where thousands of requests take seconds --------------------------------
@pytest.fixture
async def app(valkey_url: str) -> AsyncIterator[Edge]:
    """Return an application."""
    async with running_app(valkey_url) as app:
        yield app


class Watched:
    """A model whose state is looked at after every request."""

    def __init__(self, app: Edge, path: str) -> None:
        self.app = app
        self.path = path
        document = app._app.openapi()  # type: ignore[attr-defined]
        self._documented = {
            path: {int(s) for s in operations["post"]["responses"]}
            for path, operations in document["paths"].items()
            if "post" in operations
        }

    async def seen(self) -> tuple[str, ...]:
        """Return the seq, chain and hash of the model's state."""
        answer = await call(self.app, "GET", f"{self.path}/state")
        return tuple(answer.headers[f"x-misclick-{name}"] for name in ("seq", "chain", "sha256"))

    async def send(self, target: Target, body: bytes) -> int:
        """Send a body; return the status after checking that it is one of the documented."""
        where = f"{self.path}/{target.name}"
        answer = await call(self.app, "POST", where, [body], target.headers)
        assert answer.status in self._documented[f"/v1/models/{{model}}/{target.name}"], body[:200]
        assert answer.status < 500
        if answer.status >= 400:
            assert json.loads(answer.body)["error"]["message"]
            assert len(answer.body) < 10_000
        return answer.status


@pytest.mark.parametrize("target", TARGETS, ids=IDS)
async def test_a_refused_request_changes_nothing(app: Edge, target: Target) -> None:
    """Horrors and mutations: documented statuses only, and a refusal leaves no trace."""
    async with client_of(app) as client:
        rival = {"name": "rival", "learner": {"kind": "forward", "n_waves": 0}}
        watched = Watched(app, await create(client, learner=RCNBF, challengers=[rival]))
    before, refused = await watched.seen(), 0
    bodies = [*WHOLE, *spoiled(target), *mutated(target.body, seed=1)]
    for body in bodies:
        status = await watched.send(target, body)
        now = await watched.seen()
        if status >= 400:
            assert now == before, body[:200]
            refused += 1
        before = now
    assert refused > 0.7 * len(bodies)
    async with client_of(app) as client:
        await client.delete(watched.path)


async def test_what_is_no_spec_makes_no_model(app: Edge) -> None:
    """POST /v1/models with every horror: 400, 413 or 422, and no model is there afterwards."""
    spec = spec_of(scaling="unit", window_s=60, seed=3)
    target = Target("", json.dumps(spec).encode())
    async with client_of(app) as client:
        before = (await client.get("/v1/models")).json()["models"]
        for body in [*WHOLE, *spoiled(target), *mutated(target.body, seed=2)]:
            answer = await call(app, "POST", "/v1/models", [body], JSON)
            if answer.status == 201:
                made = json.loads(answer.body)["name"]
                assert (await client.delete(f"/v1/models/{made}")).status_code == 204
            else:
                assert answer.status in (400, 413, 422), body[:200]
        assert (await client.get("/v1/models")).json()["models"] == before


async def test_what_is_no_export_makes_no_model(app: Edge) -> None:
    """Mutated exports are refused, or lead to a model with the very same chain."""
    async with client_of(app) as client:
        path = await create(client)
        for i in range(6):
            made = (await client.post(f"{path}/predict", json={"x": [i, 1, 2]})).json()
            sent = {"decision_id": made["decision_id"], "feedback": i % 2}
            await client.post(f"{path}/feedback", json=sent)
        export = (await client.get(f"{path}/log")).content
        chain = (await client.get(path)).json()["chain"]
        target = f"/v1/models/{spec_of()['name']}"
        for body in [*WHOLE, *mutated(export, seed=3), *mutated(export, seed=4)]:
            answer = await call(app, "POST", f"{target}/import", [body], NDJSON)
            assert answer.status in (201, 413, 422), body[:200]
            if answer.status == 201:
                model = json.loads(answer.body)
                assert model["chain"] == chain or model["seq"] < 6
                await client.delete(target)
        assert (await client.get(target)).status_code == 404


# -- over HTTP, with bodies of 50 MB ----------------------------------------------------------
HUGE: dict[str, tuple[str, dict[str, str], bytes, int]] = {
    "predict": ("predict", JSON, b'{"x":[' + b"0," * (MANY_MB // 2) + b"0]}", 413),
    "batch": ("predict/batch", JSON, b'{"items":[' + b'{"x":[1,2,3]},' * (MANY_MB // 14), 413),
    "items at their limit": (
        "predict/batch",
        JSON,
        b'{"items":[' + b'{"x":[]},' * 2_700_000 + b'{"x":[]}]}',
        413,
    ),
    "names of many items": (
        "predict/batch",
        JSON,
        b'{"items":['
        + b",".join([b'{"x":{' + b",".join(b'"f%d":1' % i for i in range(4000)) + b"}}"] * 250)
        + b"]}",
        200,
    ),
    "batch at its limit": (
        "predict/batch",
        JSON,
        b'{"items":[{"x":[' + b"0.5," * 6_000_000 + b"0]}]}",
        413,
    ),
    "lines at their limit": ("predict/batch", NDJSON, b'{"x":[1,2,3]}\n' * 1_700_000, 413),
    "bytes": ("predict/batch", NDJSON, b"\n" * 25_000_000, 422),
    "one line": ("import", NDJSON, b"[" * MANY_MB, 422),
    "labels of a header": (
        "import",
        NDJSON,
        b'{"format":"2","labels":['
        + b'"a",' * (MANY_MB // 4)
        + b'"a"],"uid":"a","counters":{},"spec":{}}',
        422,
    ),
    "spec of a header": (
        "import",
        NDJSON,
        b'{"format":"2","labels":["a"],"uid":"a","counters":{},"spec":{"x":['
        + b"{}," * (MANY_MB // 3)
        + b"1]}}",
        422,
    ),
    "a second line": (
        "import",
        NDJSON,
        b'{"format":"2","labels":["a"],"uid":"a","counters":{},"spec":{"learner":{"kind":"banditron"},'
        b'"labels":["a"],"features":{"type":"dense","size":1}}}\n{"x":[' + b"1," * (MANY_MB // 2),
        422,
    ),
}


@pytest.mark.parametrize("name", HUGE)
async def test_a_huge_body_stalls_nobody(fresh_service: Service, name: str) -> None:
    """While 50 MB come in and are refused, another connection is answered before long."""
    call_name, headers, body, status = HUGE[name]
    async with (
        httpx.AsyncClient(base_url=fresh_service.url, timeout=60) as client,
        httpx.AsyncClient(base_url=fresh_service.url, timeout=60) as other,
    ):
        path = await create(client, features={"type": "hashed", "size": 64})
        decision = (await other.post(f"{path}/predict", json={"x": {"a": 1}})).json()
        before = (await other.get(f"{path}/state")).headers["x-misclick-sha256"]
        target = f"/v1/models/{spec_of()['name']}" if call_name == "import" else path
        worker = psutil.Process(fresh_service.pid)
        sending = asyncio.create_task(_send(client, f"{target}/{call_name}", headers, body))
        waits_s = []
        while not sending.done():
            begin_s = sum(worker.cpu_times()[:2])
            assert (await other.post(f"{path}/predict", json={"x": {"a": 2}})).status_code == 200
            waits_s.append(sum(worker.cpu_times()[:2]) - begin_s)
            await asyncio.sleep(0.01)
        assert await sending in (status, None)
        assert max(waits_s) < LONGEST_CPU_S
        assert (await other.get(f"{path}/state")).headers["x-misclick-sha256"] == before
        sent = {"decision_id": decision["decision_id"], "feedback": 1}
        assert (await other.post(f"{path}/feedback", json=sent)).json()["status"] == "applied"
        await other.delete(path)


async def _send(
    client: httpx.AsyncClient, path: str, headers: dict[str, str], body: bytes
) -> int | None:
    """Send a body; return the status, or None where the service hung up on the rest of it."""
    try:
        return (await client.post(path, content=body, headers=headers)).status_code
    except (httpx.WriteError, httpx.ReadError, httpx.RemoteProtocolError):
        return None


def test_the_process_is_still_the_same(fresh_service: Service) -> None:
    """After all of that the worker is up, ready, and has logged no fault."""
    assert fresh_service.process.poll() is None
    assert httpx.get(f"{fresh_service.url}/readyz").status_code == 200
    assert "a request failed" not in fresh_service.log.read_text()
    text = httpx.get(f"{fresh_service.url}/metrics").text
    assert 'status="500"' not in text
