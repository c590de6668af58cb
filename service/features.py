"""From the instance as it came to a row of float32: the only form that is logged.

Encoding is a function of the spec alone. Whatever is wrong with a feature is reported by its name;
nothing is coerced, filled in or dropped.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from heapq import nsmallest
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from learners.validation import BoolArray
from service.errors import MAX_DETAILS, Detail, Invalid, quote, shorten
from service.spec import DenseFeatures, HashedFeatures, ModelSpec, NamedFeatures, NumberField

Row: TypeAlias = NDArray[np.float32]
Rows: TypeAlias = NDArray[np.float32]
Value: TypeAlias = float | str
Instance: TypeAlias = Sequence[float] | Mapping[str, Value]

#: Largest magnitude of a feature: beyond it, sums of products lose what other features say.
MAX_VALUE = 1e6
#: Named features that one hashed instance may carry.
MAX_HASHED = 4096

A_NUMBER = f"a finite number within {MAX_VALUE:g} of 0"


class Encoder(ABC):
    """Turns instances into rows of `size` float32; the mask `numbers` says which are numbers."""

    size: int
    #: The other columns are 1 where a category has their value, else 0.
    numbers: BoolArray

    @abstractmethod
    def encode(self, instance: Instance, where: str = "x") -> Row:
        """Return the instance's row, or raise `Invalid` naming what is wrong under `where`."""

    def encode_many(self, instances: Sequence[Instance], first: int = 0) -> Rows:
        """Return one row an instance; errors are named `items[first + i].x...`."""
        rows = np.empty((len(instances), self.size), dtype=np.float32)
        for i, instance in enumerate(instances):
            rows[i] = self.encode(instance, f"items[{first + i}].x")
        return rows


def make_encoder(spec: ModelSpec) -> Encoder:
    """Return the encoder of a spec's features."""
    features = spec.features
    if isinstance(features, DenseFeatures):
        return DenseEncoder(features.size)
    if isinstance(features, NamedFeatures):
        return NamedEncoder(features)
    return HashedEncoder(features)


class DenseEncoder(Encoder):
    """A list of `size` numbers."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.numbers = np.ones(size, dtype=np.bool_)
        # Packing a list of floats takes half the time that numpy's own conversion does.
        self._pack = struct.Struct(f"{size}d").pack

    def encode(self, instance: Instance, where: str = "x") -> Row:
        """Return the list as a row."""
        try:
            wide = np.frombuffer(self._pack(*instance))
        except struct.error:
            self._check_length(instance, where)
            raise
        # No entry is larger than the norm; where that is too large (or NaN), look at each.
        # (vdot, because dot would warn of an overflow, which is expected here.)
        if not np.vdot(wide, wide) <= MAX_VALUE * MAX_VALUE and not _all_usable(wide):
            raise _name_unusable(wide[np.newaxis], [where])
        return wide.astype(np.float32)

    def encode_many(self, instances: Sequence[Instance], first: int = 0) -> Rows:
        """Return the lists as rows, converted in one go."""
        try:
            packed = b"".join([self._pack(*instance) for instance in instances])
        except struct.error:
            for i, instance in enumerate(instances):
                self._check_length(instance, f"items[{first + i}].x")
            raise
        wide = np.frombuffer(packed).reshape(len(instances), self.size)
        if not _all_usable(wide):
            raise _name_unusable(wide, [f"items[{first + i}].x" for i in range(len(instances))])
        return wide.astype(np.float32)

    def _check_length(self, instance: Instance, where: str) -> None:
        if isinstance(instance, Mapping):
            raise Invalid.of(where, f"a list of {self.size} numbers", "named features")
        if len(instance) != self.size:
            raise Invalid.of(where, f"a list of {self.size} numbers", f"{len(instance)} numbers")


class NamedEncoder(Encoder):
    """Declared numbers and categories, every one of them present."""

    def __init__(self, features: NamedFeatures) -> None:
        self._numbers: dict[str, int] = {}
        self._categories: dict[str, dict[str, int]] = {}
        column = 0
        for field in features.fields:
            if isinstance(field, NumberField):
                self._numbers[field.name] = column
                column += 1
            else:
                values = {value: column + i for i, value in enumerate(field.values)}
                self._categories[field.name] = values
                column += len(values)
        self.size = column
        self.numbers = np.zeros(column, dtype=np.bool_)
        self.numbers[list(self._numbers.values())] = True

    def encode(self, instance: Instance, where: str = "x") -> Row:
        """Return numbers as they are and categories one-hot."""
        if not isinstance(instance, Mapping):
            raise Invalid.of(where, "named features", "a list")
        details = self._missing_and_unknown(instance, where)
        row = np.zeros(self.size, dtype=np.float32)
        for name, column in self._numbers.items():
            value = instance.get(name, 0.0)
            if _is_usable(value):
                row[column] = value
            else:
                details.append(Detail(f"{where}.{shorten(name)}", A_NUMBER, quote(value)))
        for name, columns in self._categories.items():
            given = instance.get(name)
            if isinstance(given, str) and given in columns:
                row[columns[given]] = 1.0
            elif given is not None:
                known = shorten(", ".join(columns))
                details.append(Detail(f"{where}.{shorten(name)}", f"one of {known}", quote(given)))
        _raise_details(details)
        return row

    def _missing_and_unknown(self, instance: Mapping[str, Value], where: str) -> list[Detail]:
        declared = self._numbers.keys() | self._categories.keys()
        missing = [
            Detail(f"{where}.{shorten(name)}", "a value", "nothing")
            for name in nsmallest(MAX_DETAILS, declared - instance.keys())
        ]
        unknown = [
            Detail(f"{where}.{shorten(name)}", "a declared feature", quote(instance[name]))
            # Quoting each of twenty thousand would take a tenth of a second.
            for name in nsmallest(MAX_DETAILS, instance.keys() - declared)
        ]
        return missing + unknown


class HashedEncoder(Encoder):
    """Any names: a number adds to its name's column, a string 1 to the column of `name=value`."""

    def __init__(self, features: HashedFeatures) -> None:
        self.size = features.size
        # A column may add up numbers and strings.
        self.numbers = np.ones(self.size, dtype=np.bool_)

    def encode(self, instance: Instance, where: str = "x") -> Row:
        """Return the hashed row; the sign of a column comes from the hash too."""
        if not isinstance(instance, Mapping):
            raise Invalid.of(where, "named features", "a list")
        if len(instance) > MAX_HASHED:
            raise Invalid.of(where, f"at most {MAX_HASHED} features", f"{len(instance)}")
        details: list[Detail] = []
        wide = np.zeros(self.size, dtype=np.float64)
        # Sorted, so that colliding features add up in one order whatever order they came in.
        for name in sorted(instance):
            value = instance[name]
            if isinstance(value, str):
                self._add(wide, f"{name}={value}", 1.0)
            elif _is_usable(value):
                self._add(wide, name, value)
            else:
                details.append(Detail(f"{where}.{shorten(name)}", A_NUMBER, quote(value)))
        _raise_details(details)
        if not _all_usable(wide):
            raise Invalid.of(where, "features whose sum in no column is beyond 1e6", "larger ones")
        return wide.astype(np.float32)

    def _add(self, row: NDArray[np.float64], key: str, value: float) -> None:
        digest = int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "little")
        row[(digest >> 1) % self.size] += value if digest & 1 else -value


def _is_usable(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, float | int):
        return False
    # NaN fails the comparison.
    return abs(value) <= MAX_VALUE


def _all_usable(wide: NDArray[np.float64]) -> bool:
    if not wide.size:
        return True
    # NaN fails both comparisons.
    return bool(wide.max() <= MAX_VALUE and wide.min() >= -MAX_VALUE)


def _name_unusable(wide: NDArray[np.float64], wheres: Sequence[str]) -> Invalid:
    bad = np.argwhere(~(np.abs(wide) <= MAX_VALUE))[:MAX_DETAILS]
    return Invalid.all_of(
        Detail(f"{wheres[row]}[{column}]", A_NUMBER, quote(float(wide[row, column])))
        for row, column in bad.tolist()
    )


def _raise_details(details: list[Detail]) -> None:
    if details:
        raise Invalid.all_of(details)
