"""OpenAPI says what is true: of every call, and as Schemathesis finds by trying.

The structural tests look at the document; the two long ones let Schemathesis loose on a
running service, by the phases of its command and by the links from call to call.
"""

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import hypothesis
import msgspec
import pytest
import schemathesis
from hypothesis.errors import FlakyStrategyDefinition, InvalidDefinition
from hypothesis.stateful import run_state_machine_as_test
from schemathesis.config import SchemathesisConfig

import service as package
from learners import LEARNERS
from service import wire
from service.app import create_app
from service.auth import Scope, new_key
from service.features import MAX_HASHED, MAX_VALUE
from service.route_docs import EXAMPLE_MODEL, EXAMPLES
from service.settings import Settings
from service.spec import MAX_FEATURES, ModelSpec
from tests.service.apps import Json
from tests.service.fuzz import MODELS
from tests.service.test_auth import NEEDS, OPEN, ROUTES
from tests.serving import running_service

assert package.__file__ is not None
ROOT = Path(package.__file__).parents[1]
CONFIG = "tests/service/fuzz/schemathesis.toml"
#: Cases that the long tests try at least: 2,000 together.
CASES = 1700
LINKED_CASES = 150
SEED = "1"
#: The calls that links lead through: all of them, and those of a round, to get through often.
LINKED = {
    "all": sorted(NEEDS),
    "rounds": ["create_model", "feedback", "predict", "predict_batch"],
}

DOCUMENT: Json = create_app(Settings(redis_url="redis://nowhere"))._app.openapi()  # type: ignore[attr-defined]
OPERATIONS: dict[str, Json] = {
    operation["operationId"]: operation
    for operations in DOCUMENT["paths"].values()
    for operation in operations.values()
}


# -- the document -----------------------------------------------------------------------------
def test_every_route_is_documented() -> None:
    """Each call with its summary, its tag and whether it asks for a key."""
    assert OPERATIONS.keys() == {route.name for route in ROUTES} == NEEDS.keys() | OPEN
    for name, operation in OPERATIONS.items():
        assert operation["summary"].endswith(".")
        assert operation["tags"]
        assert (operation.get("security") == [{"apiKey": []}]) is (name in NEEDS)


@pytest.mark.parametrize("name", sorted(NEEDS))
def test_every_error_is_documented(name: str) -> None:
    """A call that asks for a key has the statuses of that, and a body those of bodies."""
    operation = OPERATIONS[name]
    found = {int(status) for status in operation["responses"]}
    expected = {401, 403, 422, 429, 503}
    if name == "metrics":
        # Answered however busy the worker is, and without Redis.
        assert found - {200} == {401, 403}
        return
    if "{model}" in next(route.path for route in ROUTES if route.name == name):
        expected.add(404)
    if "requestBody" in operation:
        expected |= {400, 409, 413, 415}
    assert expected <= found
    for status in found:
        response = operation["responses"][str(status)]
        assert response["description"]
        if status >= 400:
            (content,) = response["content"].values()
            assert content["schema"]["$ref"].endswith("/ErrorOut")
        assert ("Retry-After" in response.get("headers", {})) is (status in (429, 503))
        assert ("WWW-Authenticate" in response.get("headers", {})) is (status == 401)


def test_nothing_that_fastapi_made_up_is_left() -> None:
    """Errors have one form; the one that FastAPI has by itself is never sent."""
    text = json.dumps(DOCUMENT)
    assert "HTTPValidationError" not in text
    assert text.count("ValidationError") == 0


async def test_the_pages_of_the_documentation_need_no_other_host() -> None:
    """Keys are typed into them: no script there is one that others may change."""
    transport = httpx.ASGITransport(create_app(Settings(redis_url="redis://nowhere")))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for page in ("/docs", "/redoc"):
            answer = await client.get(page)
            sources = re.findall(r'(?:src|href)="([^"]+)"', answer.text)
            assert [source for source in sources if source.endswith(".js")]
            for source in sources:
                assert re.match("/[^/]", source)
                assert (await client.get(source)).status_code == 200


def test_every_reference_leads_somewhere() -> None:
    """No schema is missing, and none is there that nobody uses."""
    text = json.dumps(DOCUMENT)
    used = set(re.findall(r"#/components/schemas/(\w+)", text))
    assert used == DOCUMENT["components"]["schemas"].keys()


@pytest.mark.parametrize("name", ["predict", "feedback", "learn", "rounds"])
def test_the_hot_calls_schemas_are_those_that_parse(name: str) -> None:
    """The types that parse bodies, and that write answers, are the types in the document."""
    bodies = {
        "predict": (wire.Instance, wire.Instances, wire.DecisionOut, wire.Decisions),
        "feedback": (wire.FeedbackIn, wire.Feedbacks, wire.Receipt, wire.Receipts),
        "learn": (wire.ExampleIn, wire.Examples, wire.Receipt, wire.Receipts),
        "rounds": (wire.RoundIn, wire.Rounds, wire.Receipt, wire.Receipts),
    }[name]
    taken = [_schema(OPERATIONS[n]["requestBody"]["content"]) for n in (name, f"{name}_batch")]
    given = [_schema(OPERATIONS[n]["responses"]["200"]["content"]) for n in (name, f"{name}_batch")]
    assert [*taken, *given] == [kind.__name__ for kind in bodies]
    _, generated = msgspec.json.schema_components(
        bodies, ref_template="#/components/schemas/{name}"
    )
    for kind in bodies:
        found = json.loads(json.dumps(DOCUMENT["components"]["schemas"][kind.__name__]))
        if "x" in found["properties"]:
            # The bounds of values are checked where they are encoded, not where they are parsed.
            found["properties"]["x"]["anyOf"] = generated[kind.__name__]["properties"]["x"]["anyOf"]
        assert found == generated[kind.__name__]


def test_the_bounds_of_an_instance_are_those_that_are_checked() -> None:
    """Numbers and sizes in the document are what the encoders refuse beyond."""
    for body in ("Instance", "ExampleIn", "RoundIn", "NeighborsIn"):
        listed, named = DOCUMENT["components"]["schemas"][body]["properties"]["x"]["anyOf"]
        assert (listed["minItems"], listed["maxItems"]) == (1, MAX_FEATURES)
        assert (listed["items"]["minimum"], listed["items"]["maximum"]) == (-MAX_VALUE, MAX_VALUE)
        assert named["maxProperties"] == MAX_HASHED
        assert named["additionalProperties"]["anyOf"][0] == listed["items"]


def _schema(content: Json) -> str:
    return str(content["application/json"]["schema"]["$ref"].rpartition("/")[2])


def test_every_learner_is_documented_with_its_options() -> None:
    """One variant a kind; what has no default is required."""
    variants = DOCUMENT["components"]["schemas"]["LearnerSpec"]["oneOf"]
    found = {variant["properties"]["kind"]["const"]: variant for variant in variants}
    assert found.keys() == LEARNERS.keys()
    for kind, learner in LEARNERS.items():
        assert found[kind]["properties"].keys() == {"kind", *learner.option_names()}
        assert found[kind]["required"] == ["kind", *learner.required_option_names()]


def test_what_a_state_says_of_itself_is_documented() -> None:
    """Two workers' states are compared by these headers: they are part of the answer."""
    documented = OPERATIONS["get_state"]["responses"]["200"]["headers"]
    assert {name.removeprefix("x-misclick-") for name in documented} == {"seq", "chain", "sha256"}


def test_a_state_is_bytes() -> None:
    """Clients that are generated from the document decoded it as text."""
    (content,) = OPERATIONS["get_state"]["responses"]["200"]["content"].values()
    assert content["schema"] == {"type": "string", "format": "binary"}


def test_no_body_holds_an_address() -> None:
    """The service never fetches anything: no schema has a field for a URL."""
    assert not re.search(r'"format": "(uri|url)', json.dumps(DOCUMENT))


def test_the_examples_are_taken() -> None:
    """What the documentation shows is what the calls accept."""
    ModelSpec.model_validate(EXAMPLES["ModelSpec"])
    for kind in (
        *(wire.Instance, wire.FeedbackIn, wire.ExampleIn, wire.RoundIn),
        *(wire.Instances, wire.Feedbacks, wire.Examples, wire.Rounds),
    ):
        msgspec.json.decode(json.dumps(EXAMPLES[kind.__name__]), type=kind)


# -- a running service ------------------------------------------------------------------------
class Target(NamedTuple):
    """A service with API keys and models of every kind."""

    url: str
    key: str
    log: Path

    def client(self) -> httpx.Client:
        """Return a client with the key."""
        return httpx.Client(base_url=self.url, headers={"authorization": f"Bearer {self.key}"})


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """Run a service; when all is done it must have met no fault."""
    key, line = new_key("fuzz", "fuzz", [Scope.ADMIN])
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    keys.write_text(f"[{line}]")
    with running_service(keys_file=keys, max_models=10_000) as service:
        found = Target(service.url, key, service.log)
        _make_models(found)
        yield found
        with found.client() as client:
            metrics = client.get("/metrics").text
        assert "a request failed" not in service.log.read_text()
    statuses = set(re.findall(r'misclick_requests_total{.*status="(\d+)"}', metrics))
    assert {status for status in statuses if status >= "500"} <= {"503"}


def _make_models(target: Target) -> None:
    learners = {EXAMPLE_MODEL: {"kind": "rcnbf", "rho_0": 0.1, "rho_1": 0.2}}
    learners |= {"hashed": {"kind": "banditron"}, "labels": {"kind": "perceptron"}}
    assert learners.keys() == set(MODELS)
    with target.client() as client:
        for name, learner in learners.items():
            features: Json = {"type": "dense", "size": 3}
            if name == "hashed":
                features = {"type": "hashed", "size": 16}
            spec = {"name": name, "learner": learner, "labels": ["hats", "shoes", "a"]}
            answer = client.post("/v1/models", json=spec | {"features": features})
            assert answer.status_code == 201, answer.text


def test_schemathesis_finds_nothing(target: Target, tmp_path: Path) -> None:
    """Examples, boundaries and random cases of every call, good and bad, under every check."""
    report = tmp_path / "report.json"
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", CONFIG, "run"),
        *(f"{target.url}/openapi.json", "--header", f"Authorization: Bearer {target.key}"),
        *("--phases", "examples,coverage,fuzzing", "--seed", SEED, "--no-color"),
        *("--report", "json", "--report-json-path", str(report)),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
    found = json.loads(report.read_text())
    assert found["operations"]["tested"] == len(OPERATIONS)
    assert found["test_cases"]["generated"] >= CASES


@pytest.mark.parametrize("calls", LINKED)
def test_links_lead_from_call_to_call(
    target: Target, monkeypatch: pytest.MonkeyPatch, calls: str
) -> None:
    """A model that was just made is used, and its decisions are answered, along the links."""
    monkeypatch.chdir(ROOT)
    config = SchemathesisConfig.from_path(CONFIG)
    whole = schemathesis.openapi.from_url(f"{target.url}/openapi.json", config=config)
    schema = whole.include(operation_id=LINKED[calls])
    seen: Counter[tuple[str, int]] = Counter()
    failures: list[Exception] = []

    class Machine(schema.as_state_machine()):  # type: ignore[misc]
        """Follows links, every scenario from the same models."""

        def setup(self) -> None:
            """Delete what the last scenario made: the next one must find its names free."""
            with target.client() as client:
                for model in client.get("/v1/models").json()["models"]:
                    if model["name"] not in MODELS:
                        client.delete(f"/v1/models/{model['name']}")

        def get_call_kwargs(self, case: Any) -> Json:  # noqa: ARG002 - the base class's
            """Present the key."""
            return {"headers": {"Authorization": f"Bearer {target.key}"}}

        def validate_response(self, response: Any, case: Any, **options: Any) -> None:
            """Count, and run every check."""
            name = case.operation.definition.raw["operationId"]
            seen[name, response.status_code] += 1
            try:
                super().validate_response(response, case, **options)
            except Exception as error:
                failures.append(error)
                raise

    settings = hypothesis.settings(
        max_examples=5,
        stateful_step_count=14,
        deadline=None,
        database=None,
        # Answers of a real server cannot be played again: what is found is told as it was found.
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    for seed in range(6):
        # Answers of a real server (ids, times, how far an estimate is) are part of what is drawn
        # from: Hypothesis may find a scenario to go on otherwise than the last time, or not at
        # all. That ends a few scenarios; what the checks found counts all the same.
        with suppress(FlakyStrategyDefinition, InvalidDefinition):
            run_state_machine_as_test(hypothesis.seed(seed)(Machine), settings=settings)
    assert failures == []
    assert seen.total() >= LINKED_CASES
    assert seen["create_model", 201]
    if calls == "rounds":
        assert seen["predict", 200]
        assert seen["feedback", 200]
