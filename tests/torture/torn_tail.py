"""Cut the store's file within the last transaction of every script, and start it on the rest.

A power failure may leave any prefix of what was being written. Whatever the cut, the store must
come back with exactly the state before that script, or the one after: never with half of it.

::

    python -m tests.torture.torn_tail                  # some cuts of every script
    python -m tests.torture.torn_tail --every-byte     # all of them; some minutes
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from service.address import Address
from service.events import Kind, Telling, first_chain
from service.fold import Fold
from service.host import initial_fields
from service.snapshots import Snapshot, finish_import, put_parts, store_snapshot
from service.spec import ModelSpec
from service.store import Store, connect
from tests.service.stores import tell
from tests.torture.cluster import StoreServer

SPEC = ModelSpec.model_validate(
    {
        "name": "m",
        "learner": {"kind": "banditron"},
        "labels": ["a", "b"],
        "features": {"type": "dense", "size": 4},
        "window_s": 0.1,
        "log_keep": 0,
    }
)
#: Tombstones outlive the longest run, so that none of them is missed for its age.
BUCKET_MS = 24 * 3600 * 1000
RECORD = bytes(range(52))
CUTS = 5


class Step(NamedTuple):
    """The file's length and the store's state after a script."""

    script: str
    size: int
    state: dict[str, Any]


#: What is stored as a state: steps have one script each, so its parts are put before it.
STATE = [b"state" * 20, b"more"]


class Result(NamedTuple):
    """How often the store was started on a cut file, and where it came back wrong."""

    cuts: int
    scripts: int
    wrong: list[str]


def nonce(number: int) -> bytes:
    """Return the nonce with this number."""
    return number.to_bytes(12, "big")


class Play:
    """Runs every script once or twice, and notes the state after each."""

    def __init__(self, server: StoreServer) -> None:
        self._server = server
        self.steps = [self._step("nothing")]
        self._store = Store(connect(server.url, 5))
        fold = Fold(SPEC, "u")
        self._fields = initial_fields(fold) | {"uid": "u"}
        self._address = replace(Address.of("t/m", "u", SPEC), bucket_ms=BUCKET_MS)
        self._issued: list[int] = []

    async def run(self) -> list[Step]:
        """Run them all."""
        calls: list[tuple[str, Callable[[], Coroutine[Any, Any, Any]]]] = [
            ("create", lambda: self._store.create("t/m", SPEC, self._fields)),
            ("decide", lambda: self._decide(1, 2, 3, 4)),
            ("admit", lambda: self._admit((1, 1), (2, 0), (1, 0))),
            ("decide again", lambda: self._decide(5, 6)),
            ("admit late", lambda: self._late(5)),
            ("expire", lambda: self._store.expire_due(self._address)),
            ("learn", self._learn),
            ("append", self._append),
            ("put parts", lambda: self._put_parts("t/m", ("uid", "u"))),
            ("snap", lambda: self._snap(4)),
            ("snap and trim", lambda: self._snap(7)),
            ("begin import", lambda: self._store.create("t/n", SPEC, {"importing": "i"})),
            ("import", self._import),
            ("put its parts", lambda: self._put_parts("t/n", ("importing", "i"))),
            ("finish import", self._finish),
            ("begin another", lambda: self._store.create("t/o", SPEC, {"importing": "i"})),
            ("abandon import", lambda: self._store.abandon_import("t/o", "i")),
        ]
        for name, call in calls:
            await call()
            self.steps.append(self._step(name))
        await self._store.close()
        return self.steps

    def _step(self, script: str) -> Step:
        return Step(script, appended(self._server).stat().st_size, state_of(self._server))

    async def _decide(self, *numbers: int) -> None:
        items = [(nonce(number), True, RECORD) for number in numbers]
        seq, chain, _ = await self._store.read(self._address, 0)
        answers, _ = await self._store.decide(self._address, items, seq, chain)
        self._issued.append(answers[0].now_ms)

    async def _admit(self, *told: tuple[int, int]) -> None:
        items = [(nonce(number), self._issued[-1], bit) for number, bit in told]
        await self._store.admit(self._address, items, 0)

    async def _late(self, number: int) -> None:
        await asyncio.sleep(0.2)
        await self._admit((number, 1))

    async def _learn(self) -> None:
        example = Telling(Kind.LEARN, nonce(50), None, b"one")
        told_round = Telling(Kind.ROUND, nonce(51), 1, b"two")
        await tell(self._store, self._address, [example, told_round], 0)

    async def _append(self) -> None:
        guard = ("labels", self._fields["labels"], "new")
        assert await self._store.append(self._address, "a", nonce(60), b"{}", guard)

    async def _put_parts(self, key: str, guard: tuple[str, str]) -> None:
        await put_parts(self._store, key, guard, STATE)

    async def _snap(self, seq: int) -> None:
        _, _, entries = await self._store.read(self._address, seq - 1)
        snapshot = Snapshot(seq, entries[0].chain, "digest", STATE)
        assert await store_snapshot(self._store, self._address, snapshot)

    async def _import(self) -> None:
        _, _, entries = await self._store.read(self._address, 4)
        await self._store.import_entries("t/n", "i", entries)

    async def _finish(self) -> None:
        last = Snapshot(9, first_chain("u"), "digest", STATE)
        await finish_import(self._store, "t/n", "i", "u", {"labels": "[]"}, last)


def appended(server: StoreServer) -> Path:
    """Return the file that the store appends to."""
    (path,) = (server.folder / "appendonlydir").glob("*.incr.aof")
    return path


def state_of(server: StoreServer) -> dict[str, Any]:
    """Return all that the store holds of every model."""
    with server.client() as opened:
        client: Any = opened
        read = {
            b"hash": client.hgetall,
            b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
            b"stream": client.xrange,
        }
        keys = sorted(client.keys("mc:{*"))
        return {key.decode(): read[client.type(key)](key) for key in keys}


def cuts_between(start: int, end: int, every_byte: bool) -> Iterator[int]:
    """Yield where to cut what was appended from `start` to `end`."""
    if every_byte or end - start <= CUTS:
        yield from range(start, end)
        return
    yield start
    for part in range(1, CUTS):
        yield start + part * (end - start) // CUTS
    yield end - 1


def run(*, every_byte: bool = False) -> Result:
    """Run every script, then cut the file everywhere and compare."""
    server = StoreServer()
    cuts, wrong = 0, list[str]()
    try:
        server.start()
        steps = asyncio.run(Play(server).run())
        server.kill()
        path = appended(server)
        whole = path.read_bytes()
        for before, after in pairwise(steps):
            if after.state == before.state:
                wrong.append(f"{after.script} changed nothing")
            places = [*cuts_between(before.size, after.size, every_byte), after.size]
            for at in places:
                path.write_bytes(whole[:at])
                server.start()
                expected = after if at == after.size else before
                if state_of(server) not in _allowed(expected, before, after):
                    wrong.append(f"{after.script}: cut at byte {at - before.size}")
                server.kill()
                cuts += 1
    finally:
        server.close()
    return Result(cuts, len(steps) - 1, wrong)


def _allowed(expected: Step, before: Step, after: Step) -> list[dict[str, Any]]:
    # Creating and abandoning also write the list of models: two transactions, so the cut
    # between them shows the script's state early or late, whole all the same.
    two = after.script.split()[0] in ("create", "begin", "abandon")
    return [before.state, after.state] if two else [expected.state]


def main(argv: Sequence[str] | None = None) -> int:
    """Cut, print what came of it; 1 if anything was half applied."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--every-byte", action="store_true")
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    args = parser.parse_args(argv)
    begin_s = time.monotonic()
    result = run(every_byte=args.every_byte)
    print(f"scripts {result.scripts}, cuts {result.cuts}, wrong {len(result.wrong)}")
    for text in result.wrong[:20]:
        print(f"  {text}")
    if args.json:
        target = {"name": "half_applied", "value": len(result.wrong), "target": 0}
        numbers = {"cuts": result.cuts, "seconds": round(time.monotonic() - begin_s, 1)}
        print(json.dumps(numbers | {"targets": [target | {"met": not result.wrong}]}))
    return 1 if result.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
