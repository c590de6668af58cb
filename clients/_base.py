"""What the two clients share: no IO."""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn, TypeVar

import httpx

from clients._call import NDJSON, Call
from clients._values import quoted
from clients.errors import (
    ApiError,
    InputError,
    ProtocolError,
    TransportError,
    UnavailableError,
)
from clients.retries import RETRIED_STATUSES, Retries
from clients.types import Example, Instance, Round

S = TypeVar("S")
T = TypeVar("T")
#: Covers the 2 s in which the service answers 503 when its store is down.
TIMEOUT_S = 10.0
#: This machine, which a proxy named in the environment (`HTTP_PROXY`) does not reach.
_DIRECT = ("localhost", "127.0.0.1", "::1")
#: What a header can hold as one word.
_KEY = re.compile(r"[!-~]+")


class Base:
    """What both clients share: no IO."""

    def __init__(
        self, base_url: str, api_key: str | None, timeout_s: float, retries: Retries
    ) -> None:
        if not _is_address(base_url):
            # What stands before an @ may be a secret.
            shown = base_url.rpartition("@")[2]
            raise InputError(f"base_url: expected http:// or https:// and a host, got {shown!r}")
        if not 0 < timeout_s < math.inf:
            raise InputError(f"timeout_s: expected above 0 and finite, got {timeout_s!r}")
        if not isinstance(retries, Retries):
            # Else only the first connection error would show it.
            raise InputError(f"retries: expected Retries(tries=...), got {retries!r}")
        if api_key is not None and not _KEY.fullmatch(api_key):
            # It may end with a line break, say. An error must not show the key.
            raise InputError("api_key: expected printable ASCII characters, and no spaces or lines")
        self._base_url = base_url
        self._headers = {} if api_key is None else {"authorization": f"Bearer {api_key}"}
        self._timeout_s = timeout_s
        self._retries = retries
        self._random = secrets.SystemRandom()

    def __reduce__(self) -> NoReturn:
        # It holds connections, and a key that is a secret.
        raise TypeError("a client cannot be pickled or copied: make one in each process")

    @property
    def _direct(self) -> bool:
        """Whether no proxy is used, whatever the environment says."""
        return httpx.URL(self._base_url).host in _DIRECT

    def _wait_s(self, call: Call[T], error: Exception, tried: int, *, unsure: bool) -> float:
        """Return how long to wait before the next try, or raise what ends the tries.

        `unsure` is whether an earlier try `may_have_worked`.
        """
        retry_after_s = None
        if isinstance(error, ApiError):
            if error.status not in RETRIED_STATUSES:
                raise error
            retry_after_s = error.retry_after_s
        wait_s = self._retries.wait_s(
            tried, retry_after_s=retry_after_s, uniform=self._random.random()
        )
        if wait_s is not None and call.repeatable:
            return wait_s
        if isinstance(error, ApiError) and (may_have_worked(error) or not unsure):
            raise error
        # A refusal now does not mean that nothing was applied before.
        raise self._broken(call, error) from error

    def _timeout(self, call: Call[T]) -> httpx.Timeout:
        """Return how long to wait for a connection, and for the answer.

        A service that is busy with the first part of an import reads the next one late.
        """
        patience_s = max(self._timeout_s, call.takes_s)
        return httpx.Timeout(self._timeout_s, read=patience_s, write=patience_s)

    def _read(self, call: Call[T], response: httpx.Response, tried: int) -> T:
        """Return what the answer means, or raise what it stands for."""
        status, retry_after = response.status_code, response.headers.get("retry-after")
        try:
            if response.has_redirect_location:
                to = response.headers["location"]
                raise ProtocolError(f"{status}: expected an answer, got a redirect to {to}")
            return call.read(status, response.content, retry_after, tried)
        except ProtocolError as error:
            raise ProtocolError(f"{self._asked(call)}: {error}") from error

    def _broken(self, call: Call[T], error: Exception) -> TransportError:
        """Return the error that says which call, to whom, got no answer, and why."""
        why = str(error)
        if not isinstance(error, TransportError):
            why = f"{type(error).__name__}: {why}"
        return TransportError(f"{self._asked(call)}: {why}")

    def _asked(self, call: Call[T]) -> str:
        url = httpx.URL(self._base_url).copy_with(userinfo=b"")
        return f"{call.method} {str(url).rstrip('/')}{call.path}"


def _is_address(base_url: str) -> bool:
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL:
        return False
    return url.scheme in ("http", "https") and url.host != "" and not url.query


def may_have_worked(error: Exception) -> bool:
    """Return whether a call that ended with this error may have been carried out."""
    return isinstance(error, UnavailableError | TransportError | httpx.RequestError) and not (
        isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    )


@contextmanager
def proxies() -> Iterator[None]:
    """Raise an `InputError` where the environment names an invalid proxy.

    httpx reads it, and raises errors of many kinds.
    """
    try:
        yield
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        raise InputError(f"the environment's proxy (HTTP_PROXY and its like): {error}") from error


def is_export(response: httpx.Response) -> bool:
    """Return whether an answer is an exported model, and not the page of a proxy."""
    kind = response.headers.get("content-type", "")
    return response.is_success and kind.startswith(NDJSON)


def id_of(given: str | None) -> str:
    """Return the request id, made up where none is given: it makes a retry harmless."""
    return secrets.token_hex(16) if given is None else given


def listed(kind: type[S], items: Iterable[S]) -> list[S]:
    """Return the items of a batch, all of which have to be of one kind.

    Raises
    ------
    InputError
        They are something else.
    """
    what = kind.__name__
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise InputError(f"items: expected a list of {what}, got {quoted(items)}")
    found = list(items)
    for place, item in enumerate(found):
        if not isinstance(item, kind):
            raise InputError(f"items[{place}]: expected {what}(...), got {quoted(item)}")
    return found


def ids_of(items: Sequence[Instance] | Sequence[Example] | Sequence[Round]) -> list[str]:
    return [id_of(item.request_id) for item in items]
