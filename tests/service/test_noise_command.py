"""The command `misclick noise`, with a real service and a real training."""

from __future__ import annotations

import io
import os
import re
from argparse import Namespace
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace
from rich.console import Console

from clients import (
    Client,
    Dense,
    Example,
    Feedback,
    Instance,
    Noise,
    NoiseRates,
    Retries,
    WindowNoise,
)
from service import commands, noise_command
from service.auth import Scope, new_key
from service.cli import main
from service.noise_command import wait
from service.outputs import terminal
from tests.clients.conftest import fresh_spec
from tests.clients.test_noise_report import estimate, noise
from tests.serving import Restarts, Service, running_service

RHO_0, RHO_1 = 0.1, 0.25
ROUNDS = 2000
#: Some 4 s on a quiet machine.
LIMIT_S = "120"


def make(client: Client, *, rounds: int) -> str:
    """Create a model of two labels, play rounds with clicks that lie, return its name."""
    learner = {"kind": "rcine", "gamma": 0.5}
    spec = fresh_spec(labels=("left", "right"), learner=learner, estimate_every=5000)
    assert client.create_model(spec).estimate_every == 5000
    xs = np.random.default_rng(1).normal(size=(rounds, 3)).round(3)
    chance = np.random.default_rng(2).random(rounds)
    decisions = client.predict_batch(spec.name, [Instance(x=x) for x in xs])
    client.feedback_batch(
        spec.name,
        [
            Feedback(
                decision.decision_id,
                int(u < (1 - RHO_1 if (decision.label == "right") == (x[0] > 0) else RHO_0)),
            )
            for decision, x, u in zip(decisions, xs, chance, strict=True)
        ],
    )
    return spec.name


def test_the_rates_are_estimated_shown_and_drawn(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole way: ask, wait, tables, picture; and as JSON the same that the client gets."""
    png = tmp_path / "q.png"
    with Client(service.url) as client:
        name = make(client, rounds=ROUNDS)
        command = ["noise", name, "--url", service.url]
        assert main([*command, "--estimate", "--wait-s", LIMIT_S, "--png", str(png)]) == 0
        said = capsys.readouterr()
        known = client.noise(name)
        assert main([*command, "--json"]) == 0
        assert msgspec.json.decode(capsys.readouterr().out, type=Noise) == known
    (estimate,) = known.history
    assert known.source == estimate, estimate.verdict
    assert abs(known.rates.rho_0 - RHO_0) < 0.06
    assert abs(known.rates.rho_1 - RHO_1) < 0.06
    assert [one.label for one in estimate.by_label] == ["left", "right"]
    assert sum(one.shown for one in estimate.by_label) == estimate.examples == ROUNDS
    assert [sum(counts) for counts in estimate.histogram] == [ROUNDS, ROUNDS]
    for part in (f"{100 * known.rates.rho_0:.1f} %", "come from estimate 1", "2,000", "right"):
        assert part in said.out
    assert said.err == ""
    assert png.read_bytes().startswith(b"\x89PNG")


def test_what_neighbours_tell_is_shown(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a model that reads noise off its window: rates, or how labels are told; nothing drawn."""
    rng = np.random.default_rng(3)
    xs = np.round(rng.random(400), 3)
    wrong = rng.random(400) < np.where(xs > 0.5, RHO_1, RHO_0)
    said = np.where((xs > 0.5) != wrong, "right", "left")
    examples = [
        Example(x=[x], label=label) for x, label in zip(xs.tolist(), said.tolist(), strict=True)
    ]
    learner = {"kind": "rknn_auto"}
    with Client(service.url) as client:
        spec = fresh_spec(labels=("left", "right"), features=Dense(1), learner=learner)
        name = client.create_model(spec).name
        command = ["noise", name, "--url", service.url]
        assert main(command) == 0
        assert "The window holds 0 examples" in capsys.readouterr().out
        client.learn_batch(name, examples)
        known = client.window_noise(name)
        assert main(command) == 0
        shown = capsys.readouterr().out
        assert main([*command, "--json"]) == 0
        assert msgspec.json.decode(capsys.readouterr().out, type=WindowNoise) == known
    for one in known.estimates:
        assert one.rho_0 is not None
        assert one.rho_1 is not None
        assert f"{100 * one.rho_0:.1f} %" in shown
        assert f"{100 * one.rho_1:.1f} %" in shown
    best = max(known.pairs, key=lambda pair: pair.hits)
    for part in (
        "told right, is left",
        "The window holds 400 examples",
        f"{100 * best.hits:.1f} %",
    ):
        assert part in shown
    for option, complaint in (
        (["--png", str(tmp_path / "q.png")], "--png: expected a model whose clicks"),
        (["--estimate"], "a learner that uses noise rates, got rknn_auto"),
        (["--cancel"], "a learner that uses noise rates, got rknn_auto"),
    ):
        assert main([*command, *option]) == 2
        assert complaint in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_refused_estimate_is_told(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    """Too few data are a verdict, not an error; but there is nothing to draw."""
    with Client(service.url) as client:
        name = make(client, rounds=0)
    command = ["noise", name, "--url", service.url]
    assert main([*command, "--png", "q.png"]) == 2
    assert "expected an estimate to draw" in capsys.readouterr().err
    assert main([*command, "--estimate"]) == 0
    assert "The newest estimate is 1: no feedback yet" in capsys.readouterr().out
    assert main([*command, "--png", "q.png"]) == 2
    assert "has nothing to draw: no feedback yet" in capsys.readouterr().err
    assert not Path("q.png").exists()


def test_what_a_learner_begins_with_is_not_found(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the first feedback the default learner has found nothing; after it, something."""
    with Client(service.url) as client:
        name = client.create_model(fresh_spec(learner={"kind": "forward_softmax"})).name
        command = ["noise", name, "--url", service.url]
        assert main(command) == 0
        assert "they are what it begins with" in capsys.readouterr().out
        decision = client.predict(name, [1.0, 0.0, 0.0])
        client.feedback(name, decision.decision_id, 0)
        assert main(command) == 0
        assert "begins with" not in capsys.readouterr().out


def test_rates_of_each_label_are_shown_where_they_are_used(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """Found or set, but not of a learner for which all labels have the same."""
    by_label = {"b": NoiseRates(rho_0=0.4, rho_1=0.05)}
    with Client(service.url) as client:
        for learner, table in (({"kind": "forward_softmax"}, True), ({"kind": "rcine"}, False)):
            name = client.create_model(fresh_spec(learner=learner)).name
            command = ["noise", name, "--url", service.url]
            assert main(command) == 0
            assert ("In force by label" in capsys.readouterr().out) == table
            client.set_rates(name, rho_0=0.1, rho_1=0.2, by_label=by_label if table else None)
            assert main(command) == 0
            said = capsys.readouterr().out
            assert ("In force by label" in said) == table
            assert re.search(r"b +│ +40\.0 │ +5\.0", said) if table else "10.0 %" in said


def test_a_terminal_sees_how_far_it_is(service: Service) -> None:
    """Whoever waits sees what for; nothing is left of it afterwards."""
    out = io.StringIO()
    with Client(service.url) as client:
        name = make(client, rounds=0)
        number = client.estimate_noise(name)
        console = Console(file=out, force_terminal=True, width=80)
        noise = wait(client, name, number, wait_s=float(LIMIT_S), console=console)
        assert noise.result(number) == client.noise(name).history[0]
    assert "estimate 1 is asked for" in out.getvalue()


def test_the_wait_is_bounded(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    """A trainer that does not end does not hold the user for ever."""
    with Client(service.url) as client:
        name = make(client, rounds=0)
    assert main(["noise", name, "--url", service.url, "--estimate", "--wait-s", ".01"]) == 2
    told = capsys.readouterr().err
    assert told == "misclick noise: estimate 1 has not ended within 0.01 s\n"


def test_the_wait_outlasts_a_restart(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A service that was started anew meanwhile ended the command, though not the estimate."""
    with Client(service.url) as client:
        name = make(client, rounds=0)
    transport = Restarts(2)
    monkeypatch.setattr(commands, "Client", partial(Client, transport=transport))
    monkeypatch.setattr(
        Retries, "wait_s", lambda self, tried, **_: 0.0 if tried < self.tries else None
    )
    assert main(["noise", name, "--url", service.url, "--estimate", "--wait-s", LIMIT_S]) == 0
    assert transport.requests > 12
    assert "The newest estimate is 1: " in capsys.readouterr().out


def test_an_estimate_is_called_off(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever has waited long enough ends it, and sees that it is ended."""
    with Client(service.url) as client:
        name = make(client, rounds=0)
        client.estimate_noise(name)
        assert main(["noise", name, "--url", service.url, "--cancel"]) == 0
        noise = client.noise(name)
    assert (noise.asked, noise.running) == (False, None)
    assert "The newest estimate is 1: " in capsys.readouterr().out


def test_mistakes_are_told_in_one_line(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model that is not there, one without rates, a wrong address: status 2 and a sentence."""
    with Client(service.url) as client:
        plain = client.create_model(fresh_spec(learner={"kind": "banditron"})).name
    for arguments, complaint in (
        (["no-such-model", "--url", service.url], "no-such-model"),
        ([plain, "--url", service.url], "a learner that uses noise rates"),
        ([plain, "--url", service.url, "--estimate"], "a learner that uses noise rates"),
        ([plain, "--url", "nowhere"], "base_url"),
        ([plain, "--url", service.url, "--png", "/no/q.png"], "--png: expected a file in a folder"),
    ):
        assert main(["noise", *arguments]) == 2
        told = capsys.readouterr().err
        assert told.startswith("misclick noise: ")
        assert complaint in told
        assert told.count("\n") == 1
    for wrong in ("nan", "0", "inf", "x"):
        with pytest.raises(SystemExit):
            main(["noise", plain, "--url", service.url, "--wait-s", wrong])
        told = f"--wait-s: expected a number above 0, got {wrong!r}"
        assert told in capsys.readouterr().err


def test_the_key_comes_from_the_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key is not on the command line, where every user of the machine reads it."""
    key, line = new_key("ops", "shop", [Scope.ADMIN])
    path = tmp_path / "keys.json"
    path.write_text(f"[{line}]")
    monkeypatch.delenv("MISCLICK_API_KEY", raising=False)
    with running_service(keys_file=path) as guarded:
        spec = fresh_spec(learner={"kind": "rcine"})
        with Client(guarded.url, api_key=key) as client:
            client.create_model(spec)
        command = ["noise", spec.name, "--url", guarded.url]
        replay = ["replay", "segments", "--learner", "bpa", "--url", guarded.url]
        for each in (command, ["evaluate", *command[1:]], replay):
            assert main(each) == 2
            told = capsys.readouterr().err
            assert "an API key is needed" in told
            assert "from MISCLICK_API_KEY" in told
        monkeypatch.setitem(os.environ, "MISCLICK_API_KEY", key)
        assert main(command) == 0
    assert "only" not in (out := capsys.readouterr().out)
    assert "every 50,000 feedbacks" in out


def test_a_picture_says_whether_its_estimate_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is passed on without what was printed beside it."""
    titles: list[str] = []
    monkeypatch.setattr(noise_command, "plot", lambda *_, title: titles.append(title))
    for one in (estimate(2), replace(estimate(2), trusted=False)):
        noise_command._draw(Namespace(model="ads", png=tmp_path / "q"), noise(one))
    title = "ads: estimate 7 from 12,345 rounds"
    assert titles == [title, f"{title}, not trusted"]


def test_the_newest_estimate_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Older ones tell of another hour."""
    labels = tuple(replace(each, label="old", shown=77) for each in estimate(2).by_label)
    old = replace(estimate(2), number=6, examples=11, by_label=labels)
    noise_command._show(noise(estimate(2), old), terminal())
    shown = capsys.readouterr().out
    assert "label [1]" in shown
    assert "77" not in shown
