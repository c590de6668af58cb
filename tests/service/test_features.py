"""Encoding of instances: what is wrong is named, and batches equal singles bit for bit."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import MAX_DETAILS, Invalid
from service.features import MAX_HASHED, MAX_VALUE, Encoder, Instance, make_encoder
from service.spec import ModelSpec


def encoder_of(features: dict[str, Any]) -> Encoder:
    """Return the encoder that a model with these features has."""
    learner = {"kind": "banditron", "gamma": 0.1}
    spec = {"name": "m", "learner": learner, "labels": ["a"], "features": features}
    return make_encoder(ModelSpec.model_validate(spec))


DENSE = encoder_of({"type": "dense", "size": 3})
HASHED = encoder_of({"type": "hashed", "size": 16})
NAMED = encoder_of(
    {
        "type": "named",
        "fields": [
            {"name": "age", "type": "number"},
            {"name": "page", "type": "category", "values": ["home", "cart"]},
            {"name": "price", "type": "number"},
        ],
    }
)
NUMBERS = st.floats(-MAX_VALUE, MAX_VALUE) | st.integers(-1_000_000, 1_000_000)
INSTANCES: dict[str, tuple[Encoder, st.SearchStrategy[Any]]] = {
    "dense": (DENSE, st.lists(NUMBERS, min_size=3, max_size=3)),
    "named": (
        NAMED,
        st.fixed_dictionaries(
            {"age": NUMBERS, "page": st.sampled_from(["home", "cart"]), "price": NUMBERS}
        ),
    ),
    "hashed": (
        HASHED,
        st.dictionaries(
            st.text(max_size=5), st.floats(-1e4, 1e4) | st.text(max_size=5), max_size=9
        ),
    ),
}


def refusal(encoder: Encoder, instance: Instance) -> str:
    """Return the message of the 422 that an instance gets, alone and as second of a batch."""
    with pytest.raises(Invalid) as alone:
        encoder.encode(instance)
    good = {"dense": [0, 0, 0], "named": {"age": 0, "page": "home", "price": 0}, "hashed": {}}
    first: Any = next(good[name] for name, (e, _) in INSTANCES.items() if e is encoder)
    with pytest.raises(Invalid) as batched:
        encoder.encode_many([first, instance])
    assert batched.value.message.startswith("items[1].x")
    assert batched.value.details == alone.value.under("items[1]").details
    return alone.value.message


@settings(deadline=None)
@given(
    st.sampled_from(sorted(INSTANCES)).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(INSTANCES[n][1], max_size=5))
    )
)
def test_a_batch_equals_singles_bit_for_bit(case: tuple[str, list[Any]]) -> None:
    """The decision of an instance does not depend on how many came with it."""
    name, instances = case
    encoder = INSTANCES[name][0]
    rows = encoder.encode_many(instances)
    assert rows.shape == (len(instances), encoder.size)
    assert rows.dtype == np.float32
    assert rows.tobytes() == b"".join(encoder.encode(x).tobytes() for x in instances)


def test_dense_numbers_are_kept() -> None:
    """A list of numbers becomes the same numbers in float32."""
    assert DENSE.encode([1, -2.5, 0.1]).tolist() == [1.0, -2.5, float(np.float32(0.1))]


def test_named_features_get_their_columns() -> None:
    """Numbers stand where they were declared, categories one-hot, whatever the order."""
    assert NAMED.encode({"price": 2, "page": "cart", "age": 3}).tolist() == [3.0, 0.0, 1.0, 2.0]


@settings(deadline=None)
@given(INSTANCES["hashed"][1], st.randoms(use_true_random=False))
def test_hashing_forgets_the_order(instance: dict[str, Any], random: Any) -> None:
    """Colliding features add up to the same bits in whatever order they came."""
    items = list(instance.items())
    random.shuffle(items)
    assert HASHED.encode(dict(items)).tobytes() == HASHED.encode(instance).tobytes()


def test_hashing_is_the_same_for_ever() -> None:
    """A log is folded years later: the columns of these features are pinned."""
    row = HASHED.encode({"age": 3, "page": "home"})
    assert {i: v for i, v in enumerate(row.tolist()) if v} == {0: -1.0, 13: 3.0}


@pytest.mark.parametrize(
    "bad", [float("nan"), float("inf"), -float("inf"), 1.000001e6, -1e300, 1e308]
)
def test_an_unusable_number_is_named(bad: float) -> None:
    """NaN, the infinities and huge numbers get a 422 that says which feature it is."""
    what = f": expected a finite number within 1e+06 of 0, got {json.dumps(bad)}"
    assert refusal(DENSE, [0, bad, 0]) == f"x[1]{what}"
    assert refusal(NAMED, {"age": bad, "page": "home", "price": 0}) == f"x.age{what}"
    assert refusal(HASHED, {"age": bad}) == f"x.age{what}"


@pytest.mark.parametrize("size", [0, 2, 4])
def test_a_list_of_another_length_is_refused(size: int) -> None:
    """The error says how many numbers were expected and how many came."""
    message = refusal(DENSE, [0.0] * size)
    assert message == f"x: expected a list of 3 numbers, got {size} numbers"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"age": "old"}, 'x.age: expected a finite number within 1e+06 of 0, got "old"'),
        ({"age": True}, "x.age: expected a finite number within 1e+06 of 0, got true"),
        ({"page": "shop"}, 'x.page: expected one of home, cart, got "shop"'),
        ({"page": 1}, "x.page: expected one of home, cart, got 1"),
        ({"colour": "red"}, 'x.colour: expected a declared feature, got "red"'),
    ],
)
def test_a_wrong_named_feature_is_named(change: dict[str, Any], message: str) -> None:
    """Values of another type, unknown categories and unknown names are told apart."""
    instance: dict[str, float | str] = {"age": 1, "page": "home", "price": 1}
    assert refusal(NAMED, instance | change) == message


def test_every_missing_feature_is_named() -> None:
    """Nothing is filled in: what is missing is named, all of it at once."""
    message = refusal(NAMED, {"age": 1})
    assert (
        message == "x.page: expected a value, got nothing; x.price: expected a value, got nothing"
    )


def test_the_other_form_is_refused() -> None:
    """A list where names are declared, and names where a list is."""
    assert refusal(DENSE, {"a": 1}) == "x: expected a list of 3 numbers, got named features"
    assert refusal(NAMED, [1.0]) == "x: expected named features, got a list"
    assert refusal(HASHED, [1.0]) == "x: expected named features, got a list"


def test_hashed_sums_stay_within_bounds() -> None:
    """Many features in one column must not add up to what no learner takes (it was a 500)."""
    one_column = encoder_of({"type": "hashed", "size": 1})
    same_sign = [f"f{i}" for i in range(50) if one_column.encode({f"f{i}": 1})[0] > 0]
    with pytest.raises(Invalid, match=r"^x: expected features whose sum in no column"):
        one_column.encode(dict.fromkeys(same_sign, MAX_VALUE))


def test_hashed_features_are_limited() -> None:
    """One instance carries a bounded number of names."""
    HASHED.encode({f"f{i}": 1 for i in range(MAX_HASHED)})
    assert "at most 4096 features" in refusal(HASHED, {f"f{i}": 1 for i in range(MAX_HASHED + 1)})


def test_an_error_names_ten_features_at_most() -> None:
    """An instance that is wrong all over gets a short answer."""
    with pytest.raises(Invalid) as caught:
        HASHED.encode({f"f{i:02}": float("nan") for i in range(50)})
    assert [d.where for d in caught.value.details] == [f"x.f{i:02}" for i in range(10)]


def test_only_so_many_unknown_features_are_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body has room for twenty thousand, and quoting them all would keep the others waiting."""
    quoted: list[object] = []

    def note(value: object) -> str:
        quoted.append(value)
        return "?"

    monkeypatch.setattr("service.features.quote", note)
    with pytest.raises(Invalid) as caught:
        NAMED.encode({f"n{i:05}": 1.0 for i in range(20_000)} | {"page": "home", "price": 1.0})
    assert [each.where for each in caught.value.details[:2]] == ["x.age", "x.n00000"]
    assert len(caught.value.details) == MAX_DETAILS
    assert len(quoted) <= MAX_DETAILS + 1
