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
forward
    `Forward`: regression of the raw click, read through each label's noise; the default.
block_regression, random_features, label_rates, label_features, exploration
    What it is made of: a block-diagonal Kalman filter a label, triangle waves, each label's noise
    rates, what similar labels share, and inverse gap weighting.
"""
