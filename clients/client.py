"""The client for code without asyncio.

It is a thin shell: what a call sends and what its answer means is in `clients._wire`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from clients import _wire
from clients._base import TIMEOUT_S, Base, broken, id_of, ids_of, read
from clients._call import Call
from clients.errors import ApiError
from clients.evaluation_types import Evaluation
from clients.neighbor_types import Hubs, Neighbors, WindowNoise
from clients.noise_types import Noise, NoiseRates
from clients.retries import RETRIES, Retries
from clients.types import (
    Challenger,
    Decision,
    Example,
    Features,
    Feedback,
    Instance,
    Model,
    ModelSpec,
    Readiness,
    Receipt,
    State,
)

T = TypeVar("T")


class Client(Base):
    """Everything that the service can do, for code without asyncio. Safe to share by threads.

    A call (but an import or export) is tried again after a broken connection, a timeout, 429
    and 503. That applies nothing twice: predict and learn carry a request id (made up where
    none is given), and a decision takes one feedback.

    Parameters
    ----------
    base_url
        Where the service is, without `/v1`, such as `http://127.0.0.1:8000`.
    api_key
        Sent as `Authorization: Bearer`; not needed by a service without keys.
    timeout_s
        Seconds for each of: connecting, sending, waiting for the answer. Above 0.
    retries
        How often and after how long to try again.
    transport
        How httpx sends requests; for tests, proxies and in-process applications.

    Raises
    ------
    InputError
        `base_url` is not an HTTP address. Every call may raise an `ApiError` (the service
        refused), a `TransportError` (no answer on the last try) and a `ProtocolError`.

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
        super().__init__(base_url, api_key, retries)
        self._http = httpx.Client(
            base_url=base_url, headers=self._headers, timeout=timeout_s, transport=transport
        )

    def close(self) -> None:
        """Close the connections."""
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

    def create_model(self, spec: ModelSpec) -> Model:
        """Create a model, or find it there with the same spec.

        Raises
        ------
        ConflictError
            A model of this name has another spec.
        InvalidError
            The spec is wrong; `details` says where.
        """
        return self._send(_wire.create_model(spec))

    def list_models(self) -> list[Model]:
        """Return all models."""
        return self._send(_wire.list_models())

    def get_model(self, model: str) -> Model:
        """Return one model.

        Raises
        ------
        NotFoundError
            There is no such model; so in every call that names one.
        """
        return self._send(_wire.get_model(model))

    def delete_model(self, model: str) -> None:
        """Delete a model with its log and state, for good."""
        self._send(_wire.delete_model(model))

    def change_labels(
        self,
        model: str,
        *,
        add: Sequence[str] = (),
        retire: Sequence[str] = (),
        features: Mapping[str, Sequence[float]] | None = None,
    ) -> Model:
        """Add labels (or restore retired ones) and retire others; what was learned stays.

        Parameters
        ----------
        model
            Its name.
        add, retire
            Names of labels.
        features
            What labels in `add` are like, new or not, where the learner has `n_label_features`:
            so many numbers each. A new label begins as those with similar features.
        """
        return self._send(_wire.change_labels(model, add, retire, features))

    def set_rates(
        self,
        model: str,
        *,
        rho_0: float,
        rho_1: float,
        by_label: Mapping[str, NoiseRates] | None = None,
    ) -> int:
        """Let the model assume other noise rates from now on; return the event's number.

        Parameters
        ----------
        model
            Its name.
        rho_0
            P(feedback = 1 | the label was wrong), in [0, 1).
        rho_1
            P(feedback = 0 | the label was right), in [0, 1), with rho_0 + rho_1 < 1.
        by_label
            Labels with rates of their own, for a learner that uses each label's; every other
            label has the common ones.
        """
        return self._send(_wire.set_rates(model, rho_0, rho_1, by_label))

    def add_challenger(self, model: str, name: str, learner: dict[str, Any]) -> Model:
        """Let one more learner learn from the model's log without deciding.

        Parameters
        ----------
        model
            Its name.
        name, learner
            As in `Challenger`.

        Raises
        ------
        InvalidError
            The learner takes no feedback, or there are four already.
        ConflictError
            There is another learner with this name.
        """
        return self._send(_wire.add_challenger(model, Challenger(name, learner)))

    def drop_challenger(self, model: str, name: str) -> None:
        """Forget a challenger with what it has learned.

        Raises
        ------
        ConflictError
            It decides: promote another one first.
        """
        self._send(_wire.drop_challenger(model, name))

    def promote(self, model: str, name: str) -> Model:
        """Let a challenger decide from now on; the one that decided becomes a challenger.

        The learner that the model was made with is called `"original"`.

        Raises
        ------
        NotFoundError
            There is no such challenger.
        """
        return self._send(_wire.promote(model, name))

    def evaluate(self, model: str, *, rounds: int | None = None) -> Evaluation:
        """Return what the model's policies are worth, from the newest rounds of its log.

        Parameters
        ----------
        model
            Its name.
        rounds
            How many at most, 2 to 20,000; as many as possible by default.

        Raises
        ------
        InvalidError
            The model's learner takes no feedback.

        Examples
        --------
        ::

            for policy in client.evaluate("ads").policies:
                print(policy.policy, policy.name, policy.best, policy.verdict)
        """
        return self._send(_wire.evaluate(model, rounds))

    def noise(self, model: str) -> Noise:
        """Return what is known of how a model's clicks lie: rates in force, and estimates.

        Raises
        ------
        InvalidError
            The model's learner uses no noise rates.
        ProtocolError
            It reads them off neighbours' labels: see `window_noise`.
        """
        return self._send(_wire.noise(model))

    def estimate_noise(self, model: str) -> int:
        """Ask for an estimate of the noise rates from the newest feedback; return its number.

        It is made in the background and comes into force by itself if it can be trusted. While
        one is asked for or being made, it is that one.

        Raises
        ------
        InvalidError
            The model's learner uses no noise rates.

        Examples
        --------
        ::

            number = client.estimate_noise("ads")
            while (estimate := client.noise("ads").result(number)) is None:
                time.sleep(1)
            print(estimate.verdict, estimate.rho_0, estimate.rho_1)
        """
        return self._send(_wire.estimate_noise(model))

    def cancel_estimate(self, model: str) -> None:
        """End the estimate that is asked for or being made, if any; the rates in force stay.

        It then stands in the history, its verdict "cancelled".

        Raises
        ------
        InvalidError
            The model's learner uses no noise rates.
        """
        self._send(_wire.cancel_estimate(model))

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
        """
        instance = Instance(x=x, allowed=allowed, min_seq=min_seq)
        return self._send(_wire.predict(model, instance, id_of(request_id)))

    def predict_batch(self, model: str, instances: Sequence[Instance]) -> list[Decision]:
        """Decide on many instances, in order, in calls of at most 1,000 each."""
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

    def feedback_batch(self, model: str, items: Sequence[Feedback]) -> list[Receipt]:
        """Report many clicks, in order; a conflict or unknown id is told by its receipt."""
        return self._send_all(_wire.feedback_batch(model, items))

    def learn(
        self, model: str, x: Features, label: str, *, request_id: str | None = None
    ) -> Receipt:
        """Let a learner that takes labels learn from one example."""
        return self._send(_wire.learn(model, Example(x=x, label=label), id_of(request_id)))

    def learn_batch(self, model: str, examples: Sequence[Example]) -> list[Receipt]:
        """Let a learner that takes labels learn from many examples, in order."""
        return self._send_all(_wire.learn_batch(model, examples, ids_of(examples)))

    def neighbors(self, model: str, x: Features) -> Neighbors:
        """Return who votes on an instance, nearest first, and who of them looks mislabelled.

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
            It does not read them off neighbours: see `noise`.
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
                if response.status_code >= 400:
                    response.read()
                    read(call, response, 1)
                yield from response.iter_bytes()
        except httpx.TransportError as error:
            raise broken(call, error) from error

    def import_log(self, model: str, log: bytes | Iterable[bytes]) -> Model:
        """Create `model` from what `export_log` gave.

        Pieces (an open file, say) are sent without holding them all. It is not tried again: a
        second import would find the model of the first.

        Raises
        ------
        ConflictError
            There is another model of this name.
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
        tried = 0
        while True:
            tried += 1
            try:
                response = self._http.request(
                    call.method, call.path, content=call.body, headers=call.headers()
                )
                return read(call, response, tried)
            except (httpx.TransportError, ApiError) as error:
                time.sleep(self._wait_s(call, error, tried))

    def _send_all(self, calls: list[Call[list[T]]]) -> list[T]:
        return [item for call in calls for item in self._send(call)]
