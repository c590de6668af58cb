"""The command `misclick demo`: it shows something true, and leaves nothing running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

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
