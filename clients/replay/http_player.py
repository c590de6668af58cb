"""A player that is a model of a service, over HTTP."""

from __future__ import annotations

from collections.abc import Sequence

from clients.client import Client
from clients.errors import InputError
from clients.replay.run import Click, Played, Request
from clients.types import Decision, Feedback, Instance, Receipt


class HttpPlayer:
    """Plays through a model of a service; a batch of one uses the single calls.

    Every predict asks for at least what this player's own feedback has taught the model, so
    the decisions are those of one learner that learns in order, however many workers answer.

    Parameters
    ----------
    client
        A client of the service.
    model
        Name of a model with dense features and the data set's labels.

    Examples
    --------
    ::

        with Client("http://127.0.0.1:8000") as client:
            replay = Replay(stream, {"ads": HttpPlayer(client, "ads")}, batch=50)
            for done in replay.run():
                print(done, replay.tracks["ads"].error())
    """

    def __init__(self, client: Client, model: str) -> None:
        self._client = client
        self._model = model
        self._seq: int | None = None

    def predict(self, items: Sequence[Request]) -> list[Played]:
        """Decide on every item, in order, with what has been learned so far."""
        if len(items) == 1:
            item = items[0]
            decision = self._client.predict(
                self._model, item.x, request_id=item.request_id, min_seq=self._seq
            )
            return [_played(decision)]
        instances = [
            Instance(x=item.x, request_id=item.request_id, min_seq=self._seq) for item in items
        ]
        return list(map(_played, self._client.predict_batch(self._model, instances)))

    def feedback(self, items: Sequence[Click]) -> None:
        """Report the clicks, in order."""
        if len(items) == 1:
            self._note(self._client.feedback(self._model, *items[0]))
            return
        clicks = [Feedback(item.decision_id, item.feedback) for item in items]
        for receipt in self._client.feedback_batch(self._model, clicks):
            self._note(receipt)

    def _note(self, receipt: Receipt) -> None:
        if receipt.seq is not None:
            self._seq = max(receipt.seq, self._seq or 0)


def _played(decision: Decision) -> Played:
    if decision.decision_id is None:
        raise InputError("model: expected one whose learner takes feedback, got one for labels")
    return Played(decision.decision_id, decision.label, decision.greedy, decision.propensity)
