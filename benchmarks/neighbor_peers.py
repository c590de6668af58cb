"""Other nearest-neighbour libraries behind one small interface, each optional.

A peer holds a window of the newest n rows. `step` takes the newest row in, throws the oldest out
and answers one query. What a library cannot do is said in its name.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]


class Peer(ABC):
    """One library, filled with rows and labels 0 or 1."""

    name: ClassVar[str]
    package: ClassVar[str]
    #: Largest n and n x d that it is asked for: beyond it a run would take hours.
    largest: ClassVar[tuple[int, int]] = (10**9, 10**12)

    @abstractmethod
    def __init__(self, library: ModuleType, rows: Rows, labels: NDArray[np.int64], k: int) -> None:
        """Take the rows in."""

    @abstractmethod
    def step(self, row: Rows, label: int, query: Rows) -> None:
        """Insert, evict and answer."""


class Faiss(Peer):
    """faiss' exact index: adding copies to the end, removing moves the whole array."""

    name, package = "faiss IndexFlatL2", "faiss"

    def __init__(self, library: ModuleType, rows: Rows, labels: NDArray[np.int64], k: int) -> None:
        library.omp_set_num_threads(1)
        self._index = library.IndexFlatL2(rows.shape[1])
        self._index.add(rows)
        # Its rows move to the front as the oldest goes; labels stay, and the first moves on.
        self._labels, self._first, self._k = labels.tolist(), 0, k
        self._oldest = np.zeros(1, dtype=np.int64)

    def step(self, row: Rows, label: int, query: Rows) -> None:
        """Insert, evict and answer."""
        self._index.remove_ids(self._oldest)
        self._index.add(row[np.newaxis])
        self._labels.append(label)
        self._first += 1
        _, found = self._index.search(query[np.newaxis], self._k)
        sum(self._labels[self._first + place] for place in found[0].tolist())


class Hnswlib(Peer):
    """An approximate graph; the place of a deleted row is used again."""

    name, package = "hnswlib (approximate)", "hnswlib"
    largest: ClassVar[tuple[int, int]] = (50_000, 4_000_000)

    def __init__(self, library: ModuleType, rows: Rows, labels: NDArray[np.int64], k: int) -> None:
        self._index = library.Index(space="l2", dim=rows.shape[1])
        size = len(rows)
        self._index.init_index(
            max_elements=size + 1, ef_construction=100, M=16, allow_replace_deleted=True
        )
        self._index.set_num_threads(1)
        self._index.set_ef(50)
        self._index.add_items(rows, np.arange(size))
        self._labels = dict(enumerate(labels.tolist()))
        self._next, self._size, self._k = size, size, k

    def step(self, row: Rows, label: int, query: Rows) -> None:
        """Insert, evict and answer."""
        self._index.mark_deleted(self._next - self._size)
        del self._labels[self._next - self._size]
        self._index.add_items(row[np.newaxis], [self._next], replace_deleted=True)
        self._labels[self._next] = label
        self._next += 1
        found, _ = self._index.knn_query(query[np.newaxis], self._k)
        sum(self._labels[int(each)] for each in found[0])


class ScikitLearn(Peer):
    """scikit-learn's classifier knows no stream: it is fitted anew each time."""

    name, package = "scikit-learn (anew)", "sklearn.neighbors"

    def __init__(self, library: ModuleType, rows: Rows, labels: NDArray[np.int64], k: int) -> None:
        self._model = library.KNeighborsClassifier(n_neighbors=k, algorithm="brute")
        self._rows, self._labels, self._place = rows.copy(), labels.copy(), 0

    def step(self, row: Rows, label: int, query: Rows) -> None:
        """Insert, evict and answer."""
        self._rows[self._place], self._labels[self._place] = row, label
        self._place = (self._place + 1) % len(self._rows)
        self._model.fit(self._rows, self._labels).predict(query[np.newaxis])


class _River(Peer):
    """A river classifier; features as dicts, as river has them."""

    package = "river.neighbors"

    def __init__(self, library: ModuleType, rows: Rows, labels: NDArray[np.int64], k: int) -> None:
        self._model = self._build(library, len(rows), k)
        for row, label in zip(rows.tolist(), labels.tolist(), strict=True):
            self._model.learn_one(dict(enumerate(row)), label)

    @abstractmethod
    def _build(self, library: ModuleType, size: int, k: int) -> Any:
        """Return the empty model."""

    def step(self, row: Rows, label: int, query: Rows) -> None:
        """Insert, evict and answer."""
        self._model.learn_one(dict(enumerate(row.tolist())), label)
        self._model.predict_one(dict(enumerate(query.tolist())))


class RiverLazy(_River):
    """river's exact search: a pass over all pairs in Python."""

    name = "river LazySearch"
    largest: ClassVar[tuple[int, int]] = (10_000, 640_000)

    def _build(self, library: ModuleType, size: int, k: int) -> Any:
        return library.KNNClassifier(k, library.LazySearch(window_size=size))


class RiverSwinn(_River):
    """river's approximate graph for windows."""

    name = "river SWINN (approx.)"
    largest: ClassVar[tuple[int, int]] = (1_000, 64_000)

    def _build(self, library: ModuleType, size: int, k: int) -> Any:
        return library.KNNClassifier(k, library.SWINN(maxlen=size, seed=0))


PEERS: tuple[type[Peer], ...] = (Faiss, Hnswlib, ScikitLearn, RiverLazy, RiverSwinn)


def build(
    kind: type[Peer],
    rows: Rows,
    labels: NDArray[np.int64],
    k: int,
    say: Callable[[str], None] = print,
) -> Peer | None:
    """Return a filled peer, or None (with a line that says why) if it cannot be had."""
    size, n_features = rows.shape
    if size > kind.largest[0] or size * n_features > kind.largest[1]:
        say(f"  {kind.name}: left out, it would take too long at {size} x {n_features}")
        return None
    try:
        library = importlib.import_module(kind.package)
    except ImportError as error:
        say(f"  {kind.name}: left out, its package is missing ({error})")
        return None
    return kind(library, rows, labels, k)
