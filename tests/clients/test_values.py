"""What callers hand over, as JSON: numpy's numbers too, and what is none is named."""

from __future__ import annotations

import json
import math
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from clients import _wire
from clients._values import encode, names, numbers, plain
from clients.errors import InputError
from clients.types import (
    Challenger,
    Dense,
    Example,
    Feedback,
    Instance,
    LabelFeatures,
    ModelSpec,
    Round,
)


def _sent(body: Any) -> Any:
    assert isinstance(body, bytes)
    return json.loads(body)


def test_numbers_of_numpy_are_numbers() -> None:
    """Features, clicks and labels come out of arrays; each was refused as of an unknown type."""
    listed: Any = list(np.array([0.5, 2.0], np.float32))
    named: Any = {"age": np.int64(31), "page": np.str_("cart")}
    click: Any = np.bool_(True)
    assert _sent(_wire.predict("m", Instance(x=listed), "r").body)["x"] == [0.5, 2.0]
    assert _sent(_wire.predict("m", Instance(x=named), "r").body)["x"] == {
        "age": 31,
        "page": "cart",
    }
    feedback: Any = np.int64(1)
    assert _sent(_wire.feedback("m", Feedback("id", feedback)).body)["feedback"] == 1
    assert _sent(_wire.learn("m", Example(x=[1], label=np.str_("a")), "r").body)["label"] == "a"
    assert encode({"click": click}) == b'{"click":true}'
    options: Any = {"kind": "rcnbf", "gamma": np.float64(0.5)}
    spec = ModelSpec(name="m", labels=("a",), features=Dense(3), learner=options)
    assert _sent(_wire.create_model(spec).body)["learner"]["gamma"] == 0.5


def test_long_doubles_are_numbers() -> None:
    """Python has no number like them: what was to be one went round in a circle to the end."""
    listed: Any = [np.longdouble(0.5), np.longdouble("1e-400")]
    arrays: Any = np.array(listed)
    named: Any = {"age": np.longdouble(31)}
    for x in (listed, arrays):
        assert _sent(_wire.predict("m", Instance(x=x), "r").body)["x"] == [0.5, 0]
    assert _sent(_wire.predict("m", Instance(x=named), "r").body)["x"] == {"age": 31}
    assert encode(np.array(0.5, np.longdouble)) == b"0.5"
    what = r"^value: expected what JSON can say, got a (longdouble|clongdouble|ndarray): "
    # The longest are longer than those of JSON's readers; and there are complex ones.
    for bad in (np.longdouble("inf"), np.longdouble("nan"), np.clongdouble(1)):
        for value in (bad, [bad], np.array(bad)):
            with pytest.raises(InputError, match=what):
                encode(value)
    if np.finfo(np.longdouble).max > np.finfo(np.float64).max:
        most: Any = [np.finfo(np.longdouble).max]
        with pytest.raises(InputError, match=r"^x\[0\]: expected a finite number, got "):
            _wire.predict("m", Instance(x=most), "r")
        with pytest.raises(InputError, match=what):
            encode(most)


def test_decimals_are_numbers() -> None:
    """Those of a database came to the service as strings, and were refused as such."""
    price: Any = {"price": Decimal("19.90")}
    assert (
        _wire.predict("m", Instance(x=price), "r").body == b'{"x":{"price":19.90},"request_id":"r"}'
    )


def test_what_is_wrong_with_an_item_names_it() -> None:
    """Of a thousand visits, the one with a NaN is found, as where the service refuses it."""
    x, bad, ids = [1.0], [math.nan], ["p", "q"]
    visits = [Instance(x=x), Instance(x=bad)]
    examples = [Example(x=bad, label="a"), Example(x=x, label="a")]
    rounds = [Round(x=x, label="a", propensity=p, feedback=1) for p in (0.5, math.nan)]
    clicks = [Feedback("d", 1), Feedback(None, 1)]
    for said, call in (
        (r"items\[1\]\.x\[0\]: expected a", partial(_wire.predict_batch, "m", visits, ids)),
        (r"items\[0\]\.x\[0\]: expected a", partial(_wire.learn_batch, "m", examples, ids)),
        (r"items\[1\]\.propensity: expected a", partial(_wire.tell_rounds, "m", rounds, ids)),
        (r"items\[1\]\.decision_id: expected", partial(_wire.feedback_batch, "m", clicks)),
    ):
        with pytest.raises(InputError, match=f"^{said}"):
            call()


def test_a_spec_takes_lists() -> None:
    """Tuples were asked for by type checkers only; a list was sent as well as they."""
    rivals = [Challenger("q", {"kind": "bpa"})]
    spec = ModelSpec(name="m", labels=["a", "b"], features=Dense(3), challengers=rivals)
    sent = _sent(_wire.create_model(spec).body)
    assert (sent["labels"], sent["challengers"][0]["name"]) == (["a", "b"], "q")


def test_labels_may_be_anything_that_has_an_order() -> None:
    """What can be changed can be made: the catalogue's own keys, say, or one after the other."""
    catalogue = {"a": [1.0], "b": [2.0]}
    wanted: Any
    for wanted in (catalogue.keys(), catalogue, (name for name in "ab"), np.array(["a", "b"])):
        spec = ModelSpec(name="m", labels=wanted, features=Dense(1))
        assert _sent(_wire.create_model(spec).body)["labels"] == ["a", "b"]


def test_features_of_labels_may_be_arrays() -> None:
    """An embedding is one; of float32, mostly."""
    what: dict[str, LabelFeatures] = {"a": np.array([0.5, 0.25], np.float32), "b": [1.0, 2]}
    spec = ModelSpec(name="m", labels=("a", "b"), features=Dense(3), label_features=what)
    expected = {"a": [0.5, 0.25], "b": [1.0, 2]}
    assert _sent(_wire.create_model(spec).body)["label_features"] == expected
    assert _sent(_wire.change_labels("m", ["a", "b"], [], what).body)["features"] == expected


def test_features_of_labels_are_checked_here_too() -> None:
    """JSON has no NaN: the service would say that it got null."""
    for bad, said in (
        ([1.0, float("nan")], r"features\['a'\]\[1\]: expected a finite number, got nan"),
        (
            np.zeros((2, 1)),
            r"features\['a'\]: expected an array of one dimension, got shape \(2, 1\)",
        ),
    ):
        what: Any = {"a": bad}
        with pytest.raises(InputError, match=f"^{said}"):
            _wire.change_labels("m", ["a"], [], what)
        spec = ModelSpec(name="m", labels=("a",), features=Dense(3), label_features=what)
        with pytest.raises(InputError, match=f"^label_{said}"):
            _wire.create_model(spec)


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (["1", 2.0], r"x\[0\]: expected a finite number, got '1'"),
        ([1.0, None], r"x\[1\]: expected a finite number, got None"),
        ([10**400], r"x\[0\]: expected a finite number, got 1000.*\.\.\.$"),
        ({"age": None}, r"x\['age'\]: expected a finite number or a text, got None"),
        (csr_array([[0.5, 1.0]]), r"x: expected an array of one dimension, got shape \(1, 2\)"),
        (np.array(0.5), r"x: expected an array of one dimension, got shape \(\)"),
        ([np.zeros((2, 2))], r"x\[0\]: expected a finite number, got array"),
        (5, "x: expected a list or an array of numbers, got 5"),
        (None, "x: expected a list or an array of numbers, got None"),
        ("0.5", "x: expected a list or an array of numbers, got '0.5'"),
        ({0.5}, r"x: expected a list or an array of numbers, got \{0\.5\}"),
    ],
)
def test_what_is_no_number_is_named(x: Any, said: str) -> None:
    """As anything else that is wrong: by place, what was expected, and what came."""
    with pytest.raises(InputError, match=f"^{said}"):
        plain(x)


@pytest.mark.parametrize("given", [7, None, b"hat", object()])
def test_what_holds_no_names_is_no_list_of_names(given: Any) -> None:
    """It is said as of one string, and not by Python."""
    with pytest.raises(InputError, match=r"^add: expected a list of names, got "):
        _wire.change_labels("m", given, [])


@pytest.mark.parametrize("given", [7, None, b"ads", Dense(1), np.array(["ads"])])
def test_what_is_no_text_is_no_name(given: Any) -> None:
    """A model that came back is easily given for its name."""
    with pytest.raises(InputError, match=r"^name: expected that of a model or a challenger, got "):
        _wire.get_model(given)


def test_one_string_is_no_list_of_names() -> None:
    """Of add="hat" three labels were made, called h, a and t."""
    assert names("add", ("hat",)) == ["hat"]
    spec = ModelSpec(name="m", labels="hat", features=Dense(1))
    for where, call in (
        ("add", partial(_wire.change_labels, "m", "hat", [])),
        ("retire", partial(_wire.change_labels, "m", [], "hat")),
        ("labels", partial(_wire.create_model, spec)),
        ("allowed", partial(_wire.predict, "m", Instance(x=[1], allowed="hat"), "r")),
    ):
        with pytest.raises(InputError, match=f"^{where}: expected a list of names, got 'hat'"):
            call()


def test_a_set_has_no_order() -> None:
    """Each process sent labels in another order, and the second was told of another spec."""
    labels: Any = {"hat", "cap"}
    with pytest.raises(InputError, match=r"^labels: expected a list or a tuple"):
        _wire.create_model(ModelSpec(name="m", labels=labels, features=Dense(1)))
    some: Any = {"hat"}
    body = _sent(_wire.predict("m", Instance(x=[1], allowed=some), "r").body)
    assert body["allowed"] == ["hat"]


def test_what_json_cannot_say_is_refused() -> None:
    """An error of ours, which names the type."""
    with pytest.raises(InputError, match=r"^value: expected what JSON can say, got a object"):
        encode({"x": object()})
    # Half an emoji, as a browser leaves it that cuts text: it raised an error of Python's.
    half = {"query": "hat \ud83d"}
    said = r"text: expected whole characters, got 'hat \\ud83d'"
    with pytest.raises(InputError, match=f"^{said}"):
        _wire.predict("m", Instance(x=half), "r")
    with pytest.raises(InputError, match=rf"^items\[1\]\.{said}"):
        _wire.predict_batch("m", [Instance(x=[1]), Instance(x=half)], ["p", "q"])
    assert numbers("x", range(3)) == [0, 1, 2]


@pytest.mark.parametrize("moment", ["2026-03-01T02:00+00:00", 1e12, datetime(2026, 3, 1)])
def test_what_is_no_time_with_a_zone_is_named(moment: Any) -> None:
    """A text of a time looks like one, and a time without a zone is another one elsewhere."""
    with pytest.raises(InputError, match=r"^without: expected times with a time zone, got "):
        _wire.relearn("m", "n", [(moment, None)], None)
