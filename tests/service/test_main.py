"""The service as an operator starts and stops it."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import uvicorn

from service import main
from service.embedded import MAX_SOCKET_PATH
from service.main import (
    DRAIN_S,
    KEEP_ALIVE_S,
    MOST_FILES,
    Refused,
    _allow_many_files,
    _embedded,
    _end_in_order,
    _listen,
    _shared_metrics,
)
from service.metrics import SHARED_FOLDER
from service.settings import Settings
from tests.serving import Service, running_service


@pytest.mark.usefixtures("_terminal")
@pytest.mark.parametrize(
    ("kind", "workers"),
    [
        (signal.SIGTERM, 1),
        (signal.SIGTERM, 2),
        (signal.SIGINT, 1),
        (signal.SIGINT, 2),
        (signal.SIGHUP, 1),
    ],
)
def test_a_stop_takes_the_store_along(short_path: Path, kind: signal.Signals, workers: int) -> None:
    """Protects from a store that outlives its service: it is gone before the service is."""
    service = Service(data_dir=short_path / "data", workers=workers)
    try:
        service.wait_until_ready()
        family = psutil.Process(service.pid).children(recursive=True)
        (store,) = [child for child in family if "valkey" in child.name()]
        service.process.send_signal(kind)
        assert service.process.wait(30) == 0
        assert not store.is_running() or store.status() == psutil.STATUS_ZOMBIE
        # What multiprocessing keeps beside its workers ends a moment after them.
        assert psutil.wait_procs(family, 5)[1] == []
        assert not (short_path / "data" / "valkey.pid").exists()
        assert "Traceback" not in service.log.read_text()
    finally:
        service.stop()


@pytest.mark.parametrize("before", [signal.SIG_IGN, signal.SIG_DFL])
def test_what_nohup_started_outlives_its_terminal(before: signal.Handlers) -> None:
    """A closed terminal ends a service, but not one that was started to outlive it."""
    kinds = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    outside = {kind: signal.getsignal(kind) for kind in kinds}
    try:
        signal.signal(signal.SIGHUP, before)
        _end_in_order()
        assert (signal.getsignal(signal.SIGHUP) is before) == (before is signal.SIG_IGN)
    finally:
        for kind, handler in outside.items():
            signal.signal(kind, handler)


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="there is no IPv6 here")
def test_an_address_of_ipv6_is_told_as_a_url() -> None:
    """What the service says that it listens on can be called as it stands."""
    with running_service(host="::1") as service:
        assert service.url.startswith("http://[::1]:")


def test_a_folder_that_cannot_be_written_is_named(short_path: Path) -> None:
    """A full disk, say, is told as what it is: no traceback, and nothing is left running."""
    settings = Settings(data_dir=short_path)
    (short_path / "valkey.conf").mkdir()
    with pytest.raises(Refused, match=r"data_dir .*valkey\.conf"), _embedded(settings):
        pass
    (short_path / "valkey.conf").rmdir()
    with _embedded(settings):
        pass


def test_a_folder_too_deep_for_a_socket_is_named(tmp_path: Path) -> None:
    """Protects from a traceback where a path has room for no socket."""
    settings = Settings(data_dir=tmp_path / ("x" * MAX_SOCKET_PATH))
    with pytest.raises(Refused, match=r"data_dir .*too long for a socket"), _embedded(settings):
        pass


def test_a_port_is_free_again_at_once() -> None:
    """Protects restarts: a connection that the service itself has ended holds its port a while."""
    first = _listen(Settings(port=0))
    port = first.getsockname()[1]
    with socket.create_connection(("127.0.0.1", port)):
        first.accept()[0].close()
        first.close()
    _listen(Settings(port=port)).close()


@pytest.mark.parametrize("soft", [256, None])
def test_connections_may_be_many(soft: int | None) -> None:
    """A thousand connections that say nothing should not be the end; more than allowed is left."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if before[1] == resource.RLIM_INFINITY else min(before[1], MOST_FILES)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft or before[1], before[1]))
        _allow_many_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (
            most if soft else before[1],
            before[1],
        )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_localhost_has_to_be_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A hosts file may say otherwise, and without keys everybody who reaches it is the admin."""

    class Elsewhere(socket.socket):
        def getsockname(self) -> tuple[str, int]:
            return "10.0.0.7", 8000

    _listen(Settings(host="localhost", port=0)).close()
    monkeypatch.setattr("socket.socket", Elsewhere)
    with pytest.raises(Refused, match=r"localhost is 10\.0\.0\.7 here, which others can reach"):
        _listen(Settings(host="localhost", port=0))
    _listen(Settings(host="localhost", port=0, keys_file=tmp_path)).close()


def test_the_metrics_folder_is_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it no worker can count; the machine's cleaner takes what is old and not locked."""
    monkeypatch.setenv(SHARED_FOLDER, "")
    with _shared_metrics(Settings(workers=2)):
        folder = os.open(os.environ[SHARED_FOLDER], os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(folder)


def test_a_start_stays_light() -> None:
    """Protects a restart's time: no torch, no plots, and only one of two clients of Redis."""
    code = (
        "import sys, service.serve_command, service.worker\n"
        "heavy = {'torch', 'river', 'scipy', 'matplotlib', 'pandas', 'httpx', 'valkey', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_server_waits_as_proxies_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closed after uvicorn's 5 s, idle connections of proxies, which keep them 60 s, gave 502s."""
    found: list[uvicorn.Config] = []

    def run(config: uvicorn.Config, listener: socket.socket) -> None:
        found.append(config)
        listener.close()

    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(main, "_run", run)
    for name in ("configure", "_end_in_order", "_allow_many_files"):
        monkeypatch.setattr(main, name, lambda *_: None)
    main.serve(Settings(port=0, redis_url="redis://127.0.0.1:1"))
    (config,) = found
    assert config.timeout_keep_alive == KEEP_ALIVE_S > 60
    # A call that hangs does not hold up a stop.
    assert config.timeout_graceful_shutdown == DRAIN_S
    # Nobody is asked to believe who says for whom he calls; nothing here speaks WebSocket.
    assert (config.proxy_headers, config.ws) == (False, "none")


def test_the_metrics_folder_goes_with_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each start would leave one behind."""
    monkeypatch.setenv(SHARED_FOLDER, "")
    with _shared_metrics(Settings(workers=2)):
        folder = Path(os.environ[SHARED_FOLDER])
        (folder / "0.lock").touch()
    assert not folder.exists()


def test_a_port_that_is_taken_is_told_of() -> None:
    """The commonest mistake of all ends in a line and status 2, as the others do."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(Refused, match=rf"cannot listen on 127\.0\.0\.1:{port}: .*in use"):
            _listen(Settings(port=port))
