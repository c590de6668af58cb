"""Keeps web pages out of a service that asks for no keys.

Such a service listens on loopback; but a browser on the same machine calls it for any page that it
shows. A page of another site can send what needs no preflight (an empty POST, say), and one whose
name has come to resolve to 127.0.0.1 passes for ours. `Origin` gives away the first, `Host` the
second.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from service.errors import Forbidden, shorten

#: Values of `Host` that are remembered as good: more names than anybody gives one machine.
MOST_KNOWN = 64


class PageGuard:
    """Tells calls of programs, and of this machine's own pages, from those of other pages."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()

    def check(self, headers: Mapping[bytes, bytes]) -> None:
        """Raise Forbidden where another site's page calls, or passes for this machine."""
        host = headers.get(b"host")
        if host is not None and host not in self._known:
            if _has_owner(_name_of(host)):
                raise Forbidden(_why("Host", host))
            if len(self._known) < MOST_KNOWN:
                self._known.add(host)
        origin = headers.get(b"origin")
        if origin is not None:
            site = origin.partition(b"://")[2]
            if site != host and not _is_here(_name_of(site)):
                raise Forbidden(_why("Origin", origin))


def _why(header: str, value: bytes) -> str:
    got = shorten(value.decode("latin-1"))
    return f"{header} is {got!r}: without API keys (keys_file), pages of other sites are refused"


def _name_of(authority: bytes) -> str:
    """Return the name in `name:port`, for an IPv6 address what is in brackets."""
    text = authority.decode("latin-1").lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].rstrip(".")


def _has_owner(name: str) -> bool:
    """Whether somebody may control what a name resolves to: it has dots and is no address."""
    return "." in name and not name.endswith(".localhost") and _address(name) is None


def _is_here(name: str) -> bool:
    """Whether a page of this name is this machine's own."""
    address = _address(name)
    if address is not None:
        return address.is_loopback
    return name == "localhost" or name.endswith(".localhost")


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
