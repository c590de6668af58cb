"""How pictures are written."""

from pathlib import Path

from matplotlib.figure import Figure

from clients._pictures import save


def test_a_name_in_letters_that_the_font_lacks_is_no_trouble(tmp_path: Path) -> None:
    """Warnings came of every letter, with a line of our code; here they would be errors."""
    figure = Figure()
    figure.suptitle("\N{CJK UNIFIED IDEOGRAPH-65E5}")
    save(figure, tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
