"""What OpenAPI says of the calls, beyond what FastAPI finds out by itself."""

from __future__ import annotations

from inspect import signature
from typing import Any

from learners import LEARNERS, Learner
from service import wire
from service.spec import MODEL_NAME

_ERRORS = {
    400: "The body is not JSON.",
    401: "No API key, or an unknown one.",
    403: "The API key lacks the scope.",
    404: "No such model or decision.",
    409: "It contradicts what was said before, or what is under way.",
    413: "The body is over its limit.",
    415: "The content type is not one of those taken.",
    422: "Something in the body or the query is not what was expected.",
    429: "Too many requests at once; Retry-After says when.",
    503: "Redis is down, full or misconfigured, or a bound is reached; Retry-After says when.",
}
_WITHOUT_BODY = (401, 403, 404, 422, 429, 503)
_HEADERS = {
    401: {"WWW-Authenticate": {"schema": {"type": "string"}, "required": True}},
    429: {"Retry-After": {"schema": {"type": "integer"}, "required": True}},
    503: {"Retry-After": {"schema": {"type": "integer"}, "required": True}},
}
#: Media type of answers that are not text.
BYTES = "application/octet-stream"
#: A model, and bodies that fit it, for those who try the calls from the documentation.
EXAMPLE_MODEL = "ads"
EXAMPLE_CHALLENGER = "passive"
EXAMPLES: dict[str, dict[str, Any]] = {
    "ModelSpec": {
        "name": EXAMPLE_MODEL,
        "learner": {"kind": "rcnbf", "gamma": 0.03, "rho_0": 0.15, "rho_1": 0.15},
        "labels": ["shoes", "hats", "coats"],
        "features": {"type": "dense", "size": 3},
    },
    "LabelsIn": {"add": ["scarves"], "retire": []},
    "NamedLearner": {"name": EXAMPLE_CHALLENGER, "learner": {"kind": "bpa", "gamma": 0.03}},
    "RelearnIn": {
        "name": "ads-2",
        "without": [{"from_ms": 1780000000000, "to_ms": 1780003600000}],
    },
    "RatesIn": {"rho_0": 0.1, "rho_1": 0.2, "by_label": {}},
    "Instance": {"x": [0.5, -1.0, 2.0], "request_id": "visit-1", "allowed": ["shoes", "hats"]},
    "FeedbackIn": {"decision_id": "the decision_id of a decision", "feedback": 1},
    "ExampleIn": {"x": [0.5, -1.0, 2.0], "label": "hats"},
    "RoundIn": {"x": [0.5, -1.0, 2.0], "label": "hats", "propensity": 0.8, "feedback": 1},
    "NeighborsIn": {"x": [0.5, -1.0, 2.0]},
    "Instances": {"items": [{"x": [0.5, -1.0, 2.0]}, {"x": [1, 0, 0]}]},
    "Feedbacks": {"items": [{"decision_id": "the decision_id of a decision", "feedback": 0}]},
    "Examples": {"items": [{"x": [0.5, -1.0, 2.0], "label": "hats"}]},
    "Rounds": {
        "items": [{"x": [0.5, -1.0, 2.0], "label": "hats", "propensity": 0.8, "feedback": 1}]
    },
}
_TYPES = {"float": "number", "int": "integer", "str": "string", "bool": "boolean"}
_MADE_BY_FASTAPI = ("HTTPValidationError", "ValidationError")


def schema(name: str) -> dict[str, Any]:
    """Return a reference to one of the wire's schemas."""
    return {"$ref": f"#/components/schemas/{name}"}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return OpenAPI's responses for these error statuses."""
    content = {"application/json": {"schema": schema("ErrorOut")}}
    found: dict[int | str, dict[str, Any]] = {}
    for status in statuses:
        found[status] = {"description": _ERRORS[status], "content": content}
        if status in _HEADERS:
            found[status]["headers"] = _HEADERS[status]
    return found


def read_errors() -> dict[int | str, dict[str, Any]]:
    """Return the error responses of a call without body on one model."""
    return errors(*_WITHOUT_BODY)


def write_errors() -> dict[int | str, dict[str, Any]]:
    """Return the error responses of a call with a body on one model."""
    return errors(*_ERRORS)


def create_errors() -> dict[int | str, dict[str, Any]]:
    """Return the error responses of a call that makes a model."""
    return errors(*(status for status in _ERRORS if status != 404))


def json_answer(status: int, description: str, *bodies: str) -> dict[int | str, dict[str, Any]]:
    """Return OpenAPI's answer of a call that answers with one of these bodies of the wire."""
    schemas = [schema(body) for body in bodies]
    content = {"application/json": {"schema": {"oneOf": schemas} if schemas[1:] else schemas[0]}}
    return {status: {"description": description, "content": content}}


def file_answer(description: str, media_type: str) -> dict[int | str, dict[str, Any]]:
    """Return OpenAPI's 200 of a call that answers with a file."""
    kind = {"type": "string"}
    if media_type == BYTES:
        # Without it, generated clients take a file for text.
        kind["format"] = "binary"
    return {200: {"description": description, "content": {media_type: {"schema": kind}}}}


def link(operation: str, description: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return an OpenAPI link to `operation` on the same model with this body."""
    return {
        "operationId": operation,
        "description": description,
        "parameters": {"model": "$request.path.model"},
        "requestBody": body,
    }


def complete(document: dict[str, Any]) -> None:
    """Put into FastAPI's document what it does not know."""
    components = document.setdefault("components", {})
    components["securitySchemes"] = {
        "apiKey": {
            "type": "http",
            "scheme": "bearer",
            "description": "Asked for where the service has API keys.",
        }
    }
    schemas: dict[str, Any] = components.setdefault("schemas", {})
    for name in _MADE_BY_FASTAPI:
        schemas.pop(name, None)
    schemas.update(wire.schemas())
    schemas["LearnerSpec"] = learner_schema()
    for operations in document["paths"].values():
        for operation in operations.values():
            _complete_operation(operation)


def learner_schema() -> dict[str, Any]:
    """Return the schema of a learner's spec: one variant a kind, with its options."""
    return {
        "title": "LearnerSpec",
        "description": "A learner's kind and its options.",
        "oneOf": [_variant(learner) for learner in LEARNERS.values()],
    }


def _variant(learner: type[Learner]) -> dict[str, Any]:
    parameters = signature(learner).parameters
    properties: dict[str, Any] = {"kind": {"const": learner.kind}}
    for name in learner.option_names():
        properties[name] = {"type": _TYPES[parameters[name].annotation]}
    for name, default in learner.option_defaults().items():
        properties[name]["default"] = default
    return {
        "type": "object",
        "title": learner.kind,
        "properties": properties,
        "required": ["kind", *learner.required_option_names()],
        "additionalProperties": False,
    }


def _complete_operation(operation: dict[str, Any]) -> None:
    # FastAPI takes the function's name for a summary, and the docstring for a description.
    summary, _, rest = operation.pop("description", operation["summary"]).partition("\n")
    operation["summary"] = summary
    if rest.strip():
        operation["description"] = rest.strip()
    if 401 in map(int, operation["responses"]):
        operation["security"] = [{"apiKey": []}]
    for parameter in operation.get("parameters", []):
        if parameter["name"] == "model":
            parameter["schema"] = {"type": "string", "pattern": MODEL_NAME}
            parameter["description"] = "The model's name."
            parameter["example"] = EXAMPLE_MODEL
        elif parameter["name"] == "challenger":
            parameter["schema"] = {"type": "string", "pattern": MODEL_NAME}
            parameter["description"] = "The challenger's name."
            parameter["example"] = EXAMPLE_CHALLENGER
    automatic = operation["responses"].get("422", {}).get("content", {})
    if automatic.get("application/json", {}).get("schema") == schema(_MADE_BY_FASTAPI[0]):
        del operation["responses"]["422"]
    taken = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if taken is not None:
        name = taken["schema"]["$ref"].rpartition("/")[2]
        taken["example"] = EXAMPLES[name]
