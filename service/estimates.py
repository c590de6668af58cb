"""Estimates of the noise rates, from the claim to the `rates` event.

An estimate is due when enough feedbacks have come since the last one, when clicks were seen to have
changed, or when somebody asks. One worker claims it for a limited time and starts a process of its
own for it (`service.trainer`), which reads a slice of the log, trains, and ends the claim: the
result goes into the model's history and, if it can be trusted, into the log as one event that every
worker folds at the same seq. A process that is killed loses its claim, and the next worker begins
again; a result without a valid claim is refused, so no estimate becomes two events. Cancelling ends
the claim with a result that says so; the process finds its claim lost.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from service import scripts
from service.address import Address
from service.errors import Conflict
from service.replies import ms_of
from service.store import Store
from service.wire import Estimate, Running

#: A trainer renews its claim several times within this time.
LEASE_MS = 15_000
#: Tries of one estimate before it is given up, with a verdict that says so.
MOST_TRIES = 3
#: Results that a model's history keeps.
HISTORY = 20
#: Exit status of a trainer that found its claim lost, which is no failure: it was cancelled, or too
#: slow, and then another one has taken over.
CLAIM_LOST = 3
#: Tries to cancel an estimate that ends, or changes hands, meanwhile.
CANCEL_TRIES = 5

#: How an estimate ends.
Outcome: TypeAlias = Literal["trusted", "refused", "cancelled", "given_up"]
OUTCOMES: tuple[Outcome, ...] = ("trusted", "refused", "cancelled", "given_up")


class Claim(NamedTuple):
    """The right to make one estimate, for a while."""

    number: int
    tries: int
    token: str


class Tally(NamedTuple):
    """What became of a model's estimates so far, and whether one is being made."""

    ended: Mapping[Outcome, int]
    #: Seconds that the last one took; None before the first.
    took_s: float | None
    running: bool


class Estimates:
    """The estimates of one model, as Redis has them."""

    def __init__(self, store: Store, address: Address) -> None:
        self._store = store
        self._address = address

    async def ask(self) -> int:
        """Ask for an estimate now; return its number, or that of the one being made."""
        keys = [self._address.part("meta"), self._address.part("estimate")]
        reply = await self._store.run(scripts.ASK_ESTIMATE, keys, [self._address.uid])
        return int(reply[1])

    async def claim(self, every: int, drift_seq: int = 0) -> Claim | None:
        """Claim the next estimate if it is due and free.

        It is due when it is asked for, `every` feedbacks after the last one (silence among them
        where it means no click), and when clicks were seen to have changed at an event that the
        last one has not seen.
        """
        token = secrets.token_hex(8)
        keys = [self._address.part("meta"), self._address.part("estimate")]
        silence = int(self._address.no_click)
        argv = [self._address.uid, token, LEASE_MS, every, drift_seq, silence]
        reply = await self._store.run(scripts.CLAIM_ESTIMATE, keys, argv)
        return Claim(int(reply[1]), int(reply[2]), token) if reply[0] == b"ok" else None

    async def renew(self, token: str, progress: float) -> bool:
        """Keep a claim; False if it is lost."""
        keys = [self._address.part("estimate")]
        argv = [token, LEASE_MS, f"{progress:.3f}"]
        reply = await self._store.run(scripts.RENEW_ESTIMATE, keys, argv)
        return bool(reply[0] == b"ok")

    async def finish(self, token: str, nonce: bytes, record: bytes, result: Estimate) -> bool:
        """End a claim with its result, and log `record` as a rates event unless it is empty."""
        return await self._end(token, result, "trusted" if record else "refused", nonce, record)

    async def give_up(self, claim: Claim) -> bool:
        """End a claim whose trainers all ended without a result."""
        verdict = f"the trainer ended without a result {MOST_TRIES} times: see the log"
        return await self._end(claim.token, _without_rates(claim.number, verdict), "given_up")

    async def cancel(self) -> None:
        """End the estimate that is asked for or being made, if any; its trainer will notice."""
        client, key = self._store.client, self._address.part("estimate")
        for _ in range(CANCEL_TRIES):
            raw = await self._store.guard(client.hmget(key, "asked", "done", "token"))
            asked, done, token = raw
            if token is None and asked != b"1":
                return
            result = _without_rates(int(done or 0) + 1, "cancelled")
            if await self._end((token or b"").decode(), result, "cancelled"):
                return
        raise Conflict("estimate: it changes hands while it is being cancelled: try again")

    async def _end(
        self,
        token: str,
        result: Estimate,
        outcome: Outcome,
        nonce: bytes = b"",
        record: bytes = b"",
    ) -> bool:
        names = ("meta", "log", "estimate", "estimates")
        keys = [self._address.part(name) for name in names]
        argv: list[Any] = [self._address.uid, token, nonce, record]
        argv += [msgspec.json.encode(result), HISTORY, outcome, result.took_s or ""]
        argv.append(int(self._address.no_click))
        reply = await self._store.run(scripts.FINISH_ESTIMATE, keys, argv)
        return bool(reply[0] == b"ok")

    async def status(self) -> tuple[bool, Running | None]:
        """Return whether an estimate is asked for, and the one that is being made, if any."""
        running, raw = await self._look("asked", "done", "progress", "started")
        asked, done, progress, started = raw
        if not running:
            return asked == b"1", None
        return asked == b"1", Running(int(done or 0) + 1, float(progress), int(started))

    async def history(self) -> list[Estimate]:
        """Return the results, newest first."""
        key = self._address.part("estimates")
        raw = await self._store.guard(self._store.client.lrange(key, 0, HISTORY - 1))
        return [msgspec.json.decode(result, type=Estimate) for result in raw]

    async def tally(self) -> Tally:
        """Return how many estimates ended how, and whether one is being made."""
        running, raw = await self._look(*OUTCOMES, "took")
        *counts, took = raw
        ended = {name: int(n or 0) for name, n in zip(OUTCOMES, counts, strict=True)}
        return Tally(ended, None if took is None else float(took), running)

    async def _look(self, *fields: str) -> tuple[bool, list[Any]]:
        """Return whether an estimate is being made, and what Redis has in these fields."""
        pipeline = self._store.client.pipeline(transaction=False)
        pipeline.time()
        pipeline.hmget(self._address.part("estimate"), "lease", *fields)
        clock, (lease, *found) = await self._store.guard(pipeline.execute())
        # A trainer that was killed keeps its token until another begins again.
        return lease is not None and int(lease) > ms_of(clock), found


def _without_rates(number: int, verdict: str) -> Estimate:
    return Estimate(number, round(time.time() * 1000), 0.0, 0, False, verdict)
