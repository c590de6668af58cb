"""The Banditron: the perceptron's update, estimated from one clean bit."""

from __future__ import annotations

from typing import ClassVar

from learners.bandits.linear import MIN_PROPENSITY, LabelledLinearLearner
from learners.base import Outcome

#: Default exploration share: what RCNBF's authors used on USPS.
DEFAULT_GAMMA = 0.03


class Banditron(LabelledLinearLearner):
    """Learns from clicks as if each were true; the classic that noise breaks.

    Use it where feedback is clean, and as the baseline. Under flipped feedback, where it unlearns
    right answers, use `RCNBF`. O(K d) a decision, O(d) an update.

    Update, [1]_, with f the feedback, ytilde the label shown, yhat the greedy one, P the logged
    propensity::

        w_r <- w_r + x (f 1[r = ytilde] / P - 1[r = yhat])

    Its expectation over the draw is the perceptron's update, the one `learn` makes from a full
    label. One round moves a weight by at most (1 / max(P, 1e-9) + 1) |x_i| <= 1.000000001e15.

    Parameters
    ----------
    n_features
        Length d of an instance, at least 1.
    n_labels
        Number K of labels, at least 1.
    gamma
        Share of rounds that explore uniformly, in [0, 1]; 0.03 by default. Theory asks for
        T**-1/2 on separable data and T**-1/3 in general, over T rounds.

    Raises
    ------
    ParameterError
        If a parameter is of the wrong type or out of range.

    References
    ----------
    .. [1] Kakade, Shalev-Shwartz and Tewari, *Efficient bandit algorithms for online multiclass
       prediction*, 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from learners.base import Outcome
    >>> learner = Banditron(n_features=2, n_labels=2, gamma=0.5)
    >>> x = np.array([1.0, 0.0])
    >>> learner.distribution(x).probabilities.tolist()
    [0.75, 0.25]
    >>> learner.update(Outcome(x, label=1, greedy=0, propensity=0.25, feedback=1))
    >>> learner.weights.tolist()
    [[-1.0, 0.0], [4.0, 0.0]]
    """

    kind: ClassVar[str] = "banditron"

    #: h(0) and h(1): what each bit counts as. Learners that model noise set others here.
    _corrected: tuple[float, float] = (0.0, 1.0)

    def __init__(self, n_features: int, n_labels: int, *, gamma: float = DEFAULT_GAMMA) -> None:
        super().__init__(n_features, n_labels, gamma=gamma)

    def update(self, outcome: Outcome) -> None:
        """Learn from one finished round.

        Raises
        ------
        InputError
            If a part of `outcome` is not what `Outcome` says.
        """
        self._check_outcome(outcome)
        x, label, greedy, propensity, feedback, _ = outcome
        weight = self._corrected[feedback] / max(propensity, MIN_PROPENSITY)
        if label == greedy:
            self._add_to_row(label, weight - 1.0, x)
            return
        if weight != 0.0:
            self._add_to_row(label, weight, x)
        self._add_to_row(greedy, -1.0, x)
