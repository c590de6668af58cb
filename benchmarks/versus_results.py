"""Finished runs in a file that is only ever appended to, and what is read off them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.kept import code_mark, say_what_is_old
from benchmarks.versus_streams import Curve, family
from learners import LEARNERS


class Setting(NamedTuple):
    """What is played: everything but who plays, for how long, and on which stream."""

    data: str
    noise: str


class Key(NamedTuple):
    """One run, but for its length."""

    setting: Setting
    seed: int
    contestant: str


Measure = Callable[[Curve, int], float]


class Results:
    """The runs in a folder on its first `seeds` streams.

    Several processes may append to its files, each what it ran.
    """

    def __init__(self, folder: Path, seeds: int) -> None:
        self._folder, self._seeds = folder, seeds
        self._curves: dict[Key, Curve] = {}
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(folder.glob("versus_*.jsonl")):
            marks = []
            for line in path.read_text().splitlines():
                try:
                    record = json.loads(line)
                except json.JSONDecodeError:
                    print(f"skipped a line of {path} that was cut off", flush=True)
                    continue
                self._take(record)
                marks.append(record.get("code"))
            if path.stem.removeprefix("versus_") in LEARNERS:
                say_what_is_old(path, marks)

    def _take(self, record: dict[str, Any]) -> None:
        key = Key(Setting(record["data"], record["noise"]), record["seed"], record["contestant"])
        curve = Curve(*(record[name] for name in Curve._fields))
        known = self._curves.get(key)
        if key.seed < self._seeds and (known is None or len(known.mistakes) < len(curve.mistakes)):
            self._curves[key] = curve

    def add(self, key: Key, played: Curve) -> None:
        """Keep a run, in one write to its family's file."""
        record = {**key.setting._asdict(), "seed": key.seed, "contestant": key.contestant}
        record |= {**played._asdict(), "code": code_mark()}
        with (self._folder / f"versus_{family(key.contestant)}.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")
        self._take(record)

    def get(self, key: Key, n_rounds: int) -> Curve | None:
        """Return a run of at least so many rounds, if there is one."""
        curve = self._curves.get(key)
        return curve if curve is not None and curve.n_rounds >= n_rounds else None

    def seeds(self, setting: Setting, contestant: str, horizon: int) -> dict[int, Curve]:
        """Return a contestant's runs of at least `horizon` rounds by their seeds."""
        return {
            key.seed: curve
            for key, curve in self._curves.items()
            if key.setting == setting and key.contestant == contestant and curve.n_rounds >= horizon
        }

    def contestants(self, setting: Setting, horizon: int) -> list[str]:
        """Return who has a run of at least `horizon` rounds."""
        return list(
            dict.fromkeys(
                key.contestant
                for key, curve in self._curves.items()
                if key.setting == setting and curve.n_rounds >= horizon
            )
        )

    def best(
        self, setting: Setting, names: Iterable[str], horizon: int, measure: Measure, count: int
    ) -> list[str]:
        """Return the `count` of `names` that were best on the first stream."""
        scores = {
            name: measure(curve, horizon)
            for name in names
            if (curve := self.get(Key(setting, 0, name), horizon)) is not None
        }
        return sorted(scores, key=lambda name: scores[name])[:count]


def finalists(
    results: Results, setting: Setting, names: Iterable[str], horizon: int, count: int = 1
) -> list[str]:
    """Return the best by cumulative error and the best over the last fifth, on one stream."""
    names = tuple(names)
    found = [
        name
        for measure in (Curve.cumulative, Curve.last)
        for name in results.best(setting, names, horizon, measure, count)
    ]
    return list(dict.fromkeys(found))
