"""`misclick key`: a key is shown once its line is written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_key_whose_line_cannot_be_written_is_not_shown(unbuffered: str) -> None:
    """It looked like one that works, above a traceback: `misclick key >> keys.json`, disk full."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "service.cli", "key", "ops"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            check=False,
        )
    first, *rest = done.stderr.splitlines()
    assert first == "misclick key: no key was made: No space left on device"
    # Of what is buffered, all commands say that it cannot be written.
    assert rest == ([] if unbuffered else ["misclick: standard output: No space left on device"])
    assert done.returncode == 2
