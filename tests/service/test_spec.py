"""Model specs: strict, canonical, and with bounds on everything."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

import service
from service.errors import Invalid
from service.fold import Fold
from service.model_wire import LabelsIn, RatesIn
from service.spec import (
    MAX_FEATURES,
    MAX_FIELDS,
    MAX_LABELS,
    MAX_WEIGHTS,
    MODEL_NAME,
    LearnerSpec,
    ModelSpec,
    are_label_features,
    distinct,
    is_model_name,
)

SPEC: dict[str, Any] = {
    "name": "ads",
    "learner": {"kind": "banditron", "gamma": 0.1},
    "labels": ["a", "b"],
    "features": {"type": "dense", "size": 2},
}
FAULTS: dict[str, Any] = {f"fault{number}": 1 for number in range(MAX_FIELDS + 1)}
CHALLENGERS = [{"name": f"c{i}", "learner": {"kind": "bpa"}} for i in range(5)]
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=9)
FIELDS = st.lists(
    st.fixed_dictionaries({"name": TEXTS, "type": st.just("number")})
    | st.fixed_dictionaries(
        {
            "name": TEXTS,
            "type": st.just("category"),
            "values": st.lists(TEXTS, min_size=1, max_size=3, unique=True),
        }
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda field: str(field["name"]),
)
FEATURES = st.fixed_dictionaries(
    {"type": st.sampled_from(["dense", "hashed"]), "size": st.integers(1, MAX_FEATURES)}
) | st.fixed_dictionaries({"type": st.just("named"), "fields": FIELDS})
SPECS = st.fixed_dictionaries(
    {
        "name": st.from_regex(r"[a-z0-9][a-z0-9._-]{0,20}", fullmatch=True),
        "learner": st.fixed_dictionaries(
            {"kind": TEXTS},
            optional={
                "gamma": st.floats(0, 1),
                "n": st.integers(0, 9),
                "b": st.booleans(),
                "t": TEXTS,
            },
        ),
        "labels": st.lists(TEXTS, min_size=1, max_size=5, unique=True),
        "features": FEATURES,
    },
    optional={
        "scaling": st.sampled_from(["none", "unit", "standard"]),
        "window_s": st.floats(0.1, 604_800),
        "on_expiry": st.sampled_from(["ignore", "no_click"]),
        "max_pending": st.integers(1, 1_000_000),
        "seed": st.integers(0, 2**63 - 1),
        "log_keep": st.integers(0, 10_000_000),
    },
)


def one_hot(count: int) -> dict[str, Any]:
    """Return features of a number, and of a category of so many values."""
    values = [f"v{i}" for i in range(count)]
    category = {"name": "c", "type": "category", "values": values}
    return {"type": "named", "fields": [{"name": "n", "type": "number"}, category]}


@settings(deadline=None)
@given(SPECS)
def test_a_spec_comes_back_from_redis_as_it_was(given_spec: dict[str, Any]) -> None:
    """The stored text is canonical: the same spec is found to be the same again."""
    spec = ModelSpec.model_validate(given_spec)
    again = ModelSpec.from_json(spec.to_json())
    assert again == spec
    assert again.to_json() == spec.to_json()
    assert ModelSpec.model_validate(spec.to_dict()) == spec
    assert spec.learner.options == {k: v for k, v in given_spec["learner"].items() if k != "kind"}


@pytest.mark.parametrize(
    ("features", "scaling"),
    [
        (one_hot(2), "standard"),
        ({"type": "dense", "size": 3}, "none"),
        ({"type": "hashed", "size": 3}, "none"),
    ],
)
def test_named_features_are_standardised_unless_asked_otherwise(
    features: dict[str, Any], scaling: str
) -> None:
    """An age beside a category would be all that counts."""
    spec = {"name": "m", "labels": ["a"], "features": features}
    assert ModelSpec.model_validate(spec).scaling == scaling
    assert ModelSpec.model_validate(spec | {"scaling": "unit"}).scaling == "unit"


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": "-a"},
        {"name": "Ads"},
        {"name": "a/b"},
        {"name": "a{b}"},
        {"name": "a\n"},
        {"name": "a" * 65},
        {"labels": ["a\n"]},
        {"labels": ["\x7f"]},
        {"features": {"type": "dense", "size": MAX_FEATURES + 1}},
        {"features": {"type": "dense", "size": 2.0}},
        {"features": {"type": "named", "fields": [{"name": "a", "type": "number"}] * 2}},
        {
            "features": {
                "type": "named",
                "fields": [{"name": "a", "type": "category", "values": ["x", "x"]}],
            }
        },
        {"features": {"type": "hashed", "size": 0}},
        {"features": {"type": "named", "fields": []}},
        {
            "features": {
                "type": "named",
                "fields": [{"name": "a", "type": "category", "values": []}],
            }
        },
        {"features": one_hot(MAX_FEATURES)},
        {"window_s": 0.05},
        {"window_s": 604_801},
        {"window_s": "600"},
        {"max_pending": 0},
        {"max_pending": 1_000_001},
        {"log_keep": -1},
        {"log_keep": 10_000_001},
        {"estimate_every": -1},
        {"estimate_every": 999},
        {"estimate_every": 1_000_001},
        {"estimate_every": False},
        {"label_features": {"c": [1.0]}},
        {"label_features": {"a": []}},
        {"label_features": {"a": [0.0] * 33}},
        {"label_features": {"a": [1e6 + 1]}},
        {"label_features": {"a": [-1e6 - 1]}},
        {"challengers": CHALLENGERS},
        {"challengers": [CHALLENGERS[0]] * 2},
        {"challengers": [CHALLENGERS[0] | {"name": "original"}]},
        {"challengers": [CHALLENGERS[0] | {"name": "A"}]},
        {"learner": {"kind": "banditron", "gamma": float("inf")}},
        {"learner": {"kind": "banditron", "gamma": None}},
        {"learner": {"kind": ""}},
        {"propensity": 1},
    ],
)
def test_what_is_out_of_bounds_is_refused(change: dict[str, Any]) -> None:
    """Nothing is coerced, nothing unknown is taken, and everything has a bound."""
    with pytest.raises(ValidationError):
        ModelSpec.model_validate(SPEC | change)


@pytest.mark.parametrize(
    "change",
    [
        {"name": "a" * 64},
        {"labels": ["l" * 128]},
        {"features": one_hot(MAX_FEATURES - 1)},
        {"window_s": 0.1},
        {"window_s": 604_800.0},
        {"max_pending": 1},
        {"max_pending": 1_000_000},
        {"seed": 2**63 - 1},
        {"log_keep": 0},
        {"log_keep": 10_000_000},
        {"estimate_every": 0},
        {"estimate_every": 1000},
        {"estimate_every": 1_000_000},
        {"label_features": {"a": [-1e6, 1e6] * 16}},
        {"challengers": CHALLENGERS[:4]},
    ],
)
def test_what_is_just_within_bounds_is_taken(change: dict[str, Any]) -> None:
    """Protects whoever goes as far as the documentation allows."""
    ModelSpec.model_validate(SPEC | change)


def test_a_model_of_any_shape_has_bounded_work() -> None:
    """Labels times features is bounded, and so is every named instance."""
    labels = [f"l{i}" for i in range(MAX_LABELS)]
    allowed = {"type": "dense", "size": MAX_WEIGHTS // MAX_LABELS}
    Fold(ModelSpec.model_validate(SPEC | {"labels": labels, "features": allowed}), "u")
    large = {"type": "dense", "size": MAX_WEIGHTS // MAX_LABELS + 1}
    with pytest.raises(Invalid, match="labels times features at most 1048576"):
        Fold(ModelSpec.model_validate(SPEC | {"labels": labels, "features": large}), "u")


@given(st.text(max_size=70) | st.from_regex(MODEL_NAME))
def test_a_model_name_is_what_the_spec_takes(name: str) -> None:
    """The path and the spec agree on what a name is, to the last newline."""
    try:
        ModelSpec.model_validate(SPEC | {"name": name})
    except ValidationError:
        assert not is_model_name(name)
    else:
        assert is_model_name(name)


def test_what_a_spec_leaves_out_is_as_documented() -> None:
    """Protects who sends the same spec again after an update: by then it is still the same."""
    assert service.__file__ is not None
    docs = (Path(service.__file__).parents[1] / "docs" / "api.md").read_text()
    shown = json.loads(docs.partition("### Spec\n\n```json\n")[2].partition("```")[0])
    least = {name: shown[name] for name in SPEC}
    assert ModelSpec.model_validate(least) == ModelSpec.model_validate(shown)
    unshown: dict[str, Any] = {"label_features": {}, "challengers": []}
    unshown |= {"estimate_every": None, "estimate_on_drift": False}
    assert ModelSpec.model_validate(least).to_dict() == shown | unshown


@pytest.mark.parametrize("count", [0, 1, 32, 33])
@pytest.mark.parametrize("value", [0.5, 1e6, -1e6, 1e6 + 1, -1e6 - 1, float("nan")])
def test_a_log_and_a_spec_agree_on_what_labels_are_like(count: int, value: float) -> None:
    """Protects learners from an imported event with features that no call would take."""
    values = [0.5] * (count - 1) + [value] if count else []
    try:
        ModelSpec.model_validate(SPEC | {"label_features": {"a": values}})
    except ValidationError:
        assert not are_label_features(values)
    else:
        assert are_label_features(values)


def test_a_spec_without_a_learner_has_the_default_one() -> None:
    """It learns its rates itself; those of forward are estimated from enough of the log."""
    spec = ModelSpec.model_validate({name: SPEC[name] for name in SPEC if name != "learner"})
    assert spec.learner == LearnerSpec(kind="forward_softmax")
    assert spec.estimate_after(["forward_softmax"]) == 0
    assert (spec.estimate_after(["forward"]), spec.estimate_block) == (10_000, 50_000)
    assert spec.log_keep >= spec.estimate_block
    assert ModelSpec.model_validate(SPEC | {"estimate_every": 2_000}).estimate_block == 2_000
    never = spec.model_copy(update={"estimate_every": 0})
    assert ModelSpec.from_json(never.to_json()).estimate_after(["forward"]) == 0
    assert never.estimate_block == 50_000


def test_looking_for_what_stands_twice_is_quick() -> None:
    """One look at each name: holding each against all takes seconds where thousands are given."""

    class Name(str):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Name.compared += 1
            return str(self) == other

        __hash__ = str.__hash__

    names: list[str] = [Name(i) for i in range(500)]
    assert distinct("names", names) is names
    with pytest.raises(ValueError, match="distinct names; '499' stands there twice"):
        distinct("names", [*names, Name(499)])
    assert Name.compared <= len(names)


def test_too_many_described_labels_are_counted_before_they_are_looked_at() -> None:
    """Protects a worker from a million faults, each of which takes time and memory."""
    features = {str(number): 1 for number in range(MAX_LABELS + 1)}
    with pytest.raises(ValidationError) as caught:
        ModelSpec.model_validate(SPEC | {"label_features": features})
    assert [each["loc"][0] for each in caught.value.errors()].count("label_features") == 1


@pytest.mark.parametrize(
    ("place", "spec"),
    [
        ((), SPEC | FAULTS),
        (("features", "dense"), SPEC | {"features": {"type": "dense", "size": 2} | FAULTS}),
        (("challengers", 0), SPEC | {"challengers": [FAULTS]}),
    ],
)
def test_too_many_fields_are_counted_before_they_are_looked_at(
    place: tuple[str | int, ...], spec: dict[str, Any]
) -> None:
    """Protects a worker from a second for each of the calls with 70,000 fields that are none."""
    with pytest.raises(ValidationError, match="at most 64 fields") as caught:
        ModelSpec.model_validate(spec)
    assert caught.value.errors()[0]["loc"] == place
    assert caught.value.error_count() <= 2


@pytest.mark.parametrize(
    ("body", "field"),
    [(LabelsIn, "features"), (RatesIn, "by_label")],
)
def test_too_many_labels_of_a_change_are_counted_before_they_are_looked_at(
    body: type[BaseModel], field: str
) -> None:
    """Protects a worker likewise from faults in what is told of labels."""
    told = {str(number): 1 for number in range(MAX_LABELS + 1)}
    with pytest.raises(ValidationError, match="at most 1024 labels") as caught:
        body.model_validate({"rho_0": 0.1, "rho_1": 0.1, field: told})
    assert [each["loc"][0] for each in caught.value.errors()].count(field) == 1


def test_too_many_options_are_counted_before_they_are_looked_at() -> None:
    """Protects a worker from four faults for each of a hundred thousand that are no option."""
    wrong: list[Any] = []
    options = {f"option{number}": wrong for number in range(MAX_FIELDS)}
    with pytest.raises(ValidationError, match="at most 64 options") as caught:
        ModelSpec.model_validate(SPEC | {"learner": {"kind": "bpa"} | options})
    assert [each["loc"][0] for each in caught.value.errors()].count("learner") == 1
