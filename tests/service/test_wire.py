"""Bodies of the data calls: what is wrong is named where it stands, and never ends in a 500."""

import contextlib
import json
import tracemalloc
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service import wire
from service.errors import Detail, Invalid, Malformed, TooLarge

INSTANCE = wire.parser(wire.Instance)
FEEDBACK = wire.parser(wire.FeedbackIn)
EXAMPLE = wire.parser(wire.ExampleIn)
ROUND = wire.parser(wire.RoundIn)
A_FEATURE = "a finite number or, where named, a string"
DEEP = b"[" * 100_000
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def parse_batch(parser: wire.Parser, body: bytes, *, lines: bool) -> list[Any]:
    """Return the objects of a batch of at most 3 items."""
    parts = wire.split_items(body, 3, lines=lines)
    return [parser.parse_item(part, i, line=lines) for i, part in enumerate(parts)]


def refusal(parser: wire.Parser, body: bytes, *, lines: bool | None = None) -> Detail:
    """Return the one detail of the 422 that a body gets, alone or as a batch."""
    parse = parser.parse if lines is None else partial(parse_batch, parser, lines=lines)
    with pytest.raises(Invalid) as caught:
        parse(body)
    (detail,) = caught.value.details
    return detail


@pytest.mark.parametrize(
    ("body", "where", "expected", "got"),
    [
        (b'{"x":[0,NaN]}', "x[1]", A_FEATURE, "NaN"),
        (b'{"x":[0,-Infinity]}', "x[1]", A_FEATURE, "-Infinity"),
        (b'{"x":[1e999]}', "x[0]", A_FEATURE, "Infinity"),
        (b'{"x":{"age":NaN}}', "x.age", A_FEATURE, "NaN"),
        (b'{"x":{"age":true}}', "x.age", A_FEATURE, "true"),
        (b'{"x":{"age":null}}', "x.age", A_FEATURE, "null"),
        (b'{"x":{"age":[1]}}', "x.age", A_FEATURE, "an array"),
        (b'{"x":[0,true]}', "x[1]", "a number", "a boolean"),
        (b'{"x":["a"]}', "x[0]", "a number", "a string"),
        (b'{"x":[[1]]}', "x[0]", "a number", "an array"),
        (b'{"x":[' + b"9" * 5000 + b"]}", "x[0]", "a finite number", "a larger one"),
        (b'{"x":1}', "x", "an object or an array", "an integer"),
        (b'{"x":null}', "x", "an object or an array", "null"),
        (b'{"x":' + DEEP, "x[0]", "a number", "an array"),
        (b"{}", "x", "a value", "nothing"),
        (b"[]", "body", "an object", "an array"),
        (b"null", "body", "an object", "null"),
        (b'{"x":[1],"y":2}', "y", "no such field", "one"),
        (b'{"x":[1],"request_id":""}', "request_id", "1 or more characters", "fewer"),
        (b'{"x":[1],"request_id":7}', "request_id", "a string or null", "an integer"),
        (
            b'{"x":[1],"request_id":"%s"}' % (b"r" * 129),
            "request_id",
            "at most 128 characters",
            "more",
        ),
        (b'{"x":[1],"allowed":[]}', "allowed", "1 or more items", "fewer"),
        (
            b'{"x":[1],"allowed":[' + b",".join([b'"a"'] * 1025) + b"]}",
            "allowed",
            "at most 1024 items",
            "more",
        ),
        (b'{"x":[1],"allowed":["a",7]}', "allowed[1]", "a string", "an integer"),
        (b'{"x":[1],"min_seq":-1}', "min_seq", "at least 0", "less"),
        (b'{"x":[1],"min_seq":1.5}', "min_seq", "an integer or null", "a number"),
    ],
)
def test_a_wrong_instance_is_told_what_is_wrong(
    body: bytes, where: str, expected: str, got: str
) -> None:
    """Every kind of mistake has its place, what was expected there, and what came."""
    detail = refusal(INSTANCE, body)
    assert (detail.where, detail.expected, detail.got) == (where, expected, got)


def test_ids_and_labels_may_be_as_long_as_is_said() -> None:
    """Protects who names visits by 128 characters, as the documentation allows."""
    text = "n" * 128
    body = {"x": [1], "label": text, "propensity": 1, "feedback": 1, "request_id": text}
    assert ROUND.parse(json.dumps(body).encode()).request_id == text
    assert FEEDBACK.parse(json.dumps({"decision_id": text, "feedback": 1}).encode())


@pytest.mark.parametrize(
    ("propensity", "expected", "got"),
    [
        (b"0", "more than 0.0", "0.0 or less"),
        (b"-0.5", "more than 0.0", "0.0 or less"),
        (b"1.5", "at most 1.0", "more"),
        (b'"1"', "a number", "a string"),
        (b"null", "a number", "null"),
        (b"1e999", "a finite number", "a larger one"),
    ],
)
def test_a_propensity_is_a_probability(propensity: bytes, expected: str, got: str) -> None:
    """In the API's words, not in those of what parses it."""
    body = b'{"x":[1],"label":"a","feedback":1,"propensity":' + propensity + b"}"
    assert refusal(ROUND, body) == Detail("propensity", expected, got)


@pytest.mark.parametrize(
    ("bit", "expected", "got"),
    [
        ("true", "an integer", "a boolean"),
        ("1.0", "an integer", "a number"),
        ('"1"', "an integer", "a string"),
        ("null", "an integer", "null"),
        ("2", "0 or 1", "2"),
        ("-1", "0 or 1", "-1"),
    ],
)
def test_feedback_is_a_bit_and_nothing_like_one(bit: str, expected: str, got: str) -> None:
    """Nothing is coerced into a click: not true, not 1.0, not "1"."""
    detail = refusal(FEEDBACK, b'{"decision_id":"a","feedback":%s}' % bit.encode())
    assert detail == ("feedback", expected, got)


@pytest.mark.parametrize(
    ("item", "where"),
    [
        ({"x": ["a"]}, "items[1].x[0]"),
        ({"x": {"a": [1]}}, "items[1].x.a"),
        ({"y": 1}, "items[1].y"),
        ({}, "items[1].x"),
        (5, "items[1]"),
        ({"x": [1], "request_id": 7}, "items[1].request_id"),
    ],
)
def test_a_batch_names_the_item_as_json_and_as_lines(item: Any, where: str) -> None:
    """Both forms of a batch say the same of the same mistake."""
    items = [{"x": [1]}, item]
    whole = refusal(INSTANCE, json.dumps({"items": items}).encode(), lines=False)
    lines = refusal(INSTANCE, "\n".join(map(json.dumps, items)).encode(), lines=True)
    assert whole.where == lines.where == where
    assert whole == lines


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "truncated"),
        (b'{"x":[1]', "truncated"),
        (b'{"x":[1]} x', "trailing characters"),
        (b"\xff", "invalid character"),
        (b'{"x":{"\xff":1}}', "(?i)utf-8"),
        (b'\xef\xbb\xbf{"x":[1]}', "invalid character"),
        (b'{"x":{"\\ud800":1}}', "half of a surrogate pair"),
        (b'{"x":[1],"request_id":"\\ud800"}', "half of a surrogate pair"),
        (b'{"x":[1],"min_seq":NaN}', "NaN"),
    ],
)
def test_what_is_not_json_gets_a_reason(body: bytes, why: str) -> None:
    """400, not 422, and the reason helps to find the mistake."""
    with pytest.raises(Malformed, match=why):
        INSTANCE.parse(body)


def test_a_batch_nested_without_end_is_refused() -> None:
    """Protects from a 500: where items are told apart, what they hold is not looked at yet."""
    with pytest.raises(Malformed, match="recursion"):
        wire.split_items(b'{"items":[' + DEEP, 3, lines=False)


def test_a_broken_line_is_named_by_its_number() -> None:
    """In NDJSON the line that is not JSON is found, counted from 1."""
    with pytest.raises(Malformed, match=r"^items\[1\]: the body is not JSON"):
        parse_batch(INSTANCE, b'{"x":[1]}\n{"x":[\n{"x":[1]}', lines=True)


@pytest.mark.parametrize(
    ("body", "lines", "where"),
    [
        (b'{"items":[]}', False, "items"),
        (b'{"items":5}', False, "items"),
        (b'{"item":[]}', False, "item"),
        (b"{}", False, "items"),
        (b"[]", False, "body"),
        (b"", True, "items"),
        (b" \n\n\t\n", True, "items"),
    ],
)
def test_a_batch_without_items_is_refused(body: bytes, lines: bool, where: str) -> None:
    """An empty batch is a mistake, and the place of it is named."""
    assert refusal(INSTANCE, body, lines=lines).where == where


def test_blank_lines_mean_nothing() -> None:
    """Empty lines, spaces and carriage returns around lines are skipped."""
    body = b'\r\n\n {"x":[1]}\r\n\n\t{"x":[2]} \n'
    assert [item.x for item in parse_batch(INSTANCE, body, lines=True)] == [[1.0], [2.0]]


def test_the_last_of_equal_keys_counts() -> None:
    """Doubled keys are read as most JSON readers do; documented, and the same for both forms."""
    assert INSTANCE.parse(b'{"x":[1],"x":[2]}').x == [2.0]


def test_a_huge_body_is_not_read_twice() -> None:
    """Looking for the wrong feature is for small bodies; a large one still gets its answer."""
    body = b'{"x":[' + b"0," * 200_000 + b"NaN]}"
    with pytest.raises(Malformed):
        INSTANCE.parse(body)


@settings(deadline=None)
@given(st.sampled_from([INSTANCE, FEEDBACK, EXAMPLE]), JSON | st.binary())
def test_no_body_ends_in_another_error(parser: wire.Parser, value: Any) -> None:
    """Whatever comes is parsed or refused with 400 or 422, as JSON and as lines."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    with contextlib.suppress(Malformed, Invalid):
        parser.parse(body)
    for lines in (False, True):
        with contextlib.suppress(Malformed, Invalid, TooLarge):
            parse_batch(parser, body, lines=lines)


def test_the_schemas_say_what_is_parsed() -> None:
    """OpenAPI's bodies come from the types that parse, unknown fields refused."""
    schemas = wire.schemas()
    assert {kind.__name__ for kind in wire.BODIES} <= schemas.keys()
    batches = {"Instances", "Feedbacks", "Examples", "Rounds"}
    for name in batches | {"Instance", "FeedbackIn", "ExampleIn", "RoundIn", "NeighborsIn"}:
        assert schemas[name]["additionalProperties"] is False
    for name in batches:
        items = schemas[name]["properties"]["items"]
        assert (items["minItems"], items["maxItems"]) == (1, wire.MAX_ITEMS)
    assert schemas["FeedbackIn"]["properties"]["feedback"]["enum"] == [0, 1]
    statuses = ["applied", "conflict", "duplicate", "held", "late", "unknown"]
    assert sorted(schemas["Receipt"]["properties"]["status"]["enum"]) == statuses


@pytest.mark.parametrize(("count", "got"), [(3, ""), (4, "4"), (1000, "1000"), (1001, "more")])
def test_items_are_counted(count: int, got: str) -> None:
    """A batch has the items it has, and one of too many is too large."""
    body = b'{"items":[%s]}' % b",".join([b"{}"] * count)
    if not got:
        assert [bytes(item) for item in wire.split_items(body, 3, lines=False)] == [b"{}"] * 3
        return
    with pytest.raises(TooLarge, match=f"items: expected at most 3, got {got}$"):
        wire.split_items(body, 3, lines=False)


def test_items_beyond_the_most_take_no_memory() -> None:
    """Millions of empty ones fit into a body: nothing is made of them that has to be counted."""
    body = b'{"items":[%s]}' % b",".join([b"[]"] * 100_000)
    tracemalloc.start()
    with pytest.raises(TooLarge):
        wire.split_items(body, 3, lines=False)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < len(body)
