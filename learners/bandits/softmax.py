"""The softmax, of products only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from learners.validation import FloatArray

#: Squarings of 1 + s / 2^n in place of exp(s), which is not the same to the last bit on every
#: CPU. Between s = -10 and 0 the two differ by a twentieth at most, which no label's chance minds.
SQUARINGS = 10
#: Scores below the best by more count as this: a chance of 1e-27.
LEAST_SCORE = -60.0


def softmax(scores: FloatArray, codes: NDArray[np.intp] | None) -> FloatArray:
    """Return the chances of labels from their scores, the same to the last bit on every CPU.

    p_k = e_k / sum(e), with e_k = (1 + (s_k - max s) / 1024)^1024 in place of the exponential.

    Parameters
    ----------
    scores
        Shape (n, K), float64; each row on its own.
    codes
        Labels that can be right, ascending; the others' chance is 0. None for all.

    Examples
    --------
    >>> softmax(np.array([[0.0, np.log(3.0)]]), None).round(3).tolist()
    [[0.25, 0.75]]
    """
    # `take` lays its answer out row by row whatever n is, so that it is summed in one order.
    chosen = scores if codes is None else scores.take(codes, axis=1)
    shares: FloatArray = chosen - np.maximum.reduce(chosen, 1)[:, np.newaxis]
    np.maximum(shares, LEAST_SCORE, out=shares)
    shares *= 0.5**SQUARINGS
    shares += 1.0
    for _ in range(SQUARINGS):
        np.multiply(shares, shares, out=shares)
    shares /= np.add.reduce(shares, 1)[:, np.newaxis]
    if codes is None:
        return shares
    chances = np.zeros(scores.shape)
    chances[:, codes] = shares
    return chances
