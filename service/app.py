"""The FastAPI app, with the edge around it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute, Match

from service import wire
from service.auth import Keys
from service.calls import Calls
from service.complaints import of_pydantic
from service.data_routes import data_router
from service.edge import Edge, check_query, error_headers
from service.errors import Malformed, MethodNotAllowed, NotFound, ServiceError, shorten
from service.estimator import ESTIMATE_S, Estimator
from service.evaluation_routes import evaluation_router
from service.host import Host
from service.metrics import RequestMetrics
from service.model_routes import model_router
from service.models import Models
from service.neighbor_routes import neighbor_router
from service.noise_routes import noise_router
from service.ops_routes import ops_router
from service.pages import add_pages
from service.readiness import LOOK_S, ReadinessWatch
from service.route_docs import complete
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
    watch = ReadinessWatch(host.store, settings)
    app = _make_app(host, Estimator(host), watch)
    app.state.routes = []
    for router in (
        data_router(calls, keys),
        model_router(Models(host), host, keys),
        noise_router(host, keys),
        neighbor_router(host, keys),
        evaluation_router(host, keys),
    ):
        app.include_router(router, dependencies=[Depends(check_query)])
        app.state.routes += router.routes
    # Probes may add what they like to the query.
    operations = ops_router(host, keys, metrics)
    app.include_router(operations)
    app.state.routes += operations.routes
    return Edge(app, calls, keys, settings, metrics, watch)


def _make_app(host: Host, estimator: Estimator, watch: ReadinessWatch) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        # Before the first call is answered, not just soon after.
        await watch.look()
        host.start((watch.look, LOOK_S), (estimator.look, ESTIMATE_S))
        yield
        await host.stop()
        await host.store.close()

    app = FastAPI(
        title="misclick",
        docs_url=None,
        redoc_url=None,
        description=DESCRIPTION,
        version="1",
        lifespan=lifespan,
        openapi_tags=[],
        # A client that gets a path wrong is told so: a redirect would lose its body.
        redirect_slashes=False,
    )
    app.add_exception_handler(ServiceError, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse_invalid)
    app.add_exception_handler(HTTPException, _refuse_http)
    app.add_exception_handler(Exception, _fail)
    add_pages(app)
    generated = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = generated()
            complete(document)
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
    for one in found:
        if one["type"] == "json_invalid":
            what = shorten(str(one.get("ctx", {}).get("error", "")))
            return _answer(Malformed(f"the body is not JSON: {what} (character {one['loc'][-1]})"))
    return _answer(of_pydantic(found))


async def _fail(_: Request, __: Exception) -> Response:
    # Starlette raises the error again; the edge logs it.
    return Response(wire.FAILED, 500, media_type="application/json")


async def _refuse_http(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    if isinstance(error.__cause__, ServiceError):
        # FastAPI mistakes what the edge says about a body for a fault in its JSON.
        return _answer(error.__cause__)
    if isinstance(error.__cause__, ClientDisconnect):
        raise error.__cause__
    if error.status_code == 405:
        answer = _answer(MethodNotAllowed("the path exists, the method does not"))
        answer.headers["allow"] = ", ".join(_methods_at(request))
        return answer
    if error.status_code == 404:
        return _answer(NotFound("there is nothing at this path: /docs lists what there is"))
    return _answer(Malformed("the body is not JSON"))


def _methods_at(request: Request) -> list[str]:
    """Return the methods of every route at this path; Starlette reports those of the first only."""
    # FastAPI hides an included router's routes, so they are noted when they are included.
    routes: list[BaseRoute] = [*request.app.routes, *request.app.state.routes]
    methods = {
        method
        for route in routes
        if route.matches(request.scope)[0] is not Match.NONE
        for method in getattr(route, "methods", None) or ()
    }
    return sorted(methods)
