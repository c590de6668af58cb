"""What both clients do with answers that are none of the service's."""

from __future__ import annotations

from functools import partial
from typing import Any

import httpx
import pytest

from clients import (
    ApiError,
    AsyncClient,
    Client,
    InputError,
    ProtocolError,
    Retries,
    TooManyRequestsError,
    TransportError,
    UnavailableError,
)
from clients._wire import IMPORT_S

SOON = Retries(tries=3, base_s=0.001)
#: What nginx says while the service behind it restarts.
PAGE = "<html><title>502 Bad Gateway</title></html>"


class _Proxy:
    """Answers as a proxy whose service comes back after some requests."""

    def __init__(self, status: int, failures: int) -> None:
        self._answer = httpx.Response(status, text=PAGE)
        self._failures = failures
        self.requests = 0

    def __call__(self, _: httpx.Request) -> httpx.Response:
        self.requests += 1
        if self.requests <= self._failures:
            return self._answer
        return httpx.Response(200, json={"models": []})


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_a_service_that_restarts_behind_a_proxy_is_asked_again(status: int) -> None:
    """As one that refuses connections is, without a proxy."""
    for failures in (1, 2):
        proxy = _Proxy(status, failures)
        with Client("http://a", transport=httpx.MockTransport(proxy), retries=SOON) as client:
            assert client.list_models() == []
        assert proxy.requests == failures + 1
        proxy = _Proxy(status, failures)
        transport = httpx.MockTransport(proxy)
        async with AsyncClient("http://a", transport=transport, retries=SOON) as other:
            assert await other.list_models() == []
        assert proxy.requests == failures + 1


def test_where_no_answer_came_from_is_said_without_a_password() -> None:
    """The address may be the wrong one; what stands in it may be a secret."""
    proxy = _Proxy(502, failures=9)
    transport = httpx.MockTransport(proxy)
    with (
        Client("http://me:secret@host:81/api/", transport=transport, retries=SOON) as client,
        pytest.raises(TransportError) as broken,
    ):
        client.get_model("ads")
    assert str(broken.value) == (
        "GET http://host:81/api/v1/models/ads: 502: expected an answer of the service, "
        f"got {PAGE.encode()!r}"
    )
    assert proxy.requests == SOON.tries


def test_other_answers_are_no_matter_of_waiting() -> None:
    """A page that is not found stays so; the service's own 503 keeps its words."""
    proxy = _Proxy(404, failures=9)
    with (
        Client("http://a", transport=httpx.MockTransport(proxy), retries=SOON) as client,
        pytest.raises(ProtocolError),
    ):
        client.list_models()
    assert proxy.requests == 1
    said = {"error": {"code": "unavailable", "message": "Redis does not answer"}}
    transport = httpx.MockTransport(lambda _: httpx.Response(503, json=said))
    with (
        Client("http://a", transport=transport, retries=SOON) as client,
        pytest.raises(UnavailableError, match="Redis does not answer"),
    ):
        client.list_models()


class _Fails:
    """Ends the first try so, and refuses the next ones as too many."""

    def __init__(self, first: Exception | int) -> None:
        self._first: Exception | int = first

    def __call__(self, _: httpx.Request) -> httpx.Response:
        first, self._first = self._first, 429
        if isinstance(first, Exception):
            raise first
        if first == 502:
            return httpx.Response(502, text=PAGE)
        code = {429: "too_many_requests", 503: "unavailable"}[first]
        return httpx.Response(first, json={"error": {"code": code, "message": "too many"}})


@pytest.mark.parametrize(
    ("first", "raised"),
    [
        (httpx.ReadTimeout("no answer"), TransportError),
        (httpx.WriteError("broken"), TransportError),
        (502, TransportError),
        (503, TransportError),
        (httpx.ConnectError("refused"), TooManyRequestsError),
        (httpx.ConnectTimeout("nobody"), TooManyRequestsError),
        (429, TooManyRequestsError),
    ],
)
async def test_a_refusal_after_a_lost_answer_says_that_nobody_knows(
    first: Exception | int, raised: type[Exception]
) -> None:
    """Who tells rounds again after a refusal, which applied nothing, would tell them twice."""
    with (
        Client("http://a", transport=httpx.MockTransport(_Fails(first)), retries=SOON) as client,
        pytest.raises(raised, match="too many"),
    ):
        client.list_models()
    transport = httpx.MockTransport(_Fails(first))
    async with AsyncClient("http://a", transport=transport, retries=SOON) as other:
        with pytest.raises(raised, match="too many"):
            await other.list_models()


@pytest.mark.parametrize(
    ("name", "value"),
    [("all_proxy", "socks5://a"), ("no_proxy", "fe80::/10"), ("http_proxy", "ftp://a")],
)
async def test_a_proxy_that_cannot_be_is_an_error_of_ours(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And none where no proxy is asked: the service on this machine."""
    monkeypatch.setenv(name, value)
    for kind in (Client, AsyncClient):
        for host in ("localhost", "127.0.0.1:8000", "[::1]:8000"):
            kind(f"http://{host}")
        with pytest.raises(InputError, match="the environment's proxy"):
            kind("http://elsewhere")


class _Waits:
    """Notes how long each request may wait for its answer."""

    def __init__(self) -> None:
        self.read_s: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        timeout = request.extensions["timeout"]
        assert timeout["connect"] == 2.5
        # The service reads the rest of a body late where its beginning takes long to make.
        assert timeout["write"] == timeout["read"]
        self.read_s.append(timeout["read"])
        return httpx.Response(500, json={"error": {"code": "internal", "message": "no"}})


async def test_an_import_may_take_its_time() -> None:
    """All that the model learned is learned anew: the answer came after the client had gone."""
    waits = _Waits()
    transport = httpx.MockTransport(waits)
    with Client("http://a", timeout_s=2.5, transport=transport) as client:
        for call in (client.list_models, lambda: client.import_log("ads", b"{}")):
            with pytest.raises(ApiError):
                call()
    async with AsyncClient("http://a", timeout_s=2.5, transport=transport) as other:
        for promise in (other.list_models(), other.import_log("ads", b"{}")):
            with pytest.raises(ApiError):
                await promise
    assert waits.read_s == [2.5, IMPORT_S] * 2


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"base_url": "localhost:8000"}, "base_url: expected http:// or https://"),
        ({"base_url": "ftp://a"}, "base_url: expected http:// or https://"),
        ({"base_url": "http://"}, "base_url: expected http:// or https:// and a host"),
        ({"base_url": "http://a\n"}, "base_url: expected http:// or https://"),
        ({"base_url": "http://a?key=1"}, "base_url: expected http:// or https://"),
        ({"base_url": "http://me:s3cret@a:port"}, "base_url: expected .*, got 'a:port'"),
        ({"timeout_s": 0.0}, "timeout_s: expected above 0 and finite, got 0.0"),
        ({"timeout_s": float("nan")}, "timeout_s: expected above 0 and finite, got nan"),
        ({"timeout_s": float("inf")}, "timeout_s: expected above 0 and finite, got inf"),
        ({"retries": 3}, r"retries: expected Retries\(tries=...\), got 3"),
        ({"api_key": "s3cret\n"}, "api_key: expected printable ASCII"),
        ({"api_key": "s3cr\u00e9t"}, "api_key: expected printable ASCII"),
        ({"api_key": ""}, "api_key: expected printable ASCII"),
    ],
)
def test_what_no_client_can_be_made_of_is_said(
    kind: type[Client] | type[AsyncClient], wrong: dict[str, Any], complaint: str
) -> None:
    """At once, and without the key: a file's last line came with its end, and stood in errors."""
    with pytest.raises(InputError, match=f"^{complaint}") as refused:
        kind(**({"base_url": "http://a"} | wrong))
    assert "s3cr" not in str(refused.value)


def test_a_redirect_is_told_with_where_it_leads() -> None:
    """Of a service that has moved to https, the words of the proxy told nothing."""
    moved = httpx.MockTransport(
        lambda _: httpx.Response(301, text=PAGE, headers={"location": "https://b/v1/models"})
    )
    said = (
        r"GET http://a/v1/models: 301: expected an answer, got a redirect to "
        r"https://b/v1/models$"
    )
    with (
        Client("http://a", transport=moved) as client,
        pytest.raises(ProtocolError, match=said),
    ):
        client.list_models()


@pytest.mark.parametrize(("status", "page"), [(200, PAGE), (200, ""), (308, "moved")])
async def test_a_page_is_no_answer(status: int, page: str) -> None:
    """A model was held for deleted, a service for alive, and a page for an export."""
    transport = httpx.MockTransport(lambda _: httpx.Response(status, text=page))
    with Client("http://a", transport=transport) as client:
        for call in (
            client.live,
            partial(client.state, "m"),
            lambda: list(client.export_log("m")),
            # The service itself answers a delete with nothing.
            partial(client.delete_model, "m") if page else client.list_models,
        ):
            with pytest.raises(ProtocolError, match=r"^[A-Z]+ http://a/.*: expected a"):
                call()
    async with AsyncClient("http://a", transport=transport) as other:
        with pytest.raises(ProtocolError, match=r"^GET http://a/v1/models/m/log: .*expected an e"):
            _ = [piece async for piece in other.export_log("m")]


async def test_an_answer_that_cannot_be_unpacked_is_none() -> None:
    """It raised an error of httpx, which nobody expects, and was not asked for again."""
    answers: list[httpx.Response] = []

    def answer(_: httpx.Request) -> httpx.Response:
        packed = {"content-encoding": "gzip", "content-type": "application/x-ndjson"}
        broken = httpx.ByteStream(b"cut")
        answers.append(httpx.Response(200, headers=packed, stream=broken))
        return answers[-1]

    transport = httpx.MockTransport(answer)
    with Client("http://a", transport=transport, retries=SOON) as client:
        with pytest.raises(TransportError, match="DecodingError"):
            client.list_models()
        assert len(answers) == SOON.tries
        with pytest.raises(TransportError, match="DecodingError"):
            list(client.export_log("m"))
    async with AsyncClient("http://a", transport=transport, retries=SOON) as other:
        with pytest.raises(TransportError, match="DecodingError"):
            await other.list_models()
        with pytest.raises(TransportError, match="DecodingError"):
            _ = [piece async for piece in other.export_log("m")]
