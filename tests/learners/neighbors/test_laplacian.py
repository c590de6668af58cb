"""The Laplace filter: golden numbers, its identity, and equality with a filter from scratch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from learners.neighbors.laplacian import LaplaceFilter
from learners.neighbors.window import Window
from tests.learners.neighbors.strategies import streams
from tests.reference.neighbors import PlainWindow

_LINE = np.array([[0, 1, 2.1, 3.3, 5, 6.2, 7.5, 9]], np.float32).T
_LABELS = np.array([0, 0, 0, 1, 0, 1, 1, 1])


def _filtered(rows: NDArray[np.floating], labels: NDArray[np.int64], k: int) -> LaplaceFilter:
    points = LaplaceFilter(Window(len(rows), rows.shape[1]), int(labels.max()) + 1, k)
    points.graph.insert(rows.astype(np.float32), labels)
    return points


@pytest.mark.parametrize(
    ("k", "within", "between", "scores", "removed"),
    [
        (
            1,
            [1, 2, 2, 1, 1, 2, 2, 1],
            [1, 1, 1, 3, 3, 1, 1, 1],
            [0.422649730810, 1.422649730810, 1.422649730810, -1.886751345948],
            [3, 4],
        ),
        (
            2,
            [2, 3, 3, 2, 2, 3, 3, 2],
            [2, 2, 4, 4, 4, 4, 2, 2],
            [0.232233047034, 1.232233047034, -0.017766952966, -1.017766952966],
            [2, 3, 4, 5],
        ),
    ],
)
def test_golden_line(
    k: int, within: list[int], between: list[int], scores: list[float], removed: list[int]
) -> None:
    """Degrees, scores (the second half mirrors the first) and what goes."""
    points = _filtered(_LINE, _LABELS, k)
    assert [degrees.tolist() for degrees in points.degrees()] == [within, between]
    assert points.scores().tolist() == pytest.approx(scores + scores[::-1], abs=1e-11)
    assert np.flatnonzero(~points.kept()).tolist() == removed


def test_golden_clean_clusters() -> None:
    """Three well separated classes: the filter removes five of nine all the same."""
    # In tenths: single precision would break the ties of the decimals.
    rows = np.array(
        [(0, 0), (10, 2), (3, 11), (50, 50), (60, 53), (52, 61), (90, 0), (97, 4), (100, 13)],
        dtype=np.float64,
    )
    points = _filtered(rows, np.repeat([0, 1, 2], 3), 1)
    within, between = points.degrees()
    assert within.tolist() == [2, 1, 1, 2, 1, 1, 1, 2, 1]
    assert between.tolist() == [2, 4, 4, 4, 4, 2, 4, 2, 4]
    assert points.scores().tolist() == pytest.approx(
        [
            0.939339828220, -0.707106781187, -0.353553390593, 0.542893218813, -0.457106781187,
            0.292893218813, -0.457106781187, 1.292893218813, -0.353553390593,
        ],
        abs=1e-11,
    )  # fmt: skip
    assert np.flatnonzero(~points.kept()).tolist() == [1, 2, 4, 6, 8]


def _plain_scores(plain: PlainWindow, k: int, n_classes: int) -> list[float]:
    """Return the scores by the definition, with edge sets."""
    within: set[frozenset[int]] = set()
    between: set[frozenset[int]] = set()
    for label in range(n_classes):
        for position, near in enumerate(plain.neighbors(k, label)):
            edges = within if plain.labels[position] == label else between
            edges.update(frozenset((position, other)) for _, other in near)
    size = len(plain.rows)
    g = [sum(u in edge for edge in within) for u in range(size)]
    d = [sum(u in edge for edge in between) for u in range(size)]
    scores = []
    for u in range(size):
        rivals = [v for v in range(size) if v != u and frozenset((u, v)) in between]
        score = g[u] - float(sum(g[v] / np.sqrt(d[u] * d[v]) for v in rivals))
        scores.append(score if d[u] else 0.0)
    return scores


@settings(max_examples=40, deadline=None)
@given(data=st.data(), k=st.integers(1, 3), capacity=st.integers(1, 16))
def test_scores_equal_a_filter_from_scratch(data: st.DataObject, k: int, capacity: int) -> None:
    """After each insert and eviction, exactly; and sum of sqrt(d) score is 0."""
    points = LaplaceFilter(Window(capacity, 2), 3, k)
    plain = PlainWindow(capacity)
    for step in data.draw(streams(2, 3)):
        if isinstance(step, int):
            points.graph.evict(step)
            plain.evict(step)
        else:
            points.graph.insert(*step)
            plain.insert(*step)
        scores = points.scores()
        assert scores.tolist() == _plain_scores(plain, k, 3)
        assert (np.sqrt(points.degrees()[1]) * scores).sum() == pytest.approx(0, abs=1e-9)


def test_one_class_and_singletons_are_kept() -> None:
    """Without another class every score is 0; a lone example of a class has g = 0."""
    assert _filtered(_LINE, np.zeros(8, np.int64), 2).kept().all()
    lone = _filtered(_LINE[:3], np.array([0, 0, 1]), 1)
    assert lone.degrees()[0].tolist() == [1, 1, 0]
