"""What an answer means: what was asked for, or the error that it stands for."""

import json

import pytest

from clients import _wire
from clients._call import error_of
from clients.errors import (
    BY_CODE,
    ApiError,
    ConflictError,
    Detail,
    NotFoundError,
    ProtocolError,
    TransportError,
    UnavailableError,
)
from clients.types import Check


def error_body(code: str) -> bytes:
    """Return an error as the API shapes it."""
    detail = {"where": "x[3]", "expected": "a finite number", "got": "null"}
    return json.dumps(
        {"error": {"code": code, "message": "x[3]: expected", "details": [detail]}}
    ).encode()


@pytest.mark.parametrize("code", BY_CODE)
def test_a_refusal_becomes_its_error(code: str) -> None:
    """The user gets the class, the sentence, the details and the wait that the service sent."""
    error = error_of(418, error_body(code), "7")
    assert type(error) is BY_CODE[code]
    assert isinstance(error, ApiError)
    assert error.status == 418
    assert error.message == str(error) == "x[3]: expected"
    assert error.details == (Detail("x[3]", "a finite number", "null"),)
    assert error.retry_after_s == 7.0


@pytest.mark.parametrize("body", [b"", b"<html>", b"{}", b'{"error": {"code": 7}}', b"\xff"])
def test_a_strange_answer_is_named(body: bytes) -> None:
    """A proxy's error page is not mistaken for a refusal by the service."""
    assert isinstance(error_of(501, body, None), ProtocolError)
    assert isinstance(error_of(502, body, None), TransportError)
    with pytest.raises(ProtocolError):
        _wire.get_model("ads").read(200, body, None, 1)


def test_a_code_of_a_newer_service_is_still_an_api_error() -> None:
    """A code that this version does not know keeps its sentence and status."""
    error = error_of(451, error_body("secret"), "Wed, 21 Oct 2026 07:28:00 GMT")
    assert type(error) is ApiError
    assert error.retry_after_s is None


def test_a_repeated_delete_is_done_when_the_model_is_gone() -> None:
    """The first try's answer may be lost; on the first try a 404 is still an error."""
    call = _wire.delete_model("ads")
    call.read(404, error_body("not_found"), None, tried=2)
    _wire.drop_challenger("ads", "new").read(404, error_body("not_found"), None, tried=2)
    with pytest.raises(NotFoundError):
        call.read(404, error_body("not_found"), None, tried=1)
    with pytest.raises(ProtocolError):
        # Nor is the page of a proxy that finds no service the service's own 404.
        call.read(404, b"default backend - 404", None, tried=2)
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
    # Behind a proxy, the service is away: that is no answer, and worth asking again.
    with pytest.raises(TransportError):
        _wire.ready().read(503, b"<html>", None, 1)
    with pytest.raises(UnavailableError):
        _wire.metrics().read(503, error_body("unavailable"), None, 1)


@pytest.mark.parametrize("log", [b"", [], b"{}", iter([b"{}"])])
def test_a_log_has_its_type_though_it_is_empty(log: bytes | list[bytes]) -> None:
    """An empty file was refused for a type that nobody had left out."""
    assert _wire.import_log("m", log).headers() == {"content-type": "application/x-ndjson"}
    assert _wire.get_model("m").headers() == _wire.promote("m", "c").headers() == {}
