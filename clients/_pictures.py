"""How pictures are written."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any


def save(figure: Any, path: Path) -> None:
    """Write a figure of matplotlib as PNG.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    with warnings.catch_warnings():
        # Names are the user's; a letter that the font lacks is seen to be lacking, as a box.
        warnings.filterwarnings("ignore", "Glyph", UserWarning)
        figure.savefig(path, format="png")
