"""Drawing labels from distributions: a pure function of each and one uniform number."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from learners.base import Distribution
from learners.errors import InputError, expected

#: Up to here the draw sums in a Python list, beyond it in numpy; the sums are the same, bit for
#: bit, and this is where the two took equally long.
_SMALL_K = 32
#: Up to so many probabilities, of all distributions together, drawing one by one is faster.
_FEW_PROBABILITIES = 200


def draw(distribution: Distribution, uniform: float) -> int:
    """Draw a label by inverse CDF from one uniform number.

    Parameters
    ----------
    distribution
        What `Learner.distribution` returned.
    uniform
        A number in [0, 1).

    Returns
    -------
    int
        The label's code. A label of probability 0 is never drawn.

    Raises
    ------
    InputError
        If `uniform` is outside [0, 1).

    Examples
    --------
    >>> draw(Distribution(np.array([0.25, 0.0, 0.75]), 2), 0.25)
    2
    """
    if not 0.0 <= uniform < 1.0:
        raise InputError(expected("uniform", "a number in [0, 1)", uniform))
    probabilities = distribution.probabilities
    n_labels = len(probabilities)
    if n_labels <= _SMALL_K:
        label = bisect_right(list(accumulate(probabilities.tolist())), uniform)
    else:
        label = int(np.add.accumulate(probabilities).searchsorted(uniform, "right"))
    if label < n_labels:
        return label
    # Rounding left the last sum below `uniform`: the last label that can be drawn takes it.
    return int(np.flatnonzero(probabilities)[-1])


def draw_each(distributions: Sequence[Distribution], uniforms: Sequence[float]) -> list[int]:
    """Draw a label from each of several distributions over the same labels, at once.

    Parameters
    ----------
    distributions
        What `Learner.distributions` returned.
    uniforms
        As many numbers in [0, 1).

    Returns
    -------
    list of int
        What `draw` returns for each pair.

    Raises
    ------
    InputError
        If a number is outside [0, 1), or there are not as many as distributions.

    Examples
    --------
    >>> some = [Distribution(np.array([0.25, 0.0, 0.75]), 2)] * 2
    >>> draw_each(some, [0.1, 0.25])
    [0, 2]
    """
    if len(uniforms) != len(distributions):
        what = f"as many as distributions, {len(distributions)}"
        raise InputError(expected("uniforms", what, len(uniforms)))
    n_labels = len(distributions[0].probabilities) if distributions else 0
    if len(distributions) * n_labels <= _FEW_PROBABILITIES:
        return [draw(each, uniform) for each, uniform in zip(distributions, uniforms, strict=True)]
    numbers = np.array(uniforms)
    if not ((numbers >= 0.0) & (numbers < 1.0)).all():
        raise InputError(expected("uniforms", "numbers in [0, 1)", uniforms))
    sums = np.add.accumulate(np.array([each.probabilities for each in distributions]), 1)
    labels = (sums <= numbers[:, np.newaxis]).sum(1)
    # Where rounding left the last sum below the number, `draw` knows what to do.
    return [
        label if label < n_labels else draw(each, uniform)
        for label, each, uniform in zip(labels.tolist(), distributions, uniforms, strict=True)
    ]
