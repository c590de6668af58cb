"""The running errors of a replay on a terminal: a progress bar above a table."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from clients.replay.report import percent, table
from clients.replay.run import Track

#: Fast enough to look alive, slow enough to cost nothing.
REFRESH_S = 0.25
#: A log file instead of a terminal gets this many lines.
PLAIN_LINES = 10


class LiveBoard:
    """Shows how far a replay is, how fast, how long it still takes, and who errs how often.

    Where the output is no terminal, it prints ten plain lines instead.

    Parameters
    ----------
    tracks
        What each player got wrong so far, by name.
    horizon
        Number of rounds.
    window
        The column of recent errors covers this many rounds.
    console
        Where to print.

    Examples
    --------
    ::

        with LiveBoard(replay.tracks, stream.horizon, window=1000, console=Console()) as board:
            for done in replay.run():
                board.update(done)
    """

    def __init__(
        self, tracks: Mapping[str, Track], horizon: int, *, window: int, console: Console
    ) -> None:
        self._tracks = tracks
        self._horizon = horizon
        self._window = window
        self._console = console
        self._started_s = time.perf_counter()
        self._next_s = self._started_s
        self._lines = 1
        self._progress = Progress(
            BarColumn(bar_width=40),
            MofNCompleteColumn(),
            TextColumn("{task.fields[pace]}"),
            TimeElapsedColumn(),
        )
        self._task = self._progress.add_task("rounds", total=horizon, pace="")
        self._live = Live(console=console, auto_refresh=False, transient=True)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the board was made."""
        return time.perf_counter() - self._started_s

    def __enter__(self) -> Self:
        if self._console.is_interactive:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._console.is_interactive:
            self._live.stop()

    def update(self, done: int) -> None:
        """Tell that `done` rounds are over; it shows at most four times a second."""
        now_s = time.perf_counter()
        if now_s < self._next_s and done < self._horizon:
            return
        self._next_s = now_s + REFRESH_S
        per_s = done / (now_s - self._started_s)
        pace = f"{per_s:,.0f} rounds/s, {(self._horizon - done) / per_s:,.0f} s left"
        if self._console.is_interactive:
            self._progress.update(self._task, completed=done, pace=pace)
            board = Group(self._progress, table(self._tracks, window=self._window))
            self._live.update(board, refresh=True)
        elif done * PLAIN_LINES >= self._lines * self._horizon:
            self._lines = done * PLAIN_LINES // self._horizon + 1
            errors = ", ".join(
                f"{name} {percent(track.error())}" for name, track in self._tracks.items()
            )
            line = f"{done:,} of {self._horizon:,}: {errors}; {pace}"
            self._console.print(line, soft_wrap=True, markup=False)
