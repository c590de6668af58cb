"""Our learners against what a user would pick instead, on streams of noisy clicks.

Run::

    python -m benchmarks.versus --data ../shared/data [--json] [--quick] [--out out]
        [--only peers|ours|report] [--datasets usps letter] [--seeds 5]

A stream is a data set drawn with replacement; a click says that the shown label was right, and is
flipped at common rates or at rates that differ by label (false clicks from [.02, .5], missed ones
from [.02, .3]). Features are the same for everybody: standardised, clipped, scaled to length 1,
with a constant. That was best for Vowpal Wabbit (USPS, 5,000 rounds, per label, two streams: .32;
without scaling .39; raw features scaled to length 1 were worse throughout).

Every configuration of a peer plays 5,000 rounds of one stream; the best four by cumulative error
and the best four over the last fifth play 20,000; the best one of each then plays all seeds and
60,000 rounds. So a peer's options are chosen for each data set and noise, on a stream that is
counted: in its favour; ``--only report --seeds 1`` reports that stream alone. Our learners have one
form for all. The 784-feature sets have two seeds.

Rates are unknown to ours unless it says "told": "estimated" asks NREst every 10,000 rounds for the
rates of all rounds so far, as the service does for ``forward``. Each finished run is appended to
``versus_<family>.jsonl`` in the output folder (``versus_vw.jsonl``, ``versus_bpa.jsonl``) and
not played again: a run can be broken off, resumed or widened, and two processes may share the
folder (``--only peers`` and ``--only ours``). After a change of a learner delete its file: how many
runs are of other code is printed at the start.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

from benchmarks.command import count, report
from benchmarks.learner_step import times_faster
from benchmarks.versus_open_bandit import smoke_test
from benchmarks.versus_ours import CONTESTANTS, NEW, OTHER, Ours, contestant, is_ours
from benchmarks.versus_peers import FAMILIES, QUICK_FAMILIES, make_peer
from benchmarks.versus_report import draw_figure, judge, print_tables, summary
from benchmarks.versus_results import Key, Results, Setting, finalists
from benchmarks.versus_streams import (
    DATASETS,
    NOISES,
    PER_LABEL,
    Contestant,
    Curve,
    Problem,
    Rates,
    family,
    noise_rates,
    play,
    problem,
)

#: Kinds that play one stream: their estimates take minutes and are no part of any target.
SLOW = ("rcine",)
#: Above so many features a set counts as large: played after all others, and LinUCB, which has a
#: full matrix for each label, plays one stream and the short horizon only.
MOST_MATRIX_FEATURES = 300
#: Above so many, there are few seeds, and LinUCB has one configuration.
MOST_FEATURES, FEW_SEEDS = 500, 2
#: Above so many, river, in plain Python, does not play.
MOST_RIVER_FEATURES = 100


class Plan(NamedTuple):
    """How long, and how often, contestants play.

    Attributes
    ----------
    screen, short, full
        Rounds: of every configuration, of those that are left, and of the finalists.
    kept
        Configurations left after the first, by each of two measures.
    estimate_every
        Rounds between two estimates of the noise rates.
    """

    datasets: tuple[str, ...]
    noises: tuple[str, ...]
    seeds: int
    screen: int
    short: int
    full: int
    kept: int
    families: dict[str, tuple[str, ...]]
    ours: tuple[str, ...]
    estimate_every: int


FULL = Plan(DATASETS, NOISES, 5, 5_000, 20_000, 60_000, 4, FAMILIES, CONTESTANTS, 10_000)
QUICK = Plan(
    ("optdigits", "pendigits"), (NOISES[0], ".2/.4", PER_LABEL), 1, 2_000, 6_000, 6_000, 1,
    QUICK_FAMILIES, CONTESTANTS[:-1], 3_000,
)  # fmt: skip


class Arena:
    """Plays what has no result yet."""

    def __init__(self, plan: Plan, folder: Path, results: Results) -> None:
        self.plan, self.results = plan, results
        self.folder = folder

    def problem(self, name: str) -> Problem:
        """Return a data set, prepared."""
        return problem(name, self.folder)

    def seeds(self, name: str) -> int:
        """Return how many streams of a data set are played."""
        many = self.n_features(name) > MOST_FEATURES
        return min(self.plan.seeds, FEW_SEEDS) if many else self.plan.seeds

    def n_features(self, name: str) -> int:
        """Return d of a data set, the constant included."""
        return int(self.problem(name).xs.shape[1])

    @property
    def large(self) -> list[str]:
        """Return the large data sets."""
        return [n for n in self.plan.datasets if self.n_features(n) > MOST_MATRIX_FEATURES]

    def configurations(self, peers: str, data: str) -> list[str]:
        """Return those of a family that can play a data set in reasonable time."""
        n_features, names = self.n_features(data), self.plan.families[peers]
        if peers == "river" and n_features > MOST_RIVER_FEATURES:
            return []
        if peers == "linucb" and n_features > MOST_FEATURES:
            return [names[len(names) // 2]]
        return list(names)

    def curve(self, setting: Setting, seed: int, contestant: str, n_rounds: int) -> Curve:
        """Return a run's result, and play it first if there is none."""
        key = Key(setting, seed, contestant)
        known = self.results.get(key, n_rounds)
        if known is not None:
            return known
        data = self.problem(setting.data)
        rates = noise_rates(setting.noise, data.n_labels, seed)
        curve = play(self._make(contestant, data, rates), data, rates, n_rounds, seed)
        self.results.add(key, curve)
        print(
            f"{setting.data}, {setting.noise}, seed {seed}, {n_rounds:,} rounds: {contestant}:"
            f" {curve.cumulative(n_rounds):.4f}, last fifth {curve.last(n_rounds):.4f},"
            f" {curve.us_per_round:.0f} us a round",
            flush=True,
        )
        return curve

    def _make(self, name: str, data: Problem, rates: Rates) -> Contestant:
        if is_ours(name):
            return Ours(name, data, rates, self.plan.estimate_every)
        return make_peer(name, data)


def search(arena: Arena, setting: Setting, peers: str) -> list[str]:
    """Choose a family's configurations on one stream: those that stay in the comparison."""
    plan, left = arena.plan, arena.configurations(peers, setting.data)
    if len(left) > plan.kept:
        for name in left:
            arena.curve(setting, 0, name, plan.screen)
        left = finalists(arena.results, setting, left, plan.screen, plan.kept)
    for name in left:
        arena.curve(setting, 0, name, plan.short)
    return finalists(arena.results, setting, left, plan.short)


def play_peers(arena: Arena) -> None:
    """Play the peers: large sets last, rates by label first, a seed of everything at a time."""
    plan, large = arena.plan, arena.large
    small = [name for name in plan.datasets if name not in large]
    noises = sorted(plan.noises, key=lambda noise: noise != PER_LABEL)
    for group in (small, *([name] for name in large)):
        chosen = {
            setting: [name for peers in plan.families for name in search(arena, setting, peers)]
            for data in group
            for noise in noises
            if (setting := Setting(data, noise))
        }
        for by_label in (True, False):
            for seed in range(plan.seeds):
                for setting, names in chosen.items():
                    if (setting.noise == PER_LABEL) == by_label:
                        play_finals(arena, setting, names, seed)


def play_finals(arena: Arena, setting: Setting, names: list[str], seed: int) -> None:
    """Play the full length with those that were chosen."""
    if seed >= arena.seeds(setting.data):
        return
    for name in names:
        if not (family(name) == "linucb" and setting.data in arena.large):
            arena.curve(setting, seed, name, arena.plan.full)


def play_ours(arena: Arena) -> None:
    """Play our learners: a contestant and seed of everything at a time, rates by label first."""
    noises = sorted(arena.plan.noises, key=lambda noise: noise != PER_LABEL)
    for name in arena.plan.ours:
        kind = family(name)
        for seed in range(arena.plan.seeds):
            for data in arena.plan.datasets:
                if seed < (1 if kind in SLOW else arena.seeds(data)):
                    for noise in noises:
                        arena.curve(Setting(data, noise), seed, name, arena.plan.full)


def say(arena: Arena, out: Path, *, quick: bool, as_json: bool) -> None:
    """Print tables and targets, draw the figure, and say it all once more as JSON."""
    plan, results = arena.plan, arena.results
    horizons = (plan.short, plan.full)
    print_tables(results, plan.datasets, plan.noises, horizons)
    shown = plan.datasets[0]
    if draw_figure(results, Setting(shown, PER_LABEL), plan.full, out / "versus.png"):
        print(f"figure: {out / 'versus.png'}")
    print(smoke_test(OTHER, arena.folder) or "no Open Bandit log")
    targets = judge(results, plan.datasets, horizons, times_faster(NEW))
    rows = summary(results, plan.datasets, plan.noises, horizons)
    report(targets, as_json=as_json, quick=quick, means=rows)


def main() -> None:
    """Play what is not there yet, report, and with --json print one object as the last line."""
    parser = argparse.ArgumentParser(description="Our learners against their peers.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the npz files")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of the results")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="under three minutes")
    parser.add_argument("--only", choices=("peers", "ours", "report"))
    parser.add_argument("--datasets", nargs="+", choices=DATASETS)
    parser.add_argument("--noises", nargs="+", choices=NOISES)
    parser.add_argument("--seeds", type=count, help="streams that are played and reported")
    parser.add_argument(
        "--ours", nargs="+", type=contestant, help='some of our learners ("forward told" bpa)'
    )
    args = parser.parse_args()
    given = {name: getattr(args, name) for name in ("datasets", "noises", "seeds", "ours")}
    plan = (QUICK if args.quick else FULL)._replace(**{k: v for k, v in given.items() if v})
    out = args.out / "quick" if args.quick else args.out
    arena = Arena(plan, args.data, Results(out, plan.seeds))
    if args.only in (None, "peers"):
        play_peers(arena)
    if args.only in (None, "ours"):
        play_ours(arena)
    say(arena, out, quick=args.quick, as_json=args.json)


if __name__ == "__main__":
    main()
