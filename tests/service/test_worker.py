"""A worker process: what it says when it cannot start."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


def test_a_worker_that_cannot_start_says_so_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart after a bad change of the keys: whoever reads logs by line got a traceback."""
    keys = tmp_path / "keys.json"
    keys.write_text("no keys")
    monkeypatch.setenv("MISCLICK_KEYS_FILE", str(keys))
    monkeypatch.setenv("MISCLICK_REDIS_URL", "redis://127.0.0.1:1/0")
    command = [sys.executable, "-c", "from service.worker import app; app()"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    said = json.loads(line)
    assert said["event"] == "this worker cannot start"
    assert "keys.json" in said["why"] or "line 1" in said["why"]
