"""Retries against the real service: answers get lost, and nothing is applied twice."""

import asyncio
import time
from collections.abc import Iterator

import httpx
import numpy as np
import pytest

from clients import (
    AsyncClient,
    Client,
    Example,
    Feedback,
    Instance,
    Retries,
    Round,
    TransportError,
)
from tests.clients.conftest import fresh_spec
from tests.service.apps import running_app
from tests.serving import Service

X = [0.5, -1.0, 2.0]
SOON = Retries(tries=3, base_s=0.001)


class Lossy(httpx.BaseTransport):
    """Brings every request to the service, and loses the answers that `losses` say.

    Parameters
    ----------
    losses
        For each request in turn whether its answer gets lost; none does afterwards.
    """

    def __init__(self, losses: Iterator[bool]) -> None:
        self._inner = httpx.HTTPTransport()
        self._losses = losses
        self.bodies: list[bytes] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send, wait for the whole answer, and perhaps lose it."""
        self.bodies.append(request.read())
        response = self._inner.handle_request(request)
        response.read()
        if next(self._losses, False):
            response.close()
            raise httpx.ReadError("the connection broke", request=request)
        return response

    def close(self) -> None:
        """Close the connections."""
        self._inner.close()


def test_a_lost_answer_changes_nothing(service: Service, client: Client) -> None:
    """With every first answer lost, the model ends bit for bit as without any loss."""
    calm, rough = fresh_spec(seed=3), fresh_spec(seed=3)
    alternate = (number % 2 == 0 for number in range(10_000))
    lossy = Lossy(alternate)
    with Client(service.url, transport=lossy, retries=SOON) as unlucky:
        results = []
        for spec, user in ((calm, client), (rough, unlucky)):
            user.create_model(spec)
            decisions = []
            for number in range(30):
                decision = user.predict(spec.name, X, request_id=f"r{number}")
                receipt = user.feedback(spec.name, decision.decision_id, number % 2)
                assert receipt.seq == number + 1
                assert receipt.feedback == number % 2
                decisions.append((decision.label, decision.greedy, decision.propensity))
            results.append(decisions)
    assert len(lossy.bodies) == 2 * 61
    assert all(one == two for one, two in zip(lossy.bodies[::2], lossy.bodies[1::2], strict=True))
    assert results[0] == results[1]
    one, two = (client.get_model(spec.name) for spec in (calm, rough))
    assert one.seq == two.seq == 30
    assert (one.counters.decisions, one.counters.feedback) == (30, 30)
    assert (two.counters.decisions, two.counters.feedback) == (30, 30)
    assert two.counters.duplicates == 30
    states = [client.state(spec.name) for spec in (calm, rough)]
    for name, value in states[0].items():
        np.testing.assert_array_equal(states[1][name], value)


def test_ids_that_the_client_makes_are_sent_again(service: Service, client: Client) -> None:
    """Without a request id of the user's, a retry is still the same request."""
    bandit, perceptron = fresh_spec(), fresh_spec(learner={"kind": "perceptron"})
    lossy = Lossy(number % 2 == 0 for number in range(100))
    with Client(service.url, transport=lossy, retries=SOON) as unlucky:
        for spec in (bandit, perceptron):
            unlucky.create_model(spec)
        unlucky.predict(bandit.name, X)
        decisions = unlucky.predict_batch(bandit.name, [Instance(x=X)] * 5)
        items = [Feedback(one.decision_id, 1) for one in decisions]
        receipts = unlucky.feedback_batch(bandit.name, items)
        assert [receipt.status for receipt in receipts] == ["duplicate"] * 5
        assert [receipt.seq for receipt in receipts] == [1, 2, 3, 4, 5]
        assert unlucky.tell_round(bandit.name, X, "c", propensity=0.5, feedback=1).seq == 6
        some = [Round(x=X, label="a", propensity=0.5, feedback=0)] * 3
        assert [each.status for each in unlucky.tell_rounds(bandit.name, some)] == ["duplicate"] * 3
        assert unlucky.learn(perceptron.name, X, "c").status == "duplicate"
        unlucky.learn_batch(perceptron.name, [Example(x=X, label="a")] * 4)
    counters = client.get_model(bandit.name).counters
    assert (counters.decisions, counters.feedback, counters.told) == (6, 5, 4)
    assert client.get_model(perceptron.name).counters.learned == 5


def test_two_calls_are_two_requests(client: Client) -> None:
    """Made-up ids differ: two calls without an id are two decisions, not one and a retry."""
    spec = fresh_spec()
    client.create_model(spec)
    decisions = client.predict_batch(spec.name, [Instance(x=X)] * 20)
    decisions += [client.predict(spec.name, X) for _ in range(3)]
    assert len({decision.decision_id for decision in decisions}) == 23


def test_a_deleted_model_stays_deleted(service: Service) -> None:
    """A delete whose answer got lost has succeeded, not failed with 404."""
    spec = fresh_spec()
    lossy = Lossy(iter([False, True]))
    with Client(service.url, transport=lossy, retries=SOON) as unlucky:
        unlucky.create_model(spec)
        unlucky.delete_model(spec.name)
    assert len(lossy.bodies) == 3


def test_an_import_is_sent_once(service: Service, client: Client) -> None:
    """The second import would be refused because of the first, and look like a failure."""
    spec = fresh_spec()
    client.create_model(spec)
    log = b"".join(client.export_log(spec.name))
    lossy = Lossy(iter([True]))
    with (
        Client(service.url, transport=lossy, retries=SOON) as unlucky,
        pytest.raises(TransportError, match="import: ReadError"),
    ):
        unlucky.import_log(f"{spec.name}-copy", log)
    assert len(lossy.bodies) == 1
    assert client.get_model(f"{spec.name}-copy").seq == 0


class Counting(httpx.ASGITransport):
    """Talks to an application in this process, and counts how often it turned a call away."""

    refusals = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send, and look at the status."""
        response = await super().handle_async_request(request)
        self.refusals += response.status_code == 429
        return response


async def test_a_busy_service_is_asked_again_later(valkey_url: str) -> None:
    """Turned away with 429 and Retry-After, every call gets through, and is applied once."""
    spec = fresh_spec()
    patient = Retries(tries=5, base_s=0.2)
    async with running_app(valkey_url, max_requests=1) as app:
        transport = Counting(app)
        async with AsyncClient("http://test", transport=transport, retries=patient) as client:
            await client.create_model(spec)
            begin_s = time.monotonic()
            calls = [client.predict(spec.name, X, request_id=f"r{number}") for number in range(4)]
            decisions = await asyncio.gather(*calls)
            assert transport.refusals > 0
            assert time.monotonic() - begin_s >= 1  # what Retry-After asked for
            assert len({decision.decision_id for decision in decisions}) == 4
            assert (await client.get_model(spec.name)).counters.decisions == 4
