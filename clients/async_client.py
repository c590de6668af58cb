"""The client for asyncio: the same calls, over the same core."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from clients import _wire
from clients._base import (
    TIMEOUT_S,
    Base,
    id_of,
    ids_of,
    is_export,
    listed,
    may_have_worked,
    proxies,
)
from clients._call import Call
from clients.errors import ApiError, TransportError
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
    LabelFeatures,
    Model,
    ModelSpec,
    Readiness,
    Receipt,
    Relearned,
    Round,
    State,
    Times,
)

T = TypeVar("T")
#: Calls under way at once: httpx has as many connections. The others wait for their turn here,
#: because in httpx's queue each costs all others time: of 1,000 calls 787 timed out, after 90 s.
AT_ONCE = 100


class AsyncClient(Base):
    """The same calls for asyncio; see `Client` for what they do and raise.

    It belongs to one event loop: the one of its first call. At most 100 calls are under way at
    once, and the others wait for them.

    Parameters
    ----------
    base_url, api_key, timeout_s, retries
        As for `Client`.
    transport
        How httpx sends requests: `httpx.ASGITransport(app)` talks to an application in
        this process.

    Examples
    --------
    ::

        async with AsyncClient("http://127.0.0.1:8000") as client:
            decision = await client.predict("ads", [0.1, 0.7])
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        retries: Retries = RETRIES,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(base_url, api_key, timeout_s, retries)
        if transport is None and self._direct:
            transport = httpx.AsyncHTTPTransport()
        with proxies():
            self._http = httpx.AsyncClient(
                base_url=base_url, headers=self._headers, timeout=timeout_s, transport=transport
            )
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def close(self) -> None:
        """Close the connections; whatever is called afterwards raises a RuntimeError."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def create_model(self, spec: ModelSpec) -> Model:
        """Create a model, or find it there with the same spec."""
        return await self._send(_wire.create_model(spec))

    async def list_models(self) -> list[Model]:
        """Return all models."""
        return await self._send(_wire.list_models())

    async def get_model(self, model: str) -> Model:
        """Return one model."""
        return await self._send(_wire.get_model(model))

    async def delete_model(self, model: str) -> None:
        """Delete a model with its log and state, for good."""
        await self._send(_wire.delete_model(model))

    async def change_labels(
        self,
        model: str,
        *,
        add: Sequence[str] = (),
        retire: Sequence[str] = (),
        features: Mapping[str, LabelFeatures] | None = None,
    ) -> Model:
        """Add labels (or restore retired ones) and retire others; what was learned stays."""
        return await self._send(_wire.change_labels(model, add, retire, features))

    async def set_rates(
        self,
        model: str,
        *,
        rho_0: float,
        rho_1: float,
        by_label: Mapping[str, NoiseRates] | None = None,
    ) -> int:
        """Let the model assume other noise rates from now on; return the event's number."""
        return await self._send(_wire.set_rates(model, rho_0, rho_1, by_label))

    async def add_challenger(self, model: str, name: str, learner: dict[str, Any]) -> Model:
        """Let one more learner learn from the model's log without deciding."""
        return await self._send(_wire.add_challenger(model, Challenger(name, learner)))

    async def drop_challenger(self, model: str, name: str) -> None:
        """Forget a challenger with what it has learned."""
        await self._send(_wire.drop_challenger(model, name))

    async def promote(self, model: str, name: str) -> Model:
        """Let a challenger decide from now on; the one that decided becomes a challenger."""
        return await self._send(_wire.promote(model, name))

    async def relearn(
        self,
        model: str,
        name: str,
        *,
        without: Sequence[Times] = (),
        without_retired: bool = False,
        learner: dict[str, Any] | None = None,
    ) -> Relearned:
        """Make another model from a model's log, and leave that one as it is."""
        return await self._send(
            _wire.relearn(model, name, without, learner, without_retired=without_retired)
        )

    async def evaluate(self, model: str, *, rounds: int | None = None) -> Evaluation:
        """Return what the model's policies are worth, from the newest rounds of its log."""
        return await self._send(_wire.evaluate(model, rounds))

    async def noise(self, model: str) -> Noise:
        """Return what is known of the noise in a model's clicks: rates in force, and estimates."""
        return await self._send(_wire.noise(model))

    async def estimate_noise(self, model: str) -> int:
        """Ask for an estimate of the noise rates from the newest feedback; return its number."""
        return await self._send(_wire.estimate_noise(model))

    async def cancel_estimate(self, model: str) -> None:
        """End the estimate that is asked for or being made, if any; the rates in force stay."""
        await self._send(_wire.cancel_estimate(model))

    async def predict(
        self,
        model: str,
        x: Features,
        *,
        request_id: str | None = None,
        allowed: Sequence[str] | None = None,
        min_seq: int | None = None,
    ) -> Decision:
        """Decide on one instance."""
        instance = Instance(x=x, allowed=allowed, min_seq=min_seq)
        return await self._send(_wire.predict(model, instance, id_of(request_id)))

    async def predict_batch(self, model: str, instances: Iterable[Instance]) -> list[Decision]:
        """Decide on many instances, in order, in calls of at most 1,000 each."""
        instances = listed(Instance, instances)
        return await self._send_all(_wire.predict_batch(model, instances, ids_of(instances)))

    async def feedback(self, model: str, decision_id: str | None, feedback: int) -> Receipt:
        """Report the click (1) or no click (0) that followed a decision."""
        return await self._send(_wire.feedback(model, Feedback(decision_id, feedback)))

    async def feedback_batch(self, model: str, items: Iterable[Feedback]) -> list[Receipt]:
        """Report many clicks, in order; a receipt reports a conflict or an unknown id."""
        items = listed(Feedback, items)
        return await self._send_all(_wire.feedback_batch(model, items))

    async def learn(
        self, model: str, x: Features, label: str, *, request_id: str | None = None
    ) -> Receipt:
        """Let a learner that takes labels learn from one example."""
        return await self._send(_wire.learn(model, Example(x=x, label=label), id_of(request_id)))

    async def learn_batch(self, model: str, examples: Iterable[Example]) -> list[Receipt]:
        """Let a learner that takes labels learn from many examples, in order."""
        examples = listed(Example, examples)
        return await self._send_all(_wire.learn_batch(model, examples, ids_of(examples)))

    async def tell_round(
        self,
        model: str,
        x: Features,
        label: str,
        *,
        propensity: float,
        feedback: int,
        request_id: str | None = None,
    ) -> Receipt:
        """Let a model learn from a round that somebody else decided."""
        told = Round(x=x, label=label, propensity=propensity, feedback=feedback)
        return await self._send(_wire.tell_round(model, told, id_of(request_id)))

    async def tell_rounds(self, model: str, rounds: Iterable[Round]) -> list[Receipt]:
        """Let a model learn from many rounds that somebody else decided, in order."""
        rounds = listed(Round, rounds)
        return await self._send_all(_wire.tell_rounds(model, rounds, ids_of(rounds)))

    async def neighbors(self, model: str, x: Features) -> Neighbors:
        """Return who votes on an instance, nearest first, and which of them look mislabelled."""
        return await self._send(_wire.neighbors(model, x))

    async def hubs(self, model: str) -> Hubs:
        """Return how unevenly a model's neighbours are shared out, and the hub alarm."""
        return await self._send(_wire.hubs(model))

    async def window_noise(self, model: str) -> WindowNoise:
        """Return what a window of neighbours tells of the noise in its labels."""
        return await self._send(_wire.window_noise(model))

    async def export_log(self, model: str) -> AsyncIterator[bytes]:
        """Yield the exported model as pieces of NDJSON, without holding it all."""
        call = _wire.export_log(model)
        try:
            async with self._http.stream(call.method, call.path) as response:
                if not is_export(response):
                    await response.aread()
                    self._read(call, response, 1)
                async for piece in response.aiter_bytes():
                    yield piece
        except (httpx.RequestError, TransportError) as error:
            raise self._broken(call, error) from error

    async def import_log(
        self, model: str, log: bytes | Iterable[bytes] | AsyncIterable[bytes]
    ) -> Model:
        """Create `model` from what `export_log` of either client yielded."""
        return await self._send(_wire.import_log(model, log))

    async def state(self, model: str) -> State:
        """Download the model's newest state: arrays and scalars by name."""
        return await self._send(_wire.state(model))

    async def ready(self) -> Readiness:
        """Return whether the service can work, and which check fails if not."""
        return await self._send(_wire.ready())

    async def live(self) -> None:
        """Return if the service's process answers; else raise."""
        await self._send(_wire.live())

    async def metrics(self) -> str:
        """Return the metrics in Prometheus' text format."""
        return await self._send(_wire.metrics())

    async def _send(self, call: Call[T]) -> T:
        tried, unsure = 0, False
        while True:
            tried += 1
            try:
                content = call.body if isinstance(call.body, bytes) else _pieces(call.body)
                async with self._turns:
                    response = await self._http.request(
                        call.method,
                        call.path,
                        content=content,
                        headers=call.headers(),
                        timeout=self._timeout(call),
                    )
                return self._read(call, response, tried)
            except (httpx.RequestError, TransportError, ApiError) as error:
                await asyncio.sleep(self._wait_s(call, error, tried, unsure=unsure))
                unsure = unsure or may_have_worked(error)

    async def _send_all(self, calls: list[Call[list[T]]]) -> list[T]:
        return [item for call in calls for item in await self._send(call)]


async def _pieces(body: Iterable[bytes] | AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Let httpx, which asks for it, read an iterable asynchronously."""
    if isinstance(body, AsyncIterable):
        async for piece in body:
            yield piece
    else:
        for piece in body:
            yield piece
