"""The clients against the real service: every call, and what its refusals become."""

import inspect
import io
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest

from clients import (
    AsyncClient,
    Client,
    ConflictError,
    Example,
    Feedback,
    Field,
    ForbiddenError,
    Hashed,
    InputError,
    Instance,
    InvalidError,
    ModelSpec,
    Named,
    NoiseRates,
    NotFoundError,
    ProtocolError,
    Receipt,
    Retries,
    Round,
    TooLargeError,
    TransportError,
    UnauthorizedError,
)
from clients._base import Base
from service.auth import Scope, new_key
from tests.clients.conftest import fresh_spec
from tests.service.apps import running_app
from tests.serving import Service

X = [0.5, -1.0, 2.0]


def test_both_clients_have_the_same_calls() -> None:
    """What one client can do the other can, with the same parameters and defaults."""

    def calls(kind: type[Base]) -> dict[str, list[inspect.Parameter]]:
        return {
            name: [
                # What comes asynchronously can only one of them send.
                each.replace(annotation=each.annotation.removesuffix(" | AsyncIterable[bytes]"))
                for each in inspect.signature(value).parameters.values()
                if each.name != "self"
            ]
            for name, value in inspect.getmembers(kind)
            if not name.startswith("_")
        }

    assert calls(Client) == calls(AsyncClient)
    sync, asynchronous = (
        list(inspect.signature(kind).parameters.values())[:-1] for kind in (Client, AsyncClient)
    )
    assert sync == asynchronous


def test_a_round_trip(client: Client) -> None:
    """A decision, its click, and everything that can be asked about them afterwards."""
    spec = fresh_spec()
    client.create_model(spec)
    decision = client.predict(spec.name, X, request_id="visit", allowed=["a", "b"])
    assert decision.label in ("a", "b")
    assert decision.greedy in ("a", "b")
    assert 0 < decision.propensity <= 1
    assert decision.expires_at_ms is not None
    assert client.predict(spec.name, X, request_id="visit", allowed=["a", "b"]) == decision
    receipt = client.feedback(spec.name, decision.decision_id, 1)
    assert receipt == Receipt(status="applied", seq=1, feedback=1)
    assert client.feedback(spec.name, decision.decision_id, 1).status == "duplicate"
    assert client.predict(spec.name, X, min_seq=1).seq == 1
    assert client.set_rates(spec.name, rho_0=0.2, rho_1=0.3) == 2
    counters = client.get_model(spec.name).counters
    assert (counters.feedback, counters.clicks, counters.duplicates) == (1, 1, 1)


def test_batches_keep_their_order(client: Client) -> None:
    """More items than one call takes come back in order, each with its own receipt."""
    spec = fresh_spec()
    client.create_model(spec)
    instances = [Instance(x=np.array(X), request_id=f"r{number}") for number in range(1003)]
    decisions = client.predict_batch(spec.name, instances)
    assert client.predict_batch(spec.name, instances) == decisions
    assert client.predict(spec.name, X, request_id="r1001") == decisions[1001]
    first, second = decisions[0].decision_id, decisions[1].decision_id
    items = [Feedback(decision.decision_id, 1) for decision in decisions]
    receipts = client.feedback_batch(
        spec.name, [*items, Feedback(first, 1), Feedback(second, 0), Feedback("0" * 40, 1)]
    )
    statuses = [receipt.status for receipt in receipts]
    assert statuses == ["applied"] * 1003 + ["duplicate", "conflict", "unknown"]
    assert [receipt.seq for receipt in receipts[:1003]] == list(range(1, 1004))
    assert client.predict_batch(spec.name, []) == []


def test_batches_may_come_one_by_one(client: Client) -> None:
    """A large log is read as it is sent; of each kind of item."""
    spec = fresh_spec()
    client.create_model(spec)
    decisions = client.predict_batch(spec.name, (Instance(x=X) for _ in range(3)))
    clicks = (Feedback(decision.decision_id, 1) for decision in decisions)
    assert [one.status for one in client.feedback_batch(spec.name, clicks)] == ["applied"] * 3
    rounds = (Round(x=X, label="a", propensity=0.5, feedback=1) for _ in range(3))
    assert [one.seq for one in client.tell_rounds(spec.name, rounds)] == [4, 5, 6]
    other = fresh_spec(learner={"kind": "perceptron"})
    client.create_model(other)
    examples = (Example(x=X, label="c") for _ in range(3))
    assert [one.seq for one in client.learn_batch(other.name, examples)] == [1, 2, 3]


def test_what_is_no_item_is_named(client: Client) -> None:
    """Python's own words would say nothing of the place, nor of what was expected."""
    wrong: Any = [Instance(x=X), X]
    for call, name in (
        (client.predict_batch, "Instance"),
        (client.feedback_batch, "Feedback"),
        (client.learn_batch, "Example"),
        (client.tell_rounds, "Round"),
    ):
        asked: Any = call
        with pytest.raises(InputError, match=rf"^items\[\d\]: expected {name}\(\.\.\.\), got"):
            asked("m", wrong)
        for none in ("text", 7):
            with pytest.raises(InputError, match=f"^items: expected a list of {name}, got"):
                asked("m", none)


def test_learning_from_labels(client: Client) -> None:
    """A learner that takes labels learns from examples, each of them once."""
    spec = fresh_spec(learner={"kind": "perceptron"})
    client.create_model(spec)
    receipt = client.learn(spec.name, X, "c", request_id="one")
    assert (receipt.status, receipt.seq) == ("applied", 1)
    assert client.learn(spec.name, X, "c", request_id="one").status == "duplicate"
    examples = [Example(x=X, label="c"), Example(x=[1, 2, 3], label="a")]
    assert [item.seq for item in client.learn_batch(spec.name, examples)] == [2, 3]
    decision = client.predict(spec.name, X)
    assert (decision.label, decision.decision_id, decision.expires_at_ms) == ("c", None, None)
    with pytest.raises(InputError, match="takes feedback"):
        client.feedback(spec.name, decision.decision_id, 1)
    with pytest.raises(InputError, match="takes feedback"):
        client.feedback_batch(spec.name, [Feedback(decision.decision_id, 1)])
    assert client.get_model(spec.name).counters.learned == 3


def test_a_wrong_item_is_named_by_its_place_among_all(client: Client) -> None:
    """Also where it goes in a later call; told again when it is right, nothing is learned twice."""
    spec = fresh_spec()
    client.create_model(spec)
    rounds = [
        Round(x=X, label="a", propensity=0.5, feedback=1, request_id=f"r{number}")
        for number in range(1200)
    ]
    wrong = msgspec.structs.replace(rounds[1100], label="z")
    with pytest.raises(InvalidError, match=r"^items\[1100\].label: expected") as error:
        client.tell_rounds(spec.name, [*rounds[:1100], wrong, *rounds[1101:]])
    assert error.value.details[0].where == "items[1100].label"
    assert client.get_model(spec.name).counters.told == 1000
    client.tell_rounds(spec.name, rounds)
    assert client.get_model(spec.name).counters.told == 1200


def test_telling_rounds_of_somebody_else(client: Client) -> None:
    """Each is learned once, under the caller's id or one made up; and judged as his."""
    spec = fresh_spec()
    client.create_model(spec)
    told = client.tell_round(
        spec.name, np.array(X), "c", propensity=0.5, feedback=1, request_id="one"
    )
    assert (told.status, told.seq, told.feedback) == ("applied", 1, 1)
    again = client.tell_round(spec.name, X, "c", propensity=0.5, feedback=1, request_id="one")
    assert (again.status, again.seq) == ("duplicate", 1)
    with pytest.raises(ConflictError, match="another round"):
        client.tell_round(spec.name, X, "c", propensity=0.25, feedback=1, request_id="one")
    rounds = [Round(x=X, label="abc"[i % 3], propensity=0.5, feedback=i % 2) for i in range(1003)]
    receipts = client.tell_rounds(spec.name, rounds)
    assert [receipt.seq for receipt in receipts] == list(range(2, 1005))
    assert [receipt.feedback for receipt in receipts] == [each.feedback for each in rounds]
    counters = client.get_model(spec.name).counters
    assert (counters.told, counters.decisions, counters.feedback) == (1004, 0, 0)
    policies = {each.policy: each for each in client.evaluate(spec.name).policies}
    assert policies["elsewhere"].rounds == policies["deciding"].rounds == 1004
    assert policies["deciding"].dr is not None
    with pytest.raises(InvalidError, match="propensity"):
        client.tell_round(spec.name, X, "c", propensity=0.0, feedback=1)
    with pytest.raises(InputError, match="propensity"):
        client.tell_round(spec.name, X, "c", propensity=float("nan"), feedback=1)
    labels = fresh_spec(learner={"kind": "perceptron"})
    client.create_model(labels)
    with pytest.raises(InvalidError, match="takes feedback"):
        client.tell_rounds(labels.name, rounds[:1])


def test_what_neighbours_tell(client: Client) -> None:
    """Who votes, who the hubs are, and what the window tells of its noise."""
    spec = fresh_spec(learner={"kind": "rknn", "k": 2, "k_noise": 2}, labels=("a", "b"))
    client.create_model(spec)
    given = [(0.0, "a"), (1.0, "a"), (2.0, "b"), (9.0, "b"), (10.0, "b"), (12.0, "b"), (15.0, "b")]
    client.learn_batch(spec.name, [Example(x=[x, 0, 0], label=label) for x, label in given])
    near = client.neighbors(spec.name, np.array([1.75, 0, 0]))
    assert (near.seq, near.label) == (7, "a")
    assert [(each.example, each.label, each.distance) for each in near.neighbors] == [
        (2, "b", 0.25),
        (1, "a", 0.75),
    ]
    assert (near.neighbors[0].votes, near.neighbors[0].suspected) == ({"b": 1.0}, True)
    hubs = client.hubs(spec.name)
    assert (hubs.seq, hubs.k, hubs.examples, hubs.n_orphans) == (7, 2, 7, 1)
    assert (hubs.hubs, hubs.n_hubs, hubs.alarm.raised) == ((), 0, False)
    noise = client.window_noise(spec.name)
    assert (noise.examples, noise.k, noise.pairs) == (7, 2, ())
    (estimate,) = noise.estimates
    assert (estimate.k_noise, estimate.labels, estimate.rho_0) == (2, ("a", "b"), 1 / 3)
    with pytest.raises(ProtocolError, match="expected a Noise"):
        client.noise(spec.name)
    linear = fresh_spec()
    client.create_model(linear)
    with pytest.raises(InvalidError, match="labels of neighbours"):
        client.neighbors(linear.name, X)
    with pytest.raises(InvalidError, match="labels of neighbours"):
        client.hubs(linear.name)
    with pytest.raises(ProtocolError, match="expected a WindowNoise"):
        client.window_noise(linear.name)


async def test_what_neighbours_tell_the_asynchronous_client(
    client: Client, service: Service
) -> None:
    """The same answers."""
    spec = fresh_spec(learner={"kind": "rknn_auto"})
    client.create_model(spec)
    client.learn(spec.name, X, "c")
    async with AsyncClient(service.url) as other:
        assert await other.neighbors(spec.name, X) == client.neighbors(spec.name, X)
        assert await other.hubs(spec.name) == client.hubs(spec.name)
        noise = await other.window_noise(spec.name)
    assert noise == client.window_noise(spec.name)
    assert (noise.examples, noise.k, len(noise.estimates), len(noise.pairs)) == (1, None, 3, 12)


def test_named_and_hashed_features(client: Client) -> None:
    """Features by name go as they are, and a wrong one is named by the error."""
    fields = (
        Field(name="age", type="number"),
        Field(name="page", type="category", values=("home", "cart")),
    )
    named = fresh_spec(features=Named(fields))
    assert client.create_model(named).features == Named(fields)
    client.predict(named.name, {"age": 3, "page": "home"})
    with pytest.raises(InvalidError) as caught:
        client.predict(named.name, {"age": 3, "page": "shop"})
    assert "page" in caught.value.details[0].where
    assert caught.value.status == 422
    hashed = fresh_spec(features=Hashed(16))
    client.create_model(hashed)
    client.predict(hashed.name, {"anything": "goes", "and": 1.5})


def test_export_import_and_state(client: Client, tmp_path: Path) -> None:
    """An exported model comes back with the same chain and the same weights."""
    spec = fresh_spec()
    client.create_model(spec)
    decisions = client.predict_batch(spec.name, [Instance(x=X)] * 20)
    client.feedback_batch(spec.name, [Feedback(one.decision_id, 1) for one in decisions])
    path = tmp_path / "model.ndjson"
    with path.open("wb") as file:
        file.writelines(client.export_log(spec.name))
    state = client.state(spec.name)
    whole = client.import_log(f"{spec.name}-whole", path.read_bytes())
    with path.open("rb") as file:
        pieces = client.import_log(f"{spec.name}-pieces", file)
    assert whole.chain == pieces.chain == client.get_model(spec.name).chain
    assert whole.seq == 20
    for name in (whole.name, pieces.name):
        copy = client.state(name)
        assert copy.keys() == state.keys()
        for key, value in state.items():
            np.testing.assert_array_equal(copy[key], value)
    with pytest.raises(ConflictError):
        client.import_log(whole.name, path.read_bytes())
    with pytest.raises(NotFoundError):
        list(client.export_log("nobody"))


def test_the_service_itself(client: Client) -> None:
    """Liveness, readiness and metrics can be asked for without knowing their shape."""
    client.live()
    readiness = client.ready()
    assert readiness.ready
    assert readiness.failing is None
    assert all(check.ok for check in readiness.checks)
    assert "# TYPE" in client.metrics()


def test_refusals_have_their_classes(client: Client) -> None:
    """The common mistakes arrive as what they are, with the service's own words."""
    spec = fresh_spec()
    client.create_model(spec)
    with pytest.raises(ConflictError, match=spec.name):
        client.create_model(fresh_spec(name=spec.name, seed=1))
    decision = client.predict(spec.name, X)
    client.feedback(spec.name, decision.decision_id, 0)
    with pytest.raises(ConflictError):
        client.feedback(spec.name, decision.decision_id, 1)
    with pytest.raises(NotFoundError):
        client.feedback(spec.name, "0" * 40, 1)
    with pytest.raises(NotFoundError):
        client.predict("nobody", X)
    with pytest.raises(InvalidError) as caught:
        client.predict(spec.name, [1.0])
    assert caught.value.details[0].where == "x"
    with pytest.raises(InvalidError):
        client.create_model(fresh_spec(learner={"kind": "oracle"}))
    with pytest.raises(TooLargeError):
        client.predict(spec.name, [0.12345678] * 40_000)
    with pytest.raises(InputError, match=r"x\[1\]"):
        client.predict(spec.name, [0.0, float("nan"), 0.0])


def test_another_server_is_not_mistaken_for_the_service(service: Service) -> None:
    """A wrong base address is told from a missing model."""
    with Client(f"{service.url}/docs") as client, pytest.raises(NotFoundError):
        client.list_models()
    with pytest.raises(InputError, match="base_url"):
        Client("localhost:8000")
    with (
        Client(service.url, transport=_Elsewhere()) as client,
        pytest.raises(ProtocolError, match="DOCTYPE"),
    ):
        client.list_models()


class _Elsewhere(httpx.BaseTransport):
    """Leads every request to the service's documentation page."""

    def __init__(self) -> None:
        self._inner = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Ask for the documentation instead."""
        page = httpx.Request("GET", request.url.copy_with(path="/docs"))
        return self._inner.handle_request(page)

    def close(self) -> None:
        """Close the connections."""
        self._inner.close()


def test_nobody_there_is_a_transport_error() -> None:
    """A refused connection is tried as often as asked, then told with the call's name."""
    retries = Retries(tries=3, base_s=0.001)
    with (
        Client("http://127.0.0.1:9", retries=retries) as client,
        pytest.raises(TransportError, match=r"GET http://.+/v1/models: ConnectError"),
    ):
        client.list_models()


async def test_the_async_client_in_process(valkey_url: str) -> None:
    """The same calls work on an application in this process, without a server."""
    async with (
        running_app(valkey_url) as app,
        AsyncClient("http://test", transport=httpx.ASGITransport(app)) as client,
    ):
        spec = fresh_spec()
        await client.create_model(spec)
        decision = await client.predict(spec.name, X, request_id="visit")
        assert decision == await client.predict(spec.name, X, request_id="visit")
        receipt = await client.feedback(spec.name, decision.decision_id, 1)
        assert (receipt.status, receipt.seq) == ("applied", 1)
        decisions = await client.predict_batch(spec.name, [Instance(x=X)] * 3)
        items = [Feedback(one.decision_id, 0) for one in decisions]
        receipts = await client.feedback_batch(spec.name, items)
        assert [one.seq for one in receipts] == [2, 3, 4]
        assert await client.set_rates(spec.name, rho_0=0.2, rho_1=0.3, by_label={}) == 5
        own = {"a": NoiseRates(rho_0=0.4, rho_1=0.1)}
        with pytest.raises(InvalidError, match="each label's noise rates"):
            await client.set_rates(spec.name, rho_0=0.2, rho_1=0.3, by_label=own)
        log = b"".join([piece async for piece in client.export_log(spec.name)])
        bodies: tuple[bytes | io.BytesIO, ...] = (log, io.BytesIO(log))
        again = client.export_log(spec.name)
        for number, body in enumerate((*bodies, again)):
            copy = await client.import_log(f"{spec.name}-{number}", body)
            assert copy.seq == 5
        state, copied = await client.state(spec.name), await client.state(copy.name)
        for key, value in state.items():
            np.testing.assert_array_equal(copied[key], value)
        await client.change_labels(spec.name, add=["d"])
        assert (await client.get_model(spec.name)).active_labels == ("a", "b", "c", "d")
        assert spec.name in [model.name for model in await client.list_models()]
        await client.live()
        assert (await client.ready()).ready
        assert "# TYPE" in await client.metrics()
        await client.delete_model(spec.name)
        with pytest.raises(NotFoundError):
            await client.get_model(spec.name)
        await _learn(client, fresh_spec(learner={"kind": "perceptron"}))
        await _tell(client, fresh_spec())


async def _tell(client: AsyncClient, spec: ModelSpec) -> None:
    await client.create_model(spec)
    for status in ("applied", "duplicate"):
        told = await client.tell_round(
            spec.name, X, "c", propensity=0.5, feedback=0, request_id="one"
        )
        assert (told.status, told.seq, told.feedback) == (status, 1, 0)
    rounds = [Round(x=X, label="a", propensity=1.0, feedback=1)] * 2
    assert [each.seq for each in await client.tell_rounds(spec.name, rounds)] == [2, 3]


async def _learn(client: AsyncClient, spec: ModelSpec) -> None:
    await client.create_model(spec)
    assert (await client.learn(spec.name, X, "b")).status == "applied"
    examples = [Example(x=X, label="c")] * 2
    assert [one.seq for one in await client.learn_batch(spec.name, examples)] == [2, 3]


async def test_api_keys(valkey_url: str, tmp_path: Path) -> None:
    """The key is sent, and what it may not do arrives as the error that says so."""
    (admin, one), (reader, two) = (
        new_key(name, "shop", [scope])
        for name, scope in (("admin", Scope.ADMIN), ("reader", Scope.PREDICT))
    )
    path = tmp_path / "keys.json"
    path.write_text(f"[{one}, {two}]")
    spec = fresh_spec()
    async with running_app(valkey_url, keys_file=path) as app:
        transport = httpx.ASGITransport(app)
        async with AsyncClient("http://test", transport=transport, api_key=admin) as client:
            await client.create_model(spec)
        async with AsyncClient("http://test", transport=transport, api_key=reader) as client:
            decision = await client.predict(spec.name, X)
            with pytest.raises(ForbiddenError):
                await client.feedback(spec.name, decision.decision_id, 1)
        async with AsyncClient("http://test", transport=transport) as client:
            with pytest.raises(UnauthorizedError):
                await client.predict(spec.name, X)
