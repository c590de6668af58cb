"""Ways from scores to a distribution that are no learner of their own."""

from __future__ import annotations

import numpy as np

from learners.base import FloatArray
from learners.errors import InputError, expected


def inverse_gap_weighting(rewards: FloatArray, gain: float) -> FloatArray:
    """Return SquareCB's distribution: the larger the gap to the best, the rarer the label.

    For learners that estimate each label's reward, such as regression on the raw bit. It
    explores near rivals more than hopeless labels, where the uniform mixture of the linear
    learners does not look at the scores. Equation, [1]_::

        p_i = 1 / (K + gain (max(rewards) - rewards_i))    for each but the best, which takes
                                                           the rest

    (A form with the gap squared circulates; it is wrong.)

    Parameters
    ----------
    rewards
        Estimated rewards, float64 of shape (K,), finite; the lowest code is best where several
        tie.
    gain
        How sharply gaps count, at least 0; 0 is uniform. Common is 10 sqrt(t) in round t.

    Raises
    ------
    InputError
        If `rewards` is empty or not finite, or `gain` is negative or not finite.

    References
    ----------
    .. [1] Foster and Rakhlin, *Beyond UCB: optimal and efficient contextual bandits with
       regression oracles*, 2020.

    Examples
    --------
    >>> inverse_gap_weighting(np.array([0.9, 0.5, 0.2]), 10.0).round(3).tolist()
    [0.757, 0.143, 0.1]
    """
    if rewards.ndim != 1 or not len(rewards) or not np.isfinite(rewards).all():
        raise InputError(expected("rewards", "a finite array (K,) with K >= 1", rewards))
    if not 0 <= gain < np.inf:
        raise InputError(expected("gain", "a finite number of at least 0", gain))
    best = int(rewards.argmax())
    probabilities: FloatArray = 1.0 / (len(rewards) + gain * (rewards[best] - rewards))
    probabilities[best] = 0.0
    probabilities[best] = 1.0 - float(np.add.reduce(probabilities))
    return probabilities
