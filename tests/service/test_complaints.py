"""What pydantic and the learners say, in the API's words (test_wire has msgspec's)."""

from typing import Any

import pytest
from pydantic import ValidationError

from learners import LearnersError, create
from service.complaints import of_learner, of_pydantic
from service.errors import Detail
from service.model_wire import LabelsIn
from service.spec import ModelSpec
from tests.service.test_spec import SPEC

NAMED: dict[str, Any] = {"type": "named", "fields": [{"name": "age", "type": "number"}]}
PLAIN = "a finite number, a string or a boolean"


@pytest.mark.parametrize("label", ["a", "dense", "number"])
def test_features_of_a_label_are_named_whatever_its_name(label: str) -> None:
    """A label may be called as a type of features is, which is no part of a spec's places."""
    with pytest.raises(ValidationError) as found:
        LabelsIn.model_validate({"add": [label], "features": {label: [1.0, "x"]}})
    error = of_pydantic(found.value.errors(include_url=False))
    assert error.details == (Detail(f"features.{label}[1]", "a number", '"x"'),)


@pytest.mark.parametrize(
    ("change", "where", "expected", "got"),
    [
        ({"label_features": {"": [1.0]}}, "label_features", "keys with 1 or more characters", '""'),
        ({"label_features": {"a": ["1"]}}, "label_features.a[0]", "a number", '"1"'),
        (
            {"challengers": [{"name": "q", "learner": {"kind": "bpa", "c": None}}]},
            "challengers[0].learner.c",
            PLAIN,
            "null",
        ),
        ({"name": 5}, "name", "a string", "5"),
        ({"name": "A"}, "name", "a match of ^[a-z0-9][a-z0-9._-]{0,63}$", '"A"'),
        ({"labels": []}, "labels", "1 or more items", "fewer"),
        ({"labels": ["a"] * 1025}, "labels", "at most 1024 items", "more"),
        ({"labels": ["{x}"] * 2}, "labels", "distinct labels; '{x}' stands there twice", "an arr"),
        ({"labels": ["{"] * 2}, "labels", "distinct labels; '{' stands there twice", "an array"),
        ({"estimate_every": 5}, "estimate_every", "0 for never, or at least 1000", "5"),
        ({"estimate_every": 10**7}, "estimate_every", "at most 1000000", "10000000"),
        ({"estimate_every": "5"}, "estimate_every", "an integer", '"5"'),
        ({"labels": ["a", ""]}, "labels[1]", "1 or more characters", '""'),
        ({"labels": ["x" * 129]}, "labels[0]", "at most 128 characters", '"xxx'),
        ({"seed": -1}, "seed", "at least 0", "-1"),
        ({"seed": 2**63}, "seed", f"less than {2**63}", str(2**63)),
        ({"seed": True}, "seed", "an integer", "true"),
        ({"window_s": float("nan")}, "window_s", "a finite number", "NaN"),
        ({"window_s": 0}, "window_s", "at least 0.1", "0"),
        ({"scaling": "max"}, "scaling", "'none', 'unit' or 'standard'", '"max"'),
        ({"size": 3}, "size", "no such field", "one"),
        ({"learner": {}}, "learner.kind", "a value", "nothing"),
        ({"learner": 5}, "learner", "an object", "5"),
        ({"label_features": "a"}, "label_features", "an object", '"a"'),
        ({"learner": {"kind": "x", "gamma": [1]}}, "learner.gamma", PLAIN, "an array"),
        ({"features": {}}, "features.type", "a value", "nothing"),
        ({"features": {"type": "x"}}, "features.type", "one of 'dense', 'named', 'hashed'", "'x'"),
        ({"features": {"type": "dense", "size": 0}}, "features.size", "at least 1", "0"),
        (
            {"features": {"type": "named", "fields": [{"name": 1, "type": "number"}]}},
            "features.fields[0].name",
            "a string",
            "1",
        ),
        ({"features": NAMED | {"size": 3}}, "features.size", "no such field", "one"),
    ],
)
def test_a_wrong_spec_is_told_what_is_wrong(
    change: dict[str, Any], where: str, expected: str, got: str
) -> None:
    """The place is the place in the body; no word of pydantic's or Python's gets out."""
    with pytest.raises(ValidationError) as caught:
        ModelSpec.model_validate(SPEC | change)
    (detail,) = of_pydantic(caught.value.errors()).details
    assert (detail.where, detail.expected) == (where, expected)
    assert detail.got.startswith(got)


def test_fields_of_a_request_are_named_without_body() -> None:
    """FastAPI puts `body` in front of every place; the body does not have it."""
    found = {"type": "missing", "loc": ("body", "rho_0"), "msg": "Field required", "input": {}}
    assert of_pydantic([found]).details == (Detail("rho_0", "a value", "nothing"),)


@pytest.mark.parametrize(
    ("kind", "options", "detail"),
    [
        ("banditron", {"gamma": 2}, Detail("learner.gamma", "a number in [0, 1]", "2")),
        (
            "rcnbf",
            {"rho_1": 0.1},
            Detail("learner", "options of rcnbf: rho_0, which has no default", "nothing"),
        ),
        (
            "banditron",
            {"gamma": 0.1, "g": 1},
            Detail("learner", "options of banditron: some of gamma", "'g'"),
        ),
    ],
)
def test_a_learner_is_quoted_with_its_place(
    kind: str, options: dict[str, Any], detail: Detail
) -> None:
    """What a learner refuses is named as the body has it."""
    with pytest.raises(LearnersError) as caught:
        create(kind, 2, 2, **options)
    assert of_learner("learner", caught.value).details == (detail,)


def test_any_words_of_a_learner_are_passed_on() -> None:
    """A refusal in other words still says why."""
    (detail,) = of_learner("add", LearnersError("the window is full")).details
    assert detail == ("add", "what the learner takes", "the window is full")


def test_what_is_wrong_with_a_body_as_a_whole_is_named() -> None:
    """A sum of two fields has no place in the body, and is its own place then."""
    said = LearnersError("rho_0 + rho_1: expected at most 1, got 1.2")
    assert str(of_learner("body", said)) == "rho_0 + rho_1: expected at most 1, got 1.2"
    (detail,) = of_learner("by_label.a", said).details
    assert detail == ("by_label.a", "rho_0 + rho_1: at most 1", "1.2")
