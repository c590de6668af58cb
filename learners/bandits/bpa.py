"""BPA: the bandit passive-aggressive learner, in its three variants."""

from __future__ import annotations

from typing import ClassVar

from learners.bandits.banditron import DEFAULT_GAMMA
from learners.bandits.linear import MIN_SQUARED_NORM, LinearLearner, sum_product
from learners.base import Outcome
from learners.validation import check_choice, check_number


class BPA(LinearLearner):
    """Learns from clicks by making the shown label's score agree with the bit, and no more.

    Use it on feedback with little noise and where rounds are few: it corrects at once, by as
    much as the round asks for, and needs no learning rate. It takes every bit as true; "I" and "II"
    soften each step and so tolerate some noise. Under much noise use `RCNBF`. O(K d) a decision,
    O(d) an update: only the row of the shown label moves.

    Update, [1]_, with s = 2 f - 1 and the loss l = max(0, 1 - s w . x) of the shown label's
    row w; the variants are those of [2]_::

        w <- w + s tau x,   tau = l / |x|^2                     "hard"
                            tau = min(C, l / |x|^2)             "I"
                            tau = l / (|x|^2 + 1 / (2 C))       "II"

    A round moves w by at most (1 + |w . x|) / |x|, and raises |w|^2 by at most 1 / |x|^2; "I"
    moves it by at most C |x|. An instance with |x|^2 < 1e-12 changes nothing.

    Parameters
    ----------
    n_features
        Length d of an instance, at least 1.
    n_labels
        Number K of labels, at least 1.
    gamma
        Share of rounds that explore uniformly, in [0, 1]; 0.03 by default.
    variant
        "hard" (default), "I" or "II".
    aggressiveness
        C of the variants "I" and "II", in [1e-6, 1e6]; 1 by default. Smaller is softer.

    Raises
    ------
    ParameterError
        If a parameter is of the wrong type or out of range.

    References
    ----------
    .. [1] Zhong and Dauce, *Passive-aggressive bounds in bandit feedback classification*, 2015.
    .. [2] Crammer et al., *Online passive-aggressive algorithms*, JMLR 2006.

    Examples
    --------
    >>> from learners.base import Outcome
    >>> import numpy as np
    >>> learner = BPA(n_features=2, n_labels=2)
    >>> x = np.array([1.0, 1.0])
    >>> learner.update(Outcome(x, label=1, greedy=0, propensity=0.015, feedback=1))
    >>> learner.weights.tolist()
    [[0.0, 0.0], [0.5, 0.5]]
    """

    kind: ClassVar[str] = "bpa"

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        *,
        gamma: float = DEFAULT_GAMMA,
        variant: str = "hard",
        aggressiveness: float = 1.0,
    ) -> None:
        super().__init__(n_features, n_labels, gamma=gamma)
        self.variant = check_choice("variant", variant, ("hard", "I", "II"))
        self.aggressiveness = check_number("aggressiveness", aggressiveness, 1e-6, 1e6)

    def update(self, outcome: Outcome) -> None:
        """Learn from one finished round.

        Raises
        ------
        InputError
            If a part of `outcome` is not what `Outcome` says.
        """
        self._check_outcome(outcome)
        x, label = outcome.x, outcome.label
        squared_norm = sum_product(x, x)
        if squared_norm < MIN_SQUARED_NORM:
            return
        sign = 1.0 if outcome.feedback else -1.0
        loss = 1.0 - sign * sum_product(self._weights[label], x)
        if loss > 0.0:
            self._add_to_row(label, sign * self._step(loss, squared_norm), x)

    def _step(self, loss: float, squared_norm: float) -> float:
        if self.variant == "hard":
            return loss / squared_norm
        if self.variant == "I":
            return min(self.aggressiveness, loss / squared_norm)
        return loss / (squared_norm + 1.0 / (2.0 * self.aggressiveness))
