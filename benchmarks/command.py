"""What the commands share: counts on the command line, targets, and the last line."""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Iterable
from typing import Any, NamedTuple


class Target(NamedTuple):
    """A figure that was promised, and what came out."""

    name: str
    value: float
    target: float
    met: bool


def at_most(name: str, value: float, target: float, digits: int = 3) -> Target:
    """Compare a value with the most that it should be; NaN does not meet it.

    Examples
    --------
    >>> at_most("error", 0.13004, 0.13)
    Target(name='error', value=0.13, target=0.13, met=False)
    """
    return Target(name, round(float(value), digits), target, bool(value <= target))


def at_least(name: str, value: float, target: float, digits: int = 3) -> Target:
    """Compare a value with the least that it should be; NaN does not meet it."""
    return Target(name, round(float(value), digits), target, bool(value >= target))


def report(targets: Iterable[Target], *, as_json: bool, **found: object) -> None:
    """Print a line for each target, and with `as_json` one object with what was found, too."""
    targets = list(targets)
    print()
    for name, value, target, met in targets:
        print(f"{'met ' if met else 'MISS'} {name}: {value:g} (target {target:g})")
    if as_json:
        judged = [target._asdict() for target in targets]
        print(json.dumps(_plain(found | {"targets": judged}), allow_nan=False))


def _plain(value: Any) -> Any:
    """Return a value as JSON has it, which knows neither NaN nor infinity: None stands for them."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def want_one_thread() -> None:
    """Say so if libraries may use more: a thread that waits spins, and counts as CPU time."""
    if os.environ.get("OMP_NUM_THREADS") != "1":
        print("not one thread: set OMP_NUM_THREADS=1 for numbers to compare", flush=True)


def count(text: str) -> int:
    """Read an option that is a number of something, at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {value}")
    return value
