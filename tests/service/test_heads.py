"""Heads of requests: as long as they please in requests, not in bytes or time."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from service import heads
from service.heads import MOST_HEAD_BYTES, MOST_HEADERS
from service.one_write import OneWriteProtocol

PATIENCE_S = 10.0
GET = b"GET / HTTP/1.1\r\nHost: x\r\nX: " + 150 * b"x" + b"\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKED_NOW = CHUNKED.replace(b"/", b"/now", 1)
OK = b"HTTP/1.1 200 OK"


#: More than the kernel takes for a client that does not read.
LONG = bytes(32 * 2**20)


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """Answer each request once its body is here, or at once."""
    names = b",".join(name for name, _ in scope["headers"])
    while scope["path"] != "/now" and (await receive()).get("more_body"):
        pass
    await asyncio.sleep(0.4 if scope["path"] == "/slow" else 0)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    body = LONG if scope["path"] == "/long" else names + b" done"
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Yield a connection to a server that speaks as the service does."""
    async with served() as (_, reader, writer):
        yield reader, writer


@asynccontextmanager
async def served() -> AsyncIterator[
    tuple[uvicorn.Server, asyncio.StreamReader, asyncio.StreamWriter]
]:
    """Yield such a server, too."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            answer,
            http=OneWriteProtocol,
            lifespan="off",
            ws="none",
            log_config=None,
            timeout_keep_alive=60,
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        try:
            async with asyncio.timeout(PATIENCE_S):
                yield server, reader, writer
        finally:
            writer.close()
            server.should_exit = True
            await serving


async def more(reader: asyncio.StreamReader) -> bytes:
    """Return what came next; at the end of a connection a loop would never end."""
    piece = await reader.read(65_536)
    assert piece
    return piece


LINES = [b"x", b"X: " + 997 * b"x" + b"\r\n", b"a:b\r\n"]


@pytest.mark.parametrize("line", LINES, ids=["one", "many", "short"])
async def test_a_head_without_end_is_refused(line: bytes) -> None:
    """Protects memory from headers, or one header, that go on and on."""
    async with connected() as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX: ")
        piece = 2000 // len(line) * line
        with contextlib.suppress(ConnectionError):
            while not reader.at_eof():
                writer.write(piece)
                await writer.drain()
                # It reads what was sent.
                await asyncio.sleep(0)
            assert (await reader.read()).startswith(b"HTTP/1.1 400")


async def test_a_head_has_so_many_headers_and_no_more() -> None:
    """Each takes forty times its bytes where these are few."""
    async with connected() as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n" + (MOST_HEADERS + 9) * b"a:b\r\n")
        assert b"at most 256 headers" in await reader.read()


@pytest.mark.parametrize("line", LINES, ids=["one", "many", "short"])
@pytest.mark.parametrize("path", [b"/", b"/now"])
async def test_trailers_without_end_are_not_taken(line: bytes, path: bytes) -> None:
    """Without a key each was kept: 120 MB of them took 2.8 GB, and 11 seconds of all others."""
    async with connected() as (reader, writer):
        writer.write(CHUNKED.replace(b"/", path, 1) + b"0\r\nX: ")
        sent, piece = 0, 2000 // len(line) * line
        with contextlib.suppress(ConnectionError):
            while not reader.at_eof():
                writer.write(piece)
                sent += len(piece)
                await writer.drain()
                # What was answered is read, as long as more may come.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0):
                        await reader.read(65_536)
                await asyncio.sleep(0)
        assert sent < 64 * MOST_HEAD_BYTES


async def test_a_trailer_is_no_header() -> None:
    """With a key that is none as a trailer, a call with a good one was refused."""
    async with connected() as (reader, writer):
        writer.write(CHUNKED_NOW + b"0\r\nAuthorization: none\r\n\r\n")
        assert b"host,transfer-encoding done" in await reader.readuntil(b"done")


async def test_a_body_may_come_in_many_chunks() -> None:
    """Their sizes are no trailers, however many there are."""
    async with connected() as (reader, writer):
        writer.write(CHUNKED + MOST_HEAD_BYTES * b"1\r\nx\r\n" + b"0\r\n\r\n")
        assert OK in await reader.readuntil(b"done")
        writer.write(GET)
        assert OK in await reader.readuntil(b"done")


@pytest.mark.parametrize(
    ("first", "then"), [(GET, b"\r\n"), (CHUNKED_NOW, b"5")], ids=["line", "chunk"]
)
async def test_what_is_sent_after_an_answer_holds_no_connection(
    monkeypatch: pytest.MonkeyPatch, first: bytes, then: bytes
) -> None:
    """With two bytes each, a few thousand connections locked out everybody, for ever."""
    monkeypatch.setattr(heads, "HEAD_S", 0.2)
    async with connected() as (reader, writer):
        writer.write(first)
        await reader.readuntil(b"0\r\n\r\n")
        writer.write(then)
        assert await reader.read() == b""


async def test_what_is_no_head_is_not_counted_as_one() -> None:
    """Long bodies are bounded elsewhere, and requests may come before each other's answers."""
    count = 2 * MOST_HEAD_BYTES // len(GET)
    body = 3 * MOST_HEAD_BYTES * b"x"
    async with connected() as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        writer.write(count * GET + GET[:40])
        found = b""
        while found.count(OK) < count + 1:
            found += await more(reader)
        writer.write(GET[40:])
        while found.count(OK) < count + 2:
            found += await more(reader)
        assert b"HTTP/1.1 400" not in found


@pytest.mark.parametrize("sent", [b"", GET[:40], GET + GET[:40]], ids=["none", "some", "second"])
async def test_a_head_that_does_not_come_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """Protects the connections from those who hold them open."""
    monkeypatch.setattr(heads, "HEAD_S", 0.05)
    async with connected() as (reader, writer):
        writer.write(sent)
        assert (await reader.read()).count(OK) == sent.count(b"\r\n\r\n")


async def test_an_answer_may_take_longer_than_a_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a head ends with it."""
    monkeypatch.setattr(heads, "HEAD_S", 0.2)
    async with connected() as (reader, writer):
        writer.write(GET.replace(b"/", b"/slow", 1))
        assert (await reader.readuntil(b"done")).startswith(OK)


async def test_requests_that_wait_for_their_turn_are_not_parsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Protects memory from thousands of requests at once: parsed, each takes a hundred times more.

    They are answered all the same, in their order.
    """
    made: list[OneWriteProtocol] = []
    most = 0

    class Watched(OneWriteProtocol):
        def on_headers_complete(self) -> None:
            nonlocal most
            super().on_headers_complete()
            made.append(self)
            most = max(most, len(self.pipeline))

    monkeypatch.setattr("tests.service.test_heads.OneWriteProtocol", Watched)
    short = b"GET / HTTP/1.1\r\n\r\n"
    count = 20_000
    async with connected() as (reader, writer):
        writer.write(count * short)
        found = 0
        while found < count:
            found += (await reader.read(65_536)).count(b"done")
        writer.write(GET)
        assert (await reader.readuntil(b"done")).startswith(OK)
    assert len(made) == count + 1
    assert most <= heads.PIECE_BYTES / len(short) + 1


@pytest.mark.parametrize("reads", [False, True])
async def test_who_does_not_read_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, reads: bool
) -> None:
    """Protects the calls of others from answers that nobody takes; slow readers get theirs."""
    monkeypatch.setattr(heads, "STUCK_S", 0.3)
    async with connected() as (reader, writer):
        writer.write(GET.replace(b"/", b"/long", 1))
        if not reads:
            # Of what the kernels hold for it, nothing is taken: it ends with that.
            await asyncio.sleep(1.0)
        found = pieces = 0
        with contextlib.suppress(ConnectionError):
            while found <= len(LONG) and (piece := await reader.read(65_536)):
                found, pieces = found + len(piece), pieces + 1
                await asyncio.sleep(0 if pieces % 16 else 0.03)
        assert (found > len(LONG)) is reads
        if reads:
            # And whatever is asked next, however much later.
            await asyncio.sleep(0.7)
            writer.write(GET)
            assert (await reader.readuntil(b"done")).startswith(OK)


async def test_who_stops_reading_later_is_not_waited_for_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client that took its first answer slowly, and not the next one, was kept for ever."""
    monkeypatch.setattr(heads, "STUCK_S", 0.3)
    async with connected() as (reader, writer):
        for stops in (False, True):
            writer.write(GET.replace(b"/", b"/long", 1))
            if stops:
                # Of what the kernels hold for it, nothing is taken.
                await asyncio.sleep(1.0)
            found = 0
            with contextlib.suppress(ConnectionError):
                while found <= len(LONG) and (piece := await reader.read(65_536)):
                    found += len(piece)
            assert (found > len(LONG)) is not stops
