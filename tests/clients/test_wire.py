"""The pure core of the client."""

import io
import json
import math
import zipfile
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients import _wire
from clients._call import Call
from clients.errors import (
    InputError,
    ProtocolError,
)
from clients.noise_types import NoiseRates
from clients.types import Dense, Feedback, Field, Instance, ModelSpec, Named

SPEC = ModelSpec(
    name="ads", learner={"kind": "banditron", "gamma": 0.1}, labels=("a", "b"), features=Dense(3)
)


def sent(call: Call[Any]) -> Any:
    """Return the JSON body of a call."""
    assert isinstance(call.body, bytes)
    return json.loads(call.body)


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


def test_what_is_given_is_sent() -> None:
    """Which labels may be chosen, and what has to be known by then, alone and in a batch."""
    given = Instance(x=[1.0], allowed=("a",), min_seq=7)
    item = {"x": [1.0], "request_id": "r", "allowed": ["a"], "min_seq": 7}
    assert sent(_wire.predict("ads", given, "r")) == item
    (batch,) = _wire.predict_batch("ads", [given], ["r"])
    assert sent(batch) == {"items": [item]}


@pytest.mark.parametrize("call", [_wire.import_log("m", b""), _wire.relearn("m", "n", (), None)])
def test_what_learns_a_whole_log_is_waited_for_and_asked_once(call: Call[Any]) -> None:
    """A second one would find the model of the first."""
    assert (call.repeatable, call.takes_s) == (False, _wire.IMPORT_S)
    # An evaluation that is given up goes on, and the next one waits for it.
    assert _wire.evaluate("m", 5).takes_s == _wire.evaluate("m", None).takes_s == 60


def test_times_have_a_beginning_and_an_end() -> None:
    """Either may be open; one that ends as it begins was meant otherwise."""
    begin, end = (datetime(2026, 3, 1, hour, tzinfo=UTC) for hour in (2, 4))
    times = [(begin, end), (begin, None), (None, end)]
    asked = sent(_wire.relearn("m", "n", times, None))
    span = {"from_ms": 1_772_330_400_000, "to_ms": 1_772_337_600_000}
    assert asked["without"] == [span, {"from_ms": span["from_ms"]}, {"to_ms": span["to_ms"]}]
    assert sent(_wire.relearn("m", "n", (), None, without_retired=True))["without_retired"]
    with pytest.raises(InputError, match="a beginning before its end"):
        _wire.relearn("m", "n", [(begin, begin)], None)


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
    assert _wire.promote("m", "a/b").path == "/v1/models/m/challengers/a%2Fb/promote"
    for name in ("..", ".", ""):
        # To drop the challenger `..` would be to delete the model.
        for call in (
            partial(_wire.drop_challenger, "m", name),
            partial(_wire.promote, "m", name),
            partial(_wire.delete_model, name),
        ):
            with pytest.raises(InputError, match=f"^name: expected .*, got {name!r}"):
                call()
    # A command's argument that is no UTF-8.
    with pytest.raises(InputError, match=r"^name: expected .*, got 'caf\\udce9'"):
        _wire.get_model("caf\udce9")


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


def zipped(**files: bytes) -> bytes:
    """Return an archive of these files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def one_array() -> bytes:
    """Return an array in numpy's own form, which is no archive."""
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"PK\x03\x04",
        zipped(readme=b"no array"),
        zipped(**{"x.npy": b"no array"}),
        one_array(),
        # Packed in a way that Python does not know, says its head.
        zipped(readme=b"no array").replace(b"\x14\0\0\0\0\0", b"\x14\0\0\0\x63\0"),
    ],
    ids=("nothing", "page", "cut off", "other files", "broken", "one array", "packed otherwise"),
)
def test_what_is_no_state_is_said(body: bytes) -> None:
    """Whatever numpy and the zip reader raise, it is an error of this package."""
    with pytest.raises(ProtocolError, match=r"expected an \.npz of arrays"):
        _wire.state("ads").read(200, body, None, 1)


def test_metrics_in_another_encoding_are_the_page_of_another_server() -> None:
    """So is that an error of this package."""
    assert _wire.metrics().read(200, "µ".encode(), None, 1) == "µ"
    with pytest.raises(ProtocolError, match=r"expected text in UTF-8, got b'\\xb5'"):
        _wire.metrics().read(200, "µ".encode("latin-1"), None, 1)
