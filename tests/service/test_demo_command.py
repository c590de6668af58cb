"""The command `misclick demo`: it shows something true, and leaves nothing running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from rich.console import Console

from clients import Client
from clients.replay.run import Track
from service import demo_command
from service.cli import main
from tests.torture.cluster import wait_until

COMMAND = [sys.executable, "-m", "service.cli", "demo"]
LIMIT_S = 60


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return the only folder in which the demo can make temporary files."""
    # Not pytest's own: below it, a socket's path may become too long.
    with tempfile.TemporaryDirectory(prefix="demo-") as path:
        yield Path(path)


@contextmanager
def started(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run the demo; end it should the test fail."""
    process = subprocess.Popen(
        [*COMMAND, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(folder), "COLUMNS": "120"},
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate()


def left_behind(folder: Path) -> list[str]:
    """Return the files and processes that a demo in this folder left."""
    return [str(path) for path in folder.iterdir()] + running(folder)


def running(folder: Path) -> list[str]:
    """Return the processes of a demo in this folder: the service and its store."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(str(folder) in part for part in process.cmdline()):
                found.append(str(process))
        except psutil.Error:
            continue
    return found


def test_the_demo_ends_by_itself_and_again(folder: Path, tmp_path: Path) -> None:
    """It plays through a real service, prints the errors and the picture's path, and is gone."""
    png = tmp_path / "new" / "demo.png"
    outputs = []
    for _ in range(2):
        with started(folder, "--rounds", "300", "--png", str(png)) as process:
            out, err = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0, err
        assert str(png) in out
        assert png.read_bytes().startswith(b"\x89PNG")
        for part in (
            "Banditron 15%/15%",
            "RCNBF 20%/40%",
            "300 of 300",
            "Softmax 15%/15%",
            "1,800 decisions",
        ):
            assert part in out
        assert left_behind(folder) == []
        outputs.append([line for line in out.splitlines() if "│" in line])
        png.unlink()
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) == 6


@pytest.mark.usefixtures("_terminal")
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_demo_leaves_nothing(folder: Path, kind: signal.Signals) -> None:
    """Ctrl-C, a kill and a closed terminal all stop the service and remove its folder."""
    with started(folder, "--rounds", "10000000") as process:
        assert process.stdout is not None
        assert "answers at" in process.stdout.readline()
        process.send_signal(kind)
        _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert err == "misclick demo: stopped\n"
    assert left_behind(folder) == []


def test_a_killed_demo_leaves_nothing_running(folder: Path) -> None:
    """Its service and the store end by themselves when nobody is left to stop them."""
    with started(folder, "--rounds", "10000000") as process:
        assert process.stdout is not None
        assert "answers at" in process.stdout.readline()
        assert len(running(folder)) > 1
        process.kill()
        process.communicate(timeout=LIMIT_S)
    wait_until(lambda: not running(folder), "the end of the service", LIMIT_S)


def test_a_failing_demo_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    """An error in the middle is told in one line, and the service is stopped."""
    png = tmp_path / "pictures" / "x.png"
    with started(folder, "--rounds", "100", "--png", str(png)) as process:
        assert process.stdout is not None
        assert "answers at" in process.stdout.readline()
        png.parent.rmdir()
        _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 2
    assert err.startswith("misclick demo: ")
    assert left_behind(folder) == []


@pytest.mark.parametrize("name", ["file/x.png", "folder"])
def test_a_picture_that_cannot_be_drawn_is_told_at_once(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    """Protects who waits from learning it after the last round."""
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    monkeypatch.delattr(demo_command, "running_service")
    assert main(["demo", "--png", str(tmp_path / name)]) == 2
    told = capsys.readouterr().err
    assert told.startswith("misclick demo: ")
    assert name.partition("/")[0] in told


@pytest.mark.parametrize(
    ("options", "said"),
    [(["--rounds", "0"], "--rounds: expected"), (["--seed", "-1"], "seed: expected")],
)
def test_a_demo_that_cannot_be_is_told_at_once(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    said: str,
) -> None:
    """A service was started for it first, and a folder made for its picture."""
    monkeypatch.delattr(demo_command, "running_service")
    picture = tmp_path / "out" / "x.png"
    assert main(["demo", "--png", str(picture), *options]) == 2
    assert said in capsys.readouterr().err
    assert not picture.parent.exists()


def test_a_service_that_does_not_start_is_quoted(tmp_path: Path) -> None:
    """Where the service gives up at once, the demo passes on what it said."""
    folder = tmp_path / ("long" * 25)
    folder.mkdir()
    with started(folder, "--rounds", "100") as process:
        _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 2
    assert "the service did not start" in err
    assert "data_dir" in err
    assert left_behind(folder) == []


def test_settings_of_the_users_service_are_not_the_demos(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a shell that has them it would have made its models in the user's own Redis."""
    monkeypatch.setenv("MISCLICK_REDIS_URL", "redis://127.0.0.1:1")
    monkeypatch.setenv("MISCLICK_KEYS_FILE", "/dev/null/keys")
    with demo_command.running_service() as url, Client(url) as client:
        assert client.list_models() == []


def test_the_clicks_are_as_noisy_as_is_said() -> None:
    """Two rates in each other's place would have told RCNBF the wrong ones; a seed is asked for."""
    streams = demo_command._streams(Namespace(rounds=10, seed=5))
    assert tuple(streams) == demo_command.NOISES
    for (rho_0, rho_1), stream in streams.items():
        assert (set(stream.rho_0), set(stream.rho_1)) == ({rho_0}, {rho_1})
        assert (stream.seed, stream.horizon) == (5, 10)


def test_the_demo_says_what_was_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentences at the end tell the errors of what was shown, each learner's own."""
    monkeypatch.setattr(demo_command, "print_table", lambda _: None)
    tracks = {}
    for name, errors in (("Banditron", 3), ("RCNBF", 2), ("Softmax", 1)):
        tracks[name] = Track(horizon=4)
        for number in range(4):
            tracks[name].record(wrong=number < errors, wrong_greedy=False)
    replays: Any = {(0.2, 0.4): SimpleNamespace(tracks=tracks)}
    with (console := Console(width=500)).capture() as capture:
        args = Namespace(rounds=4, png=tmp_path / "x.png")
        demo_command._summarise(args, console, replays, tracks, 1.0)
    told = "Banditron showed the wrong label in 75.0 % of the rounds, RCNBF in 50.0 % and Softmax"
    assert f"With 20 % false and 40 % missed clicks, {told} in 25.0 %." in capture.get()
