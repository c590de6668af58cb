"""The pure core of the client."""

import io
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients import _wire
from clients._wire import Call
from clients.errors import (
    BY_CODE,
    ApiError,
    ConflictError,
    Detail,
    InputError,
    NotFoundError,
    ProtocolError,
    UnavailableError,
)
from clients.types import Check, Dense, Feedback, Field, Instance, ModelSpec, Named, NoiseRates

SPEC = ModelSpec(
    name="ads", learner={"kind": "banditron", "gamma": 0.1}, labels=("a", "b"), features=Dense(3)
)


def sent(call: Call[Any]) -> Any:
    """Return the JSON body of a call."""
    assert isinstance(call.body, bytes)
    return json.loads(call.body)


def error_body(code: str) -> bytes:
    """Return an error as the API shapes it."""
    detail = {"where": "x[3]", "expected": "a finite number", "got": "null"}
    return json.dumps(
        {"error": {"code": code, "message": "x[3]: expected", "details": [detail]}}
    ).encode()


@pytest.mark.parametrize("code", BY_CODE)
def test_a_refusal_becomes_its_error(code: str) -> None:
    """The user gets the class, the sentence, the details and the wait that the service sent."""
    error = _wire.error_of(418, error_body(code), "7")
    assert type(error) is BY_CODE[code]
    assert isinstance(error, ApiError)
    assert error.status == 418
    assert error.message == str(error) == "x[3]: expected"
    assert error.details == (Detail("x[3]", "a finite number", "null"),)
    assert error.retry_after_s == 7.0


@pytest.mark.parametrize("body", [b"", b"<html>", b"{}", b'{"error": {"code": 7}}', b"\xff"])
def test_a_strange_answer_is_named(body: bytes) -> None:
    """A proxy's error page is not mistaken for a refusal by the service."""
    assert isinstance(_wire.error_of(502, body, None), ProtocolError)
    with pytest.raises(ProtocolError):
        _wire.get_model("ads").read(200, body, None, 1)


def test_a_code_of_a_newer_service_is_still_an_api_error() -> None:
    """A code that this version does not know keeps its sentence and status."""
    error = _wire.error_of(451, error_body("secret"), "Wed, 21 Oct 2026 07:28:00 GMT")
    assert type(error) is ApiError
    assert error.retry_after_s is None


def test_what_is_left_out_is_not_sent() -> None:
    """The service's defaults apply, not the client's."""
    assert sent(_wire.create_model(SPEC)) == {
        "name": "ads",
        "learner": {"kind": "banditron", "gamma": 0.1},
        "labels": ["a", "b"],
        "features": {"type": "dense", "size": 3},
    }
    fields = (Field(name="age", type="number"), Field(name="page", type="category", values=("x",)))
    spec = ModelSpec(name="n", learner={}, labels=("a",), features=Named(fields), window_s=5)
    assert sent(_wire.create_model(spec)) == {
        "name": "n",
        "learner": {},
        "labels": ["a"],
        "features": {
            "type": "named",
            "fields": [
                {"name": "age", "type": "number"},
                {"name": "page", "type": "category", "values": ["x"]},
            ],
        },
        "window_s": 5,
    }
    call = _wire.predict("ads", Instance(x=[1.0]), "r")
    assert sent(call) == {"x": [1.0], "request_id": "r"}


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), max_size=9))
def test_features_arrive_exactly(values: list[float]) -> None:
    """A float32 array, its list and what the service parses are the same numbers."""
    array = np.array(values, dtype=np.float32)
    for x in (array, values, tuple(values)):
        body = sent(_wire.predict("ads", Instance(x=x), "r"))
        assert body["x"] == values
        assert np.array(body["x"], dtype=np.float32).tobytes() == array.tobytes()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_json_cannot_say_is_refused_here(bad: float) -> None:
    """A NaN is not silently sent as null."""
    for x, where in (
        ([0.0, bad], r"x\[1\]"),
        (np.array([bad]), r"x\[0\]"),
        ({"age": bad}, r"x\['age'\]"),
    ):
        with pytest.raises(InputError, match=where):
            _wire.predict("ads", Instance(x=x), "r")
    with pytest.raises(InputError, match="rho_1"):
        _wire.set_rates("ads", 0.1, bad)
    with pytest.raises(InputError, match=r"by_label\['hats'\].rho_0"):
        _wire.set_rates("ads", 0.1, 0.1, {"hats": NoiseRates(rho_0=bad, rho_1=0.1)})
    with pytest.raises(InputError, match="shape"):
        _wire.predict("ads", Instance(x=np.zeros((2, 2))), "r")


@given(st.integers(0, 3500))
def test_batches_are_cut_to_what_the_service_takes(n_items: int) -> None:
    """Every item is sent once, in order, in calls of at most 1,000."""
    items = [Feedback(str(number), 1) for number in range(n_items)]
    calls = _wire.feedback_batch("ads", items)
    bodies = [sent(call)["items"] for call in calls]
    assert [item["decision_id"] for body in bodies for item in body] == [
        str(number) for number in range(n_items)
    ]
    assert all(0 < len(body) <= 1000 for body in bodies)
    assert len(calls) == -(-n_items // 1000)


def test_batches_of_long_instances_are_cut_by_size() -> None:
    """A thousand instances of 4,096 features are over the service's limit for one body."""
    x = np.full(4096, 0.1234567890123456)
    instances = [Instance(x=x)] * 1000
    calls = _wire.predict_batch("ads", instances, [str(number) for number in range(1000)])
    bodies = [call.body for call in calls if isinstance(call.body, bytes)]
    assert all(len(body) <= 16 * 2**20 + 100 for body in bodies)
    items = [item for body in bodies for item in json.loads(body)["items"]]
    assert [item["request_id"] for item in items] == [str(number) for number in range(1000)]


def test_a_model_name_cannot_leave_its_place_in_the_path() -> None:
    """Slashes, dots and question marks of a name do not reach another address."""
    assert _wire.get_model("../a?b#c").path == "/v1/models/..%2Fa%3Fb%23c"


def test_a_repeated_delete_is_done_when_the_model_is_gone() -> None:
    """The first try's answer may be lost; on the first try a 404 is still an error."""
    call = _wire.delete_model("ads")
    call.read(404, error_body("not_found"), None, tried=2)
    with pytest.raises(NotFoundError):
        call.read(404, error_body("not_found"), None, tried=1)
    with pytest.raises(ConflictError):
        call.read(409, error_body("conflict"), None, tried=2)
    with pytest.raises(NotFoundError):
        _wire.get_model("ads").read(404, error_body("not_found"), None, tried=2)


def test_not_being_ready_is_an_answer() -> None:
    """Asking for readiness tells the failing check instead of trying again."""
    checks = [{"name": "redis", "ok": False, "why": "it does not answer"}]
    body = json.dumps({"ready": False, "failing": "redis", "checks": checks}).encode()
    answer = _wire.ready().read(503, body, "1", 1)
    assert (answer.ready, answer.failing) == (False, "redis")
    assert answer.checks == (Check(name="redis", ok=False, why="it does not answer"),)
    with pytest.raises(UnavailableError):
        _wire.metrics().read(503, error_body("unavailable"), None, 1)


def test_a_state_is_arrays_and_scalars() -> None:
    """The download is read as it was saved, and never as a pickle."""
    buffer = io.BytesIO()
    np.savez(buffer, weights=np.arange(6.0).reshape(2, 3), kind=np.array("rcnbf"), n=np.array(3))
    got = _wire.state("ads").read(200, buffer.getvalue(), None, 1)
    assert got["kind"] == "rcnbf"
    assert got["n"] == 3
    assert isinstance(got["n"], int)
    np.testing.assert_array_equal(got["weights"], np.arange(6.0).reshape(2, 3))
    pickled = io.BytesIO()
    np.savez(pickled, evil=np.array([{}], dtype=object))
    with pytest.raises(ProtocolError):
        _wire.state("ads").read(200, pickled.getvalue(), None, 1)
