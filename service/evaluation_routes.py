"""Asking what a model's policies are worth."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from service.auth import Keys, Scope
from service.challengers import RECORDED
from service.edge import json_response
from service.errors import Invalid
from service.evaluation import evaluate
from service.evaluation_wire import EvaluationOut
from service.host import Host
from service.replica import Replica
from service.route_docs import json_answer, read_errors
from service.turns import OneAtATime


def evaluation_router(host: Host, keys: Keys) -> APIRouter:
    """Return the route that evaluates."""
    router = APIRouter(tags=["models"])
    # One at a time: each may take a second or two of a core, and 64 MiB.
    alone = OneAtATime()

    @router.get(
        "/v1/models/{model}/evaluation",
        operation_id="evaluate",
        response_class=Response,
        responses=json_answer(200, "What each policy is worth.", "EvaluationOut") | read_errors(),
    )
    async def get_evaluation(
        model: str,
        request: Request,
        rounds: Annotated[
            int, Query(ge=2, le=RECORDED, description="Newest rounds to evaluate on, at most.")
        ] = RECORDED,
    ) -> Response:
        """Tell what the model's policies are worth: the one that decides, and others.

        The others are challengers, showing each label alike, and always showing the same one.
        """
        caller = keys.caller(request.headers.get("authorization"))
        caller.require(Scope.ADMIN)

        async def act(replica: Replica) -> EvaluationOut:
            if not replica.takes_feedback:
                what = "a learner that takes feedback"
                raise Invalid.of("model", what, replica.fold.learner.kind)
            async with alone.turn(caller.tenant):
                return await evaluate(host.store, replica, rounds)

        return json_response(await host.use(caller.key_of(model), act))

    return router
