"""The slow plain twin of the neighbour graph: everything from scratch, one pair at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Row = NDArray[np.float32]


def key(metric: str, left: Row, right: Row) -> float:
    """Return what the graph sorts by, between two rows."""
    one, other = left.astype(np.float64), right.astype(np.float64)
    if metric == "euclidean":
        return float(np.add.reduce((one - other) ** 2))
    if metric == "manhattan":
        return float(np.add.reduce(np.abs(one - other)))
    if one.any() != other.any():
        return 1.0
    if not one.any():
        return 0.0
    one = one / np.sqrt(np.add.reduce(one * one))
    other = other / np.sqrt(np.add.reduce(other * other))
    distance = 0.5 * float(np.add.reduce((one - other) ** 2))
    return distance if distance >= 1e-28 else 0.0


@dataclass
class PlainWindow:
    """The last `capacity` examples, oldest first; positions take the place of slots."""

    capacity: int
    metric: str = "euclidean"
    rows: list[Row] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)

    def insert(self, rows: NDArray[np.float32], labels: NDArray[np.integer]) -> None:
        """Append examples and drop the oldest beyond the capacity."""
        self.rows = [*self.rows, *rows][-self.capacity :]
        self.labels = [*self.labels, *labels.tolist()][-self.capacity :]

    def evict(self, count: int) -> None:
        """Drop the `count` oldest."""
        self.rows, self.labels = self.rows[count:], self.labels[count:]

    def ranked(self, query: Row, without: int | None = None) -> list[tuple[float, int]]:
        """Return (key, position) of all examples but `without`, nearest first, ties by age."""
        return sorted(
            (key(self.metric, row, query), position)
            for position, row in enumerate(self.rows)
            if position != without
        )

    def neighbors(self, k: int, label: int | None = None) -> list[list[tuple[float, int]]]:
        """Return for each example its k nearest others (of one label, where that is given)."""
        return [
            [
                (distance, other)
                for distance, other in self.ranked(row, without=position)
                if label is None or self.labels[other] == label
            ][:k]
            for position, row in enumerate(self.rows)
        ]

    def occurrences(self, k: int, n_labels: int) -> list[list[int]]:
        """Return N_{k,c}: by example, how many of each label have it among their k nearest."""
        counts = [[0] * n_labels for _ in self.rows]
        for position, near in enumerate(self.neighbors(k)):
            for _, other in near:
                counts[other][self.labels[position]] += 1
        return counts

    def labels_around(self, k: int, n_labels: int) -> list[list[int]]:
        """Return by example the count of each label among it and its k nearest."""
        counts = []
        for position, near in enumerate(self.neighbors(k)):
            around = [self.labels[position], *(self.labels[other] for _, other in near)]
            counts.append([around.count(label) for label in range(n_labels)])
        return counts
