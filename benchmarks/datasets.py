"""Data sets for the benchmarks: npz files of one folder, read without pickle."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Dataset(NamedTuple):
    """Raw features and labels.

    Attributes
    ----------
    name
        The file's stem.
    xs
        float64 of shape (n, d), C order.
    labels
        int64 of shape (n,), codes in [0, n_labels).
    n_labels
        Number of classes K.
    """

    name: str
    xs: NDArray[np.float64]
    labels: NDArray[np.int64]
    n_labels: int


@cache
def load(name: str, folder: Path) -> Dataset:
    """Read ``folder/name.npz`` with arrays ``X`` (n, d) and ``y`` (n,).

    Raises
    ------
    SystemExit
        If the folder has no such file, with the path that was tried.
    """
    with np.load(_path(name, folder), allow_pickle=False) as arrays:
        xs = np.ascontiguousarray(arrays["X"], dtype=np.float64)
        classes, labels = np.unique(arrays["y"], return_inverse=True)
    return Dataset(name, xs, labels.astype(np.int64), len(classes))


def check(names: Iterable[str], folder: Path) -> None:
    """Raise SystemExit as `load` does if any is missing: at once, not after hours with others."""
    for name in names:
        _path(name, folder)


def _path(name: str, folder: Path) -> Path:
    path = folder / f"{name}.npz"
    if not path.is_file():
        raise SystemExit(f"expected a data set at {path}; say where they are with --data")
    return path
