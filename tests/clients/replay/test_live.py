"""The running errors on a terminal."""

import io
import time

import pytest
from rich.console import Console

from clients.replay.live import LiveBoard
from clients.replay.run import Track


def show(
    monkeypatch: pytest.MonkeyPatch, *, terminal: bool, round_s: float, name: str = "one"
) -> str:
    """Return what a replay of 50 rounds prints, each of which takes so long."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100)
    track = Track(50)
    monkeypatch.setattr(time, "perf_counter", lambda: 1000 + round_s * track.done)
    with LiveBoard({name: track}, 50, window=10, console=console) as board:
        for done in range(1, 51):
            track.record(wrong=done % 2 == 0, wrong_greedy=False)
            board.update(done)
        assert board.elapsed_s == 50 * round_s
    return out.getvalue()


def test_a_terminal_sees_bar_pace_and_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress, rounds per second, time left and the running error are on the screen.

    Four times a second, and when it is over: after 1, 17, 33, 49 and 50 rounds.
    """
    text = show(monkeypatch, terminal=True, round_s=1 / 64)
    for part in ("50/50", "64 rounds/s", "0 s left", "50.0 %", "last 10 rounds"):
        assert part in text
    assert text.replace("50/50", "").count("/50") == 4


def test_a_log_file_gets_a_few_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no terminal, the output stays short and without control codes."""
    text = show(monkeypatch, terminal=False, round_s=1)
    assert text.splitlines() == [
        f"{done} of 50: one {100 * (done // 2) / done:.1f} %; 1 rounds/s, {50 - done} s left"
        for done in range(5, 51, 5)
    ]
    # As often as a terminal, and not for each of those ten that passed meanwhile.
    lines = show(monkeypatch, terminal=False, round_s=1 / 64).splitlines()
    assert [line.split()[0] for line in lines] == ["17", "33", "49", "50"]


def test_a_terminal_that_cannot_move_its_cursor_gets_plain_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A shell within an editor saw nothing until the replay was over."""
    monkeypatch.setenv("TERM", "dumb")
    shown = show(monkeypatch, terminal=True, round_s=1)
    assert shown == show(monkeypatch, terminal=False, round_s=1)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_name_with_brackets_stays_whole(
    monkeypatch: pytest.MonkeyPatch, *, terminal: bool
) -> None:
    """Rich takes [b] for the beginning of bold text, and [/b] alone for a mistake."""
    assert "one[/b]" in show(monkeypatch, terminal=terminal, round_s=1, name="one[/b]")


def test_the_time_left_is_what_the_rest_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """120 rounds in 30 s: the other 280 take 70."""
    out, track = io.StringIO(), Track(400)
    monkeypatch.setattr(time, "perf_counter", lambda: 1000 + track.done / 4)
    console = Console(file=out, force_terminal=False, width=100)
    with LiveBoard({"one": track}, 400, window=10, console=console) as board:
        for done in range(1, 121):
            track.record(wrong=False, wrong_greedy=False)
            board.update(done)
    assert out.getvalue().splitlines()[-1].endswith("4 rounds/s, 70 s left")
