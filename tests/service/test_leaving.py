"""Connections of a worker that ends: no call is lost that was on its way."""

from __future__ import annotations

import asyncio

import pytest

from service import leaving
from tests.service.test_heads import GET, OK, served

SLOW = GET.replace(b"/", b"/slow", 1)


@pytest.mark.parametrize("before", [b"", GET, SLOW], ids=["new", "idle", "busy"])
async def test_one_more_request_is_answered(before: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that meets a worker as it ends is done, and its answer says that nothing follows."""
    # However busy this machine is: it comes before that.
    monkeypatch.setattr(leaving, "LEAVE_S", 5.0)
    async with served() as (server, reader, writer):
        writer.write(before)
        if before == GET:
            await reader.readuntil(b"0\r\n\r\n")
        await asyncio.sleep(0.1)
        server.should_exit = True
        await asyncio.sleep(0.2)
        if before != SLOW:
            writer.write(GET)
        answer = await reader.read()
        assert answer.startswith(OK)
        assert b"connection: close" in answer


async def test_who_does_not_ask_is_not_waited_for() -> None:
    """A connection on which nothing comes does not hold up the end."""
    async with served() as (server, reader, writer):
        writer.write(GET)
        await reader.readuntil(b"0\r\n\r\n")
        server.should_exit = True
        async with asyncio.timeout(leaving.LEAVE_S + 5.0):
            assert await reader.read() == b""
