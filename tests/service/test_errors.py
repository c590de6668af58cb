"""The errors of the service: one tree, one table, short quotations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service import errors
from service.errors import MAX_DETAILS, QUOTE_CHARS, Detail, Invalid, ServiceError, quote, shorten

STATUSES = {
    "malformed": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "conflict": 409,
    "too_large": 413,
    "unsupported_media_type": 415,
    "invalid": 422,
    "too_many_requests": 429,
    "unavailable": 503,
}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def test_every_error_has_its_code_and_status() -> None:
    """The table in the API's documentation is the table of the classes."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    tree = [kind for kind in kinds if issubclass(kind, ServiceError) and kind is not ServiceError]
    assert {kind.code: kind.status for kind in tree} == STATUSES


def test_only_what_passes_may_be_tried_again() -> None:
    """A client that retries after Retry-After never repeats what cannot succeed."""
    retried = {kind.code for kind in ServiceError.__subclasses__() if kind.retry_after_s}
    assert retried == {"too_many_requests", "unavailable"}


def test_an_invalid_error_names_place_expected_and_got() -> None:
    """The message says what the details say."""
    error = Invalid.of("x[3]", "a number", "y" * 500)
    (detail,) = error.details
    assert (detail.where, detail.expected) == ("x[3]", "a number")
    assert len(detail.got) <= QUOTE_CHARS
    assert error.message == str(detail) == f"x[3]: expected a number, got {detail.got}"


def test_an_error_names_the_first_details_only() -> None:
    """A body with a million mistakes gets a short answer."""
    error = Invalid.all_of(Detail(f"x[{i}]", "a number", "none") for i in range(1000))
    assert [d.where for d in error.details] == [f"x[{i}]" for i in range(MAX_DETAILS)]
    assert len(error.message) < 1000


@pytest.mark.parametrize(("where", "whole"), [("x[0]", "items[2].x[0]"), ("body", "items[2]")])
def test_an_error_about_a_part_names_the_whole_place(where: str, whole: str) -> None:
    """A mistake in a line of a batch names the line; the line itself is the item."""
    assert Invalid.of(where, "a number", "none").under("items[2]").details[0].where == whole


@given(ANYTHING)
def test_quotations_are_short_and_plain(value: object) -> None:
    """Whatever came, NaN or half a surrogate pair, the quotation can be sent and logged."""
    for text in (shorten(value), quote(value)):
        assert len(text) <= QUOTE_CHARS
        assert text.isascii()


def test_quotations_are_as_in_json() -> None:
    """A client sees its value as it sent it, not as Python calls it."""
    values = (None, True, 1.5, float("inf"), "a", [1], {"a": 1}, 10**5000)
    assert [quote(value) for value in values] == [
        *("null", "true", "1.5", "Infinity", '"a"', "an array", "an object"),
        "a huge integer",
    ]
