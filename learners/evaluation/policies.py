"""Policies to evaluate, each as the probabilities that it gives the labels in every round."""

from __future__ import annotations

import numpy as np

from learners.base import Learner, Outcome
from learners.errors import InputError, expected
from learners.evaluation.rounds import Rounds, check_rounds
from learners.validation import BoolArray, FloatArray, IntArray, check_codes, is_integer


def uniform(n_rounds: int, active: BoolArray) -> FloatArray:
    """Return the policy that shows all labels equally often, shape (n, K).

    Parameters
    ----------
    n_rounds
        Number n of rounds.
    active
        Which labels can be shown, bool (K,), at least one of them.

    Raises
    ------
    InputError
        If an argument is not as said.

    Examples
    --------
    >>> uniform(1, np.array([True, False, True])).tolist()
    [[0.5, 0.0, 0.5]]
    """
    if not is_integer(n_rounds) or n_rounds < 0:
        raise InputError(expected("n_rounds", "an integer of at least 0", n_rounds))
    shaped = isinstance(active, np.ndarray) and active.dtype == np.bool_ and active.ndim == 1
    if not shaped or not active.any():
        raise InputError(expected("active", "a bool array (K,) with a label to show", active))
    return np.tile(active / active.sum(), (n_rounds, 1))


def always(labels: IntArray, n_labels: int) -> FloatArray:
    """Return the policy that shows these labels, one a round, for certain; shape (n, K).

    For a policy without exploration: one constant label, or the greedy labels of a log.

    Raises
    ------
    InputError
        If `labels` are no codes.

    Examples
    --------
    >>> always(np.array([1, 0]), 2).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    check_codes("labels", labels, n_labels)
    probabilities = np.zeros((len(labels), n_labels))
    probabilities[np.arange(len(labels)), labels] = 1.0
    return probabilities


def fixed(learner: Learner, xs: FloatArray) -> FloatArray:
    """Return what a learner that no longer learns does with each instance; shape (n, K).

    It must not have learned from the rounds that it is evaluated on: `progressive` is for that.

    Parameters
    ----------
    learner
        Of any kind.
    xs
        Instances, float64 of shape (n, d).

    Raises
    ------
    InputError
        If `xs` is not such an array.

    Examples
    --------
    >>> from learners import create
    >>> fixed(create("banditron", 1, 2, gamma=0.5), np.ones((1, 1))).tolist()
    [[0.75, 0.25]]
    """
    probabilities = [each.probabilities for each in learner.distributions(xs)]
    # Without instances, nothing would say how many labels there are.
    return np.array(probabilities).reshape(len(xs), learner.n_labels)


def progressive(learner: Learner, rounds: Rounds) -> FloatArray:
    """Return what a learner would have done in each round, before it learned from that round.

    The value of this policy is that of the learner as it was along the way, not at the end:
    progressive validation, which uses every round for both and stays honest.

    Parameters
    ----------
    learner
        It learns from the rounds, in their order; give a copy if it should not.
    rounds
        The log.

    Returns
    -------
    FloatArray
        Shape (n, K).

    Raises
    ------
    InputError
        If `rounds` are not as said, or have another size than the learner.

    References
    ----------
    .. [1] Blum, Kalai and Langford, *Beating the hold-out: bounds for k-fold and progressive
       cross-validation*, 1999.

    Examples
    --------
    >>> from learners import create
    >>> rounds = Rounds(np.ones((2, 1)), np.array([1, 1]), np.full(2, 0.5), np.array([1, 1]))
    >>> progressive(create("banditron", 1, 2, gamma=0.0), rounds).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    check_rounds(rounds, learner.n_labels)
    probabilities = np.empty((len(rounds.labels), learner.n_labels))
    rows = zip(*(part.tolist() for part in rounds[1:]), strict=True)
    for t, (label, propensity, feedback) in enumerate(rows):
        x = rounds.xs[t]
        distribution = learner.distribution(x)
        probabilities[t] = distribution.probabilities
        # Its own greedy label, not the logging policy's: updates that use one subtract from the
        # label that the learner itself would have shown.
        greedy = distribution.greedy
        learner.update(Outcome(x, label, greedy, propensity, feedback, elsewhere=True))
    return probabilities
