"""A load generator for loopback: some connections, each asking again as soon as it is answered.

Or a fixed number of requests a second: one that finds all connections busy is timed from when it
was due.

The client has to be cheap, because it shares the machine with the server under test: requests are
made beforehand, answers are cut out of the stream and read afterwards.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

import numpy as np
import uvloop

#: A run that takes longer is given up.
TIMEOUT_S = 300.0
_HEADERS_END = b"\r\n\r\n"
_LENGTH = b"content-length:"


@dataclass
class Load:
    """What one run measured."""

    seconds: float = 0.0
    latencies_s: list[float] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)

    @property
    def per_second(self) -> float:
        """Answers a second."""
        return len(self.latencies_s) / self.seconds

    def percentile_ms(self, percent: float) -> float:
        """Return a percentile of the latency in ms."""
        return float(np.percentile(self.latencies_s, percent) * 1000)


def http_request(url: str, path: str, body: bytes) -> bytes:
    """Return the bytes of one POST of JSON."""
    host = urlsplit(url).netloc
    head = (
        f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def run_load(
    url: str, requests: Sequence[bytes], connections: int, per_second: float = math.inf
) -> Load:
    """Send every request once over so many connections; return what was measured.

    They are sent `per_second`, evenly spaced, or each as soon as can be.
    """
    return uvloop.run(_run(url, requests, connections, per_second))


async def _run(url: str, requests: Sequence[bytes], connections: int, per_second: float) -> Load:
    parts = urlsplit(url)
    loop = asyncio.get_running_loop()
    load = Load()
    todo = _schedule(requests, per_second)
    clients = []
    for _ in range(connections):
        _, client = await loop.create_connection(
            lambda: _Client(todo, load, paced=per_second < math.inf),
            parts.hostname or "127.0.0.1",
            parts.port or 80,
        )
        clients.append(client)
    begin_s = time.perf_counter()
    for client in clients:
        client.ask()
    async with asyncio.timeout(TIMEOUT_S):
        await asyncio.gather(*(client.done for client in clients))
    load.seconds = time.perf_counter() - begin_s
    return load


def _schedule(requests: Sequence[bytes], per_second: float) -> Iterator[tuple[bytes, float]]:
    """Yield each request, and from when on it may be sent."""
    begin_s, gap_s = time.perf_counter(), 1 / per_second
    for place, request in enumerate(requests):
        yield request, begin_s + place * gap_s


class _Client(asyncio.Protocol):
    def __init__(self, todo: Iterator[tuple[bytes, float]], load: Load, *, paced: bool) -> None:
        self._todo = todo
        self._load = load
        self._paced = paced
        self._buffer = b""
        self._asked_s = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def ask(self) -> None:
        """Send the next request when it is due, or end."""
        following = next(self._todo, None)
        if following is None:
            self.done.set_result(None)
            self._transport.close()
            return
        request, due_s = following
        now_s = time.perf_counter()
        if now_s < due_s:
            # The loop's clock rings up to a millisecond late, which is no fault of the server's.
            asyncio.get_running_loop().call_later(due_s - now_s, self._send, request)
        else:
            self._send(request, due_s if self._paced else now_s)

    def _send(self, request: bytes, since_s: float | None = None) -> None:
        self._asked_s = time.perf_counter() if since_s is None else since_s
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(_HEADERS_END)
        if end < 0:
            return
        head = self._buffer[:end].lower()
        at = head.index(_LENGTH) + len(_LENGTH)
        length = int(head[at:].split(b"\r\n", 1)[0])
        if len(self._buffer) < end + len(_HEADERS_END) + length:
            return
        load = self._load
        load.latencies_s.append(time.perf_counter() - self._asked_s)
        load.bodies.append(self._buffer[end + len(_HEADERS_END) :])
        status = int(self._buffer[9:12])
        load.statuses[status] = load.statuses.get(status, 0) + 1
        self._buffer = b""
        self.ask()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("the server closed the connection"))
