"""Labelled data sets to replay: files, and two that come with other packages."""

from __future__ import annotations

import csv
import io
import os
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clients._values import quoted
from clients.errors import InputError

#: What an archive may hold, unpacked: a few MB of one can become more than memory holds.
MAX_UNPACKED_BYTES = 4 * 2**30
#: Beyond it a feature would be infinite: they are kept as float32.
MOST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Instances with their true labels.

    Parameters
    ----------
    name
        For titles and tables.
    x
        Shape (n, d), float32, finite, n and d at least 1.
    y
        Shape (n,), codes of the true labels.
    labels
        Names of the labels by code, distinct.

    Raises
    ------
    InputError
        A shape does not fit, a feature is not finite, or a code has no name.

    Examples
    --------
    >>> toy = Dataset("toy", np.eye(2, dtype=np.float32), np.array([0, 1]), ("left", "right"))
    >>> toy.n_features, toy.labels
    (2, ('left', 'right'))
    """

    name: str
    x: NDArray[np.float32]
    y: NDArray[np.intp]
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.x.ndim != 2 or 0 in self.x.shape:
            raise InputError(f"X: expected rows and columns, got shape {self.x.shape}")
        if self.y.shape != self.x.shape[:1]:
            raise InputError(f"y: expected shape {self.x.shape[:1]}, got {self.y.shape}")
        if len(set(self.labels)) != len(self.labels):
            raise InputError(f"labels: expected distinct names, got {self.labels}")
        least, most = self.y.min(), self.y.max()
        if least < 0 or most >= len(self.labels):
            named = f"codes from 0 to {len(self.labels) - 1}, which have names"
            raise InputError(f"y: expected {named}, got {least} to {most}")
        wrong = np.argwhere(~np.isfinite(self.x))
        if len(wrong):
            row, column = wrong[0]
            raise InputError(
                f"X[{row}, {column}]: expected a finite number, got {self.x[row, column]}"
            )

    @property
    def n_features(self) -> int:
        """Length d of an instance."""
        return int(self.x.shape[1])


def load(source: str, *, label_column: str | None = None) -> Dataset:
    """Load a bundled data set by name, or a file by path.

    Parameters
    ----------
    source
        `segments` (2,310 image segments, 18 features, 7 labels; comes with river), `digits`
        (1,797 images of 64 pixels, 10 labels; comes with scikit-learn, which must be
        installed), a `.npz` file with arrays `X` and `y` (and, optionally, `label_names`
        indexed by `y`; at most 4 GiB in all), or a `.csv` file with a header. Labels without
        `label_names` are in ascending order, as numbers if all are numbers.
    label_column
        Column of a CSV file that holds the label; by default the last. All others must be
        numbers.

    Raises
    ------
    InputError
        There is no such data set, or something in it is not what was expected.
    """
    path = Path(source)
    if label_column is not None and (source in BUNDLED or path.suffix.lower() == ".npz"):
        raise InputError(f"label_column: expected none for {source!r}, got {label_column!r}")
    if source in BUNDLED:
        return BUNDLED[source]()
    if not path.is_file():
        bundled = ", ".join(BUNDLED)
        raise InputError(f"data: expected one of {bundled}, or a file, got {source!r}")
    kind = path.suffix.lower()
    if kind not in (".npz", ".csv"):
        raise InputError(f"data: expected a .npz or .csv file, got {source!r}")
    try:
        return _npz(path) if kind == ".npz" else _csv_file(path, label_column)
    except InputError as error:
        raise InputError(f"{path.name}: {error}") from error
    except MemoryError as error:
        raise InputError(f"{path.name}: expected less than memory holds") from error


def _segments() -> Dataset:
    spec = find_spec("river")
    if spec is None or not spec.submodule_search_locations:
        raise InputError("data: 'segments' comes with river, which is not installed")
    # River's own reader imports much of river for one small table.
    packed = Path(spec.submodule_search_locations[0]) / "datasets" / "segment.csv.zip"
    with zipfile.ZipFile(packed) as archive, archive.open(archive.namelist()[0]) as file:
        return _table("segments", io.TextIOWrapper(file, encoding="utf-8"), "category")


def _digits() -> Dataset:
    try:
        from sklearn.datasets import load_digits  # noqa: PLC0415 - optional
    except ImportError as error:
        raise InputError(
            "data: 'digits' comes with scikit-learn, which is not installed"
        ) from error
    bunch = load_digits()
    return _named("digits", bunch.data, bunch.target)


#: Data sets that need no file.
BUNDLED: dict[str, Callable[[], Dataset]] = {"segments": _segments, "digits": _digits}


def _name(path: Path) -> str:
    """Return what a file is called, as text that can be written, whatever the locale made of it."""
    return os.fsencode(path.stem).decode("utf-8", "replace")


def _npz(path: Path) -> Dataset:
    wanted = "expected an archive that numpy.savez wrote"
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise InputError(wanted)
        file.seek(0)
        try:
            with np.load(file, allow_pickle=False) as arrays:
                unpacked = sum(part.file_size for part in arrays.zip.infolist())
                if unpacked > MAX_UNPACKED_BYTES:
                    most = f"at most {MAX_UNPACKED_BYTES:,} bytes"
                    raise InputError(f"expected {most} when unpacked, got {unpacked:,}")
                missing = {"X", "y"} - set(arrays.files)
                if missing:
                    raise InputError(f"expected arrays X and y, got {quoted(arrays.files)}")
                names = arrays["label_names"] if "label_names" in arrays.files else None
                x, y = arrays["X"], arrays["y"]
        except (InputError, MemoryError):
            raise
        except Exception as error:
            # Whatever is broken, by accident or on purpose: readers of archives raise anything.
            what = "arrays of numbers, or of text in y, and none of objects"
            raise InputError(f"expected {what}: {error!s:.200}") from error
    # What is no array in an archive comes as bytes.
    if not all(isinstance(each, np.ndarray | None) for each in (x, y, names)):
        raise InputError(f"{wanted}, got other files in it")
    if names is None:
        return _named(_name(path), x, y)
    if names.ndim != 1:
        raise InputError(f"label_names: expected one name a code, got shape {names.shape}")
    if y.dtype.kind not in "iu":
        raise InputError(f"y: expected codes into label_names, got {y.dtype}")
    return Dataset(_name(path), _float32(x), y.astype(np.intp), _names(names))


def _csv_file(path: Path, label_column: str | None) -> Dataset:
    try:
        # What Excel calls UTF-8 begins with a mark, which is no part of a column's name.
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _table(_name(path), file, label_column)
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"expected a CSV file in UTF-8: {error}") from error


def _table(name: str, lines: Iterable[str], label_column: str | None) -> Dataset:
    rows = csv.reader(lines)
    header = next(filter(None, rows), [])
    if not header:
        raise InputError("expected a header, got an empty file")
    if len(header) == 1:
        raise InputError(f"expected columns with commas in between, got {quoted(header[0])}")
    if "" in header:
        # Pandas writes row numbers like this: no feature to learn from.
        raise InputError(f"expected a name for each column, got none for {header.index('') + 1}")
    column = header[-1] if label_column is None else label_column
    if header.count(column) != 1 and label_column is not None:
        raise InputError(f"expected one column {column!r}, got {quoted(header)}")
    at = len(header) - 1 if label_column is None else header.index(column)
    # As arrays, they take a quarter of what lists take.
    x: list[NDArray[np.float64]] = []
    y: list[str] = []
    for row in rows:
        number = rows.line_num
        if not row:
            continue
        if len(row) != len(header):
            raise InputError(f"line {number}: expected {len(header)} fields, got {len(row)}")
        if not row[at]:
            raise InputError(f"line {number}, {column}: expected a label, got nothing")
        y.append(row[at])
        x.append(np.array(_numbers(number, header, row, at)))
    if not y:
        raise InputError("expected rows below the header, got none")
    if all(map(_is_number, header[:at] + header[at + 1 :])) and (_is_number(column) or column in y):
        raise InputError(f"expected a header with the columns' names, got {quoted(header)}")
    labels = _ascending(y)
    codes = {label: code for code, label in enumerate(labels)}
    return Dataset(name, _float32(np.array(x)), np.array([codes[label] for label in y]), labels)


def _numbers(line: int, header: Sequence[str], row: Sequence[str], skip: int) -> list[float]:
    values = []
    for column, (name, text) in enumerate(zip(header, row, strict=True)):
        if column == skip:
            continue
        try:
            # Python takes 12_34 for 1234, nobody else does.
            value = float(text.replace("_", "?"))
        except ValueError:
            raise InputError(
                f"line {line}, {name}: expected a number, got {quoted(text)}"
            ) from None
        if not -MOST <= value <= MOST:
            what = "a finite number of single precision"
            raise InputError(f"line {line}, {name}: expected {what}, got {quoted(text)}")
        values.append(value)
    return values


def _ascending(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the labels in order; numbers as such, so that 10 comes after 9."""
    labels = sorted(set(texts))
    return tuple(sorted(labels, key=float) if all(map(_is_number, labels)) else labels)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _named(name: str, x: NDArray[Any], y: NDArray[Any]) -> Dataset:
    """Build a data set whose labels are the distinct values of `y`, ascending."""
    if y.dtype.kind not in "biufSU":
        raise InputError(f"y: expected numbers or text, got {y.dtype}")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        at = int(np.isfinite(y).argmin())
        raise InputError(f"y[{at}]: expected a label, got {y.flat[at]}")
    values, codes = np.unique(y, return_inverse=True)
    return Dataset(name, _float32(x), codes.astype(np.intp), _names(values))


def _names(values: NDArray[Any]) -> tuple[str, ...]:
    """Return names of labels; those of bytes without a b and quotes around them."""
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8", "replace")
    return tuple(map(str, values))


def _float32(x: NDArray[Any]) -> NDArray[np.float32]:
    if x.dtype.kind not in "fiu":
        raise InputError(f"X: expected numbers, got {x.dtype}")
    with np.errstate(over="ignore"):  # an overflow is infinite, and refused as such
        return np.ascontiguousarray(x, dtype=np.float32)
