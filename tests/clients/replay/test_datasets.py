"""Data sets to replay."""

import errno
import os
import re
import struct
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from clients.errors import InputError
from clients.replay.datasets import Dataset, load


def test_segments_come_with_river() -> None:
    """The demo's data are there without a download, whole and in river's order."""
    from river.datasets import ImageSegments  # noqa: PLC0415 - heavy, and only here

    data = load("segments")
    assert data.x.shape == (2310, 18)
    assert data.x.dtype == np.float32
    assert len(data.labels) == 7
    rows = ImageSegments()  # type: ignore[no-untyped-call]  # river does not annotate it
    for (features, label), row, code in zip(rows, data.x, data.y, strict=True):
        assert data.labels[code] == label
        np.testing.assert_array_equal(row, np.array(list(features.values()), dtype=np.float32))


def test_digits_come_with_scikit_learn() -> None:
    """The second bundled set is read where scikit-learn is installed."""
    pytest.importorskip("sklearn")
    data = load("digits")
    assert data.x.shape == (1797, 64)
    assert data.labels == tuple("0123456789")


def test_npz_with_and_without_names(tmp_path: Path) -> None:
    """Codes get the names that the file gives them, or else their own text."""
    x = np.array([[1, 2], [3, 4], [5, 6]], dtype=np.uint8)
    np.savez(tmp_path / "plain.npz", X=x, y=np.array([7, -1, 7]))
    plain = load(str(tmp_path / "plain.npz"))
    assert plain.name == "plain"
    assert plain.labels == ("-1", "7")
    assert plain.y.tolist() == [1, 0, 1]
    np.testing.assert_array_equal(plain.x, x)
    names = np.array(["cat", "dog", "eel"])
    np.savez(tmp_path / "named.npz", X=x, y=np.array([2, 0, 2]), label_names=names)
    named = load(str(tmp_path / "named.npz"))
    assert named.labels == ("cat", "dog", "eel")
    assert named.y.tolist() == [2, 0, 2]


def test_csv_takes_the_last_column_or_the_named_one(tmp_path: Path) -> None:
    """A plain table needs no options, and any column can be the label."""
    path = tmp_path / "table.csv"
    path.write_text("size,kind,age\n1.5,dog,3\n2,cat,4\n")
    assert load(str(path), label_column="kind").labels == ("cat", "dog")
    assert load(str(path), label_column="kind").x.tolist() == [[1.5, 3], [2, 4]]
    with pytest.raises(InputError, match=re.escape("line 2, kind: expected a number, got 'dog'")):
        load(str(path))
    # The last column is the label, also where another one is called as it is.
    path.write_text("label,age,label\n1,3,2\n2,4,1\n")
    assert load(str(path)).x.tolist() == [[1, 3], [2, 4]]
    with pytest.raises(InputError, match=r"table\.csv: expected one column 'label', got \['label'"):
        load(str(path), label_column="label")
    # Rates are given in the order of labels: 10 comes after 9, as in an archive.
    path.write_text("age,label\n1,10\n2,9\n3,10\n")
    assert (load(str(path)).labels, load(str(path)).y.tolist()) == (("9", "10"), [1, 0, 1])
    # Numbers may be names of columns: pandas calls them so.
    path.write_text("0,1,label\n5,6,cat\n7,8,dog\n")
    assert load(str(path)).x.tolist() == [[5, 6], [7, 8]]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", r"bad\.csv: expected a header, got an empty file"),
        ("\n\na,b\n1,x\n2\n", r"bad\.csv: line 5: expected 2 fields, got 1"),
        ("a,b\n" + 1000 * "z" + ",x\n", r"expected a number, got 'z{59}\.\.\.$"),
        (1000 * "z" + "\n", r"expected columns with commas in between, got 'z{59}\.\.\.$"),
        ("a,b\n", r"bad\.csv: expected rows below the header, got none"),
        ("a;b\n1;x\n", r"bad\.csv: expected columns with commas in between, got 'a;b'"),
        ("1,2\n3,4\n", r"bad\.csv: expected a header with the columns' names, got \['1', '2'\]"),
        ("1,cat\n3,dog\n2,cat\n", r"bad\.csv: expected a header .*, got \['1', 'cat'\]"),
        (",a,b\n0,1,x\n", r"bad\.csv: expected a name for each column, got none for 1"),
        ("a,b\n1,x\n2,\n", "line 3, b: expected a label, got nothing"),
        ("a,b\n1,\udce9\n", r"bad\.csv: expected a CSV file in UTF-8"),
        ('a,b\n1,"' + "x" * 200_000 + '"\n', r"bad\.csv: expected a CSV file in UTF-8: field"),
        ("a,b\n1,x,2\n", "line 2: expected 2 fields, got 3"),
        ("a,b\n1,x\nnan,y\n", "line 3, a: expected a finite number .*, got 'nan'"),
        ("a,b\n-1e39,x\n", "line 2, a: expected a finite number of single .*, got '-1e39'"),
        ("a,b\n12_34,x\n", "line 2, a: expected a number, got '12_34'"),
    ],
)
def test_a_bad_csv_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    """The user learns which line is wrong and how."""
    path = tmp_path / "bad.csv"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=complaint):
        load(str(path))


def test_a_csv_of_a_spreadsheet_is_read(tmp_path: Path) -> None:
    """With a mark at its beginning, the ends of lines of Windows, and lines that are empty."""
    path = tmp_path / "SHEET.CSV"
    path.write_bytes("kind,size\r\ncat,1\r\n\r\ndog,2\r\n\r\n".encode("utf-8-sig"))
    data = load(str(path), label_column="kind")
    assert (data.labels, data.x.tolist()) == (("cat", "dog"), [[1], [2]])
    path.write_text('a,b\n1,"x\ny"\n2\n')
    with pytest.raises(InputError, match="line 4: expected 2 fields, got 1"):
        load(str(path))


def test_labels_of_an_archive_are_text_or_numbers(tmp_path: Path) -> None:
    """A missing one is no class of its own, and bytes have no b and quotes around them."""
    path = str(tmp_path / "y.npz")
    np.savez(path, X=np.eye(2), y=np.array(["äh".encode(), b"dog"]))
    assert load(path).labels == ("dog", "äh")
    np.savez(path, X=np.eye(2), y=np.array([1, 0]), label_names=np.array([b"cat", b"dog"]))
    assert load(path).labels == ("cat", "dog")
    np.savez(path, X=np.eye(2), y=np.array([1.0, np.nan]))
    with pytest.raises(InputError, match=r"y\.npz: y\[1\]: expected a label, got nan"):
        load(path)
    np.savez(path, X=np.eye(2), y=np.array([np.inf, 1.0]))
    with pytest.raises(InputError, match=r"y\[0\]: expected a label, got inf"):
        load(path)
    np.savez(path, X=np.eye(2), y=np.array([1j, np.nan]))
    with pytest.raises(InputError, match="y: expected numbers or text, got complex128"):
        load(path)
    np.savez(path, X=np.eye(2), y=np.array(["a", "b"], dtype=object))
    with pytest.raises(InputError, match=r"y\.npz: expected .* none of objects"):
        load(path)
    np.savez(path, X=np.eye(2), y=np.array(["a", "b"]), label_names=np.array(["cat", "dog"]))
    with pytest.raises(InputError, match="y: expected codes into label_names, got <U1"):
        load(path)
    np.savez(path, X=np.array([["1"], ["2"]]), y=np.array([0, 1]))
    with pytest.raises(InputError, match="X: expected numbers, got <U1"):
        load(path)
    np.savez(path, X=np.eye(2), y=np.array([0, 0]), label_names=np.array("cat"))
    with pytest.raises(InputError, match=r"label_names: expected one name a code, got shape \(\)"):
        load(path)


@pytest.mark.parametrize("source", ["segments", "nobodys.npz"])
def test_only_a_table_has_a_label_column(source: str) -> None:
    """A bundled data set took no notice of the option: its own column was played."""
    with pytest.raises(InputError, match=f"label_column: expected none for '{source}', got 'y'"):
        load(source, label_column="y")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_broken_archive_is_named(tmp_path: Path, save: Callable[..., None]) -> None:
    """Whatever is wrong with it: another zip file, or bytes that a copy has changed."""
    path = tmp_path / "bad.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("X.npy", "y.npy"):
            archive.writestr(name, "1,2,3")
    with pytest.raises(InputError, match=r"bad\.npz: expected an archive that numpy\.savez wrote"):
        load(str(path))
    save(path, X=np.random.default_rng(0).normal(size=(3000, 4)), y=np.arange(3000) % 2)
    packed = bytearray(path.read_bytes())
    packed[300:2000:7] = bytes(243)
    path.write_bytes(packed)
    with pytest.raises(InputError, match=r"bad\.npz: expected arrays of numbers"):
        load(str(path))


#: Where a zip file says that a part is encrypted, in the part's head and in the directory.
ENCRYPTED = ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8))


@pytest.mark.parametrize("broken", ["header", "encrypted", "huge", "wordy"])
def test_an_archive_that_was_made_to_break_is_named(tmp_path: Path, broken: str) -> None:
    """Zip files and arrays can be broken in ways that ended in a traceback."""
    path = tmp_path / "bad.npz"
    heads = {
        "header": b"(" * 100,
        "wordy": b"{'descr': '" + b"x" * 5000 + b"', 'fortran_order': False, 'shape': (1, 3)}\n",
        "huge": b"{'descr': '<f8', 'fortran_order': False, 'shape': (%d, 3)}\n" % 10**15,
        "encrypted": b"{'descr': '<f8', 'fortran_order': False, 'shape': (0, 3)}\n",
    }
    head = heads[broken]
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("X.npy", "y.npy"):
            archive.writestr(name, b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head)
    if broken == "encrypted":
        packed = bytearray(path.read_bytes())
        for mark, flags in ENCRYPTED:
            packed[packed.index(mark) + flags] |= 1
        path.write_bytes(packed)
    said = r"^bad\.npz: expected (arrays.{,300}|less than memory holds)$"
    with pytest.raises(InputError, match=said):
        load(str(path))


def test_an_archive_becomes_no_more_than_memory_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of 8 MB became 8 GB."""
    path = tmp_path / "x.npz"
    np.savez_compressed(path, X=np.zeros((1000, 2)), y=np.zeros(1000))
    monkeypatch.setattr("clients.replay.datasets.MAX_UNPACKED_BYTES", 10_000)
    with pytest.raises(InputError, match=r"x\.npz: expected at most 10,000 bytes when unpacked"):
        load(str(path))


@pytest.mark.parametrize("name", ["x.npz", "x.csv"])
def test_a_file_that_must_not_be_read_is_called_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """An archive was said to be none."""
    path = tmp_path / name
    path.write_bytes(b"")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", name)

    monkeypatch.setattr("pathlib.Path.open", refuse)
    with pytest.raises(PermissionError, match=name):
        load(str(path))


@pytest.mark.skipif(sys.platform != "linux", reason="needs names of files that are any bytes")
def test_a_name_that_the_locale_cannot_read_is_text(tmp_path: Path) -> None:
    """The picture of a replay could not be drawn, after its last round."""
    name = os.fsdecode(b"caf\xe9.csv")
    (tmp_path / name).write_text("a,b\n1,x\n")
    assert load(str(tmp_path / name)).name == "caf\N{REPLACEMENT CHARACTER}"


def test_a_missing_or_strange_file_is_named(tmp_path: Path) -> None:
    """A typo is answered with what there is."""
    with pytest.raises(InputError, match="segments, digits"):
        load("segmets")
    (tmp_path / "x.txt").write_text("")
    with pytest.raises(InputError, match="file, got"):
        load(str(tmp_path / "x.txt"))
    np.savez(tmp_path / "x.npz", X=np.eye(2))
    with pytest.raises(InputError, match="arrays X and y"):
        load(str(tmp_path / "x.npz"))
    (tmp_path / "y.npz").write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"y\.npz: expected an archive"):
        load(str(tmp_path / "y.npz"))
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,x\n")
    with pytest.raises(InputError, match="column 'c'"):
        load(str(path), label_column="c")


@pytest.mark.parametrize(
    ("x", "y", "labels", "name"),
    [
        (np.zeros((2, 0)), [0, 0], ("a",), "X"),
        (np.zeros(2), [0, 0], ("a",), "X"),
        (np.zeros((2, 1)), [0], ("a",), "y"),
        (np.zeros((2, 1)), [0, 1], ("a",), "y: expected codes from 0 to 0, .*, got 0 to 1"),
        (np.zeros((2, 1)), [0, -1], ("a", "b"), "y: expected codes from 0 to 1, .*, got -1 to 0"),
        (np.zeros((2, 1)), [0, 1], ("a", "a"), "labels"),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    x: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    y: list[int],
    labels: tuple[str, ...],
    name: str,
) -> None:
    """A data set that exists can be replayed."""
    with pytest.raises(InputError, match=f"^{name}"):
        Dataset("bad", x.astype(np.float32), np.array(y), labels)


def test_codes_into_names_are_whole(tmp_path: Path) -> None:
    """Scores between 0 and 1, say, were cut off to the first label, all of them."""
    path = tmp_path / "a.npz"
    np.savez(path, X=np.eye(2), y=np.array([0.7, 1.0]), label_names=np.array(["cat", "dog"]))
    with pytest.raises(InputError, match="y: expected codes into label_names, got float64"):
        load(str(path))
