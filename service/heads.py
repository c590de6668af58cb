"""What a connection may take before anybody knows whose it is: bytes of heads, requests, and time.

uvicorn collects headers as long as they come, and waits without limit for the first one; it parses
requests as fast as they come, however far behind their answers are, at some 4 KB each; and it waits
without limit until an answer is read. So anybody who reaches the port, without a key, could fill
the memory or use up the connections.
"""

from __future__ import annotations

import asyncio
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: Bytes that may follow the first piece of a head before it ends; others allow 8 to 64 KiB.
MOST_HEAD_BYTES = 65_536
#: Headers of a head: each takes some 170 bytes here, however short it is.
MOST_HEADERS = 256
#: How long a connection may take to send a head: from its beginning, or that of the connection.
HEAD_S = 30.0
#: Bytes that are parsed at a time, and only while no request waits for its turn. The shortest
#: request has 18: at most a few hundred are parsed too early.
PIECE_BYTES = 8192
#: How long a client may read nothing of an answer. The kernel of this machine holds up to 4 MiB,
#: and takes more once a third of that is gone: a client has to read 11 KiB a second at least.
STUCK_S = 120.0


class BoundedHeads(HttpToolsProtocol):
    """uvicorn's protocol, closing connections on which the head of a request does not end.

    It also closes those of clients that do not read their answers. Requests that come before the
    answers to earlier ones stay unparsed until these are sent. Offers to speak another protocol
    (`Upgrade`) are ignored, as a server may do (RFC 9110, 7.8).
    """

    def connection_made(self, transport: Any) -> None:
        """Begin to speak HTTP on a connection."""
        super().connection_made(transport)
        #: The headers of the head that is under way.
        self._head: list[tuple[bytes, bytes]] | None = None
        self._head_bytes = 0
        #: Bytes after a head that belong to no body: sizes of chunks, trailers, empty lines.
        self._aside_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        #: What came, and is not parsed yet. As a view: what is left is not copied for each piece.
        self._rest = memoryview(b"")
        self._unsent_bytes = 0
        self._stuck_timer: asyncio.TimerHandle | None = None
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """End with the connection."""
        self._rest = memoryview(b"")
        self._wait_no_more()
        self._stuck_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take in what the client sends."""
        if self._rest or self.pipeline or len(data) > PIECE_BYTES:
            self._rest = memoryview(bytes(self._rest) + data if self._rest else data)
            self._take_rest()
        else:
            self._take(data)

    def on_response_complete(self) -> None:
        """Go on with the requests that have come meanwhile."""
        super().on_response_complete()
        if self._rest:
            self._take_rest()

    def _take_rest(self) -> None:
        while self._rest and not self.pipeline:
            piece, self._rest = self._rest[:PIECE_BYTES], self._rest[PIECE_BYTES:]
            self._take(bytes(piece))
            if self.transport.is_closing():
                self._rest = memoryview(b"")
        if self._rest:
            self.flow.pause_reading()

    def _take(self, data: bytes) -> None:
        before = self._head
        self._aside_bytes += len(data)
        self._parse(data)
        if self._head is None:
            if self._aside_bytes > MOST_HEAD_BYTES:
                self.transport.close()
            elif self._head_timer is None and (self.cycle is None or self.cycle.response_complete):
                # Whatever comes ends uvicorn's own time limit, and all is answered.
                self._wait_for_head()
            return
        if len(self._head) > MOST_HEADERS:
            self._head = None
            self.send_400_response(f"expected a head of at most {MOST_HEADERS} headers")
            return
        # In a piece in which a head begins, the rest may belong to requests before.
        self._head_bytes += len(data) if self._head is before else 0
        if self._head_bytes > MOST_HEAD_BYTES:
            self._head = None
            self.send_400_response(f"expected a head of at most {MOST_HEAD_BYTES} bytes")
        elif self._head_timer is None and not self._rest:
            self._wait_for_head()

    def _parse(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            while data:
                data = self._parse_to_offer(data)
        except HttpParserError:
            what = "Invalid HTTP request received."
            self.logger.warning(what)
            self.send_400_response(what)

    def _parse_to_offer(self, data: bytes) -> bytes:
        """Have data parsed; return what is to be parsed then: the same request without its offer.

        httptools ends a request at the head if another protocol is offered there, as if all that
        follows were of that protocol: the body would be the next request.
        """
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as offer:
            version = self.parser.get_http_version().encode()
            lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
            # `Connection` stays: `close` may be in it.
            lines += [b"%b: %b" % each for each in self.headers if each[0] != b"upgrade"]
            self.parser = HttpRequestParser(self)
            # As uvicorn's.
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            return b"\r\n".join(lines) + b"\r\n\r\n" + data[offer.args[0] :]
        return b""

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take in a header; what comes after a head is a trailer, which nobody here asks for."""
        if self._head is not None:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Take in a piece of a body."""
        self._aside_bytes = 0
        super().on_body(body)

    def on_message_begin(self) -> None:
        """Begin with a request."""
        super().on_message_begin()
        self._aside_bytes = 0
        self._head, self._head_bytes = self.headers, 0

    def on_headers_complete(self) -> None:
        """Go on with a request whose head is here, unless it is parsed again without an offer."""
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise HttpParserError("expected a request to this server")
            return
        self._head = None
        self._wait_no_more()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """End a request, unless it is parsed again without an offer."""
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def _wait_for_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_S, self.timeout_keep_alive_handler)

    def _wait_no_more(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    # -- answers --------------------------------------------------------------------------
    def pause_writing(self) -> None:
        """Wait until the client has read what was sent, but not for ever."""
        super().pause_writing()
        if self._stuck_timer is None:
            self._wait_for_reader()

    def resume_writing(self) -> None:
        """Go on sending."""
        self._stuck_no_more()
        super().resume_writing()

    def _wait_for_reader(self) -> None:
        self._unsent_bytes = self.transport.get_write_buffer_size()
        self._stuck_timer = self.loop.call_later(STUCK_S, self._look_at_reader)

    def _look_at_reader(self) -> None:
        if self.transport.get_write_buffer_size() < self._unsent_bytes:
            self._wait_for_reader()
        else:
            self.transport.abort()

    def _stuck_no_more(self) -> None:
        if self._stuck_timer is not None:
            self._stuck_timer.cancel()
            self._stuck_timer = None
