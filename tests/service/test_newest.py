"""The newest rounds of a log: which they are, and when they have too many clicks."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from service.events import Decision
from service.newest import Logged, doubt_of, read_newest
from tests.service.stores import admit, decide, example, make, opened, tell, told_round

MANY = 1_000_000


@pytest.mark.parametrize(("on_expiry", "bits"), [("ignore", [0, 1]), ("no_click", [0, 0, 1])])
async def test_silence_is_a_bit_where_it_is_a_missing_click(
    store_url: str, on_expiry: str, bits: list[int]
) -> None:
    """Protects models that hear of clicks only from being told that all rounds were clicked."""
    async with opened(store_url) as store:
        address = await make(store, on_expiry=on_expiry, window_s=0.1)
        await tell(store, address, [told_round(1, feedback=0), example(2)], 0)
        _, second = await decide(store, address, 3, 4)
        await admit(store, address, 4, second, 1)
        await asyncio.sleep(0.15)
        assert await store.expire_due(address) == (2 if on_expiry == "no_click" else 1)
        (head,) = await store.heads([address.key])
        assert head is not None
        newest = await read_newest(store, address, head[1], MANY, MANY)
        assert [each.feedback for each in newest.rounds] == bits
        newest = await read_newest(store, address, head[1], 1, MANY)
        assert [each.feedback for each in newest.rounds] == bits[-1:]
        assert not (await read_newest(store, address, head[1], MANY, 0)).rounds


def test_rounds_that_were_all_clicked_are_no_chance() -> None:
    """Protects rates and values from a log that is told of clicks only."""
    decision = Decision(0, 0, 0.5, 0, b"", np.zeros(1, np.float32))
    rounds = [Logged(seq, decision, 1) for seq in range(1, 101)]
    assert doubt_of(rounds).startswith("every round was clicked")
    assert not doubt_of(rounds[1:])
    assert not doubt_of([Logged(1, decision, 0), *rounds])
