"""The data calls' bodies: parsed and written with msgspec, and the schema that says so.

pydantic checks what is created rarely (models, settings); a round passes here, where parsing
has to cost microseconds. Both refuse unknown fields and coerce nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice, takewhile
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from service.complaints import of_msgspec, of_no_json
from service.errors import Invalid, Malformed, ServiceError, TooLarge
from service.evaluation_wire import EvaluationOut
from service.features import MAX_HASHED, MAX_VALUE
from service.ids import ID_CHARS
from service.neighbor_wire import HubsOut, NeighborsOut, WindowNoiseOut
from service.spec import MAX_FEATURES, MAX_LABELS, NAME_CHARS

Label: TypeAlias = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS)]
RequestId: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128)]
Bit: TypeAlias = Literal[0, 1]
Status: TypeAlias = Literal["applied", "held", "duplicate", "late", "conflict", "unknown"]
Features: TypeAlias = list[float] | dict[str, float | str]
T = TypeVar("T")


#: Items of a batch; the setting max_batch_items may allow fewer.
MAX_ITEMS = 1000
#: What a value of `x` may be: checked where it is encoded, with the names of what is wrong.
_NUMBER = {"type": "number", "minimum": -MAX_VALUE, "maximum": MAX_VALUE}
_VALUES = {"anyOf": [_NUMBER, {"type": "string"}]}
_X = [
    {"type": "array", "items": _NUMBER, "minItems": 1, "maxItems": MAX_FEATURES},
    {"type": "object", "additionalProperties": _VALUES, "maxProperties": MAX_HASHED},
]
X: TypeAlias = Annotated[
    Features, Meta(description="A list of numbers, or named features, as the model's spec says.")
]


class Instance(Struct, forbid_unknown_fields=True):
    """One instance for which a label is wanted."""

    x: X
    request_id: Annotated[
        RequestId | None, Meta(description="The same id gets the same decision.")
    ] = None
    allowed: Annotated[
        Annotated[list[Label], Meta(min_length=1, max_length=MAX_LABELS)] | None,
        Meta(description="Labels to choose from; all of them where left out."),
    ] = None
    min_seq: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="Decide with at least this much of the log folded."),
    ] = None


class DecisionOut(Struct):
    """One decision."""

    decision_id: Annotated[
        Annotated[str, Meta(pattern=rf"^[A-Za-z0-9_-]{{{ID_CHARS}}}$")] | None,
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

    x: X
    label: Label
    request_id: Annotated[RequestId | None, Meta(description="The same id is learned once.")] = None


class RoundIn(Struct, forbid_unknown_fields=True):
    """One round that somebody else decided, with the observed bit."""

    x: X
    label: Annotated[Label, Meta(description="The label that was shown; it may be retired.")]
    propensity: Annotated[
        float, Meta(gt=0.0, le=1.0, description="With which probability it was chosen.")
    ]
    feedback: Annotated[Bit, Meta(description="1 is a click, 0 an explicit no click.")]
    request_id: Annotated[RequestId | None, Meta(description="The same id is learned once.")] = None


class NeighborsIn(Struct, forbid_unknown_fields=True):
    """One instance whose neighbours are asked for."""

    x: X


class Receipt(Struct):
    """What became of one feedback, example or round."""

    status: Status
    seq: int | None
    feedback: Bit | None


_MOST_ITEMS = Meta(min_length=1, extra_json_schema={"maxItems": MAX_ITEMS})


class Instances(Struct, forbid_unknown_fields=True):
    """A batch of instances."""

    items: Annotated[list[Instance], _MOST_ITEMS]


class Feedbacks(Struct, forbid_unknown_fields=True):
    """A batch of feedback."""

    items: Annotated[list[FeedbackIn], _MOST_ITEMS]


class Examples(Struct, forbid_unknown_fields=True):
    """A batch of examples."""

    items: Annotated[list[ExampleIn], _MOST_ITEMS]


class Rounds(Struct, forbid_unknown_fields=True):
    """A batch of rounds that somebody else decided."""

    items: Annotated[list[RoundIn], _MOST_ITEMS]


class Decisions(Struct):
    """A batch of decisions, in the order of the instances."""

    items: list[DecisionOut]


class Receipts(Struct):
    """A batch of receipts, in the order of the items."""

    items: list[Receipt]


class LabelRates(Struct, frozen=True):
    """Noise rates of one label with their standard errors, and how often it was shown."""

    label: str
    rho_0: float
    rho_1: float
    rho_0_error: float
    rho_1_error: float
    shown: int


class Estimate(Struct, frozen=True):
    """The result of one estimate of the noise rates."""

    number: int
    ended_at_ms: int
    took_s: float
    examples: int
    trusted: Annotated[bool, Meta(description="Only a trusted estimate becomes rates in force.")]
    verdict: str
    rho_0: float | None = None
    rho_1: float | None = None
    rho_0_error: float | None = None
    rho_1_error: float | None = None
    labels_differ: bool | None = None
    by_label: list[LabelRates] = []
    histogram: Annotated[
        list[list[int]],
        Meta(description="Per label, how many predicted click probabilities lie in each bin."),
    ] = []


class RatesOut(Struct):
    """Noise rates in force, as the answering worker has folded them."""

    rho_0: float
    rho_1: float


class Running(Struct):
    """An estimate that is being made."""

    number: int
    progress: float
    started_at_ms: int


class NoiseOut(Struct):
    """What is known of the noise in a model's clicks."""

    rates: Annotated[RatesOut, Meta(description="Common to all labels.")]
    rates_by_label: Annotated[
        dict[str, RatesOut],
        Meta(
            description="Each label's as the deciding learner uses them, or, if it uses none, as a "
            "challenger does: an estimate's are moved towards their mean as far as their errors "
            "explain. Empty where only common ones are used."
        ),
    ]
    estimate_every: Annotated[int, Meta(description="Feedbacks; 0: not by their number.")]
    estimate_on_drift: bool
    drift_seq: Annotated[
        int, Meta(description="The last event at which clicks were seen to have changed; 0: never.")
    ]
    asked: bool
    running: Running | None
    history: Annotated[list[Estimate], Meta(description="Newest first.")]
    learned: Annotated[
        bool, Meta(description="Whether that learner finds the rates itself, with each click.")
    ]
    known: Annotated[
        bool, Meta(description="Whether somebody set the rates in force: clicks do not move them.")
    ]
    restarts: Annotated[
        int,
        Meta(description="How often the learner has begun anew, with its rates or with all."),
    ]
    silent: Annotated[
        bool,
        Meta(description="Whether no clicks come at all: nothing is learned until one does."),
    ]
    context_free: Annotated[
        bool,
        Meta(description="Whether it decides by click rates: instances predict clicks worse."),
    ]
    label_by_label: Annotated[
        bool,
        Meta(description="Whether it decides label by label: that predicts clicks better."),
    ]
    errors: Annotated[
        RatesOut | None,
        Meta(description="Standard errors of `rates`, where the learner finds them; else null."),
    ]
    errors_by_label: Annotated[
        dict[str, RatesOut],
        Meta(
            description="Of `rates_by_label`, where the learner finds them; else empty. About .29 "
            "where nothing is known: it found as much noise as it allows for, or more."
        ),
    ]


class Asked(Struct):
    """The number of the estimate that was asked for."""

    number: int


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
    RoundIn,
    Receipt,
    Instances,
    Feedbacks,
    Examples,
    Rounds,
    Decisions,
    Receipts,
    NoiseOut,
    Asked,
    NeighborsIn,
    NeighborsOut,
    HubsOut,
    WindowNoiseOut,
    EvaluationOut,
    ErrorOut,
)

encode = msgspec.json.Encoder().encode


#: The answer to a request that met a fault of the service.
FAILED = encode(ErrorOut(ErrorBody("internal", "the request failed; the log says why", [])))


def schemas() -> dict[str, Any]:
    """Return the JSON schemas of all bodies, for OpenAPI."""
    _, components = msgspec.json.schema_components(
        BODIES, ref_template="#/components/schemas/{name}"
    )
    for name in ("Instance", "ExampleIn", "RoundIn", "NeighborsIn"):
        components[name]["properties"]["x"]["anyOf"] = _X
    return components


def error_body(error: ServiceError) -> bytes:
    """Return an error's answer."""
    details = [ErrorDetail(d.where, d.expected, d.got) for d in error.details]
    return encode(ErrorOut(ErrorBody(error.code, error.message, details)))


class Parser(msgspec.Struct, frozen=True):
    """Parses bodies of one type; says what is wrong where, and never echoes much of it."""

    one: msgspec.json.Decoder[Any]

    def parse(self, body: msgspec.Raw | bytes) -> Any:
        """Return the body's object; raise Malformed or Invalid."""
        try:
            return self.one.decode(body)
        except msgspec.ValidationError as error:
            raise of_msgspec(str(error), bytes(body)) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise of_no_json(str(error), bytes(body)) from None

    def parse_item(self, item: msgspec.Raw | bytes, place: int, *, line: bool) -> Any:
        """Return the object of one item of a batch; errors name `items[place]`."""
        try:
            return self.parse(item)
        except Invalid as error:
            raise error.under(f"items[{place}]") from None
        except Malformed as error:
            if not line:
                raise
            raise Malformed(f"items[{place}]: {error.message}") from None


def parser(kind: type[T]) -> Parser:
    """Return a parser of one type of body."""
    return Parser(msgspec.json.Decoder(kind))


#: Fields instead of a list: what comes after the last one is passed over, while a list of
#: millions of items would take a second and a gigabyte before anything could count them.
_ITEMS = msgspec.defstruct(
    "_Items",
    [(f"i{place}", msgspec.Raw, msgspec.UNSET) for place in range(MAX_ITEMS + 1)],
    array_like=True,
)
_BATCH = parser(msgspec.defstruct("_Batch", [("items", _ITEMS)], forbid_unknown_fields=True))
_LINE = re.compile(rb"\S[^\n]*")


def split_items(body: bytes, most: int, *, lines: bool) -> Sequence[msgspec.Raw | bytes]:
    """Return the items of a batch, not yet parsed; raise TooLarge if there are more than `most`.

    Counting comes first, because parsing a million items takes seconds.
    """
    if not lines:
        fields: tuple[Any, ...] = msgspec.structs.astuple(_BATCH.parse(body).items)
        items = list(takewhile(lambda item: item is not msgspec.UNSET, fields))
        if not items:
            raise Invalid.of("items", "1 or more items", "fewer")
        if len(items) > most:
            got = len(items) if len(items) <= MAX_ITEMS else "more"
            raise TooLarge(f"items: expected at most {most}, got {got}")
        return items
    found = [match.group() for match in islice(_LINE.finditer(body), most + 1)]
    if not found:
        raise Invalid.of("items", "1 or more items", "none")
    if len(found) > most:
        raise TooLarge(f"items: expected at most {most}, got more")
    return found


def encode_lines(items: list[Any]) -> bytes:
    """Return NDJSON."""
    return b"".join(encode(item) + b"\n" for item in items)
