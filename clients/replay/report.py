"""The results of a replay: a table, JSON values, a picture."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from textwrap import wrap
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from rich.markup import escape
from rich.table import Table

from clients._pictures import save
from clients.replay.run import Track
from clients.replay.stream import ClickStream

#: Points of a curve: as many as an eye tells apart across the picture.
POINTS = 200
#: A cumulative error over fewer rounds is mostly chance.
FIRST_ROUND = 100
#: Where the logarithmic axis of an error carries a number: one a decade would be too few.
ERROR_TICKS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, *(tenth / 10 for tenth in range(1, 11)))
#: Two hues that also colour-blind eyes tell apart come first; then further ones (Okabe-Ito).
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
STYLES = ("-", "--", ":", "-.")
#: Curves whose names find room between them, where the axes are logarithmic and curves fall along
#: one diagonal; other names stand beside the panel, which takes so many inches.
MOST_INSIDE = 6
BESIDE_INCHES = 3.4
#: A title has room for so many characters a line, above the picture for each of its panels.
TITLE_CHARS, PANEL_CHARS = 45, 60
#: Top of an axis of errors: none is above 1, and a line there should be seen.
HIGHEST = 1.03


def table(tracks: Mapping[str, Track], *, window: int) -> Table:
    """Return the running errors side by side.

    Parameters
    ----------
    tracks
        What each player got wrong so far, by name.
    window
        The column of recent errors covers this many rounds.

    Examples
    --------
    >>> track = Track(horizon=2)
    >>> track.record(wrong=True, wrong_greedy=False)
    >>> table({"ads": track}, window=1000).row_count
    1
    """
    result = Table()
    # Options tell learners of one kind apart: a name that is cut off names nobody.
    result.add_column("learner", overflow="fold")
    result.add_column("error so far", justify="right")
    result.add_column(f"last {window:,} rounds", justify="right")
    result.add_column("greedy error", justify="right")
    result.add_column("clicks", justify="right")
    for name, track in tracks.items():
        errors = (track.error(), track.window_error(window), track.greedy_error())
        result.add_row(escape(name), *map(percent, errors), f"{track.clicks:,}")
    return result


def percent(share: float) -> str:
    """Write a share as a percentage, or a dash where it is not known yet.

    Examples
    --------
    >>> percent(0.1234), percent(math.nan)
    ('12.3 %', '-')
    """
    return "-" if math.isnan(share) else f"{100 * share:.1f} %"


def as_json(
    stream: ClickStream, tracks: Mapping[str, Track], *, window: int, elapsed_s: float
) -> dict[str, Any]:
    """Return everything about a finished replay as JSON values.

    Parameters
    ----------
    stream
        What was played.
    tracks
        What each player got wrong, by name; all of the same number of rounds, at least 1.
    window
        The recent error covers this many rounds.
    elapsed_s
        How long it took.
    """
    done = min(track.done for track in tracks.values())
    rounds = spaced_rounds(done, "log")
    noise = stream.noise
    return {
        "data": stream.dataset.name,
        "labels": list(stream.dataset.labels),
        "horizon": stream.horizon,
        "seed": stream.seed,
        "replacement": stream.replacement,
        "noise": {
            "rho_0": stream.rho_0,
            "rho_1": stream.rho_1,
            "delay": list(noise.delay),
            "shuffle": noise.shuffle,
            "drop": noise.drop,
            "duplicate": noise.duplicate,
        },
        "rounds": done,
        "elapsed_s": elapsed_s,
        "rounds_per_s": done / elapsed_s,
        "window": window,
        "curve_rounds": rounds.tolist(),
        "learners": [
            {
                "name": name,
                "error": track.error(),
                "window_error": track.window_error(window),
                "greedy_error": track.greedy_error(),
                "clicks": track.clicks,
                "curve": track.curve(rounds).tolist(),
            }
            for name, track in tracks.items()
        ],
    }


def spaced_rounds(done: int, scale: Literal["log", "linear"]) -> NDArray[np.int64]:
    """Return up to 200 numbers of rounds, ascending, evenly spaced for the eye.

    Examples
    --------
    >>> spaced_rounds(3, "log").tolist()
    [1, 2, 3]
    """
    first = min(FIRST_ROUND, done) if done > POINTS else 1
    space = np.geomspace if scale == "log" else np.linspace
    return np.unique(np.rint(space(first, done, POINTS)).astype(np.int64))


def plot(
    panels: Mapping[str, Mapping[str, Track]],
    path: Path,
    *,
    title: str,
    scale: Literal["log", "linear"] = "log",
) -> None:
    """Draw the cumulative errors into a PNG file, panels side by side.

    Parameters
    ----------
    panels
        Title of each panel -> what is drawn in it, by name.
    path
        The file to write.
    title
        Shown above all panels.
    scale
        `"log"` draws both axes logarithmically, as the literature does; `"linear"` neither.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    # Importing matplotlib takes half a second, and a replay without a picture needs none.
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    widths = [5.6 + BESIDE_INCHES * _beside(each, scale) for each in panels.values()]
    figure = Figure(figsize=(sum(widths) + 0.6, 4.6), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(_lines(title, TITLE_CHARS * len(panels)), fontsize=13, fontweight="bold")
    grid = figure.subplots(1, len(panels), squeeze=False, sharey=True)
    for axes, (panel, tracks) in zip(grid[0], panels.items(), strict=True):
        _draw(axes, tracks, scale)
        axes.set_title(_lines(panel, PANEL_CHARS), fontsize=11)
    grid[0][0].set_ylabel("cumulative error of the label shown")
    save(figure, path)


def _beside(tracks: Mapping[str, Track], scale: str) -> bool:
    """Whether names stand beside the panel: between the curves they would cover some."""
    return scale == "linear" or len(tracks) > MOST_INSIDE


def _lines(text: str, chars: int) -> str:
    """Return a title in as many lines as it takes; a dollar in it begins no formula."""
    lines = [line for part in text.splitlines() for line in wrap(part, chars)]
    return "\n".join(lines).replace("$", r"\$")


def _draw(axes: Any, tracks: Mapping[str, Track], scale: Literal["log", "linear"]) -> None:
    """Draw the curves of one panel, each with its last value in the legend."""
    from matplotlib.ticker import (  # noqa: PLC0415
        FixedLocator,
        FuncFormatter,
        LogFormatter,
        NullLocator,
    )

    for index, (name, track) in enumerate(tracks.items()):
        rounds = spaced_rounds(track.done, scale)
        errors = track.curve(rounds)
        colour = COLOURS[index % len(COLOURS)]
        style = STYLES[index // len(COLOURS) % len(STYLES)]
        label = f"{name}: {percent(float(errors[-1]))}".replace("$", r"\$")
        if scale == "log":
            # There is no logarithm of no error at all: half an error stands for it.
            errors = np.maximum(errors, 0.5 / rounds)
        axes.plot(rounds, errors, style, color=colour, linewidth=2, label=label)
    if scale == "log":
        axes.set_xscale("log")
        # Over less than a decade, 200 is written as such, and not as 2 times 10 squared.
        axes.xaxis.set_minor_formatter(LogFormatter())
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(FixedLocator(ERROR_TICKS))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(bottom=0)
    axes.set_ylim(top=min(HIGHEST, axes.get_ylim()[1]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
    axes.yaxis.set_tick_params(labelleft=True)
    axes.set_xlabel("round")
    axes.grid(visible=True, color="#DDDDDD", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    if _beside(tracks, scale):
        axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=11)
    else:
        axes.legend(frameon=False, loc="best", fontsize=11)
