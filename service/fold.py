"""A model as the fold of its log: the one door through which its state changes.

No clock, no IO, no randomness: the same events give the same bytes on every worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import cast

import msgspec
import numpy as np

from learners import (
    LEARNERS,
    Distribution,
    Learner,
    LearnersError,
    Outcome,
    draw,
    draw_each,
)
from learners.base import FloatArray, State, StateValue
from learners.neighbors import WindowLearner
from learners.noise import ClickDrift
from service.challengers import (
    Challenger,
    add_label,
    give_rates,
    learners_text,
    parse_learners,
)
from service.codec import CodecError, decode_state, encode_state
from service.errors import Invalid, LogBroken
from service.events import (
    ChallengerChange,
    Decision,
    Entry,
    Event,
    Example,
    Kind,
    LabelChange,
    Rates,
    chain_after,
    first_chain,
    is_example,
    unpack_body,
)
from service.features import Row, Rows, make_encoder
from service.ids import NO_FINGERPRINT, fingerprint_of, uniform_of
from service.scaling import make_scaling
from service.sizes import check_together, make_learner
from service.spec import MAX_CHALLENGERS, MAX_LABELS, LearnerSpec, ModelSpec, NamedLearner


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
        self._scaling = make_scaling(spec, self.encoder.size)
        self._learner = make_learner(spec.learner, self.encoder.size, len(self.labels), "learner")
        #: Name and spec of the learner that decides.
        self.deciding = spec.learners[0]
        #: Decisions made before this event were made by another learner.
        self.deciding_since = 0
        self._challengers: list[Challenger] = []
        #: Noise rates as last set; None if never.
        self.rates: Rates | None = None
        for i, each in enumerate(spec.challengers):
            self._challengers.append(self.new_challenger(each, f"challengers[{i}]."))
        self._no_click_on_expiry = spec.on_expiry == "no_click"
        self._drift = ClickDrift() if spec.estimate_on_drift else None
        #: The last event at which clicks were seen to have changed; 0 for never.
        self.drift_seq = 0

    @property
    def learner(self) -> Learner:
        """The learner that decides, for reading."""
        return self._learner

    @property
    def challengers(self) -> Sequence[Challenger]:
        """Those who learn without deciding, for reading."""
        return tuple(self._challengers)

    @property
    def learners(self) -> list[NamedLearner]:
        """Name and spec of every learner, the deciding one first."""
        return [self.deciding, *(each.named for each in self._challengers)]

    def challenger(self, name: str) -> Challenger | None:
        """Return the challenger with this name; None where there is none."""
        return next((each for each in self._challengers if each.name == name), None)

    def every_learner(self) -> list[Learner]:
        """Return the learner that decides and its challengers', for reading."""
        return [self._learner, *(each.learner for each in self._challengers)]

    def new_challenger(self, named: NamedLearner, where: str) -> Challenger:
        """Return a challenger that begins now; raise Invalid if this model cannot have it.

        `where` stands before the names of its fields in what is said of them.
        """
        if len(self._challengers) == MAX_CHALLENGERS:
            raise Invalid.of("challengers", f"at most {MAX_CHALLENGERS}", "one more")
        at = f"{where}learner"
        learner = make_learner(named.learner, self.encoder.size, len(self.labels), at)
        for each, place in ((self._learner, "model"), (learner, f"{at}.kind")):
            if not each.takes_feedback:
                what = "a learner that takes feedback, for challengers"
                raise Invalid.of(place, what, each.kind)
        check_together([*self.every_learner(), learner], at)
        for code in np.flatnonzero(~self._learner.active).tolist():
            learner.retire_label(code)
        if self.rates is not None and learner.takes_rates:
            give_rates(learner, self.rates)
        return Challenger(named, learner)

    # -- deciding -------------------------------------------------------------------------
    def decide(
        self, x: Row, nonce: bytes, allowed: Sequence[int] | None = None, *, repeatable: bool
    ) -> Decision:
        """Choose a label for one instance; changes nothing.

        `repeatable` says that the client may ask the same again under the same nonce, so the
        decision carries a fingerprint of the question.
        """
        distribution = self._learner.distribution(self.scaled(x), allowed)
        label = draw(distribution, uniform_of(self.spec.seed, nonce))
        return self._decision(distribution, label, x, allowed, repeatable)

    def scaled(self, x: Row) -> FloatArray:
        """Return an instance as the learner is asked about it."""
        return self._scaling.apply(x.astype(np.float64))

    def decide_many(
        self, xs: Rows, nonces: Sequence[bytes], repeatable: Sequence[bool]
    ) -> list[Decision]:
        """Choose a label for each row, out of all labels; bit for bit what `decide` does."""
        distributions = self._learner.distributions(self._scaling.apply(xs.astype(np.float64)))
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
        return Decision(label, distribution.greedy, propensity, self.seq, fingerprint, x)

    def allowed_codes(self, names: Sequence[str], where: str = "allowed") -> list[int]:
        """Return the codes of labels by name; raise Invalid unless one of them can be chosen."""
        codes = []
        for i, name in enumerate(names):
            code = self.codes.get(name)
            if code is None:
                raise Invalid.of(f"{where}[{i}]", "a label of the model", name)
            codes.append(code)
        active = self._learner.active
        if not any(active[code] for code in codes):
            raise Invalid.of(where, "at least one label that is not retired", list(names))
        return codes

    # -- folding --------------------------------------------------------------------------
    def follow(self, entry: Entry) -> None:
        """Apply the next entry of the log; raise LogBroken if it does not continue this fold."""
        _check_next(entry, self.seq, self.chain)
        self.apply(unpack_body(entry.body))
        self.chain = entry.chain

    def follow_many(self, entries: Sequence[Entry]) -> None:
        """Apply the next entries of the log; the result is that of `follow` on each.

        A window takes the examples that come one after the other at once, for less than half.
        """
        for examples, some in groupby(entries, is_example):
            run = list(some)
            if examples and isinstance(self._learner, WindowLearner):
                self._follow_examples(self._learner, run)
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
            # It takes all or none; the log has some that it refuses.
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
            if event.feedback is not None:
                self._update(payload, event.nonce, event.feedback)
            elif event.kind is Kind.EXPIRE and self._no_click_on_expiry:
                self._update(payload, event.nonce, 0)
        elif isinstance(payload, Example):
            x = payload.x.astype(np.float64)
            self._scaling.observe(x)
            self._learn(self._scaling.apply(x), payload.label)
        elif isinstance(payload, LabelChange):
            self._change_labels(payload)
        elif isinstance(payload, ChallengerChange):
            self._change_challengers(payload)
        else:
            self._set_rates(payload)

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
        if self._challengers:
            self._tell_challengers(outcome, nonce)
        if decision.seq < self.deciding_since:
            # Another learner made this decision: its best label is not this one's.
            outcome = outcome._replace(greedy=self._learner.distribution(outcome.x).greedy)
        self._learner.update(outcome)
        # What exploration shows is no matter of how good the learner is, or how clicks lie.
        greedy = decision.label == decision.greedy
        if self._drift is not None and greedy and self._drift.observe(feedback):
            self.drift_seq = self.seq + 1

    def _tell_challengers(self, outcome: Outcome, nonce: bytes) -> None:
        uniform = uniform_of(self.spec.seed, nonce)
        for challenger in self._challengers:
            try:
                challenger.follow(outcome, uniform, self.seq + 1)
            except LearnersError:
                self.rejected += 1

    def _learn(self, x: FloatArray, label: int) -> None:
        for challenger in self._challengers:
            if challenger.learner.takes_labels:
                challenger.learner.learn(x, label)
        self._learner.learn(x, label)

    def _set_rates(self, rates: Rates) -> None:
        if self._drift is not None:
            self._drift.begin_anew()
        takers = [learner for learner in self.every_learner() if learner.takes_rates]
        for learner in takers or [self._learner]:
            give_rates(learner, rates)
        self.rates = rates

    def _change_labels(self, change: LabelChange) -> None:
        for name in change.add:
            if name in self.codes:
                for learner in self.every_learner():
                    learner.restore_label(self.codes[name])
            else:
                self.codes[name] = self._learner.add_label()
                self.labels.append(name)
                self._challengers = [c for c in self._challengers if add_label(c.learner)]
        for name in change.retire:
            if name in self.codes:
                for learner in self.every_learner():
                    learner.retire_label(self.codes[name])

    def _change_challengers(self, change: ChallengerChange) -> None:
        if change.change == "add":
            spec = LearnerSpec.model_validate(change.learner)
            named = NamedLearner(name=change.name, learner=spec)
            if named.name in [each.name for each in self.learners]:
                raise Invalid.of("challenger", "another name", named.name)
            self._challengers.append(self.new_challenger(named, ""))
            return
        found = self.challenger(change.name)
        if found is None:
            raise Invalid.of("challenger", "one of the model's", change.name)
        place = self._challengers.index(found)
        if change.change == "drop":
            del self._challengers[place]
            return
        self._challengers[place] = Challenger(self.deciding, self._learner)
        self._learner, self.deciding = found.learner, found.named
        self.deciding_since = self.seq + 1
        if self._drift is not None:
            # Other labels are shown now: that clicks change with them says nothing of noise.
            self._drift.begin_anew()

    # -- state ----------------------------------------------------------------------------
    def state(self) -> State:
        """Return everything that a later event or decision depends on."""
        state: State = {f"learner.{name}": v for name, v in self._learner.state().items()}
        state |= {f"scaling.{name}": v for name, v in self._scaling.state().items()}
        state["labels"] = msgspec.json.encode(self.labels).decode()
        state["rejected"] = self.rejected
        if self._drift is not None:
            state |= {f"drift.{name}": v for name, v in self._drift.state().items()}
            state["drift_seq"] = self.drift_seq
        return state | self._challengers_state()

    def _challengers_state(self) -> State:
        """Return what a model that never had challengers or rates events does not have."""
        state: State = {}
        if self.rates is not None:
            state["rates"] = msgspec.json.encode(self.rates).decode()
        if self.deciding_since:
            state["deciding_since"] = self.deciding_since
        if self.learners != self.spec.learners:
            state["learners"] = learners_text(self.learners)
        for i, challenger in enumerate(self._challengers):
            state |= {f"challenger{i}.{name}": v for name, v in challenger.state().items()}
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
            deciding, *others = parse_learners(str(state.get("learners", ""))) or self.spec.learners
            parts = [_part(state, f"challenger{i}.") for i in range(len(others))]
            learners = [_part(part, "learner.") for part in (state, *parts)]
            self._check_restorable(state, learners, labels)
            learner = LEARNERS[deciding.learner.kind].from_state(learners[0])
            challengers = [
                Challenger.restored(each, own, _part(part, "record."))
                for each, own, part in zip(others, learners[1:], parts, strict=True)
            ]
            rates = state.get("rates")
            self.rates = None if rates is None else msgspec.json.decode(str(rates), type=Rates)
            self.deciding_since = int(state.get("deciding_since", 0))
            self._scaling.restore(_part(state, "scaling."))
            if self._drift is not None:
                self._drift = ClickDrift.from_state(_part(state, "drift."))
                self.drift_seq = int(state["drift_seq"])
        except (KeyError, ValueError, TypeError, RecursionError, LearnersError) as error:
            raise CodecError(f"not a state of this model: {error}") from error
        self._learner, self.labels, self.rejected = learner, labels, rejected
        self.deciding, self._challengers = deciding, challengers
        self.codes = {name: code for code, name in enumerate(labels)}
        self.seq, self.chain = seq, chain

    def _check_restorable(self, state: State, learners: Sequence[State], labels: list[str]) -> None:
        """Raise ValueError for what would be costly to find out, or would not be found at all."""
        if len(set(labels)) != len(labels) or not 0 < len(labels) <= MAX_LABELS:
            raise ValueError("its labels are none, too many, or not distinct")
        rejected = state["rejected"]
        if type(rejected) is not int or rejected < 0:
            raise ValueError("its count of refused events is none")
        for each in learners:
            if each["n_features"] != self.encoder.size or np.size(each["active"]) != len(labels):
                raise ValueError("it is of a model of another size")
        for name, value in state.items():
            if isinstance(value, np.ndarray) and np.isnan(value).any():
                raise ValueError(f"there is a NaN in {name}")


def _check_next(entry: Entry, seq: int, chain: str) -> None:
    """Raise LogBroken unless the entry continues a log that is this far."""
    if entry.seq != seq + 1:
        raise LogBroken(f"event {entry.seq} follows event {seq}")
    if chain_after(chain, entry.body) != entry.chain:
        raise LogBroken(f"the chain breaks at event {entry.seq}")


def _part(state: Mapping[str, StateValue], prefix: str) -> State:
    return {
        name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)
    }
