"""What commands write in the end."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import msgspec
import pytest
from rich.table import Table

from clients import InputError
from service.outputs import check_outputs, print_json, print_table


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


def test_one_file_does_not_take_two_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The picture took the place of the JSON, by another path too, and nobody was told."""
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"--png: expected another file than --json, got "):
        check_outputs(json=Path("a"), png=tmp_path / "sub" / ".." / "a")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    """Protects hours of a replay: unlike a pipe, a folder takes nothing."""
    with pytest.raises(InputError, match=r"--png: expected a file, got the folder"):
        check_outputs(png=tmp_path)


class Named(msgspec.Struct):
    """A value that is named as somebody likes."""

    name: str


def test_json_is_utf_8_whatever_the_terminal_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A label that ASCII does not know became question marks: another label."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii", errors="replace"))
    print_json(Named("é"))
    sys.stdout.flush()
    assert written.getvalue() == '{"name":"é"}\n'.encode()


def test_a_number_is_not_cut_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a narrow window a table lost its last columns, and ends of numbers: 22,608 was 22,6…."""
    monkeypatch.setenv("COLUMNS", "20")
    table = Table(title="a:100:b")
    for name in ("error so far", "greedy error", "clicks"):
        table.add_column(name, justify="right")
    table.add_row("12.3 %", "45.6 %", "22,608")
    print_table(table)
    shown = capsys.readouterr().out
    assert "22,608" in shown
    # Nor are names made more colourful.
    assert "a:100:b" in shown


def test_links_in_a_circle_are_no_file(tmp_path: Path) -> None:
    """They ended a command in a traceback."""
    circle = tmp_path / "circle"
    circle.symlink_to("circle")
    with pytest.raises(InputError, match="--json: expected a file that can be written"):
        check_outputs(json=circle)


def test_looking_whether_a_link_can_be_written_leaves_it(tmp_path: Path) -> None:
    """It was removed, and what it led to stayed, empty."""
    link = tmp_path / "link"
    link.symlink_to("target")
    check_outputs(json=link)
    assert link.is_symlink()
    assert not (tmp_path / "target").exists()


def test_a_wide_terminal_shows_a_wide_table_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Eighty columns are the least, not the most."""
    monkeypatch.setenv("COLUMNS", "150")
    table = Table()
    table.add_column("learner", overflow="fold")
    table.add_row("n" * 100)
    print_table(table)
    assert "n" * 100 in capsys.readouterr().out
