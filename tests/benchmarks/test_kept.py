"""What a run that was broken off has left, and what is said of it."""

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import evaluation
from benchmarks.kept import Kept


def test_cells_are_there_after_a_break(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is written as it is finished, and those that other code made are counted."""
    path = tmp_path / "out" / "cells.json"
    kept = Kept(path)
    kept.add("a", {"error": 0.25})
    kept.add("b", {"error": 0.5})
    path.write_text(path.read_text().replace(kept.cells["a"]["code"], "older", 1))
    again = Kept(path)
    assert "a" in again
    assert "c" not in again
    assert again.cells["b"] == kept.cells["b"]
    assert f"{path}: 2 results, 1 of them of other code" in capsys.readouterr().out


def test_few_logs_do_not_pass_for_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting of 1 log was taken over into a run of 200, and only its name was looked at."""
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "toy.npz", X=rng.normal(size=(50, 3)), y=np.arange(50) % 2)
    plan = evaluation.QUICK._replace(settings=("20/40",), rounds=100)
    monkeypatch.setattr(evaluation, "QUICK", plan)
    for logs in ("1", "2"):
        options = ["--data", str(tmp_path), "--out", str(tmp_path), "--set", "toy", "--quick"]
        monkeypatch.setattr(sys, "argv", ["evaluation", *options, "--logs", logs])
        evaluation.main()
    cells = Kept(tmp_path / "quick" / "toy" / "evaluation.json").cells
    assert [cell["logs"] for cell in cells.values()] == [1, 2]
