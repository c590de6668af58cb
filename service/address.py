"""Where a model lives in Redis: its keys, and what its scripts need from its spec.

Keys of one model share the hash tag `{tenant/name}`, hence one slot of a cluster.

| key | type | content |
|---|---|---|
| `mc:{m}:meta` | hash | spec, uid, format, seq, chain, labels, counters |
| `mc:{m}:pending` | hash | nonce -> record of the decision |
| `mc:{m}:due` | sorted set | nonce -> deadline in ms |
| `mc:{m}:held` | hash | nonce -> feedback, and when it came, where it waits for the deadline |
| `mc:{m}:done:<uid>:<bucket>` | hash with TTL | nonce -> outcome, seq, head of the record |
| `mc:{m}:log` | stream | `<seq>-0` -> body, chain |
| `mc:{m}:snap`, `:snap1` | hash | seq, chain, digest, names of the state's parts |
| `mc:{m}:parts` | hash | name, which is its SHA-256 -> part of a state |
| `mc:{m}:estimate` | hash | the estimate of noise rates that is asked for or being made |
| `mc:{m}:estimates` | list | results of estimates, newest first |
| `mc:models` | set | every `tenant/name`, and some of models that no longer exist |
| `mc:secret` | string | what decision ids are signed with, unless the settings say |
"""

from __future__ import annotations

from dataclasses import dataclass

from service.spec import ModelSpec

MODELS_KEY = "mc:models"
SECRET_KEY = "mc:secret"  # noqa: S105 - the name of a key, not a secret
#: What a model has keys for, except its tombstones, whose keys come and go.
PARTS = (
    "meta",
    "pending",
    "due",
    "held",
    "log",
    "snap",
    "snap1",
    "parts",
    "estimate",
    "estimates",
)
#: Tombstone buckets are at least this wide: a retry a minute later still gets its answer.
MIN_BUCKET_MS = 60_000
#: A bucket is kept until at most three more have gone by (`_done.lua`).
_OLDEST_BUCKET = 3


@dataclass(frozen=True, slots=True)
class Address:
    """Where one incarnation of one model lives, and what its scripts need from its spec."""

    key: str
    uid: str
    window_ms: int
    bucket_ms: int
    max_pending: int
    log_keep: int
    #: Whether silence means no click: then feedback is held until the window closes.
    no_click: bool

    @classmethod
    def of(cls, key: str, uid: str, spec: ModelSpec) -> Address:
        """Return the address of the model `key` with this incarnation and spec."""
        window_ms = round(spec.window_s * 1000)
        bucket_ms = max(window_ms, MIN_BUCKET_MS)
        no_click = spec.on_expiry == "no_click"
        return cls(key, uid, window_ms, bucket_ms, spec.max_pending, spec.log_keep, no_click)

    def part(self, name: str) -> str:
        """Return the Redis key of one part of the model."""
        return part_key(self.key, name)

    @property
    def done(self) -> str:
        """Prefix of the tombstone buckets; another incarnation never sees them."""
        return f"{self.part('done')}:{self.uid}"

    def tombstones(self, now_ms: int) -> list[str]:
        """Return the keys of the buckets that may exist at this time of Redis' clock."""
        bucket = now_ms // self.bucket_ms
        return [f"{self.done}:{bucket + age}" for age in range(-_OLDEST_BUCKET, 2)]


def part_key(key: str, name: str) -> str:
    """Return the Redis key of one part of the model `key`."""
    return f"mc:{{{key}}}:{name}"
