"""Targets are told honestly, and as JSON that others can read."""

import argparse
import json
import math

import pytest

from benchmarks.command import Target, at_least, at_most, count, report


def test_what_is_rounded_for_the_eye_is_judged_as_it_is() -> None:
    """1.1004 is not at most 1.1, whatever is printed; NaN meets nothing."""
    assert at_most("ratio", 1.1004, 1.1) == Target("ratio", 1.1, 1.1, met=False)
    assert at_least("gain", 1.0996, 1.1) == Target("gain", 1.1, 1.1, met=False)
    assert at_most("ratio", 1.1, 1.1).met
    assert at_least("gain", 1.1, 1.1).met
    assert not at_most("nothing", math.nan, 1.0).met
    assert not at_least("nothing", math.nan, 1.0).met


def test_the_last_line_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    """NaN and infinity are none: one that came out made the whole line unreadable elsewhere."""
    targets = [at_most("clicks", math.inf, 100_000), at_least("speed", 12.5, 10)]
    report(targets, as_json=True, rows=[{"error": (math.nan, 0.5)}])
    *lines, last = capsys.readouterr().out.splitlines()

    def refuse(text: str) -> None:
        pytest.fail(f"{text} is no JSON")

    said = json.loads(last, parse_constant=refuse)
    assert said["rows"] == [{"error": [None, 0.5]}]
    assert said["targets"] == [
        {"name": "clicks", "value": None, "target": 100_000, "met": False},
        {"name": "speed", "value": 12.5, "target": 10, "met": True},
    ]
    assert lines == ["", "MISS clicks: inf (target 100000)", "met  speed: 12.5 (target 10)"]
    report(targets, as_json=False)
    assert "{" not in capsys.readouterr().out


def test_no_rounds_are_no_number_of_rounds() -> None:
    """0 was taken for "not given", or ended in the median of nothing."""
    assert count("3") == 3
    with pytest.raises(argparse.ArgumentTypeError, match="at least 1, got 0"):
        count("0")
