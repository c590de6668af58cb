"""The recommender on top of the client."""

import pytest

from clients.errors import InputError
from clients.recommender import by_label


def test_items_that_look_alike_are_refused() -> None:
    """1 and "1" would share one label, and a click on one would teach the other."""
    with pytest.raises(InputError, match="different texts"):
        by_label([1, "1"])
    with pytest.raises(InputError, match="at least one"):
        by_label([])
    assert by_label([2, 1, 2]) == {"2": 2, "1": 1}
