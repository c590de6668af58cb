"""The client for code without asyncio.

It is a thin shell: what a call sends and what its answer means is in `clients._wire`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Self, TypeVar

import httpx

from clients import _wire
from clients._base import TIMEOUT_S, id_of, ids_of, is_export, listed, may_have_worked, proxies
from clients._call import Call
from clients._model_calls import ModelCalls
from clients.errors import ApiError, TransportError
from clients.neighbor_types import Hubs, Neighbors, WindowNoise
from clients.retries import RETRIES, Retries
from clients.types import (
    Decision,
    Example,
    Features,
    Feedback,
    Instance,
    Model,
    Readiness,
    Receipt,
    Round,
    State,
)

T = TypeVar("T")


class Client(ModelCalls):
    """Everything that the service can do, for code without asyncio.

    Threads may share it, and processes that are forked.

    A call (except an import, an export or a relearn) is tried again after a broken connection, a
    timeout, 429 and 503. That applies nothing twice: predict, learn and tell_round carry a request
    id (made up where none is given), and a decision takes one feedback.

    Parameters
    ----------
    base_url
        Where the service is, without `/v1`, such as `http://127.0.0.1:8000`.
    api_key
        Sent as `Authorization: Bearer`; not needed by a service without keys.
    timeout_s
        Seconds for each of: connecting, sending, waiting for the answer. Above 0, finite.
    retries
        How often and after how long to try again; by default for 1.5 s at most where
        connections are refused. `Retries(tries=14)` outlasts a restart of the service.
    transport
        How httpx sends requests; for tests, proxies and in-process applications. Processes that are
        forked share it.

    Raises
    ------
    InputError
        `base_url` is no HTTP address, `api_key` not one word, or another argument is wrong. Every
        call may raise an `ApiError` (the service refused), a `TransportError` (no answer on the
        last try) and a `ProtocolError`.

    Examples
    --------
    ::

        with Client("http://127.0.0.1:8000") as client:
            decision = client.predict("ads", [0.1, 0.7], request_id="visit-17")
            show(decision.label)
            client.feedback("ads", decision.decision_id, 1)
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        retries: Retries = RETRIES,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        super().__init__(base_url, api_key, timeout_s, retries)
        self._transport = transport
        self._connections = self._connect()
        self._pid = os.getpid()

    def _connect(self) -> httpx.Client:
        transport = self._transport
        if transport is None and self._direct:
            transport = httpx.HTTPTransport()
        with proxies():
            return httpx.Client(
                base_url=self._base_url,
                headers=self._headers,
                timeout=self._timeout_s,
                transport=transport,
            )

    @property
    def _http(self) -> httpx.Client:
        """The connections of this process: on its parent's, answers would get mixed up."""
        if self._pid != os.getpid():
            self._connections = self._connect()
            self._pid = os.getpid()
        return self._connections

    def close(self) -> None:
        """Close the connections; whatever is called afterwards raises a RuntimeError."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def predict(
        self,
        model: str,
        x: Features,
        *,
        request_id: str | None = None,
        allowed: Sequence[str] | None = None,
        min_seq: int | None = None,
    ) -> Decision:
        """Decide on one instance.

        Parameters
        ----------
        model
            Its name.
        x, request_id, allowed, min_seq
            As in `Instance`.

        Raises
        ------
        InputError
            A feature is NaN or infinite.
        InvalidError
            The features are not those of the model; `details` says which.
        ConflictError
            The same request id came with another instance, or the log is not as far as `min_seq`.
        """
        instance = Instance(x=x, allowed=allowed, min_seq=min_seq)
        return self._send(_wire.predict(model, instance, id_of(request_id)))

    def predict_batch(self, model: str, instances: Iterable[Instance]) -> list[Decision]:
        """Decide on many instances, in order, in calls of at most 1,000 each.

        Each call has `timeout_s`. For a slow learner (`anhbnn` with large k: .1 s a decision) it
        has to be longer than the default, or the batches smaller.
        """
        instances = listed(Instance, instances)
        return self._send_all(_wire.predict_batch(model, instances, ids_of(instances)))

    def feedback(self, model: str, decision_id: str | None, feedback: int) -> Receipt:
        """Report the click (1) or no click (0) that followed a decision.

        Raises
        ------
        ConflictError
            Another feedback was reported for this decision before.
        NotFoundError
            There is no such decision.
        InputError
            The id is None: the model's learner takes no feedback, see `Decision`.
        """
        return self._send(_wire.feedback(model, Feedback(decision_id, feedback)))

    def feedback_batch(self, model: str, items: Iterable[Feedback]) -> list[Receipt]:
        """Report many clicks, in order; a receipt reports a conflict or an unknown id."""
        items = listed(Feedback, items)
        return self._send_all(_wire.feedback_batch(model, items))

    def learn(
        self, model: str, x: Features, label: str, *, request_id: str | None = None
    ) -> Receipt:
        """Let a learner that takes labels learn from one example.

        Raises
        ------
        InvalidError
            The model's learner takes no labels, or a part is wrong; `details` says which.
        ConflictError
            Another example was learned under this request id.
        """
        return self._send(_wire.learn(model, Example(x=x, label=label), id_of(request_id)))

    def learn_batch(self, model: str, examples: Iterable[Example]) -> list[Receipt]:
        """Let a learner that takes labels learn from many examples, in order."""
        examples = listed(Example, examples)
        return self._send_all(_wire.learn_batch(model, examples, ids_of(examples)))

    def tell_round(
        self,
        model: str,
        x: Features,
        label: str,
        *,
        propensity: float,
        feedback: int,
        request_id: str | None = None,
    ) -> Receipt:
        """Let a model learn from a round that somebody else decided.

        The model's evaluation then says what that decider is worth, and its learners in his place.

        Parameters
        ----------
        model
            Its name.
        x, label, propensity, feedback, request_id
            As in `Round`.

        Raises
        ------
        ConflictError
            Another round was told under this request id.
        InvalidError
            The model's learner takes no feedback, or a part is wrong; `details` says which.

        Examples
        --------
        ::

            label, propensity = my_policy(visit)
            clicked = show(label)
            client.tell_round("ads", visit.features, label, propensity=propensity,
                              feedback=int(clicked), request_id=visit.id)
        """
        told = Round(x=x, label=label, propensity=propensity, feedback=feedback)
        return self._send(_wire.tell_round(model, told, id_of(request_id)))

    def tell_rounds(self, model: str, rounds: Iterable[Round]) -> list[Receipt]:
        """Let a model learn from many rounds that somebody else decided, in order.

        A thousand go in one call. If one is refused, those of earlier calls are learned; with a
        `request_id` each, all can be told again, and none is learned twice.
        """
        rounds = listed(Round, rounds)
        return self._send_all(_wire.tell_rounds(model, rounds, ids_of(rounds)))

    def neighbors(self, model: str, x: Features) -> Neighbors:
        """Return who votes on an instance, nearest first, and which of them look mislabelled.

        Raises
        ------
        InvalidError
            The model's learner does not decide by neighbours' labels.
        """
        return self._send(_wire.neighbors(model, x))

    def hubs(self, model: str) -> Hubs:
        """Return how unevenly a model's neighbours are shared out, and the hub alarm.

        Raises
        ------
        InvalidError
            The model's learner keeps no graph of neighbours.
        """
        return self._send(_wire.hubs(model))

    def window_noise(self, model: str) -> WindowNoise:
        """Return what a window of neighbours tells of the noise in its labels.

        Raises
        ------
        InvalidError
            The model's learner uses no noise rates.
        ProtocolError
            Its learner does not read them off neighbours: see `noise`.
        """
        return self._send(_wire.window_noise(model))

    def export_log(self, model: str) -> Iterator[bytes]:
        """Yield the exported model as pieces of NDJSON, without holding it all.

        It is not tried again: a connection that breaks raises TransportError.

        Examples
        --------
        ::

            with Path("ads.ndjson").open("wb") as file:
                file.writelines(client.export_log("ads"))
        """
        call = _wire.export_log(model)
        try:
            with self._http.stream(call.method, call.path) as response:
                if not is_export(response):
                    response.read()
                    self._read(call, response, 1)
                yield from response.iter_bytes()
        except (httpx.RequestError, TransportError) as error:
            raise self._broken(call, error) from error

    def import_log(self, model: str, log: bytes | Iterable[bytes]) -> Model:
        """Create `model` from what `export_log` yielded.

        Pieces (an open file, say) are sent without holding them all. It is not tried again: a
        second import would find the model of the first. The service learns everything once more;
        its answer is waited for up to an hour.

        Raises
        ------
        ConflictError
            There is another model of this name, or one is being imported or relearned under it.
        InvalidError
            It is no export, or a damaged one; or no model can have this name.
        """
        return self._send(_wire.import_log(model, log))

    def state(self, model: str) -> State:
        """Download the model's newest state: arrays and scalars by name."""
        return self._send(_wire.state(model))

    def ready(self) -> Readiness:
        """Return whether the service can work, and which check fails if not."""
        return self._send(_wire.ready())

    def live(self) -> None:
        """Return if the service's process answers; else raise."""
        self._send(_wire.live())

    def metrics(self) -> str:
        """Return the metrics in Prometheus' text format."""
        return self._send(_wire.metrics())

    def _send(self, call: Call[T]) -> T:
        tried, unsure = 0, False
        while True:
            tried += 1
            try:
                response = self._http.request(
                    call.method,
                    call.path,
                    content=call.body,
                    headers=call.headers(),
                    timeout=self._timeout(call),
                )
                return self._read(call, response, tried)
            except (httpx.RequestError, TransportError, ApiError) as error:
                time.sleep(self._wait_s(call, error, tried, unsure=unsure))
                unsure = unsure or may_have_worked(error)
            except KeyboardInterrupt:
                # It can come while the connections' lock is held, or just after a call: whoever
                # goes on, in a notebook, say, would wait for ever, or get errors that are not ours.
                # Other threads may be using the old connections: these are closed when nobody does.
                self._connections = self._connect()
                raise

    def _send_all(self, calls: list[Call[list[T]]]) -> list[T]:
        return [item for call in calls for item in self._send(call)]
