"""What policies are worth, as typed, immutable values."""

from __future__ import annotations

from typing import Literal

import msgspec


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """How probably the label that a policy shows is the right one.

    Attributes
    ----------
    value
        The estimate; unbiased, so it may lie outside [0, 1].
    error
        Its standard error, that of the noise rates included.
    low, high
        The 95 % interval.
    """

    value: float
    error: float
    low: float
    high: float


class PolicyValue(msgspec.Struct, frozen=True, kw_only=True):
    """What one policy is worth, by three estimates.

    Attributes
    ----------
    policy
        `"deciding"`; `"elsewhere"`, whoever decided the rounds that were told; `"uniform"`, which
        shows each label alike; `"challenger"`; or `"label"`, which always shows the same one.
    name
        Of the learner or the label; None for elsewhere and uniform.
    rounds
        Rounds that it is judged on.
    effective
        How many rounds would tell as much, had it decided them.
    trusted
        Whether the numbers can be relied on.
    verdict
        `"trusted"`, or why not.
    ips, snips, dr
        Inverse propensity, self-normalised, doubly robust; None where there is none.
    gain
        How much more it is worth than what was shown in these rounds, by `dr`; None where that is.
        To decide between the two, look here: most doubts are the same for both. A challenger's is,
        in rounds that the model decided, over what the deciding learner would have shown when
        feedback came.
    """

    policy: Literal["deciding", "elsewhere", "uniform", "challenger", "label"]
    name: str | None
    rounds: int
    effective: float
    trusted: bool
    verdict: str
    ips: Value | None
    snips: Value | None
    dr: Value | None
    gain: Value | None = None

    @property
    def best(self) -> Value | None:
        """The estimate to go by: doubly robust, else the self-normalised one."""
        return self.dr or self.snips


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """What the policies of a model are worth, from the newest rounds of its log.

    Attributes
    ----------
    rounds
        How many.
    first_seq, last_seq
        The events that ended the first and the last of them; None without rounds.
    seq
        The log's last event then.
    rho_0, rho_1
        Noise rates that the clicks were corrected by; means where each label has its own.
    by_label
        Whether each label's own rates corrected them.
    rates_from
        `"log"`: the last ones set or estimated; `"learner"`: what the deciding learner was made
        with, or has found itself; `"challenger"`: the same of a challenger; `"nothing"`: none are
        known, and clicks were taken as true.
    policies
        The deciding one first.
    """

    rounds: int
    first_seq: int | None
    last_seq: int | None
    seq: int
    rho_0: float
    rho_1: float
    by_label: bool
    rates_from: Literal["log", "learner", "challenger", "nothing"]
    policies: tuple[PolicyValue, ...]
