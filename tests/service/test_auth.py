"""API keys: every call asks for one, each with its scope, and tenants never see each other."""

import json
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from service import auth
from service.app import create_app
from service.auth import KEY_BYTES, Keys, Scope, new_key
from service.cli import main
from service.edge import Edge
from service.errors import Forbidden, Unauthorized
from service.settings import Settings
from tests.service.apps import JSON, NDJSON, call, client_of, create, running_app

#: What each call needs, by its name in OpenAPI; `None` is any key at all.
NEEDS: dict[str, Scope | None] = {
    "create_model": Scope.ADMIN,
    "list_models": None,
    "get_model": None,
    "delete_model": Scope.ADMIN,
    "change_labels": Scope.ADMIN,
    "set_rates": Scope.ADMIN,
    "add_challenger": Scope.ADMIN,
    "drop_challenger": Scope.ADMIN,
    "promote": Scope.ADMIN,
    "evaluate": Scope.ADMIN,
    "relearn": Scope.ADMIN,
    "get_noise": None,
    "estimate_noise": Scope.ADMIN,
    "cancel_estimate": Scope.ADMIN,
    "predict": Scope.PREDICT,
    "predict_batch": Scope.PREDICT,
    "feedback": Scope.FEEDBACK,
    "feedback_batch": Scope.FEEDBACK,
    "learn": Scope.FEEDBACK,
    "learn_batch": Scope.FEEDBACK,
    "rounds": Scope.FEEDBACK,
    "rounds_batch": Scope.FEEDBACK,
    "neighbors": Scope.PREDICT,
    "get_hubs": None,
    "export_log": Scope.ADMIN,
    "import_model": Scope.ADMIN,
    "get_state": Scope.ADMIN,
    "metrics": Scope.ADMIN,
}
OPEN = {"livez", "readyz"}


class Route(NamedTuple):
    """One call of the application."""

    name: str
    method: str
    path: str


def all_routes() -> list[Route]:
    """Return every call of the application, from its own routes."""
    app = create_app(Settings(redis_url="redis://nowhere"))
    return [
        Route(route.operation_id, method, route.path)
        for route in app._app.state.routes  # type: ignore[attr-defined]
        for method in sorted(route.methods)
    ]


ROUTES = all_routes()


class Tenants(NamedTuple):
    """An application with two tenants, each with a key of every scope."""

    app: Edge
    keys: dict[tuple[str, str], str]

    def headers(self, tenant: str, scope: str) -> dict[str, str]:
        """Return the header of one key."""
        return {"authorization": f"Bearer {self.keys[tenant, scope]}"}


@pytest.fixture
async def tenants(valkey_url: str, tmp_path: Path) -> AsyncIterator[Tenants]:
    """Run an application with API keys."""
    keys: dict[tuple[str, str], str] = {}
    lines = []
    for tenant in ("red", "blue"):
        for scope in Scope:
            keys[tenant, scope.value], line = new_key(f"{tenant} {scope}", tenant, [scope])
            lines.append(line)
    file = tmp_path / "keys.json"
    file.write_text(f"[{','.join(lines)}]")
    async with running_app(valkey_url, keys_file=file) as app:
        yield Tenants(app, keys)


def test_every_call_says_what_it_needs() -> None:
    """A call that is added has to be added to the table above, and so to this test."""
    assert {route.name for route in ROUTES} == NEEDS.keys() | OPEN
    assert all(
        route.path.startswith("/v1/")
        for route in ROUTES
        if route.name in NEEDS.keys() - {"metrics"}
    )


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
async def test_every_call_asks_for_its_key(tenants: Tenants, route: Route) -> None:
    """Without a key 401, with one that lacks the scope 403, before anything else is looked at."""
    path = route.path.replace("{model}", "t-none")
    sent = {"content-type": "text/plain"}

    async def status(headers: dict[str, str]) -> int:
        return (await call(tenants.app, route.method, path, [b"?"], sent | headers)).status

    if route.name in OPEN:
        assert await status({}) == 200
        return
    answer = await call(tenants.app, route.method, path, [b"?"], sent)
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    for wrong in ("Bearer x", "Bearer ", "Basic abc", "", f"Basic {tenants.keys['red', 'admin']}"):
        assert await status({"authorization": wrong}) == 401
    need = NEEDS[route.name]
    for scope in Scope:
        enough = need is None or scope in (need, Scope.ADMIN)
        found = await status(tenants.headers("red", scope))
        assert (found != 403) is enough
        assert found != 401


async def test_a_tenant_never_sees_another(tenants: Tenants) -> None:
    """Every call on another tenant's model answers as for a model that is not there."""
    async with client_of(tenants.app, **tenants.headers("red", "admin")) as red:
        path = await create(red)
        decision = (await red.post(f"{path}/predict", json={"x": [1, 2, 3]})).json()
        name = path.rpartition("/")[2]
        log = (await red.get(f"{path}/log")).content
        bodies: dict[str, tuple[bytes, dict[str, str]]] = {
            "feedback": (_json(decision_id=decision["decision_id"], feedback=1), JSON),
            "feedback_batch": (_json(items=[{"decision_id": "x", "feedback": 1}]), JSON),
            "predict": (_json(x=[1, 2, 3]), JSON),
            "predict_batch": (_json(items=[{"x": [1, 2, 3]}]), JSON),
            "learn": (_json(x=[1, 2, 3], label="a"), JSON),
            "learn_batch": (_json(items=[{"x": [1, 2, 3], "label": "a"}]), JSON),
            "rounds": (_json(x=[1, 2, 3], label="a", propensity=1, feedback=1), JSON),
            "rounds_batch": (
                _json(items=[{"x": [1, 2, 3], "label": "a", "propensity": 1, "feedback": 1}]),
                JSON,
            ),
            "neighbors": (_json(x=[1, 2, 3]), JSON),
            "change_labels": (_json(add=["z"]), JSON),
            "set_rates": (_json(rho_0=0.1, rho_1=0.1), JSON),
            "relearn": (_json(name="z"), JSON),
            "add_challenger": (_json(name="c", learner={"kind": "bpa"}), JSON),
        }
        for route in ROUTES:
            if "{model}" not in route.path or route.name == "import_model":
                continue
            body, kind = bodies.get(route.name, (b"", {}))
            answers = []
            for model in (name, "t-none"):
                sent = tenants.headers("blue", "admin") | kind
                where = route.path.replace("{model}", model)
                answer = await call(tenants.app, route.method, where, [body], sent)
                answers.append((answer.status, answer.body.replace(model.encode(), b"?")))
            assert answers[0] == answers[1]
            assert answers[0][0] == 404
        async with client_of(tenants.app, **tenants.headers("blue", "admin")) as blue:
            assert name not in (await blue.get("/v1/models")).text
            assert name not in (await blue.get("/metrics")).text
            # The same name is free for the other tenant, and its model another one.
            copied = await blue.post(f"{path}/import", content=log, headers=NDJSON)
            assert copied.status_code == 201
            forged = await blue.post(
                f"{path}/feedback", content=bodies["feedback"][0], headers=JSON
            )
            assert forged.status_code == 404
        assert name in (await red.get("/v1/models")).text
        assert (await red.get(path)).json()["counters"]["feedback"] == 0
        await red.delete(path)


def _json(**values: Any) -> bytes:
    return json.dumps(values).encode()


def test_a_key_is_shown_once_and_stored_as_its_hash() -> None:
    """A fresh key is 256 bits; the line for the file holds only its SHA-256."""
    key, line = new_key("web", "shop", [Scope.PREDICT])
    entry = json.loads(line)
    assert entry == {
        "name": "web",
        "tenant": "shop",
        "scopes": ["predict"],
        "sha256": sha256(key.encode()).hexdigest(),
    }
    assert len(key) * 6 >= KEY_BYTES * 8
    assert key not in line
    assert new_key("web", "shop", [Scope.PREDICT])[0] != key


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            ["ops", "--scopes", "predict,all"],
            "scopes[1]: expected 'predict', 'feedback' or 'admin'",
        ),
        (["ops", "--tenant", "A"], "tenant: expected a match of "),
        (["", "--scopes", "admin"], "name: expected 1 or more characters"),
    ],
)
def test_a_key_that_cannot_be_is_refused(
    options: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2 and one line in our words; no key is made."""
    assert main(["key", *options]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"misclick key: {why}")
    assert shown.err.count("\n") == 1


def test_what_is_printed_is_a_keys_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Protects who redirects the command: the lines are the file, the key is seen."""
    file = tmp_path / "keys.json"
    given = []
    for name, scope in (("ops", "admin"), ("web", "predict")):
        assert main(["key", name, "--scopes", scope]) == 0
        shown = capsys.readouterr()
        with file.open("a") as lines:
            lines.write(shown.out)
        given.append(shown.err.split()[-1])
        assert given[-1] not in shown.out
    keys = Keys.load(file)
    ops, web = (keys.caller(f"Bearer {key}") for key in given)
    ops.require(Scope.ADMIN)
    web.require(Scope.PREDICT)
    with pytest.raises(Forbidden):
        web.require(Scope.ADMIN)


def test_admin_includes_the_rest(tmp_path: Path) -> None:
    """An admin key may predict and give feedback; another key only what it says."""
    key, line = new_key("a", "t", [Scope.ADMIN])
    other, other_line = new_key("b", "t", [Scope.PREDICT])
    file = tmp_path / "keys.json"
    file.write_text(f"[{line},{other_line}]")
    keys = Keys.load(file)
    for scope in Scope:
        keys.caller(f"bearer {key}").require(scope)
    with pytest.raises(Forbidden, match="feedback"):
        keys.caller(f"Bearer {other}").require(Scope.FEEDBACK)
    with pytest.raises(Unauthorized, match="not known"):
        keys.caller(f"Bearer {key}x")
    for other_form in (key, f"Basic {key}"):
        with pytest.raises(Unauthorized, match="Bearer <key>, got another scheme") as caught:
            keys.caller(other_form)
        assert key not in str(caught.value)


@pytest.mark.parametrize("form", ["\n [{0},\n{1}]\n", "{0}\n  \n{1}", "\r\n{0}\r\n\t\r\n{1}\r\n"])
def test_keys_may_be_spaced_out(tmp_path: Path, form: str) -> None:
    """Protects who edits the file, or writes the header, by hand: spaces mean nothing."""
    key, line = new_key("a", "t", [Scope.ADMIN])
    file = tmp_path / "keys.json"
    file.write_bytes(form.format(new_key("b", "u", [Scope.PREDICT])[1], line).encode())
    assert Keys.load(file).caller(f"Bearer  {key} ").tenant == "t"


def test_without_a_file_everybody_is_admin() -> None:
    """For loopback only: no key is asked for."""
    keys = Keys.load(None)
    assert keys.open
    keys.caller(None).require(Scope.ADMIN)


GOOD = {"name": "n", "tenant": "t", "scopes": ["admin"], "sha256": "0" * 64}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "1 to 10000 keys"),
        (
            "SECRET-KEY",
            "keys.json: line 1: expected JSON: one object a line, as `misclick key` prints it",
        ),
        ("[SECRET-KEY", "keys.json: expected JSON: one object a line"),
        (f"\n{json.dumps(GOOD)}\nSECRET-KEY", "keys.json: line 3: expected JSON: one object"),
        (f"\r\n{json.dumps(GOOD)}\r\n{{}}", "keys.json: line 3, name: expected a value"),
        (json.dumps(GOOD | {"SECRET-KEY": 1}), "keys.json: line 1: expected no other fields"),
        (json.dumps(GOOD) + "\n\n" + json.dumps(GOOD), "line 3: expected another key than line 1"),
        ("[]", "1 to 10000 keys"),
        ('"SECRET-KEY"', "keys.json: line 1: expected an object"),
        (json.dumps([GOOD | {"sha256": "SECRET-KEY"}]), "[0].sha256"),
        (json.dumps([GOOD | {"SECRET-KEY": 1}]), "[0]: expected no other fields"),
        (json.dumps([GOOD | {"scopes": ["SECRET-KEY"]}]), "[0].scopes[0]"),
        (json.dumps([GOOD | {"scopes": []}]), "[0].scopes"),
        (json.dumps([GOOD | {"tenant": "SECRET-KEY/"}]), "[0].tenant"),
        (json.dumps([{"name": "SECRET-KEY"}]), "[0].tenant"),
        (json.dumps([GOOD, GOOD | {"tenant": "other"}]), "[1]: expected another key than [0]"),
    ],
)
def test_a_bad_file_is_described_without_what_is_in_it(tmp_path: Path, text: str, why: str) -> None:
    """Somebody may have put a key into the wrong field: the message never quotes it."""
    file = tmp_path / "keys.json"
    file.write_text(text)
    with pytest.raises(ValueError, match="keys file") as caught:
        Keys.load(file)
    assert why in str(caught.value)
    assert "SECRET-KEY" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_file_may_hold_as_many_keys_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The limit itself is allowed; the keys are those of an application, if nothing is said."""
    for name in ("web", "app"):
        assert main(["key", name]) == 0
    lines = capsys.readouterr().out
    for line in lines.splitlines():
        assert json.loads(line)["tenant"] == "default"
        assert json.loads(line)["scopes"] == ["predict", "feedback"]
    (file := tmp_path / "keys.json").write_text(lines)
    monkeypatch.setattr(auth, "MAX_KEYS", 2)
    assert Keys.load(file).tenants == {"default"}
    monkeypatch.setattr(auth, "MAX_KEYS", 1)
    with pytest.raises(ValueError, match="expected 1 to 1 keys, got 2"):
        Keys.load(file)
