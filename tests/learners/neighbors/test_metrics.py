"""Proposals stay within their certified margin, whatever the numbers look like."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.errors import ParameterError
from learners.neighbors import metrics
from learners.neighbors.metrics import METRIC_NAMES, make_metric
from learners.neighbors.window import to_rows
from tests.reference.neighbors import key


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    metric=st.sampled_from(METRIC_NAMES),
    n_features=st.sampled_from((1, 2, 7, 64, 300)),
    scale=st.sampled_from((1e-29, 1e-15, 1e-3, 1.0, 1e4)),
    offset=st.sampled_from((0.0, 1.0, 1e3, 9e5)),
    n_queries=st.sampled_from((1, 3)),
)
def test_exact_keys_are_within_the_margin(
    seed: int, metric: str, n_features: int, scale: float, offset: float, n_queries: int
) -> None:
    """Lower bounds are below the exact keys and margins reach above them, zero rows included."""
    rng = np.random.default_rng(seed)
    rows = to_rows(rng.normal(size=(12, n_features)) * scale + offset * rng.integers(0, 2, (12, 1)))
    rows[3] = 0.0
    rows[4] = rows[5]
    queries = np.concatenate((rows[:1], rows[3:5], rows[6:7] * 2))[-n_queries:]
    measure = make_metric(metric, n_features)
    low, margin, *_ = measure.propose(rows, measure.sizes(rows).astype(np.float32), queries)
    assert low.shape == (n_queries, 12)
    for i, query in enumerate(queries):
        exact = measure.keys(rows, query)
        assert exact.tolist() == [key(metric, row, query) for row in rows]
        assert (low[i] <= exact).all()
        assert (exact <= low[i].astype(np.float64) + margin[i]).all()


@pytest.mark.parametrize("metric", METRIC_NAMES)
@pytest.mark.parametrize("n_queries", [1, 2, 16, 17])
def test_many_rows_are_proposed_within_the_margin(metric: str, n_queries: int) -> None:
    """So many rows that a few queries go over them piece by piece."""
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(1_000, 300)).astype(np.float32)
    queries = rows[::50][:n_queries]
    measure = make_metric(metric, 300)
    low, margin, *_ = measure.propose(rows, measure.sizes(rows).astype(np.float32), queries)
    for i, query in enumerate(queries):
        exact = measure.keys(rows, query)
        assert (low[i] <= exact).all()
        assert (exact <= low[i].astype(np.float64) + margin[i]).all()


@pytest.mark.parametrize("n_features", [1, 7, 300])
@pytest.mark.parametrize("metric", METRIC_NAMES)
def test_a_zero_query_is_proposed_within_the_margin(metric: str, n_features: int) -> None:
    """Also where no row is zero, and beside a query that is none."""
    rows = np.random.default_rng(5).normal(size=(20, n_features)).astype(np.float32)
    queries = np.concatenate((np.zeros((1, n_features), np.float32), rows[:1]))
    measure = make_metric(metric, n_features)
    low, margin, *_ = measure.propose(rows, measure.sizes(rows).astype(np.float32), queries)
    for i, query in enumerate(queries):
        exact = measure.keys(rows, query)
        assert (low[i] <= exact).all()
        assert (exact <= low[i].astype(np.float64) + margin[i]).all()


@pytest.mark.parametrize("metric", METRIC_NAMES)
def test_keys_are_symmetric_and_zero_for_equals(metric: str) -> None:
    """d(x, y) = d(y, x) to the last bit, and d(x, x) = 0, in batches of any size."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(50, 33)).astype(np.float32)
    measure = make_metric(metric, 33)
    there = measure.keys(rows[:-1], rows[1:])
    back = measure.keys(rows[1:], rows[:-1])
    assert there.tolist() == back.tolist()
    assert there.tolist() == [measure.keys(rows[i : i + 1], rows[i + 1])[0] for i in range(49)]
    assert not measure.keys(rows, rows).any()


@pytest.mark.parametrize("metric", METRIC_NAMES)
def test_rows_longer_than_a_piece_are_worked_on_one_by_one(
    metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long instances are, there is a next piece, and the numbers are the same."""
    rows = np.random.default_rng(3).normal(size=(5, 7)).astype(np.float32)
    whole = make_metric(metric, 7)
    sizes = whole.sizes(rows).astype(np.float32)
    low = whole.propose(rows, sizes, rows[:1]).low
    keys = whole.keys(rows, rows[0])
    for name in ("_CHUNK", "_EXACT_CHUNK"):
        monkeypatch.setattr(metrics, name, 3)
    pieces = make_metric(metric, 7)
    assert pieces.at_once == 1
    assert pieces.propose(rows, sizes, rows[:1]).low.tolist() == low.tolist()
    assert pieces.keys_in_chunks(rows, np.arange(5), rows[0]).tolist() == keys.tolist()


@pytest.mark.parametrize("metric", METRIC_NAMES)
def test_how_rows_came_does_not_matter(metric: str) -> None:
    """Rows that came as columns side by side have the same keys, to the bit."""
    xs = np.random.default_rng(3).normal(size=(9, 70))
    rows, columns = to_rows(xs), to_rows(np.asfortranarray(xs))
    measure = make_metric(metric, 70)
    assert measure.keys(columns, columns[0]).tobytes() == measure.keys(rows, rows[0]).tobytes()


def test_cosine_of_zero_rows() -> None:
    """A zero row has distance 1 from others and 0 from its like."""
    measure = make_metric("cosine", 2)
    rows = np.array([[0, 0], [3, 4], [-3, -4]], np.float32)
    assert measure.keys(rows, rows[0]).tolist() == [0.0, 1.0, 1.0]
    assert measure.keys(rows, rows[1]).tolist() == pytest.approx([1.0, 0.0, 2.0])


def test_rows_of_one_direction_are_equal_by_cosine() -> None:
    """Rounding is no distance: the one that came out as 0 had all of the weight."""
    rng, measure = np.random.default_rng(0), make_metric("cosine", 20)
    row = rng.integers(0, 9, size=20)
    rows = to_rows(np.outer(np.arange(1.0, 200.0), row))
    assert not measure.keys(rows, rows[6]).any()
    # What float32 can tell apart stays apart.
    near = rows[6].copy()
    near[:2] += [3e-6, -2e-6]
    assert 0 < measure.keys(near, rows[6]) < 1e-12


def test_distances_of_keys() -> None:
    """The Euclidean key is the square; the others are the distances themselves."""
    left, right = np.array([[3, 4]], np.float32), np.zeros(2, np.float32)
    for name, distance in (("euclidean", 5.0), ("manhattan", 7.0), ("cosine", 1.0)):
        measure = make_metric(name, 2)
        assert measure.distances(measure.keys(left, right)).tolist() == [distance]


@pytest.mark.parametrize("name", ["l2", "", None, 3, []])
def test_unknown_metric_is_refused(name: str) -> None:
    """The known names are listed."""
    with pytest.raises(ParameterError, match="metric: expected 'euclidean' or"):
        make_metric(name, 2)
