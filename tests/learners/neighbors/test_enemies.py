"""The nearest enemies equal a search from scratch after any sequence of changes, exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from learners import create
from learners.neighbors import AKNN
from learners.neighbors.enemies import EnemyGraph
from learners.neighbors.lists import NeighborLists
from learners.neighbors.metrics import METRIC_NAMES, Slots
from learners.neighbors.search import Wanted
from learners.neighbors.window import Window
from tests.reference.neighbors import PlainWindow


def _expected(plain: PlainWindow) -> tuple[list[int], list[float]]:
    """Return place and key of each example's nearest enemy; as many places as examples for none."""
    places, keys = [], []
    for position, (row, label) in enumerate(zip(plain.rows, plain.labels, strict=True)):
        enemies = [each for each in plain.ranked(row, position) if plain.labels[each[1]] != label]
        key, place = enemies[0] if enemies else (np.inf, len(plain.rows))
        places.append(place)
        keys.append(key)
    return places, keys


@pytest.mark.parametrize("metric", METRIC_NAMES)
def test_enemies_equal_a_search_from_scratch(metric: str) -> None:
    """Through inserts, evictions, ties and equal rows of two labels, in full windows and others."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        capacity = int(rng.integers(1, 13))
        graph, plain = EnemyGraph(Window(capacity, 2, metric)), PlainWindow(capacity, metric)
        for change in rng.integers(-3, 6, size=16).tolist():
            if change < 0:
                graph.evict(-change)
                plain.evict(-change)
            else:
                rows = rng.integers(0, 3, size=(change, 2)).astype(np.float32)
                labels = rng.integers(0, 3, size=change)
                if change == 1 and len(graph):
                    # Together with a question, which is about all and not about enemies.
                    both = np.vstack((rows, rows))
                    proposals = graph.window.propose(both)
                    near = graph.insert_and_find(both, labels, proposals, Wanted(1))
                    assert near.keys.tolist() == [0.0]
                else:
                    graph.insert(rows, labels)
                plain.insert(rows, labels)
            live = graph.window.live()
            places = np.full(capacity + 1, len(live))
            places[live] = np.arange(len(live))
            found = places[graph.neighbors(live)[:, 0]].tolist()
            assert (found, graph.keys(live)[:, 0].tolist()) == _expected(plain)


def test_equal_rows_share_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20,000 examples with two values some learns took 2.6 s: nearly all lists ran dry."""
    rng, asked = np.random.default_rng(1), []
    near = NeighborLists.near

    def count(lists: NeighborLists, owners: Slots, *args: Any) -> Any:
        asked.append(len(owners))
        return near(lists, owners, *args)

    monkeypatch.setattr(NeighborLists, "near", count)
    learner = AKNN(1, 3, window=200)
    for value, label in zip(rng.integers(0, 2, 600), rng.integers(0, 3, 600), strict=True):
        learner.learn(np.array([float(value)]), int(label))
    # Two values with three labels each.
    assert max(asked) <= 6


@pytest.mark.parametrize("n_labels", [2, 300])
def test_labels_cost_aknn_no_lists(n_labels: int) -> None:
    """However many labels there are, each example has one list, also where one is added."""
    learner = create("aknn", 1, n_labels, window=8)
    assert isinstance(learner, AKNN)
    assert learner.add_label() == n_labels
    assert len(learner._enemies._pools) == 1
    learner.learn_many(np.array([[0.0], [3.0], [4.5]]), np.array([0, n_labels, 1]))
    assert learner.radii().tolist() == [3.0, 1.5, 1.5]
