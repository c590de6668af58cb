"""Offers to speak another protocol: ignored, and what comes with them is read as it was sent."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from service.heads import MOST_HEAD_BYTES
from tests.service.test_heads import connected

#: As Java's client and `curl --http2` offer it, and as browsers do.
H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAA\r\n"
SOCKET = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
#: A body that is a request, too.
BODY = b"DELETE /b HTTP/1.1\r\nHost: x\r\n\r\n"
SIZED = b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n5\r\nDELET\r\n%x\r\n%b\r\n0\r\n\r\n" % (
    len(BODY) - 5,
    BODY[5:],
)
NEXT = b"GET /next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@pytest.fixture(autouse=True)
def echoing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the server of these tests say what was asked, and how."""

    async def echo(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body")
        names = b",".join(name for name, _ in scope["headers"])
        said = scope["method"].encode(), scope["path"].encode(), names, body
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"<%b %b %b %b>" % said})

    monkeypatch.setattr("tests.service.test_heads.answer", echo)


async def said_to(*pieces: bytes) -> bytes:
    """Return all that is answered, until the server ends the connection."""
    async with connected() as (reader, writer):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0 if len(pieces) > 2 else 0.05)
        return await reader.read()


def post(offer: bytes, rest: bytes) -> bytes:
    """Return a request with an offer."""
    return b"POST /a%20b?q=1 HTTP/1.1\r\nHost: x\r\nX-Empty:\r\n" + offer + rest


@pytest.mark.parametrize("cut", ["whole", "after the head", "in the body", "bytes"])
@pytest.mark.parametrize("rest", [SIZED, CHUNKED], ids=["sized", "chunked"])
@pytest.mark.parametrize("offer", [H2C, SOCKET], ids=["h2c", "websocket"])
async def test_the_body_of_a_request_with_an_offer_is_its_body(
    offer: bytes, rest: bytes, cut: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It was lost, or taken for the next request: whoever sends bodies on could send requests."""
    sent = post(offer, rest) + NEXT
    pieces = [sent]
    if cut == "bytes":
        pieces = [bytes([byte]) for byte in sent]
    elif cut != "whole":
        place = sent.index(b"\r\n\r\n") + 4 + (10 if cut == "in the body" else 0)
        pieces = [sent[:place], sent[place:]]
    with caplog.at_level(logging.WARNING):
        answers = await said_to(*pieces)
    assert answers.count(b"HTTP/1.1 200 OK") == 2
    first, second = answers.split(b"<")[1:]
    assert first.startswith(b"POST /a b host,x-empty,connection,")
    assert first.partition(b">")[0].endswith(b" " + BODY)
    assert second.startswith(b"GET /next ")
    # It was recommended to install what would speak the other protocol.
    assert not caplog.records


@pytest.mark.parametrize("value", [b"close, Upgrade", b"Upgrade, close", b"upgrade\r\nC: d"])
@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
async def test_a_connection_ends_as_it_was_asked_to_beside_an_offer(
    value: bytes, version: bytes
) -> None:
    """The wish to close stands in the header of the offer; HTTP/1.0 closes anyway."""
    head = b"GET /a HTTP/%b\r\nHost: x\r\nConnection: %b\r\nUpgrade: h2c\r\n\r\n" % (version, value)
    closes = b"close" in value or version == b"1.0"
    answers = await said_to(head + NEXT)
    assert answers.startswith(b"HTTP/1.1 200 OK")
    assert (b"connection: close" in answers.partition(b"<GET /a ")[0]) is closes
    assert (b"<GET /next " in answers) is not closes


async def test_requests_with_offers_keep_their_order() -> None:
    """Many short ones, in pieces as they come, are each answered once."""
    asked = [
        b"GET /%d HTTP/1.1\r\nConnection:Upgrade\r\nUpgrade:\r\n\r\n" % place
        for place in range(2000)
    ]
    answers = await said_to(b"".join(asked) + NEXT)
    paths = [said.split()[1] for said in answers.split(b"<")[1:]]
    assert paths == [b"/%d" % place for place in range(2000)] + [b"/next"]


async def test_a_head_with_an_offer_may_be_as_long_as_others() -> None:
    """It comes in pieces, and is parsed again in one."""
    long = b"X-Long: " + MOST_HEAD_BYTES // 2 * b"x" + b"\r\n"
    first, second = (await said_to(post(H2C + long, SIZED) + NEXT)).split(b"<")[1:]
    assert first.partition(b">")[0].endswith(b",x-long,content-length " + BODY)
    assert second.startswith(b"GET /next ")


@pytest.mark.parametrize("target", [b"x:80", b"/next", b"http://x/next"])
async def test_a_tunnel_is_refused(target: bytes) -> None:
    """What follows CONNECT is no request of ours; for some targets it was answered as one."""
    asked = b"CONNECT %b HTTP/1.1\r\nHost: x\r\n%b\r\n" % (target, H2C)
    answers = await said_to(asked + NEXT)
    assert answers.startswith(b"HTTP/1.1 400")
    assert b"<" not in answers
