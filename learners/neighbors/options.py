"""Checks of options that only the neighbour learners have."""

from __future__ import annotations

from learners.errors import ParameterError, expected


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
