"""The runs of the comparison, and what is read off them."""

from pathlib import Path

import pytest

from benchmarks.versus_results import Key, Results, Setting
from benchmarks.versus_streams import Curve

SETTING = Setting("usps", "none")


def test_shares_are_of_the_horizon_and_not_of_the_run() -> None:
    """A longer run stands for a shorter one, too: what came later is none of its mistakes."""
    curve = Curve([500, 400, 300, 200, 100, 0, 0, 0, 0, 0], 1.0, 0.0)
    assert curve.cumulative(5_000) == 0.3
    assert curve.last(5_000) == 0.1
    assert curve.last(10_000) == 0.0
    assert curve.by_rounds(2_000, 5_000) == [0.45, 0.25]


def test_runs_of_other_code_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After a change of a learner its old runs were mixed with new ones, and nobody was told."""
    results = Results(tmp_path, 2)
    results.add(Key(SETTING, 0, "bpa"), Curve([10], 1.0, 0.0))
    results.add(Key(SETTING, 1, "bpa"), Curve([20], 1.0, 0.0))
    results.add(Key(SETTING, 0, "vw --squarecb"), Curve([30], 1.0, 0.0))
    path = tmp_path / "versus_bpa.jsonl"
    first, second = path.read_text().splitlines()
    path.write_text(f"{first}\n{second.replace('code', 'no code')}\n" + second[:20])
    again = Results(tmp_path, 2)
    assert set(again.seeds(SETTING, "bpa", 1_000)) == {0, 1}
    said = capsys.readouterr().out
    assert f"{path}: 2 results, 1 of them of other code" in said
    assert "cut off" in said
    assert "vw" not in said


def test_the_first_stream_alone_can_be_told_of(tmp_path: Path) -> None:
    """It is the one on which a peer's form was chosen; all streams in the folder were reported."""
    results = Results(tmp_path, 2)
    for seed, mistakes in enumerate((10, 20)):
        results.add(Key(SETTING, seed, "bpa"), Curve([mistakes], 1.0, 0.0))
    assert set(results.seeds(SETTING, "bpa", 1_000)) == {0, 1}
    assert set(Results(tmp_path, 1).seeds(SETTING, "bpa", 1_000)) == {0}
