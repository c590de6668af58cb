"""Whether Redis is one that the promises can be kept with."""

from __future__ import annotations

import errno
import logging
import socket
import ssl
import time
from typing import Any, NamedTuple

from redis.asyncio import Redis
from redis.exceptions import AuthenticationError, RedisError, ResponseError
from redis.exceptions import TimeoutError as TimedOut

from service.address import MODELS_KEY
from service.errors import Unavailable
from service.settings import Settings
from service.store import Store

log = logging.getLogger("misclick.readiness")

#: How often a worker looks whether Redis is still one to keep promises with. It asks Redis two
#: small questions; meanwhile calls are answered that might have to be refused.
LOOK_S = 1.0
#: How often it is logged again while it is not, so that the newest lines of the log say so.
TELL_AGAIN_S = 60.0
#: Since then there are streams, shebang scripts with flags, and PEXPIREAT NX.
OLDEST_REDIS = (7, 0)
#: The check that fails alone where there is no answer to look at.
ANSWERS = "redis"
#: The check that fails where Redis is a replica.
ROLE = "role"


class Check(NamedTuple):
    """One thing that has to hold before requests are taken."""

    name: str
    ok: bool
    why: str


class ReadinessWatch:
    """Knows whether Redis is one to keep promises with, and says in the log when that changes.

    Nobody may be asking `/readyz`, so calls that change something are refused, too.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._failing: list[str] = []
        self._told_at_s = 0.0
        self._refusal: str | None = None

    def check(self) -> None:
        """Raise Unavailable with the reason if Redis could lose or evict what is acknowledged."""
        if self._refusal is not None:
            raise Unavailable(self._refusal)

    async def look(self) -> None:
        """Check Redis; say what has changed since the last look, and again what lasts."""
        failing = [
            check for check in await check_redis(self._store, self._settings) if not check.ok
        ]
        names = [check.name for check in failing]
        if ROLE in names:
            await self._store.connect_anew()
        why = "; ".join(f"{check.name}: {check.why}" for check in failing)
        if names != [ANSWERS]:
            # If Redis does not answer, nothing new is known, and each call finds out by itself when
            # it is back.
            self._refusal = f"not ready: {why}" if failing else None
        now_s = time.monotonic()
        lasts = names == self._failing
        if lasts and not (failing and now_s - self._told_at_s >= TELL_AGAIN_S):
            return
        self._failing, self._told_at_s = names, now_s
        if failing:
            about = {"why": why, "redis": address_of(self._store.client)}
            log.error("still not ready" if lasts else "not ready", extra=about)
        else:
            log.warning("ready again")


def address_of(client: Redis) -> str:
    """Return where a Redis is looked for: host:port, or the path of its socket."""
    given = client.connection_pool.connection_kwargs
    if "path" in given:
        return str(given["path"])
    # What a URL leaves out is Redis' own default.
    return f"{given.get('host', 'localhost')}:{given.get('port', 6379)}"


async def check_redis(store: Store, settings: Settings) -> list[Check]:
    """Return the checks of the Redis in use; the first failing one names the reason."""
    try:
        info: dict[str, Any] = await store.client.info()
        config = await _config(store)
        primary, loading = info.get("role") == "master", bool(info.get("loading"))
        refusal = await _refusal(store) if primary and not loading else ""
    except ResponseError as error:
        return [Check("info", False, f"expected what INFO says, got {error}")]
    except (RedisError, OSError, RuntimeError) as error:
        # A RuntimeError is what uvloop says of a connection that ended a moment ago.
        return [Check(ANSWERS, False, f"Redis does not answer: {_what_failed(error)}")]
    version = str(info.get("redis_version", "0"))
    numbers = tuple(int(part) for part in version.split(".")[:2])
    policy = str(info.get("maxmemory_policy", "unknown"))
    checks = [
        Check(ANSWERS, True, f"Redis {version} answers"),
        Check(
            "loaded",
            not loading,
            "Redis is still loading its data set" if loading else "the data set is in memory",
        ),
        Check("version", numbers >= OLDEST_REDIS, f"expected 7.0 or newer, got {version}"),
        Check(ROLE, primary, f"expected a primary, got {info.get('role')}"),
        Check("writes", not refusal, refusal or "it takes them"),
        Check("eviction", policy == "noeviction", f"expected noeviction, got {policy}"),
    ]
    # While it loads, Redis writes no log, and says that it has none.
    asked = settings.durability == "strict" and not loading
    return checks + (_durable(info, config) if asked else [])


def _durable(info: dict[str, Any], config: dict[Any, Any]) -> list[Check]:
    appendonly = bool(info.get("aof_enabled"))
    fsync = config.get("appendfsync")
    put_off = config.get("no-appendfsync-on-rewrite")
    return [
        Check("appendonly", appendonly, f"expected yes, got {'yes' if appendonly else 'no'}"),
        Check(
            "appendfsync",
            # A Redis that hides its configuration is trusted; its operator set it.
            fsync in ("always", None),
            f"expected always, got {fsync or 'unknown: CONFIG GET is not allowed'}",
        ),
        Check(
            "no-appendfsync-on-rewrite",
            # While it rewrites its log, or saves, it would flush nothing to the disk.
            put_off in ("no", None),
            f"expected no, got {put_off or 'unknown: CONFIG GET is not allowed'}",
        ),
    ]


async def _refusal(store: Store) -> str:
    """Return why Redis takes no writes, if so: its disk is full, say, or its replicas are gone."""
    try:
        # No model has this name, so nothing changes. It needs no memory: changes that need some
        # find out by themselves, and others are taken.
        await store.client.srem(MODELS_KEY, "")
    except ResponseError as error:
        return str(error)
    return ""


async def _config(store: Store) -> dict[Any, Any]:
    try:
        return dict(await store.client.config_get("appendfsync", "no-appendfsync-on-rewrite"))
    except ResponseError:
        return {}


def _what_failed(error: BaseException) -> str:
    """Return why there was no answer; redis-py keeps the reason behind an error of its own."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, TimeoutError | TimedOut):
            return "no answer in time (redis_timeout_s)"
        if isinstance(found, socket.gaierror):
            return f"no address for its host name (DNS): {found.strerror}"
        if isinstance(found, ConnectionRefusedError):
            return "connection refused"
        if isinstance(found, ConnectionResetError):
            return "connection reset"
        if isinstance(found, AuthenticationError):
            return "it refuses the user or the password"
        if isinstance(found, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {found.verify_message}"
        if isinstance(found, ssl.SSLError):
            return f"no TLS: {found.reason}"
        if isinstance(found, FileNotFoundError):
            return "no such socket, or file of certificates"
        if isinstance(found, OSError) and found.errno in (errno.EMFILE, errno.ENFILE):
            return "this worker may open no more files (ulimit -n)"
        if "max number of clients" in str(found):
            return "it has as many clients as it takes (maxclients)"
        found = found.__cause__ or found.__context__
    return type(error).__name__
