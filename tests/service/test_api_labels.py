"""Labels, their noise rates and features of instances over real HTTP."""

import httpx

from tests.service.apps import Json, app_client, create
from tests.service.live import Model, refused


def test_labels_come_and_go_while_it_runs(http: httpx.Client) -> None:
    """A new label is explored at once, a retired one never chosen, and it may come back."""
    model = Model(http, learner={"kind": "banditron", "gamma": 0.5})

    def drawn() -> dict[str, float]:
        items = [{"x": [1, 1, 1]} for _ in range(400)]
        found = model.post("predict/batch", {"items": items})["items"]
        return {d["label"]: d["propensity"] for d in found}

    changed = model.post("labels", {"add": ["d", "e"], "retire": ["a"]})
    assert [(label["name"], label["active"]) for label in changed["labels"]] == [
        ("a", False), ("b", True), ("c", True), ("d", True), ("e", True),
    ]  # fmt: skip
    assert changed["seq"] == 1
    # The explored half is shared by the four that are active.
    assert drawn() == {"b": 0.625, "c": 0.125, "d": 0.125, "e": 0.125}
    answer = model.post("predict", {"x": [1, 1, 1], "allowed": ["a"]}, 422)
    assert "not retired" in answer["error"]["message"]
    assert model.post("labels", {"add": ["d"], "retire": ["a"]})["seq"] == 1
    model.post("labels", {"add": ["a"], "retire": ["b", "c", "d"]})
    assert drawn() == {"a": 0.75, "e": 0.25}
    for body, where in (
        ({"retire": ["a", "e"]}, "retire"),
        ({"retire": ["z"]}, "retire[0]"),
        ({"add": ["x"], "retire": ["x"]}, "retire[0]"),
        ({"add": [""]}, "add[0]"),
        ({"add": [f"l{i}" for i in range(1020)]}, "add"),
        ({"added": ["x"]}, "added"),
    ):
        answer = model.post("labels", body, 422)
        assert answer["error"]["details"][0]["where"] == where
    assert model.describe()["seq"] == 2
    http.delete(model.path)


def test_a_change_of_labels_says_only_what_changes(model: Model) -> None:
    """A label that went stays away when another one comes or goes."""
    for change in ({"retire": ["a"]}, {"add": ["d"]}, {"add": ["d"], "retire": ["a", "b"]}):
        model.post("labels", change)
    said = [(line["add"], line["retire"]) for line in model.log()]
    assert said == [([], ["a"]), (["d"], []), ([], ["b"])]


async def test_a_label_is_known_where_another_worker_added_it(valkey_url: str) -> None:
    """The answer to whoever added it is a promise: no worker refuses the label after that."""
    seldom = {"sync_interval_s": 10, "stale_s": 60}
    async with app_client(valkey_url, **seldom) as one, app_client(valkey_url, **seldom) as two:
        path = await create(one, learner={"kind": "banditron"})
        round_ = {"x": [1, 1, 1], "propensity": 0.5, "feedback": 1}
        for number, (call, body) in enumerate(
            (
                ("rounds", round_ | {"label": "new0"}),
                ("rounds/batch", {"items": [round_ | {"label": "new1"}]}),
                ("predict", {"x": [1, 1, 1], "allowed": ["new2"]}),
                ("predict/batch", {"items": [{"x": [1, 1, 1], "allowed": ["new3"]}]}),
            )
        ):
            assert (await two.post(f"{path}/predict", json={"x": [1, 1, 1]})).is_success
            await one.post(f"{path}/labels", json={"add": [f"new{number}"]})
            answer = await two.post(f"{path}/{call}", json=body)
            assert answer.status_code == 200, answer.text
        labelled = await create(one, learner={"kind": "perceptron"})
        for label, call in (("new0", "learn"), ("new1", "learn/batch")):
            example = {"x": [1, 1, 1], "label": label}
            assert (await two.post(f"{labelled}/predict", json={"x": [1, 1, 1]})).is_success
            await one.post(f"{labelled}/labels", json={"add": [label]})
            body = {"items": [example]} if call.endswith("batch") else example
            assert (await two.post(f"{labelled}/{call}", json=body)).is_success


def test_rates_hold_from_their_event_on(model: Model) -> None:
    """Set once, logged once; the same again is the same event."""
    assert model.post("rates", {"rho_0": 0.2, "rho_1": 0.3}) == {"seq": 1}
    assert model.post("rates", {"rho_0": 0.2, "rho_1": 0.3})["seq"] == 1
    assert model.post("rates", {"rho_0": 0.0, "rho_1": 0}) == {"seq": 2}
    assert [(e["kind"], e["rho_0"], e["rho_1"]) for e in model.log()] == [
        ("rates", 0.2, 0.3),
        ("rates", 0.0, 0.0),
    ]
    for body in ({"rho_0": 0.5, "rho_1": 0.5}, {"rho_0": 1, "rho_1": 0}, {"rho_0": 0.1}):
        assert refused(model.post("rates", body, 422)) == "invalid"


def test_labels_have_rates_of_their_own(http: httpx.Client) -> None:
    """Named labels get theirs, the others the common ones, in one event of the log."""
    model = Model(http, learner={"kind": "forward", "n_waves": 0}, estimate_every=0)
    hats = {"b": {"rho_0": 0.4, "rho_1": 0.1}}
    body = {"rho_0": 0.2, "rho_1": 0.3, "by_label": hats}
    assert model.post("rates", body) == model.post("rates", body) == {"seq": 1}
    common = {"rho_0": 0.2, "rho_1": 0.3}
    told = model.http.get(f"{model.path}/noise").json()
    assert told["rates"] == common
    assert told["rates_by_label"] == {"a": common, "b": hats["b"], "c": common}
    (event,) = model.log()
    assert event["by_label"] == {
        "rho_0": [0.2, 0.4, 0.2],
        "rho_1": [0.3, 0.1, 0.3],
        "rho_0_error": [0.0] * 3,
        "rho_1_error": [0.0] * 3,
    }
    # A label that comes is one of those that have the common rates, once they are said again.
    model.post("labels", {"add": ["number"]})
    assert model.post("rates", body | {"by_label": {"number": hats["b"]}}) == {"seq": 3}
    told = model.http.get(f"{model.path}/noise").json()["rates_by_label"]
    assert told == {"a": common, "b": common, "c": common, "number": hats["b"]}
    assert model.post("rates", common) == {"seq": 4}
    told = model.http.get(f"{model.path}/noise").json()["rates_by_label"]
    assert list(told.values()) == [common] * 4
    for each, where in (
        ({"z": hats["b"]}, "by_label.z"),
        ({"b": {"rho_0": 0.5, "rho_1": 0.5}}, "by_label.b"),
        ({"number": {"rho_0": 1.0, "rho_1": 0.5}}, "by_label.number.rho_0"),
        ({"b": {"rho_0": 0.5}}, "by_label.b.rho_1"),
        ({"b": 0.5}, "by_label.b"),
        ([0.1, 0.2, 0.3], "by_label"),
    ):
        answer = model.post("rates", body | {"by_label": each}, 422)
        assert answer["error"]["details"][0]["where"] == where
    assert model.describe()["seq"] == 4
    http.delete(model.path)


def test_rates_of_labels_are_for_learners_that_use_them(http: httpx.Client) -> None:
    """A learner that uses common rates only refuses them, unless a challenger uses them."""
    body: Json = {"rho_0": 0.2, "rho_1": 0.3, "by_label": {"b": {"rho_0": 0.4, "rho_1": 0.1}}}
    forward = {"name": "rival", "learner": {"kind": "forward", "n_waves": 0}}
    alone, watched = Model(http), Model(http, challengers=[forward])
    answer = alone.post("rates", body, 422)
    assert "a learner that uses each label's noise rates" in answer["error"]["message"]
    assert alone.describe()["seq"] == 0
    assert watched.post("rates", body) == {"seq": 1}
    told = http.get(f"{watched.path}/noise").json()
    assert (told["rates"], told["rates_by_label"]) == ({"rho_0": 0.2, "rho_1": 0.3}, {})
    http.post(f"{watched.path}/challengers/rival/promote")
    assert http.get(f"{watched.path}/noise").json()["rates_by_label"]["b"] == body["by_label"]["b"]
    for model in (alone, watched):
        http.delete(model.path)


# -- features ---------------------------------------------------------------------------------
def test_named_and_hashed_features(http: httpx.Client) -> None:
    """Instances by name, declared or hashed; what is wrong is named."""
    fields = [
        {"name": "age", "type": "number"},
        {"name": "page", "type": "category", "values": ["home", "cart"]},
    ]
    named = Model(http, features={"type": "named", "fields": fields}, scaling="standard")
    named.post("predict", {"x": {"age": 3, "page": "home"}})
    answer = named.post("predict", {"x": {"age": 3, "page": "shop", "colour": 1}}, 422)
    assert [d["where"] for d in answer["error"]["details"]] == ["x.colour", "x.page"]
    hashed = Model(http, features={"type": "hashed", "size": 32})
    hashed.post("predict/batch", {"items": [{"x": {"any": 1, "thing": "goes"}}, {"x": {}}]})
    for model in (named, hashed):
        http.delete(model.path)
