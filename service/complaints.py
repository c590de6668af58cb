"""What was wrong with a body, in the API's words: from what msgspec, pydantic and learners say.

Every complaint names a place, what was expected there and what came. Quotations are short and
plain ASCII, because a body may hold NaN, half a surrogate pair, or 50 MB.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from service.errors import Detail, Invalid, Malformed, ServiceError, quote, shorten

#: A wrong body of up to this size is parsed again, to name the feature.
EXPLAIN_BYTES = 262_144
NO_SUCH_FIELD = "no such field"
A_FEATURE = "a finite number or, where named, a string"


# -- from msgspec -----------------------------------------------------------------------------
_PLACE = re.compile(r"^(?P<what>.*?)(?: - at `(?:key in )?\$?(?P<where>[^`]*)`)?$", re.DOTALL)
_WORDS = {
    "float": "a number",
    "int": "an integer",
    "str": "a string",
    "bool": "a boolean",
    "object": "an object",
    "array": "an array",
}
#: What msgspec says, and what it means: where under the place, what was expected, what came.
_SAYINGS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Detail]], ...] = tuple(
    (re.compile(pattern, re.DOTALL), meaning)
    for pattern, meaning in (
        (r"Expected `(.+)`, got `(.+)`", lambda m: Detail("", _in_words(m[1]), _in_words(m[2]))),
        (r"Object contains unknown field `(.*)`", lambda m: Detail(m[1], NO_SUCH_FIELD, "one")),
        (r"Object missing required field `(.*)`", lambda m: Detail(m[1], "a value", "nothing")),
        (r"Expected `str` of length >= (\d+)", lambda m: _few(m[1], "characters")),
        (r"Expected `str` of length <= (\d+)", lambda m: _many(m[1], "characters")),
        (r"Expected `(?:array|object)` of length >= (\d+)", lambda m: _few(m[1], "items")),
        (r"Expected `(?:array|object)` of length <= (\d+)", lambda m: _many(m[1], "items")),
        (
            r"Expected `str` matching regex '(.+)'",
            lambda m: Detail("", f"a match of {m[1]}", "none"),
        ),
        (r"Expected `(?:int|float)` >= (\S+)", lambda m: Detail("", f"at least {m[1]}", "less")),
        (r"Expected `(?:int|float)` <= (\S+)", lambda m: Detail("", f"at most {m[1]}", "more")),
        (r"Expected `float` > (\S+)", lambda m: Detail("", f"more than {m[1]}", f"{m[1]} or less")),
        (r"Invalid enum value (.+)", lambda m: Detail("", "0 or 1", shorten(m[1]))),
        (r".*out of range", lambda _: Detail("", "a finite number", "a larger one")),
    )
)


def of_msgspec(message: str, body: bytes) -> Invalid:
    """Return the error for a body that is JSON, and of which msgspec says `message`."""
    match = _PLACE.match(message)
    what, place = (match["what"], match["where"] or "") if match else (message, "")
    if "..." in place or "out of range" in what:
        exact = _unusable_feature(body)
        if exact is not None:
            return exact
    place = place.removeprefix(".")
    detail = Detail("", shorten(what), "something else")
    for pattern, meaning in _SAYINGS:
        said = pattern.fullmatch(what)
        if said:
            detail = meaning(said)
            break
    inside = shorten(detail.where)
    where = f"{place}.{inside}" if place and inside else place or inside or "body"
    return Invalid.all_of([detail._replace(where=where)])


def of_no_json(message: str, body: bytes) -> ServiceError:
    """Return the error for a body that is not JSON; NaN as a feature gets its name."""
    exact = _unusable_feature(body)
    if exact is not None:
        return exact
    if _parsed_loosely(body) is not None:
        message = "NaN, Infinity or half of a surrogate pair stands in it"
    return Malformed(f"the body is not JSON: {shorten(message)}")


def _in_words(kinds: str) -> str:
    return " or ".join(_WORDS.get(kind, kind) for kind in kinds.replace("`", "").split(" | "))


def _few(least: str, what: str) -> Detail:
    return Detail("", f"{least} or more {what}", "fewer")


def _many(most: str, what: str) -> Detail:
    return Detail("", f"at most {most} {what}", "more")


def _parsed_loosely(body: bytes) -> Any:
    """Return what the standard library, which takes more than JSON, makes of a small body."""
    if len(body) > EXPLAIN_BYTES:
        return None
    try:
        return json.loads(body.decode())
    except (ValueError, RecursionError):
        return None


def _unusable_feature(body: bytes) -> Invalid | None:
    for where, value in _features_of(_parsed_loosely(body)):
        if not _plausible(value):
            return Invalid.all_of([Detail(where, A_FEATURE, quote(value))])
    return None


def _plausible(value: object) -> bool:
    if isinstance(value, str):
        return True
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 1e300 if isinstance(value, int) else math.isfinite(value)


def _features_of(parsed: Any) -> Iterator[tuple[str, object]]:
    if not isinstance(parsed, dict):
        return
    items = parsed.get("items")
    if isinstance(items, list):
        for i, item in enumerate(items):
            x = item.get("x") if isinstance(item, dict) else None
            yield from _named(f"items[{i}].x", x)
        return
    yield from _named("x", parsed.get("x"))


def _named(where: str, x: Any) -> Iterator[tuple[str, object]]:
    if isinstance(x, list):
        yield from ((f"{where}[{i}]", value) for i, value in enumerate(x))
    elif isinstance(x, dict):
        yield from ((f"{where}.{shorten(name)}", value) for name, value in x.items())


# -- from pydantic ----------------------------------------------------------------------------
_EXPECTED = {
    "string_type": "a string",
    "string_unicode": "a string without halves of surrogate pairs",
    "int_type": "an integer",
    "int_parsing": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "a boolean",
    "list_type": "an array",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "finite_number": "a finite number",
    "string_too_short": "{min_length} or more characters",
    "string_too_long": "at most {max_length} characters",
    "string_pattern_mismatch": "a match of {pattern}",
    "too_short": "{min_length} or more items",
    "too_long": "at most {max_length} items",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "literal_error": "{expected}",
    "enum": "{expected}",
}
#: Beginnings of pydantic's messages that are cut off where the table has no entry.
_PREAMBLE = re.compile(r"^(Value error, |Input should be )")
#: What an error says came where the number of items is wrong.
_COUNTED = {"too_short": "fewer", "too_long": "more"}
#: Parts of a place in `features` that the body does not have: which member of a union was tried.
_VARIANTS = frozenset({"dense", "named", "hashed", "number", "category"})
#: What pydantic adds to the place of a key, whose value it did not look at yet.
_KEY = "[key]"
#: A default that depends on other fields, some of them wrong: nobody asked for it.
_NO_DEFAULT = "default_factory_not_called"
_PLAIN = frozenset({"bool", "int", "float", "str"})


def of_pydantic(found: Iterable[Mapping[str, Any]]) -> Invalid:
    """Return the error for what `ValidationError.errors()` found."""
    details: dict[str, Detail] = {}
    for one in found:
        if one["type"] == _NO_DEFAULT:
            continue
        detail = _detail(one)
        details.setdefault(detail.where, detail)
    return Invalid.all_of(details.values())


def _detail(one: Mapping[str, Any]) -> Detail:
    kind, loc, context = one["type"], list(one["loc"]), one.get("ctx", {})
    if loc[:1] == ["body"]:
        loc = loc[1:]
    where = _where(loc)
    if kind == "missing":
        return Detail(where, "a value", "nothing")
    if kind == "extra_forbidden":
        return Detail(where, NO_SUCH_FIELD, "one")
    if kind == "union_tag_not_found":
        return Detail(_where([*loc, "type"]), "a value", "nothing")
    if kind == "union_tag_invalid":
        tags = f"one of {context['expected_tags']}"
        return Detail(_where([*loc, "type"]), tags, shorten(repr(context["tag"])))
    # Our own words quote the body: only the table's texts are formats.
    if kind == "too_short" and isinstance(one.get("input"), str):
        # A secret: its characters are counted as items are.
        kind = "string_too_short"
    known = _EXPECTED.get(kind)
    expected = shorten(_PREAMBLE.sub("", one["msg"]))
    if known is not None:
        expected = known.format_map(context)
    if len(loc) > 2 and loc[-1] in _PLAIN and loc[-3] == "learner":
        where, expected = _where(loc[:-1]), "a finite number, a string or a boolean"
    if loc[-1:] == [_KEY]:
        where, expected = _where(loc[:-2]), f"keys with {expected}"
    return Detail(where, expected, _COUNTED.get(kind) or quote(one.get("input")))


def _where(loc: list[Any]) -> str:
    if loc[:1] == ["features"]:
        # A label may have such a name, too, and then has numbers under it.
        inner = (p for p, n in pairwise(loc) if p not in _VARIANTS or isinstance(n, int))
        loc = [*inner, *loc[-1:]]
    text = "".join(
        f"[{part}]" if isinstance(part, int) else f".{shorten(str(part))}" for part in loc
    )
    return text.removeprefix(".") or "body"


# -- from learners ----------------------------------------------------------------------------
_LEARNER_SAYS = re.compile(
    r"(?P<name>[^:]+): expected (?P<what>.+?)(?:, got (?P<got>.+))?", re.DOTALL
)


def of_learner(where: str, error: Exception) -> Invalid:
    """Return the error for what a learner refused of the field `where`."""
    said = _LEARNER_SAYS.fullmatch(str(error))
    if said is None:
        return Invalid.of(where, "what the learner takes", str(error))
    name, what, got = said["name"], said["what"], shorten(said["got"] or "nothing")
    if name.isidentifier():
        return Invalid.all_of([Detail(f"{where}.{name}", what, got)])
    if where == "body":
        return Invalid.all_of([Detail(name, what, got)])
    return Invalid.all_of([Detail(where, f"{name}: {what}", got)])
