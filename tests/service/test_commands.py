"""What the commands that ask a service have in common."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clients import Client, InputError
from service.cli import main
from service.commands import ended, ending_in_order, parse_learner

URL = ["--url", "http://a"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["evaluate", "ads", *URL], "stopped"),
        (["relearn", "ads", "ads-2", *URL], "stopped; ads-2 may be made all the same"),
        (["noise", "ads", *URL], "stopped; what was asked for goes on, until --cancel"),
        (["replay", "segments", "--learner", "bpa", *URL], "stopped"),
    ],
)
def test_ctrl_c_ends_a_command_in_one_line(
    command: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whoever stops waiting gets no traceback, and a script the usual exit status."""

    def send(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, "_send", send)
    assert main(command) == 130
    assert capsys.readouterr().err == f"misclick {command[0]}: {said}\n"


@pytest.mark.parametrize("before", [signal.SIG_IGN, signal.SIG_DFL])
def test_what_nohup_started_outlives_its_terminal(before: signal.Handlers) -> None:
    """A replay over night ended with the terminal; without nohup it still does, in order."""
    outside = signal.signal(signal.SIGHUP, before)
    try:
        with ending_in_order():
            assert (signal.getsignal(signal.SIGHUP) is before) == (before is signal.SIG_IGN)
            assert callable(signal.getsignal(signal.SIGTERM))
        assert signal.getsignal(signal.SIGHUP) is before
    finally:
        signal.signal(signal.SIGHUP, outside)


def test_a_request_to_end_ends_a_loop_at_its_next_turn() -> None:
    """In the middle of a call it left the client's lock held, and the models with the service."""
    with ending_in_order() as end_if_asked:
        end_if_asked()
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            end_if_asked()
        # Cleaning up takes the time it takes.
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGALRM])
def test_a_turn_that_takes_long_is_interrupted(second: signal.Signals) -> None:
    """By whoever asks again, or after a second, as where a service does not answer."""
    with ending_in_order():
        signal.raise_signal(signal.SIGINT)
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(second)
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_an_output_that_knows_no_plus_minus_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of errors ended in a traceback where the terminal takes ASCII only."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    with pytest.raises(SystemExit):
        main(["--version"])
    print("15.0 ± 0.4", flush=True)
    assert written.getvalue().endswith(b"15.0 ? 0.4\n")


@pytest.mark.parametrize("given", [[], ["sevre"], ["key", "ops", "--scope-s", "admin"]])
def test_what_is_no_command_ends_with_its_usage(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever asks for nothing, or mistypes, is told so in words: status 2, no trace."""
    with pytest.raises(SystemExit) as ended:
        main(given)
    assert ended.value.code == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("usage: misclick")
    assert shown.out == ""


def _run_into(output: int, unbuffered: str) -> tuple[int, str]:
    """Make a key, standard output being this; return the exit status, and what is said of it."""
    command = [sys.executable, "-m", "service.cli", "key", "ops"]
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(
        command, stdout=output, stderr=subprocess.PIPE, text=True, env=environment, check=False
    )
    _, _, said = done.stderr.partition("\n")
    return done.returncode, said


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_pipe_that_nobody_reads_ends_a_command_quietly(unbuffered: str) -> None:
    """`misclick ... | head` ended in a traceback."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert _run_into(writing, unbuffered) == (1, "")
    finally:
        os.close(writing)


def test_whoever_tells_why_a_command_ends_keeps_quiet_about_pipes() -> None:
    """Some commands catch what a file may raise, and took a closed pipe for that."""
    with pytest.raises(BrokenPipeError):
        ended("noise", BrokenPipeError())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that is always full")
def test_an_output_that_takes_nothing_is_told() -> None:
    """`misclick key >> keys.json` on a full disk ended with 120, and in words of Python's."""
    with Path("/dev/full").open("wb") as full:
        said = "misclick: standard output: No space left on device\n"
        assert _run_into(full.fileno(), "") == (2, said)


@pytest.mark.parametrize("command", [["evaluate", "ads"], ["relearn", "ads", "ads-2"]])
def test_an_output_that_gets_full_is_told(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is longer than a buffer is written before the end, and ended in a traceback."""

    def refuse(_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    name = command[0]
    monkeypatch.setattr(Client, name, lambda *_, **__: None)
    monkeypatch.setattr(f"service.{name}_command.print_json", refuse)
    assert main([*command, *URL, "--json"]) == 2
    said = f"misclick {name}: [Errno {errno.ENOSPC}] No space left on device\n"
    assert capsys.readouterr().err == said


def test_ctrl_c_while_a_command_is_loaded_is_no_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first third of a second of a command ended in a traceback."""

    def load(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("service.cli.import_module", load)
    assert main(["key", "ops"]) == 130
    assert capsys.readouterr().err == "misclick: stopped\n"


def test_learners_can_be_written_in_two_ways() -> None:
    """Short options are numbers, switches or words; JSON says the same."""
    short = parse_learner("x:a=1,b=1.5,c=true,d=word,e=1e-3,f=false,g=1e999")
    said = {"kind": "x", "a": 1, "b": 1.5, "c": True, "d": "word", "e": 0.001}
    assert short == said | {"f": False, "g": "1e999"}
    assert type(short["a"]) is int
    assert parse_learner(json.dumps(short)) == short
    assert parse_learner("bpa") == {"kind": "bpa"}


@pytest.mark.parametrize("text", ["bpa:a=1,b=2,a=1", "bpa:kind=soba"])
def test_an_option_is_given_once(text: str) -> None:
    """The last one won, and silently: another learner than the first word says."""
    with pytest.raises(InputError, match=f"--learner: expected (a|kind) once, got '{text}'"):
        parse_learner(text)
