"""What the meta hash of a model says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Self

from service.errors import NotFound, Unreadable, shorten
from service.spec import ModelSpec

FORMAT = "2"
COUNTERS = (
    "decisions",
    "feedback",
    "clicks",
    "expired",
    "late",
    "duplicates",
    "conflicts",
    "learned",
    "told",
    "rewinds",
)


class Meta(NamedTuple):
    """What a model's meta hash says."""

    spec: ModelSpec
    #: Of this very model; one made or imported later under its name has another.
    uid: str
    #: What the chain of its log began with: its uid, or the origin of the model that it copies.
    origin: str
    seq: int
    chain: str
    labels: str
    #: The learners as last changed, the deciding one first; empty where they are the spec's.
    learners: str
    created_at_ms: int
    counters: dict[str, int]

    @classmethod
    def of(cls, key: str, raw: Mapping[bytes, bytes]) -> Self:
        """Return what the hash of the model `key` says.

        Raises NotFound where there is none, Unreadable where it is of another version or damaged.
        """
        fields = {name.decode(): value for name, value in raw.items()}
        if "uid" not in fields:
            raise NotFound(f"there is no model {shorten(key.split('/', 1)[-1])!r}")
        written = fields.get("format", b"").decode()
        if written != FORMAT:
            raise Unreadable(f"the model's format is {written!r}, not {FORMAT!r}")
        try:
            return cls(
                ModelSpec.from_json(fields["spec"]),
                fields["uid"].decode(),
                fields.get("origin", fields["uid"]).decode(),
                int(fields["seq"]),
                fields["chain"].decode(),
                fields["labels"].decode(),
                fields.get("learners", b"").decode(),
                int(fields["created_at_ms"]),
                {name: int(fields.get(name, 0)) for name in COUNTERS},
            )
        except (KeyError, ValueError) as error:
            # Damaged, or of a newer version whose specs have more fields.
            raise Unreadable(f"the model cannot be read: {shorten(str(error))}") from error
