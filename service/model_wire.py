"""What the calls on models take and answer."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, model_validator

from service.spec import (
    FEW_LABELS,
    MAX_LABELS,
    MODEL_NAME,
    Features,
    LabelFeatures,
    LearnerSpec,
    Name,
    NamedLearner,
    Strict,
)

#: Most spans of time that one call leaves out: each event is compared with all of them.
MAX_SPANS = 100
#: Latest time in a log, in the year 144,683: Redis' scripts compute with doubles.
MAX_MS = 2**52


class LabelOut(BaseModel):
    """A label, and whether it may be chosen."""

    name: str
    active: bool


class Counters(BaseModel):
    """What happened to the model so far."""

    decisions: int
    pending: int
    held: int = Field(
        description="Feedbacks of pending decisions that are held until their windows close, where "
        "`on_expiry` is `no_click`."
    )
    feedback: int
    clicks: int
    expired: int
    late: int
    duplicates: int
    conflicts: int
    learned: int
    told: int = Field(description="Rounds that somebody else decided; not in `decisions`.")
    rewinds: int = Field(description="Times a worker found that Redis had lost events.")


class ModelOut(BaseModel):
    """A model: its spec, and where it stands."""

    name: str
    learner: LearnerSpec = Field(description="The learner that decides.")
    deciding: str = Field(description="Its name; `original` for the one the model was made with.")
    challengers: list[NamedLearner] = Field(description="Those who learn without deciding.")
    labels: list[LabelOut]
    label_features: dict[str, LabelFeatures] = Field(
        description="What labels are like, by name, as last said; those that were not described "
        "are left out."
    )
    features: Features
    scaling: Literal["none", "unit", "standard"]
    window_s: float
    on_expiry: Literal["ignore", "no_click"]
    max_pending: int
    seed: int
    log_keep: int
    estimate_every: int | None
    estimate_on_drift: bool
    seq: int = Field(description="Events in the model's log.")
    chain: str = Field(description="Hash chain over these events.")
    counters: Counters
    snapshot_seq: int
    created_at_ms: int


class ModelsOut(BaseModel):
    """All models of the tenant."""

    models: list[ModelOut]
    unreadable: list[str] = Field(
        description="Names of those that were written by a newer version, or are damaged."
    )


class LabelsIn(Strict):
    """Labels that come (or come back), and labels that go."""

    add: Annotated[list[Name], Field(default_factory=list, max_length=MAX_LABELS)]
    retire: Annotated[list[Name], Field(default_factory=list, max_length=MAX_LABELS)]
    features: Annotated[dict[Name, LabelFeatures], FEW_LABELS] = Field(
        {},
        max_length=MAX_LABELS,
        description="What labels in `add` are like, for learners with n_label_features; those "
        "that the model has may be described anew.",
    )


class LabelRatesIn(Strict):
    """Noise rates of one label."""

    rho_0: float = Field(ge=0, lt=1, description="P(click | the label was wrong).")
    rho_1: float = Field(ge=0, lt=1, description="P(no click | the label was right).")


class RatesIn(LabelRatesIn):
    """Noise rates that hold from now on, instead of all that were set or estimated before."""

    by_label: Annotated[dict[Name, LabelRatesIn], FEW_LABELS] = Field(
        {},
        max_length=MAX_LABELS,
        description="Labels with rates of their own, by name, taken as exact; every other label "
        "has the common ones. For learners that use each label's rates.",
    )


class Span(Strict):
    """A span of time: from `from_ms` on, and before `to_ms`."""

    from_ms: int = Field(0, ge=0, le=MAX_MS, description="Milliseconds since 1970.")
    to_ms: int = Field(MAX_MS, ge=0, le=MAX_MS, description="Milliseconds since 1970.")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.from_ms >= self.to_ms:
            raise ValueError(f"from_ms before to_ms; they are {self.from_ms} and {self.to_ms}")
        return self


class RelearnIn(Strict):
    """A model to be made from another one's log."""

    name: str = Field(pattern=MODEL_NAME, description="Of the new model.")
    without: list[Span] = Field(
        [],
        max_length=MAX_SPANS,
        description="Times from which nothing is learned: feedback and examples that came in "
        "them are left out; with `no_click`, decisions whose windows were open then.",
    )
    without_retired: bool = Field(
        False,
        description="Leave out labels that are retired now, and what was learned of them: the new "
        "model has room for as many others.",
    )
    learner: LearnerSpec | None = Field(
        None, description="Kind and options of another learner; left out, the one that decides."
    )


class RelearnedOut(BaseModel):
    """What became of a log."""

    name: str = Field(description="Of the new model.")
    seq: int = Field(description="Events in its log.")
    first_ms: int | None = Field(description="When the oldest came that the log could teach.")
    last_ms: int | None = Field(description="When the newest of these came.")
    learned: int = Field(description="Rounds and examples that the new model has learned from.")
    clicks: int = Field(description="Rounds with a click that the new model was told.")
    left_out: int = Field(description="Rounds and examples that were left out.")
    left_out_clicks: int
    refused: int = Field(description="Those that the learner refused.")


class SeqOut(BaseModel):
    """The seq of the event that a change became."""

    seq: int
