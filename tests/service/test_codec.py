"""States as bytes: canonical, bit for bit, and refused with one error when damaged."""

import io
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from learners import State
from service.codec import (
    DTYPES,
    MAGIC,
    MAX_HEADER_BYTES,
    PART_BYTES,
    CodecError,
    decode_state,
    encode_parts,
    encode_state,
    state_digest,
    state_to_npz,
)

VALUES = (
    st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.sampled_from(sorted(DTYPES)).flatmap(
        lambda dtype: arrays(dtype, array_shapes(min_dims=0, max_side=4, min_side=0))
    )
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
STATES = st.dictionaries(NAMES, VALUES, max_size=5)
STATE: State = {
    "weights": np.linspace(-1, 1, 12).reshape(3, 4),
    "active": np.array([True, False, True]),
    "kind": "rcnbf",
    "gamma": 0.03,
    "count": 7,
}


def same(one: State, other: State) -> bool:
    """Whether two states hold the same bits."""
    if one.keys() != other.keys():
        return False
    for name, value in one.items():
        twin = other[name]
        if isinstance(value, np.ndarray):
            if not isinstance(twin, np.ndarray) or value.dtype != twin.dtype:
                return False
            if value.shape != twin.shape or value.tobytes() != twin.tobytes():
                return False
        elif type(value) is not type(twin) or value != twin:
            return False
    return True


@settings(deadline=None)
@given(STATES)
def test_what_is_saved_is_what_is_read(state: State) -> None:
    """Every dtype, shape and plain value survives bit for bit, NaN payloads included."""
    blob = encode_state(state)
    assert same(decode_state(blob), state)
    assert encode_state(decode_state(blob)) == blob


@settings(deadline=None)
@given(STATES, st.randoms(use_true_random=False))
def test_the_bytes_do_not_depend_on_the_order(state: State, random: Any) -> None:
    """Equal states have equal bytes: that is how workers are compared."""
    items = list(state.items())
    random.shuffle(items)
    assert encode_state(dict(items)) == encode_state(state)


def test_the_layout_in_memory_is_forgotten() -> None:
    """A transposed or big-endian array has the bytes of its plain twin."""
    plain = np.arange(6.0).reshape(2, 3)
    for twin in (np.asfortranarray(plain), plain.astype(">f8"), np.tile(plain, 2)[:, :3]):
        assert encode_state({"w": twin}) == encode_state({"w": plain})


@given(st.lists(st.integers(0, 3 * PART_BYTES // 8), max_size=5))
@example([PART_BYTES, 0])
def test_parts_are_the_whole(sizes: list[int]) -> None:
    """Joined they are the canonical bytes; each is of bounded size, none is empty."""
    state: State = {f"a{place}": np.arange(float(size)) for place, size in enumerate(sizes)}
    parts = encode_parts(state)
    assert b"".join(parts) == encode_state(state)
    assert all(0 < len(part) <= (len(sizes) + 1) * PART_BYTES for part in parts)


def test_a_change_stays_in_its_part() -> None:
    """Whatever else becomes longer or shorter, also the header before it."""
    ring = np.zeros((4000, 64), np.float32)
    before = encode_parts({"first": 9, "ring": ring, "z": np.zeros(3)})
    ring[700:710] = 1.0
    after = encode_parts({"first": 10, "more": np.zeros(5), "ring": ring, "z": np.zeros(4)})
    assert len(before) == len(after) == 18
    changed = [i for i, (one, other) in enumerate(zip(before, after, strict=True)) if one != other]
    assert changed == [0, 1 + 700 * 256 // PART_BYTES, 17]


def test_the_format_is_pinned() -> None:
    """Snapshots and exports of this version are read for ever."""
    digest = "0ed500cc2b4cc78ce9481bf14f5ad9286fa9c29eddf39b4fe3e0beb008cccdd1"
    assert state_digest(encode_state(STATE)) == digest


def test_an_array_of_another_kind_is_refused() -> None:
    """Objects would need pickle; complex numbers and strings have no place in a state."""
    for array in (np.array([None]), np.array([1j]), np.array(["a"]), np.zeros(1, dtype="f2")):
        with pytest.raises(CodecError, match="cannot be stored"):
            encode_state({"w": array})


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_damage_is_a_codec_error(data: st.DataObject) -> None:
    """Flipped, cut and inserted bytes raise CodecError or change values, and nothing else."""
    blob = bytearray(encode_state(STATE))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(blob) - 1))
        blob[at] = data.draw(st.integers(0, 255))
    begin = data.draw(st.integers(0, len(blob)))
    blob[begin:begin] = data.draw(st.binary(max_size=3))
    cut = bytes(blob[: data.draw(st.integers(len(blob) - 40, len(blob)))])
    try:
        state = decode_state(cut)
    except CodecError:
        return
    assert encode_state(state)


@pytest.mark.parametrize(
    "header",
    [
        {"w": {"dtype": "<f8", "shape": [-1]}},
        {"w": {"dtype": "<f8", "shape": [2**62, 4]}},
        {"w": {"dtype": "<f8", "shape": [2**32, 2**32]}},
        {"w": {"dtype": "<f8", "shape": [10**30]}},
        {"w": {"dtype": "<f8", "shape": [1.5]}},
        {"w": {"dtype": "<f8", "shape": ["1"]}},
        {"w": {"dtype": "<f8", "shape": 1}},
        {"w": {"dtype": "|O", "shape": [1]}},
        {"w": {"dtype": ["<f8"], "shape": [1]}},
        {"w": {"dtype": "<f8"}},
        {"w": {}},
        {"w": {"value": None}},
        {"w": {"value": [1]}},
        {"w": {"value": {"a": 1}}},
        {"w": 5},
        [],
    ],
)
def test_a_made_up_header_is_refused(header: Any) -> None:
    """An import is untrusted: sizes that are no sizes, objects, and other shapes of header."""
    text = msgspec.json.encode(header)
    with pytest.raises(CodecError):
        decode_state(MAGIC + len(text).to_bytes(4, "little") + text + bytes(8))


def test_a_deep_header_is_refused() -> None:
    """A header nested a hundred thousand deep is damage, not a crash."""
    text = b'{"w":{"value":' + b"[" * 100_000
    with pytest.raises(CodecError):
        decode_state(MAGIC + len(text).to_bytes(4, "little") + text)


def test_a_header_without_end_is_not_read() -> None:
    """Parsed, it would take many times its bytes, whatever is wrong in it."""
    with pytest.raises(CodecError, match="its header is too long"):
        decode_state(MAGIC + MAX_HEADER_BYTES.to_bytes(4, "little") + b"{}")


def test_a_boolean_is_a_bit() -> None:
    """A mask with a 2 in it would count wrong."""
    blob = encode_state({"active": np.array([True, True])})
    with pytest.raises(CodecError, match="neither 0 nor 1"):
        decode_state(blob[:-1] + b"\x02")


def test_the_download_is_read_without_pickle() -> None:
    """The .npz of a state holds the same arrays."""
    with np.load(io.BytesIO(state_to_npz(STATE)), allow_pickle=False) as found:
        read: State = {name: found[name] for name in found.files}
    assert same(read, {name: np.asarray(value) for name, value in STATE.items()})
