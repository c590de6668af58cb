"""The outermost layer: limits, times and counts every request; a shortcut for the hot calls.

Starlette has no body limit; FastAPI's routing costs more than a round of a learner, and it reads
the body before it asks who sent it. So requests pass here first: the key is checked before all
else, a body is counted as it streams in, and too many requests at once are turned away. Predict and
feedback of one instance go straight to `Calls`, which their FastAPI routes call too; without the
shortcut the same answers take 150 microseconds longer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias, cast
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service import wire
from service.auth import Caller, Keys
from service.auth import Scope as KeyScope
from service.browsers import PageGuard
from service.calls import Calls
from service.errors import (
    Detail,
    Invalid,
    Malformed,
    ServiceError,
    TooLarge,
    TooManyRequests,
    UnsupportedMediaType,
    shorten,
)
from service.metrics import RequestMetrics
from service.readiness import ReadinessWatch
from service.settings import Settings

Call: TypeAlias = Callable[[str, bytes], Awaitable[bytes]]

log = logging.getLogger("misclick.http")
JSON = b"application/json"
NDJSON = b"application/x-ndjson"
PREFIX = "/v1/models/"
#: Longest body of a new model, and of a change of labels, where `max_body_bytes` is less: 1,024
#: labels with as many features as they may have take .8 MB. All of it is parsed in one go.
MAX_SPEC_BYTES = 1_048_576
#: Bytes of bodies that one worker holds at once (and one body always). Parsed, they take three
#: times as much.
MOST_HELD_BYTES = 128 * 2**20
#: Share of the calls of one worker that one of several tenants may have under way: whoever sends
#: half a body, or reads no answers, should not keep the others out.
TENANT_SHARE = 0.75
#: Status counted for a request whose client went away, as other servers do.
CLIENT_GONE = 499
#: Methods that metrics tell apart: anybody may invent others.
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
#: Those that acknowledge nothing: they are answered even if Redis could lose data.
READING = frozenset({"GET", "HEAD", "OPTIONS"})
#: How the paths of calls end that only read although they have a body.
READING_POST = "/neighbors"


class Edge:
    """An ASGI app around the FastAPI app."""

    def __init__(
        self,
        app: ASGIApp,
        calls: Calls,
        keys: Keys,
        settings: Settings,
        metrics: RequestMetrics,
        watch: ReadinessWatch,
    ) -> None:
        self._app = app
        self._watch = watch
        self._keys = keys
        self._settings = settings
        self._metrics = metrics
        self._guard = PageGuard() if keys.open else None
        self._active = 0
        self._active_of: dict[str, int] = {}
        share = TENANT_SHARE if len(keys.tenants) > 1 else 1.0
        self._most_of_tenant = max(1, int(settings.max_requests * share))
        self._held_bytes = 0
        self._most_held_bytes = max(MOST_HELD_BYTES, settings.max_batch_body_bytes)
        self._hot: dict[str, tuple[Call, KeyScope, str]] = {
            "predict": (calls.predict, KeyScope.PREDICT, "/v1/models/{model}/predict"),
            "feedback": (calls.feedback, KeyScope.FEEDBACK, "/v1/models/{model}/feedback"),
            "learn": (calls.learn, KeyScope.FEEDBACK, "/v1/models/{model}/learn"),
            "rounds": (calls.rounds, KeyScope.FEEDBACK, "/v1/models/{model}/rounds"),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin_s = time.perf_counter()
        answer = _Answer(send)
        route = await self._answer(scope, receive, answer)
        method = scope["method"] if scope["method"] in METHODS else "other"
        self._metrics.observe(route, method, answer.status, time.perf_counter() - begin_s)

    async def _answer(self, scope: Scope, receive: Receive, answer: _Answer) -> str:
        path: str = scope["path"]
        headers: dict[bytes, bytes] = dict(scope["headers"])
        hot = tenant = None
        if scope["method"] == "POST" and path.startswith(PREFIX):
            model, _, call = path[len(PREFIX) :].partition("/")
            hot = self._hot.get(call) if model else None
        try:
            if self._guard is not None:
                self._guard.check(headers)
            if path.startswith("/v1/"):
                caller = self._caller(headers)
                tenant = self._enter(caller.tenant, scope["method"], path)
            if hot is not None:
                call_of, needed, _ = hot
                caller.require(needed)
                body = await self._hot_body(scope, headers, receive)
                try:
                    await answer.json(await call_of(caller.key_of(model), body))
                finally:
                    self._held_bytes -= len(body)
            else:
                with self._limited(scope, receive) as limited:
                    await self._app(scope, limited, answer)
        except ServiceError as error:
            await answer.refuse(error)
        except ClientDisconnect:
            # The client went away before its body was here: nothing was done, nobody waits.
            answer.status = CLIENT_GONE
        except Exception:
            log.exception("a request failed", extra={"path": path})
            await answer.fail()
        finally:
            if tenant is not None:
                self._active -= 1
                self._active_of[tenant] -= 1
        return route_of(scope) if hot is None else hot[2]

    def _caller(self, headers: Mapping[bytes, bytes]) -> Caller:
        authorization = headers.get(b"authorization")
        return self._keys.caller(None if authorization is None else authorization.decode("latin-1"))

    def _enter(self, tenant: str, method: str, path: str) -> str:
        """Count a tenant's call, or raise TooManyRequests; Unavailable for calls with changes."""
        of_tenant = self._active_of.get(tenant, 0)
        if self._active >= self._settings.max_requests:
            raise TooManyRequests(f"{self._active} requests are being answered")
        if of_tenant >= self._most_of_tenant:
            raise TooManyRequests(f"{of_tenant} requests of this tenant are being answered")
        if method not in READING and not (method == "POST" and path.endswith(READING_POST)):
            self._watch.check()
        self._active += 1
        self._active_of[tenant] = of_tenant + 1
        return tenant

    async def _hot_body(
        self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive
    ) -> bytes:
        if scope["query_string"]:
            _check_query_names(scope["query_string"], frozenset())
        check_content_type(headers.get(b"content-type"), (JSON,))
        check_body_head(headers, self._settings.max_body_bytes, "max_body_bytes")
        return await self._body(receive)

    async def _body(self, receive: Receive) -> bytes:
        """Return a body; from here on it is counted as held, and whoever gets it ends that."""
        most = self._settings.max_body_bytes
        parts: list[bytes] = []
        size, more = 0, True
        try:
            with _Patience(_now_s() + self._settings.body_timeout_s):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnect
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    self._held_bytes += len(parts[-1])
                    if size > most:
                        raise too_large(most, "max_body_bytes")
                    self._check_held()
                    more = message.get("more_body", False)
        except BaseException:
            self._held_bytes -= size
            raise
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _check_held(self) -> None:
        """Raise TooManyRequests if the bodies of the calls being answered are too many bytes."""
        if self._held_bytes > self._most_held_bytes:
            raise TooManyRequests("the bodies of the calls being answered are too large")

    @contextmanager
    def _limited(self, scope: Scope, receive: Receive) -> Iterator[Receive]:
        """Yield a `receive` that raises once the body is over its limit or too slow.

        It also raises where the bodies held at once would become too many bytes.
        """
        path: str = scope["path"]
        held = not path.endswith("/import")
        if not held:
            limit = "max_import_bytes"
        elif path.endswith("/batch"):
            limit = "max_batch_body_bytes"
        else:
            limit = "max_body_bytes"
        most: int = getattr(self._settings, limit)
        if path == PREFIX[:-1] or path.endswith("/labels"):
            most = max(most, MAX_SPEC_BYTES)
        check_body_head(dict(scope["headers"]), most, limit)
        seen = 0
        ended = False
        timeout_s = self._settings.body_timeout_s
        end_s = _now_s() + timeout_s

        async def counted() -> Message:
            nonlocal seen, ended
            if ended:
                # Starlette waits here for the client to go away while it streams an answer.
                return await receive()
            # An import may take long, as long as something comes.
            with _Patience(end_s if held else _now_s() + timeout_s):
                message = await receive()
            size = len(message.get("body", b""))
            seen += size
            self._held_bytes += size if held else 0
            ended = not message.get("more_body")
            if seen > most:
                raise too_large(most, limit)
            if held:
                self._check_held()
            return message

        try:
            yield counted
        finally:
            self._held_bytes -= seen if held else 0


class _Answer:
    """Sends an answer, and remembers its status and whether it has begun."""

    __slots__ = ("_send", "status")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)

    async def json(self, body: bytes, status: int = 200, *extra: tuple[bytes, bytes]) -> None:
        """Send a whole JSON answer."""
        self.status = status
        length = (b"content-length", b"%d" % len(body))
        headers = [(b"content-type", JSON), length, *extra]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    async def refuse(self, error: ServiceError) -> None:
        """Send an error, unless an answer has begun."""
        if not self.status:
            await self.json(wire.error_body(error), error.status, *error_headers(error))

    async def fail(self) -> None:
        """Say that something unforeseen went wrong, unless an answer has begun."""
        if not self.status:
            await self.json(wire.FAILED, 500)


class _Patience:
    """A time limit that turns into Malformed: the body did not come.

    It does what asyncio.timeout does, in a fifth of its 3 microseconds.
    """

    def __init__(self, end_s: float) -> None:
        self._late = False
        self._task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._timer = asyncio.get_running_loop().call_at(end_s, self._end)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        # Somebody else may have cancelled the task, too, and that stands.
        if self._late and self._task.uncancel() == 0:
            raise Malformed("the body did not come in time (body_timeout_s)") from None

    def _end(self) -> None:
        self._late = True
        self._task.cancel()


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def error_headers(error: ServiceError) -> list[tuple[bytes, bytes]]:
    """Return the headers that belong to an error's answer."""
    if error.retry_after_s is not None:
        return [(b"retry-after", b"%d" % error.retry_after_s)]
    if error.status == 401:
        return [(b"www-authenticate", b"Bearer")]
    return []


def check_content_type(value: bytes | None, known: tuple[bytes, ...]) -> bytes:
    """Return the media type if it is a known one; raise UnsupportedMediaType.

    It also keeps web pages out: a browser sends these types to another origin only after a
    preflight, which is never granted here.
    """
    media_type = (value or b"").partition(b";")[0].strip().lower()
    if media_type not in known:
        wanted = " or ".join(kind.decode() for kind in known)
        got = shorten(media_type.decode("latin-1")) or "none"
        raise UnsupportedMediaType(f"content-type: expected {wanted}, got {got}")
    return media_type


def check_request_type(request: Request, known: tuple[bytes, ...]) -> bytes:
    """Return the media type of a request's body; raise UnsupportedMediaType."""
    value = request.headers.get("content-type", "")
    return check_content_type(value.encode("latin-1"), known)


def json_response(body: object, status: int = 200) -> Response:
    """Return an answer with one of the wire's bodies."""
    return Response(wire.encode(body), status, media_type="application/json")


async def check_query(request: Request) -> None:
    """Raise Invalid where the query names what the call does not take: a typo, most often."""
    query = request.scope["query_string"]
    if query:
        taken = request.scope["route"].dependant.query_params
        _check_query_names(query, frozenset(each.alias for each in taken))


def _check_query_names(query: bytes, taken: frozenset[str]) -> None:
    given = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True))
    unknown = [name for name in given if name not in taken]
    if unknown:
        raise Invalid.all_of(
            Detail(f"query.{shorten(name)}", "no such parameter", "one") for name in unknown
        )


def check_body_head(headers: Mapping[bytes, bytes], most: int, limit: str) -> None:
    """Raise TooLarge if the announced length is over a limit, UnsupportedMediaType for gzip."""
    coding = headers.get(b"content-encoding", b"identity").strip().lower()
    if coding != b"identity":
        got = shorten(coding.decode("latin-1"))
        raise UnsupportedMediaType(f"content-encoding: expected none, got {got}")
    value = headers.get(b"content-length")
    if value is not None and value.isdigit() and (len(value) > 19 or int(value) > most):
        raise too_large(most, limit)


def too_large(most: int, limit: str) -> TooLarge:
    """Return the error for a body over a limit, with the setting that makes it larger."""
    return TooLarge(f"body: expected at most {most} bytes ({limit})")


def route_of(scope: Scope) -> str:
    """Return the template of the route that answered: a bounded set, unlike paths."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else "unmatched"
