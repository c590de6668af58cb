"""A file that ends within a transaction: never half an event."""

from __future__ import annotations

from tests.torture.torn_tail import CUTS, run


def test_no_script_is_half_applied() -> None:
    """Cut within every script's transaction, the store comes back with the state before it."""
    result = run()
    assert result.wrong == []
    assert result.scripts == 17
    assert result.cuts > CUTS * result.scripts
