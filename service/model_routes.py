"""The calls on models as FastAPI routes, and models as files.

Annotations are evaluated here: FastAPI reads the dependencies, made per app, from them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response, params
from starlette.responses import StreamingResponse

from learners.states import State
from service.auth import Caller, Keys, Scope
from service.codec import encode_parts, state_digest, state_to_npz
from service.edge import JSON, NDJSON, check_request_type
from service.errors import Invalid, NotFound
from service.host import Host
from service.model_wire import (
    LabelsIn,
    ModelOut,
    ModelsOut,
    RatesIn,
    RelearnedOut,
    RelearnIn,
    SeqOut,
)
from service.models import Models
from service.replica import Replica
from service.route_docs import create_errors, errors, file_answer, read_errors, write_errors
from service.spec import ModelSpec, NamedLearner, is_model_name
from service.transfer import export, import_model
from service.turns import OneAtATime

_AFTER_CREATE = {
    name: {
        "operationId": name,
        "description": f"{name} on the new model.",
        "parameters": {"model": "$response.body#/name"},
    }
    for name in (
        *("get_model", "change_labels", "set_rates", "delete_model", "export_log", "get_state"),
        *("add_challenger", "evaluate", "relearn"),
        *("predict", "predict_batch", "learn", "learn_batch"),
        *("rounds", "rounds_batch"),
    )
}


def model_router(models: Models, host: Host, keys: Keys) -> APIRouter:
    """Return the routes of models."""
    router = APIRouter(tags=["models"])

    def any_key(request: Request) -> Caller:
        return keys.caller(request.headers.get("authorization"))

    def admin_key(caller: Annotated[Caller, Depends(any_key)]) -> Caller:
        caller.require(Scope.ADMIN)
        return caller

    def json_body(request: Request) -> None:
        check_request_type(request, (JSON,))

    anybody = Annotated[Caller, Depends(any_key)]
    admin = Annotated[Caller, Depends(admin_key)]
    takes_json = [Depends(admin_key), Depends(json_body)]
    created: dict[int | str, dict[str, Any]] = {
        200: {"description": "The same spec again: nothing changed.", "model": ModelOut},
        201: {"description": "Created.", "model": ModelOut, "links": _AFTER_CREATE},
    }

    @router.post(
        "/v1/models",
        operation_id="create_model",
        status_code=201,
        responses=created | create_errors(),
        dependencies=takes_json,
    )
    async def create_model(spec: ModelSpec, caller: admin, response: Response) -> ModelOut:
        """Create a model; the same spec again changes nothing."""
        model, new = await models.create(caller, spec)
        response.status_code = 201 if new else 200
        return model

    @router.get("/v1/models", operation_id="list_models", responses=errors(401, 403, 422, 429, 503))
    async def list_models(caller: anybody) -> ModelsOut:
        """List the models of the key's tenant."""
        return await models.describe_all(caller)

    @router.get("/v1/models/{model}", operation_id="get_model", responses=read_errors())
    async def get_model(model: str, caller: anybody) -> ModelOut:
        """Describe a model."""
        return await models.describe(caller, model)

    @router.delete(
        "/v1/models/{model}",
        operation_id="delete_model",
        status_code=204,
        responses=read_errors(),
    )
    async def delete_model(model: str, caller: admin) -> None:
        """Delete a model with its log, decisions and snapshots."""
        await models.delete(caller, model)

    _add_relearn(router, models, admin, takes_json)
    _add_changes(router, models, admin, takes_json)
    _add_challengers(router, models, admin, takes_json)
    _add_files(router, models, host, admin_key)
    return router


def _add_relearn(
    router: APIRouter, models: Models, admin: Any, takes_json: list[params.Depends]
) -> None:
    # One at a time: each keeps worker and Redis busy for as long as all its events take.
    alone = OneAtATime()

    @router.post(
        "/v1/models/{model}/relearn",
        operation_id="relearn",
        status_code=201,
        responses=write_errors(),
        dependencies=takes_json,
    )
    async def relearn(model: str, asked: RelearnIn, caller: admin) -> RelearnedOut:
        """Make another model from the log, without some times or labels, or with another learner.

        It appears whole or not at all.
        """
        async with alone.turn(caller.tenant):
            return await models.relearn(caller, model, asked)


def _add_changes(
    router: APIRouter, models: Models, admin: Any, takes_json: list[params.Depends]
) -> None:
    @router.post(
        "/v1/models/{model}/labels",
        operation_id="change_labels",
        responses=write_errors(),
        dependencies=takes_json,
    )
    async def change_labels(model: str, change: LabelsIn, caller: admin) -> ModelOut:
        """Add and retire labels while the model runs."""
        return await models.change_labels(caller, model, change)

    @router.post(
        "/v1/models/{model}/rates",
        operation_id="set_rates",
        responses=write_errors(),
        dependencies=takes_json,
    )
    async def set_rates(model: str, rates: RatesIn, caller: admin) -> SeqOut:
        """Set the noise rates that hold from now on."""
        return await models.set_rates(caller, model, rates)


def _add_challengers(
    router: APIRouter, models: Models, admin: Any, takes_json: list[params.Depends]
) -> None:
    @router.post(
        "/v1/models/{model}/challengers",
        operation_id="add_challenger",
        responses=write_errors(),
        dependencies=takes_json,
    )
    async def add_challenger(model: str, challenger: NamedLearner, caller: admin) -> ModelOut:
        """Let one more learner learn from the log without deciding; it begins at this event."""
        return await models.add_challenger(caller, model, challenger)

    @router.delete(
        "/v1/models/{model}/challengers/{challenger}",
        operation_id="drop_challenger",
        status_code=204,
        responses=read_errors() | errors(409),
    )
    async def drop_challenger(model: str, challenger: str, caller: admin) -> None:
        """Forget a challenger with what it has learned."""
        await models.drop_challenger(caller, model, challenger)

    @router.post(
        "/v1/models/{model}/challengers/{challenger}/promote",
        operation_id="promote",
        responses=read_errors() | errors(409),
    )
    async def promote(model: str, challenger: str, caller: admin) -> ModelOut:
        """Let a challenger decide from this event on; the one that decided becomes a challenger."""
        return await models.promote(caller, model, challenger)


def _add_files(
    router: APIRouter, models: Models, host: Host, admin_key: Callable[..., Caller]
) -> None:
    admin = Annotated[Caller, Depends(admin_key)]
    imported: dict[int | str, dict[str, Any]] = {
        201: {"description": "Imported.", "links": _AFTER_CREATE}
    }
    ndjson = {"application/x-ndjson": {"schema": {"type": "string"}}}

    @router.get(
        "/v1/models/{model}/log",
        operation_id="export_log",
        response_class=Response,
        responses=file_answer("The exported model.", NDJSON.decode()) | read_errors() | errors(409),
    )
    async def export_log(model: str, caller: admin) -> Response:
        """Export the model: a header, and the events that its log holds."""

        async def begin(replica: Replica) -> tuple[bytes, AsyncIterator[bytes]]:
            pieces = export(host.store, replica)
            # What cannot be exported is refused before the answer begins.
            return await anext(pieces), pieces

        header, pieces = await host.use(caller.key_of(model), begin)

        async def whole() -> AsyncIterator[bytes]:
            yield header
            async for piece in pieces:
                yield piece

        return StreamingResponse(whole(), media_type=NDJSON.decode())

    @router.post(
        "/v1/models/{model}/import",
        operation_id="import_model",
        status_code=201,
        responses=imported | write_errors(),
        openapi_extra={"requestBody": {"required": True, "content": ndjson}},
    )
    async def import_log(model: str, request: Request, caller: admin) -> ModelOut:
        """Create a model from an export; it appears whole or not at all."""
        check_request_type(request, (NDJSON,))
        if not is_model_name(model):
            raise Invalid.of("model", "a name as in a model's spec", model)
        most = host.settings.max_models
        await import_model(host.store, caller.key_of(model), model, request.stream(), most)
        return await models.describe(caller, model)

    @router.get(
        "/v1/models/{model}/state",
        operation_id="get_state",
        response_class=Response,
        responses=_state_answer() | read_errors(),
    )
    async def get_state(model: str, caller: admin) -> Response:
        """Download the model's state as an .npz file."""
        key = caller.key_of(model)
        if not is_model_name(model):
            raise NotFound("there is no such model")
        return await host.use(key, _state)


def _state_answer() -> dict[int | str, dict[str, Any]]:
    """Return OpenAPI's 200 of a state, with the headers that say which one it is."""
    answer = file_answer("The named arrays, as numpy reads them.", "application/octet-stream")
    answer[200]["headers"] = {
        f"x-misclick-{name}": {"description": text, "schema": {"type": kind}, "required": True}
        for name, kind, text in (
            ("seq", "integer", "Events folded into it."),
            ("chain", "string", "Hash chain over these events."),
            ("sha256", "string", "Of the state's canonical bytes, as snapshots have them."),
        )
    }
    return answer


async def _state(replica: Replica) -> Response:
    await replica.catch_up()
    fold = replica.fold
    seq, chain, state = fold.seq, fold.chain, fold.state()
    # A wide window takes a tenth of a second and more; nobody else uses this copy.
    digest, content = await asyncio.to_thread(_as_file, state)
    headers = {
        "x-misclick-seq": str(seq),
        "x-misclick-chain": chain,
        "x-misclick-sha256": digest,
        "content-disposition": f'attachment; filename="{replica.spec.name}-{seq}.npz"',
    }
    return Response(content, headers=headers, media_type="application/octet-stream")


def _as_file(state: State) -> tuple[str, bytes]:
    """Return the digest of a state and the file that is downloaded."""
    return state_digest(*encode_parts(state)), state_to_npz(state)
