"""Shared by all learners that keep the last examples and look for neighbours among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from learners.base import Learner
from learners.errors import ParameterError, StateError, UnsupportedError, expected
from learners.neighbors.alarm import WATCHED_K, HubAlarm, HubWatch, hub_alarm
from learners.neighbors.graph import NeighborGraph, Observer
from learners.neighbors.hubness import HubnessReport, hubness_report
from learners.neighbors.metrics import Proposals, Rows
from learners.neighbors.neighborhoods import Neighborhoods, neighborhoods
from learners.neighbors.saved import saved_first, saved_rows
from learners.neighbors.window import Window, to_rows, wrapped
from learners.states import State, StateValue, state_integers, state_value
from learners.validation import (
    FloatArray,
    check_codes,
    check_count,
    check_instance,
    check_instances,
)

#: Most examples times labels, 50 MB: the labels around each example are counted one by one.
MAX_LABEL_COUNTS = 6_250_000


class Counter(Observer, Protocol):
    """An observer with an entry per label."""

    def add_labels(self, count: int) -> None:
        """Make room for `count` more labels."""


class WindowKeeper(Learner):
    """Keeps the last examples, and what is counted over them; it does not decide.

    Features are rounded to float32 as they come; ones below 1e-30 count as 0.

    Parameters
    ----------
    n_features
        Length d of an instance, at least 1.
    n_labels
        Number K of labels, at least 1.
    window
        Most examples held, at least 1; the oldest goes first.
    k
        Neighbours that matter to the learner, at least 1.
    metric
        ``"euclidean"``, ``"manhattan"`` or ``"cosine"``.

    Raises
    ------
    ParameterError
        If a parameter is of the wrong type or out of range.
    """

    takes_feedback: ClassVar[bool] = False
    takes_labels: ClassVar[bool] = True

    def __init__(self, n_features: int, n_labels: int, *, window: int, k: int, metric: str) -> None:
        super().__init__(n_features, n_labels)
        self.window = check_count("window", window)
        self.k = check_count("k", k)
        self._check_label_counts(self.n_labels)
        self._examples = Window(self.window, self.n_features, metric)
        self.metric = metric
        self._graph: NeighborGraph | None = None
        self._counters: list[Counter] = []
        self._hub_watch = HubWatch(self.window)

    def __len__(self) -> int:
        """Return how many examples the window holds."""
        return len(self._examples)

    # -- hubs -----------------------------------------------------------------------------
    @property
    def keeps_graph(self) -> bool:
        """Whether a neighbour graph is kept, over which occurrences can be counted."""
        return self._graph is not None

    def neighborhoods(self, k: int | None = None) -> Neighborhoods:
        """Return a copy of who is near whom now, by the first k of each.

        Parameters
        ----------
        k
            At most as many as the learner keeps for each example; by default the learner's k,
            as far as they are kept.

        Raises
        ------
        ParameterError
            If `k` is no integer of at least 1.
        UnsupportedError
            If the learner keeps no graph.
        """
        if self._graph is None:
            raise UnsupportedError(f"{self.kind} keeps no graph of neighbours")
        chosen = self.k if k is None else check_count("k", k)
        return neighborhoods(self._graph, min(self._graph.k, chosen))

    def hubness(self) -> HubnessReport:
        """Return how unevenly the window's neighbours are shared out, and who the hubs are.

        Raises
        ------
        UnsupportedError
            If the learner keeps no graph.
        """
        return hubness_report(self.neighborhoods())

    def alarm(self) -> HubAlarm:
        """Return whether labels of hubs now look wrong more often than by chance.

        Raises
        ------
        UnsupportedError
            If the learner keeps no graph.
        """
        return hub_alarm(self.neighborhoods(min(self.k, WATCHED_K)))

    @property
    def hub_watch(self) -> HubWatch:
        """The alarm as it went on and off while examples came; for reading."""
        return self._hub_watch

    # -- learning -------------------------------------------------------------------------
    def learn(self, x: FloatArray, label: int) -> None:
        """Take an instance and its (possibly noisy) label into the window.

        Parameters
        ----------
        x
            The instance, float64 of shape (d,), each |x_i| at most 1e6.
        label
            Its label's code.

        Raises
        ------
        InputError
            If `x` or `label` is not such a value.
        """
        check_instance(x, self.n_features)
        self._check_label(label)
        self._take(to_rows(x)[np.newaxis], np.array([label], dtype=np.int32))

    def learn_many(self, xs: FloatArray, labels: NDArray[np.integer]) -> None:
        """Learn examples in order; the result is that of `learn` on each, at less cost.

        Parameters
        ----------
        xs
            Instances, float64 of shape (n, d).
        labels
            Their labels' codes, integers of shape (n,).

        Raises
        ------
        InputError
            If an instance or label is not valid; then nothing is learned.
        """
        check_instances(xs, self.n_features)
        check_codes("labels", labels, self.n_labels, size=len(xs))
        self._take(to_rows(xs), labels)

    # -- labels ---------------------------------------------------------------------------
    def _grow(self, count: int) -> None:
        self._check_label_counts(self.n_labels + count)
        for counter in self._counters:
            counter.add_labels(count)

    # -- state ----------------------------------------------------------------------------
    def state(self) -> State:
        """Return the options and the window in the order of its ring; arrays are copies.

        The graph is not in it: it follows from the window, and is built anew.
        """
        ring = np.sort(self._examples.live())
        return {
            **self._options(),
            "first": self._examples.first,
            "rows": self._examples.rows[ring],
            "labels": self._examples.labels[ring],
            "hub_watch": self._hub_watch.state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, StateValue]) -> Self:
        """Rebuild the learner: what it then does is bit for bit what the saved one would do."""
        self = cls._from_options(state)
        first = saved_first(state)
        rows = saved_rows(state, self.n_features)
        if len(rows) > self.window:
            raise StateError(expected("state's rows", f"at most {self.window}", len(rows)))
        labels = state_integers(state, "labels", np.int32, len(rows), self.n_labels)
        self._examples.first = self._examples.next = first
        newest_first = wrapped(first, len(rows), self.window)
        self._insert(np.roll(rows, -newest_first, axis=0), np.roll(labels, -newest_first))
        self._hub_watch.restore(state_value(state, "hub_watch"))
        return self

    # -- for subclasses -------------------------------------------------------------------
    def _follow(self, graph: NeighborGraph, *counters: Counter) -> None:
        """Keep this graph, over the learner's window, and let the counters follow it."""
        self._graph = graph
        self._counters = list(counters)
        graph.observe(counters)

    # -- inside ---------------------------------------------------------------------------
    def _check_label_counts(self, n_labels: int) -> None:
        if self.window * n_labels > MAX_LABEL_COUNTS:
            what = f"at most {MAX_LABEL_COUNTS // n_labels} for {n_labels} labels"
            raise ParameterError(expected("window", what, self.window))

    def _take(
        self, rows: Rows, labels: NDArray[np.integer], proposals: Proposals | None = None
    ) -> None:
        """Insert examples, and look at the hubs whenever it is time for that.

        `proposals` are the window's for a row that comes alone, where they are known; they are
        overwritten.
        """
        if self._graph is None:
            self._insert(rows, labels)
            return
        every = self._hub_watch.every
        start = 0
        while start < len(rows):
            stop = start + every - self._examples.next % every
            self._graph.insert_sound(rows[start:stop], labels[start:stop], proposals=proposals)
            start = stop
            self._watch_hubs()

    def _foresee(self, row: Rows, label: int, proposals: Proposals) -> None:
        """Look at an example before it is taken; the window's proposals begin with its own."""

    def _watch_hubs(self) -> None:
        """Look at the hubs if it is time for that."""
        if self._examples.next % self._hub_watch.every == 0:
            self._hub_watch.look(self.neighborhoods(min(self.k, WATCHED_K)))

    def _insert(self, rows: Rows, labels: NDArray[np.integer]) -> None:
        if self._graph is None:
            self._examples.push_sound(rows, labels)
        else:
            self._graph.insert_sound(rows, labels)
