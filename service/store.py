"""Models in Redis; `snapshots`, `estimates` and `readiness` speak to it, too, through this module.

Every change is one script, atomic and idempotent by id, so a call whose answer was lost may
be sent again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, cast

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, ReadOnlyError, RedisError, ResponseError

from service import scripts
from service.address import MODELS_KEY, PARTS, SECRET_KEY, Address, part_key
from service.errors import Conflict, LogBroken, NotFound, Unavailable, Unreadable
from service.events import Entry, Kind, Telling, stamped
from service.ids import SECRET_BYTES
from service.kept import KeptRecords
from service.line import Line
from service.meta import Meta
from service.replies import (
    Recorded,
    Verdict,
    Waiting,
    entries_of,
    ms_of,
    own_entries,
    seq_of,
    verdict_of,
)
from service.scripts import Script
from service.spec import ModelSpec

#: Entries that one read takes: a few milliseconds of folding.
READ_ENTRIES = 512
#: Entries of a new model that one script call appends.
IMPORT_ENTRIES = 250
#: Field of the meta data by which an import is known while it is under way.
IMPORTING = "importing"
#: An import that brings nothing for this long has ended with its worker, and Redis removes it.
#: Longer than a client may take for its next line (`body_timeout_s`).
IMPORT_LEASE_MS = 2 * 3_600_000
#: An import that has brought something this recently is under way, and nobody else may begin one.
#: Not longer, because what a killed worker has left is in the way of the next try.
IMPORT_BUSY_MS = 60_000
#: Entries that one command takes when a whole log is read backwards: too few for others' calls to
#: notice the wait. And commands of one round trip, which may take long.
BACK_ENTRIES, BACK_PARTS = 64, 8
#: Connections of one worker: calls are bounded before. redis-py has 100 by default, and fails calls
#: beyond that as if Redis did not answer.
MOST_CONNECTIONS = 70_000
#: Models of one tenant, unless the settings say otherwise.
MOST_MODELS = 10_000
#: Decisions of a model that one expiry sweep ends at once.
EXPIRE_BATCH = 250

#: What Redis refuses is logged here once a minute (`logs`): a full one refuses each call.
log = logging.getLogger("misclick.store")

_Call: TypeAlias = Callable[..., Awaitable[Any]]


class ModelGone(NotFound):
    """The incarnation that was asked for is not there any more."""


def connect(url: str, timeout_s: float) -> Redis:
    """Return a client that fails within `timeout_s` and never re-sends by itself."""
    client: Redis = Redis.from_url(
        url,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        max_connections=MOST_CONNECTIONS,
        retry=Retry(NoBackoff(), 0),
        decode_responses=False,
    )
    return client


class Store:
    """The operations on models; raises Unavailable when Redis does not answer as it should."""

    def __init__(self, client: Redis) -> None:
        self.client = client
        #: Held while a stored state is fetched.
        self.loading = asyncio.Lock()
        self._line = Line(client.connection_pool)
        self._kept = KeptRecords()

    async def close(self) -> None:
        """Close the connections."""
        await self._line.close()
        await self.client.aclose()

    async def connect_anew(self) -> None:
        """End all connections: the address may name another Redis by now.

        One that became a replica in a failover keeps the connections that it has.
        """
        self._line.end()
        # Those in use end with the answer that they wait for; redis-py fails strangely otherwise.
        with contextlib.suppress(RedisError, OSError, RuntimeError):
            await self.client.connection_pool.run_proactive_reconnect()

    # -- models ---------------------------------------------------------------------------
    async def create(
        self, key: str, spec: ModelSpec, fields: dict[str, str], most: int = MOST_MODELS
    ) -> bool:
        """Create the model, unless there is one already; say whether it is new.

        Raises Conflict where its tenant would have more than `most` models, or an import under the
        name is under way.
        """
        mine = await self._of_tenant(key)
        if len(mine) >= most and key not in mine:
            raise _full(most)
        lease_ms = IMPORT_LEASE_MS if IMPORTING in fields else 0
        flat = [text for pair in ({"spec": spec.to_json()} | fields).items() for text in pair]
        keys = [part_key(key, name) for name in PARTS]
        # Listed before it is there, in case this worker is killed; and again after it, because
        # whoever deletes another one of this name may have taken it off in between.
        await self.guard(self.client.sadd(MODELS_KEY, key))
        reply = await self.run(
            scripts.CREATE, keys, [lease_ms, IMPORT_LEASE_MS - IMPORT_BUSY_MS, *flat]
        )
        await self.guard(self.client.sadd(MODELS_KEY, key))
        if reply[0] == b"busy":
            what = "a model is being imported, or relearned, under this name"
            raise Conflict(f"{what}: wait for it, or end it by deleting the name")
        if reply[0] != b"ok":
            return False
        # Others may have come at the same moment: the oldest stay.
        if key in (await self._of_tenant(key))[most:]:
            await self.delete(key)
            raise _full(most)
        return True

    async def _of_tenant(self, key: str) -> list[str]:
        tenant = key.partition("/")[0] + "/"
        return await self.by_age(
            [each for each in await self.list_keys() if each.startswith(tenant)]
        )

    async def abandon_import(self, key: str, token: str) -> None:
        """Remove what an import that failed has left."""
        with contextlib.suppress(Unavailable, ModelGone):
            await self.run(scripts.ABANDON, [part_key(key, name) for name in PARTS], [token])
            await self._unlist(key)

    async def import_entries(self, key: str, token: str, entries: Sequence[Entry]) -> None:
        """Append exported entries to a model that is being imported."""
        flat: list[str | bytes | int] = [token, IMPORT_LEASE_MS, len(entries)]
        for entry in entries:
            flat += [entry.seq, entry.chain, entry.body]
        keys = [part_key(key, "meta"), part_key(key, "log")]
        await self.run(scripts.IMPORT, keys, flat)

    async def delete(self, key: str) -> bool:
        """Delete the model with everything of it; say whether it was there."""
        address = None
        with contextlib.suppress(NotFound, Unreadable):
            meta = await self.meta(key)
            address = Address.of(key, meta.uid, meta.spec)
        keys = [part_key(key, name) for name in PARTS]
        gone = await self.guard(self.client.unlink(*keys))
        if address:
            # No more come: whoever buries a decision first checks that the model is there.
            now_ms = ms_of(await self.guard(self.client.time()))
            await self.guard(self.client.unlink(*address.tombstones(now_ms)))
        listed = await self._unlist(key)
        return bool(gone or listed)

    async def _unlist(self, key: str) -> bool:
        """Take a model off the list, unless it was made anew; say whether it was there."""
        listed = await self.guard(self.client.srem(MODELS_KEY, key))
        if await self.guard(self.client.exists(part_key(key, "meta"))):
            await self.guard(self.client.sadd(MODELS_KEY, key))
        return bool(listed)

    async def list_keys(self) -> list[str]:
        """Return the key of every model of every tenant, sorted; some may no longer exist."""
        members = await self.guard(self.client.smembers(MODELS_KEY))
        return sorted(member.decode() for member in members)

    async def by_age(self, keys: Sequence[str]) -> list[str]:
        """Return those of these models that are there, or being imported, the oldest first."""
        pipeline = self.client.pipeline(transaction=False)
        for key in keys:
            pipeline.hget(part_key(key, "meta"), "created_at_ms")
        found = zip(await self.guard(pipeline.execute()), keys, strict=True)
        return [key for _, key in sorted((int(ms), key) for ms, key in found if ms is not None)]

    async def meta(self, key: str) -> Meta:
        """Return a model's meta data, or raise NotFound."""
        return Meta.of(key, await self.guard(self.client.hgetall(part_key(key, "meta"))))

    async def waiting(self, key: str) -> Waiting:
        """Return how many decisions and feedbacks wait."""
        pipeline = self.client.pipeline(transaction=False)
        for part in Waiting._fields:
            pipeline.hlen(part_key(key, part))
        return Waiting(*await self.guard(pipeline.execute()))

    async def heads(self, keys: Sequence[str]) -> list[tuple[str, int, str] | None]:
        """Return (uid, seq, chain) of each model, None where it is gone."""
        pipeline = self.client.pipeline(transaction=False)
        for key in keys:
            pipeline.hmget(part_key(key, "meta"), "uid", "seq", "chain")
        replies = await self.guard(pipeline.execute())
        return [
            None if uid is None else (uid.decode(), int(seq), chain.decode())
            for uid, seq, chain in replies
        ]

    async def first_deadlines(self, keys: Sequence[str]) -> tuple[int, list[int | None]]:
        """Return Redis' time and the earliest deadline of each model, in ms."""
        pipeline = self.client.pipeline(transaction=False)
        pipeline.time()
        for key in keys:
            pipeline.zrange(part_key(key, "due"), 0, 0, withscores=True)
        clock, *replies = await self.guard(pipeline.execute())
        return ms_of(clock), [int(reply[0][1]) if reply else None for reply in replies]

    async def secret(self, fresh: bytes) -> bytes:
        """Return the stored secret; store `fresh` if there is none."""
        if len(fresh) < SECRET_BYTES:
            raise ValueError(f"a secret has at least {SECRET_BYTES} bytes")
        # Asked first: above maxmemory Redis refuses to set even what is already there.
        stored = await self.guard(self.client.get(SECRET_KEY))
        if stored is None:
            await self.guard(self.client.set(SECRET_KEY, fresh, nx=True))
            stored = await self.guard(self.client.get(SECRET_KEY))
        return cast(bytes, stored)

    # -- rounds ---------------------------------------------------------------------------
    async def decide(
        self,
        address: Address,
        items: Sequence[tuple[bytes, bool, bytes]],
        seq: int,
        chain: str,
        *,
        whole: bool = False,
    ) -> tuple[list[Recorded], int]:
        """Record (nonce, repeatable, record) each; return the answers and the log's seq.

        `seq` and `chain` say with which fold the decisions were made; LogBroken if it does not lie
        on the log. Of a `whole` batch, none is recorded if one finds no room or was asked otherwise
        before.
        """
        argv: list[Any] = [
            address.uid,
            address.max_pending,
            address.window_ms,
            address.bucket_ms,
            seq,
            chain,
            int(whole),
            len(items),
        ]
        for nonce, repeatable, record in items:
            argv += [nonce, b"1" if repeatable else b"0", record]
        reply = await self._run_now(scripts.DECIDE, _log_keys(address), argv)
        if reply[0] == b"foreign":
            raise LogBroken(f"the log at event {seq} is not the one that was decided with")
        now_ms = int(reply[1])
        answers = [
            Recorded(now_ms, None if old in (b"", b"full") else old, old == b"full")
            for old in reply[3]
        ]
        for (nonce, _, record), old in zip(items, reply[3], strict=True):
            if not old and reply[0] == b"ok" and not address.no_click:
                self._kept.keep(address.uid, nonce, stamped(now_ms, record))
        return answers, int(reply[2])

    async def withdraw(self, address: Address, nonces: Sequence[bytes]) -> None:
        """Take back decisions that wait for feedback and that nobody was told of."""
        keys = [address.part(name) for name in ("meta", "pending", "due")]
        await self.run(scripts.WITHDRAW, keys, [address.uid, *nonces])

    def recall(
        self, address: Address, items: Sequence[tuple[bytes, int, int]]
    ) -> list[bytes] | None:
        """Return the decisions' records, once, if this worker has written each of them lately."""
        records = [self._kept.take(address.uid, nonce) for nonce, _, _ in items]
        return None if None in records else cast(list[bytes], records)

    async def admit(
        self,
        address: Address,
        items: Sequence[tuple[bytes, int, int]],
        after: int,
        records: Sequence[bytes] | None = None,
    ) -> tuple[list[Verdict], list[Entry]]:
        """Admit (nonce, issued_ms, feedback) each; return verdicts and the log after `after`.

        Where silence is a missing click, feedback is held, and logged when the window closes.
        With the decisions' `records` the feedback's own entries are built from them.
        """
        argv: list[Any] = [address.uid, address.bucket_ms, address.window_ms]
        argv += [after, READ_ENTRIES, int(records is not None), int(address.no_click), len(items)]
        for item in items:
            argv += item
        reply = await self._run_now(scripts.ADMIT, _ending_keys(address), argv)
        entries = entries_of(reply[2])
        if records is not None:
            told = [
                Telling(Kind.FEEDBACK, nonce, bit, record)
                for (nonce, _, bit), record in zip(items, records, strict=True)
            ]
            entries += own_entries(told, reply)
        return [verdict_of(raw) for raw in reply[1]], entries

    async def learn(
        self, address: Address, items: Sequence[Telling], after: int, seq: int, chain: str
    ) -> tuple[list[Verdict], list[Entry]]:
        """Log each example or round once; return verdicts and the log after `after`.

        `seq` and `chain` say from which fold the labels' codes are; LogBroken if it does not lie on
        the log.
        """
        argv: list[Any] = [address.uid, address.bucket_ms, after, READ_ENTRIES]
        argv += [seq, chain, len(items)]
        for kind, nonce, feedback, record in items:
            argv += [kind.value, nonce, "-" if feedback is None else feedback, record]
        keys = [address.part("meta"), address.part("log"), address.done]
        reply = await self._run_now(scripts.LEARN, keys, argv)
        if reply[0] == b"foreign":
            raise LogBroken(f"the log at event {seq} is not the one that labels were read with")
        entries = entries_of(reply[2]) + own_entries(items, reply)
        return [verdict_of(raw) for raw in reply[1]], entries

    async def expire_due(self, address: Address) -> int:
        """End up to `EXPIRE_BATCH` decisions whose window has closed; return how many."""
        argv = [address.uid, address.bucket_ms, address.window_ms, EXPIRE_BATCH]
        reply = await self.run(scripts.EXPIRE, _ending_keys(address), argv)
        return int(reply[1])

    async def append(
        self, address: Address, kind: str, nonce: bytes, record: bytes, guard: tuple[str, str, str]
    ) -> int | None:
        """Append one event if field `guard[0]` still is `guard[1]`; it becomes `guard[2]`.

        Returns the event's seq, or None where the field has changed.
        """
        keys = [address.part("meta"), address.part("log")]
        reply = await self.run(scripts.APPEND, keys, [address.uid, kind, nonce, *guard, record])
        return int(reply[1]) if reply[0] == b"ok" else None

    async def count_rewinds(self, address: Address, times: int) -> None:
        """Count that a worker found that events of the log were lost, so many `times`."""
        await self.run(scripts.COUNT_REWINDS, [address.part("meta")], [address.uid, times])

    # -- log --------------------------------------------------------------------------
    async def read(self, address: Address, after: int) -> tuple[int, str, list[Entry]]:
        """Return the log's seq and chain, and its first entries after `after`."""
        keys = [address.part("meta"), address.part("log")]
        reply = await self.run(scripts.READ, keys, [address.uid, after, READ_ENTRIES])
        return int(reply[1]), reply[2].decode(), entries_of(reply[3])

    async def read_back(self, address: Address, before: int) -> list[Entry]:
        """Return the last entries before `before`, newest first; none where there are none."""
        pipeline = self.client.pipeline(transaction=False)
        # No seq is left out. Each part is a command of its own; in between, others have a turn.
        for last in range(
            before - 1, max(0, before - 1 - BACK_PARTS * BACK_ENTRIES), -BACK_ENTRIES
        ):
            first = max(1, last - BACK_ENTRIES + 1)
            pipeline.xrevrange(address.part("log"), f"{last}-0", f"{first}-0")
        raw = [each for part in await self.guard(pipeline.execute()) for each in part]
        return [Entry(seq_of(i), fields[b"h"].decode(), fields[b"b"]) for i, fields in raw]

    async def rates(self, address: Address) -> tuple[str, int]:
        """Return the rates as last set, empty if never, and the log's seq."""
        raw, seq = await self.guard(self.client.hmget(address.part("meta"), "rates", "seq"))
        return (raw or b"").decode(), int(seq or 0)

    # -- plumbing -------------------------------------------------------------------------
    async def run(self, script: Script, keys: Sequence[str], argv: Sequence[Any]) -> list[Any]:
        """Return a script's reply; raise ModelGone if it says that the model is gone."""
        return await self._run(self.client.execute_command, script, keys, argv)

    async def _run_now(self, script: Script, keys: Sequence[str], argv: Sequence[Any]) -> list[Any]:
        """Run a script of a round, on the connection that carries nothing that may take long."""
        return await self._run(self._line.call, script, keys, argv)

    async def _run(
        self, call: _Call, script: Script, keys: Sequence[str], argv: Sequence[Any]
    ) -> list[Any]:
        reply = cast(list[Any], await self.guard(_evaluate(call, script, keys, argv)))
        if reply[0] == b"gone":
            raise ModelGone("the model was deleted")
        return reply

    async def guard(self, call: Awaitable[Any] | Any) -> Any:
        """Return what `call` returns; raise Unavailable for whatever Redis does wrong."""
        try:
            return await call
        except ResponseError as error:
            if isinstance(error, ReadOnlyError):
                await self.connect_anew()
            log.warning("Redis refused", extra={"why": str(error)})
            raise Unavailable(f"Redis refused: {error}") from error
        except (RedisError, OSError, RuntimeError) as error:
            # A RuntimeError is what uvloop says of a connection that ended a moment ago.
            raise Unavailable(f"Redis does not answer: {type(error).__name__}") from error


async def _evaluate(call: _Call, script: Script, keys: Sequence[str], argv: Sequence[Any]) -> Any:
    try:
        return await call("EVALSHA", script.sha, len(keys), *keys, *argv)
    except NoScriptError:
        return await call("EVAL", script.text, len(keys), *keys, *argv)


def _full(most: int) -> Conflict:
    return Conflict(f"there are {most} models already (max_models): delete one")


def _log_keys(address: Address) -> list[str]:
    return [address.part(name) for name in ("meta", "pending", "due", "log")] + [address.done]


def _ending_keys(address: Address) -> list[str]:
    return [*_log_keys(address), address.part("held")]
