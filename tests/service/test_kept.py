"""Records are held up to a number of bytes, each given out once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from service.kept import KeptRecords

ROOM = 10_000


def test_the_oldest_go_first() -> None:
    """Where there is no more room the oldest records go, and only those."""
    kept = KeptRecords(ROOM)
    for number in range(100):
        kept.keep("m", b"%d" % number, bytes(1000))
    found = [number for number in range(100) if kept.take("m", b"%d" % number) is not None]
    assert found == list(range(100 - len(found), 100))
    assert 5 <= len(found) <= 9


def test_of_one_model_only() -> None:
    """The same nonce of another model, or of another incarnation, is another decision."""
    kept = KeptRecords(ROOM)
    kept.keep("a", b"nonce", b"1")
    kept.keep("b", b"nonce", b"2")
    assert (kept.take("a", b"nonce"), kept.take("b", b"nonce")) == (b"1", b"2")
    assert kept.take("a", b"nonce") is None


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(0, 3000))))
def test_nothing_leaks(steps: list[tuple[bool, int, int]]) -> None:
    """Whatever was kept, replaced and taken, in the end there is room for as much as before."""
    kept, model = KeptRecords(ROOM), dict[int, bytes]()
    for keep, number, size in steps:
        if keep:
            kept.keep("m", bytes([number]), bytes(size))
            model.pop(number, None)
            model[number] = bytes(size)
        else:
            found = kept.take("m", bytes([number]))
            assert found in (None, model.pop(number, None))
    for number in range(6):
        kept.take("m", bytes([number]))
    kept.keep("m", b"a", bytes(4000))
    kept.keep("m", b"b", bytes(4000))
    assert kept.take("m", b"a") is not None
    assert kept.take("m", b"b") is not None
