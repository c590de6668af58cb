"""Who may do what: API keys with a tenant and scopes; only their SHA-256 is ever stored."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from service.complaints import NO_SUCH_FIELD, of_pydantic
from service.errors import Forbidden, Unauthorized
from service.spec import MODEL_NAME, Strict

T = TypeVar("T")

DEFAULT_TENANT = "default"
#: 256 bits: nobody can guess a key, so a plain hash of it is safe to store.
KEY_BYTES = 32
#: Keys that one file may hold.
MAX_KEYS = 10_000


class Scope(StrEnum):
    """What a key may do; admin includes the rest."""

    PREDICT = "predict"
    FEEDBACK = "feedback"
    ADMIN = "admin"


class ApiKey(Strict):
    """One line of the keys file, or one item of the array that it holds."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    tenant: Annotated[str, StringConstraints(pattern=MODEL_NAME)]
    scopes: list[Annotated[Scope, Field(strict=False)]] = Field(min_length=1)
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Caller:
    """Who is calling: the tenant, and what the key allows."""

    __slots__ = ("scopes", "tenant")

    def __init__(self, tenant: str, scopes: Iterable[Scope]) -> None:
        self.tenant = tenant
        self.scopes = frozenset(scopes)

    def require(self, scope: Scope) -> None:
        """Raise Forbidden unless the key has the scope."""
        if scope not in self.scopes and Scope.ADMIN not in self.scopes:
            raise Forbidden(f"the API key lacks the scope {scope.value!r}")

    def key_of(self, model: str) -> str:
        """Return the key of the tenant's model of this name."""
        return f"{self.tenant}/{model}"


class Keys:
    """The keys that are known; without any, everybody is the default tenant's admin.

    That is why a service without keys listens on loopback only.
    """

    def __init__(self, keys: Iterable[ApiKey] | None) -> None:
        self._anybody = Caller(DEFAULT_TENANT, Scope) if keys is None else None
        self._callers: Mapping[bytes, Caller] = {
            bytes.fromhex(key.sha256): Caller(key.tenant, key.scopes) for key in keys or ()
        }

    @classmethod
    def load(cls, path: Path | None) -> Keys:
        """Read the keys file; ValueError says what is wrong with it, never what is in it."""
        if path is None:
            return cls(None)
        text = path.read_bytes()
        if text.lstrip().startswith(b"["):
            array = _read(path, _ARRAY, text)
            keys = {f"[{at}]": key for at, key in enumerate(array)}
        else:
            keys = {
                f"line {number}": _read(path, _KEY, line, f"line {number}")
                for number, line in enumerate(text.splitlines(), 1)
                if line.strip()
            }
        if not 0 < len(keys) <= MAX_KEYS:
            raise ValueError(f"keys file {path}: expected 1 to {MAX_KEYS} keys, got {len(keys)}")
        places: dict[str, str] = {}
        for place, key in keys.items():
            other = places.setdefault(key.sha256, place)
            if other != place:
                what = f"another key than {other}: one key has one tenant"
                raise ValueError(f"keys file {path}: {place}: expected {what}")
        return cls(keys.values())

    @property
    def tenants(self) -> frozenset[str]:
        """The tenants whose keys are known."""
        return frozenset(caller.tenant for caller in self._callers.values())

    @property
    def open(self) -> bool:
        """Whether calls need no key."""
        return self._anybody is not None

    def caller(self, authorization: str | None) -> Caller:
        """Return who presents this Authorization header, or raise Unauthorized."""
        if self._anybody is not None:
            return self._anybody
        if authorization is None:
            raise Unauthorized("an API key is needed: Authorization: Bearer <key>")
        scheme, _, key = authorization.partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthorized("expected Authorization: Bearer <key>, got another scheme")
        # The timing of a hash's lookup reveals nothing about the key.
        caller = self._callers.get(sha256(key.strip().encode()).digest())
        if caller is None:
            raise Unauthorized("the API key is not known")
        return caller


_KEY = TypeAdapter(ApiKey)
_ARRAY = TypeAdapter(list[ApiKey])


def _read(path: Path, kind: TypeAdapter[T], text: bytes, line: str = "") -> T:
    """Return what is in a keys file, or in a line of it; never quote what is wrong there."""
    try:
        return kind.validate_json(text)
    except ValidationError as error:
        first = of_pydantic(error.errors(include_input=False, include_url=False)).details[0]
        where, expected = first.where, first.expected
        if error.errors()[0]["type"] == "json_invalid":
            where = ""
            expected = "JSON: one object a line, as `misclick key` prints it, or an array of them"
        elif expected == NO_SUCH_FIELD:
            # The name of an unknown field may be anything: a key, say.
            where, expected = where.rpartition(".")[0], "no other fields"
        elif not error.errors()[0]["loc"]:
            where = ""
    place = ", ".join(filter(None, (line, where)))
    raise ValueError(f"keys file {path}: {place + ': ' if place else ''}expected {expected}")


def new_key(name: str, tenant: str, scopes: Sequence[str]) -> tuple[str, str]:
    """Return a fresh key, to be shown once, and its JSON line for the keys file.

    Raises
    ------
    ValidationError
        If a keys file could not hold one of them.
    """
    key = secrets.token_urlsafe(KEY_BYTES)
    hashed = sha256(key.encode()).hexdigest()
    line = {"name": name, "tenant": tenant, "scopes": list(scopes), "sha256": hashed}
    entry = ApiKey.model_validate(line)
    return key, json.dumps(entry.model_dump())
