"""The multiclass perceptron: full information, no exploration."""

from __future__ import annotations

from typing import ClassVar

from learners.bandits.linear import LabelledLinearLearner


class Perceptron(LabelledLinearLearner):
    """Learns from whole labels: the right row is pushed up, the mistaken one down.

    Use it where the true label is given (an editor's queue, a labelled archive), and as the
    yardstick for bandit learners. Do not use it on clicks: it takes no feedback. It never explores.

    Update, [1]_ eq. 2, with y the label and yhat the argmax of the current scores::

        w_r <- w_r + (1[r = y] - 1[r = yhat]) x

    A round moves each of two rows by x: no weight by more than 1e6.

    Parameters
    ----------
    n_features
        Length d of an instance, at least 1.
    n_labels
        Number K of labels, at least 1.

    Raises
    ------
    ParameterError
        If a parameter is of the wrong type or out of range.

    References
    ----------
    .. [1] Agarwal and Manwani, *Learning multiclass classifier under noisy bandit feedback*,
       2021.

    Examples
    --------
    >>> import numpy as np
    >>> learner = Perceptron(n_features=2, n_labels=3)
    >>> learner.learn(np.array([1.0, 0.0]), 1)
    >>> learner.distribution(np.array([2.0, 0.0])).greedy
    1
    """

    kind: ClassVar[str] = "perceptron"
    takes_feedback: ClassVar[bool] = False

    def __init__(self, n_features: int, n_labels: int) -> None:
        super().__init__(n_features, n_labels, gamma=0.0)
