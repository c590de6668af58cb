"""A model as the fold of its log: the one door through which its state changes.

No clock, no IO, no randomness: the same events give the same bytes on every worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import cast

import msgspec
import numpy as np

from learners import (
    Distribution,
    Learner,
    LearnersError,
    Outcome,
    draw,
    draw_each,
)
from learners.neighbors import WindowLearner
from learners.noise import ClickDrift
from learners.states import MAX_STATE, State, part_of
from learners.validation import FloatArray
from service.codec import CodecError, decode_state, encode_state
from service.contest import Contest
from service.errors import Invalid, LogBroken, Unavailable
from service.events import (
    ChallengerChange,
    Decision,
    Entry,
    Event,
    Example,
    LabelChange,
    Round,
    chain_after,
    feedback_learned,
    first_chain,
    is_example,
    unpack_body,
)
from service.features import Row, Rows, make_encoder
from service.ids import NO_FINGERPRINT, fingerprint_of, uniform_of
from service.scaling import make_scaling
from service.sizes import MAX_INTEGER
from service.spec import MAX_LABELS, ModelSpec

#: What may be raised when something that is no model's state is restored: integers may have a
#: thousand digits, say.
_WRONG = (KeyError, ValueError, TypeError, RecursionError, OverflowError)


class Fold:
    """The state of one model after the first `seq` events of its log.

    Parameters
    ----------
    spec
        The model's immutable description.
    incarnation
        What tells this model from an earlier one of the same name; the chain starts from it.

    Raises
    ------
    Invalid
        When the learner refuses its options, or the model would be too large.
    """

    def __init__(self, spec: ModelSpec, incarnation: str) -> None:
        self.spec = spec
        self.encoder = make_encoder(spec)
        self.labels = list(spec.labels)
        self.codes = {name: code for code, name in enumerate(self.labels)}
        self.seq = 0
        self.chain = first_chain(incarnation)
        #: Events that the learner refused, the same ones on every worker.
        self.rejected = 0
        self._scaling = make_scaling(spec, self.encoder.numbers)
        #: The learners, and the noise rates in force; read only.
        self.contest = Contest(spec, self.encoder.size)
        self._no_click_on_expiry = spec.on_expiry == "no_click"
        self._drift = ClickDrift() if spec.estimate_on_drift else None
        #: The last event at which clicks were seen to have changed; 0 for never.
        self.drift_seq = 0

    @property
    def learner(self) -> Learner:
        """The learner that decides; read only."""
        return self.contest.learner

    # -- deciding -------------------------------------------------------------------------
    def decide(
        self, x: Row, nonce: bytes, allowed: Sequence[int] | None = None, *, repeatable: bool
    ) -> Decision:
        """Choose a label for one instance; changes nothing.

        `repeatable` says that the client may ask the same again under the same nonce, so the
        decision carries a fingerprint of the question.
        """
        distribution = self.learner.distribution(self.scaled(x), allowed)
        label = draw(distribution, uniform_of(self.spec.seed, nonce))
        return self._decision(distribution, label, x, allowed, repeatable)

    def scaled(self, x: Row) -> FloatArray:
        """Return an instance as the learner sees it when it decides."""
        return self._scaling.apply(x.astype(np.float64))

    def decide_many(
        self, xs: Rows, nonces: Sequence[bytes], repeatable: Sequence[bool]
    ) -> list[Decision]:
        """Choose a label for each row, out of all labels; bit for bit what `decide` does."""
        distributions = self.learner.distributions(self._scaling.apply(xs.astype(np.float64)))
        labels = draw_each(distributions, [uniform_of(self.spec.seed, nonce) for nonce in nonces])
        return [
            self._decision(distribution, label, x, None, again)
            for distribution, label, x, again in zip(
                distributions, labels, xs, repeatable, strict=True
            )
        ]

    def _decision(
        self,
        distribution: Distribution,
        label: int,
        x: Row,
        allowed: Sequence[int] | None,
        repeatable: bool,
    ) -> Decision:
        fingerprint = NO_FINGERPRINT
        if repeatable:
            asked = b"" if allowed is None else repr(sorted(set(allowed))).encode()
            fingerprint = fingerprint_of(x.tobytes(), asked)
        propensity = float(distribution.probabilities[label])
        if not propensity > 0.0:
            # No honest log leads here. Recorded, it would be an event that no learner takes.
            raise Unavailable(f"the model cannot decide: it gives a probability of {propensity}")
        return Decision(label, distribution.greedy, propensity, self.seq, fingerprint, x)

    def allowed_codes(self, names: Sequence[str], where: str = "allowed") -> list[int]:
        """Return the codes of labels by name; raise Invalid unless one of them can be chosen."""
        codes = []
        for i, name in enumerate(names):
            code = self.codes.get(name)
            if code is None:
                raise Invalid.of(f"{where}[{i}]", "a label of the model", name)
            codes.append(code)
        active = self.learner.active
        if not any(active[code] for code in codes):
            raise Invalid.of(where, "at least one label that is not retired", list(names))
        return codes

    # -- folding --------------------------------------------------------------------------
    def begin_after(self, seq: int, chain: str) -> None:
        """Go on after this event of the log, whatever was before it."""
        self.seq, self.chain = seq, chain

    def follow(self, entry: Entry) -> None:
        """Apply the next entry of the log; raise LogBroken if it does not continue this fold."""
        _check_next(entry, self.seq, self.chain)
        self.apply(unpack_body(entry.body))
        self.chain = entry.chain

    def follow_many(self, entries: Sequence[Entry]) -> None:
        """Apply the next entries of the log; the result is that of `follow` on each.

        A window takes consecutive examples at once, in less than half the time.
        """
        for examples, some in groupby(entries, is_example):
            run = list(some)
            if examples and isinstance(self.learner, WindowLearner):
                self._follow_examples(self.learner, run)
            else:
                for entry in run:
                    self.follow(entry)

    def _follow_examples(self, learner: WindowLearner, entries: Sequence[Entry]) -> None:
        seq, chain, xs, labels = self.seq, self.chain, [], []
        for entry in entries:
            _check_next(entry, seq, chain)
            seq, chain = entry.seq, entry.chain
        for entry in entries:
            example = cast(Example, unpack_body(entry.body).payload)
            x = example.x.astype(np.float64)
            self._scaling.observe(x)
            xs.append(self._scaling.apply(x))
            labels.append(example.label)
        try:
            learner.learn_many(np.array(xs), np.array(labels))
        except LearnersError:
            # It takes all or none, and refuses some of these.
            for x, label in zip(xs, labels, strict=True):
                try:
                    learner.learn(x, label)
                except LearnersError:
                    self.rejected += 1
        self.seq, self.chain = seq, chain

    def apply(self, event: Event) -> None:
        """Change the state by one event; a learner's refusal is counted, the same everywhere."""
        try:
            self._apply(event)
        except (LearnersError, Invalid):
            self.rejected += 1
        self.seq += 1

    def _apply(self, event: Event) -> None:
        payload = event.payload
        if isinstance(payload, Decision):
            feedback = feedback_learned(event, self._no_click_on_expiry)
            if feedback is not None:
                self._update(payload, event.nonce, feedback)
        elif isinstance(payload, Round):
            self._follow_round(payload, event.nonce, cast(int, event.feedback))
        elif isinstance(payload, Example):
            x = payload.x.astype(np.float64)
            self._scaling.observe(x)
            self.contest.learn(self._scaling.apply(x), payload.label)
        elif isinstance(payload, LabelChange):
            self._change_labels(payload)
        elif isinstance(payload, ChallengerChange):
            self.contest.change(payload, self.seq + 1)
            if payload.change == "promote":
                # Other labels are shown now: that clicks change with them says nothing about noise.
                self._compare_anew()
        else:
            self._compare_anew()
            self.contest.set_rates(payload)

    def _update(self, decision: Decision, nonce: bytes, feedback: int) -> None:
        x = decision.x.astype(np.float64)
        self._scaling.observe(x)
        outcome = Outcome(
            self._scaling.apply(x),
            decision.label,
            decision.greedy,
            decision.propensity,
            feedback,
        )
        uniform = uniform_of(self.spec.seed, nonce) if self.contest.challengers else None
        if uniform is not None:
            self._tell_challengers(outcome, uniform)
        self.contest.update(outcome, decision.seq, self.seq + 1, uniform)
        self.contest.note_restarts(self.seq + 1)
        # The share of clicks on explored labels is no measure of the learner or of the noise.
        greedy = decision.label == decision.greedy
        if self._drift is not None and greedy and self._drift.observe(feedback):
            self.drift_seq = self.seq + 1

    def _follow_round(self, told: Round, nonce: bytes, feedback: int) -> None:
        x = told.x.astype(np.float64)
        self._scaling.observe(x)
        # Which label the decider held to be the best is not known; each learner takes its own.
        outcome = Outcome(self._scaling.apply(x), told.label, told.label, told.propensity, feedback)
        uniform = uniform_of(self.spec.seed, nonce)
        self._tell_challengers(outcome, uniform)
        self.contest.follow(outcome, uniform, self.seq + 1)
        self.contest.note_restarts(self.seq + 1)

    def _tell_challengers(self, outcome: Outcome, uniform: float) -> None:
        self.rejected += self.contest.tell_challengers(outcome, uniform, self.seq + 1)

    def _change_labels(self, change: LabelChange) -> None:
        strangers = list(dict.fromkeys(name for name in change.add if name not in self.codes))
        for name in change.add:
            if name in self.codes:
                self.contest.restore_label(self.codes[name])
        # All at once: one by one, what is kept by label would be copied for each.
        if strangers:
            self.contest.add_labels(len(strangers))
            self.codes |= {name: len(self.labels) + i for i, name in enumerate(strangers)}
            self.labels += strangers
        for name in change.retire:
            if name in self.codes:
                self.contest.retire_label(self.codes[name])
        for name, features in change.features.items():
            if name in self.codes:
                self.contest.describe_label(self.codes[name], features)

    def _compare_anew(self) -> None:
        """Compare the clicks to come with none from before."""
        if self._drift is not None:
            self._drift.begin_anew()

    # -- state ----------------------------------------------------------------------------
    def state(self) -> State:
        """Return everything that a later event or decision depends on."""
        state = self.contest.state()
        state |= {f"scaling.{name}": v for name, v in self._scaling.state().items()}
        state["labels"] = msgspec.json.encode(self.labels).decode()
        state["rejected"] = self.rejected
        if self._drift is not None:
            state |= {f"drift.{name}": v for name, v in self._drift.state().items()}
            state["drift_seq"] = self.drift_seq
        return state

    def encode(self) -> bytes:
        """Return the state as canonical bytes."""
        return encode_state(self.state())

    def restore(self, blob: bytes, seq: int, chain: str) -> None:
        """Become the state in `blob`, after `seq` events; raise CodecError if it is damaged."""
        state = decode_state(blob)
        try:
            labels = msgspec.json.decode(str(state["labels"]), type=list[str])
            rejected = int(state["rejected"])
            _check_restorable(state, labels)
            self.contest.restore(state, len(labels))
            self._scaling.restore(part_of(state, "scaling."))
            if self._drift is not None:
                self._drift = ClickDrift.from_state(part_of(state, "drift."))
                self.drift_seq = int(state["drift_seq"])
        except (*_WRONG, LearnersError) as error:
            raise CodecError(f"not a state of this model: {error}") from error
        self.labels, self.rejected = labels, rejected
        self.codes = {name: code for code, name in enumerate(labels)}
        self.seq, self.chain = seq, chain


def check_sound(state: State) -> None:
    """Raise ValueError if a state holds a number that no honest log leads to.

    What is not sound is not restored, hence never stored: it would take the place of the last
    snapshot that can be restored.
    """
    for name, value in state.items():
        if type(value) is int and abs(value) > MAX_INTEGER:
            raise ValueError(f"there is an integer beyond 64 bits in {name}")
        number = value.dtype.kind == "f" if isinstance(value, np.ndarray) else type(value) is float
        # Written so that NaN, which compares as false, is found: then the maximum is NaN, too.
        if number and not float(np.max(np.abs(value), initial=0.0)) <= MAX_STATE:
            raise ValueError(f"there is NaN, infinity or a number beyond {MAX_STATE:g} in {name}")


def _check_restorable(state: State, labels: list[str]) -> None:
    """Raise ValueError for what would be costly to find out later, or would not be found at all."""
    if len(set(labels)) != len(labels) or not 0 < len(labels) <= MAX_LABELS:
        raise ValueError("its labels are none, too many, or not distinct")
    rejected = state["rejected"]
    if type(rejected) is not int or rejected < 0:
        raise ValueError("its count of refused events is not a count")
    check_sound(state)


def _check_next(entry: Entry, seq: int, chain: str) -> None:
    """Raise LogBroken unless the entry continues a log that is this far."""
    if entry.seq != seq + 1:
        raise LogBroken(f"event {entry.seq} follows event {seq}")
    if chain_after(chain, entry.body) != entry.chain:
        raise LogBroken(f"the chain breaks at event {entry.seq}")
