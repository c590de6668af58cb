"""The pure core of the client: what a call sends, and how its answer is read. No IO.

Each function returns a `Call`, or several for a batch; `Client` and `AsyncClient` send it.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from clients._answers import (
    DecisionItems,
    Live,
    ReceiptItems,
    models,
    no_export,
    nothing,
    numbered,
    seq,
    state_of,
    text_of,
)
from clients._call import NDJSON, Call, T, decoder_of
from clients._values import check_finite, encode, names, numbers, plain, quoted
from clients.errors import InputError
from clients.evaluation_types import Evaluation
from clients.neighbor_types import Hubs, Neighbors, WindowNoise
from clients.noise_types import Noise, NoiseRates
from clients.types import (
    Challenger,
    Decision,
    Example,
    Features,
    Feedback,
    Instance,
    LabelFeatures,
    Model,
    ModelSpec,
    Readiness,
    Receipt,
    Relearned,
    Round,
    State,
    Times,
)

S = TypeVar("S")
#: What the service promises to take in one batch.
MAX_BATCH = 1000
#: Well below the 24 MiB that the service takes by default, for batches of long instances.
MAX_BATCH_BYTES = 16 * 2**20
#: How long an import may take. All events are folded anew: 25,000 examples in a window of
#: neighbours took 80 s, and a log may have millions.
IMPORT_S = 3600.0
#: How long an evaluation may take: seconds of one core, after those of other evaluations.
EVALUATE_S = 60.0


# -- models -------------------------------------------------------------------------------
def create_model(spec: ModelSpec) -> Call[Model]:
    """POST /v1/models."""
    if isinstance(spec.labels, set | frozenset):
        # Another process has it in another order, and would get a conflict of specs.
        raise InputError("labels: expected a list or a tuple, which have an order, got a set")
    told: dict[str, object] = {"labels": names("labels", spec.labels)}
    if not isinstance(spec.label_features, msgspec.UnsetType):
        told["label_features"] = _described("label_features", spec.label_features)
    body = encode(msgspec.structs.replace(spec, **told))
    return Call(method="POST", path="/v1/models", body=body, parse=decoder_of(Model))


def list_models() -> Call[list[Model]]:
    """GET /v1/models."""
    return Call(method="GET", path="/v1/models", parse=lambda body: models(body).models)


def get_model(model: str) -> Call[Model]:
    """GET /v1/models/{model}."""
    return _get(Model, model)


def delete_model(model: str) -> Call[None]:
    """DELETE /v1/models/{model}."""
    return Call(method="DELETE", path=_path(model), parse=nothing, gone_is_done=True)


def change_labels(
    model: str,
    add: Sequence[str],
    retire: Sequence[str],
    features: Mapping[str, LabelFeatures] | None = None,
) -> Call[Model]:
    """POST /v1/models/{model}/labels."""
    changes: dict[str, object] = {"add": names("add", add), "retire": names("retire", retire)}
    if features:
        changes["features"] = _described("features", features)
    return _post(Model, changes, model, "labels")


def set_rates(
    model: str, rho_0: float, rho_1: float, by_label: Mapping[str, NoiseRates] | None = None
) -> Call[int]:
    """POST /v1/models/{model}/rates."""
    each = dict(by_label or {})
    _check_rates("", rho_0, rho_1)
    for name, one in each.items():
        _check_rates(f"by_label[{name!r}].", one.rho_0, one.rho_1)
    body = encode({"rho_0": rho_0, "rho_1": rho_1, "by_label": each})
    return Call(
        method="POST", path=_path(model, "rates"), body=body, parse=lambda got: seq(got).seq
    )


def add_challenger(model: str, challenger: Challenger) -> Call[Model]:
    """POST /v1/models/{model}/challengers."""
    return _post(Model, challenger, model, "challengers")


def drop_challenger(model: str, name: str) -> Call[None]:
    """DELETE /v1/models/{model}/challengers/{challenger}."""
    path = _path(model, "challengers", name)
    return Call(method="DELETE", path=path, parse=nothing, gone_is_done=True)


def promote(model: str, name: str) -> Call[Model]:
    """POST /v1/models/{model}/challengers/{challenger}/promote."""
    path = _path(model, "challengers", name, "promote")
    return Call(method="POST", path=path, parse=decoder_of(Model))


def relearn(
    model: str,
    name: str,
    without: Sequence[Times],
    learner: Mapping[str, Any] | None,
    *,
    without_retired: bool = False,
) -> Call[Relearned]:
    """POST /v1/models/{model}/relearn."""
    asked: dict[str, object] = {"name": name, "without": [_span(times) for times in without]}
    if without_retired:
        asked["without_retired"] = True
    if learner is not None:
        asked["learner"] = dict(learner)
    return Call(
        method="POST",
        path=_path(model, "relearn"),
        body=encode(asked),
        parse=decoder_of(Relearned),
        repeatable=False,
        takes_s=IMPORT_S,
    )


def evaluate(model: str, rounds: int | None) -> Call[Evaluation]:
    """GET /v1/models/{model}/evaluation."""
    call = replace(_get(Evaluation, model, "evaluation"), takes_s=EVALUATE_S)
    return call if rounds is None else replace(call, path=f"{call.path}?rounds={rounds}")


def noise(model: str) -> Call[Noise]:
    """GET /v1/models/{model}/noise."""
    return _get(Noise, model, "noise")


def estimate_noise(model: str) -> Call[int]:
    """POST /v1/models/{model}/noise/estimate."""
    path = _path(model, "noise", "estimate")
    return Call(method="POST", path=path, parse=lambda got: numbered(got).number)


def cancel_estimate(model: str) -> Call[None]:
    """DELETE /v1/models/{model}/noise/estimate."""
    return Call(method="DELETE", path=_path(model, "noise", "estimate"), parse=nothing)


# -- the loop -----------------------------------------------------------------------------
def predict(model: str, instance: Instance, request_id: str) -> Call[Decision]:
    """POST /v1/models/{model}/predict."""
    return _post(Decision, _instance(instance, request_id), model, "predict")


def predict_batch(
    model: str, instances: Sequence[Instance], request_ids: Sequence[str]
) -> list[Call[list[Decision]]]:
    """POST /v1/models/{model}/predict/batch, in as many calls as it takes."""
    items = _each(_instance, instances, request_ids)
    return _batches(_path(model, "predict", "batch"), items, DecisionItems)


def feedback(model: str, item: Feedback) -> Call[Receipt]:
    """POST /v1/models/{model}/feedback."""
    return _post(Receipt, _checked(item), model, "feedback")


def feedback_batch(model: str, items: Sequence[Feedback]) -> list[Call[list[Receipt]]]:
    """POST /v1/models/{model}/feedback/batch, in as many calls as it takes."""
    return _batches(_path(model, "feedback", "batch"), _each(_checked, items), ReceiptItems)


def learn(model: str, example: Example, request_id: str) -> Call[Receipt]:
    """POST /v1/models/{model}/learn."""
    return _post(Receipt, _example(example, request_id), model, "learn")


def learn_batch(
    model: str, examples: Sequence[Example], request_ids: Sequence[str]
) -> list[Call[list[Receipt]]]:
    """POST /v1/models/{model}/learn/batch, in as many calls as it takes."""
    items = _each(_example, examples, request_ids)
    return _batches(_path(model, "learn", "batch"), items, ReceiptItems)


def tell_round(model: str, told: Round, request_id: str) -> Call[Receipt]:
    """POST /v1/models/{model}/rounds."""
    return _post(Receipt, _round(told, request_id), model, "rounds")


def tell_rounds(
    model: str, rounds: Sequence[Round], request_ids: Sequence[str]
) -> list[Call[list[Receipt]]]:
    """POST /v1/models/{model}/rounds/batch, in as many calls as it takes."""
    items = _each(_round, rounds, request_ids)
    return _batches(_path(model, "rounds", "batch"), items, ReceiptItems)


def neighbors(model: str, x: Features) -> Call[Neighbors]:
    """POST /v1/models/{model}/neighbors."""
    return _post(Neighbors, {"x": plain(x)}, model, "neighbors")


def hubs(model: str) -> Call[Hubs]:
    """GET /v1/models/{model}/hubs."""
    return _get(Hubs, model, "hubs")


def window_noise(model: str) -> Call[WindowNoise]:
    """GET /v1/models/{model}/noise, of a learner that reads the noise off its neighbours."""
    return _get(WindowNoise, model, "noise")


# -- whole models, and the service itself -------------------------------------------------
def export_log(model: str) -> Call[None]:
    """GET /v1/models/{model}/log, which is not parsed: it is handed on as it comes."""
    return Call(method="GET", path=_path(model, "log"), parse=no_export)


def import_log(model: str, log: bytes | Iterable[bytes] | AsyncIterable[bytes]) -> Call[Model]:
    """POST /v1/models/{model}/import."""
    return Call(
        method="POST",
        path=_path(model, "import"),
        body=log,
        content_type=NDJSON,
        parse=decoder_of(Model),
        repeatable=False,
        takes_s=IMPORT_S,
    )


def state(model: str) -> Call[State]:
    """GET /v1/models/{model}/state."""
    return Call(method="GET", path=_path(model, "state"), parse=state_of)


def ready() -> Call[Readiness]:
    """GET /readyz."""
    return Call(method="GET", path="/readyz", parse=decoder_of(Readiness), refusal_is_answer=True)


def live() -> Call[Live]:
    """GET /livez."""
    return Call(method="GET", path="/livez", parse=decoder_of(Live))


def metrics() -> Call[str]:
    """GET /metrics."""
    return Call(method="GET", path="/metrics", parse=text_of)


# -- requests -----------------------------------------------------------------------------
def _path(*names: str) -> str:
    """Return a path below that of all models, with everything in each name quoted.

    Raises
    ------
    InputError
        A name would lead to another place, as `..` leads from a challenger to its model, or has
        half a character.
    """
    for name in names:
        # A `Model` is easily given instead of its name.
        if not isinstance(name, str) or name in ("", ".", "..") or not name.isprintable():
            what = "that of a model or a challenger"
            raise InputError(f"name: expected {what}, got {quoted(name)}")
    return "/".join(("/v1/models", *(quote(name, safe="") for name in names)))


def _get(answer: type[T], *names: str) -> Call[T]:
    return Call(method="GET", path=_path(*names), parse=decoder_of(answer))


def _post(answer: type[T], body: object, *names: str) -> Call[T]:
    path = _path(*names)
    return Call(method="POST", path=path, body=encode(body), parse=decoder_of(answer))


def _each(build: Callable[..., S], *columns: Iterable[object]) -> Iterator[S]:
    """Yield what is built from each item; an error in one begins with its place."""
    for place, item in enumerate(zip(*columns, strict=True)):
        try:
            built = build(*item)
        except InputError as error:
            raise InputError(f"items[{place}].{error}") from None
        yield built


def _batches(path: str, items: Iterable[object], answer: type[Any]) -> list[Call[list[Any]]]:
    """Split `items` into calls that the service takes."""
    decode = decoder_of(answer)
    calls: list[Call[list[Any]]] = []
    before = 0
    for pieces in _pieces(_each(encode, items)):
        call: Call[list[Any]] = Call(
            method="POST",
            path=path,
            body=b'{"items":[' + b",".join(pieces) + b"]}",
            parse=lambda body: decode(body).items,
            before=before,
        )
        calls.append(call)
        before += len(pieces)
    return calls


def _pieces(encoded: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Split encoded items into lists of at most `MAX_BATCH` items and `MAX_BATCH_BYTES`."""
    pieces: list[bytes] = []
    size = 0
    for item in encoded:
        if len(pieces) == MAX_BATCH or (pieces and size + len(item) > MAX_BATCH_BYTES):
            yield pieces
            pieces, size = [], 0
        pieces.append(item)
        size += len(item) + 1
    if pieces:
        yield pieces


def _instance(instance: Instance, request_id: str) -> dict[str, object]:
    item: dict[str, object] = {"x": plain(instance.x), "request_id": request_id}
    if instance.allowed is not None:
        item["allowed"] = names("allowed", instance.allowed)
    if instance.min_seq is not None:
        item["min_seq"] = instance.min_seq
    return item


def _example(example: Example, request_id: str) -> dict[str, object]:
    return {"x": plain(example.x), "label": example.label, "request_id": request_id}


def _round(told: Round, request_id: str) -> dict[str, object]:
    check_finite("propensity", told.propensity)
    return {
        "x": plain(told.x),
        "label": told.label,
        "propensity": told.propensity,
        "feedback": told.feedback,
        "request_id": request_id,
    }


def _checked(item: Feedback) -> Feedback:
    """Return the feedback if there is a decision that takes it.

    Raises
    ------
    InputError
        The decision's learner takes no feedback.
    """
    if item.decision_id is None:
        raise InputError("decision_id: expected that of a decision that takes feedback, got None")
    return item


def _span(times: Times) -> dict[str, int]:
    """Return a span of time in milliseconds; either end may be open."""
    span = {}
    for name, moment in zip(("from_ms", "to_ms"), times, strict=True):
        if moment is None:
            continue
        if not isinstance(moment, datetime) or moment.tzinfo is None:
            raise InputError(f"without: expected times with a time zone, got {quoted(moment)}")
        span[name] = round(moment.timestamp() * 1000)
    begin, end = times
    if begin is not None and end is not None and begin >= end:
        shown = f"{begin.isoformat()} and {end.isoformat()}"
        raise InputError(f"without: expected a beginning before its end, got {shown}")
    return span


def _described(where: str, features: Mapping[str, LabelFeatures]) -> dict[str, list[float]]:
    return {name: numbers(f"{where}[{name!r}]", values) for name, values in features.items()}


def _check_rates(where: str, rho_0: float, rho_1: float) -> None:
    check_finite(f"{where}rho_0", rho_0)
    check_finite(f"{where}rho_1", rho_1)
