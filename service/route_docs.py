"""What OpenAPI says of the answers that many calls share."""

from __future__ import annotations

from typing import Any

from service.ids import ID_CHARS

_ERRORS = {
    400: "The body is not JSON.",
    401: "No API key, or an unknown one.",
    403: "The API key lacks the scope.",
    404: "No such model or decision.",
    409: "It was said before, and differently.",
    413: "The body is over its limit.",
    415: "The content type is not one of those taken.",
    422: "Something in the body is not what was expected.",
    429: "Too many requests at once; Retry-After says when.",
    503: "Redis is down, full or misconfigured, or a bound is reached; Retry-After says when.",
}
_WITHOUT_BODY = (401, 403, 404, 429, 503)


def schema(name: str) -> dict[str, Any]:
    """Return a reference to one of the wire's schemas."""
    return {"$ref": f"#/components/schemas/{name}"}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return OpenAPI's responses for these error statuses."""
    content = {"application/json": {"schema": schema("ErrorOut")}}
    return {status: {"description": _ERRORS[status], "content": content} for status in statuses}


def read_errors() -> dict[int | str, dict[str, Any]]:
    """Return the error responses of a call without body on one model."""
    return errors(*_WITHOUT_BODY)


def write_errors() -> dict[int | str, dict[str, Any]]:
    """Return the error responses of a call with a body."""
    return errors(*_ERRORS)


def file_answer(description: str, media_type: str) -> dict[int | str, dict[str, Any]]:
    """Return OpenAPI's 200 of a call that answers with a file."""
    content = {media_type: {"schema": {"type": "string"}}}
    return {200: {"description": description, "content": content}}


def link(operation: str, description: str, **body: str) -> dict[str, Any]:
    """Return an OpenAPI link to `operation` on the same model."""
    return {
        "operationId": operation,
        "description": description,
        "parameters": {"model": "$request.path.model"},
        **({"requestBody": body} if body else {}),
    }


DECISION_ID_PATTERN = rf"^[A-Za-z0-9_-]{{{ID_CHARS}}}$"
