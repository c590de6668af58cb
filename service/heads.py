"""The head of a request is bounded: in bytes, and in the time until it is here.

uvicorn collects headers as long as they come, and waits as long for the first one. So anybody who
reaches the port, without a key, could fill the memory or use up the connections.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: Bytes that may follow the first piece of a head before it ends; others allow 8 to 64 KiB.
MOST_HEAD_BYTES = 65_536
#: How long a connection may take to send a head: from its beginning, or that of the connection.
HEAD_S = 30.0


class BoundedHeads(HttpToolsProtocol):
    """uvicorn's protocol, closing connections whose request's head does not end."""

    def connection_made(self, transport: Any) -> None:
        """Begin to speak HTTP on a connection."""
        super().connection_made(transport)
        #: The headers of the head that is under way.
        self._head: list[tuple[bytes, bytes]] | None = None
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """End with the connection."""
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take in a piece of what the client sends."""
        before = self._head
        super().data_received(data)
        if self._head is None:
            return
        # Of a piece in which a head begins, the rest may be of requests before.
        self._head_bytes += len(data) if self._head is before else 0
        if self._head_bytes > MOST_HEAD_BYTES:
            self._head = None
            self.send_400_response(f"expected a head of at most {MOST_HEAD_BYTES} bytes")
        elif self._head_timer is None:
            self._wait_for_head()

    def on_message_begin(self) -> None:
        """Begin with a request."""
        super().on_message_begin()
        self._head, self._head_bytes = self.headers, 0

    def on_headers_complete(self) -> None:
        """Go on with a request whose head is here."""
        self._head = None
        self._wait_no_more()
        super().on_headers_complete()

    def _wait_for_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_S, self.timeout_keep_alive_handler)

    def _wait_no_more(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
