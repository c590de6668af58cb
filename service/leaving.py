"""How a worker that ends lets its connections go: with an answer that says so.

uvicorn at once closes those on which nothing is under way. A call that is on its way meets a closed
connection, and proxies do not send it again, because they cannot know that nothing was done:
whenever workers restart, callers get a 502.
"""

from __future__ import annotations

from service.heads import BoundedHeads

#: How long a connection may wait for one more request. Busy clients send one sooner; on other
#: connections hardly ever is one on its way.
LEAVE_S = 0.5


class LeavingProtocol(BoundedHeads):
    """uvicorn's protocol, answering one more request when the worker ends."""

    #: Whether the worker ends.
    _leaving = False

    def shutdown(self) -> None:
        """End after the next answer, or soon if nobody asks."""
        self._leaving = True
        self._end_after_answer()
        self.loop.call_later(LEAVE_S, super().shutdown)

    def on_headers_complete(self) -> None:
        """Go on with a request whose head is here."""
        super().on_headers_complete()
        if self._leaving:
            self._end_after_answer()

    def _end_after_answer(self) -> None:
        if self.cycle is not None:
            self.cycle.keep_alive = False
