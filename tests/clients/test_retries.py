"""When a call is tried again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.errors import InputError
from clients.retries import Retries

shares = st.floats(0, 1, exclude_max=True)
seconds = st.floats(0, 1e6)


@given(st.integers(1, 5000), st.integers(1, 5000), shares, st.none() | seconds, seconds, seconds)
def test_waits_are_bounded(
    tries: int,
    tried: int,
    uniform: float,
    retry_after_s: float | None,
    base_s: float,
    longest_s: float,
) -> None:
    """A call ends: the tries are counted, and no wait is longer than was allowed.

    Also of thousands of tries, as for whoever means never to give up.
    """
    retries = Retries(tries=tries, base_s=base_s, longest_s=longest_s)
    wait_s = retries.wait_s(tried, retry_after_s=retry_after_s, uniform=uniform)
    if tried >= tries:
        assert wait_s is None
    elif retry_after_s is None:
        assert wait_s is not None
        assert 0 <= wait_s <= longest_s
    elif retry_after_s > longest_s:
        assert wait_s is None
    else:
        assert wait_s is not None
        assert retry_after_s <= wait_s <= 2 * longest_s


def test_waits_grow_and_spread() -> None:
    """Clients that fail together neither hammer the service nor come back together."""
    retries = Retries(tries=10, base_s=1.0, longest_s=5.0)
    assert [retries.wait_s(n, retry_after_s=None, uniform=0.5) for n in (1, 2, 3, 4, 5)] == [
        0.5,
        1.0,
        2.0,
        2.5,
        2.5,
    ]
    assert retries.wait_s(1, retry_after_s=2.0, uniform=0.0) == 2.0
    assert retries.wait_s(1, retry_after_s=2.0, uniform=0.5) == 2.5


@pytest.mark.parametrize(
    ("options", "name"),
    [({"tries": 0}, "tries"), ({"base_s": -1.0}, "base_s"), ({"longest_s": -0.1}, "longest_s")],
)
def test_options_are_checked(options: dict[str, float], name: str) -> None:
    """A policy that cannot work is refused when it is made."""
    with pytest.raises(InputError, match=name):
        Retries(**options)  # type: ignore[arg-type]  # the values are wrong on purpose
