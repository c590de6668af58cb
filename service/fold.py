"""A model as the fold of its log: the one door through which its state changes.

No clock, no IO, no randomness: the same events give the same bytes on every worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from learners import (
    LEARNERS,
    Distribution,
    Learner,
    LearnersError,
    Outcome,
    create,
    draw,
)
from learners.base import FloatArray, State, StateValue
from learners.noise import ClickDrift
from service.codec import CodecError, decode_state, encode_state
from service.complaints import of_learner
from service.errors import Invalid, LogBroken
from service.events import (
    Decision,
    Entry,
    Event,
    Example,
    Kind,
    LabelChange,
    Rates,
    chain_after,
    first_chain,
    unpack_body,
)
from service.features import Row, Rows, make_encoder
from service.ids import NO_FINGERPRINT, fingerprint_of, uniform_of
from service.scaling import make_scaling
from service.spec import MAX_LABELS, MAX_WEIGHTS, MAX_WINDOW_VALUES, ModelSpec

#: Standard deviation of a rate of which only [0, 1] is known.
UNKNOWN_ERROR = 12.0**-0.5


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
        self._learner = _create_learner(spec, self.encoder.size)
        self._no_click_on_expiry = spec.on_expiry == "no_click"
        self._drift = ClickDrift() if spec.estimate_on_drift else None
        #: The last event at which clicks were seen to have changed; 0 for never.
        self.drift_seq = 0

    @property
    def learner(self) -> Learner:
        """The learner, for reading."""
        return self._learner

    # -- deciding -------------------------------------------------------------------------
    def decide(
        self, x: Row, nonce: bytes, allowed: Sequence[int] | None = None, *, repeatable: bool
    ) -> Decision:
        """Choose a label for one instance; changes nothing.

        `repeatable` says that the client may ask the same again under the same nonce, so the
        decision carries a fingerprint of the question.
        """
        distribution = self._learner.distribution(self.scaled(x), allowed)
        return self._draw(distribution, x, nonce, allowed, repeatable)

    def scaled(self, x: Row) -> FloatArray:
        """Return an instance as the learner is asked about it."""
        return self._scaling.apply(x.astype(np.float64))

    def decide_many(
        self, xs: Rows, nonces: Sequence[bytes], repeatable: Sequence[bool]
    ) -> list[Decision]:
        """Choose a label for each row, out of all labels; bit for bit what `decide` does."""
        distributions = self._learner.distributions(self._scaling.apply(xs.astype(np.float64)))
        return [
            self._draw(distribution, x, nonce, None, again)
            for distribution, x, nonce, again in zip(
                distributions, xs, nonces, repeatable, strict=True
            )
        ]

    def _draw(
        self,
        distribution: Distribution,
        x: Row,
        nonce: bytes,
        allowed: Sequence[int] | None,
        repeatable: bool,
    ) -> Decision:
        label = draw(distribution, uniform_of(self.spec.seed, nonce))
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
        if entry.seq != self.seq + 1:
            raise LogBroken(f"event {entry.seq} follows event {self.seq}")
        if chain_after(self.chain, entry.body) != entry.chain:
            raise LogBroken(f"the chain breaks at event {entry.seq}")
        self.apply(unpack_body(entry.body))
        self.chain = entry.chain

    def apply(self, event: Event) -> None:
        """Change the state by one event; a learner's refusal is counted, the same everywhere."""
        try:
            self._apply(event)
        except LearnersError:
            self.rejected += 1
        self.seq += 1

    def _apply(self, event: Event) -> None:
        payload = event.payload
        if isinstance(payload, Decision):
            if event.feedback is not None:
                self._update(payload, event.feedback)
            elif event.kind is Kind.EXPIRE and self._no_click_on_expiry:
                self._update(payload, 0)
        elif isinstance(payload, Example):
            x = payload.x.astype(np.float64)
            self._scaling.observe(x)
            self._learner.learn(self._scaling.apply(x), payload.label)
        elif isinstance(payload, LabelChange):
            self._change_labels(payload)
        else:
            self._set_rates(payload)

    def _update(self, decision: Decision, feedback: int) -> None:
        x = decision.x.astype(np.float64)
        self._scaling.observe(x)
        self._learner.update(
            Outcome(
                self._scaling.apply(x),
                decision.label,
                decision.greedy,
                decision.propensity,
                feedback,
            )
        )
        # What exploration shows is no matter of how good the learner is, or how clicks lie.
        greedy = decision.label == decision.greedy
        if self._drift is not None and greedy and self._drift.observe(feedback):
            self.drift_seq = self.seq + 1

    def _set_rates(self, rates: Rates) -> None:
        if self._drift is not None:
            self._drift.begin_anew()
        each = rates.by_label
        if each is None or not self._learner.takes_label_rates:
            self._learner.set_rates(rates.rho_0, rates.rho_1)
            return
        # Labels that came while the estimate was made get the common rates, hardly known.
        come = self._learner.n_labels - len(each.rho_0)
        self._learner.set_label_rates(
            np.array(each.rho_0 + [rates.rho_0] * come),
            np.array(each.rho_1 + [rates.rho_1] * come),
            np.array(each.rho_0_error + [UNKNOWN_ERROR] * come),
            np.array(each.rho_1_error + [UNKNOWN_ERROR] * come),
        )

    def _change_labels(self, change: LabelChange) -> None:
        for name in change.add:
            if name in self.codes:
                self._learner.restore_label(self.codes[name])
            else:
                self.codes[name] = self._learner.add_label()
                self.labels.append(name)
        for name in change.retire:
            if name in self.codes:
                self._learner.retire_label(self.codes[name])

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
            learner_state = _part(state, "learner.")
            self._check_restorable(state, learner_state, labels)
            learner = LEARNERS[self.spec.learner.kind].from_state(learner_state)
            self._scaling.restore(_part(state, "scaling."))
            if self._drift is not None:
                self._drift = ClickDrift.from_state(_part(state, "drift."))
                self.drift_seq = int(state["drift_seq"])
        except (KeyError, ValueError, TypeError, RecursionError, LearnersError) as error:
            raise CodecError(f"not a state of this model: {error}") from error
        self._learner, self.labels, self.rejected = learner, labels, rejected
        self.codes = {name: code for code, name in enumerate(labels)}
        self.seq, self.chain = seq, chain

    def _check_restorable(self, state: State, learner_state: State, labels: list[str]) -> None:
        """Raise ValueError for what would be costly to find out, or would not be found at all."""
        if len(set(labels)) != len(labels) or not 0 < len(labels) <= MAX_LABELS:
            raise ValueError("its labels are none, too many, or not distinct")
        rejected, active = state["rejected"], learner_state["active"]
        if type(rejected) is not int or rejected < 0:
            raise ValueError("its count of refused events is none")
        if learner_state["n_features"] != self.encoder.size or np.size(active) != len(labels):
            raise ValueError("it is of a model of another size")
        for name, value in state.items():
            if isinstance(value, np.ndarray) and np.isnan(value).any():
                raise ValueError(f"there is a NaN in {name}")


def _part(state: Mapping[str, StateValue], prefix: str) -> State:
    return {
        name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)
    }


def _create_learner(spec: ModelSpec, n_features: int) -> Learner:
    check_size(n_features, len(spec.labels))
    try:
        learner = create(spec.learner.kind, n_features, len(spec.labels), **spec.learner.options)
    except LearnersError as error:
        raise of_learner("learner", error) from error
    check_window(n_features, getattr(learner, "window", 0))
    return learner


def check_size(n_features: int, n_labels: int) -> None:
    """Raise Invalid if a model of this size would be too large."""
    if n_features * n_labels > MAX_WEIGHTS:
        raise Invalid.of(
            "labels",
            f"labels times features at most {MAX_WEIGHTS}",
            f"{n_labels} x {n_features}",
        )


def check_window(n_features: int, window: object) -> None:
    """Raise Invalid if a window of so many rows would be too large; other options pass."""
    if isinstance(window, int) and window * n_features > MAX_WINDOW_VALUES:
        raise Invalid.of(
            "learner.window",
            f"window times features at most {MAX_WINDOW_VALUES}",
            f"{window} x {n_features}",
        )


__all__ = ["Fold", "Rates", "check_size", "check_window"]
