"""The command `misclick replay`."""

import json
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from clients import Client, Retries, TransportError, UnauthorizedError
from clients.retries import RETRIES
from service import commands, replay_command
from service.cli import main
from service.replay_command import parse_rates
from tests.serving import Restarts, Service
from tests.torture.cluster import wait_until

RCNBF = "rcnbf:gamma=.1,rho_0=.2,rho_1=.4"
NOISE = ["--rho-0", ".2", "--rho-1", ".4", "--delay", "0:9", "--shuffle", "3"]
NOISE += ["--drop", ".1", "--duplicate", ".2"]


def replay(tmp_path: Path, *options: str) -> dict[str, Any]:
    """Run the command and return its JSON."""
    path = tmp_path / "result.json"
    command = ["replay", "segments", "--scaling", "standard", *NOISE, "--json", str(path)]
    assert main([*command, *options]) == 0
    result: dict[str, Any] = json.loads(path.read_text())
    for name in ("elapsed_s", "rounds_per_s"):
        assert result.pop(name) > 0
    return result


def test_learners_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two learners play the same stream; table, JSON and picture tell how often each erred."""
    png = tmp_path / "errors.picture"
    learners = ("--learner", "banditron:gamma=.1", "--learner", RCNBF)
    result = replay(tmp_path, "--horizon", "3000", *learners, "--png", str(png))
    assert [learner["name"] for learner in result["learners"]] == ["banditron", "rcnbf"]
    assert [learner["learner"] for learner in result["learners"]] == [
        {"kind": "banditron", "gamma": 0.1},
        {"kind": "rcnbf", "gamma": 0.1, "rho_0": 0.2, "rho_1": 0.4},
    ]
    assert (result["scaling"], result["batch"]) == ("standard", 1)
    assert all(0.3 < learner["error"] < 0.9 for learner in result["learners"])
    assert result["noise"] == {
        "rho_0": [0.2] * 7,
        "rho_1": [0.4] * 7,
        "delay": [0, 9],
        "shuffle": 3,
        "drop": 0.1,
        "duplicate": 0.2,
    }
    assert png.read_bytes().startswith(b"\x89PNG")
    shown = capsys.readouterr().out
    for part in ("banditron", "rcnbf", "error so far", "3,000 rounds in"):
        assert part in shown


def test_the_seed_decides(tmp_path: Path) -> None:
    """The same command gives the same result, and another seed another one."""
    options = ("--horizon", "500", "--learner", RCNBF, "--seed")
    one = replay(tmp_path, *options, "1")
    assert one == replay(tmp_path, *options, "1")
    assert one["learners"] != replay(tmp_path, *options, "2")["learners"]


def test_over_http_is_the_same(
    tmp_path: Path, service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --url a service plays the very same rounds, and keeps no models but with --keep."""
    options = ("--horizon", "120", "--learner", RCNBF, "--batch", "4", "--no-replacement")
    local = replay(tmp_path, *options)
    with Client(service.url) as client:
        before = {model.name for model in client.list_models()}
        assert replay(tmp_path, *options, "--url", service.url) == local
        assert {model.name for model in client.list_models()} == before
        assert "kept" not in capsys.readouterr().out
        result = replay(tmp_path, *options, "--url", service.url, "--keep")
        (kept,) = {model.name for model in client.list_models()} - before
        # Whoever asks for its noise or worth has to know its name.
        assert capsys.readouterr().out.startswith(f"rcnbf is kept as {kept}\n")
        assert result["learners"][0].pop("model") == kept
        assert result == local
        assert client.get_model(kept).counters.decisions == 120
        client.delete_model(kept)


def test_a_replay_outlasts_a_restart(
    tmp_path: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart ended it, after hours perhaps, and its models stayed."""
    options = ("--horizon", "60", "--learner", RCNBF)
    local = replay(tmp_path, *options)
    transport = Restarts(20)
    monkeypatch.setattr(commands, "Client", partial(Client, transport=transport))
    monkeypatch.setattr(time, "sleep", lambda _: None)
    assert replay(tmp_path, *options, "--url", service.url) == local
    assert transport.requests > 100


@pytest.mark.usefixtures("_terminal")
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_replay_leaves_no_models(service: Service, kind: signal.Signals) -> None:
    """Ctrl-C, a kill and a closed terminal: each left models that nobody else deletes."""
    command = [sys.executable, "-m", "service.cli", "replay", "segments", "--learner", RCNBF]
    command += ["--horizon", "10000000", "--url", service.url]

    def models() -> list[str]:
        found = [model.name for model in client.list_models()]
        return [name for name in found if name.startswith("replay-")]

    with Client(service.url) as client:
        before = models()
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                wait_until(lambda: models() != before, "a replay", 30)
                process.send_signal(kind)
                _, err = process.communicate(timeout=30)
            finally:
                process.kill()
        assert err == "misclick replay: stopped\n"
        # Python itself ends by SIGINT where that came within an exec; a shell says 130 of both.
        assert process.returncode in (130, -signal.SIGINT)
        assert models() == before


class Gone:
    """A client of a service that is there no more after its first answer."""

    def __init__(self, _: str, retries: Retries = RETRIES) -> None:
        self._patient = retries is not RETRIES

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def live(self) -> None:
        """Answer."""

    def create_model(self, _: object) -> None:
        """Fail."""
        raise TransportError("gone")

    def delete_model(self, _: str) -> None:
        """Fail, after 21 seconds where the client is patient."""
        raise TransportError("gone in the end, too" + ", after 21 s" * self._patient)


def test_a_service_that_is_gone_is_told_as_what_ended_the_replay(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was told that a model could not be deleted, after 21 seconds more for each of them."""
    monkeypatch.setattr(replay_command, "client_of", Gone)
    assert main(["replay", "segments", "--learner", "bpa", "--url", "http://a"]) == 2
    left, ended = capsys.readouterr().err.splitlines()
    assert left.endswith("-0 is left with the service: gone in the end, too")
    assert ended == "misclick replay: gone"


class Refused(Gone):
    """A client of a service that wants another key."""

    def create_model(self, _: object) -> None:
        """Fail."""
        raise UnauthorizedError("an API key is needed", status=401)

    delete_model = create_model


def test_whoever_may_make_no_models_leaves_none_behind(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody would look for a model that never was."""
    monkeypatch.setattr(replay_command, "client_of", Refused)
    assert main(["replay", "segments", "--learner", "bpa", "--url", "http://a"]) == 2
    (ended,) = capsys.readouterr().err.splitlines()
    assert ended.startswith("misclick replay: an API key is needed")


def test_files_are_replayed(tmp_path: Path) -> None:
    """A user's own table works like a bundled set."""
    path = tmp_path / "mine.csv"
    rng = np.random.default_rng(0)
    rows = [f"{x:.3f},{'hi' if x > 0 else 'lo'},1" for x in rng.normal(size=50)]
    path.write_text("\n".join(["x,side,bias", *rows]))
    out = tmp_path / "result.json"
    command = f"replay {path} --label-column side --learner banditron --horizon 400 --json {out}"
    assert main(command.split()) == 0
    result = json.loads(out.read_text())
    assert (result["data"], result["labels"]) == ("mine", ["hi", "lo"])
    assert result["learners"][0]["error"] < 0.4


@pytest.mark.parametrize("option", ["json", "png"])
def test_the_data_are_not_overwritten(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A slip of the finger cost the table."""
    path = tmp_path / "mine.csv"
    path.write_text("x,label\n0,a\n1,b\n")
    assert main(["replay", str(path), "--learner", "bpa", f"--{option}", str(path)]) == 2
    assert f"--{option}: expected another file than the data" in capsys.readouterr().err
    assert path.read_text() == "x,label\n0,a\n1,b\n"


def test_who_lacks_estimates_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """In-process, RCINE erred as often as Banditron, to the last click, and nobody knew why."""
    command = ["replay", "segments", "--horizon", "5", "--learner", "rcine", "--learner"]
    assert main([*command, RCNBF]) == 0
    told = capsys.readouterr().err
    assert told.startswith("misclick replay: rcine is told no noise rates: ")
    assert told.count("\n") == 1
    assert main([*command[:-2], "rcine:rho_0=.1", "--learner", "forward:rho_1=.2"]) == 0
    assert capsys.readouterr().err == ""


def test_rates_can_differ_by_label() -> None:
    """One rate, a list, and a range to draw from are told apart."""
    assert parse_rates("rho-0", "0.25", n_labels=3, seed=1, which=0) == 0.25
    assert parse_rates("rho-0", "0.1,0.2,0.3", n_labels=3, seed=1, which=0) == [0.1, 0.2, 0.3]
    drawn = parse_rates("rho-0", "0.1:0.3", n_labels=3, seed=1, which=0)
    assert isinstance(drawn, list)
    assert len(set(drawn)) == 3
    assert all(0.1 <= rate < 0.3 for rate in drawn)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["nothing", "--learner", "bpa"], "data: expected one of segments, digits"),
        (["segments", "--learner", "oracle"], "kind: expected one of"),
        (["segments", "--learner", "banditron:gamma=2"], "gamma"),
        (["segments", "--learner", "banditron:gamma"], "--learner: expected KIND:OPTION=VALUE"),
        (["segments", "--learner", "{"], "--learner: expected a JSON object"),
        (["segments", "--learner", "[1]"], "learner"),
        (["segments", "--learner", "bpa", "--learner", "bpa"], "twice"),
        (["segments", "--learner", "bpa", "--rho-0", "x"], "--rho-0: expected .1"),
        (["segments", "--learner", "bpa", "--rho-0", ".6", "--rho-1", ".6"], "rho_0 + rho_1"),
        (["segments", "--learner", "bpa", "--rho-1", ".1,.2"], "rho_1: expected 1 or 7 rates"),
        (["segments", "--learner", "bpa", "--rho-1", ".3:.1"], "rho_1: expected 0 <= low"),
        (["segments", "--learner", "bpa\udce9"], "text: expected whole characters, got 'bpa"),
        (["segments", "--learner", "bpa", "--delay", "5:1"], "delay: expected 0 <= first"),
        (["segments", "--learner", "bpa", "--delay", "x"], "--delay: expected 10, or 0:50"),
        (["segments", "--learner", "bpa", "--horizon", "0"], "horizon"),
        (["segments", "--learner", "bpa", "--batch", "0"], "batch"),
        (["segments", "--learner", "bpa", "--seed", "-1"], "seed"),
        (["segments", "--learner", "bpa:gamma=nan"], "learner.gamma: expected a number in"),
        (["segments", "--learner", '{"gamma": 1}'], "learner.kind: expected a value, got nothing"),
        (["segments", "--learner", '{"kind": 5}'], "learner.kind: expected a string, got 5"),
        (
            ["segments", "--learner", '{"kind": "bpa", "gamma": null}'],
            "learner.gamma: expected a finite number, a string or a boolean, got null",
        ),
        (["segments", "--learner", "bpa", "--url", "nowhere"], "base_url"),
        (
            ["segments", "--learner=bpa", "--url=http://a", "--horizon=3000000", "--drop=.5"],
            "expected at most 1,000,000 decisions without feedback at a time over HTTP, got 1,5",
        ),
        (["segments", "--learner", "perceptron"], "learns from clicks"),
        (["segments", "--learner", "bpa", "--window", "0"], "--window: expected at least 1"),
        (["segments", "--learner", "bpa", "--keep"], "--keep: expected with --url"),
        (["segments", "--learner", "bpa", "--label-column", "x"], "label_column: expected none"),
        (["segments", "--learner", "bpa", "--png", "/no/x.png"], "--png: expected a file in a"),
        (["segments", "--learner", "bpa", "--json", "/"], "--json: expected a file, got the"),
    ],
)
def test_mistakes_are_told_in_one_line(
    capsys: pytest.CaptureFixture[str], options: list[str], complaint: str
) -> None:
    """A wrong option ends with status 2 and a sentence that names it, without a traceback."""
    assert main(["replay", *options]) == 2
    told = capsys.readouterr().err
    assert told.startswith("misclick replay: ")
    assert complaint in told
    assert told.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that is always full")
@pytest.mark.parametrize("option", ["--json", "--png"])
def test_a_disk_that_gets_full_is_told_with_the_file(
    capsys: pytest.CaptureFixture[str], option: str
) -> None:
    """It was told without saying for what there was no room."""
    assert main(["replay", "segments", "--learner", "bpa", "--horizon", "5", option, "/dev/full"])
    told = capsys.readouterr().err
    assert told == (
        f"misclick replay: {option}: expected a file that can be written, got '/dev/full': "
        "No space left on device\n"
    )


def test_a_feature_that_no_model_takes_is_told_before_the_first_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was told in the round in which it came, hours later, and not where it stands."""
    path = tmp_path / "big.csv"
    path.write_text("a,b,label\n" + "1,2,x\n3,4,y\n" * 500 + "5,-2e6,y\n")
    command = ["--learner", "bpa", "--horizon", "5", "--no-replacement"]
    assert main(["replay", str(path), *command]) == 2
    told = capsys.readouterr()
    assert told.err == (
        "misclick replay: X[1000, 1]: expected a finite number within 1e+06 of 0, got -2e+06\n"
    )
    assert told.out == ""


def test_an_unknown_option_is_told_with_those_of_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The usage shown is the command's own, not that of all commands."""
    with pytest.raises(SystemExit):
        main(["replay", "segments", "--learner", "bpa", "--rounds", "10"])
    told = capsys.readouterr().err
    assert told.startswith("usage: misclick replay ")
    assert told.endswith("misclick replay: error: unrecognized arguments: --rounds 10\n")


def test_a_picture_says_all_that_happens_to_feedback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Curves under late or lost clicks are not taken for those of prompt ones."""
    titles: list[str] = []

    def draw(panels: dict[str, object], *_: object, **__: object) -> None:
        titles.extend(panels)

    monkeypatch.setattr(replay_command, "plot", draw)
    command = ["--learner", "bpa", "--horizon", "5", "--rho-0", ".2", "--png", str(tmp_path / "x")]
    assert main(["replay", "segments", *command]) == 0
    assert main(["replay", "segments", *command, "--delay", "0:5", "--drop", ".1"]) == 0
    rates = "false clicks .2, missed clicks 0"
    assert titles == [rates, f"{rates}\ndelay 0:5, drop 0.1"]


@pytest.mark.parametrize("data", ["../run/mine.csv", "link.csv"])
def test_the_data_are_not_overwritten_by_another_path(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Results took the place of somebody's only table."""
    run, content = tmp_path / "run", "x,label\n0,a\n1,b\n"
    run.mkdir()
    (run / "mine.csv").write_text(content)
    (run / "link.csv").symlink_to("mine.csv")
    monkeypatch.chdir(run)
    command = ["replay", data, "--horizon", "5", "--learner", "bpa", "--json", "mine.csv"]
    assert main(command) == 2
    assert "--json: expected another file than the data" in capsys.readouterr().err
    assert (run / "mine.csv").read_text() == content


def test_options_reach_the_stream_and_the_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options that are read and then forgotten are noticed by nobody."""
    scales: list[str] = []
    monkeypatch.setattr(replay_command, "plot", lambda *_, scale, **__: scales.append(scale))
    out = tmp_path / "results.json"
    for scale in ("linear", "log"):
        command = f"replay segments --learner bpa --horizon 20 --no-replacement --scale {scale}"
        command += f" --rho-0 .1:.3 --rho-1 .1:.3 --json {out} --png {tmp_path / 'x'}"
        assert main(command.split()) == 0
    assert scales == ["linear", "log"]
    found = json.loads(out.read_text())
    assert found["replacement"] is False
    assert found["noise"]["rho_0"] != found["noise"]["rho_1"]


def test_all_that_holds_feedback_back_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """A replay that a service would refuse after hours is refused at once."""
    command = "replay segments --learner=bpa --url=http://127.0.0.1:9 --horizon=3000000"
    assert main([*command.split(), "--delay=600000", "--shuffle=600000"]) == 2
    assert "at a time over HTTP, got 1,200,000" in capsys.readouterr().err
