"""An alarm for attacks on hubs, whose labels then look wrong more often than others'."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from learners.errors import ParameterError, expected
from learners.neighbors.counts import Occurrences
from learners.neighbors.hubness import mean_and_deviation
from learners.neighbors.window import Window
from learners.validation import is_number

#: Probability of a false alarm at one look where none is given: once in a thousand.
DEFAULT_LEVEL = 1e-3


class HubAlarm(NamedTuple):
    """What a look at the labels of often-looked-at examples found.

    Attributes
    ----------
    raised
        Whether chance is unlikely to have done it.
    p_value
        Probability of so many occurrences of the suspected, were they drawn at random.
    n_examples
        Examples in the window.
    n_suspected
        How many of them carry another label than most of their neighbours.
    suspected_occurrences, mean_occurrences
        Mean N_k of the suspected, and of all.
    """

    raised: bool
    p_value: float
    n_examples: int
    n_suspected: int
    suspected_occurrences: float
    mean_occurrences: float


def hub_alarm(window: Window, occurrences: Occurrences, level: float = DEFAULT_LEVEL) -> HubAlarm:
    """Test whether examples whose labels look wrong are looked at more than others.

    Use it now and then on a stream: whoever wants to do the most harm with few wrong labels
    gives them to hubs, the examples that most others look at. Honest noise hits all alike, and
    without an attack the suspected are rather *less* central than the others. It says nothing
    about attacks on random examples.

    An example is suspected if its label is not among the winners of its k nearest others. Were
    the m suspected of n drawn at random, their total of N_k would have mean ``m mean(N)`` and
    variance ``m (n - m) / (n - 1) var(N)``; the p-value is the normal tail beyond what it is.

    Parameters
    ----------
    window
        The examples.
    occurrences
        What is counted over their graph.
    level
        p-value below which the alarm is raised, in (0, 1); 0.001 by default.

    Raises
    ------
    ParameterError
        If `level` is no such number.

    Examples
    --------
    >>> from learners.neighbors.graph import NeighborGraph
    >>> window = Window(9, n_features=1)
    >>> hub_alarm(window, Occurrences(NeighborGraph(window, k=1), n_labels=2, k=1)).raised
    False
    """
    if not is_number(level) or not 0 < level < 1:
        raise ParameterError(expected("level", "a number in (0, 1)", level))
    live = window.live()
    counts = occurrences.total[live]
    suspected = _suspected(window, occurrences)
    size, marked = len(live), int(suspected.sum())
    mean, deviation = mean_and_deviation(counts)
    total = int(counts[suspected].sum())
    spread = deviation * math.sqrt(marked * (size - marked) / max(1, size - 1))
    p_value = 0.5 * math.erfc((total - marked * mean) / spread / math.sqrt(2)) if spread else 1.0
    return HubAlarm(p_value < level, p_value, size, marked, total / max(1, marked), mean)


def _suspected(window: Window, occurrences: Occurrences) -> NDArray[np.bool_]:
    """Return which examples carry a label that does not win among their k nearest others."""
    live = window.live()
    members = occurrences.graph.neighbors(live, occurrences.k)
    around = np.where(members < window.capacity, window.labels[members], -1)
    n_labels = occurrences.by_label.shape[1]
    votes = np.stack([(around == label).sum(axis=1) for label in range(n_labels)], axis=1)
    own = votes[np.arange(len(live)), window.labels[live]]
    suspected: NDArray[np.bool_] = own < votes.max(axis=1, initial=0)
    return suspected
