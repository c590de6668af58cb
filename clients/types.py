"""What goes to the service and what comes back, as typed, immutable values.

Fields that a newer service adds are ignored, so an older client keeps working.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

#: Numbers of a dense instance, or values by name of a named or hashed one.
Features: TypeAlias = Sequence[float] | NDArray[Any] | Mapping[str, float | str]
#: What a label is like: as many numbers as the learner's `n_label_features` says.
LabelFeatures: TypeAlias = Sequence[float] | NDArray[Any]
#: Start, and end (exclusive), with time zones; None leaves that end open.
Times: TypeAlias = tuple[datetime | None, datetime | None]
#: A model's downloaded state: arrays and scalars by name.
State: TypeAlias = dict[str, NDArray[np.generic] | int | float | bool | str]


class Dense(msgspec.Struct, frozen=True, tag_field="type", tag="dense"):
    """Instances are lists of `size` numbers, 1 to 4,096."""

    size: int


class Hashed(msgspec.Struct, frozen=True, tag_field="type", tag="hashed"):
    """Instances are objects with any names, hashed into `size` numbers, 1 to 4,096."""

    size: int


class Field(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One named feature: a number, or a category out of `values` (one-hot), 1 to 4,096 of them."""

    name: str
    type: Literal["number", "category"]
    values: tuple[str, ...] | UnsetType = UNSET


class Named(msgspec.Struct, frozen=True, tag_field="type", tag="named"):
    """Instances are objects with exactly these fields, which make at most 4,096 numbers.

    A field that is missing, or a category's value that is none of its `values`, is refused. For
    what may be missing or new, declare a value such as "other", and send it then.
    """

    fields: tuple[Field, ...]


class Challenger(msgspec.Struct, frozen=True):
    """A learner that learns from a model's log without deciding.

    Parameters
    ----------
    name
        The name by which it is promoted or dropped.
    learner
        `{"kind": ..., option: value, ...}`; it has to take feedback.
    """

    name: str
    learner: dict[str, Any]


class ModelSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is made of; it never changes afterwards, except for its labels.

    What is left out is decided by the service, as are the bounds: they are those of this version.

    Parameters
    ----------
    name
        The model's name in every later call: 1 to 64 of a to z, 0 to 9, dot, dash and underscore,
        beginning with a letter or digit.
    labels
        Names of what the model may choose from, 1 to 1,024, each of 1 to 128 characters.
    features
        `Dense`, `Named` or `Hashed`.
    learner
        `{"kind": ..., option: value, ...}`, such as
        `{"kind": "rcnbf", "gamma": 0.03, "rho_0": 0.15, "rho_1": 0.15}`; left out, it is
        `forward_softmax`. All kinds and options are in docs/learners.md.
    scaling
        `"none"`, `"unit"` (unit norm) or `"standard"` (numbers to a running mean of 0 and deviation
        of 1, named categories as they are); by default `"standard"` for `Named` features, whose
        numbers differ in unit, and `"none"` for others. To `"standard"` all columns of `Hashed`
        ones are numbers, and 0 where left out: better scale what is large to about 1 before.
    window_s
        Seconds for which a decision waits for its feedback, 0.1 to 604,800; 600 by default.
    on_expiry
        What silence means when they are over: `"ignore"` (default), or `"no_click"` (feedback 0).
        With `"no_click"` clicks are learned then, too, when it is known what was not clicked: take
        a window not much longer than nearly all clicks need.
    max_pending
        How many decisions may wait for feedback or, with `"no_click"`, for the window to close, 1
        to 1,000,000; beyond that, predict is refused. 100,000 by default.
    seed
        Seed of the draws, at least 0 and below 2**63; 0 by default.
    log_keep
        How many events of the log are kept, for exports, estimates and relearning, 0 to
        10,000,000; 100,000 by default.
    estimate_every
        Feedbacks after which the noise rates are estimated anew, from as many of the newest: 1,000
        to 1,000,000, or 0 for never by itself. By default 10,000 where `forward` and 50,000 where
        `rcine` needs them, from the newest 50,000; never for others.
    estimate_on_drift
        Whether they are, too, when the share of clicks on the greedy label has changed; False by
        default.
    challengers
        Up to 4 learners that learn from the same log without deciding; none by default.
    label_features
        What labels are like, by name, where the learner has `n_label_features`: that many numbers
        for each, of magnitude at most 1e6. Similar labels learn from each other's clicks.

    Examples
    --------
    >>> spec = ModelSpec(
    ...     name="ads", learner={"kind": "banditron", "gamma": 0.05}, labels=("a", "b"),
    ...     features=Dense(size=3),
    ... )
    >>> spec.features
    Dense(size=3)
    """

    name: str
    labels: Sequence[str]
    features: Dense | Named | Hashed
    learner: dict[str, Any] | UnsetType = UNSET
    scaling: Literal["none", "unit", "standard"] | UnsetType = UNSET
    window_s: float | UnsetType = UNSET
    on_expiry: Literal["ignore", "no_click"] | UnsetType = UNSET
    max_pending: int | UnsetType = UNSET
    seed: int | UnsetType = UNSET
    log_keep: int | UnsetType = UNSET
    estimate_every: int | UnsetType = UNSET
    estimate_on_drift: bool | UnsetType = UNSET
    challengers: Sequence[Challenger] | UnsetType = UNSET
    label_features: Mapping[str, LabelFeatures] | UnsetType = UNSET


class Label(msgspec.Struct, frozen=True):
    """A label of a model; an inactive one is retired and not chosen."""

    name: str
    active: bool


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """How often each of these things happened to a model.

    Attributes
    ----------
    decisions
        As many as are pending, got feedback, or expired.
    pending
        Decisions whose windows have not closed, and that are not ended by feedback.
    held
        Feedbacks of these that are held until then, where silence means no click.
    feedback, clicks
        Feedbacks that were applied, and clicks among them.
    expired
        Decisions whose window closed without feedback.
    late
        Feedbacks that came after that, and were not applied.
    duplicates, conflicts
        What came again, as it was or different, and was not applied.
    learned, told
        Examples, and rounds that somebody else decided: not in `decisions`.
    rewinds
        Times a worker found that Redis had lost events.
    """

    decisions: int
    pending: int
    held: int = 0
    feedback: int
    clicks: int
    expired: int
    late: int
    duplicates: int
    conflicts: int
    learned: int
    told: int = 0
    rewinds: int = 0


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A model as the service holds it: its spec, and where its log stands.

    Attributes
    ----------
    learner
        The one that decides.
    deciding
        Its name: `"original"` for the one that the model was made with.
    challengers
        Those that learn from the same log without deciding.
    label_features
        What labels are like, as last described; those that never were are left out.
    seq
        Number of the last event of the log.
    chain
        Hash over the log up to there.
    snapshot_seq
        Up to where the newest snapshot reaches.
    created_at_ms
        Milliseconds since 1970.
    """

    name: str
    learner: dict[str, Any]
    deciding: str
    challengers: tuple[Challenger, ...]
    labels: tuple[Label, ...]
    label_features: dict[str, tuple[float, ...]]
    features: Dense | Named | Hashed
    scaling: str
    window_s: float
    on_expiry: str
    max_pending: int
    seed: int
    log_keep: int
    estimate_every: int | None
    estimate_on_drift: bool
    seq: int
    chain: str
    counters: Counters
    snapshot_seq: int
    created_at_ms: int

    @property
    def active_labels(self) -> tuple[str, ...]:
        """Names of the labels that may be chosen."""
        return tuple(label.name for label in self.labels if label.active)


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """One instance to decide on.

    Parameters
    ----------
    x
        The features: numbers, a 1-d array, or values by name.
    request_id
        1 to 128 characters. The same id gets the same decision; the client makes one up
        where none is given.
    allowed
        Labels to choose from. All active ones by default.
    min_seq
        Decide with at least this much of the log learned: the `seq` of a receipt, to see
        one's own feedback through whichever worker answers.
    """

    x: Features
    request_id: str | None = None
    allowed: Sequence[str] | None = None
    min_seq: int | None = None


class Feedback(msgspec.Struct, frozen=True):
    """The click (1) or no click (0) that followed a decision.

    An id of None, as a learner that takes no feedback gives, is refused when it is sent.
    """

    decision_id: str | None
    feedback: int


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """One instance with its full label, for learners that take it."""

    x: Features
    label: str
    request_id: str | None = None


class Relearned(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a log from which another model was made.

    Attributes
    ----------
    name
        Of the new model.
    seq
        Number of the last event of its log.
    first_ms, last_ms
        When the oldest and the newest came of what the log could teach, milliseconds since 1970;
        None where it had nothing.
    learned, clicks
        Rounds and examples that the new model has learned from; rounds with a click that it was
        told.
    left_out, left_out_clicks
        The same, of what was left out: by its time, or because it showed a retired label.
    refused
        Those that the learner refused.
    """

    name: str
    seq: int
    first_ms: int | None
    last_ms: int | None
    learned: int
    clicks: int
    left_out: int
    left_out_clicks: int
    refused: int


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One round that somebody else decided: a policy of one's own, or an old log.

    Parameters
    ----------
    x
        The features, as in `Instance`.
    label
        The label that was shown; one that the model has retired is taken too.
    propensity
        Probability with which it was chosen, in (0, 1]. What was never shown by chance is never
        known: a policy that always shows its best has 1 in every round.
    feedback
        1 is a click, 0 none.
    request_id
        1 to 128 characters. The same id is learned once; the client makes one up where none is
        given.
    """

    x: Features
    label: str
    propensity: float
    feedback: int
    request_id: str | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded choice.

    Attributes
    ----------
    decision_id
        What feedback names it by; None where the model's learner takes no feedback.
    label
        The label to show.
    greedy
        The label that the learner holds to be the best.
    propensity
        Probability with which `label` was drawn, in (0, 1].
    seq
        Up to which event of the log the learner had learned.
    expires_at_ms
        When the wait for feedback ends, milliseconds since 1970; None where none is taken.
    """

    decision_id: str | None
    label: str
    greedy: str
    propensity: float
    seq: int
    expires_at_ms: int | None


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one feedback, example or round.

    Attributes
    ----------
    status
        `"applied"`; `"held"` (it is applied when the window closes, because silence means no click:
        `on_expiry`); `"duplicate"` (it came before, nothing changed); `"late"` (the window was
        over, it was counted and not applied). In batches also `"conflict"` (something else came
        before) and `"unknown"` (no such decision).
    seq
        The event's number in the log; None where there is none, or none yet.
    feedback
        The feedback that counts; None where there is none.
    """

    status: Literal["applied", "held", "duplicate", "late", "conflict", "unknown"]
    seq: int | None = None
    feedback: int | None = None


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check of readiness, and the reason for its result."""

    name: str
    ok: bool
    why: str


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the service can work.

    Attributes
    ----------
    ready
        True where every check passes.
    failing
        Name of the first check that fails; None where none does.
    checks
        All of them.
    """

    ready: bool
    failing: str | None
    checks: tuple[Check, ...]
