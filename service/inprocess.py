"""A model without HTTP and Redis: as fast as the learner goes, with the same decisions.

A replay through this player and one over HTTP with one worker draw the same labels and end
with the same weights, because both run `Fold` and both draw by the request id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clients.replay.run import Click, Played, Request
from learners import State
from service.events import Decision, Event, Kind
from service.fold import Fold
from service.ids import nonce_of_request
from service.spec import ModelSpec


class InProcessPlayer:
    """Plays a replay on a fold in this process.

    Parameters
    ----------
    spec
        A model's spec as plain values, as `POST /v1/models` takes it.

    Raises
    ------
    pydantic.ValidationError, service.errors.Invalid
        When the spec is wrong.
    """

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._fold = Fold(ModelSpec.model_validate(spec), "inprocess")
        self._pending: dict[str, tuple[bytes, Decision]] = {}

    def predict(self, items: Sequence[Request]) -> list[Played]:
        """Decide on every item."""
        labels = self._fold.labels
        played = []
        for request in items:
            nonce = nonce_of_request(request.request_id)
            decision = self._fold.decide(request.x, nonce, repeatable=False)
            if request.answered:
                self._pending[request.request_id] = (nonce, decision)
            played.append(
                Played(
                    request.request_id,
                    labels[decision.label],
                    labels[decision.greedy],
                    decision.propensity,
                )
            )
        return played

    def feedback(self, items: Sequence[Click]) -> None:
        """Learn from the first click of each decision."""
        for click in items:
            waiting = self._pending.pop(click.decision_id, None)
            if waiting is not None:
                nonce, decision = waiting
                self._fold.apply(Event(Kind.FEEDBACK, 0, nonce, click.feedback, decision))

    def state(self) -> State:
        """Return the model's state, as its state download names it."""
        return self._fold.state()
