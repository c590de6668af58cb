"""Web pages are kept out of a service without keys, and out of none with keys."""

from pathlib import Path

import pytest

from service.auth import Scope, new_key
from service.browsers import MOST_KNOWN, PageGuard
from service.errors import Forbidden
from tests.service.apps import client_of, create, running_app

OURS = ["localhost:8000", "LOCALHOST", "a.localhost", "127.0.0.1:8000", "127.9.9.9", "[::1]:8000"]


@pytest.mark.parametrize("host", [*OURS, "misclick:8000", "10.0.0.7", "[fe80::1]:80", ""])
def test_hosts_that_nobody_can_point_here_are_answered(host: str) -> None:
    """Addresses, and names without dots: no page can have one of them and lead here."""
    guard = PageGuard()
    for _ in range(2):
        guard.check({b"host": host.encode()})
    guard.check({})


@pytest.mark.parametrize(
    "host",
    ["evil.example", "EVIL.example:8000", "evil.example.", "localhost.evil.example", "127.0.0.1.x"],
)
def test_a_name_that_may_be_led_here_is_refused(host: str) -> None:
    """A page whose name comes to resolve to 127.0.0.1 would read and delete every model."""
    with pytest.raises(Forbidden, match="Host is"):
        PageGuard().check({b"host": host.encode()})


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "http://evil", "null", "file://", "http://10.0.0.7", "localhost"],
)
def test_a_page_of_another_site_is_refused(origin: str) -> None:
    """A browser sends an empty POST for it without asking: it could promote a challenger."""
    with pytest.raises(Forbidden, match="Origin is"):
        PageGuard().check({b"host": b"127.0.0.1:8000", b"origin": origin.encode()})


@pytest.mark.parametrize("site", OURS)
def test_pages_of_this_machine_are_answered(site: str) -> None:
    """So are those that the service shows itself, by whatever name it is called."""
    guard = PageGuard()
    guard.check({b"host": b"127.0.0.1:8000", b"origin": f"http://{site}".encode()})
    guard.check({b"host": b"misclick:8000", b"origin": b"http://misclick:8000"})


def test_hosts_are_not_remembered_without_end() -> None:
    """Whoever invents ports fills no memory, and is answered all the same."""
    guard = PageGuard()
    for port in range(2 * MOST_KNOWN):
        guard.check({b"host": b"localhost:%d" % port})
    assert len(guard._known) == MOST_KNOWN


async def test_only_a_service_without_keys_looks(valkey_url: str, tmp_path: Path) -> None:
    """No page knows a key; who has keys may have any name, and pages of his own."""
    key, line = new_key("key", "red", [Scope.ADMIN])
    file = tmp_path / "keys.json"
    file.write_text(line)
    evil = {"host": "evil.example", "origin": "http://evil.example"}
    async with running_app(valkey_url) as app, client_of(app) as client:
        path = await create(client)
        for method, where in (
            ("POST", f"{path}/challengers/c/promote"),
            ("POST", f"{path}/predict"),
            ("GET", path),
            ("GET", "/metrics"),
        ):
            assert (await client.request(method, where, headers=evil)).status_code == 403
        await client.delete(path)
    async with (
        running_app(valkey_url, keys_file=file) as app,
        client_of(app, authorization=f"Bearer {key}") as client,
    ):
        assert (await client.get("/v1/models", headers=evil)).status_code == 200
