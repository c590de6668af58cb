"""Bandit learners, one per file; `learners` exports them.

linear
    What those with one weight row per label share.
perceptron
    `Perceptron`: full information.
banditron, rcnbf, rcine
    `Banditron` for clean feedback, `RCNBF` for flipped feedback with known rates, `RCINE` for
    rates that are estimated along the way. One implementation for all three.
bpa
    `BPA`: passive-aggressive; hard, I and II.
soba, confidit
    `SOBA` and `Confidit`: second order, diagonal or full.
forward_softmax, rate_filter, shortfall, told_rates, surplus
    `ForwardSoftmax`, the default: one label is right; each label's noise rates are estimated along
    with the weights, by a filter of their own; where expected clicks stay away, it begins anew. The
    rates it reports come from another filter, which also begins anew where more clicks come.
forward, block_regression, label_rates, label_features
    `Forward`: regression of the raw click, one block-diagonal Kalman filter per label, read through
    each label's noise rates; and what similar labels share.
forward_auto
    `ForwardAuto`: `Forward` and `ForwardSoftmax` at once; the one that predicts clicks better
    decides.
relevance_learner, bent_inputs, random_features, block_covariance, softmax, exploration
    What `Forward` and `ForwardSoftmax` share, and their parts: an instance with triangle waves over
    it, a covariance in blocks, a softmax without exp, and inverse gap weighting.
"""
