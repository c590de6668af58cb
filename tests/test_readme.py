"""What the documents say works: their calls, snippets, commands and links."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import pytest

import clients
from service.cli import main
from tests.serving import Service

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
GUIDE = (ROOT / "docs" / "guide.md").read_text()
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
CALL = re.compile(r"curl -s localhost:8000(\S+).*?-d '(.*?)'", re.DOTALL)
DOCUMENTS = sorted(path.relative_to(ROOT) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def test_the_round_trip_is_what_the_readme_shows(fresh_service: Service) -> None:
    """Protects the newcomer's first three calls, with the answers that the README prints."""
    create, predict, feedback = CALL.findall(README)
    made = httpx.post(fresh_service.url + create[0], json=json.loads(create[1]))
    assert made.status_code == 201, made.text
    decision = httpx.post(fresh_service.url + predict[0], json=json.loads(predict[1])).json()
    shown = json.loads(re.findall(r"# (\{.*)", README)[0].replace(":…}", ":0}"))
    assert set(decision) == set(shown)
    told = json.loads(feedback[1]) | {"decision_id": decision["decision_id"]}
    receipt = httpx.post(fresh_service.url + feedback[0], json=told).json()
    assert receipt == json.loads(re.findall(r"# (\{.*)", README)[1])


def test_the_snippet_runs(fresh_service: Service) -> None:
    """Protects the Python lines of the README, on the model that its calls made."""
    create = CALL.findall(README)[0]
    httpx.post(fresh_service.url + create[0], json=json.loads(create[1]))
    (snippet,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(snippet.replace("http://localhost:8000", fresh_service.url), {})  # noqa: S102 - ours


def test_a_model_is_copied_as_it_is_told(fresh_service: Service) -> None:
    """Protects the two calls by which a model is kept, or moved."""
    create = CALL.findall(README)[0]
    httpx.post(fresh_service.url + create[0], json=json.loads(create[1]))
    out, back = re.findall(r"curl -s localhost:8000(\S+/(?:log|import)) (.*)", OPERATIONS)
    kind = re.findall(r"-H '(.*?): (.*?)'", back[1])
    kept = httpx.get(fresh_service.url + out[0]).content
    copied = httpx.post(fresh_service.url + back[0], content=kept, headers=kind)
    assert copied.status_code == 201, copied.text
    assert copied.json()["seq"] == httpx.get(fresh_service.url + create[0] + "/ads").json()["seq"]


def test_the_neighbours_vote(fresh_service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    """Protects the lines of the guide on neighbours."""
    (lines,) = re.findall(
        r"```\n(client\.create_model\(ModelSpec\(name=\"mails\".*?)```", GUIDE, re.DOTALL
    )
    with clients.Client(fresh_service.url) as client:
        exec(lines, {**vars(clients), "client": client})  # noqa: S102 - ours
    label, distance, suspected = capsys.readouterr().out.split()
    assert (label, suspected) == ("spam", "False")
    assert float(distance) > 0


def test_items_come_and_are_shelved(fresh_service: Service) -> None:
    """Protects the lines of the guide on new items, and on shelves."""
    lines = {
        name: re.findall(rf"## {name}\n.*?```\n(.*?)```", GUIDE, re.DOTALL)[0]
        for name in ("New items", "A shelf of a few items")
    }
    wares = clients.Named((clients.Field(name="age", type="number"),))
    with clients.Client(fresh_service.url) as client:
        names = {**vars(clients), "client": client}
        exec(lines["New items"], names)  # noqa: S102 - ours
        assert [label.name for label in client.get_model("shop").labels] == ["hat", "cap", "bonnet"]
        client.create_model(
            clients.ModelSpec(
                name="wares", labels=("11",), features=wares, learner={"kind": "forward"}
            )
        )
        exec(lines["A shelf of a few items"], names)  # noqa: S102 - ours
        assert client.get_model("wares").counters.feedback == 2


def test_the_replay_command_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Protects the command line that the README gives to try one's own data."""
    monkeypatch.chdir(tmp_path)
    text = README.replace("\\\n", "")
    (line,) = re.findall(r"^misclick (replay segments .*)$", text, re.MULTILINE)
    assert main([*line.split(), "--horizon", "300"]) == 0
    assert (tmp_path / "errors.png").stat().st_size > 1000


def anchors(document: Path) -> set[str]:
    """Return what headings of a document are called in links to them."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_links_lead_somewhere(document: Path) -> None:
    """Protects readers from links to files, and to sections of them, that are not there."""
    here = ROOT / document
    for target in re.findall(r"\]\((?!http)([^)]+)\)", here.read_text()):
        name, _, anchor = target.partition("#")
        there = here.parent / name if name else here
        assert there.exists(), f"{document} links to {target}"
        assert not anchor or anchor in anchors(there), f"{document} links to {target}"


def test_make_targets_exist() -> None:
    """Protects the commands that the documents tell to run."""
    makefile = (ROOT / "Makefile").read_text()
    for document in DOCUMENTS:
        for target in re.findall(r"`make ([a-z]+)`", (ROOT / document).read_text()):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target}"
