"""The FastAPI app, with the edge around it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from service import wire
from service.auth import Keys
from service.calls import Calls
from service.data_routes import data_router
from service.edge import Edge, error_headers
from service.errors import (
    Detail,
    Invalid,
    Malformed,
    MethodNotAllowed,
    NotFound,
    ServiceError,
    shorten,
)
from service.features import MAX_DETAILS
from service.host import Host
from service.metrics import RequestMetrics
from service.model_routes import model_router
from service.models import Models
from service.ops_routes import ops_router
from service.settings import Settings
from service.store import Store, connect

DESCRIPTION = """Online learning that survives misclicks.

Create a model, ask it for a label (`predict`), tell it whether the label was clicked
(`feedback`): late, doubled, wrong and missing clicks are expected."""


def create_app(settings: Settings | None = None) -> Edge:
    """Return the ASGI app of one worker; settings come from the environment if left out."""
    settings = settings or Settings()
    host = Host(Store(connect(settings.store_url(), settings.redis_timeout_s)), settings)
    keys = Keys.load(settings.keys_file)
    metrics = RequestMetrics()
    calls = Calls(host)
    app = _make_app(host)
    app.include_router(data_router(calls, keys))
    app.include_router(model_router(Models(host), host, keys))
    app.include_router(ops_router(host, keys, metrics))
    return Edge(app, calls, keys, settings, metrics)


def _make_app(host: Host) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        host.start()
        yield
        await host.stop()
        await host.store.close()

    app = FastAPI(
        title="misclick", description=DESCRIPTION, version="1", lifespan=lifespan, openapi_tags=[]
    )
    app.add_exception_handler(ServiceError, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse_invalid)
    app.add_exception_handler(HTTPException, _refuse_http)
    generated = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = generated()
            document.setdefault("components", {}).setdefault("schemas", {}).update(wire.schemas())
        return app.openapi_schema or {}

    app.openapi = openapi  # type: ignore[method-assign]
    return app


def _answer(error: ServiceError) -> Response:
    headers = {name.decode(): value.decode() for name, value in error_headers(error)}
    return Response(wire.error_body(error), error.status, headers, media_type="application/json")


async def _refuse(_: Request, error: Exception) -> Response:
    if not isinstance(error, ServiceError):
        raise error
    return _answer(error)


async def _refuse_invalid(_: Request, error: Exception) -> Response:
    """Name what is wrong without echoing the input: it may be NaN, a surrogate, or secret."""
    if not isinstance(error, RequestValidationError):
        raise error
    found = error.errors()
    if any(one["type"] == "json_invalid" for one in found):
        return _answer(Malformed("the body is not JSON"))
    details = tuple(_detail(one) for one in found[:MAX_DETAILS])
    return _answer(Invalid("; ".join(map(str, details)), details))


def _detail(one: Mapping[str, Any]) -> Detail:
    where = shorten(".".join(str(part) for part in one["loc"] if part != "body") or "body")
    if one["type"] == "missing":
        return Detail(where, "a value", "nothing")
    if one["type"] == "extra_forbidden":
        return Detail(where, "no such field", "one")
    message: str = one["msg"]
    for prefix in ("Input should be ", "Value error, "):
        message = message.removeprefix(prefix)
    return Detail(where, shorten(message), type(one.get("input")).__name__)


async def _refuse_http(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    if error.status_code == 405:
        answer = _answer(MethodNotAllowed("the path exists, the method does not"))
        answer.headers.update(error.headers or {})
        return answer
    if error.status_code == 404:
        return _answer(NotFound("there is nothing at this path"))
    return _answer(Malformed("the body is not JSON"))
