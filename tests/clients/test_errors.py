"""The errors of the client."""

import copy

import pytest

import clients
from clients.errors import BY_CODE, ApiError, Detail, InputError, MisclickError
from tests.service.test_errors import STATUSES

#: The codes of the HTTP API, with their statuses; the client sends no wrong method.
CODES = {code: status for code, status in STATUSES.items() if code != "method_not_allowed"}


def test_every_code_of_the_api_has_its_error() -> None:
    """No refusal of the service reaches the user as a nameless error."""
    assert set(BY_CODE) == set(CODES)
    for code, kind in BY_CODE.items():
        assert kind.code == code
        assert issubclass(kind, ApiError)
        assert f"{CODES[code]}" in str(kind.__doc__)


def test_one_except_catches_all() -> None:
    """Whoever catches MisclickError has every error that the package raises on purpose."""
    kinds = [
        value
        for value in vars(clients).values()
        if isinstance(value, type) and issubclass(value, Exception)
    ]
    assert len(kinds) > len(CODES)
    assert all(issubclass(kind, MisclickError) for kind in kinds)
    with pytest.raises(ValueError, match="gamma"):
        raise InputError("gamma")


@pytest.mark.parametrize("kind", BY_CODE.values())
def test_a_refusal_goes_from_process_to_process(kind: type[ApiError]) -> None:
    """A pool of processes broke, or hung for ever, over the first call that was refused."""
    error = kind("x", status=418, details=(Detail("x[3]", "a", "b"),), retry_after_s=2.0)
    # As it is made anew on the other side.
    other = copy.copy(error)
    assert type(other) is kind
    assert vars(other) == vars(error)
    assert str(other) == "x"


def test_all_names_every_public_name() -> None:
    """What a user is meant to import is exported, and what is exported exists."""
    public = {
        name
        for name, value in vars(clients).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("clients.")
    }
    assert public | {"Features", "LabelFeatures", "State", "Times"} == set(clients.__all__)
