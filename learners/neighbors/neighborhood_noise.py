"""Label noise read off the neighbourhoods of a window, and the vote corrected by it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from learners.neighbors.counts import NeighborhoodLabels
from learners.neighbors.metrics import Slots
from learners.neighbors.transition import corrected, usable_inverse
from learners.neighbors.window import Window, wrapped
from learners.noise.rates import NoiseRates
from learners.validation import FloatArray

#: Most labels whose matrix is inverted: for so many it takes some 15 ms after each example, growing
#: with their cube. Beyond it anchors are too few to be trusted anyway.
MAX_INVERTED = 200
#: Size of neighbourhoods from which on a label must have more than half by more than a standard
#: deviation: the best of a thousand has more than half by chance alone. (With two deviations,
#: streams with drift are up to .05 worse: half of a label's votes may be wrong.)
LEAST_SIZE = 20


class WindowNoise(NamedTuple):
    """What the neighbourhoods of a window tell of the noise in its labels.

    Attributes
    ----------
    k_noise
        k', the neighbours looked at besides each example itself.
    rates
        Of two labels; None for more, and where one of the two prevails nowhere.
    labels
        Codes of the labels in the window.
    transition
        P(told j | is i) between these labels, row by row.
    """

    k_noise: int
    rates: NoiseRates | None
    labels: list[int]
    transition: FloatArray


class NeighborhoodNoise:
    """Noise rates for two labels, a transition matrix for more; exact at each moment.

    Parameters
    ----------
    window
        The examples.
    around
        The label counts around each of them, in itself and its k' nearest.
    quantile
        Share of the examples that each estimate leaves beyond it, in [0, 0.5): 0 takes the
        extremes.

    References
    ----------
    .. [1] Gao, Niu and Zhou, 2016, eq. 5, with its orientation put right.
    """

    def __init__(self, window: Window, around: NeighborhoodLabels, quantile: float) -> None:
        self.around = around
        self._window = window
        self._quantile = quantile
        self._cached: tuple[tuple[int, int], list[int], FloatArray | None] | None = None

    @property
    def n_labels(self) -> int:
        """Number K of labels."""
        return len(self.around.histogram)

    def reading(self) -> WindowNoise:
        """Return all that is estimated now."""
        rates = self.rates() if self.n_labels == 2 else None
        return WindowNoise(self.around.k, rates, *self.transition())

    def rates(self) -> NoiseRates | None:
        """Return the rates of two labels, or None where one of them prevails nowhere for certain.

        A rare label looks like one that is mostly mislabelled. If it were taken for that, with 10
        of 50 around its best example a tenth of the votes would suffice for it.
        """
        low, high = self.extremes(1)
        size = self.around.size
        certain = prevails(low, high, size)
        return NoiseRates(low / size, (size - high) / size) if certain else None

    def transition(self) -> tuple[list[int], FloatArray]:
        """Return the labels in the window, and P(told j | is i) between them.

        Row i holds the shares around the example that is the anchor of label i: the oldest of
        those with the high count.
        """
        present = self._present()
        if not len(present):
            return [], np.zeros((0, 0))
        counts = self.around.by_label.take(self._anchors(present), axis=0).take(present, axis=1)
        return present.tolist(), counts / self.around.size

    def inverse(self) -> tuple[list[int], FloatArray | None]:
        """Return the labels in the window and the inverse of their matrix, if it is usable."""
        version = (self._window.first, self._window.next)
        if self._cached is None or self._cached[0] != version:
            present = self._present().tolist()
            # For too many labels the matrix is not even made: it would take longer than the rest.
            few = len(present) <= MAX_INVERTED
            # Leads beyond chance, as of two labels, are not asked for: rare labels would gain, but
            # evenly spread ones of which .4 are told as the next be decided up to .07 worse.
            inverted = usable_inverse(self.transition()[1]) if few else None
            self._cached = (version, present, inverted)
        return self._cached[1:]

    def extremes(self, label: int) -> tuple[int, int]:
        """Return the low and the high count of a label around examples, past the quantile."""
        size = len(self._window)
        if not size:
            return 0, 0
        tally = self.around.histogram[label]
        skipped = int(self._quantile * size)
        if not skipped:
            occurring = tally.nonzero()[0]
            return int(occurring[0]), int(occurring[-1])
        low = int((np.add.accumulate(tally) > skipped).argmax())
        high = len(tally) - 1 - int((np.add.accumulate(tally[::-1]) > skipped).argmax())
        return low, high

    def scores(self, counts: FloatArray) -> FloatArray:
        """Return the scores of labels that got these counts among the voters, (K,).

        With two labels, in all or in the window, they are whole numbers, so that a share exactly on
        the threshold is seen as such.
        """
        n_voters = int(np.add.reduce(counts))
        if not n_voters or self.n_labels == 1:
            return counts
        present, inverted = ([0, 1], None) if self.n_labels == 2 else self.inverse()
        scores = np.full(self.n_labels, -np.inf)
        if len(present) == 2:
            lower, upper = present
            low, high = self.extremes(upper)
            size = self.around.size
            scale, middle = (2 * size, low + high) if prevails(low, high, size) else (2, 1)
            lead = float(scale * int(counts[upper]) - n_voters * middle)
            scores[lower], scores[upper] = -lead, lead
            return scores
        if inverted is None:
            return counts
        scores[present] = corrected(counts[present] / n_voters, inverted)
        return scores

    # -- inside ---------------------------------------------------------------------------
    def _anchors(self, labels: NDArray[np.intp]) -> Slots:
        """Return the slots of the anchors of some labels."""
        window, by_label = self._window, self.around.by_label
        size, start = len(window), window.first % window.capacity
        highs = np.full((self.n_labels, 1), -1)
        highs[labels, 0] = self._highs(labels)
        # A line for each label, oldest first: the first hit in it is found at once.
        early = wrapped(window.first, size, window.capacity)
        hits = np.empty((self.n_labels, size), dtype=np.bool_)
        np.equal(by_label[start : start + size - early].T, highs, out=hits[:, : size - early])
        np.equal(by_label[:early].T, highs, out=hits[:, size - early :])
        ages = hits.argmax(axis=1)[labels]
        anchors: Slots = (ages + start) % window.capacity
        return anchors

    def _present(self) -> NDArray[np.intp]:
        """Return the labels in the window, ascending."""
        return np.flatnonzero(self._window.label_counts(self.n_labels))

    def _highs(self, labels: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the high counts of some labels: what `extremes` returns of each."""
        from_above = np.add.accumulate(self.around.histogram[labels, ::-1], axis=1)
        skipped = int(self._quantile * len(self._window))
        highs: NDArray[np.intp] = self.around.k + 1 - (from_above > skipped).argmax(axis=1)
        return highs


def prevails(low: int, high: int, size: int) -> bool:
    """Say whether each of two labels has more than half somewhere, and not by chance.

    `low` and `high` are the least and the most votes of one of them in neighbourhoods of `size`.
    """
    leads = size - 2 * low, 2 * high - size
    chance = size if size >= LEAST_SIZE else 0
    return all(lead > 0 and lead * lead > chance for lead in leads)
