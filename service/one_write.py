"""What is written to a connection in one turn of the event loop leaves in one piece.

uvicorn writes the head of an answer and its body apart. Each write is a system call that wakes the
client, and the first wakes it for nothing: together they cost more than a round of a learner (a
fifth of all that a hot call costs the worker).
"""

from __future__ import annotations

import asyncio
from typing import Any

from service.leaving import LeavingProtocol

#: Bytes that may be held back: an answer that streams goes out as it comes, and its writer learns
#: in time that the client does not keep up.
MOST_HELD = 65_536


class OneWriteProtocol(LeavingProtocol):
    """uvicorn's protocol on a transport that joins writes."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to speak HTTP on a connection."""
        super().connection_made(JoiningTransport(transport, self.loop))


class JoiningTransport(asyncio.Transport):
    """A transport that passes on what was written when the turn ends, or `MOST_HELD` is reached."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []
        self._size = 0

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Send `data`, after what was written before."""
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held.append(bytes(data))
        self._size += len(data)
        if self._size > MOST_HELD:
            self._flush()

    def _flush(self) -> None:
        if self._held:
            held, self._held, self._size = self._held, [], 0
            # A client may have gone in the turn in which it was answered.
            if not self._transport.is_closing():
                self._transport.write(b"".join(held))

    def close(self) -> None:
        """Close the connection once everything was sent."""
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self._held, self._size = [], 0
        self._transport.abort()

    def get_write_buffer_size(self) -> int:
        """Return how many bytes wait until the client takes them."""
        return self._size + self._transport.get_write_buffer_size()

    def is_closing(self) -> bool:
        """Say whether the connection is closed or about to be."""
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what is known of the connection."""
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """Take nothing in until `resume_reading`."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take data in again."""
        self._transport.resume_reading()
