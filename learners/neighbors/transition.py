"""Undoing label noise among many classes: a transition matrix and its inverse."""

from __future__ import annotations

import numpy as np

from learners.validation import FloatArray

#: Largest condition number (in the 1-norm) of a matrix that is worth inverting: beyond it an
#: error of one neighbour in a thousand could decide.
MAX_CONDITION = 1e3


def inverse(matrix: FloatArray) -> FloatArray | None:
    """Invert a small matrix by Gauss-Jordan elimination, or return None if it is singular.

    Element by element with partial pivoting, so that it is the same on every CPU; for the tens
    of rows that labels make.

    Parameters
    ----------
    matrix
        Shape (K, K).

    Examples
    --------
    >>> inverse(np.array([[0.0, 2.0], [1.0, 0.0]])).tolist()
    [[0.0, 1.0], [0.5, 0.0]]
    """
    size = len(matrix)
    work = np.concatenate((matrix, np.eye(size)), axis=1)
    for column in range(size):
        pivot = column + int(np.abs(work[column:, column]).argmax())
        if work[pivot, column] == 0.0:
            return None
        work[[column, pivot]] = work[[pivot, column]]
        work[column] /= work[column, column]
        factors = work[:, column].copy()
        factors[column] = 0.0
        work -= factors[:, np.newaxis] * work[column]
    return work[:, size:]


def usable_inverse(transition: FloatArray) -> FloatArray | None:
    """Return the inverse of a transition matrix that can be trusted, or None.

    Parameters
    ----------
    transition
        Shape (K, K): P(noisy label j | label i). Refused when a row's largest entry is not its
        own label's alone, or when it is near singular (`MAX_CONDITION`).
    """
    own = transition.diagonal()[:, np.newaxis]
    if ((transition >= own).sum(axis=1) > 1).any():
        return None
    inverted = inverse(transition)
    if inverted is None:
        return None
    condition = np.linalg.norm(transition, 1) * np.linalg.norm(inverted, 1)
    return None if condition > MAX_CONDITION else inverted


def corrected(shares: FloatArray, inverted: FloatArray) -> FloatArray:
    """Return the shares of the true labels: ``(T^T)^-1 shares``, summed in a fixed order.

    Parameters
    ----------
    shares
        Shape (K,): shares of the noisy labels.
    inverted
        Shape (K, K): the inverse of T.

    Examples
    --------
    >>> transition = np.array([[0.8, 0.1, 0.1], [0.05, 0.9, 0.05], [0.2, 0.2, 0.6]])
    >>> corrected(np.array([0.4, 0.3, 0.3]), inverse(transition)).round(4).tolist()
    [0.3827, 0.1975, 0.4198]
    """
    shares_of_true: FloatArray = np.add.reduce(shares[:, np.newaxis] * inverted, axis=0)
    return shares_of_true
