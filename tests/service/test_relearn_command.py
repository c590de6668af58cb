"""The command `misclick relearn`, with a real service."""

from __future__ import annotations

import time
from contextlib import nullcontext
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from clients import Client, Relearned, Round
from service import relearn_command
from service.cli import main
from service.relearn_command import said_of
from tests.clients.conftest import fresh_spec
from tests.serving import Service


def test_a_model_is_made_and_told_of(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    """Without what was heard in a time that is given in any zone; with another learner."""
    with Client(service.url) as client:
        name = client.create_model(fresh_spec()).name
        good = [Round(x=[1, 1, n], label="a", propensity=0.5, feedback=1) for n in range(7)]
        client.tell_rounds(name, good)
        time.sleep(0.01)
        then = datetime.now(UTC)
        time.sleep(0.01)
        client.tell_rounds(name, good[:3])
        command = ["relearn", name, f"{name}-2", "--url", service.url]
        # In another zone, in words that have a + in them.
        local = then.astimezone(datetime.strptime("+0130", "%z").tzinfo).isoformat()
        assert main([*command, "--without", f"{local}/"]) == 0
        said = capsys.readouterr().out
        assert f"{name}-2 has learned from 7 of 10 rounds, 20" in said
        assert "Left out: 3, 3 with a click." in said
        assert client.get_model(f"{name}-2").counters.told == 7
        command[2] = f"{name}-3"
        learner = ["--learner", "bpa:gamma=.25", "--without", f"/{then.isoformat()}", "--json"]
        assert main([*command, *learner]) == 0
        found = msgspec.json.decode(capsys.readouterr().out, type=Relearned)
        assert (found.name, found.learned, found.left_out) == (f"{name}-3", 3, 7)
        assert client.get_model(found.name).learner == {"kind": "bpa", "gamma": 0.25}


def test_what_was_refused_or_not_there_is_told() -> None:
    """An operator sees that the log did not hold what he thought."""
    found = Relearned(
        name="b",
        seq=0,
        first_ms=None,
        last_ms=None,
        learned=0,
        clicks=0,
        left_out=0,
        left_out_clicks=0,
        refused=0,
    )
    assert said_of(found) == ["b has learned nothing: the log holds nothing to learn from."]
    some = msgspec.structs.replace(found, first_ms=0, last_ms=1000, learned=1200, refused=1)
    assert said_of(some) == [
        "b has learned from 1,200 of 1,201 rounds, 1970-01-01T00:00:00Z to 1970-01-01T00:00:01Z.",
        "Refused by the learner: 1.",
    ]


def test_mistakes_are_told_in_one_line(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """Times without a zone, the wrong way round or none at all; a name that is taken."""
    with Client(service.url) as client:
        name = client.create_model(fresh_spec()).name
    for arguments, complaint in (
        ([name, name], "there is a model"),
        (["no-such-model", "b"], "no-such-model"),
        ([name, "b", "--without", "2026-03-01T02:00/"], "a time zone"),
        ([name, "b", "--without", "yesterday/"], "'yesterday'"),
        ([name, "b", "--without", "2026-03-01T02:00Z"], "FROM/UNTIL"),
        ([name, "b", "--without", "/"], "FROM/UNTIL"),
        ([name, "b", "--without", "2026-03-02T00:00Z/2026-03-01T00:00Z"], "got 2026-03-02T00"),
        ([name, "b", "--learner", "nobody"], "learner.kind"),
    ):
        assert main(["relearn", *arguments, "--url", service.url]) == 2
        said = capsys.readouterr().err
        assert complaint in said
        assert said.count("\n") == 1


def test_each_time_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two bad hours the second was learned all the same; and so are retired labels, if asked."""
    asked: list[Any] = []

    def relearn(_: str, name: str, *, learner: object, **left_out: Any) -> Relearned:
        assert learner is None
        asked.append(left_out)
        none = dict.fromkeys(("seq", "learned", "clicks", "left_out", "left_out_clicks"), 0)
        return Relearned(name=name, first_ms=None, last_ms=None, refused=0, **none)

    service = nullcontext(SimpleNamespace(relearn=relearn))
    monkeypatch.setattr(relearn_command, "client_of", lambda _: service)
    times = ("2026-03-01T02:00Z/", "/2026-02-01T00:00Z")
    command = ["relearn", "a", "b", "--url", "http://x", "--without", times[0]]
    assert main([*command, "--without", times[1]]) == 0
    first, second = datetime(2026, 3, 1, 2, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    assert main([*command, "--without-retired"]) == 0
    times_left_out = [[(first, None), (None, second)], [(first, None)]]
    assert [each["without"] for each in asked] == times_left_out
    assert [each["without_retired"] for each in asked] == [False, True]
