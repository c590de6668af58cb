"""Checks of what comes in: cheap where all is well, exact words where it is not."""

from __future__ import annotations

import sys
from typing import TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from learners.errors import InputError, ParameterError, expected

FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
IntArray: TypeAlias = NDArray[np.int64]

#: Largest |x_i| that a learner takes. With it every bound of this package stays far below
#: float64's 1.8e308, and no measured quantity in sensible units needs more.
MAX_FEATURE = 1e6

_FLOAT64 = np.dtype(np.float64)
_LARGEST = sys.float_info.max
#: Below this sum of squares no feature can be beyond MAX_FEATURE, however BLAS rounds. (The
#: dot product is only a sieve: what it lets through is right, what it holds back is looked at.)
_SURELY_SMALL = 0.5 * MAX_FEATURE**2


def check_instance(x: FloatArray, n_features: int) -> None:
    """Raise InputError unless `x` is a float64 array (n_features,) with |x_i| <= MAX_FEATURE.

    Examples
    --------
    >>> check_instance(np.array([0.5, np.nan]), 2)
    Traceback (most recent call last):
        ...
    learners.errors.InputError: x[1]: expected a finite number of size at most 1e+06, got nan
    """
    if type(x) is np.ndarray and x.dtype == _FLOAT64 and x.shape == (n_features,):
        # vdot, because dot would warn of an overflow that is expected here.
        if np.vdot(x, x) < _SURELY_SMALL:
            return
        _check_values(x)
    else:
        raise InputError(_array_complaint("x", f"shape ({n_features},)", x))


def check_instances(xs: FloatArray, n_features: int | None = None) -> None:
    """Raise InputError unless `xs` is a float64 array of valid instances.

    Its shape is (n, n_features), or (n, d) with any d of at least 1 where that is None.
    """
    if not (
        type(xs) is np.ndarray
        and xs.dtype == _FLOAT64
        and xs.ndim == 2
        and (xs.shape[1] >= 1 if n_features is None else xs.shape[1] == n_features)
    ):
        raise InputError(_array_complaint("xs", f"shape (n, {n_features or 'd'})", xs))
    if xs.size and not (xs.max() <= MAX_FEATURE and xs.min() >= -MAX_FEATURE):
        _check_values(xs)


def _check_values(values: FloatArray) -> None:
    """Raise for the first value that is not finite or too large, with its place."""
    # Written so that NaN, which compares as false, is among the bad.
    bad = np.argwhere(~(np.abs(values) <= MAX_FEATURE))
    if len(bad):
        place = tuple(int(i) for i in bad[0])
        name = ("x" if values.ndim == 1 else "xs") + "".join(f"[{i}]" for i in place)
        what = f"a finite number of size at most {MAX_FEATURE:g}"
        raise InputError(expected(name, what, float(values[place])))


def _array_complaint(name: str, shape: str, got: object) -> str:
    return f"{name}: expected a float64 array of {shape}, got {described(got)}"


def described(value: object) -> str:
    """Say what a value is that should have been a numpy array, without its numbers.

    Examples
    --------
    >>> described(np.zeros(3)), described(np.ma.zeros(3)), described([0.0])
    ('float64 (3,)', 'MaskedArray of float64 (3,)', 'list')
    """
    if not isinstance(value, np.ndarray):
        return type(value).__name__
    # A subclass may have just the dtype and shape expected.
    kind = "" if type(value) is np.ndarray else f"{type(value).__name__} of "
    return f"{kind}{value.dtype} {value.shape}"


def check_numbers(name: str, values: object, n_axes: int) -> None:
    """Raise InputError unless `values` is a numpy array of real numbers with so many axes.

    Examples
    --------
    >>> check_numbers("weights", [1.0, 2.0], 1)
    Traceback (most recent call last):
        ...
    learners.errors.InputError: weights: expected an array of numbers with 1 axis, got list
    """
    if not (
        isinstance(values, np.ndarray) and values.ndim == n_axes and values.dtype.kind in "iuf"
    ):
        axes = "1 axis" if n_axes == 1 else f"{n_axes} axes"
        raise InputError(
            f"{name}: expected an array of numbers with {axes}, got {described(values)}"
        )


def check_codes(
    name: str,
    codes: NDArray[np.integer],
    n_codes: int,
    *,
    size: int | None = None,
    int64: bool = False,
) -> None:
    """Raise InputError unless `codes` is an array (n,) of integers in [0, `n_codes`).

    `size` is n, where that is known; `int64` says whether they must be of this type.

    Examples
    --------
    >>> check_codes("labels", np.array([0, 2, 1]), 2)
    Traceback (most recent call last):
        ...
    learners.errors.InputError: labels: expected codes in [0, 2), got 2
    """
    if not (
        isinstance(codes, np.ndarray)
        and (codes.dtype == np.int64 if int64 else np.issubdtype(codes.dtype, np.integer))
        and codes.ndim == 1
        and size in (None, len(codes))
    ):
        what = "int64" if int64 else "integer"
        shape = "(n,)" if size is None else f"({size},)"
        raise InputError(f"{name}: expected an {what} array {shape}, got {described(codes)}")
    bad = codes[(codes < 0) | (codes >= n_codes)]
    if len(bad):
        raise InputError(expected(name, f"codes in [0, {n_codes})", int(bad[0])))


def is_integer(value: object) -> TypeGuard[int | np.integer]:
    """Whether `value` is an integer and no bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float | np.integer | np.floating]:
    """Whether `value` is a real number and no bool (NaN and the infinities included)."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def check_count(name: str, value: object, least: int = 1, most: int | None = None) -> int:
    """Return `value` if it is an integer in [least, most], else raise ParameterError.

    Examples
    --------
    >>> check_count("k", 0)
    Traceback (most recent call last):
        ...
    learners.errors.ParameterError: k: expected an integer of at least 1, got 0
    """
    if is_integer(value) and value >= least:
        if most is None or value <= most:
            return int(value)
        raise ParameterError(expected(name, f"an integer of at most {most:,}", value))
    raise ParameterError(expected(name, f"an integer of at least {least}", value))


def check_number(name: str, value: object, least: float, most: float) -> float:
    """Return `value` as a float if it is a number in [least, most], else raise ParameterError.

    Examples
    --------
    >>> check_number("gamma", 2, 0, 1)
    Traceback (most recent call last):
        ...
    learners.errors.ParameterError: gamma: expected a number in [0, 1], got 2
    """
    # An integer of a thousand digits is below infinity, but no float holds it.
    if is_number(value) and least <= value <= min(most, _LARGEST):
        return float(value)
    raise ParameterError(expected(name, f"a number in [{least:g}, {most:g}]", value))


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of `choices`, else raise ParameterError."""
    if isinstance(value, str) and value in choices:
        return value
    raise ParameterError(expected(name, " or ".join(map(repr, choices)), value))
