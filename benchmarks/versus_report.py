"""What the runs say: a table, the targets, and the figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from benchmarks.command import Target, at_least, at_most
from benchmarks.versus_ours import ESTIMATED, NEW, OTHER, TOLD, is_ours
from benchmarks.versus_results import Measure, Results, Setting
from benchmarks.versus_streams import BLOCK, COMMON, NONE, PER_LABEL, Curve, family

BLIND, KNOWING = NEW, f"{NEW} {TOLD}"
UNIFORM = tuple(noise for noise in COMMON if noise != NONE)

#: RCNBF's cumulative error on USPS after 5,000,000 clicks (BENCHMARKS.md), and the clicks in which
#: it is to be reached.
RCNBF_ERRORS, RCNBF_CLICKS = {".15/.15": 0.219, ".4/.4": 0.459}, 5_000_000 // 50

#: Columns of the tables: the best of each family of peers, and our learners.
COLUMNS = (
    "vw", "linucb", "river", f"rcnbf {TOLD}", f"rcine {ESTIMATED}", "bpa", "confidit",
    f"{OTHER} {ESTIMATED}", KNOWING, BLIND,
)  # fmt: skip
#: Rounds of a point in the figure.
WINDOW = 2_000


#: A rival without mistakes is taken for one with half of one in the last fifth of 60,000 rounds:
#: ratios stay finite, and one mistake against none misses every target.
LEAST_ERROR = 0.5 / 12_000


class Match(NamedTuple):
    """Two contestants on the same streams: their mean errors, and who the rival was."""

    ours: float
    theirs: float
    rival: str

    @property
    def ratio(self) -> float:
        """Our error in shares of theirs."""
        return self.ours / max(self.theirs, LEAST_ERROR)


def match(
    results: Results,
    setting: Setting,
    ours: str,
    is_rival: Callable[[str], bool],
    horizon: int,
    measure: Measure,
) -> Match | None:
    """Compare a contestant with the best of its rivals, on the streams that both played.

    Rivals that share fewer streams with it than another does have been dropped on the way.
    """
    mine = results.seeds(setting, ours, horizon)
    matches: list[tuple[int, Match]] = []
    for rival in filter(is_rival, results.contestants(setting, horizon)):
        theirs = results.seeds(setting, rival, horizon)
        common = sorted(mine.keys() & theirs.keys())
        if rival != ours and common:
            our_error, their_error = (
                float(np.mean([measure(curves[seed], horizon) for seed in common]))
                for curves in (mine, theirs)
            )
            matches.append((len(common), Match(our_error, their_error, rival)))
    most = max((count for count, _ in matches), default=0)
    return min(
        (found for count, found in matches if count == most),
        key=lambda found: found.theirs,
        default=None,
    )


def judge(
    results: Results, datasets: Iterable[str], horizons: tuple[int, int], speed: float
) -> list[Target]:
    """Return the targets that the results can be held to."""
    targets: list[Target] = []

    def add_ratios(name: str, found: list[Match], mean: float | None, worst: float) -> None:
        ratios = [each.ratio for each in found]
        if ratios and mean is not None:
            of = f"{name}, mean of {len(ratios)}, at most"
            targets.append(at_most(of, float(np.mean(ratios)), mean))
        if ratios:
            of = f"{name}, worst of {len(ratios)}, at most"
            targets.append(at_most(of, max(ratios), worst))

    def matches(
        noises: Iterable[str],
        over: tuple[int, ...],
        rival: Callable[[str], bool],
        measure: Measure,
    ) -> list[Match]:
        """Compare the learner that does not know the rates with rivals, setting by setting."""
        return [
            found
            for data in datasets
            for noise in noises
            for horizon in dict.fromkeys(over)
            if (found := match(results, Setting(data, noise), BLIND, rival, horizon, measure))
        ]

    total, last = Curve.cumulative, Curve.last
    full = horizons[1:]
    for horizon in dict.fromkeys(horizons):
        found = matches(UNIFORM, (horizon,), is_vw, total)
        name = f"same noise for all labels, {horizon:,} rounds: error over best vw's"
        add_ratios(name, found, 0.75, 1.0)
    found = matches([NONE], horizons, is_peer, total)
    add_ratios("no noise: error over best peer's", found, None, 1.0)
    found = matches([PER_LABEL], full, is_vw, last)
    add_ratios("noise by label: last fifth over best vw's", found, 0.65, 0.65)
    found = matches([PER_LABEL], full, lambda name: name == KNOWING, last)
    add_ratios("noise by label: last fifth over told the rates", found, 1.15, 1.15)
    for noise, error in RCNBF_ERRORS.items():
        clicks = clicks_to(results, Setting("usps", noise), BLIND, error)
        if clicks is not None:
            name = f"usps {noise}: clicks to rcnbf's {error:g} of 5,000,000, at most"
            targets.append(at_most(name, clicks, RCNBF_CLICKS))
    targets.append(at_least("times faster a round than vw, K=10 d=256, at least", speed, 10.0))
    return targets


def is_vw(name: str) -> bool:
    """Whether a contestant is Vowpal Wabbit."""
    return family(name) == "vw"


def is_peer(name: str) -> bool:
    """Whether a contestant is neither of the two forwards."""
    return family(name) not in (NEW, OTHER)


def clicks_to(results: Results, setting: Setting, contestant: str, error: float) -> float | None:
    """Return the mean number of rounds after which the error so far is down to `error`.

    Infinite where a run did not get that far; None where there is no run.
    """
    clicks = []
    for curve in results.seeds(setting, contestant, BLOCK).values():
        ends = range(BLOCK, curve.n_rounds + 1, BLOCK)
        clicks.append(next((end for end in ends if curve.cumulative(end) <= error), np.inf))
    return float(np.mean(clicks)) if clicks else None


def best_of(results: Results, setting: Setting, column: str, horizon: int, measure: Measure) -> str:
    """Return the contestant of a column: ours by its name, a peer the best of those that stayed."""
    if is_ours(column):
        return column
    seeds = {
        name: results.seeds(setting, name, horizon)
        for name in results.contestants(setting, horizon)
        if family(name) == column
    }
    most = max(map(len, seeds.values()), default=0)
    means = {
        name: np.mean([measure(curve, horizon) for curve in curves.values()])
        for name, curves in seeds.items()
        if len(curves) == most
    }
    return min(means, key=lambda name: means[name], default="")


def print_tables(
    results: Results, datasets: Iterable[str], noises: Iterable[str], horizons: tuple[int, int]
) -> None:
    """Print the mean errors: a line for each data set and noise, a column for each contestant."""
    settings = [Setting(data, noise) for data in datasets for noise in noises]
    tables: list[tuple[str, int, Measure]] = [
        (f"error of {horizon:,} rounds", horizon, Curve.cumulative)
        for horizon in dict.fromkeys(horizons)
    ]
    tables += [
        (f"error over the last fifth of {horizon:,}", horizon, Curve.last)
        for horizon in dict.fromkeys(horizons)
    ]
    for title, horizon, measure in tables:
        print(f"\n{title}\n{'':24s}" + "".join(f"{name:>18s}" for name in COLUMNS))
        for setting in settings:
            cells = []
            for column in COLUMNS:
                name = best_of(results, setting, column, horizon, measure)
                curves = results.seeds(setting, name, horizon).values()
                mean = np.mean([measure(each, horizon) for each in curves]) if curves else None
                cells.append(f"{'-' if mean is None else f'{mean:.3f} ({len(curves)})':>18s}")
            print(f"{setting.data + ' ' + setting.noise:24s}" + "".join(cells))
    print("(in brackets: streams)\n")


def summary(
    results: Results, datasets: Iterable[str], noises: Iterable[str], horizons: tuple[int, int]
) -> list[dict[str, Any]]:
    """Return every contestant's means in every setting."""
    rows: list[dict[str, Any]] = []
    for setting in (Setting(data, noise) for data in datasets for noise in noises):
        for horizon in dict.fromkeys(horizons):
            for name in results.contestants(setting, horizon):
                curves = list(results.seeds(setting, name, horizon).values())
                by_rounds = np.mean([c.by_rounds(10_000, horizon) for c in curves], axis=0)
                rows.append(
                    {
                        **setting._asdict(),
                        "contestant": name,
                        "rounds": horizon,
                        "streams": len(curves),
                        "error": float(np.mean([c.cumulative(horizon) for c in curves])),
                        "last_fifth": float(np.mean([c.last(horizon) for c in curves])),
                        "by_10000": by_rounds.round(4).tolist(),
                        "us_per_round": float(np.mean([c.us_per_round for c in curves])),
                    }
                )
    return rows


def draw_figure(results: Results, setting: Setting, horizon: int, path: Path) -> bool:
    """Draw error against clicks of the best of each; return whether there was anything to draw."""
    lines = (
        ("vw", "Vowpal Wabbit, best of its kind", "tab:blue", "-"),
        (f"rcnbf {TOLD}", "RCNBF, told the mean rates", "tab:green", "-"),
        (KNOWING, "forward_softmax, told the rates", "tab:red", ":"),
        (BLIND, "forward_softmax, told nothing", "tab:red", "-"),
    )
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for column, label, colour, style in lines:
        name = best_of(results, setting, column, horizon, Curve.cumulative)
        curves = results.seeds(setting, name, horizon).values()
        if not curves:
            continue
        errors = np.array([curve.by_rounds(WINDOW, horizon) for curve in curves])
        clicks = (np.arange(errors.shape[1]) + 1) * WINDOW
        axes.plot(clicks, errors.mean(axis=0), color=colour, linestyle=style, label=label)
        axes.fill_between(
            clicks, errors.min(axis=0), errors.max(axis=0), color=colour, alpha=0.12, linewidth=0
        )
    if not axes.lines:
        return False
    axes.set_xlabel("rounds")
    axes.set_ylabel(f"wrong labels shown, share of {WINDOW:,} rounds")
    title = f"{setting.data}: false and missed clicks that differ by label"
    axes.set_title(title, fontsize=10)
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, linewidth=0.3)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=120)
    return True
