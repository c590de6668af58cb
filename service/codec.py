"""Named arrays and scalars as bytes, the same bytes for the same state; no pickle.

::

    bytes = b"MCS1" | header length 4 (little endian) | header | arrays, one after the other

The header is JSON with sorted names: for each value its scalar, or dtype and shape.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

import msgspec
import numpy as np

from learners.states import State, StateValue

MAGIC = b"MCS1"
#: What an array may hold: fixed-width little-endian numbers and booleans.
DTYPES = frozenset({"<f8", "<f4", "<i8", "<i4", "<i2", "<u8", "<u4", "<u2", "|u1", "|i1", "|b1"})


#: Arrays longer than this are cut at its multiples, so that after a small change only a few parts
#: are stored anew: 256 rows of a window of 64 features each.
PART_BYTES = 65_536
#: Longest header that is read: some 50 arrays, and the names of 1,024 labels.
MAX_HEADER_BYTES = 4 * 1024 * 1024


class CodecError(ValueError):
    """The bytes are not a state that `encode_state` wrote."""


def encode_state(state: Mapping[str, StateValue]) -> bytes:
    """Return the canonical bytes of a state.

    Examples
    --------
    >>> blob = encode_state({"w": np.arange(3.0), "n": 2})
    >>> decode_state(blob)["w"]
    array([0., 1., 2.])
    """
    return b"".join(encode_parts(state))


def encode_parts(state: Mapping[str, StateValue]) -> list[bytes]:
    """Return `encode_state` in parts: each place of a long array is always in the same part.

    Examples
    --------
    >>> state = {"n": 9, "ring": np.zeros((1000, 64), np.float32)}
    >>> [len(part) for part in encode_parts(state)][1:]
    [65536, 65536, 65536, 59392]
    """
    header: dict[str, Any] = {}
    arrays: list[bytes] = []
    for name in sorted(state):
        value = state[name]
        if isinstance(value, np.ndarray):
            array = np.ascontiguousarray(value)
            array = array.astype(array.dtype.newbyteorder("<"), copy=False)
            if array.dtype.str not in DTYPES:
                raise CodecError(f"{name}: an array of {array.dtype} cannot be stored")
            header[name] = {"dtype": array.dtype.str, "shape": list(value.shape)}
            arrays.append(array.tobytes())
        else:
            header[name] = {"value": value}
    text = msgspec.json.encode(header)
    return list(_parts([MAGIC + len(text).to_bytes(4, "little") + text, *arrays]))


def _parts(pieces: list[bytes]) -> Iterator[bytes]:
    """Cut long pieces; join short ones with short neighbours."""
    short: list[bytes] = []
    for piece in filter(None, pieces):
        if len(piece) <= PART_BYTES:
            short.append(piece)
            continue
        if short:
            yield b"".join(short)
            short = []
        for start in range(0, len(piece), PART_BYTES):
            yield piece[start : start + PART_BYTES]
    if short:
        yield b"".join(short)


def decode_state(blob: bytes) -> State:
    """Return the state in `blob`; raise CodecError if it is damaged."""
    try:
        return _decode(blob)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CodecError(f"not a saved state: {error}") from error


def _decode(blob: bytes) -> State:
    if blob[:4] != MAGIC:
        raise CodecError("it does not start with MCS1")
    start = 8 + int.from_bytes(blob[4:8], "little")
    if start > MAX_HEADER_BYTES:
        raise CodecError("its header is too long")
    header = msgspec.json.decode(blob[8:start], type=dict[str, dict[str, Any]])
    state: State = {}
    for name, entry in header.items():
        if "value" in entry:
            if not isinstance(entry["value"], bool | int | float | str):
                raise CodecError(f"{name}: neither an array nor a plain value")
            state[name] = entry["value"]
            continue
        dtype, shape = _dtype_and_shape(name, entry)
        count = math.prod(shape)
        end = start + count * dtype.itemsize
        if end > len(blob):
            raise CodecError(f"{name}: the bytes end within it")
        if dtype == np.bool_ and max(blob[start:end], default=0) > 1:
            raise CodecError(f"{name}: a boolean is neither 0 nor 1")
        array = np.frombuffer(blob, dtype=dtype, count=count, offset=start)
        state[name] = array.reshape(shape).copy()
        start = end
    if start != len(blob):
        raise CodecError(f"{len(blob) - start} bytes too many")
    return state


def _dtype_and_shape(
    name: str, entry: Mapping[str, Any]
) -> tuple[np.dtype[np.generic], tuple[int, ...]]:
    if entry["dtype"] not in DTYPES:
        raise CodecError(f"{name}: unknown dtype {entry['dtype']!r}")
    shape = tuple(entry["shape"])
    if not all(type(side) is int and side >= 0 for side in shape):
        raise CodecError(f"{name}: a shape is a list of counts")
    return np.dtype(entry["dtype"]), shape


def state_digest(*parts: bytes) -> str:
    """Return the SHA-256 of an encoded state, whole or in parts, in hex."""
    digest = sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def state_to_npz(state: Mapping[str, StateValue]) -> bytes:
    """Return the state as an .npz that `numpy.load(..., allow_pickle=False)` reads."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **{name: np.asarray(state[name]) for name in state})
    return buffer.getvalue()
