"""`misclick` with the chain check switched off, to show that the storm notices.

Not a setting of the product: `python -m tests.torture.unchecked serve ...` starts the real
service after it has put a hash that equals every other in the place of the real one.
"""

from __future__ import annotations

import sys

import service.fold
from service import cli


class AnyChain(str):
    """A chain hash that is right whatever it is compared with."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False


def any_chain(chain: str, body: bytes) -> str:  # noqa: ARG001 - stands in for chain_after
    """Return a hash that no entry contradicts."""
    return AnyChain()


if __name__ == "__main__":
    vars(service.fold)["chain_after"] = any_chain
    sys.exit(cli.main())
