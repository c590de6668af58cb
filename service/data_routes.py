"""The data calls as FastAPI routes: predict, feedback, learn, rounds, singly and in batches."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter, Request, Response

from service.auth import Keys, Scope
from service.calls import Calls
from service.edge import JSON, NDJSON, check_request_type
from service.route_docs import EXAMPLES, link, schema, write_errors


def data_router(calls: Calls, keys: Keys) -> APIRouter:
    """Return the routes of the data calls."""
    router = APIRouter(tags=["rounds"])
    for name, call, scope, body, answer, links in (
        ("predict", calls.predict, Scope.PREDICT, "Instance", "DecisionOut", _tell("")),
        ("feedback", calls.feedback, Scope.FEEDBACK, "FeedbackIn", "Receipt", {}),
        ("learn", calls.learn, Scope.FEEDBACK, "ExampleIn", "Receipt", {}),
        ("rounds", calls.rounds, Scope.FEEDBACK, "RoundIn", "Receipt", {}),
    ):
        _add(router, keys, name, call, scope, _docs(body, answer, links))
    for name, many, scope, body, answer in (
        ("predict", calls.predict_batch, Scope.PREDICT, "Instances", "Decisions"),
        ("feedback", calls.feedback_batch, Scope.FEEDBACK, "Feedbacks", "Receipts"),
        ("learn", calls.learn_batch, Scope.FEEDBACK, "Examples", "Receipts"),
        ("rounds", calls.rounds_batch, Scope.FEEDBACK, "Rounds", "Receipts"),
    ):
        links = _tell("/items/0") if name == "predict" else {}
        _add(router, keys, f"{name}/batch", many, scope, _docs(body, answer, links, lines=True))
    return router


def _add(
    router: APIRouter,
    keys: Keys,
    name: str,
    call: Callable[..., Awaitable[bytes]],
    scope: Scope,
    docs: dict[str, Any],
) -> None:
    batch = name.endswith("/batch")

    async def route(model: str, request: Request) -> Response:
        caller = keys.caller(request.headers.get("authorization"))
        caller.require(scope)
        media_type = check_request_type(request, (JSON, NDJSON) if batch else (JSON,))
        how = {"lines": media_type == NDJSON} if batch else {}
        answer = await call(caller.key_of(model), await request.body(), **how)
        return Response(answer, media_type=media_type.decode())

    router.add_api_route(
        f"/v1/models/{{model}}/{name}",
        route,
        methods=["POST"],
        operation_id=name.replace("/", "_"),
        summary=(call.__doc__ or "").strip(),
        **docs,
    )


def _tell(place: str) -> dict[str, Any]:
    """Return the link from a decision at `place` of the answer to its feedback."""
    body = {"decision_id": f"$response.body#{place}/decision_id", "feedback": 1}
    return {"feedback": link("feedback", "Tell whether the label was clicked.", body)}


def _docs(body: str, answer: str, links: dict[str, Any], *, lines: bool = False) -> dict[str, Any]:
    taken: dict[str, Any] = {"application/json": {"schema": schema(body)}}
    given: dict[str, Any] = {"application/json": {"schema": schema(answer)}}
    if lines:
        example = "".join(f"{json.dumps(one)}\n" for one in EXAMPLES[body]["items"])
        taken["application/x-ndjson"] = {"schema": {"type": "string"}, "example": example}
        given["application/x-ndjson"] = {"schema": {"type": "string"}}
    done: dict[str, Any] = {"description": "Done.", "content": given}
    if links:
        done["links"] = links
    return {
        "response_class": Response,
        "responses": {200: done} | write_errors(),
        "openapi_extra": {"requestBody": {"required": True, "content": taken}},
    }
