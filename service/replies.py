"""What Redis and the scripts answer, as the store returns it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from service.events import Entry, Telling, body_of


class Recorded(NamedTuple):
    """The answer to one decision that was to be recorded.

    `old` is the earlier record under the same nonce; `full` says that the pending cap is
    reached; else it is new, as of `now_ms`.
    """

    now_ms: int
    old: bytes | None
    full: bool


class Waiting(NamedTuple):
    """How much of a model waits for windows to close."""

    #: Decisions, whether their feedback has come or not.
    pending: int
    #: Feedbacks that are held until then.
    held: int


class Verdict(NamedTuple):
    """What became of one feedback, example or round: its status, seq, and the first feedback."""

    status: str
    seq: int | None
    feedback: int | None


def ms_of(clock: tuple[int, int]) -> int:
    """Return the milliseconds of what Redis answers to TIME."""
    seconds, microseconds = clock
    return seconds * 1000 + microseconds // 1000


def verdict_of(raw: Sequence[bytes]) -> Verdict:
    """Return one verdict of a script."""
    status, seq, feedback = raw[:3]
    return Verdict(status.decode(), int(seq) if seq else None, int(feedback) if feedback else None)


def entries_of(raw: Sequence[Any]) -> list[Entry]:
    """Return the entries of a log, as a script sends them."""
    return [Entry(seq_of(entry_id), fields[3].decode(), fields[1]) for entry_id, fields in raw]


def own_entries(items: Sequence[Telling], reply: Sequence[Any]) -> list[Entry]:
    """Return what a script has appended of these items; the chain says whether they are right."""
    _, replies, _, now_ms = reply
    entries = []
    for (kind, nonce, feedback, record), (status, seq, _, *chain) in zip(
        items, replies, strict=True
    ):
        if status == b"applied":
            body = body_of(kind, int(now_ms), nonce, feedback, record)
            entries.append(Entry(int(seq), chain[0].decode(), body))
    return entries


def seq_of(entry_id: bytes) -> int:
    """Return the seq in the id of an entry."""
    return int(entry_id.partition(b"-")[0])
