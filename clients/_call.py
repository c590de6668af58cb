"""One HTTP request, and how its answer is read. No IO."""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from clients.errors import (
    BY_CODE,
    ApiError,
    Detail,
    NotFoundError,
    ProtocolError,
    TransportError,
)

T = TypeVar("T")
JSON, NDJSON = "application/json", "application/x-ndjson"
_UNAVAILABLE = 503
#: Statuses of a proxy that has no answer from the service (it restarts, say), or is asked too much.
_GATEWAY = frozenset({429, 502, _UNAVAILABLE, 504})
#: Place of an item in a batch, where a complaint begins with it.
_ITEM = re.compile(r"^items\[(\d+)\]")


@dataclass(frozen=True, kw_only=True)
class Call(Generic[T]):
    """One HTTP request, and how to read its answer."""

    method: str
    path: str
    body: bytes | Iterable[bytes] | AsyncIterable[bytes] = b""
    content_type: str = JSON
    parse: Callable[[bytes], T]
    #: Whether sending it twice does no more than sending it once.
    repeatable: bool = True
    #: A retried DELETE may find that its first try did the work.
    gone_is_done: bool = False
    #: A readiness check answers 503 to say no: that is its answer.
    refusal_is_answer: bool = False
    #: How long the answer may take, if the client would wait for less.
    takes_s: float = 0.0
    #: How many of the items that were given went in earlier calls.
    before: int = 0

    def headers(self) -> dict[str, str]:
        """Return the headers that this request needs."""
        # JSON is never empty: such a call has no body. A log may be empty, and still is one.
        has_body = self.body or self.content_type != JSON
        return {"content-type": self.content_type} if has_body else {}

    def read(self, status: int, body: bytes, retry_after: str | None, tried: int) -> T:
        """Return the typed answer, or raise what the service's refusal stands for."""
        if 200 <= status < 300:
            return self.parse(body)
        if self.refusal_is_answer and status == _UNAVAILABLE:
            # Unless it is the page of a proxy.
            with suppress(ProtocolError):
                return self.parse(body)
        error = error_of(status, body, retry_after, self.before)
        if self.gone_is_done and tried > 1 and isinstance(error, NotFoundError):
            return self.parse(b"")
        raise error


class _ErrorItem(msgspec.Struct):
    where: str
    expected: str
    got: str


class _Error(msgspec.Struct):
    code: str
    message: str
    details: list[_ErrorItem] = []


class _ErrorBody(msgspec.Struct):
    error: _Error


_error_body = msgspec.json.Decoder(_ErrorBody)


def error_of(
    status: int, body: bytes, retry_after: str | None, before: int = 0
) -> ApiError | TransportError | ProtocolError:
    """Return the exception that an answer with a status other than 2xx stands for.

    Items are counted as they were given, of which `before` went in earlier calls.

    Examples
    --------
    >>> body = b'{"error": {"code": "conflict", "message": "it is there", "details": []}}'
    >>> error_of(409, body, None)
    ConflictError('it is there')
    >>> error_of(502, b"<html>", None)
    TransportError("502: expected an answer of the service, got b'<html>'")
    >>> error_of(501, b"<html>", None)
    ProtocolError("501: expected an error body, got b'<html>'")
    """
    try:
        error = _error_body.decode(body).error
    except msgspec.DecodeError:
        if status in _GATEWAY:
            return TransportError(f"{status}: expected an answer of the service, got {body[:60]!r}")
        return ProtocolError(f"{status}: expected an error body, got {body[:60]!r}")
    kind = BY_CODE.get(error.code, ApiError)
    return kind(
        _counted(error.message, before),
        status=status,
        details=tuple(
            Detail(_counted(item.where, before), item.expected, item.got) for item in error.details
        ),
        retry_after_s=_seconds(retry_after),
    )


def _counted(text: str, before: int) -> str:
    """Return `text`; an item's place at its beginning is counted from the first that was given."""
    return _ITEM.sub(lambda found: f"items[{int(found[1]) + before}]", text)


def _seconds(retry_after: str | None) -> float | None:
    """Return the seconds of a `Retry-After` header; its date form counts as none."""
    if retry_after is None or not retry_after.isdecimal():
        return None
    return float(retry_after)


def decoder_of(kind: type[T]) -> Callable[[bytes], T]:
    """Return a function that reads one JSON body as `kind`."""
    decoder = msgspec.json.Decoder(kind)

    def decode(body: bytes) -> T:
        try:
            return decoder.decode(body)
        except msgspec.DecodeError as error:
            raise ProtocolError(
                f"expected a {kind.__name__}, got {body[:60]!r}: {error}"
            ) from error

    return decode
