"""The clients' calls on models, against the real service: made, changed, and judged."""

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from clients import (
    AsyncClient,
    Challenger,
    Client,
    ConflictError,
    Feedback,
    InputError,
    Instance,
    InvalidError,
    NoiseRates,
    NotFoundError,
    Round,
)
from tests.clients.conftest import fresh_spec
from tests.serving import Service

X = [0.5, -1.0, 2.0]


def test_a_model_lives_and_dies(client: Client) -> None:
    """Create, create again, read, list, change labels, delete: with typed answers."""
    spec = fresh_spec(scaling="unit", seed=7, window_s=60, max_pending=10)
    model = client.create_model(spec)
    assert client.create_model(spec) == model == client.get_model(spec.name)
    assert model in client.list_models()
    assert (model.name, model.scaling, model.seed, model.window_s) == (spec.name, "unit", 7, 60.0)
    assert model.learner["kind"] == "rcnbf"
    assert model.features == spec.features
    assert model.active_labels == ("a", "b", "c")
    assert (model.seq, model.counters.decisions) == (0, 0)
    model = client.change_labels(spec.name, add=["d"], retire=["a"])
    assert model.active_labels == ("b", "c", "d")
    assert [label.name for label in model.labels] == ["a", "b", "c", "d"]
    client.delete_model(spec.name)
    with pytest.raises(NotFoundError):
        client.get_model(spec.name)


def test_challengers_are_evaluated_and_promoted(client: Client) -> None:
    """From the spec or later; what is promoted decides, what is dropped is gone."""
    spec = fresh_spec(challengers=(Challenger("passive", {"kind": "bpa", "gamma": 0.5}),))
    model = client.create_model(spec)
    assert (model.deciding, model.challengers) == ("original", spec.challengers)
    model = client.add_challenger(spec.name, "ban", {"kind": "banditron"})
    assert [each.name for each in model.challengers] == ["passive", "ban"]
    decisions = client.predict_batch(spec.name, [Instance(x=[1, n, -n]) for n in range(300)])
    clicks = [Feedback(each.decision_id, n % 2) for n, each in enumerate(decisions)]
    client.feedback_batch(spec.name, clicks)
    found = client.evaluate(spec.name)
    assert (found.rounds, found.last_seq, found.rates_from) == (300, found.seq, "learner")
    kinds = [(policy.policy, policy.name) for policy in found.policies]
    assert kinds[:2] == [("deciding", "original"), ("uniform", None)]
    assert {("challenger", "passive"), ("challenger", "ban"), ("label", "a")} < set(kinds)
    deciding, uniform = found.policies[:2]
    assert deciding.trusted
    assert (deciding.best, deciding.rounds) == (deciding.snips, 300)
    assert uniform.dr is not None
    assert uniform.best == uniform.dr
    assert client.evaluate(spec.name, rounds=50).rounds == 50
    model = client.promote(spec.name, "passive")
    assert (model.deciding, model.learner["kind"]) == ("passive", "bpa")
    assert [each.name for each in model.challengers] == ["original", "ban"]
    client.drop_challenger(spec.name, "ban")
    assert [each.name for each in client.get_model(spec.name).challengers] == ["original"]
    with pytest.raises(ConflictError, match="decides"):
        client.drop_challenger(spec.name, "passive")
    with pytest.raises(NotFoundError):
        client.promote(spec.name, "no/body")
    with pytest.raises(InvalidError, match="rounds"):
        client.evaluate(spec.name, rounds=1)


async def test_challengers_with_asyncio(service: Service) -> None:
    """The same four calls."""
    spec = fresh_spec()
    async with AsyncClient(service.url) as client:
        await client.create_model(spec)
        model = await client.add_challenger(spec.name, "ban", {"kind": "banditron"})
        assert [each.name for each in model.challengers] == ["ban"]
        assert (await client.promote(spec.name, "ban")).deciding == "ban"
        await client.drop_challenger(spec.name, "original")
        found = await client.evaluate(spec.name, rounds=100)
        assert (found.rounds, found.policies) == (0, ())


def test_a_model_is_made_of_anothers_log(client: Client) -> None:
    """Times come as moments, whatever their zone; one without is refused before it is sent."""
    spec = fresh_spec()
    client.create_model(spec)
    rounds = [Round(x=X, label="a", propensity=0.5, feedback=1)] * 5
    client.tell_rounds(spec.name, rounds)
    time.sleep(0.01)
    now = datetime.now(UTC)
    found = client.relearn(spec.name, f"{spec.name}-2", without=[(now, None)])
    assert (found.learned, found.clicks, found.left_out, found.refused) == (5, 5, 0, 0)
    assert found.last_ms is not None
    assert found.first_ms is not None
    assert found.first_ms <= found.last_ms < now.timestamp() * 1000
    assert client.get_model(found.name).counters.told == found.seq == 5
    there = now.astimezone(timezone(timedelta(hours=3)))
    learner = {"kind": "bpa", "gamma": 0.25}
    found = client.relearn(spec.name, f"{spec.name}-3", without=[(None, there)], learner=learner)
    assert (found.learned, found.left_out, found.left_out_clicks) == (0, 5, 5)
    assert client.get_model(found.name).learner == learner
    with pytest.raises(InputError, match="time zone"):
        client.relearn(spec.name, "other", without=[(now.replace(tzinfo=None), None)])
    with pytest.raises(InputError, match=f"got {now.year}.* and {now.year}"):
        client.relearn(spec.name, "other", without=[(now, now - timedelta(hours=1))])
    with pytest.raises(ConflictError):
        client.relearn(spec.name, spec.name)


async def test_a_model_is_made_of_anothers_log_with_asyncio(service: Service) -> None:
    """The same call."""
    spec = fresh_spec()
    async with AsyncClient(service.url) as client:
        await client.create_model(spec)
        await client.tell_round(spec.name, X, "a", propensity=0.5, feedback=1)
        found = await client.relearn(spec.name, f"{spec.name}-2", without=[(None, None)])
        assert (found.learned, found.left_out) == (0, 1)


def test_labels_have_rates_of_their_own(client: Client) -> None:
    """What was set for a label is in force for it, and for it alone."""
    spec = fresh_spec(learner={"kind": "forward", "n_waves": 0})
    client.create_model(spec)
    own = NoiseRates(rho_0=0.4, rho_1=0.1)
    assert client.set_rates(spec.name, rho_0=0.1, rho_1=0.2, by_label={"b": own}) == 1
    noise = client.noise(spec.name)
    assert noise.rates == noise.rates_by_label["a"] == NoiseRates(rho_0=0.1, rho_1=0.2)
    assert noise.rates_by_label["b"] == own
    with pytest.raises(InvalidError, match=r"by_label\.z"):
        client.set_rates(spec.name, rho_0=0.1, rho_1=0.2, by_label={"z": own})


def test_noise_is_asked_for_and_told(client: Client) -> None:
    """An estimate is asked for by its number, and a refusal is a result."""
    spec = fresh_spec()
    assert client.create_model(spec).estimate_every is None
    noise = client.noise(spec.name)
    assert noise.rates == NoiseRates(rho_0=0.1, rho_1=0.2)
    assert (noise.estimate_every, noise.asked, noise.running) == (0, False, None)
    assert client.estimate_noise(spec.name) == 1
    end_s = time.monotonic() + 60
    while (result := client.noise(spec.name).result(1)) is None:
        assert time.monotonic() < end_s
        time.sleep(0.1)
    assert not result.trusted
    assert "no feedback" in result.verdict
    assert client.estimate_noise(spec.name) == 2
    client.cancel_estimate(spec.name)
    client.cancel_estimate(spec.name)
    result = client.noise(spec.name).result(2)
    assert result is not None
    assert not result.trusted


async def test_noise_is_asked_for_with_asyncio(service: Service) -> None:
    """The same two calls, and the same refusal where there are no rates."""
    spec, plain = fresh_spec(estimate_every=2000), fresh_spec(learner={"kind": "bpa"})
    async with AsyncClient(service.url) as client:
        await client.create_model(spec)
        await client.create_model(plain)
        assert (await client.noise(spec.name)).estimate_every == 2000
        assert await client.estimate_noise(spec.name) == 1
        await client.cancel_estimate(spec.name)
        assert (await client.noise(spec.name)).running is None
        with pytest.raises(InvalidError, match="uses noise rates"):
            await client.noise(plain.name)
        with pytest.raises(InvalidError, match="uses noise rates"):
            await client.estimate_noise(plain.name)
