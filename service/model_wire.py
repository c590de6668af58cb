"""What the calls on models take and answer."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from service.spec import (
    MAX_LABELS,
    Features,
    LabelFeatures,
    LearnerSpec,
    Name,
    NamedLearner,
    Strict,
)


class LabelOut(BaseModel):
    """A label, and whether it may be chosen."""

    name: str
    active: bool


class Counters(BaseModel):
    """What happened to the model so far."""

    decisions: int
    pending: int
    feedback: int
    clicks: int
    expired: int
    late: int
    duplicates: int
    conflicts: int
    learned: int
    told: int = Field(description="Rounds that somebody else decided; none of the decisions.")


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


class LabelsIn(Strict):
    """Labels that come (or come back), and labels that go."""

    add: Annotated[list[Name], Field(default_factory=list, max_length=MAX_LABELS)]
    retire: Annotated[list[Name], Field(default_factory=list, max_length=MAX_LABELS)]
    features: dict[Name, LabelFeatures] = Field(
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

    by_label: dict[Name, LabelRatesIn] = Field(
        {},
        max_length=MAX_LABELS,
        description="Labels with rates of their own, by name, taken as exact; every other label "
        "has the common ones. For learners that use each label's rates.",
    )


class SeqOut(BaseModel):
    """The seq of the event that a change became."""

    seq: int
