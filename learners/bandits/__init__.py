"""Bandit learners, one a file; `learners` exports them.

linear
    What those with one weight row a label share.
perceptron
    `Perceptron`: full information.
banditron, rcnbf, rcine
    `Banditron` for clean feedback, `RCNBF` for flipped feedback with known rates, `RCINE` for
    rates that are estimated on the way. One implementation.
bpa
    `BPA`: passive-aggressive; hard, I and II.
soba, confidit
    `SOBA` and `Confidit`: second order, diagonal or full.
exploration
    Inverse gap weighting, for learners that estimate rewards.
"""
