"""Every example runs against the real service and prints what it promises."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import examples
from tests.serving import Service

FOLDER = Path(examples.__path__[0])
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
#: What the last line of each says.
PROMISES = {
    "async_batches": r"^\d+ clicks on 2000 decisions$",
    "challenger": r"^corrected decides now$",
    "swapped_clicks": r"^made anew: \d\.\d% wrong$",
    "quickstart": r"^the click is event 1 of the model's log: applied$",
    "shadow": r"^the model shows shoes now$",
    "recommender": r"^last fifth: (?:[7-9]\d|100)% were shown what they want$",
}


def run(name: str, url: str) -> str:
    """Return what an example prints."""
    command = [sys.executable, "-W", "error", "-m", f"examples.{name}", "--url", url]
    done = subprocess.run(
        command, cwd=FOLDER.parent, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs(service: Service, name: str) -> None:
    """A reader who copies it gets what it says."""
    last = run(name, service.url).splitlines()[-1]
    assert re.search(PROMISES[name], last), last


@pytest.mark.parametrize("name", NAMES)
def test_an_example_presents_a_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a service with keys, as production has it, each ended with the first call."""
    module = import_module(f"examples.{name}")
    asked = []

    def client(_: str, *, api_key: str | None = None) -> None:
        asked.append(api_key)
        raise InterruptedError

    for kind in ("Client", "AsyncClient"):
        if hasattr(module, kind):
            monkeypatch.setattr(module, kind, client)
    monkeypatch.setenv("MISCLICK_API_KEY", "a-key")
    monkeypatch.setattr(sys, "argv", [name])
    with pytest.raises(InterruptedError):
        module.main()
    assert asked == ["a-key"]
