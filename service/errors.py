"""The errors of the service: one tree, one table from error to HTTP answer.

::

    ServiceError
    ├── Malformed 400            ├── TooLarge 413
    ├── Unauthorized 401         ├── UnsupportedMediaType 415
    ├── Forbidden 403            ├── Invalid 422
    ├── NotFound 404             ├── TooManyRequests 429 (Retry-After)
    ├── MethodNotAllowed 405     └── Unavailable 503 (Retry-After)
    ├── Conflict 409
    LogBroken: the log does not continue what this worker folded; never leaves the process
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import ClassVar, NamedTuple


class Detail(NamedTuple):
    """One thing that was wrong: where it stands, what was expected, what came."""

    where: str
    expected: str
    got: str

    def __str__(self) -> str:
        """Say it in one sentence."""
        return f"{self.where}: expected {self.expected}, got {self.got}"


class ServiceError(Exception):
    """Root of every error that has an answer; `code` and `status` are its answer."""

    code: ClassVar[str]
    status: ClassVar[int]
    #: After how many seconds a retry makes sense; None where it never does.
    retry_after_s: ClassVar[int | None] = None

    def __init__(self, message: str, details: tuple[Detail, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class Malformed(ServiceError):
    """The body is not JSON (or NDJSON) at all."""

    code, status = "malformed", 400


class Unauthorized(ServiceError):
    """No API key came, or one that is not known."""

    code, status = "unauthorized", 401


class Forbidden(ServiceError):
    """The API key lacks the scope for this call."""

    code, status = "forbidden", 403


class NotFound(ServiceError):
    """No such model, or no such decision (a forged or foreign id included)."""

    code, status = "not_found", 404


class MethodNotAllowed(ServiceError):
    """The path exists, the verb does not."""

    code, status = "method_not_allowed", 405


class Conflict(ServiceError):
    """It contradicts what was said before, or what is under way."""

    code, status = "conflict", 409


class TooLarge(ServiceError):
    """The body is over its limit."""

    code, status = "too_large", 413


class UnsupportedMediaType(ServiceError):
    """The body's content type is none that this call takes."""

    code, status = "unsupported_media_type", 415


class Invalid(ServiceError):
    """The body is JSON, and something in it is not what was expected."""

    code, status = "invalid", 422

    @classmethod
    def of(cls, where: str, expected: str, got: object) -> Invalid:
        """Build the error from its one detail."""
        return cls.all_of([Detail(where, expected, shorten(got))])

    @classmethod
    def all_of(cls, details: Iterable[Detail]) -> Invalid:
        """Build the error from all that was wrong; the first `MAX_DETAILS` are named."""
        named = tuple(details)[:MAX_DETAILS]
        return cls("; ".join(map(str, named)), named)

    def under(self, prefix: str) -> Invalid:
        """Return the same error about a part: `prefix` stands in front of every place."""
        return self.all_of(
            d._replace(where=prefix if d.where == "body" else f"{prefix}.{d.where}")
            for d in self.details
        )


class TooManyRequests(ServiceError):
    """More requests are being answered than this worker takes at once."""

    code, status, retry_after_s = "too_many_requests", 429, 1


class Unavailable(ServiceError):
    """Redis is down, full or misconfigured, or a bound (pending decisions, say) is reached."""

    code, status, retry_after_s = "unavailable", 503, 1


class Unreadable(Unavailable):
    """A model was written by a newer version, or is damaged."""


class LogBroken(Exception):
    """The log does not continue what was folded: the worker rewinds to a snapshot."""


#: Details named in one error; the first few say it all.
MAX_DETAILS = 10
#: Longest quotation of a wrong value in an error: enough to recognise it, too short to leak.
QUOTE_CHARS = 60


def shorten(value: object) -> str:
    """Quote a wrong value in at most `QUOTE_CHARS` printable ASCII characters.

    Examples
    --------
    >>> shorten("x" * 100)[-6:]
    'xxx...'
    """
    text = value if isinstance(value, str) else ascii(value)
    text = text.encode("ascii", "backslashreplace").decode("ascii")
    return text if len(text) <= QUOTE_CHARS else text[: QUOTE_CHARS - 3] + "..."


def quote(value: object) -> str:
    """Return a wrong value as JSON has it, shortened; of a container only its type.

    Examples
    --------
    >>> quote(True), quote(float("nan")), quote("a"), quote([1, 2])
    ('true', 'NaN', '"a"', 'an array')
    """
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return "an array"
    if isinstance(value, int) and abs(value) >= 10**20:
        # Python refuses to write integers of thousands of digits.
        return "a huge integer"
    return shorten(json.dumps(value, default=lambda other: type(other).__name__))
