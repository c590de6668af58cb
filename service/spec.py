"""What a model is: the immutable part, checked when the model is created."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from learners import LEARNERS

#: A model's name is part of a Redis key and of a path.
MODEL_NAME = r"^[a-z0-9][a-z0-9._-]{0,63}$"
#: Longest name of a label or a feature.
NAME_CHARS = 128
#: A week: pending decisions are kept in memory until their window closes.
MAX_WINDOW_S = 7 * 24 * 3600
#: Bounds on the size of one model; a round costs at most MAX_WEIGHTS multiplications (1 ms).
MAX_FEATURES = 4096
MAX_LABELS = 1024
MAX_WEIGHTS = 1_048_576
#: Values in a window of neighbours, 10,000 rows of 784 features: an export holds its 32 MiB as
#: base64 in one line of at most 64 MiB.
MAX_WINDOW_VALUES = 8_388_608
#: Rows in it: a worker that starts compares each with all others, which takes 16 s for 50,000.
MAX_WINDOW_ROWS = 65_536
#: Pending decisions of one model: 1,000,000 of 64 features take some 700 MB of Redis.
MAX_PENDING = 1_000_000
#: Events of one model that the log keeps beyond what recovery needs.
MAX_LOG_KEEP = 10_000_000
#: Feedbacks of one estimate of the noise rates: fewer tell too little, more take too long. The
#: default is what the authors of RCINE used.
MIN_ESTIMATE = 1000
MAX_ESTIMATE = 1_000_000
DEFAULT_ESTIMATE = 50_000
#: Feedbacks after which learners estimate anew by themselves. Forward gains more from early rates
#: than RCINE (whose authors' interval is kept), because new ones correct all that it has learned.
#: What learns its rates itself needs no estimates.
ESTIMATE_AFTER = {"rcine": DEFAULT_ESTIMATE, "forward": 10_000}
#: The learner of a spec that names none.
DEFAULT_KIND = "forward_softmax"
#: Features of a label: each makes a round dearer by an update of as many weights as a label has.
MAX_LABEL_FEATURES = 32
#: Fields of one object in a spec, and options of a learner, its kind among them; none has half as
#: many.
MAX_FIELDS = 64
#: Learners that learn from one model's log without deciding: each makes a round dearer by a
#: decision and an update.
MAX_CHALLENGERS = 4
#: The name, among its challengers, of the learner that a model was made with.
ORIGINAL = "original"

DISTINCT: dict[str, JsonValue] = {"uniqueItems": True}

Name: TypeAlias = Annotated[
    str, StringConstraints(min_length=1, max_length=NAME_CHARS, pattern=r"^[^\x00-\x1f\x7f]+$")
]

#: Largest magnitude of a label's feature that learners take.
MAX_LABEL_VALUE = 1e6
FeatureValue: TypeAlias = Annotated[float, Field(ge=-MAX_LABEL_VALUE, le=MAX_LABEL_VALUE)]
LabelFeatures: TypeAlias = Annotated[
    list[FeatureValue], Field(min_length=1, max_length=MAX_LABEL_FEATURES)
]


def _never_or_enough(every: int) -> int:
    if 0 < every < MIN_ESTIMATE:
        raise ValueError(f"0 for never, or at least {MIN_ESTIMATE}")
    return every


#: Of two ranges pydantic would name the one that was not meant.
Interval: TypeAlias = Annotated[
    int,
    Field(ge=0, le=MAX_ESTIMATE),
    AfterValidator(_never_or_enough),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": 0},
                {"type": "integer", "minimum": MIN_ESTIMATE, "maximum": MAX_ESTIMATE},
            ]
        }
    ),
]


def _few(data: object, most: int, what: str) -> object:
    """Refuse too many before each of them is looked at, which takes seconds for 100,000."""
    if isinstance(data, dict) and len(data) > most:
        raise ValueError(f"at most {most} {what}")
    return data


#: For objects of which each field is a label.
FEW_LABELS = BeforeValidator(partial(_few, most=MAX_LABELS, what="labels"))


class Strict(BaseModel):
    """A part of a spec: frozen, nothing coerced, nothing unknown, nothing non-finite."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, data: object) -> object:
        return _few(data, MAX_FIELDS, "fields")


class DenseFeatures(Strict):
    """A list of `size` numbers."""

    type: Literal["dense"]
    size: int = Field(ge=1, le=MAX_FEATURES)


class NumberField(Strict):
    """A named number: one column."""

    name: Name
    type: Literal["number"]


class CategoryField(Strict):
    """A named string out of a known set: one column a value (one-hot)."""

    name: Name
    type: Literal["category"]
    values: list[Name] = Field(min_length=1, max_length=MAX_FEATURES, json_schema_extra=DISTINCT)

    @field_validator("values")
    @classmethod
    def _distinct(cls, values: list[str]) -> list[str]:
        return distinct("values", values)


class NamedFeatures(Strict):
    """Named numbers and categories, every one of them in every instance."""

    type: Literal["named"]
    fields: list[Annotated[NumberField | CategoryField, Field(discriminator="type")]] = Field(
        min_length=1, max_length=MAX_FEATURES
    )

    @field_validator("fields")
    @classmethod
    def _distinct(
        cls, fields: list[NumberField | CategoryField]
    ) -> list[NumberField | CategoryField]:
        distinct("fields", [field.name for field in fields])
        columns = sum(len(f.values) if isinstance(f, CategoryField) else 1 for f in fields)
        if columns > MAX_FEATURES:
            raise ValueError(f"at most {MAX_FEATURES} columns, one a number and one a value")
        return fields


class HashedFeatures(Strict):
    """Any named numbers and strings, hashed into `size` columns with a sign."""

    type: Literal["hashed"]
    size: int = Field(ge=1, le=MAX_FEATURES)


Features: TypeAlias = Annotated[
    DenseFeatures | NamedFeatures | HashedFeatures, Field(discriminator="type")
]
Option: TypeAlias = bool | int | float | str


class LearnerSpec(BaseModel):
    """A learner's kind and, beside it, its own options (checked by the learner)."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow", allow_inf_nan=False)
    __pydantic_extra__: dict[str, Option]

    kind: Annotated[str, StringConstraints(min_length=1, max_length=64)]

    @model_validator(mode="before")
    @classmethod
    def _few_options(cls, data: object) -> object:
        return _few(data, MAX_FIELDS, "options")

    @property
    def options(self) -> Mapping[str, Option]:
        """The learner's options by name."""
        return self.__pydantic_extra__

    def filled(self) -> LearnerSpec:
        """Return the same learner with its defaults filled in."""
        defaults = LEARNERS[self.kind].option_defaults() if self.kind in LEARNERS else {}
        return LearnerSpec(kind=self.kind, **{**defaults, **self.options})


class NamedLearner(Strict):
    """A learner with the name by which it can be promoted."""

    name: Annotated[str, StringConstraints(pattern=MODEL_NAME)]
    learner: LearnerSpec = Field(description="The learner's kind and its options.")

    def filled(self) -> NamedLearner:
        """Return it with all the learner's options spelled out."""
        return NamedLearner(name=self.name, learner=self.learner.filled())


def _usual_scaling(before: dict[str, Any]) -> Literal["none", "standard"]:
    """Return the scaling that fits the features, which were checked before.

    An age would count a hundred times as much as a category beside it, and a price more than all.
    """
    return "standard" if isinstance(before.get("features"), NamedFeatures) else "none"


class ModelSpec(Strict):
    """The immutable description of a model; its log and this determine its state."""

    name: Annotated[str, StringConstraints(pattern=MODEL_NAME)]
    learner: LearnerSpec = Field(
        LearnerSpec(kind=DEFAULT_KIND),
        description=f"The learner's kind and its options; left out, {DEFAULT_KIND}.",
    )
    labels: list[Name] = Field(
        min_length=1,
        max_length=MAX_LABELS,
        description="The labels to choose from, distinct.",
        json_schema_extra=DISTINCT,
    )
    label_features: Annotated[dict[Name, LabelFeatures], FEW_LABELS] = Field(
        {},
        max_length=MAX_LABELS,
        description="What labels are like, by name, for learners with n_label_features, which is "
        "how many numbers each has, in any unit: similar labels learn from each other's clicks. A "
        "label that is left out shares nothing.",
    )
    features: Features = Field(description="What an instance looks like.")
    scaling: Literal["none", "unit", "standard"] = Field(
        default_factory=_usual_scaling,
        description="none; unit: divide by the Euclidean norm; standard: subtract from each number "
        "the running mean, and divide it by the running standard deviation, of the instances "
        "folded so far (categories of named features stay 0 or 1). Left out, standard for "
        "named features, whose numbers differ in unit, and none for others.",
    )
    window_s: float = Field(
        600.0,
        ge=0.1,
        le=MAX_WINDOW_S,
        description="Seconds in which feedback counts; then the decision expires.",
    )
    on_expiry: Literal["ignore", "no_click"] = Field(
        "ignore",
        description="What silence means: nothing, or no click. With `no_click`, clicks are held, "
        "too, until the window closes, and learned beside silence: take a window not much longer "
        "than they need.",
    )
    max_pending: int = Field(
        100_000,
        ge=1,
        le=MAX_PENDING,
        description="Decisions that may wait for feedback, or for the window to close with it "
        "(`no_click`).",
    )
    seed: int = Field(0, ge=0, lt=2**63, description="Seed of every draw.")
    log_keep: int = Field(
        100_000,
        ge=0,
        le=MAX_LOG_KEEP,
        description="Events kept in the log beyond what recovery needs.",
    )
    estimate_every: Interval | None = Field(
        None,
        description="Feedbacks after which the noise rates are estimated anew, for a learner that "
        "uses them, or challengers that do, from as many of the newest; silence is one where "
        "`on_expiry` is `no_click`; 0 for never by itself. "
        "Left out: 10,000 for forward and 50,000 for rcine, both from the newest 50,000; else "
        "never by itself (forward_softmax learns the rates from each click, and leaves these "
        "estimates to the others).",
    )
    estimate_on_drift: bool = Field(
        False,
        description="Estimate the noise rates anew, too, when the share of clicks on the greedy "
        "label has changed; the clicks are compared with those since the last estimate.",
    )
    challengers: list[NamedLearner] = Field(
        [],
        max_length=MAX_CHALLENGERS,
        description="Learners that learn from the same log without deciding, with distinct names; "
        f"the deciding one is called {ORIGINAL!r}.",
        json_schema_extra=DISTINCT,
    )

    @field_validator("challengers")
    @classmethod
    def _named_apart(cls, challengers: list[NamedLearner]) -> list[NamedLearner]:
        distinct("names", [ORIGINAL, *(each.name for each in challengers)])
        return challengers

    @field_validator("labels")
    @classmethod
    def _distinct(cls, labels: list[str]) -> list[str]:
        return distinct("labels", labels)

    @field_validator("label_features")
    @classmethod
    def _of_labels(
        cls, features: dict[str, list[float]], info: ValidationInfo
    ) -> dict[str, list[float]]:
        # Labels that were refused are not there.
        for name in features if "labels" in info.data else ():
            if name not in info.data["labels"]:
                raise ValueError(f"features of labels; {name!r} is none of them")
        return features

    @property
    def learners(self) -> list[NamedLearner]:
        """The deciding learner, as `ORIGINAL`, and its challengers."""
        return [NamedLearner(name=ORIGINAL, learner=self.learner), *self.challengers]

    def filled(self) -> ModelSpec:
        """Return it with all options of its learners spelled out: equal ones make equal models."""
        challengers = [each.filled() for each in self.challengers]
        return self.model_copy(
            update={"learner": self.learner.filled(), "challengers": challengers}
        )

    def estimate_after(self, kinds: Iterable[str]) -> int:
        """Return after how many feedbacks rates are estimated without being asked for; 0 for never.

        `kinds` are those of the learners for whom it is done.
        """
        if self.estimate_every is not None:
            return self.estimate_every
        return min((ESTIMATE_AFTER[kind] for kind in kinds if kind in ESTIMATE_AFTER), default=0)

    @property
    def estimate_block(self) -> int:
        """Newest feedbacks that one estimate uses at most."""
        return self.estimate_every or DEFAULT_ESTIMATE

    def to_json(self) -> str:
        """Return the JSON text."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str | bytes) -> ModelSpec:
        """Parse what `to_json` wrote."""
        return cls.model_validate_json(text)

    def to_dict(self) -> dict[str, Any]:
        """Return the spec as plain JSON values."""
        return self.model_dump(mode="json")


def distinct(what: str, names: list[str]) -> list[str]:
    """Return `names` if none occurs twice."""
    seen: set[str] = set()
    for name in names:
        # Counting each would take seconds: a spec has room for some ten lists of thousands.
        if name in seen:
            raise ValueError(f"distinct {what}; {name!r} stands there twice")
        seen.add(name)
    return names


def is_model_name(text: str) -> bool:
    """Whether a model can have this name."""
    return re.fullmatch(MODEL_NAME, text) is not None


def are_label_features(values: Sequence[float]) -> bool:
    """Whether a label can be described by these numbers: what `LabelFeatures` takes."""
    return 0 < len(values) <= MAX_LABEL_FEATURES and all(
        abs(each) <= MAX_LABEL_VALUE for each in values
    )
