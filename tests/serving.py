"""Real services and real stores for tests: started here, stopped by pid."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import redis

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
REDIS_OPTIONS = (
    "--port 0 --appendonly yes --appendfsync always --maxmemory-policy noeviction --daemonize no"
)


class Service:
    """A `misclick serve` in a process of its own.

    Parameters
    ----------
    options
        Settings by name, as the command line takes them.
    environment
        Variables on top of this process' own (secrets go there).
    """

    def __init__(self, environment: dict[str, str] | None = None, **options: object) -> None:
        given = {"port": 0, "host": "127.0.0.1", "log_level": "warning"} | options
        command = [sys.executable, "-m", "service.cli", "serve"]
        for name, value in given.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        self.log = Path(tempfile.mkstemp(suffix=".log", prefix="misclick-test-")[1])
        with self.log.open("wb") as errors:
            self.process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=_clean_environment() | (environment or {}),
            )
        self.url = self._read_url()

    @property
    def pid(self) -> int:
        """The process that was started: the worker itself, or the workers' parent."""
        return self.process.pid

    def wait_until_ready(self) -> None:
        """Wait until every readiness check holds."""
        end_s = time.monotonic() + START_TIMEOUT_S
        with httpx.Client(base_url=self.url, timeout=2) as client:
            while time.monotonic() < end_s:
                with contextlib.suppress(httpx.TransportError):
                    if client.get("/readyz").status_code == 200:
                        return
                time.sleep(0.02)
        raise RuntimeError(f"not ready: {self.log.read_text()[-2000:]}")

    def stop(self) -> None:
        """Stop it as an operator would; kill it if it does not listen."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.log.unlink(missing_ok=True)

    def _read_url(self) -> str:
        assert self.process.stdout is not None
        timer = threading.Timer(START_TIMEOUT_S, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        if " listens on " not in line:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            raise RuntimeError(f"the service did not start: {self.log.read_text()[-2000:]}")
        return line.strip().rpartition(" ")[2]


@contextlib.contextmanager
def running_service(
    environment: dict[str, str] | None = None, **options: object
) -> Iterator[Service]:
    """Run a service, on an embedded store in a folder of its own unless told otherwise."""
    folder = Path(tempfile.mkdtemp(prefix="misclick-test-"))
    try:
        service = Service(environment, **({"data_dir": folder} | options))
        try:
            service.wait_until_ready()
            yield service
        finally:
            service.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Restarts(httpx.HTTPTransport):
    """The way to a service that is gone for ten tries in a row.

    Parameters
    ----------
    after
        How many are answered before.
    """

    def __init__(self, after: int) -> None:
        super().__init__()
        self._after = after
        self.requests = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send, but for ten tries in a row."""
        self.requests += 1
        if self._after < self.requests <= self._after + 10:
            raise httpx.ConnectError("Connection refused", request=request)
        return super().handle_request(request)


@contextlib.contextmanager
def running_redis(binary: str, options: str = REDIS_OPTIONS) -> Iterator[str]:
    """Run a Redis or Valkey server on a socket; yield its URL."""
    folder = Path(tempfile.mkdtemp(prefix="misclick-redis-"))
    socket = folder / "redis.sock"
    command = [binary, *options.split(), "--dir", str(folder), "--unixsocket", str(socket)]
    with (folder / "log").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        _wait_for_redis(socket)
        yield f"unix://{socket}"
    finally:
        # Not asked to end: it refuses to while it writes its first log, and nothing is kept.
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for_redis(socket: Path) -> None:
    end_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < end_s:
        with (
            contextlib.suppress(redis.exceptions.RedisError),
            redis.Redis(unix_socket_path=str(socket)) as client,
        ):
            if client.ping():
                return
        time.sleep(0.01)
    raise RuntimeError("the Redis under test did not start")


def _clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("MISCLICK_")}
