"""Logs as one JSON object a line; nothing that is secret, no instances."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

#: How often the same warning of the HTTP server, or of the store, is written: whoever reaches the
#: port can cause one by a malformed request, as often as he likes, and a full Redis refuses each
#: call.
TELL_AGAIN_S = 60.0
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class JsonFormatter(logging.Formatter):
    """Writes a record, and what was given as `extra`, as JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "ts": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
        }
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=repr)


class OnceInAWhile(logging.Filter):
    """Passes on each warning once in `TELL_AGAIN_S`, and all else always."""

    def __init__(self) -> None:
        super().__init__()
        self._told_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether the record is written."""
        if record.levelno != logging.WARNING:
            return True
        # By its format and its reason, of which there are few: its arguments may be anything.
        told, now_s = f"{record.msg} {getattr(record, 'why', '')}", time.monotonic()
        self._told_s = {t: at_s for t, at_s in self._told_s.items() if now_s - at_s < TELL_AGAIN_S}
        if told in self._told_s:
            return False
        self._told_s[told] = now_s
        return True


def configure(level: str) -> None:
    """Send every log of this process to standard error as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in ("uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = []
        logger.propagate = True
    server = logging.getLogger("uvicorn.error")
    server.setLevel(max(logging.WARNING, logging.root.level))
    for each in (server, logging.getLogger("misclick.store")):
        each.filters = [OnceInAWhile()]
