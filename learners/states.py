"""What a learner's state is made of, and how it is read back: nothing in it is taken on trust."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from learners.errors import StateError, expected
from learners.validation import FloatArray, described

StateValue: TypeAlias = NDArray[np.generic] | int | float | bool | str
State: TypeAlias = dict[str, StateValue]
#: A numpy type of integers.
Whole = TypeVar("Whole", bound=np.integer)

#: Largest size of a number in a state. One round moves none by more than some 1e32, and no log
#: has 1e16 rounds; what is larger was not learned, and would soon become infinite.
MAX_STATE = 1e100


def check_kind(state: Mapping[str, StateValue], kind: str) -> None:
    """Raise StateError unless `state` was saved by a learner of this kind."""
    found = state_value(state, "kind")
    # Only a string is compared: an array's != would be an array, not a bool.
    if not isinstance(found, str) or found != kind:
        raise StateError(expected("state's kind", repr(kind), found))


def state_value(state: Mapping[str, StateValue], name: str) -> StateValue:
    """Return the entry `name` of a state, or raise StateError if it has none.

    A scalar may come as an array without dimensions: so `numpy.load` gives what `savez` was given.
    """
    if name not in state:
        raise StateError(f"state: expected an entry {name!r}, got only {sorted(state)}")
    value = state[name]
    if isinstance(value, np.ndarray) and value.ndim == 0:
        scalar: StateValue = value.item()
        return scalar
    return value


def state_array(
    state: Mapping[str, StateValue], name: str, shape: tuple[int, ...], most: float = MAX_STATE
) -> FloatArray:
    """Return a copy of the float64 array `name` of a state, or raise StateError.

    None of its numbers may be larger in size than `most`.
    """
    value = state_value(state, name)
    if not isinstance(value, np.ndarray) or value.dtype != np.float64 or value.shape != shape:
        what = f"a float64 array of shape {shape}"
        raise StateError(f"state's {name}: expected {what}, got {described(value)}")
    # Written so that NaN, which compares as false, is refused.
    if not (np.abs(value) <= most).all():
        what = f"finite numbers of size at most {most:g}"
        raise StateError(f"state's {name}: expected {what}, got NaN, infinity or a larger one")
    # In C order whatever was stored: sums along a row depend on how it lies in memory.
    return np.array(value, dtype=np.float64, order="C")


def state_integers(
    state: Mapping[str, StateValue], name: str, kind: type[Whole], size: int | None, below: int
) -> NDArray[Whole]:
    """Return a copy of the integer array `name` of a state, or raise StateError.

    There must be `size` of them (None: any number), of type `kind`, each in [0, `below`).
    """
    value = state_value(state, name)
    what = f"{'any number' if size is None else size} of {np.dtype(kind)} in [0, {below})"
    if not isinstance(value, np.ndarray) or value.dtype != kind or value.ndim != 1:
        raise StateError(f"state's {name}: expected {what}, got {described(value)}")
    if size is not None and len(value) != size:
        raise StateError(f"state's {name}: expected {what}, got {len(value)}")
    integers = value.astype(kind)
    bad = integers[(integers < 0) | (integers >= below)]
    if len(bad):
        raise StateError(expected(f"state's {name}", what, int(bad[0])))
    return integers


def state_number(state: Mapping[str, StateValue], name: str) -> float:
    """Return the finite float `name` of a state, or raise StateError."""
    value = state_value(state, name)
    if not isinstance(value, float) or not abs(value) <= MAX_STATE:
        what = f"a finite float of size at most {MAX_STATE:g}"
        raise StateError(expected(f"state's {name}", what, value))
    return value


def part_of(state: Mapping[str, StateValue], prefix: str) -> State:
    """Return what a state has under names with this prefix, which is removed."""
    return {
        name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)
    }
