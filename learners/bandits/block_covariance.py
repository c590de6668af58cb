"""A block-diagonal covariance: what an example reads from it, and what remains after it.

It lies in memory as (B, n, B): n symmetric blocks side by side, row by row. A sum over the first
axis adds long rows; over the last one, B numbers at a time, it takes three to five times as long.
States hold it as n blocks, (n, B, B).
"""

from __future__ import annotations

import numpy as np

from learners.validation import FloatArray

#: Largest default block: it needed fewer clicks than 16 on each of six streams; a round takes a
#: tenth longer.
LARGEST_FITTING = 32
#: Largest block allowed: P z then has a million products.
MAX_BLOCK = 1024


def look(
    covariance: FloatArray, blocks: FloatArray, space: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return P_b z_b and h_b = z_b' P_b z_b of each block b.

    Parameters
    ----------
    covariance
        P, shape (B, n, B), symmetric.
    blocks
        z, shape (n, B).
    space
        Scratch of P's shape.
    """
    np.multiply(covariance, blocks.T[:, :, np.newaxis], out=space)
    moves = np.add.reduce(space, 0)
    # Rounding can leave -1e-20 of what is tiny: a variance is never below 0.
    return moves, np.maximum(np.add.reduce(np.multiply(moves, blocks), 1), 0.0)


def narrow(
    covariance: FloatArray,
    moves: FloatArray,
    spreads: FloatArray,
    noise: float,
    space: FloatArray,
) -> None:
    """Reduce P along what was seen: P_b <- P_b - (P_b z_b)(P_b z_b)' / (noise + h_b).

    `moves` and `spreads` are what `look` returned; `moves` is overwritten.
    """
    moves /= np.sqrt(noise + spreads)[:, np.newaxis]
    np.multiply(moves.T[:, :, np.newaxis], moves, out=space)
    covariance -= space


def let_drift(covariance: FloatArray, drift: float, first: FloatArray) -> None:
    """Let P drift back to P_0, the diagonal of first variances (n, B): P <- P + s (P_0 - P).

    s makes the variance of what is known well grow by `drift`, where it was largest at first. (If
    only variances grew, each up to its first, none could in the end: in directions never seen, such
    as a constant minus all categories of a field, doubt would grow until all variances are back at
    their first, however well known what is seen.)
    """
    share = min(drift / float(first.max()), 1.0)
    covariance *= 1.0 - share
    variances = diagonals(covariance)
    variances += share * first


def unconnected(variances: FloatArray) -> FloatArray:
    """Return the covariance (B, n, B) with these variances, shape (n, B), and no correlations."""
    n_blocks, block = variances.shape
    covariance = np.zeros((block, n_blocks, block))
    diagonals(covariance)[:] = variances
    return covariance


def diagonals(covariance: FloatArray) -> FloatArray:
    """Return a view of the diagonals of blocks, (n, B) of (B, n, B)."""
    view: FloatArray = np.einsum("ibi->bi", covariance)
    return view


def turned(covariances: FloatArray) -> FloatArray:
    """Return a copy in the states' layout, (..., n, B, B), of one in ours, (..., B, n, B).

    Or the other way round.
    """
    return np.array(covariances.swapaxes(-3, -2), order="C")


def blocks_of(width: int, block_size: int) -> tuple[int, int]:
    """Return how many blocks hold `width` inputs, and how many each has."""
    block = min(block_size, width)
    return -(-width // block), block


def fitting_block(n_covariances: int, width: int, most_entries: int) -> int:
    """Return the default block size: a power of two that fits."""
    block = LARGEST_FITTING
    while block > 1 and n_covariances * (width + block) * block > most_entries:
        block //= 2
    return block
