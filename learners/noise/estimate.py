"""What an estimate of the noise rates is: numbers, how well they are known, and a verdict."""

from __future__ import annotations

from dataclasses import dataclass

from learners.errors import LearnersError
from learners.noise.rates import NoiseRates
from learners.noise.verdict import Doubt
from learners.validation import FloatArray, IntArray


class CancelledError(LearnersError):
    """The estimate was given up at its caller's request."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The rates, for all labels together and for each.

    Attributes
    ----------
    rho_0, rho_1
        Rates common to all labels, each in [0, 1), ``rho_0 + rho_1 <= 1 - beta_min``.
    rho_0_error, rho_1_error
        Their standard errors, above 0.
    label_rho_0, label_rho_1
        Shape (K,): the rates of each label. One that was never shown has the common rates, or the
        labels' mean where they differ.
    label_rho_0_error, label_rho_1_error
        Shape (K,): their standard errors. Where labels do not differ, their rates were drawn
        towards the common ones, whose errors are included to that extent. 12**-.5, that of a number
        of which only [0, 1] is known, for a label that was never shown, and for one whose clicks
        may tell next to nothing; a label that was right whenever it was shown looks like that, too.
    labels_differ
        Whether the labels' rates differ by more than chance explains.
    """

    rho_0: float
    rho_1: float
    rho_0_error: float
    rho_1_error: float
    label_rho_0: FloatArray
    label_rho_1: FloatArray
    label_rho_0_error: FloatArray
    label_rho_1_error: FloatArray
    labels_differ: bool


@dataclass(frozen=True, slots=True)
class NoiseEstimate:
    """The result of one estimate.

    Attributes
    ----------
    rule
        The reading rule.
    examples
        Rounds that were used, all of them held out once.
    shown
        int64 (K,): how often each label was shown.
    reading
        The rates; None where the block was refused before training.
    doubts
        Why the rates should not be used; empty where they can be.
    histogram
        int64 (K, B): for each label, over all instances, how many of the network's q(x, label)
        fall into each of B equal bins of [0, 1].
    epochs
        Epochs trained, the sum over the folds.
    loss
        Mean held-out negative log likelihood of a round, nats; 0 where nothing was trained.
    """

    rule: str
    examples: int
    shown: IntArray
    reading: Reading | None
    doubts: tuple[Doubt, ...]
    histogram: IntArray
    epochs: int
    loss: float

    @property
    def trusted(self) -> bool:
        """Whether there are rates and no doubt about them."""
        return self.reading is not None and not self.doubts

    @property
    def verdict(self) -> str:
        """The doubts in words, or "trusted"."""
        return "; ".join(doubt.text for doubt in self.doubts) or "trusted"

    @property
    def rates(self) -> NoiseRates | None:
        """The common rates, where they can be trusted."""
        if self.reading is None or self.doubts:
            return None
        return NoiseRates(self.reading.rho_0, self.reading.rho_1)
