"""One connection to Redis for the calls of a round: they go out at once, answers come in order.

redis-py takes a connection for each call and spends 48 microseconds of CPU on it (here it is 12);
and two connections may answer in any order, while one reports each write before the next.
Connecting is left to redis-py, which knows every kind of URL.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

import hiredis
from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import InvalidResponse, NoScriptError, ReadOnlyError, ResponseError
from redis.exceptions import TimeoutError as TimedOut

Part: TypeAlias = str | bytes | int
#: Its types say that a command has one part only.
_pack = cast(Callable[[tuple[Part, ...]], bytes], hiredis.pack_command)
_INCOMPLETE = object()
#: First words of those refusals by Redis that are handled here.
_REFUSALS = {"NOSCRIPT": NoScriptError, "READONLY": ReadOnlyError}


class Line:
    """Sends commands to Redis and gives back their answers, in the order of the commands.

    A call is sent once or not at all. When the connection ends, or an answer is late, every call
    under way fails, whether Redis has run it or not, and the next one connects anew.

    Parameters
    ----------
    pool
        How to connect; its socket timeout is how long an answer may take.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._answers: _Answers | None = None
        self._connecting: asyncio.Task[_Answers] | None = None

    async def call(self, *parts: Part) -> Any:
        """Return the answer to a command.

        Raises
        ------
        redis.exceptions.RedisError
            When Redis refuses, cannot be reached, or does not answer in time.
        """
        answers = self._answers
        if answers is None or answers.ended:
            answers = await self._connect()
        return await answers.ask(_pack(parts))

    async def close(self) -> None:
        """End the connection; what is under way fails."""
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
            self._connecting = None
        self.end()

    def end(self) -> None:
        """End the connection; what is under way fails, and the next call connects anew."""
        if self._answers is not None:
            self._answers.end(Disconnected("the connection to Redis was closed"))

    async def _connect(self) -> _Answers:
        # Whoever comes while an attempt is under way shares it, and its failure too.
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect_once())
            self._connecting.add_done_callback(_look_at)
        return await asyncio.shield(self._connecting)

    async def _connect_once(self) -> _Answers:
        kind = type("Taken", (_Taken, self._pool.connection_class), {})
        # The older protocol: in the newer one, unsolicited messages may come in between.
        connection = cast(_Taken, kind(**self._pool.connection_kwargs | {"protocol": 2}))
        try:
            await cast(Awaitable[None], connection.connect())  # type: ignore[no-untyped-call]
            self._answers = connection.take()
            return self._answers
        finally:
            self._connecting = None
            await connection.disconnect(nowait=True)


class _Taken(AbstractConnection):
    """A connection that redis-py makes and greets, and that is then taken over."""

    def take(self) -> _Answers:
        """Return what receives the answers from now on."""
        writer = cast(asyncio.StreamWriter, self._writer)
        self._reader = self._writer = None
        answers = _Answers(writer, cast(float, self.socket_timeout))
        writer.transport.set_protocol(answers)
        return answers


class _Answers(asyncio.Protocol):
    """Gives each answer to the oldest call that waits for one."""

    def __init__(self, writer: asyncio.StreamWriter, timeout_s: float) -> None:
        self.ended = False
        # The transport's first owner, which closes it when it is collected.
        self._writer = writer
        self._transport = writer.transport
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[float, asyncio.Future[Any]]] = deque()
        self._heard_s = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._reader = hiredis.Reader(
            protocolError=InvalidResponse, replyError=_refusal, notEnoughData=_INCOMPLETE
        )

    def ask(self, packed: bytes) -> asyncio.Future[Any]:
        """Send a command; the future is its answer."""
        # First: on a connection that ended a moment ago it raises, and must leave no waiter behind.
        self._transport.write(packed)
        answer: asyncio.Future[Any] = self._loop.create_future()
        end_s = self._loop.time() + self._timeout_s
        self._waiting.append((end_s, answer))
        if self._timer is None:
            self._timer = self._loop.call_at(end_s, self._look)
        return answer

    def end(self, error: Exception) -> None:
        """End the connection; what is under way fails with `error`."""
        self.ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for _, waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(error)
        self._waiting.clear()
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take in a piece of the answers."""
        self._heard_s = self._loop.time()
        try:
            self._reader.feed(data)
            while (answer := self._reader.gets()) is not _INCOMPLETE:
                _, waiter = self._waiting.popleft()
                # Whoever asked may have gone; the answer is still the one to that call.
                if waiter.done():
                    continue
                if isinstance(answer, ResponseError):
                    waiter.set_exception(answer)
                else:
                    waiter.set_result(answer)
        except (InvalidResponse, IndexError) as error:
            self.end(Disconnected(f"Redis sent a malformed answer: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what is under way."""
        self.end(Disconnected(f"the connection to Redis was lost: {exc or 'closed'}"))

    def _look(self) -> None:
        """End if the oldest call has waited too long; else look again when it would have.

        It has only if nothing came meanwhile: on a thin line megabytes may come before its answer.
        """
        self._timer = None
        if not self._waiting:
            return
        end_s = max(self._waiting[0][0], self._heard_s + self._timeout_s)
        if end_s <= self._loop.time():
            self.end(TimedOut("Redis did not answer in time"))
        else:
            self._timer = self._loop.call_at(end_s, self._look)


def _refusal(message: str) -> ResponseError:
    return _REFUSALS.get(message.partition(" ")[0], ResponseError)(message)


def _look_at(attempt: asyncio.Task[_Answers]) -> None:
    # Whoever waited may have gone; an error that nobody looks at would be logged as a fault.
    if not attempt.cancelled():
        attempt.exception()
