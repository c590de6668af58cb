"""The body that tells what a model's policies are worth."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

PolicyKind: TypeAlias = Literal["deciding", "elsewhere", "uniform", "challenger", "label"]
RatesFrom: TypeAlias = Literal["log", "learner", "challenger", "nothing"]


class ValueOut(Struct, frozen=True):
    """An estimated value: the probability that the shown label is right."""

    value: Annotated[float, Meta(description="Unbiased, so it may lie outside [0, 1].")]
    error: Annotated[float, Meta(description="Standard error, that of the rates included.")]
    low: Annotated[float, Meta(description="Lower end of the 95 % interval.")]
    high: float


class PolicyOut(Struct, frozen=True):
    """What one policy is worth."""

    policy: PolicyKind
    name: Annotated[str | None, Meta(description="Of the learner or the label; null for others.")]
    rounds: Annotated[int, Meta(description="Rounds that it is judged on.")]
    effective: Annotated[
        float, Meta(description="How many rounds would tell as much, had it decided them.")
    ]
    trusted: bool
    verdict: Annotated[str, Meta(description="trusted, or why the numbers are not.")]
    ips: ValueOut | None = None
    snips: ValueOut | None = None
    dr: Annotated[
        ValueOut | None, Meta(description="Null for a policy that decided all its rounds.")
    ] = None
    gain: Annotated[
        ValueOut | None,
        Meta(
            description="How much more it is worth than what was shown in these rounds, by dr; a "
            "challenger, in rounds that the model decided: than what the deciding one would have "
            "shown when feedback came. Null, too, where few of many rounds can be compared."
        ),
    ] = None


class EvaluationOut(Struct, frozen=True):
    """What the policies of a model are worth, from the newest rounds of its log."""

    rounds: int
    first_seq: Annotated[int | None, Meta(description="The events that ended these rounds.")]
    last_seq: int | None
    seq: Annotated[int, Meta(description="The log's last event when it was evaluated.")]
    rho_0: Annotated[float, Meta(description="Rates that the clicks were corrected by.")]
    rho_1: float
    by_label: Annotated[bool, Meta(description="Whether each label's own rates corrected clicks.")]
    rates_from: Annotated[
        RatesFrom,
        Meta(
            description="The log's last rates; the deciding learner's own; those of a challenger; "
            "or nothing known."
        ),
    ]
    policies: list[PolicyOut]
