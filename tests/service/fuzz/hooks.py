"""Hooks for Schemathesis: bodies of lines, and cases that reach the models that are there.

Loaded by the command through the configuration beside this file.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import schemathesis
from hypothesis import strategies as st
from pydantic import ValidationError

from learners import LearnersError, create
from service.spec import ModelSpec
from service.wire import ExampleIn, Examples, Instance, Instances, RoundIn, Rounds
from tests.service.fuzz import MODELS

#: A model that takes feedback, labels and rates, and instances of any names.
SPEC = {
    "learner": {"kind": "rcnbf", "rho_0": 0.1, "rho_1": 0.2},
    "labels": ["a", "b"],
    "features": {"type": "hashed", "size": 8},
}
EXPORT = {
    "format": "2",
    "spec": SPEC,
    "uid": "0123456789abcdef",
    "labels": ["a", "b"],
    "counters": {},
}
HASHED = st.dictionaries(
    st.text(max_size=9), st.floats(-1e3, 1e3) | st.text(max_size=9), max_size=4
)
DENSE = st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3)


@schemathesis.serializer("application/x-ndjson")
def lines(_: schemathesis.SerializationContext, value: Any) -> bytes:
    """Send text as it is: what the schema calls a string is lines of JSON."""
    return str(value).encode("utf-8", "replace")


@schemathesis.hook
def flatmap_path_parameters(context: Any, path_parameters: Any) -> Any:
    """Name a model that is there in most cases; a model that is deleted or made never is."""
    drawn = st.just(path_parameters)
    if context.operation.definition.raw.get("operationId") in ("delete_model", "import_model"):
        return drawn
    there = st.sampled_from(MODELS).map(lambda name: {**(path_parameters or {}), "model": name})
    return st.one_of(there, there, there, drawn) if "model" in (path_parameters or {}) else drawn


@schemathesis.hook
def flatmap_body(context: Any, body: Any) -> Any:
    """Let a valid body fit one of the models, or make one, in half of the cases.

    One that was made wrong stays wrong: put right here, it would be said to be wrongly accepted.
    """
    name = context.operation.definition.raw.get("operationId")
    fittings: dict[str, Callable[[Any], Any]] = {
        "create_model": _model,
        "import_model": _export,
        "predict": partial(_instance, Instance),
        "learn": partial(_instance, ExampleIn),
        "rounds": partial(_instance, RoundIn),
        "predict_batch": partial(_instances, Instances),
        "learn_batch": partial(_instances, Examples),
        "rounds_batch": partial(_instances, Rounds),
    }
    fitting = fittings.get(name)
    drawn = st.just(body)
    found = None if fitting is None else fitting(body)
    return drawn if found is None else st.one_of(drawn, found)


def _model(body: Any) -> Any:
    try:
        spec = ModelSpec.model_validate_json(json.dumps(body))
        for each in spec.learners:
            create(each.learner.kind, 1, 1, **each.learner.options)
    except (ValidationError, LearnersError, ValueError, TypeError):
        return None
    return st.just({**body, **SPEC})


def _export(body: Any) -> Any:
    return st.just(json.dumps(EXPORT)) if isinstance(body, str) else None


def _is(kind: Any, body: Any) -> bool:
    try:
        msgspec.convert(body, kind)
    except msgspec.ValidationError:
        return False
    return True


def _fit(body: dict[str, Any], x: Any) -> dict[str, Any]:
    fitted = {**body, "x": x, "allowed": None, "min_seq": None, "label": "a"}
    return {name: value for name, value in fitted.items() if name in body or name == "x"}


def _instance(kind: Any, body: Any) -> Any:
    if _is(kind, body):
        return st.one_of(HASHED, HASHED, DENSE).map(lambda x: _fit(body, x))
    return None


def _instances(kind: Any, body: Any) -> Any:
    if not _is(kind, body):
        return None
    items = body["items"]
    return st.sampled_from((HASHED, DENSE)).flatmap(
        lambda xs: st.tuples(*(xs for _ in items)).map(
            lambda row: {"items": [_fit(item, x) for item, x in zip(items, row, strict=True)]}
        )
    )
