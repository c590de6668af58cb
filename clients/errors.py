"""The errors of the client: every one is a `MisclickError`.

::

    MisclickError
    ├── InputError                   an argument cannot be sent (also a ValueError)
    ├── TransportError               no whole answer came, and the tries are used up
    ├── ProtocolError                an answer came that the HTTP API does not have
    └── ApiError                     the service refused: status, code, details
        ├── MalformedError           400  the body is not JSON, or not NDJSON
        ├── UnauthorizedError        401  no API key, or an unknown one
        ├── ForbiddenError           403  the key lacks the scope
        ├── NotFoundError            404  no such model or decision
        ├── ConflictError            409  it exists already, and is different
        ├── TooLargeError            413  the body is over the limit
        ├── UnsupportedMediaTypeError 415
        ├── InvalidError             422  a value is wrong; `details` names it
        ├── TooManyRequestsError     429  the service is too busy; worth trying later
        └── UnavailableError         503  the store is down, or something full; worth trying later

What is below `ApiError` says that nothing was applied, except for `UnavailableError`: the store may
have done what it did not answer in time, as the service may have after a `TransportError` (which
also comes where the last try was refused as one too many, after one whose outcome is unknown). That
is why calls can be sent again; an import or a relearn then finds its model there. Of more items
than go in one call, those before the refused call are done: giving all of them again does no harm
if each has a `request_id` of its own.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, NamedTuple


class Detail(NamedTuple):
    """One wrong value of a refused request.

    Attributes
    ----------
    where
        Path of the value in the body, such as `x[3]` or `items[7].decision_id`.
    expected
        What would have been right.
    got
        What came, shortened.
    """

    where: str
    expected: str
    got: str


class MisclickError(Exception):
    """Root of every error that this package raises on purpose."""


class InputError(MisclickError, ValueError):
    """An argument cannot be sent as it is (a non-finite feature, say); nothing was sent."""


class TransportError(MisclickError):
    """No whole answer came: refused, broken or timed out, on the last try too.

    Or a proxy said so (502, 503 or 504, without the service's words), or was asked too often (429).
    """


class ProtocolError(MisclickError):
    """An answer came that the HTTP API does not have: another server, or another version."""


class ApiError(MisclickError):
    """The service refused the request and said why.

    Parameters
    ----------
    message
        The service's sentence: name, expected, got.
    status
        HTTP status, such as 422.
    details
        One entry for each wrong value; empty where there is nothing to name.
    retry_after_s
        Seconds after which trying again makes sense, where the service said so.

    Examples
    --------
    >>> error = InvalidError("gamma: expected a number in [0, 1)", status=422)
    >>> error.code, error.status, str(error)
    ('invalid', 422, 'gamma: expected a number in [0, 1)')
    """

    #: The code in the error body.
    code: ClassVar[str] = "error"

    def __init__(
        self,
        message: str,
        *,
        status: int,
        details: tuple[Detail, ...] = (),
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.details = details
        self.retry_after_s = retry_after_s

    def __reduce__(self) -> tuple[Any, ...]:
        """Say how another process, such as the parent of a pool, rebuilds it."""
        kind = partial(
            type(self),
            status=self.status,
            details=self.details,
            retry_after_s=self.retry_after_s,
        )
        return kind, (self.message,)


class MalformedError(ApiError):
    """400: the body cannot be parsed."""

    code = "malformed"


class UnauthorizedError(ApiError):
    """401: no API key was sent, or one that the service does not know."""

    code = "unauthorized"


class ForbiddenError(ApiError):
    """403: the API key lacks the scope of this call."""

    code = "forbidden"


class NotFoundError(ApiError):
    """404: there is no such model, or no such decision."""

    code = "not_found"


class ConflictError(ApiError):
    """409: it exists already and is different (another spec, another feedback)."""

    code = "conflict"


class TooLargeError(ApiError):
    """413: the body is larger than the service accepts."""

    code = "too_large"


class UnsupportedMediaTypeError(ApiError):
    """415: the body is neither JSON nor, where allowed, NDJSON."""

    code = "unsupported_media_type"


class InvalidError(ApiError):
    """422: a value is wrong; `details` names it."""

    code = "invalid"


class TooManyRequestsError(ApiError):
    """429: too many requests at once; the client tried again before this."""

    code = "too_many_requests"


class UnavailableError(ApiError):
    """503: the service cannot work right now; the client tried again before this."""

    code = "unavailable"


#: Error code of a body -> the class that is raised for it.
BY_CODE: dict[str, type[ApiError]] = {kind.code: kind for kind in ApiError.__subclasses__()}
