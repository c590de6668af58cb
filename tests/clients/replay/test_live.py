"""The running errors on a terminal."""

import io

from rich.console import Console

from clients.replay.live import LiveBoard
from clients.replay.run import Track


def show(*, terminal: bool) -> str:
    """Return what a replay of 50 rounds prints."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100)
    track = Track(50)
    with LiveBoard({"one": track}, 50, window=10, console=console) as board:
        for done in range(1, 51):
            track.record(wrong=done % 2 == 0, wrong_greedy=False)
            board.update(done)
    return out.getvalue()


def test_a_terminal_sees_bar_pace_and_errors() -> None:
    """Progress, rounds per second, time left and the running error are on the screen."""
    text = show(terminal=True)
    for part in ("50/50", "rounds/s", "s left", "50.0 %", "last 10 rounds"):
        assert part in text


def test_a_log_file_gets_a_few_plain_lines() -> None:
    """Where there is no terminal, the output stays short and without control codes."""
    text = show(terminal=False)
    assert "\x1b" not in text
    lines = text.splitlines()
    assert 1 <= len(lines) <= 12
    assert lines[-1].startswith("50 of 50: one 50.0 %")
