"""The command `misclick evaluate`, with a real service."""

from __future__ import annotations

import re

import msgspec
import pytest

from clients import Client, Evaluation, Feedback, Instance, Round
from service.cli import main
from tests.clients.conftest import fresh_spec
from tests.serving import Service


def make(client: Client, *, rounds: int) -> str:
    """Create a model with a challenger, play rounds, return its name."""
    spec = fresh_spec(learner={"kind": "rcnbf", "rho_0": 0.1, "rho_1": 0.25, "gamma": 0.5})
    client.create_model(spec)
    client.add_challenger(spec.name, "passive", {"kind": "bpa"})
    decisions = client.predict_batch(spec.name, [Instance(x=[n, 1, -1]) for n in range(rounds)])
    client.feedback_batch(
        spec.name, [Feedback(d.decision_id, int(d.label == "a")) for d in decisions]
    )
    return spec.name


def told_and_shown(service: Service, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Tell a new model of 200 rounds that were all clicked; return its name and what is shown."""
    with Client(service.url) as client:
        name = make(client, rounds=0)
        client.tell_rounds(name, [Round(x=[1, 1, 1], label="a", propensity=0.5, feedback=1)] * 200)
    assert main(["evaluate", name, "--url", service.url]) == 0
    return name, capsys.readouterr().out


def test_what_policies_are_worth_is_shown(
    service: Service, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table with every policy and what it is made from; as JSON what the client gets."""
    monkeypatch.setenv("COLUMNS", "200")
    with Client(service.url) as client:
        name = make(client, rounds=400)
        known = client.evaluate(name)
    command = ["evaluate", name, "--url", service.url]
    assert main(command) == 0
    said = capsys.readouterr().out
    passive = next(policy for policy in known.policies if policy.name == "passive")
    dr, gain = passive.dr, passive.gain
    assert dr is not None
    assert gain is not None
    for part in (
        *("decides:", "original", "challenger:", "passive", "every label", "alike", "always a"),
        f"{100 * dr.value:.1f} ± {100 * (dr.high - dr.value):.1f}",
        f"{100 * gain.value:+.1f} ± {100 * (gain.high - gain.value):.1f}",
        "From 400 rounds, events 2 to 401 of 401.",
        "was made with or has found: 10.0 % false clicks, 25.0 % missed clicks",
    ):
        assert part in said
    assert main([*command, "--json"]) == 0
    assert msgspec.json.decode(capsys.readouterr().out, type=Evaluation) == known
    assert main([*command, "--rounds", "50", "--json"]) == 0
    assert msgspec.json.decode(capsys.readouterr().out, type=Evaluation).rounds == 50


def test_the_policy_of_somebody_else_is_shown(
    service: Service, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever told a model of his own rounds finds himself in the table."""
    monkeypatch.setenv("COLUMNS", "200")
    name, said = told_and_shown(service, capsys)
    with Client(service.url) as client:
        known = client.evaluate(name)
    (other,) = (policy.ips for policy in known.policies if policy.policy == "elsewhere")
    assert other is not None
    row = next(line for line in said.splitlines() if "decided " in line)
    assert f"{100 * other.value:.1f} ± {100 * (other.high - other.value):.1f}" in row


def test_the_table_is_read_in_eighty_columns(
    service: Service, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No name or number is cut or broken, even in fewer; what is not to be trusted is said."""
    long = "a [label] of more than twenty characters"
    with Client(service.url) as client:
        spec = fresh_spec(labels=("a", long))
        client.create_model(spec)
        told = [Round(x=[1, 1, n], label=long, propensity=0.5, feedback=1) for n in range(50)]
        client.tell_rounds(spec.name, told)
    for columns in ("80", "40"):
        monkeypatch.setenv("COLUMNS", columns)
        assert main(["evaluate", spec.name, "--url", service.url]) == 0
        said = capsys.readouterr().out
        assert "…" not in said
        assert max(map(len, said.splitlines())) <= 80
        assert re.findall(r"±\s*\S+", said) == re.findall(r"± \d+\.\d", said) != []
        assert f"* always {long}: too few rounds tell of it" in " ".join(said.split())


def test_what_is_wrong_with_all_numbers_is_said_once(
    service: Service, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not once for every policy, of which there may be two dozen."""
    monkeypatch.setenv("COLUMNS", "200")
    _, said = told_and_shown(service, capsys)
    assert said.count("every round was clicked") == 1
    assert "* all of them: every round was clicked" in said


def test_a_model_without_rounds_has_nothing_to_show(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is told so, and is no error."""
    with Client(service.url) as client:
        name = make(client, rounds=0)
    assert main(["evaluate", name, "--url", service.url]) == 0
    assert capsys.readouterr().out == "No rounds yet.\n"


def test_mistakes_are_told_in_one_line(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model that is not there, too few rounds, a wrong address: status 2 and a sentence."""
    with Client(service.url) as client:
        name = make(client, rounds=0)
    for arguments, complaint in (
        (["no-such-model", "--url", service.url], "no-such-model"),
        ([name, "--url", service.url, "--rounds", "1"], "rounds"),
        ([name, "--url", "nowhere"], "base_url"),
    ):
        assert main(["evaluate", *arguments]) == 2
        said = capsys.readouterr().err
        assert complaint in said
        assert said.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [
        ("evaluate", "no-such", "--url"),
        ("noise", "no-such", "--url"),
        ("replay", "segments", "--learner", "bpa", "--horizon", "3", "--url"),
    ],
)
def test_an_empty_key_is_none(
    service: Service,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
) -> None:
    """As a shell or a container sets a variable to nothing; with the end of a line it is none."""
    monkeypatch.setenv("MISCLICK_API_KEY", "")
    main([*command, service.url])
    assert "api_key" not in capsys.readouterr().err
    monkeypatch.setenv("MISCLICK_API_KEY", "s3cret\n")
    assert main([*command, service.url]) == 2
    said = capsys.readouterr().err
    assert "api_key: expected printable ASCII" in said
    assert "s3cret" not in said
