"""The checks of instances: what is let through and what is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from learners.errors import InputError, ParameterError
from learners.validation import (
    MAX_FEATURE,
    check_codes,
    check_instance,
    check_instances,
    check_number,
)


def test_largest_instances_pass() -> None:
    """The limit itself is allowed, in every feature, whatever the sum of squares."""
    for n_features in (1, 3, 1000):
        x = np.full(n_features, MAX_FEATURE)
        check_instance(x, n_features)
        check_instance(-x, n_features)
        check_instances(np.stack([x, -x]), n_features)


@pytest.mark.parametrize("value", [np.nextafter(MAX_FEATURE, np.inf), -1e200, np.inf, np.nan])
@pytest.mark.parametrize("n_features", [1, 500])
def test_one_bad_value_is_found(value: float, n_features: int) -> None:
    """One ulp beyond, an overflowing square, infinity and NaN are refused with their place."""
    x = np.zeros(n_features)
    x[-1] = value
    with pytest.raises(InputError, match=rf"x\[{n_features - 1}\]: expected a finite number"):
        check_instance(x, n_features)
    xs = np.zeros((3, n_features))
    xs[1, 0] = value
    with pytest.raises(InputError, match=r"xs\[1\]\[0\]: expected a finite number"):
        check_instances(xs, n_features)


def test_strided_instances_pass() -> None:
    """A column of a larger array is as good as any."""
    check_instance(np.ones((4, 3))[:, 1], 4)


@pytest.mark.parametrize(
    ("x", "got"),
    [
        (np.ones(3), r"float64 \(3,\)"),
        (np.ones(2, dtype=np.float32), r"float32 \(2,\)"),
        (np.ones(2, dtype=">f8"), ">f8"),
        ([1.0, 1.0], "list"),
        (None, "NoneType"),
        (np.ma.ones(2), r"MaskedArray of float64 \(2,\)"),
    ],
)
def test_wrong_arrays_are_named(x: object, got: str) -> None:
    """Shape, dtype, byte order or type: the message has what came, without its values."""
    with pytest.raises(
        InputError, match=rf"x: expected a float64 array of shape \(2,\), got {got}"
    ):
        check_instance(x, 2)  # type: ignore[arg-type] # wrong types are what is tried


@pytest.mark.parametrize("value", [10**400, np.inf, np.nan, -0.1, "1", True, None])
def test_numbers_are_floats_within_their_bounds(value: object) -> None:
    """An integer that is no float is refused like any other, also where there is no most."""
    with pytest.raises(ParameterError, match=r"gain: expected a number in \[0, inf\]"):
        check_number("gain", value, 0, np.inf)


@pytest.mark.parametrize(
    ("codes", "said"),
    [
        ([0, 1, 2], "expected an integer array (3,), got list"),
        (np.zeros(2, np.int8), "expected an integer array (3,), got int8 (2,)"),
        (np.zeros((3, 1), np.int64), "expected an integer array (3,), got int64 (3, 1)"),
        (np.zeros(3), "expected an integer array (3,), got float64 (3,)"),
        (np.array([True, False, True]), "expected an integer array (3,), got bool (3,)"),
        (np.array([0, -1, 4]), "expected codes in [0, 4), got -1"),
        (np.array([0, 3, 4]), "expected codes in [0, 4), got 4"),
    ],
)
def test_codes_are_integers_of_one_length_within_their_bounds(codes: Any, said: str) -> None:
    """What are no codes is said by type and shape, and of codes out of range the first one."""
    check_codes("labels", np.array([0, 3, 1], np.uint8), 4, size=3)
    check_codes("labels", np.zeros(0, np.int64), 0)
    with pytest.raises(InputError) as caught:
        check_codes("labels", codes, 4, size=3)
    assert str(caught.value) == f"labels: {said}"


@pytest.mark.parametrize("kind", [np.int32, np.uint64, ">i8"])
def test_codes_for_a_network_are_of_one_type(kind: str) -> None:
    """Torch indexes by int64 alone, and takes no swapped bytes."""
    check_codes("labels", np.zeros(2, np.int64), 1, int64=True)
    with pytest.raises(InputError, match=r"labels: expected an int64 array \(n,\), got"):
        check_codes("labels", np.zeros(2, kind), 1, int64=True)


def test_instances_may_have_any_number_of_features_but_none() -> None:
    """Where nobody knows how many features there are, there is at least one."""
    check_instances(np.zeros((0, 3)))
    with pytest.raises(InputError, match=r"xs: expected a float64 array of shape \(n, d\)"):
        check_instances(np.zeros((3, 0)))
