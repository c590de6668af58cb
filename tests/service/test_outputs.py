"""Files that commands write in the end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clients import InputError
from service.outputs import check_outputs


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs a folder that refuses even root")
def test_what_cannot_be_written_is_told_before_the_work() -> None:
    """A folder that takes no files cost hours of a replay: its results were lost in the end."""
    with pytest.raises(InputError, match=r"--png: expected a file that can be written, got '/proc"):
        check_outputs(json=None, png=Path("/proc/of-nobody.png"))


def test_looking_changes_nothing(tmp_path: Path) -> None:
    """What a file holds stays, a new one is not made, and who reads a pipe is not told its end."""
    old, new, pipe = tmp_path / "old", tmp_path / "new", tmp_path / "pipe"
    old.write_text("as it was")
    os.mkfifo(pipe)
    check_outputs(json=old, png=new, log=pipe)
    assert old.read_text() == "as it was"
    assert not new.exists()
