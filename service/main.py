"""`misclick serve`: the embedded Valkey if wanted, and the workers."""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import logging
import os
import resource
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from uvicorn.supervisors import Multiprocess

from service.auth import Keys
from service.embedded import EmbeddedValkey
from service.logs import configure
from service.metrics import SHARED_FOLDER
from service.one_write import OneWriteProtocol
from service.settings import ENV_PREFIX, Settings

log = logging.getLogger("misclick.main")

#: Seconds that requests under way get to end when the service is stopped.
DRAIN_S = 10
#: Files that a worker may have open, where the system lets it.
MOST_FILES = 65_536
#: Seconds that an idle connection is kept: longer than proxies keep theirs by default, 60. A proxy
#: that sends a call on a connection closed a moment ago answers 502.
KEEP_ALIVE_S = 75


class Refused(Exception):
    """The settings do not allow the service to start; the message says why."""


def serve(settings: Settings) -> None:
    """Run the service until it is told to stop.

    Raises
    ------
    Refused
        Without API keys on an address that others can reach, with a bad keys file, or with a
        data folder that cannot be used.
    DataFolderInUse
        When another service runs on the data folder.
    """
    check(settings)
    export_to_workers(settings)
    configure(settings.log_level)
    _allow_many_files()
    _end_in_order()
    with _embedded(settings), _shared_metrics(settings):
        listener = _listen(settings)
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        print(f"misclick listens on http://{host}:{listener.getsockname()[1]}", flush=True)
        config = uvicorn.Config(
            "service.worker:app",
            factory=True,
            http=OneWriteProtocol,
            ws="none",
            workers=settings.workers,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=DRAIN_S,
        )
        _run(config, listener)


def _allow_many_files() -> None:
    """Allow as many open files as this process may have: each connection is one.

    The usual 1,024 are there for programs that cannot deal with more; whoever reaches the port
    could use them up with connections that send nothing.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _end_in_order() -> None:
    """Let a stop, at any moment, unwind what was started: the store above all.

    uvicorn drains on a signal and then raises it once more; the default handler would end this
    process on the spot, with the embedded store still running.
    """

    def end(_signal: int, _frame: FrameType | None) -> None:
        raise SystemExit(0)

    def stop(_signal: int, _frame: FrameType | None) -> None:
        signal.raise_signal(signal.SIGTERM)

    for kind in (signal.SIGINT, signal.SIGTERM):
        signal.signal(kind, end)
    # A closed terminal, unless nohup started this. With several workers uvicorn takes it for a
    # request to restart them.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, stop)


def check(settings: Settings) -> None:
    """Raise Refused if these settings would be unsafe."""
    if settings.keys_file is None and not settings.loopback:
        raise Refused(
            f"host is {settings.host!r}, which others can reach, and there are no API keys: "
            "set keys_file (see `misclick key`), or listen on 127.0.0.1"
        )
    _check_redis_url(settings)
    try:
        Keys.load(settings.keys_file)
    except OSError as error:
        raise Refused(f"keys_file: expected a file that can be read, got {error}") from error
    except ValueError as error:
        raise Refused(str(error)) from error


def _check_redis_url(settings: Settings) -> None:
    """Raise Refused if no client can be made of redis_url; never quotes what is in it.

    In each worker it would end in a traceback that quotes what came where a port was expected: part
    of the password, if that has a `/` in it.
    """
    if settings.redis_url is None:
        return
    # The process that starts workers needs no client; with nothing to check it loads none.
    from service.store import connect  # noqa: PLC0415

    url = settings.store_url()
    try:
        pool: Any = connect(url, settings.redis_timeout_s).connection_pool
        pool.make_connection()
        parts = urlsplit(url)
        if parts.scheme != "unix" and "@" in parts.path + parts.query + parts.fragment:
            # A password with both signs: part of it would be taken for the host, and shown.
            raise ValueError("redis_url")
    except Exception:
        what = "redis://user:password@host:port/0, user and password with all but letters"
        raise Refused(f"redis_url: expected {what} and digits escaped (/ as %2F)") from None


def export_to_workers(settings: Settings) -> None:
    """Put the settings where worker processes read them."""
    for name in Settings.model_fields:
        value = getattr(settings, name)
        if value is not None:
            secret = getattr(value, "get_secret_value", None)
            os.environ[f"{ENV_PREFIX}{name.upper()}"] = str(secret() if secret else value)


def _run(config: uvicorn.Config, listener: socket.socket) -> None:
    if config.workers > 1:
        _Workers(config, sockets=[listener]).run()
    else:
        uvicorn.Server(config).run(sockets=[listener])


class _Workers(Multiprocess):
    """Restarts workers that ended, and logs it at a level that is shown."""

    def keep_subprocess_alive(self) -> None:
        before = list(self.processes)
        super().keep_subprocess_alive()
        for worker in set(before) - set(self.processes):
            # A 9 that nobody sent is most often the kernel's, short of memory.
            about = {"pid": worker.pid, "status": worker.exitcode}
            log.error("a worker ended and is started again", extra=about)


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise Refused(f"cannot listen on {settings.host}:{settings.port}: {error}") from error
    address = listener.getsockname()[0]
    if settings.keys_file is None and not ipaddress.ip_address(address).is_loopback:
        listener.close()
        raise Refused(f"{settings.host} is {address} here, which others can reach: set keys_file")
    listener.listen(2048)
    listener.set_inheritable(True)
    return listener


@contextlib.contextmanager
def _embedded(settings: Settings) -> Iterator[None]:
    if not settings.embedded:
        yield
        return
    try:
        valkey = EmbeddedValkey(settings.data_dir)
    except (OSError, ValueError) as error:
        raise Refused(f"data_dir {settings.data_dir}: {error}") from error
    try:
        try:
            valkey.start()
        except (OSError, RuntimeError) as error:
            raise Refused(f"data_dir {settings.data_dir}: {error}") from error
        yield
    finally:
        valkey.stop()


@contextlib.contextmanager
def _shared_metrics(settings: Settings) -> Iterator[None]:
    if settings.workers == 1:
        yield
        return
    folder = tempfile.mkdtemp(prefix="misclick-metrics-")
    os.environ[SHARED_FOLDER] = folder
    held = os.open(folder, os.O_RDONLY)
    try:
        # So systemd-tmpfiles leaves it alone, however long nothing is counted.
        fcntl.flock(held, fcntl.LOCK_SH)
        yield
    finally:
        os.close(held)
        shutil.rmtree(folder, ignore_errors=True)
