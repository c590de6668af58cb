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
forward_softmax, rate_filter, shortfall, told_rates, surplus
    `ForwardSoftmax`, the default: one label is right, and each label's noise rates are found with
    the weights, by a filter beside theirs; where clicks stay away, it begins anew. The rates that
    it tells are another filter's, which begins anew also where more clicks come.
forward, block_regression, label_rates, label_features
    `Forward`: regression of the raw click, a block-diagonal Kalman filter a label, read through
    each label's noise rates; and what similar labels share.
relevance_learner, bent_inputs, random_features, block_covariance, softmax, exploration
    What both forwards share, and what they are made of: an instance with triangle waves over it,
    a covariance in blocks, chances without exp, and inverse gap weighting.
"""
