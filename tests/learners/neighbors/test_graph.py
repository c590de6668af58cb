"""The graph equals a search from scratch after any sequence of changes, exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.errors import InputError, ParameterError
from learners.neighbors.counts import NeighborhoodLabels, Occurrences
from learners.neighbors.graph import NeighborGraph
from learners.neighbors.metrics import METRIC_NAMES
from learners.neighbors.search import Wanted, find
from learners.neighbors.window import Window
from tests.learners.neighbors.strategies import Step, streams
from tests.reference.neighbors import PlainWindow

_N_LABELS = 3


def _apply(graph: NeighborGraph, plain: PlainWindow, step: Step) -> None:
    if isinstance(step, int):
        graph.evict(step)
        plain.evict(step)
    else:
        graph.insert(*step)
        plain.insert(*step)


def _assert_lists(graph: NeighborGraph, plain: PlainWindow, k: int, label: int | None) -> None:
    """Assert that the first k are right, and what is kept beyond them for later as well."""
    live = graph.window.live()
    position = {int(slot): place for place, slot in enumerate(live)}
    lists = graph._pools[label or 0]
    assert graph.neighbors(live, pool=label or 0).tolist() == lists.slots[live, :k].tolist()
    assert graph.keys(live, pool=label or 0).tolist() == lists.keys[live, :k].tolist()
    for slot, near in zip(live, plain.neighbors(lists.width, label), strict=True):
        real = lists.slots[slot, : lists.width] < graph.window.capacity
        length = int(real.sum())
        assert length >= min(k, len(near))
        assert [position[int(s)] for s in lists.slots[slot, :length]] == [
            other for _, other in near[:length]
        ]
        assert lists.keys[slot, :length].tolist() == [distance for distance, _ in near[:length]]
        assert np.isinf(lists.keys[slot, length : lists.width]).all()
        if length == lists.width:
            # A list that names a wrong one is looked at in steps that do not concern it.
            assert position[int(lists._oldest[slot])] == min(other for _, other in near[:length])


@settings(max_examples=60, deadline=None)
@given(
    data=st.data(),
    metric=st.sampled_from(METRIC_NAMES),
    capacity=st.integers(1, 24),
    n_features=st.sampled_from((1, 2, 3, 17)),
    k=st.integers(1, 5),
)
def test_graph_equals_search_from_scratch(
    data: st.DataObject, metric: str, capacity: int, n_features: int, k: int
) -> None:
    """Neighbours, keys and all counts after every insert and eviction."""
    graph = NeighborGraph(Window(capacity, n_features, metric), k)
    occurrences = Occurrences(graph, _N_LABELS, k)
    around = NeighborhoodLabels(graph, _N_LABELS, k)
    graph.observe([occurrences, around])
    plain = PlainWindow(capacity, metric)
    for step in data.draw(streams(n_features, _N_LABELS)):
        _apply(graph, plain, step)
        _assert_lists(graph, plain, k, None)
        live = graph.window.live()
        by_label = plain.occurrences(k, _N_LABELS)
        assert occurrences.by_label[live].tolist() == by_label
        assert occurrences.total(live).tolist() == [sum(line) for line in by_label]
        assert occurrences.most() == max(map(sum, by_label), default=0)
        assert occurrences.bad(live).tolist() == [
            sum(line) - line[label] for line, label in zip(by_label, plain.labels, strict=True)
        ]
        assert occurrences.total(live).sum() == len(live) * min(k, max(0, len(live) - 1))
        shares = plain.labels_around(k, _N_LABELS)
        assert around.by_label[live].tolist() == shares
        for label in range(_N_LABELS):
            tally = np.bincount([line[label] for line in shares], minlength=k + 2)
            assert around.histogram[label].tolist() == tally.tolist()


@settings(max_examples=40, deadline=None)
@given(data=st.data(), metric=st.sampled_from(METRIC_NAMES), capacity=st.integers(1, 20))
def test_graph_by_class_equals_search_from_scratch(
    data: st.DataObject, metric: str, capacity: int
) -> None:
    """The nearest of each class, for members and strangers of the class alike."""
    k = 2
    graph = NeighborGraph(Window(capacity, 2, metric), k, n_classes=_N_LABELS)
    plain = PlainWindow(capacity, metric)
    for step in data.draw(streams(2, _N_LABELS)):
        _apply(graph, plain, step)
        for label in range(_N_LABELS):
            _assert_lists(graph, plain, k, label)


@settings(max_examples=60, deadline=None)
@given(
    data=st.data(),
    metric=st.sampled_from(METRIC_NAMES),
    n_features=st.sampled_from((1, 3, 40)),
    count=st.integers(1, 9),
)
def test_find_equals_search_from_scratch(
    data: st.DataObject, metric: str, n_features: int, count: int
) -> None:
    """What a query finds, with and without those that tie with the last."""
    graph = NeighborGraph(Window(15, n_features, metric), 1)
    plain = PlainWindow(15, metric)
    for step in data.draw(streams(n_features, 1)):
        _apply(graph, plain, step)
        query = plain.rows[-1] + np.float32(0.5) if plain.rows else np.zeros(n_features, "f4")
        ranked = plain.ranked(query)
        slots, keys = find(graph.window, query, count)
        assert keys.tolist() == [distance for distance, _ in ranked[:count]]
        ages = (graph.window.seqs(slots) - graph.window.first).tolist()
        assert ages == [position for _, position in ranked[:count]]
        tied = find(graph.window, query, count, ties=True)
        last = ranked[:count][-1][0] if ranked else 0.0
        assert tied.keys.tolist() == [distance for distance, _ in ranked if distance <= last]


@settings(max_examples=60, deadline=None)
@given(
    data=st.data(),
    metric=st.sampled_from(METRIC_NAMES),
    capacity=st.integers(1, 20),
    n_features=st.sampled_from((1, 3, 40)),
    count=st.integers(1, 9),
)
def test_who_is_near_is_found_in_the_pass_of_an_insertion(
    data: st.DataObject, metric: str, capacity: int, n_features: int, count: int
) -> None:
    """What is asked together with an insertion is what would be asked after it, ties and all."""
    graph = NeighborGraph(Window(capacity, n_features, metric), 2)
    plain = PlainWindow(capacity, metric)
    for step in data.draw(streams(n_features, 1)):
        if isinstance(step, int) or len(step[0]) > 1 or not len(graph):
            _apply(graph, plain, step)
            continue
        query = step[0][0] + np.float32(data.draw(st.sampled_from((0, 0.5))))
        rows = np.stack((step[0][0], query))
        wanted = Wanted(count, data.draw(st.booleans()))
        found = graph.insert_and_find(rows, step[1], graph.window.propose(rows), wanted)
        plain.insert(*step)
        _assert_lists(graph, plain, 2, None)
        after = find(graph.window, query, wanted.most, ties=wanted.ties)
        assert (found.slots.tolist(), found.keys.tolist()) == (
            after.slots.tolist(),
            after.keys.tolist(),
        )


def test_random_rows_run_lists_dry_and_stay_exact() -> None:
    """A long stream of distinct rows, so that lists shrink and are searched anew."""
    rng = np.random.default_rng(5)
    graph = NeighborGraph(Window(60, 3), 4)
    plain = PlainWindow(60)
    for step in range(500):
        rows = rng.normal(size=(1 + step % 2, 3)).astype(np.float32)
        _apply(graph, plain, (rows, np.zeros(len(rows), np.int64)))
        if step % 25 == 0:
            _assert_lists(graph, plain, 4, None)


def test_a_batch_equals_one_at_a_time_and_a_fresh_build() -> None:
    """How examples came does not matter: chunks, single inserts and a rebuild agree."""
    rng = np.random.default_rng(6)
    rows = rng.integers(0, 5, size=(90, 2)).astype(np.float32)
    labels = rng.integers(0, 2, size=90)
    lists = []
    for size in (1, 7, 64, 90):
        graph = NeighborGraph(Window(50, 2), 5)
        for start in range(0, 90, size):
            graph.insert(rows[start : start + size], labels[start : start + size])
        live = graph.window.live()
        assert live.tolist() == [s % 50 for s in range(40, 90)]
        lists.append((graph.neighbors(live).tolist(), graph.keys(live).tolist()))
    assert all(each == lists[0] for each in lists)


def test_more_than_a_window_at_once_keeps_the_last() -> None:
    """A batch longer than the window leaves its last rows, and says where they lie."""
    graph = NeighborGraph(Window(4, 1), 2)
    slots = graph.insert(np.arange(11, dtype=np.float32)[:, np.newaxis], np.zeros(11, np.int64))
    assert graph.window.rows[slots, 0].tolist() == [7.0, 8.0, 9.0, 10.0]


def test_all_points_equal() -> None:
    """Equal examples are each other's neighbours, the oldest first, however many there are."""
    graph = NeighborGraph(Window(40, 2), 3)
    for _ in range(70):
        graph.insert(np.ones((1, 2), np.float32), np.array([0]))
    live = graph.window.live()
    near = graph.window.seqs(graph.neighbors(live).ravel()).reshape(-1, 3) - graph.window.first
    assert near[0].tolist() == [1, 2, 3]
    assert near[2].tolist() == [0, 1, 3]
    assert (near[3:] == [0, 1, 2]).all()
    assert not graph.keys(live).any()


@pytest.mark.parametrize(("window", "k"), [(0, 1), (1, 0), (2.0, 1), (1, True)])
def test_bad_sizes_are_refused(window: int, k: int) -> None:
    """A window or k that is no positive integer is named."""
    with pytest.raises(ParameterError, match=r"window|k: expected an integer"):
        NeighborGraph(Window(window, 1), k)


@pytest.mark.parametrize("n_classes", [-1, 2.0, True])
def test_classes_are_counted_in_whole_numbers(n_classes: Any) -> None:
    """Minus one would mean a graph over all."""
    with pytest.raises(ParameterError, match="n_classes: expected an integer of at least 0"):
        NeighborGraph(Window(3, 1), 1, n_classes=n_classes)


def test_what_would_take_all_memory_is_refused() -> None:
    """Windows and lists of gigabytes are a wrong option, not a crash."""
    with pytest.raises(ParameterError, match=r"n_features: expected .* at most 1,048,576"):
        Window(2, 2**20 + 1)
    with pytest.raises(ParameterError, match="window: expected at most 250000 for 1000 features"):
        Window(10**12, 1000)
    with pytest.raises(ParameterError, match="k: expected neighbour lists"):
        NeighborGraph(Window(1000, 2), 10**7)
    with pytest.raises(ParameterError, match="k: expected an integer of at most 12,500,000"):
        NeighborGraph(Window(1000, 2), 10**400)


@pytest.mark.parametrize("metric", METRIC_NAMES)
@pytest.mark.parametrize("value", [3e38, 1.01e6, -np.inf, np.nan, 1e-38])
def test_rows_that_the_search_cannot_bound_are_refused(metric: str, value: float) -> None:
    """A feature whose products float32 cannot hold is named, and nothing is taken in."""
    fed = Window(3, 2, metric)
    graph = NeighborGraph(Window(3, 2, metric), 1)
    rows = np.array([[1.0, 0.0], [0.5, value]], np.float32)
    for take in (fed.push, graph.insert):
        with pytest.raises(InputError, match=r"rows\[1, 1\]: expected 0 or a size in"):
            take(rows, np.zeros(2, np.int32))
    assert len(fed) == len(graph) == 0


def test_rows_of_another_shape_or_type_are_refused() -> None:
    """Float64 rows, or rows of another length, are named instead of being rounded or broadcast."""
    graph = NeighborGraph(Window(3, 2), 1)
    wrong: list[Any] = [np.zeros((1, 2)), np.zeros((1, 1), np.float32), np.zeros(2, np.float32)]
    wrong.append([[0.0, 0.0]])
    for rows in wrong:
        with pytest.raises(InputError, match=r"rows: expected a float32 array \(n, 2\)"):
            graph.insert(rows, np.zeros(1, np.int32))


@pytest.mark.parametrize("labels", [[0], [0, 2], [0, -1], [0.0, 1.0]])
def test_labels_that_are_none_are_refused(labels: list[float]) -> None:
    """A label that no list is kept for, or one too few, is named, and nothing is taken in."""
    graph = NeighborGraph(Window(3, 1), 1, n_classes=2)
    with pytest.raises(InputError, match="labels: expected"):
        graph.insert(np.zeros((2, 1), np.float32), np.array(labels))
    assert len(graph) == 0


def test_a_graph_begins_with_its_window() -> None:
    """Examples that came before it, or before a counter, would be missing without a word."""
    window = Window(3, 1)
    graph = NeighborGraph(window, 1)
    occurrences = Occurrences(graph, 2, 1)
    graph.insert(np.zeros((1, 1), np.float32), np.array([0]))
    with pytest.raises(ParameterError, match="window: expected an empty one, got '1 examples'"):
        NeighborGraph(window, 1)
    with pytest.raises(InputError, match="observers: expected to come while the window is empty"):
        graph.observe([occurrences])


def test_counts_are_of_no_more_neighbours_than_are_kept() -> None:
    """Beyond k a list goes on, but not always as far as it should."""
    graph = NeighborGraph(Window(9, 1), 3)
    for counter in (Occurrences, NeighborhoodLabels):
        with pytest.raises(ParameterError, match="k: expected an integer of at most 3, got 4"):
            counter(graph, 2, 4)


@pytest.mark.parametrize("count", [-1, 1.0, True])
def test_evictions_are_counted_in_whole_examples(count: Any) -> None:
    """Minus one would bring back who has left."""
    graph = NeighborGraph(Window(2, 1), 1)
    graph.insert(np.arange(3.0, dtype=np.float32)[:, np.newaxis], np.zeros(3, np.int64))
    with pytest.raises(InputError, match="count: expected an integer of at least 0"):
        graph.evict(count)
    assert (graph.window.first, graph.window.next) == (1, 3)


@pytest.mark.parametrize("sizes", [[11], [3, 8], [2, 4, 5]])
def test_a_window_keeps_the_last_however_they_come(sizes: list[int]) -> None:
    """Of more rows than it holds the last ones, in the slots that they would have one by one."""
    rows, labels = np.arange(11, dtype=np.float32)[:, np.newaxis], np.arange(11)
    window, plain, start = Window(4, 1), Window(4, 1), 0
    for size in sizes:
        window.push(rows[start : start + size], labels[start : start + size])
        start += size
    for each in range(start):
        plain.push(rows[each : each + 1], labels[each : each + 1])
    assert (window.first, window.next) == (plain.first, plain.next) == (start - 4, start)
    assert window.rows.tolist() == plain.rows.tolist()
    assert window.labels.tolist() == plain.labels.tolist()


@pytest.mark.parametrize("labels", [[0], [[0, 1]], [0, -1], [0, 2**31], [0.0, 1.0]])
def test_a_window_refuses_labels_that_are_none(labels: list[float]) -> None:
    """One for all rows would be written to each, a negative one read as nobody's place."""
    window = Window(3, 1)
    with pytest.raises(InputError, match="labels: expected"):
        window.push(np.zeros((2, 1), np.float32), np.array(labels))
    assert len(window) == 0


def test_who_is_near_elsewhere_is_found_in_the_pass_of_an_insertion() -> None:
    """Also where the new example is not among them, and more are asked for than a list holds."""
    rng = np.random.default_rng(0)
    graph = NeighborGraph(Window(40, 2), 1)
    graph.insert(rng.normal(size=(40, 2)).astype(np.float32), np.zeros(40, np.int32))
    for _ in range(20):
        rows = rng.normal(size=(2, 2)).astype(np.float32)
        rows[0] += 5
        proposals = graph.window.propose(rows)
        found = graph.insert_and_find(rows, np.zeros(1, np.int32), proposals, Wanted(15))
        assert found.slots.tolist() == find(graph.window, rows[1], 15).slots.tolist()
