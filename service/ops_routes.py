"""What operators ask: alive, ready, metrics."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from service.address import Address
from service.auth import Keys, Scope
from service.challengers import rate_kinds
from service.errors import NotFound, Unavailable, Unreadable
from service.estimates import Estimates
from service.host import Host
from service.metrics import ModelNumbers, RequestMetrics
from service.models import learners_of
from service.readiness import Check, check_redis
from service.route_docs import errors, file_answer
from service.store import Store
from service.turns import each_of


class CheckOut(BaseModel):
    """One check of readiness."""

    name: str
    ok: bool
    why: str


class ReadyOut(BaseModel):
    """Whether requests are taken, and which check says no."""

    ready: bool
    failing: str | None
    checks: list[CheckOut]


class LiveOut(BaseModel):
    """The process is up."""

    live: bool


def ops_router(host: Host, keys: Keys, metrics: RequestMetrics) -> APIRouter:
    """Return the routes for operators."""
    router = APIRouter(tags=["operations"])
    ready = _Readiness(host)

    @router.head("/livez", operation_id="livez", include_in_schema=False)
    @router.get("/livez", operation_id="livez")
    async def livez() -> LiveOut:
        """Say that the process is up; asks nobody, so a Redis outage restarts nothing."""
        return LiveOut(live=True)

    @router.head("/readyz", operation_id="readyz", include_in_schema=False)
    @router.get(
        "/readyz",
        operation_id="readyz",
        responses={
            503: {"description": "Not ready; `failing` names the check.", "model": ReadyOut}
        },
    )
    async def readyz(response: Response) -> ReadyOut:
        """Say whether Redis is there and keeps what is acknowledged."""
        found = await ready.look()
        failing = next((check.name for check in found if not check.ok), None)
        if failing is not None:
            response.status_code = 503
            response.headers["retry-after"] = "1"
        checks = [CheckOut(name=c.name, ok=c.ok, why=c.why) for c in found]
        return ReadyOut(ready=failing is None, failing=failing, checks=checks)

    @router.get(
        "/metrics",
        operation_id="metrics",
        response_class=Response,
        responses=file_answer("Prometheus text.", "text/plain") | errors(401, 403),
    )
    async def metrics_text(request: Request) -> Response:
        """Metrics of the workers and of the key's models; with API keys it needs admin."""
        caller = keys.caller(request.headers.get("authorization"))
        caller.require(Scope.ADMIN)
        prefix = f"{caller.tenant}/"
        try:
            found = await _all_numbers(host.store, prefix)
        except Unavailable:
            # This worker has its own counts, and they are wanted most when Redis is away.
            found = None
        mine = [replica for replica in host.replicas if replica.key.startswith(prefix)]
        return Response(metrics.render(found, mine), media_type="text/plain; version=0.0.4")

    return router


class _Readiness:
    """Looks at Redis once for all who ask meanwhile: anybody may, a thousand at a time."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._looking: asyncio.Task[list[Check]] | None = None

    async def look(self) -> list[Check]:
        """Return the checks of the Redis in use."""
        if self._looking is None:
            looking = check_redis(self._host.store, self._host.settings)
            self._looking = asyncio.create_task(looking)
            self._looking.add_done_callback(self._end)
        return await asyncio.shield(self._looking)

    def _end(self, _: asyncio.Task[list[Check]]) -> None:
        self._looking = None


async def _all_numbers(store: Store, prefix: str) -> list[ModelNumbers] | None:
    async def look(key: str) -> ModelNumbers | None:
        with suppress(NotFound, Unreadable):
            meta = await store.meta(key)
            tally = None
            if rate_kinds(learners_of(meta)):
                tally = await Estimates(store, Address.of(key, meta.uid, meta.spec)).tally()
            return ModelNumbers(meta.spec.name, meta, await store.waiting(key), tally)
        return None

    keys = [key for key in await store.list_keys() if key.startswith(prefix)]
    return [numbers for numbers in await each_of(keys, look) if numbers]
