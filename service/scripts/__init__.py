"""The Lua scripts: each is one atomic step, with every check before its first write."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha1
from importlib.resources import files
from typing import Final

_INCLUDE = "--include "


@dataclass(frozen=True, slots=True)
class Script:
    """One script: its text, and the SHA-1 that Redis knows it by."""

    name: str
    text: str
    sha: str


def load(name: str) -> Script:
    """Return the script in `name`.lua with its includes put in."""
    folder = files(__package__)
    lines = []
    for line in (folder / f"{name}.lua").read_text().splitlines():
        if line.startswith(_INCLUDE):
            part = line.removeprefix(_INCLUDE).strip()
            lines += (folder / f"{part}.lua").read_text().splitlines()
        else:
            lines.append(line)
    text = "\n".join(lines) + "\n"
    return Script(name, text, sha1(text.encode(), usedforsecurity=False).hexdigest())


DECIDE: Final = load("decide")
WITHDRAW: Final = load("withdraw")
ADMIT: Final = load("admit")
EXPIRE: Final = load("expire")
LEARN: Final = load("learn")
APPEND: Final = load("append")
COUNT_REWINDS: Final = load("count_rewinds")
READ: Final = load("read")
PUT_PARTS: Final = load("put_parts")
SNAP: Final = load("snap")
CREATE: Final = load("create")
IMPORT: Final = load("import")
FINISH: Final = load("finish")
ABANDON: Final = load("abandon")
ASK_ESTIMATE: Final = load("ask_estimate")
CLAIM_ESTIMATE: Final = load("claim_estimate")
RENEW_ESTIMATE: Final = load("renew_estimate")
FINISH_ESTIMATE: Final = load("finish_estimate")
