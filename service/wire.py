"""The data calls' bodies: parsed and written with msgspec, and the schema that says so.

pydantic checks what is created rarely (models, settings); a round passes here, where parsing
has to cost microseconds. Both refuse unknown fields and coerce nothing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from service.errors import Detail, Invalid, Malformed, ServiceError, shorten
from service.ids import ID_CHARS
from service.spec import NAME_CHARS

Label: TypeAlias = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS)]
RequestId: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128)]
Bit: TypeAlias = Literal[0, 1]
Features: TypeAlias = list[float] | dict[str, float | str]
T = TypeVar("T")


class Instance(Struct, forbid_unknown_fields=True):
    """One instance for which a label is wanted."""

    x: Annotated[
        Features,
        Meta(description="A list of numbers, or named features, as the model's spec says."),
    ]
    request_id: Annotated[
        RequestId | None, Meta(description="The same id gets the same decision.")
    ] = None
    allowed: Annotated[
        Annotated[list[Label], Meta(min_length=1)] | None,
        Meta(description="Labels to choose from; all of them where left out."),
    ] = None
    min_seq: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="Decide with at least this much of the log folded."),
    ] = None


class DecisionOut(Struct):
    """One decision."""

    decision_id: Annotated[
        Annotated[str, Meta(min_length=ID_CHARS, max_length=ID_CHARS)] | None,
        Meta(description="What feedback names; null where the learner takes labels only."),
    ]
    label: str
    greedy: str
    propensity: Annotated[float, Meta(gt=0.0, le=1.0)]
    seq: Annotated[int, Meta(ge=0)]
    expires_at_ms: int | None


class FeedbackIn(Struct, forbid_unknown_fields=True):
    """The observed bit of one decision."""

    decision_id: Annotated[str, Meta(min_length=1, max_length=128)]
    feedback: Annotated[Bit, Meta(description="1 is a click, 0 an explicit no click.")]


class ExampleIn(Struct, forbid_unknown_fields=True):
    """One instance with its full label."""

    x: Features
    label: Label
    request_id: Annotated[RequestId | None, Meta(description="The same id is learned once.")] = None


class Receipt(Struct):
    """What became of one feedback or example."""

    status: Literal["applied", "duplicate", "late", "conflict", "unknown"]
    seq: int | None
    feedback: Bit | None


class Instances(Struct, forbid_unknown_fields=True):
    """A batch of instances."""

    items: Annotated[list[Instance], Meta(min_length=1)]


class Feedbacks(Struct, forbid_unknown_fields=True):
    """A batch of feedback."""

    items: Annotated[list[FeedbackIn], Meta(min_length=1)]


class Examples(Struct, forbid_unknown_fields=True):
    """A batch of examples."""

    items: Annotated[list[ExampleIn], Meta(min_length=1)]


class Decisions(Struct):
    """A batch of decisions, in the order of the instances."""

    items: list[DecisionOut]


class Receipts(Struct):
    """A batch of receipts, in the order of the items."""

    items: list[Receipt]


class ErrorDetail(Struct):
    """One thing that was wrong."""

    where: str
    expected: str
    got: str


class ErrorBody(Struct):
    """Why a call was refused."""

    code: str
    message: str
    details: list[ErrorDetail]


class ErrorOut(Struct):
    """The answer of every refused call."""

    error: ErrorBody


BODIES: tuple[type[Struct], ...] = (
    Instance,
    DecisionOut,
    FeedbackIn,
    ExampleIn,
    Receipt,
    Instances,
    Feedbacks,
    Examples,
    Decisions,
    Receipts,
    ErrorOut,
)

encode = msgspec.json.Encoder().encode


def schemas() -> dict[str, Any]:
    """Return the JSON schemas of all bodies, for OpenAPI."""
    _, components = msgspec.json.schema_components(
        BODIES, ref_template="#/components/schemas/{name}"
    )
    return components


def error_body(error: ServiceError) -> bytes:
    """Return an error's answer."""
    details = [ErrorDetail(d.where, d.expected, d.got) for d in error.details]
    return encode(ErrorOut(ErrorBody(error.code, error.message, details)))


class Parser(msgspec.Struct, frozen=True):
    """Parses bodies of one type; says what is wrong where, and never echoes much of it."""

    one: msgspec.json.Decoder[Any]

    def parse(self, body: bytes) -> Any:
        """Return the body's object; raise Malformed or Invalid."""
        try:
            return self.one.decode(body)
        except msgspec.ValidationError as error:
            raise _invalid(str(error), body) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _malformed(body, str(error)) from None

    def parse_lines(self, body: bytes) -> list[Any]:
        """Return the objects of an NDJSON body; errors name `items[line]`."""
        lines = [line for line in body.split(b"\n") if line.strip()]
        items = []
        for i, line in enumerate(lines):
            try:
                items.append(self.parse(line))
            except Invalid as error:
                raise _under(f"items[{i}]", error) from None
            except Malformed as error:
                raise Malformed(f"line {i + 1}: {error.message}") from None
        return items


def parser(kind: type[T]) -> Parser:
    """Return a parser of one type of body."""
    return Parser(msgspec.json.Decoder(kind))


def encode_lines(items: list[Any]) -> bytes:
    """Return NDJSON."""
    return b"".join(encode(item) + b"\n" for item in items)


# -- what is wrong, and where -----------------------------------------------------------------
_PLACE = re.compile(r"^(?P<what>.*?)(?: - at `(?:key in )?\$?(?P<where>[^`]*)`)?$", re.DOTALL)
_EXPECTED = re.compile(r"^Expected `?(?P<expected>.+?)`?, got `?(?P<got>.+?)`?$", re.DOTALL)
#: A body that is wrong is parsed again to name the feature, up to this size.
EXPLAIN_BYTES = 262_144


def _invalid(message: str, body: bytes) -> Invalid:
    match = _PLACE.match(message)
    what, where = (match["what"], match["where"] or "") if match else (message, "")
    where = where.removeprefix(".") or "body"
    if "..." in where or "out of range" in what:
        exact = _unusable_feature(body)
        if exact is not None:
            return exact
    pair = _EXPECTED.match(what)
    if pair:
        detail = Detail(where, shorten(pair["expected"]), shorten(pair["got"]))
    else:
        wanted = what.removeprefix("Expected ").replace("`", "")
        detail = Detail(where, shorten(wanted[0].lower() + wanted[1:]), "something else")
    return Invalid(str(detail), (detail,))


def _malformed(body: bytes, message: str) -> ServiceError:
    """Name the feature where the body is JSON but for NaN or Infinity, which JSON lacks."""
    return _unusable_feature(body) or Malformed(f"the body is not JSON: {shorten(message)}")


def _unusable_feature(body: bytes) -> Invalid | None:
    if len(body) > EXPLAIN_BYTES:
        return None
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return None
    for where, value in _features_of(parsed):
        if not _plausible(value):
            return Invalid.of(where, "a finite number or, where named, a string", repr(value))
    return None


def _plausible(value: object) -> bool:
    if isinstance(value, str):
        return True
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 1e300 if isinstance(value, int) else math.isfinite(value)


def _features_of(parsed: Any) -> Iterator[tuple[str, object]]:
    if not isinstance(parsed, dict):
        return
    items = parsed.get("items")
    if isinstance(items, list):
        for i, item in enumerate(items):
            for where, value in _features_of(item):
                yield f"items[{i}].{where}", value
        return
    x = parsed.get("x")
    if isinstance(x, list):
        yield from ((f"x[{i}]", value) for i, value in enumerate(x))
    elif isinstance(x, dict):
        yield from ((f"x.{shorten(name)}", value) for name, value in x.items())


def _under(prefix: str, error: Invalid) -> Invalid:
    details = tuple(
        d._replace(where=prefix if d.where == "body" else f"{prefix}.{d.where}")
        for d in error.details
    )
    return Invalid("; ".join(map(str, details)), details)
