"""How unevenly neighbours are shared out: hubs that many look at, orphans that nobody does."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from learners.neighbors.neighborhoods import Counts, Neighborhoods
from learners.neighbors.window import Labels, Seqs

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
    labels
        Their labels, as given.
    occurrences
        N_k of each hub.
    bad_occurrences
        BN_k of each hub: how many of those that look at it carry another label.
    bad
        Of each hub, whether those are more than half of its occurrences.
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
    labels: Labels
    occurrences: Counts
    bad_occurrences: Counts
    bad: NDArray[np.bool_]
    n_orphans: int
    bad_share: float


def hubness_report(near: Neighborhoods) -> HubnessReport:
    """Sum up how often each example is among the k nearest of others.

    Parameters
    ----------
    near
        The neighbourhoods of a window.

    References
    ----------
    .. [1] Tomasev and Buza, *Hubness-aware kNN classification of high-dimensional data in
       presence of label noise*, 2015, eq. 1.

    Examples
    --------
    >>> near = Neighborhoods(7, np.zeros(4, np.int32), np.array([[1], [2], [1], [0]], np.int32))
    >>> report = hubness_report(near)
    >>> report.n_orphans, report.skewness
    (1, 0.0)
    """
    counts, bad_counts = near.occurrences(), near.bad_occurrences()
    mean, deviation = mean_and_deviation(counts)
    threshold = mean + _HUB_SIGMAS * deviation
    order = np.argsort(-counts, kind="stable")
    hubs = order[counts[order] > threshold]
    total = int(counts.sum())
    return HubnessReport(
        k=near.members.shape[1],
        n_examples=len(counts),
        skewness=skewness(counts),
        threshold=threshold,
        hubs=near.first + hubs.astype(np.int64),
        labels=near.labels[hubs],
        occurrences=counts[hubs],
        bad_occurrences=bad_counts[hubs],
        bad=2 * bad_counts[hubs] > counts[hubs],
        n_orphans=int(np.count_nonzero(counts == 0)),
        bad_share=int(bad_counts.sum()) / total if total else 0.0,
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
    values, times = np.unique(counts, return_counts=True)
    gaps = [
        (size * value - total, n) for value, n in zip(values.tolist(), times.tolist(), strict=True)
    ]
    second = sum(n * gap**2 for gap, n in gaps)
    third = sum(n * gap**3 for gap, n in gaps)
    return third / second * math.sqrt(size / second) if second else 0.0
