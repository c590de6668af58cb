"""The calls on models, over the application in this process."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import pytest

from learners.neighbors import RkNN
from service.address import part_key
from service.spec import ModelSpec
from service.store import IMPORTING, Store
from tests.service.apps import RCNBF, app_client, create, spec_of
from tests.service.stores import opened, raw_client


async def test_a_tenant_has_so_many_models_and_no_more(valkey_url: str) -> None:
    """Protects the store from models without end; the same model again is no new one."""
    names = [f"t-{secrets.token_hex(6)}" for _ in range(2)]
    spec = {"learner": RCNBF, "labels": ["a", "b"], "features": {"type": "dense", "size": 1}}
    async with app_client(valkey_url) as client:
        there = len((await client.get("/v1/models")).json()["models"])
    async with app_client(valkey_url, max_models=there + 1) as client:
        first = await client.post("/v1/models", json=spec | {"name": names[0]})
        assert first.status_code == 201
        second = await client.post("/v1/models", json=spec | {"name": names[1]})
        assert second.status_code == 409
        assert "max_models" in second.json()["error"]["message"]
        assert "retry-after" not in second.headers
        again = await client.post("/v1/models", json=spec | {"name": names[0]})
        assert again.status_code == 200
        await client.delete(f"/v1/models/{names[0]}")
        assert (await client.post("/v1/models", json=spec | {"name": names[1]})).status_code == 201
        await client.delete(f"/v1/models/{names[1]}")


async def test_another_spec_is_told_apart_by_name(valkey_url: str) -> None:
    """Who creates models at each start has to find what has changed since, also in a learner."""
    spec = spec_of(learner=RCNBF, window_s=60)
    async with app_client(valkey_url) as client:
        assert (await client.post("/v1/models", json=spec)).status_code == 201
        learner = {"kind": "rcnbf", "rho_0": 0.3, "rho_1": 0.2}
        other = spec | {"window_s": 61, "learner": learner}
        answer = await client.post("/v1/models", json=other)
        assert answer.status_code == 409
        said = answer.json()["error"]["message"]
        assert said.endswith("look at learner.gamma, learner.rho_0, window_s")


async def test_models_stay_where_fewer_are_allowed_than_before(valkey_url: str) -> None:
    """Protects those who create their models at each start, which changes nothing."""
    specs = [spec_of() for _ in range(3)]
    async with app_client(valkey_url) as client:
        for spec in specs:
            assert (await client.post("/v1/models", json=spec)).status_code == 201
    async with app_client(valkey_url, max_models=1) as client:
        for spec in specs:
            assert (await client.post("/v1/models", json=spec)).status_code == 200
            assert (await client.delete(f"/v1/models/{spec['name']}")).status_code == 204


async def test_a_model_of_a_newer_version_hides_no_other(valkey_url: str) -> None:
    """Whoever goes back to this version sees its models, and which ones it cannot read."""
    specs = [spec_of() for _ in range(2)]
    new, old = (spec["name"] for spec in specs)
    async with app_client(valkey_url) as client, opened(valkey_url) as store:
        for spec in specs:
            assert (await client.post("/v1/models", json=spec)).status_code == 201
        await raw_client(store).hset(part_key(f"default/{new}", "meta"), "format", "3")
        listed = (await client.get("/v1/models")).json()
        assert old in [model["name"] for model in listed["models"]]
        assert new in listed["unreadable"]
        metrics = (await client.get("/metrics")).text
        assert "misclick_redis_up 1.0" in metrics
        assert f'misclick_seq{{model="{old}"}}' in metrics
        for answer in (
            await client.get(f"/v1/models/{new}"),
            await client.post("/v1/models", json=specs[0]),
        ):
            assert answer.status_code == 503
            assert "format is '3'" in answer.json()["error"]["message"]
        for name in (new, old):
            assert (await client.delete(f"/v1/models/{name}")).status_code == 204


async def test_models_that_come_together_are_counted(valkey_url: str) -> None:
    """Protects the bound from many calls at once, each of which finds room for one more."""
    async with app_client(valkey_url) as client:
        there = len((await client.get("/v1/models")).json()["models"])
    async with (
        app_client(valkey_url, max_models=there + 2, redis_timeout_s=20) as one,
        app_client(valkey_url, max_models=there + 2, redis_timeout_s=20) as other,
    ):
        calls = (client.post("/v1/models", json=spec_of()) for client in 10 * [one, other])
        answers = await asyncio.gather(*calls)
        made = [answer.json()["name"] for answer in answers if answer.status_code == 201]
        assert {answer.status_code for answer in answers} == {201, 409}
        listed = [each["name"] for each in (await one.get("/v1/models")).json()["models"]]
        assert len(listed) <= there + 2
        assert set(made) <= set(listed)
        for name in made:
            await one.delete(f"/v1/models/{name}")


async def test_changes_build_on_those_of_others(valkey_url: str) -> None:
    """A worker that has not heard of the last one looks first, so that none is undone."""
    seldom = {"sync_interval_s": 10, "stale_s": 60}
    async with app_client(valkey_url, **seldom) as one, app_client(valkey_url, **seldom) as other:
        path = await create(one)
        assert (await other.post(f"{path}/predict", json={"x": [1, 2, 3]})).status_code == 200
        for number, client in enumerate((one, other, one)):
            new = {"name": f"c{number}", "learner": {"kind": "banditron"}}
            await client.post(f"{path}/challengers", json=new)
            model = (await client.post(f"{path}/labels", json={"add": [f"n{number}"]})).json()
        assert [each["name"] for each in model["challengers"]] == ["c0", "c1", "c2"]
        assert [each["name"] for each in model["labels"]][3:] == ["n0", "n1", "n2"]
        rates = {"rho_0": 0.1, "rho_1": 0.1, "by_label": {"n2": {"rho_0": 0.2, "rho_1": 0.2}}}
        await one.post(f"{path}/challengers", json={"name": "f", "learner": {"kind": "forward"}})
        answers = [await each.post(f"{path}/rates", json=rates) for each in (other, one, other)]
        assert [answer.json() for answer in answers] == [{"seq": 8}] * 3
        await one.post(f"{path}/labels", json={"retire": ["a"]})
        for batch, wrap in (("", dict), ("/batch", lambda item: {"items": [item]})):
            for min_seq, status in ((9, 200), (10, 409)):
                item = {"x": [1, 2, 3], "min_seq": min_seq}
                answer = await other.post(f"{path}/predict{batch}", json=wrap(item))
                assert answer.status_code == status
        await one.delete(path)


async def test_who_is_always_too_late_is_told(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects from an answer as if a change had been made that others kept from being made.

    It may be sent again, which clients do after a 503.
    """

    async def outrun(*_: Any) -> None:
        pass

    async with app_client(valkey_url) as client:
        path = await create(client)
        monkeypatch.setattr(Store, "append", outrun)
        for call, body in (
            ("labels", {"add": ["d"]}),
            ("rates", {"rho_0": 0.3, "rho_1": 0.1}),
            ("challengers", {"name": "passive", "learner": {"kind": "bpa"}}),
        ):
            answer = await client.post(f"{path}/{call}", json=body)
            assert answer.status_code == 503
            assert "try again" in answer.json()["error"]["message"]
        await client.delete(path)


async def test_half_an_import_can_be_deleted_and_is_counted_no_longer_than_it_lasts(
    valkey_url: str,
) -> None:
    """Protects a tenant's room from what a worker has left that was killed while it imported."""
    names = [f"t-{secrets.token_hex(6)}" for _ in range(2)]
    keys = [f"default/{name}" for name in names]
    spec = ModelSpec.model_validate(spec_of())
    async with app_client(valkey_url) as client, opened(valkey_url) as store:
        there = len((await client.get("/v1/models")).json()["models"])
        for key in keys:
            await store.create(key, spec, {IMPORTING: "token", "seq": "0"})
        assert len((await client.get("/v1/models")).json()["models"]) == there
        assert (await client.delete(f"/v1/models/{names[0]}")).status_code == 204
        assert (await client.delete(f"/v1/models/{names[0]}")).status_code == 404
        async with app_client(valkey_url, max_models=there + 1) as full:
            assert (await full.post("/v1/models", json=spec_of())).status_code == 409
            # Its time is over.
            await store.client.unlink(part_key(keys[1], "meta"))
            path = await create(full)
        assert (await client.delete(path)).status_code == 204


@pytest.mark.parametrize(
    ("change", "where", "said"),
    [
        ({"learner": {"kind": "rcine"}, "log_keep": 49_999}, "log_keep", "at least the 50000"),
        ({"estimate_every": 2000, "log_keep": 1999}, "log_keep", "at least the 2000 rounds"),
        ({"estimate_every": 1_000_000}, "log_keep", "at least the 1000000 rounds"),
        ({"estimate_on_drift": True, "log_keep": 0}, "log_keep", "at least the 50000 rounds"),
        ({"learner": {"kind": "bpa"}, "estimate_every": 2000}, "learner.kind", "uses noise rates"),
        ({"learner": {"kind": "bpa"}, "estimate_on_drift": True}, "learner.kind", "uses noise"),
    ],
    ids=str,
)
async def test_estimates_have_a_log_and_a_learner(
    valkey_url: str, change: dict[str, Any], where: str, said: str
) -> None:
    """Protects from estimates of fewer rounds than were asked for, or of none, silently."""
    spec = spec_of(**change)
    async with app_client(valkey_url) as client:
        answer = await client.post("/v1/models", json=spec)
        assert answer.status_code == 422
        (detail,) = answer.json()["error"]["details"]
        assert detail["where"] == where
        assert said in detail["expected"]
        # Where estimates are made when asked for only, they use what there is.
        plain = await client.post("/v1/models", json=spec_of(log_keep=0))
        assert plain.status_code == 201
        enough = await client.post("/v1/models", json=spec_of(estimate_every=2000, log_keep=2000))
        assert enough.status_code == 201


async def test_a_label_is_added_without_a_copy_of_what_was_learned(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects the others from waiting: of 50,000 examples a copy takes 16 seconds to make."""

    def never(cls: type[RkNN], _: object) -> RkNN:
        raise AssertionError(f"a copy of a {cls.kind} was made")

    async with app_client(valkey_url) as client:
        path = await create(client, learner={"kind": "rknn"})
        x = [1.0, 2.0, 3.0]
        await client.post(f"{path}/learn", json={"x": x, "label": "b"})
        monkeypatch.setattr(RkNN, "from_state", classmethod(never))
        added = await client.post(f"{path}/labels", json={"add": ["d", "e"], "retire": ["a"]})
        more = await client.post(f"{path}/labels", json={"add": ["a"], "retire": ["d"]})
        assert (added.status_code, more.status_code) == (200, 200)
        await client.post(f"{path}/learn", json={"x": x, "label": "e"})
        found = (await client.post(f"{path}/neighbors", json={"x": x})).json()
    assert [(each["example"], each["label"]) for each in found["neighbors"]] == [(0, "b"), (1, "e")]
