"""What callers hand over, as JSON: numbers, names and features, also those of numpy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set

import msgspec
import numpy as np
from numpy.typing import NDArray

from clients.errors import InputError
from clients.types import Features

#: Characters of a wrong value that an error quotes.
_QUOTED = 60


def _of_numpy(value: object) -> object:
    """Return an array or a number of numpy as JSON has it; refuse all else."""
    if isinstance(value, np.generic | np.ndarray):
        listed = value.tolist()
        # Of a long double, Python has no number: it stays what it is.
        if not isinstance(listed, np.generic):
            return listed
        if isinstance(listed, np.floating) and is_finite(number := float(listed)):
            return number
    what = f"{type(value).__name__}: {quoted(value)}"
    raise InputError(f"value: expected what JSON can say, got a {what}")


#: Decimals, as databases give them, are numbers.
_encoder = msgspec.json.Encoder(enc_hook=_of_numpy, decimal_format="number")


def encode(value: object) -> bytes:
    """Return the JSON of a value.

    Raises
    ------
    InputError
        There is something in it that JSON cannot express, or text with half a character.
    """
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError as error:
        # Browsers cut text between the two halves of an emoji.
        raise InputError(f"text: expected whole characters, got {quoted(error.object)}") from None


def plain(x: Features) -> list[float] | dict[str, float | str]:
    """Return features as JSON values; JSON has no NaN, so those stop here.

    Raises
    ------
    InputError
        A feature is NaN, infinite or not a number, or an array is not of one dimension.
    """
    if isinstance(x, Mapping):
        for name, value in x.items():
            if not isinstance(value, str) and not is_finite(value):
                what = "a finite number or a text"
                raise InputError(f"x[{name!r}]: expected {what}, got {quoted(value)}")
        return dict(x)
    return numbers("x", x)


def numbers(where: str, values: Sequence[float] | NDArray[np.generic]) -> list[float]:
    """Return numbers as a list.

    Raises
    ------
    InputError
        They are something else, one is NaN, infinite or not a number, or an array is not of one
        dimension.
    """
    check_flat(where, values)
    if isinstance(values, np.ndarray):
        values = values.tolist()
    # A set has its numbers in any order.
    if isinstance(values, str | bytes | Set) or not isinstance(values, Iterable):
        raise InputError(f"{where}: expected a list or an array of numbers, got {quoted(values)}")
    found = list(values)
    try:
        good = all(map(math.isfinite, found))
    except (TypeError, ValueError, OverflowError):
        good = False
    if not good:
        for index, value in enumerate(found):
            check_finite(f"{where}[{index}]", value)
    return found


def names(where: str, given: Sequence[str]) -> list[str]:
    """Return names as a list; one string would be taken for the names of its letters.

    Raises
    ------
    InputError
        It is one string, or no list of anything.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InputError(f"{where}: expected a list of names, got {quoted(given)}")
    return list(given)


def check_flat(where: str, values: object) -> None:
    """Raise InputError for an array, of any library, that is not of one dimension.

    A table of pandas would be taken for the names of its columns.
    """
    if getattr(values, "ndim", 1) != 1:
        shape = tuple(getattr(values, "shape", ()))
        raise InputError(f"{where}: expected an array of one dimension, got shape {shape}")


def is_finite(value: float) -> bool:
    """Return whether the value is a finite number."""
    try:
        return math.isfinite(value)
    except (TypeError, ValueError, OverflowError):
        return False


def check_finite(where: str, value: float) -> None:
    """Raise InputError unless the value is a finite number."""
    if not is_finite(value):
        raise InputError(f"{where}: expected a finite number, got {quoted(value)}")


def quoted(value: object) -> str:
    """Return a wrong value as an error quotes it."""
    text = repr(value)
    return text if len(text) <= _QUOTED else text[:_QUOTED] + "..."
