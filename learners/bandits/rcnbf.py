"""RCNBF: the Banditron corrected for flipped feedback whose rates are known."""

from __future__ import annotations

from typing import ClassVar

from learners.bandits.banditron import DEFAULT_GAMMA, Banditron
from learners.noise.rates import NoiseRates


class RCNBF(Banditron):
    """Learns the true labels from flipped clicks, given how often they flip.

    Use it where the noise rates are known or measured. Use `RCINE` where they are to be estimated
    along the way, `Banditron` where there is no noise: with both rates 0 the two are the same, bit
    for bit. O(K d) a decision, O(d) an update.

    Update, [1]_ eq. 4 and 5, with f the observed bit and beta = 1 - rho_0 - rho_1::

        h   = (f - rho_0) / beta
        w_r <- w_r + x (h 1[r = ytilde] / P - 1[r = yhat])

    (The paper's algorithm boxes print yhat in the first indicator; its text, its lemma and its
    code have ytilde.) Over draw and noise the expectation is the perceptron's update, the one
    `learn` makes from a full label. One round moves a weight by at most (max(rho_0,
    1 - rho_0) / (beta max(P, 1e-9)) + 1) |x_i| <= 1.1e21, as beta >= 1e-6.

    Parameters
    ----------
    n_features
        Length d of an instance, at least 1.
    n_labels
        Number K of labels, at least 1.
    rho_0
        P(feedback = 1 | wrong label), the rate of false clicks, in [0, 1).
    rho_1
        P(feedback = 0 | right label), the rate of missed clicks, in [0, 1); rho_0 + rho_1 < 1.
    gamma
        Share of rounds that explore uniformly, in [0, 1]; 0.03 by default, the authors' value
        on USPS. Their theory has it in (0, 0.5).

    Raises
    ------
    ParameterError
        If a parameter is of the wrong type or out of range.

    References
    ----------
    .. [1] Agarwal and Manwani, *Learning multiclass classifier under noisy bandit feedback*,
       2021, algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from learners.base import Outcome
    >>> learner = RCNBF(n_features=2, n_labels=2, rho_0=0.4, rho_1=0.2, gamma=0.5)
    >>> x = np.array([1.0, 0.0])
    >>> learner.update(Outcome(x, label=1, greedy=0, propensity=0.25, feedback=1))
    >>> learner.weights.round(12).tolist()
    [[-1.0, 0.0], [6.0, 0.0]]
    """

    kind: ClassVar[str] = "rcnbf"
    takes_rates: ClassVar[bool] = True

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        *,
        rho_0: float,
        rho_1: float,
        gamma: float = DEFAULT_GAMMA,
    ) -> None:
        super().__init__(n_features, n_labels, gamma=gamma)
        self._use(NoiseRates.of_options(rho_0, rho_1))

    @property
    def rates(self) -> NoiseRates:
        """The noise rates in use."""
        return self._rates

    @property
    def rho_0(self) -> float:
        """P(feedback = 1 | wrong label) in use."""
        return self._rates.rho_0

    @property
    def rho_1(self) -> float:
        """P(feedback = 0 | right label) in use."""
        return self._rates.rho_1

    def set_rates(self, rho_0: float, rho_1: float) -> None:
        """Use these noise rates from the next update on; what was learned stays.

        Raises
        ------
        InputError
            If they are no numbers in [0, 1) with a sum below 1.
        """
        self._use(NoiseRates(rho_0, rho_1))

    def _use(self, rates: NoiseRates) -> None:
        self._rates = rates
        self._corrected = (rates.corrected(0), rates.corrected(1))
