"""Settings: each is documented, an option and a variable; unsafe ones do not start."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

import service
from service import spec
from service.auth import Scope, new_key
from service.challengers import RECORDED
from service.cli import main
from service.main import Refused, check, export_to_workers
from service.serve_command import refuse_unknown
from service.settings import ENV_PREFIX, SECRETS, Settings

#: Another value than the default for every setting, as the environment would have it.
OTHER: dict[str, str] = {
    "host": "::1",
    "port": "8123",
    "workers": "3",
    "data_dir": "elsewhere",
    "redis_url": "redis://user:pw@host:6380/1",
    "redis_timeout_s": "0.5",
    "durability": "relaxed",
    "secret": "s" * 40,
    "keys_file": "keys.json",
    "max_body_bytes": "2048",
    "max_batch_body_bytes": "4096",
    "max_batch_items": "10",
    "max_import_bytes": "8192",
    "max_models": "5",
    "max_loaded_models": "4",
    "max_requests": "16",
    "body_timeout_s": "3.5",
    "sync_interval_s": "0.1",
    "stale_s": "2.5",
    "sweep_interval_s": "0.25",
    "snapshot_events": "77",
    "snapshot_s": "5.5",
    "estimate_timeout_s": "120.0",
    "log_level": "debug",
}

NAMES = list(Settings.model_fields)
#: How docs/settings.md says what may be set.
BOUNDS = {
    "ge": "at least {}",
    "gt": "above {}",
    "le": "at most {}",
    "min_length": "at least {} characters",
}
#: How help says what may be chosen.
CHOICES = {"durability": "{strict,relaxed}", "log_level": "{debug,info,warning,error}"}


def settings_page() -> str:
    """Return what is documented."""
    assert service.__file__ is not None
    return (Path(service.__file__).parents[1] / "docs" / "settings.md").read_text()


def serve(*options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `misclick serve`, which has to end by itself."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(ENV_PREFIX)}
    return subprocess.run(
        [sys.executable, "-m", "service.cli", "serve", *options],
        env=clean | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(scope="module")
def help_text() -> str:
    """Return what `misclick serve --help` prints."""
    return " ".join(serve("--help", COLUMNS="500").stdout.split())


@pytest.mark.parametrize(
    ("what", "most"),
    [
        ("features of a model", spec.MAX_FEATURES),
        ("labels of a model", spec.MAX_LABELS),
        ("labels x features", spec.MAX_WEIGHTS),
        ("rows of a neighbour learner's window", spec.MAX_WINDOW_ROWS),
        ("challengers of a model", spec.MAX_CHALLENGERS),
        ("rounds that an evaluation looks at", RECORDED),
        ("pending decisions of a model (`max_pending`)", spec.MAX_PENDING),
        ("log kept (`log_keep`)", spec.MAX_LOG_KEEP),
    ],
)
def test_a_limit_is_what_is_documented(what: str, most: int) -> None:
    """Users plan by the table: no limit moves without it."""
    rows = settings_page().splitlines()
    (row,) = [line for line in rows if line.startswith(f"| {what} |")]
    assert re.match(rf"{most:,}\b(?!,\d)", row.split(" | ")[1])


@pytest.mark.parametrize("name", NAMES)
def test_a_setting_is_documented(name: str, help_text: str) -> None:
    """Variable, option, default and description stand in docs/settings.md and in --help."""
    field = Settings.model_fields[name]
    (row,) = [
        line
        for line in settings_page().splitlines()
        if line.startswith(f"| `{ENV_PREFIX}{name.upper()}`")
    ]
    assert field.description
    bounds = [
        words.format(getattr(constraint, bound))
        for constraint in field.metadata
        for bound, words in BOUNDS.items()
        if hasattr(constraint, bound)
    ]
    said = f" ({', '.join(bounds)})" if bounds else ""
    # No bound is checked that is not said, and none is said that is not checked.
    assert f"{field.description}{said}{'' if name in CHOICES else ' |'}" in row
    option = f"--{name.replace('_', '-')}"
    if name in SECRETS:
        assert option not in row
        assert option not in help_text
        assert f"{ENV_PREFIX}{name.upper()}: {field.description}" in help_text
    else:
        assert f"`{option}`" in row
        default = "none" if field.default is None else field.default
        value = CHOICES.get(name, name.upper())
        assert f"{option} {value} {field.description} Default: {default}." in help_text
        assert f"`{field.default}`" in row or (field.default is None and "none" in row)


@pytest.mark.parametrize("name", NAMES)
def test_a_setting_is_a_variable(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`MISCLICK_<NAME>` sets it and nothing else, and workers get it from there."""
    monkeypatch.setenv(f"{ENV_PREFIX}{name.upper()}", OTHER[name])
    settings, defaults = Settings(), Settings.model_construct()
    changed = {n for n in NAMES if getattr(settings, n) != getattr(defaults, n)}
    assert changed == {name}
    value = getattr(settings, name)
    assert str(value.get_secret_value() if isinstance(value, SecretStr) else value) == OTHER[name]


def test_every_setting_reaches_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker is another process: what it reads from the environment is what was set."""
    for name in NAMES:
        monkeypatch.delenv(f"{ENV_PREFIX}{name.upper()}", raising=False)
    given: dict[str, Any] = dict(OTHER)
    settings = Settings(**given)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    export_to_workers(settings)
    assert {n: os.environ[f"{ENV_PREFIX}{n.upper()}"] for n in NAMES} == OTHER


@pytest.mark.parametrize(
    "change",
    [
        {"port": 65536},
        {"workers": 0},
        {"redis_url": "http://host"},
        {"redis_timeout_s": 0},
        {"durability": "never"},
        {"secret": "short"},
        {"max_body_bytes": 10},
        {"max_batch_items": 1001},
        {"max_requests": 0},
        {"log_level": "loud"},
        {"window_s": 5},
    ],
    ids=str,
)
def test_a_value_out_of_range_is_refused(change: dict[str, Any]) -> None:
    """Bad values and unknown names are refused at the start."""
    with pytest.raises(ValidationError):
        Settings(**change)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_without_keys_only_this_machine_is_served(host: str) -> None:
    """Loopback addresses need no keys."""
    check(Settings(host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", ""])  # noqa: S104 - what must be refused
def test_without_keys_nobody_else_is_served(host: str, tmp_path: Path) -> None:
    """Any other address is refused, unless there are keys."""
    with pytest.raises(Refused, match="API keys"):
        check(Settings(host=host))
    file = tmp_path / "keys.json"
    file.write_text(f"[{new_key('web', 'shop', [Scope.PREDICT])[1]}]")
    check(Settings(host=host, keys_file=file))
    file.write_text("[]")
    with pytest.raises(Refused, match="1 to 10000 keys"):
        check(Settings(host=host, keys_file=file))
    with pytest.raises(Refused, match="No such file"):
        check(Settings(host=host, keys_file=tmp_path / "none.json"))


@pytest.mark.parametrize(
    "url",
    [
        "redis://:SECRET/x@127.0.0.1:6379/0",
        "redis://:x/SECRET@127.0.0.1:6379/0",
        "redis://:SECRET#x@127.0.0.1:6379/0",
        "redis://u:SECRET@[::1/0",
        "redis://:x@SECRET/x@127.0.0.1:6379/0",
        "rediss://:x@SECRET?x@127.0.0.1:6379/0",
        "redis://:x@SECRET#x@127.0.0.1:6379/0",
        "redis://127.0.0.1:6379/0?socket_timeout=SECRET",
        "redis://127.0.0.1:6379/0?SECRET=1",
        "unix:///x?db=SECRET",
    ],
)
def test_a_url_that_cannot_be_read_is_not_shown(url: str) -> None:
    """Protects a password with a `/` in it from standing in a trace, as the port it is not."""
    with pytest.raises(Refused, match="redis_url: expected redis://user:password@") as caught:
        check(Settings(redis_url=url))
    assert "SECRET" not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    "url", ["redis://h", "rediss://u:p%2F@h:1/2", "unix:///x@y", "redis://h/0?socket_timeout=9"]
)
def test_a_url_that_can_be_read_is_taken(url: str) -> None:
    """Nobody connects yet: Redis may be away when the service starts."""
    check(Settings(redis_url=url))


@pytest.mark.parametrize(
    ("options", "variables", "why"),
    [
        (["--host", "0.0.0.0"], {}, "there are no API keys"),  # noqa: S104 - what must be refused
        (["--port", "x"], {}, 'port: expected an integer, got "x"'),
        (["--workers", "0"], {}, 'workers: expected at least 1, got "0"'),
        (["--redis-timeout-s", "nan"], {}, 'redis_timeout_s: expected at most 30.0, got "nan"'),
        (["--log-level", "x"], {}, "log_level: expected 'debug', 'info', 'warning' or 'error'"),
        (["--keys-file", "none.json"], {}, "keys_file: expected a file that can be read, got"),
        ([], {"MISCLICK_WORKER": "2"}, "MISCLICK_WORKER: there is no such setting"),
        ([], {"MISCLICK_SECRET": "hunter2"}, "secret: expected 32 or more characters"),
        ([], {"MISCLICK_REDIS_URL": "hunter2"}, "redis_url: expected a URL"),
    ],
    ids=["host", "port", "workers", "nan", "level", "keys", "variable", "secret", "url"],
)
def test_the_command_says_why_it_does_not_start(
    options: list[str],
    variables: dict[str, str],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One line and exit status 2, and never a secret."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert main(["serve", *options]) == 2
    shown = capsys.readouterr()
    assert why in shown.err
    assert "hunter2" not in shown.out + shown.err


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--data-dir", "/dev/null/x"], "data_dir /dev/null/x"),
        (["--redis-url", "redis://x"], "unrecognized arguments"),
    ],
    ids=["folder", "secret option"],
)
def test_the_process_ends_without_a_trace(options: list[str], why: str) -> None:
    """A folder that cannot be, and a secret where others could read it, are refused in words."""
    done = serve(*options)
    assert done.returncode == 2
    assert why in done.stderr
    assert "Traceback" not in done.stderr


def test_secrets_are_hidden() -> None:
    """Settings that are printed or logged do not show their secrets."""
    settings = Settings(redis_url="redis://:hunter2@host", secret="hunter2" * 6)
    assert "hunter2" not in f"{settings!r} {settings} {settings.model_dump()}"
    assert settings.store_url() == "redis://:hunter2@host"


def test_only_what_looks_like_a_setting_has_to_be_one() -> None:
    """Pydantic reads names in any case; the key of the other commands may stand beside them."""
    refuse_unknown(["PATH", "MISCLICK_API_KEY", "MISCLICK_PORT", "misclick_workers"])
    for name in ("MISCLICK_WORKER", "Misclick_Worker"):
        with pytest.raises(Refused, match=f"{name}: there is no such setting"):
            refuse_unknown([name])
