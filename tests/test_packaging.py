"""What is packed and how it runs: container files, as far as that goes without an engine."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
import yaml

from service.cli import COMMANDS, main
from service.main import DRAIN_S
from service.settings import ENV_PREFIX, Settings

ROOT = Path(__file__).parents[1]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_compose_sets_only_settings_that_exist() -> None:
    """Protects from a container that is refused for a variable nobody knows."""
    known = {f"{ENV_PREFIX}{name.upper()}" for name in Settings.model_fields}
    environment = COMPOSE["services"]["misclick"]["environment"]
    assert set(environment) <= known
    Settings(**{k.removeprefix(ENV_PREFIX).lower(): v for k, v in environment.items()})


def test_compose_keeps_what_is_acknowledged() -> None:
    """Protects the store's durability: every write on disk before it is acknowledged."""
    command = COMPOSE["services"]["valkey"]["command"]
    options = dict(zip(command[1::2], command[2::2], strict=True))
    assert options["--appendonly"] == "yes"
    assert options["--appendfsync"] == "always"
    assert options["--maxmemory-policy"] == "noeviction"
    assert COMPOSE["services"]["valkey"]["volumes"]


def test_compose_waits_for_health_and_runs_two_workers() -> None:
    """Protects the start order, and that the service is published on loopback only."""
    service = COMPOSE["services"]["misclick"]
    assert service["depends_on"]["valkey"]["condition"] == "service_healthy"
    assert all("healthcheck" in one for one in COMPOSE["services"].values())
    assert service["environment"]["MISCLICK_WORKERS"] == "2"
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def test_compose_gives_the_service_no_rights_that_it_does_not_need() -> None:
    """Whoever breaks into the service finds nothing to write to, and nothing to become."""
    service = COMPOSE["services"]["misclick"]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "ports" not in COMPOSE["services"]["valkey"]


def test_the_image_copies_what_is_there_and_runs_a_command_that_exists() -> None:
    """Protects the build: paths, the ignore file, the command and the user."""
    ignore = (ROOT / ".dockerignore").read_text().splitlines()
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    for path in " ".join(copied).split():
        assert (ROOT / path).exists()
        assert f"!{path}" in ignore
    command = re.search(r'^CMD \["misclick", "(\w+)"', DOCKERFILE, re.MULTILINE)
    assert command is not None
    assert command[1] in COMMANDS
    assert re.search(r"^USER misclick$", DOCKERFILE, re.MULTILINE)


def test_a_container_has_the_time_that_a_stop_takes() -> None:
    """Protects requests under way, and the last snapshot, from the engine's kill after 10 s."""
    grace = COMPOSE["services"]["misclick"]["stop_grace_period"]
    assert int(grace.removesuffix("s")) > DRAIN_S + 5


def test_the_image_has_a_data_folder_that_its_user_can_write() -> None:
    """Protects from a volume that belongs to root: the embedded store would not start on it."""
    folder = f"/home/misclick/{Settings.model_fields['data_dir'].default}"
    assert f"install --directory --owner misclick --group misclick {folder}\n" in DOCKERFILE
    assert re.search(r"^WORKDIR /home/misclick$", DOCKERFILE, re.MULTILINE)


def test_the_image_can_have_what_estimates_need() -> None:
    """Protects from an extra that the package does not have."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    asked = re.search(r"--build-arg 'EXTRAS=\[(\w+)\]", DOCKERFILE)
    assert asked is not None
    assert "torch" in extras[asked[1]][0]
    assert 'install --no-cache-dir ".$EXTRAS"\n' in DOCKERFILE


def test_the_package_carries_its_scripts_and_types() -> None:
    """Protects an installed package from missing what is no Python file."""
    packaged = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert set(packaged["package-data"]["*"]) == {"py.typed", "*.lua"}
    assert (files("service.scripts") / "admit.lua").is_file()
    for package in ("learners", "service", "clients"):
        assert (files(package) / "py.typed").is_file()


def test_the_command_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    """Protects whoever has to report what he runs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"misclick {project['version']}\n"
