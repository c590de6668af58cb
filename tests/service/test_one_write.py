"""The transport that joins the writes of one turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from service.one_write import MOST_HELD, JoiningTransport


class Counted(asyncio.Transport):
    """Notes what is written, and passes it on to a real transport."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.writes: list[bytes] = []

    def write(self, data: bytes) -> None:  # type: ignore[override]
        """Note and write."""
        self.writes.append(data)
        self._transport.write(data)

    def close(self) -> None:
        """Close it."""
        self._transport.close()

    def is_closing(self) -> bool:
        """Say whether it closes."""
        return self._transport.is_closing()


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[JoiningTransport, Counted, asyncio.StreamReader]]:
    """Yield a joining transport, the one below it, and the other end."""
    begun: asyncio.Future[asyncio.StreamWriter] = asyncio.get_running_loop().create_future()

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # From Python 3.13 on, one that nobody holds closes its connection.
        begun.set_result(writer)

    server = await asyncio.start_server(accept, "127.0.0.1")
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        accepted = await begun
        assert isinstance(accepted.transport, asyncio.Transport)
        below = Counted(accepted.transport)
        yield JoiningTransport(below, asyncio.get_running_loop()), below, reader
        below.close()
        writer.close()
        await writer.wait_closed()


async def test_the_writes_of_one_turn_leave_together_and_in_order() -> None:
    """A head and a body apart would wake the client twice."""
    async with connected() as (joining, below, reader):
        joining.write(b"head ")
        joining.write(bytearray(b"body"))
        assert below.writes == []
        assert await reader.readexactly(9) == b"head body"
        assert below.writes == [b"head body"]
        joining.write(b"next turn")
        assert await reader.readexactly(9) == b"next turn"
        assert below.writes == [b"head body", b"next turn"]


async def test_a_long_answer_is_not_held_back() -> None:
    """What streams must not pile up here, or its writer would never hear of a slow client."""
    async with connected() as (joining, below, reader):
        joining.write(bytes(MOST_HELD))
        joining.write(b"x")
        assert [len(part) for part in below.writes] == [MOST_HELD + 1]
        await reader.readexactly(MOST_HELD + 1)


async def test_closing_sends_first_what_was_written() -> None:
    """An answer with `connection: close` must arrive whole."""
    async with connected() as (joining, below, reader):
        joining.write(b"last words")
        joining.close()
        assert await reader.read() == b"last words"
        assert joining.is_closing()
        assert below.writes == [b"last words"]


async def test_a_client_that_has_gone_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is written to a closed connection: a line of the log for each would fill a disk."""
    async with connected() as (joining, below, reader):
        joining.write(b"too late")
        below.close()
        await asyncio.sleep(0)
        assert below.writes == []
        assert await reader.read() == b""
    assert not caplog.records
