"""What is known of a model's noise: tables and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.markup import escape
from rich.table import Table

from clients._pictures import save
from clients.errors import InputError
from clients.noise_types import Estimate, LabelRates, Noise

#: Two-sided 95 % of a normal distribution, in standard errors.
Z_95 = 1.96
#: Nobody reads a longer table; JSON has the rest.
MOST_ROWS = 40
#: More panels than these would be too small to see two lines in.
MOST_PANELS = 12
PANELS_A_ROW = 4
#: A longer name of a label would run into the next panel.
TITLE_CHARS = 24
#: Orange and blue, which also colour-blind eyes tell apart (Okabe-Ito), on a light grey.
RHO_0_COLOUR, RHO_1_COLOUR, BARS_COLOUR = "#D55E00", "#0072B2", "#B9C0C8"
#: Counts are drawn by their square root: few instances belong to a label, and they matter.
SHARE_TICKS = (0.001, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)


def interval(rate: float, error: float) -> tuple[float, float]:
    """Return the 95 % interval of a rate, within [0, 1].

    Parameters
    ----------
    rate
        In [0, 1].
    error
        Its standard error, at least 0.

    Examples
    --------
    >>> interval(0.5, 0.0), interval(0.01, 1.0)
    ((0.5, 0.5), (0.0, 1.0))
    """
    return max(0.0, rate - Z_95 * error), min(1.0, rate + Z_95 * error)


def rates_table(noise: Noise) -> Table:
    """Return the rates in force; with intervals where an estimate or the learner found them."""
    result = Table(title="Rates in force", title_justify="left")
    result.add_column("rate")
    result.add_column("in force", justify="right")
    result.add_column("95 % interval", justify="right")
    found, own = noise.source, noise.errors
    errors = (None, None) if found is None else (found.rho_0_error, found.rho_1_error)
    if own is not None:
        errors = (own.rho_0, own.rho_1)
    rates = (noise.rates.rho_0, noise.rates.rho_1)
    names = ("rho_0, false clicks", "rho_1, missed clicks")
    for name, rate, error in zip(names, rates, errors, strict=True):
        result.add_row(name, f"{100 * rate:.1f} %", _between(rate, error))
    return result


def summary(noise: Noise) -> list[str]:
    """Return sentences: where the rates come from, the newest verdict, what comes next."""
    found, newest = noise.source, noise.history[0] if noise.history else None
    if noise.known:
        lines = ["They were set, and stay until others are set or an estimate is trusted."]
    elif noise.learned:
        lines = ["The learner finds them itself, with each click."]
        if len(noise.rates_by_label) > 1 and len(set(noise.rates_by_label.values())) == 1:
            # The first feedback sets the label that was shown apart from the others.
            lines.append("It has learned from no feedback yet: they are what it begins with.")
    elif found is None:
        lines = ["No estimate in the history is behind the rates in force."]
    else:
        lines = [f"The rates in force come from estimate {found.number}, which is trusted."]
    if newest is not None and newest is not found:
        lines.append(f"The newest estimate is {newest.number}: {newest.verdict}.")
    if noise.running is not None:
        lines.append(
            f"Estimate {noise.running.number} is being made: {noise.running.progress:.0%}."
        )
    elif noise.asked:
        lines.append("An estimate is asked for and begins when no other model's is being made.")
    elif noise.estimate_every or noise.estimate_on_drift or not noise.learned:
        every = f"every {noise.estimate_every:,} feedbacks" if noise.estimate_every else ""
        drift = "when clicks are seen to have changed" if noise.estimate_on_drift else ""
        when = " and ".join(filter(None, (every, drift))) or "only when somebody asks for it"
        lines.append(f"One is made {when}.")
    if noise.restarts:
        times = "once" if noise.restarts == 1 else f"{noise.restarts:,} times"
        lines.append(f"Clicks were fewer than expected, or more: the learner began anew {times}.")
    if noise.silent:
        lines.append(
            "No clicks come at all, not even false ones: nothing is learned until one does."
        )
    if noise.context_free:
        lines.append(
            "Instances predict clicks worse than click rates do: it decides by these alone."
        )
    if noise.label_by_label:
        lines.append(
            "Label by label, clicks are predicted better: several may be right for an instance, or "
            "none. It decides so, and no rates are known."
        )
    if noise.drift_seq:
        lines.append(f"Clicks were last seen to have changed at event {noise.drift_seq:,}.")
    return lines


def in_force_table(noise: Noise) -> Table:
    """Return the rates of each label in force, the most often clicked by mistake first."""
    doubted = bool(noise.errors_by_label)
    title = f"In force by label{', ± standard error' if doubted else ''}"
    result = Table(title=title, title_justify="left")
    result.add_column("label", overflow="fold")
    for name in ("rho_0, %", "rho_1, %"):
        result.add_column(name, justify="right", no_wrap=True)
    rows = sorted(noise.rates_by_label.items(), key=lambda row: -row[1].rho_0)
    for label, rates in rows[:MOST_ROWS]:
        each = [f"{100 * rates.rho_0:.1f}", f"{100 * rates.rho_1:.1f}"]
        if doubted:
            errors = noise.errors_by_label[label]
            each[0] += f" ± {100 * errors.rho_0:.1f}"
            each[1] += f" ± {100 * errors.rho_1:.1f}"
        result.add_row(escape(label), *each)
    return result


def history_table(history: Sequence[Estimate]) -> Table:
    """Return the results of estimates, one a row, in the order given."""
    result = Table(title="Estimates, ± standard error", title_justify="left")
    for name in ("no.", "ended (UTC)", "rounds", "rho_0, %", "rho_1, %"):
        result.add_column(name, justify="right", no_wrap=True)
    result.add_column("verdict")
    for one in history:
        result.add_row(
            str(one.number),
            f"{datetime.fromtimestamp(one.ended_at_ms / 1000, UTC):%Y-%m-%d %H:%M}",
            f"{one.examples:,}",
            _plus_minus(one.rho_0, one.rho_0_error),
            _plus_minus(one.rho_1, one.rho_1_error),
            escape(one.verdict),
        )
    return result


def label_table(estimate: Estimate) -> Table:
    """Return the rates of each label of an estimate, the most shown labels first."""
    title = f"Estimate {estimate.number} by label, ± standard error"
    result = Table(title=title, title_justify="left")
    result.add_column("label", overflow="fold")
    for name in ("shown", "rho_0, %", "rho_1, %"):
        result.add_column(name, justify="right", no_wrap=True)
    for one in most_shown(estimate, MOST_ROWS):
        rho_0 = _plus_minus(one.rho_0, one.rho_0_error)
        rho_1 = _plus_minus(one.rho_1, one.rho_1_error)
        result.add_row(escape(one.label), f"{one.shown:,}", rho_0, rho_1)
    return result


def label_summary(estimate: Estimate) -> str:
    """Return a sentence on how the rates of the labels compare."""
    left_out = len(estimate.by_label) - MOST_ROWS
    said = f"{left_out:,} labels were shown less often than these. " if left_out > 0 else ""
    differ = "more than" if estimate.labels_differ else "no more than"
    return f"{said}The labels' rates differ {differ} chance explains."


def _between(rate: float, error: float | None) -> str:
    if error is None:
        return "-"
    low, high = interval(rate, error)
    return f"{100 * low:.1f} to {100 * high:.1f} %"


def _plus_minus(rate: float | None, error: float | None) -> str:
    return "-" if rate is None or error is None else f"{100 * rate:.1f} ± {100 * error:.1f}"


def most_shown(estimate: Estimate, most: int) -> list[LabelRates]:
    """Return the labels shown most often, `most` of them or all, in descending order."""
    return sorted(estimate.by_label, key=lambda one: -one.shown)[:most]


def plot(estimate: Estimate, path: Path, *, title: str) -> None:
    """Draw the click probabilities that the network predicts into a PNG file, a panel a label.

    A good estimate has two hills, apart: instances for which the label is wrong, around rho_0,
    and those for which it is right, around 1 - rho_1. At most 12 labels are drawn, those shown
    most often.

    Parameters
    ----------
    estimate
        The result to draw; its histogram and its chosen points, for each label.
    path
        The file to write.
    title
        Shown above all panels.

    Raises
    ------
    InputError
        The estimate has no histogram: its rounds were refused before training.
    OSError
        The file cannot be written.
    """
    # Importing matplotlib takes half a second, and the tables need none.
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: PLC0415

    if not estimate.histogram:
        raise InputError(
            f"estimate {estimate.number}: expected one with a histogram, got {estimate.verdict!r}"
        )
    labels = [one.label for one in estimate.by_label]
    counts = np.asarray(estimate.histogram, dtype=np.float64)
    shares = dict(zip(labels, counts / max(counts[0].sum(), 1.0), strict=True))
    chosen = most_shown(estimate, MOST_PANELS)
    rows = -(-len(chosen) // PANELS_A_ROW)
    columns = -(-len(chosen) // rows)
    size = (max(3.0 * columns, 7.5) + 0.4, 2.3 * rows + 1.3)
    # Wide enough that the 1 of one axis does not meet the 0 of the next.
    figure = Figure(size, 150, layout=ConstrainedLayoutEngine(w_pad=0.09, h_pad=0.06))
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    panels = [axes for row in grid for axes in row]
    for axes, one in zip(panels, chosen, strict=False):
        _draw(axes, shares[one.label], one)
    # The axes share their limits: some room above the highest bar of all.
    panels[0].set_ylim(0.0, 1.1 * max(shares[one.label].max() for one in chosen))
    for axes in panels[len(chosen) :]:
        axes.remove()
    for axes in panels[max(0, len(chosen) - columns) : len(chosen)]:
        axes.xaxis.set_tick_params(labelbottom=True)
    figure.supxlabel("q: probability of a click on this label, says the network", fontsize=11)
    figure.supylabel("share of instances", fontsize=11)
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=3,
        frameon=False,
        fontsize=10,
        title=title.replace("$", r"\$"),
        title_fontproperties={"size": 13, "weight": "bold"},
    )
    save(figure, path)


def _draw(axes: Any, shares: NDArray[np.float64], one: LabelRates) -> None:
    """Draw the distribution of one label, and its rates with their intervals."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator  # noqa: PLC0415

    edges = np.linspace(0.0, 1.0, len(shares) + 1)
    axes.stairs(shares, edges, fill=True, color=BARS_COLOUR, label="instances")
    for point, error, colour, meaning in (
        (one.rho_0, one.rho_0_error, RHO_0_COLOUR, "rho_0: the label is wrong"),
        (
            1 - one.rho_1,
            one.rho_1_error,
            RHO_1_COLOUR,
            "1 - rho_1: the label is right (bands: 95 %)",
        ),
    ):
        axes.axvspan(*interval(point, error), color=colour, alpha=0.18, linewidth=0, zorder=0.4)
        axes.axvline(point, color=colour, linewidth=1.8, label=meaning)
    axes.set_yscale("function", functions=(np.sqrt, np.square))
    axes.set_xlim(0.0, 1.0)
    axes.yaxis.set_major_locator(FixedLocator(SHARE_TICKS))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
    axes.xaxis.set_major_locator(FixedLocator((0.0, 0.25, 0.5, 0.75, 1.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.grid(visible=True, axis="y", color="#E4E4E4", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    name = one.label if len(one.label) <= TITLE_CHARS else one.label[: TITLE_CHARS - 1] + "…"
    # A dollar would begin a formula.
    axes.set_title(name.replace("$", r"\$"), fontsize=10, loc="left")
    axes.set_title(f"shown {one.shown:,}", fontsize=8, loc="right", color="#666666")
