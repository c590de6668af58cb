"""One client for many threads, processes and tasks."""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx
import pytest

from clients import AsyncClient, Client, Retries, TransportError
from clients.async_client import AT_ONCE

#: A server that forks its workers after it has asked something, as gunicorn does with --preload.
FORKS = """
import os, sys
from clients import Client
client = Client(sys.argv[1])
client.live()
child = os.fork()
if child:
    os.waitpid(child, 0)
    client.live()
client.live()
"""


class Ports(ThreadingHTTPServer):
    """Answers everything, and notes from which port it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.seen: list[int] = []


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Ports

    def do_GET(self) -> None:
        """Answer as /livez does."""
        self.server.seen.append(self.client_address[1])
        body = b'{"live":true}'
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def ports() -> Iterator[Ports]:
    """Return a server that notes ports."""
    with Ports() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_forked_process_has_connections_of_its_own(ports: Ports) -> None:
    """On a shared one, each read answers of the other: visitors got those of other visitors."""
    url = f"http://127.0.0.1:{ports.server_port}"
    subprocess.run([sys.executable, "-c", FORKS, url], check=True, timeout=30)
    first, *others = ports.seen
    assert sorted(port == first for port in others) == [False, True, True]


@pytest.mark.parametrize("take", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_client_is_made_anew_in_each_process(take: Callable[[object], object]) -> None:
    """A pool of processes pickles what it is to call: it said something of entropy."""
    with (
        Client("http://127.0.0.1:9") as client,
        pytest.raises(TypeError, match="make one in each"),
    ):
        take(client)


def test_after_an_interrupt_connections_are_new(
    ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever went on in a notebook waited for ever where their lock had been held."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    # Left to the garbage collector, the first ones would end with a warning, in any test.
    with Client(f"http://127.0.0.1:{ports.server_port}") as client, client._http:
        client.live()
        with monkeypatch.context() as patch:
            patch.setattr(httpx.Client, "request", interrupted)
            with pytest.raises(KeyboardInterrupt):
                client.live()
        client.live()
    before, after = ports.seen
    assert before != after


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_this_machine_is_asked_without_a_proxy(
    ports: Ports, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the environment names one, the demo waited for its own service in vain."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    url = f"http://{host}:{ports.server_port}"
    with Client(url, retries=Retries(tries=1)) as client:
        client.live()
    async with AsyncClient(url, retries=Retries(tries=1)) as other:
        await other.live()
    with (
        Client("http://misclick.test", retries=Retries(tries=1)) as client,
        pytest.raises(TransportError, match="refused"),
    ):
        client.live()


async def test_many_tasks_wait_for_their_turn() -> None:
    """A thousand visitors at once are all answered; in httpx's queue most waited in vain."""
    under_way: list[int] = []
    most = 0

    async def answer(_: httpx.Request) -> httpx.Response:
        nonlocal most
        under_way.append(1)
        most = max(most, len(under_way))
        await asyncio.sleep(0)
        under_way.pop()
        return httpx.Response(200, json={"models": []})

    async with AsyncClient("http://a", transport=httpx.MockTransport(answer)) as client:
        calls = [client.list_models() for _ in range(3 * AT_ONCE)]
        assert await asyncio.gather(*calls) == [[]] * len(calls)
    assert most == AT_ONCE


def test_a_forked_process_keeps_the_connections_that_it_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of its calls would have made others, and left a socket open."""
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json={"models": []}))
    with Client("http://a", transport=transport) as client:
        parents = client._connections
        # As if it were forked.
        monkeypatch.setattr(os, "getpid", lambda: -1)
        client.list_models()
        made = client._connections
        client.list_models()
        assert parents is not made is client._connections
