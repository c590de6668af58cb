"""The newest rounds of a log, with the bits that the fold learned from them."""

from __future__ import annotations

from typing import NamedTuple

from service.address import Address
from service.events import Decision, LabelChange, Round, feedback_learned, unpack_body
from service.store import Store

#: This many rounds, all clicked, are no coincidence.
_MANY = 100


class Logged(NamedTuple):
    """One round as the log holds it."""

    seq: int
    payload: Decision | Round
    feedback: int


class Newest(NamedTuple):
    """The newest part of a log."""

    #: Oldest first.
    rounds: list[Logged]
    #: The last events by which labels were added or brought back meanwhile, by name.
    came: dict[str, int]


async def read_newest(
    store: Store, address: Address, seq: int, most: int, most_entries: int
) -> Newest:
    """Return what the log holds up to event `seq`: `most` rounds at most.

    Looks at some `most_entries` entries at most: many may be expired decisions that tell nothing.
    """
    rounds: list[Logged] = []
    came: dict[str, int] = {}
    before, looked = seq + 1, 0
    while len(rounds) < most and looked < most_entries:
        entries = await store.read_back(address, before)
        if not entries:
            break
        for entry in entries:
            event = unpack_body(entry.body)
            feedback = feedback_learned(event, address.no_click)
            if feedback is not None and isinstance(event.payload, Decision | Round):
                rounds.append(Logged(entry.seq, event.payload, feedback))
            elif isinstance(event.payload, LabelChange):
                came |= dict.fromkeys(set(event.payload.add) - came.keys(), entry.seq)
        before, looked = entries[-1].seq, looked + len(entries)
    return Newest(rounds[:most][::-1], came)


def doubt_of(rounds: list[Logged]) -> str:
    """Return why these rounds have too many clicks; empty where they do not."""
    if len(rounds) >= _MANY and all(each.feedback for each in rounds):
        return "every round was clicked: rounds without a click seem not to be logged"
    return ""
