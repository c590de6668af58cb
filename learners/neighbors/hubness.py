"""How unevenly neighbours are shared out: hubs that many look at, orphans that nobody does."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from learners.neighbors.counts import Counts, Occurrences
from learners.neighbors.window import Seqs, Window

#: A hub occurs more often than the mean by more than this many standard deviations.
_HUB_SIGMAS = 2.0


class HubnessReport(NamedTuple):
    """The k-occurrences of a window, summed up.

    Attributes
    ----------
    k
        Neighbours counted.
    n_examples
        Examples in the window.
    skewness
        Third standardised moment of N_k (population form); 0 if all are alike.
    threshold
        N_k above which an example is a hub: ``mean + 2 sigma``.
    hubs
        Seqs of the hubs, those with the most occurrences first.
    occurrences
        N_k of each hub.
    bad_occurrences
        BN_k of each hub: how many of those that look at it carry another label.
    bad_hubs
        Seqs of the hubs for which that is more than half.
    n_orphans
        Examples that are nobody's neighbour.
    bad_share
        Share of all occurrences between different labels, in [0, 1].
    """

    k: int
    n_examples: int
    skewness: float
    threshold: float
    hubs: Seqs
    occurrences: Counts
    bad_occurrences: Counts
    bad_hubs: Seqs
    n_orphans: int
    bad_share: float


def hubness_report(window: Window, occurrences: Occurrences) -> HubnessReport:
    """Sum up the k-occurrences of a window.

    Parameters
    ----------
    window
        The examples.
    occurrences
        What is counted over their graph.

    References
    ----------
    .. [1] Tomasev and Buza, *Hubness-aware kNN classification of high-dimensional data in
       presence of label noise*, 2015, eq. 1.

    Examples
    --------
    >>> from learners.neighbors.graph import NeighborGraph
    >>> window = Window(9, n_features=1)
    >>> graph = NeighborGraph(window, k=1)
    >>> occurrences = Occurrences(graph, n_labels=1, k=1)
    >>> graph.observe([occurrences])
    >>> rows = np.array([[0.0], [1.0], [1.9], [-1.5]], np.float32)
    >>> slots = graph.insert(rows, np.zeros(4, np.int64))
    >>> report = hubness_report(window, occurrences)
    >>> report.n_orphans, round(report.skewness, 3)
    (1, 0.0)
    """
    live = window.live()
    counts = occurrences.total[live]
    mean, deviation = mean_and_deviation(counts)
    threshold = mean + _HUB_SIGMAS * deviation
    order = np.argsort(-counts, kind="stable")
    hubs = live[order[counts[order] > threshold]]
    bad = occurrences.bad(hubs)
    total = int(counts.sum())
    return HubnessReport(
        k=occurrences.k,
        n_examples=len(live),
        skewness=skewness(counts),
        threshold=threshold,
        hubs=window.seqs(hubs),
        occurrences=occurrences.total[hubs],
        bad_occurrences=bad,
        bad_hubs=window.seqs(hubs[2 * bad > occurrences.total[hubs]]),
        n_orphans=int(np.count_nonzero(counts == 0)),
        bad_share=int(occurrences.bad(live).sum()) / total if total else 0.0,
    )


def mean_and_deviation(counts: NDArray[np.int64]) -> tuple[float, float]:
    """Return mean and population standard deviation of counts, from exact integer sums.

    Examples
    --------
    >>> mean_and_deviation(np.array([1, 1, 4, 4]))
    (2.5, 1.5)
    """
    size = len(counts)
    if not size:
        return 0.0, 0.0
    total, squares = int(counts.sum()), int((counts * counts).sum())
    return total / size, math.sqrt(size * squares - total * total) / size


def skewness(counts: NDArray[np.int64]) -> float:
    """Return the third standardised moment of counts (population form), 0 if all are alike.

    Examples
    --------
    >>> round(skewness(np.array([0, 0, 0, 4])), 9)
    1.154700538
    """
    size = len(counts)
    # Deviations from the mean, times the number of counts: whole numbers, so exactly summed.
    total = int(counts.sum())
    gaps = [size * count - total for count in counts.tolist()]
    second = sum(gap**2 for gap in gaps)
    third = sum(gap**3 for gap in gaps)
    return third / second * math.sqrt(size / second) if second else 0.0
