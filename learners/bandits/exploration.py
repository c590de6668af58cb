"""Inverse gap weighting: from labels' estimated worth to how often each is tried."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from learners.base import Distribution
from learners.validation import FloatArray, check_choice, check_number

#: With so many labels gaps count as `gain` says; with more, of which several may be right,
#: proportionally more. Labels with a given gap then share the same part of the rounds however many
#: they are: with 200 items, what was shown was worth a third more.
USUAL_LABELS = 10
#: Below every chance that is not 0, so that none is divided by 0.
_LEAST_CHANCE = float(np.finfo(np.float64).tiny)


class Eagerness(NamedTuple):
    """How much labels want to be tried, each of shape (K,).

    Attributes
    ----------
    gains
        How sharply the gap of each label counts.
    floors
        Share up to which each is tried however unlikely to be right; beyond that, the limit is its
        chance to be right times its odds against the best. None where several labels may be right:
        gaps alone decide there.
    """

    gains: FloatArray
    floors: FloatArray | None


def inverse_gap_weighting(
    rewards: FloatArray, gain: float | FloatArray, most: FloatArray | None = None
) -> FloatArray:
    """Return SquareCB's distribution: the larger the gap to the best, the rarer the label.

    For learners that estimate each label's reward, such as `Forward`. It explores near rivals more
    than hopeless labels, whereas the uniform mixture of the linear learners ignores the scores.
    Equation, [1]_::

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
        for each, shape (K,). A common choice is 10 sqrt(t) in round t.
    most
        Share that each label but the best gets at most, shape (K,); None, the default, for 1.

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
    if most is not None:
        np.minimum(probabilities, most, out=probabilities)
    probabilities[best] = 0.0
    # Where all labels are alike, rounding may leave the best a bit less than another.
    rest = 1.0 - float(np.add.reduce(probabilities))
    probabilities[best] = max(rest, float(np.maximum.reduce(probabilities)))
    return probabilities


def inverse_gap_weightings(
    rewards: FloatArray, gain: float | FloatArray, most: FloatArray | None = None
) -> FloatArray:
    """Return `inverse_gap_weighting` of each row of `rewards`, shape (n, K); bit for bit the same.

    Several rows at once cost as much as two one by one.
    """
    n_rows, n_labels = rewards.shape
    best = rewards.argmax(1) + np.arange(0, n_rows * n_labels, n_labels)
    # In C order whatever `rewards` is: sums along a row depend on how it lies in memory.
    probabilities: FloatArray = np.subtract(
        np.maximum.reduce(rewards, 1)[:, np.newaxis], rewards, order="C"
    )
    probabilities *= gain
    probabilities += n_labels
    np.divide(1.0, probabilities, out=probabilities)
    if most is not None:
        np.minimum(probabilities, most, out=probabilities)
    each = probabilities.reshape(-1)
    each[best] = 0.0
    rest = 1.0 - np.add.reduce(probabilities, 1)
    each[best] = np.maximum(rest, np.maximum.reduce(probabilities, 1))
    return probabilities


class GapExploration:
    """Chooses a label by how often each one is thought to be right, and tries the others, too.

    Inverse gap weighting with a gain that grows with what is known of each label, so that one
    that was shown less than its share is explored more, and a new one is tried at once::

        p_k = 1 / (m + gain_k (max q - q_k)) for each of m labels but the best, which has the rest
        gain_k = gain scale sqrt(min(rounds, m n_k) + 1),      n_k rounds that showed k

    Where exactly one label is right, and q_k is the chance that it is k, the share of a label that
    was shown a few times is at most q_k times its odds against the best::

        p_k <- min(p_k, max(q_k q_k / max q, 1 / (n_k + 1)^2))

    (Probability matching, at most q_k, tries more than pays off: a wrong best label gives itself
    away by not being clicked.) Where several may be right, gain_k is m / 10 times as large for
    m > 10 labels.

    Parameters
    ----------
    exploration
        "gaps" as above, or "greedy": the best label, so that only `gamma` explores.
    gain
        How sharply gaps count, in [0, 1e6]. More explores less.
    gamma
        Share of rounds that explore uniformly besides, in [0, 1].

    Raises
    ------
    ParameterError
        If a parameter is of the wrong type or out of range.
    """

    def __init__(self, exploration: str, gain: float, gamma: float) -> None:
        self.exploration = check_choice("exploration", exploration, ("gaps", "greedy"))
        self.gain = check_number("gain", gain, 0, 1e6)
        self.gamma = check_number("gamma", gamma, 0, 1)

    def eagerness(
        self,
        counts: FloatArray,
        rounds: float,
        codes: NDArray[np.intp] | None,
        scale: float,
        *,
        one_right: bool,
    ) -> Eagerness:
        """Return how much each label that may be chosen (None: all) wants to be tried."""
        chosen = counts if codes is None else counts[codes]
        known = np.minimum(chosen * len(chosen), rounds)
        known += 1.0
        np.sqrt(known, out=known)
        known *= self.gain * scale
        if not one_right:
            known *= max(1.0, len(chosen) / USUAL_LABELS)
            return Eagerness(known, None)
        floors = 1.0 / (chosen + 1.0)
        floors *= floors
        return Eagerness(known, floors)

    def choose(
        self, relevance: FloatArray, codes: NDArray[np.intp] | None, eager: Eagerness
    ) -> Distribution:
        """Return the distribution over the labels `codes`, or all, of one instance."""
        chosen = relevance if codes is None else relevance[codes]
        best = int(chosen.argmax())
        if self.exploration == "gaps":
            shares = inverse_gap_weighting(chosen, eager.gains, _most(chosen, eager))
        else:
            shares = np.zeros(len(chosen))
            shares[best] = 1.0
        greedy = best if codes is None else int(codes[best])
        return Distribution(self._of_all(shares, codes, relevance), greedy)

    def choose_each(
        self, relevances: FloatArray, codes: NDArray[np.intp] | None, eager: Eagerness
    ) -> list[Distribution]:
        """Return `choose` of each row of `relevances`, shape (n, K); bit for bit the same."""
        chosen = relevances if codes is None else relevances[:, codes]
        best = chosen.argmax(1)
        if self.exploration == "gaps":
            shares = inverse_gap_weightings(chosen, eager.gains, _most(chosen, eager))
        else:
            shares = np.zeros(chosen.shape)
            shares[np.arange(len(chosen)), best] = 1.0
        greedy = best if codes is None else codes[best]
        return list(map(Distribution, self._of_all(shares, codes, relevances), greedy.tolist()))

    def _of_all(
        self, shares: FloatArray, codes: NDArray[np.intp] | None, relevance: FloatArray
    ) -> FloatArray:
        """Return the shares of all labels, the uniform part included, in the shape of `relevance`.

        `shares` are those of `codes`, (m,) or (n, m), and may be overwritten.
        """
        if self.gamma:
            shares *= 1.0 - self.gamma
            shares += self.gamma / shares.shape[-1]
        if codes is None:
            return shares
        probabilities = np.zeros(relevance.shape)
        probabilities[..., codes] = shares
        return probabilities


def _most(chosen: FloatArray, eager: Eagerness) -> FloatArray | None:
    """Return the largest share of each label but the best."""
    if eager.floors is None:
        return None
    best = np.maximum(np.maximum.reduce(chosen, -1), _LEAST_CHANCE)
    most: FloatArray = np.divide(chosen, best[..., np.newaxis])
    most *= chosen
    return np.maximum(most, eager.floors, out=most)
