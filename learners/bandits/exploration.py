"""Ways from scores to a distribution that are no learner of their own."""

from __future__ import annotations

import numpy as np

from learners.base import FloatArray


def inverse_gap_weighting(rewards: FloatArray, gain: float | FloatArray) -> FloatArray:
    """Return SquareCB's distribution: the larger the gap to the best, the rarer the label.

    For learners that estimate each label's reward, such as `Forward`. It
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
        How sharply gaps count, finite and at least 0; 0 is uniform. One for all labels, or one
        for each, shape (K,). Common is 10 sqrt(t) in round t.

    References
    ----------
    .. [1] Foster and Rakhlin, *Beyond UCB: optimal and efficient contextual bandits with
       regression oracles*, 2020.

    Examples
    --------
    >>> inverse_gap_weighting(np.array([0.9, 0.5, 0.2]), 10.0).round(3).tolist()
    [0.757, 0.143, 0.1]
    """
    best = int(rewards.argmax())
    probabilities: FloatArray = rewards[best] - rewards
    probabilities *= gain
    probabilities += len(rewards)
    np.divide(1.0, probabilities, out=probabilities)
    probabilities[best] = 0.0
    # Rounding may leave the best, of labels that are all alike, a bit less than another.
    rest = 1.0 - float(np.add.reduce(probabilities))
    probabilities[best] = max(rest, float(np.maximum.reduce(probabilities)))
    return probabilities
