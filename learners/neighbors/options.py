"""Checks of options that only the neighbour learners have."""

from __future__ import annotations

from learners.errors import ParameterError, expected
from learners.validation import check_number, is_number


def check_flag(name: str, value: object) -> bool:
    """Return `value` if it is True or False, else raise ParameterError.

    Examples
    --------
    >>> check_flag("weighted", 1)
    Traceback (most recent call last):
        ...
    learners.errors.ParameterError: weighted: expected True or False, got 1
    """
    if isinstance(value, bool):
        return value
    raise ParameterError(expected(name, "True or False", value))


def check_smoothing(value: float) -> float:
    """Return `value` as a float if it is a number in [1e-9, 1e9], else raise ParameterError.

    With a smoothing of 0, what never occurred together would decide alone, or divide by 0.
    """
    return check_number("smoothing", value, 1e-9, 1e9)


def check_quantile(value: float) -> float:
    """Return `value` as a float if it is a number in [0, 0.5), else raise ParameterError.

    Examples
    --------
    >>> check_quantile(0.5)
    Traceback (most recent call last):
        ...
    learners.errors.ParameterError: quantile: expected a number in [0, 0.5), got 0.5
    """
    if is_number(value) and 0.0 <= value < 0.5:
        return float(value)
    raise ParameterError(expected("quantile", "a number in [0, 0.5)", value))
