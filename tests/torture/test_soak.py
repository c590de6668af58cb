"""The short form of the soak: nothing grows, torch is not there, ten models fit in 200 MB."""

from __future__ import annotations

import sys

import pytest

from tests.torture.soak import run


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_nothing_grows() -> None:
    """Memory, keys and descriptors stay as they are; what expires and is trimmed goes."""
    numbers = run(1200, parts=3)
    assert [target for target in numbers["targets"] if not target["met"]] == [], numbers["samples"]
