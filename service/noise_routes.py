"""What is known of a model's noise, and asking for an estimate of it."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from service import wire
from service.auth import Keys, Scope
from service.errors import Invalid
from service.estimates import Estimates
from service.host import Host
from service.replica import Replica
from service.route_docs import errors, read_errors, schema


def noise_router(host: Host, keys: Keys) -> APIRouter:
    """Return the routes about noise."""
    router = APIRouter(tags=["noise"])

    @router.get(
        "/v1/models/{model}/noise",
        operation_id="get_noise",
        response_class=Response,
        responses=_answer(200, "Rates in force, and how they were found.", "NoiseOut")
        | read_errors()
        | errors(422),
    )
    async def get_noise(model: str, request: Request) -> Response:
        """Tell the rates in force, the estimate under way and the latest results."""
        caller = keys.caller(request.headers.get("authorization"))

        async def act(replica: Replica) -> wire.NoiseOut:
            estimates = Estimates(host.store, replica.address)
            asked, running = await estimates.status()
            history = await estimates.history()
            # The rates of the newest result in this answer are in force in this answer.
            await replica.catch_up()
            spec, drift_seq = replica.spec, replica.fold.drift_seq
            due = (spec.estimate_after, spec.estimate_on_drift, drift_seq)
            return wire.NoiseOut(_rates(replica), *due, asked, running, history)

        return _json(await host.use(caller.key_of(model), act))

    @router.post(
        "/v1/models/{model}/noise/estimate",
        operation_id="estimate_noise",
        status_code=202,
        response_class=Response,
        responses=_answer(202, "It will be begun within seconds.", "Asked")
        | read_errors()
        | errors(422),
    )
    async def estimate_noise(model: str, request: Request) -> Response:
        """Ask for an estimate of the noise rates now, from the newest feedback."""
        caller = keys.caller(request.headers.get("authorization"))
        caller.require(Scope.ADMIN)

        async def act(replica: Replica) -> wire.Asked:
            _rates(replica)
            return wire.Asked(await Estimates(host.store, replica.address).ask())

        return _json(await host.use(caller.key_of(model), act), 202)

    @router.delete(
        "/v1/models/{model}/noise/estimate",
        operation_id="cancel_estimate",
        status_code=204,
        response_class=Response,
        responses={204: {"description": "None is asked for or being made any more."}}
        | read_errors()
        | errors(409, 422),
    )
    async def cancel_estimate(model: str, request: Request) -> Response:
        """End the estimate that is asked for or being made; the rates in force stay."""
        caller = keys.caller(request.headers.get("authorization"))
        caller.require(Scope.ADMIN)

        async def act(replica: Replica) -> None:
            _rates(replica)
            await Estimates(host.store, replica.address).cancel()

        await host.use(caller.key_of(model), act)
        return Response(status_code=204)

    return router


def _rates(replica: Replica) -> wire.RatesOut:
    learner = replica.fold.learner
    if not learner.takes_rates:
        raise Invalid.of("model", "a learner that uses noise rates", replica.spec.learner.kind)
    state = learner.state()
    return wire.RatesOut(float(state["rho_0"]), float(state["rho_1"]))


def _answer(status: int, description: str, body: str) -> dict[int | str, dict[str, object]]:
    content = {"application/json": {"schema": schema(body)}}
    return {status: {"description": description, "content": content}}


def _json(body: object, status: int = 200) -> Response:
    return Response(wire.encode(body), status, media_type="application/json")
