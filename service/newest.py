"""The newest rounds of a log, with the bits that the fold learned from them."""

from __future__ import annotations

from typing import NamedTuple

from service.address import Address
from service.events import Decision, LabelChange, Round, feedback_learned, unpack_body
from service.store import Store

#: The share of rounds that may be missing because their silence is not over. Most of these will
#: not be clicked: beyond it clicks are too many by more than a twentieth of themselves.
MOST_MISSING = 0.05
#: So many rounds that were all clicked are no chance.
_MANY = 100
#: Standard deviations by which numbers of rounds hardly ever differ by chance.
FAR = 4.0


class Logged(NamedTuple):
    """One round as the log holds it."""

    seq: int
    payload: Decision | Round
    feedback: int
    time_ms: int


class Newest(NamedTuple):
    """The newest part of a log."""

    #: Oldest first.
    rounds: list[Logged]
    #: Whether there were no rounds before.
    whole: bool
    #: The last events by which labels came (or came back) meanwhile, by name.
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
                rounds.append(Logged(entry.seq, event.payload, feedback, event.time_ms))
            elif isinstance(event.payload, LabelChange):
                came |= dict.fromkeys(set(event.payload.add) - came.keys(), entry.seq)
        before, looked = entries[-1].seq, looked + len(entries)
    return Newest(rounds[:most][::-1], before <= 1 and len(rounds) <= most, came)


async def doubt_about(store: Store, address: Address, newest: Newest) -> str:
    """Return why these rounds have too many clicks; nothing where they do not."""
    rounds = newest.rounds
    since_ms = rounds[0].time_ms if rounds and not newest.whole else 0
    waiting = await store.waiting_since(address, since_ms) if address.no_click else 0
    return doubt_of(rounds, waiting, since_ms)


def doubt_of(rounds: list[Logged], waiting: int, since_ms: int) -> str:
    """Return why these rounds have too many clicks; nothing where they do not.

    Where silence is no click, it is logged later than a click. `waiting` are the decisions made
    since `since_ms` whose silence is not over. Where rounds had ended before, they are made up
    for: as many were decided before, and ended among these.
    """
    if len(rounds) >= _MANY and all(each.feedback for each in rounds):
        return "every round was clicked: rounds without a click seem not to be logged"
    payloads = [each.payload for each in rounds if isinstance(each.payload, Decision)]
    made_up_for = sum(each.issued_ms < since_ms for each in payloads)
    missing = waiting - made_up_for
    # Both numbers vary by chance, where there are two.
    if missing > MOST_MISSING * len(rounds) + FAR * made_up_for**0.5:
        return f"{missing:,} rounds are missing, most without a click: their silence is not over"
    return ""
