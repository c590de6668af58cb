"""What the learners that bend regress on."""

from __future__ import annotations

import numpy as np

from learners.bandits.bent_inputs import BentInputs
from learners.bandits.random_features import RandomFeatures


def test_an_instance_a_constant_waves_and_padding() -> None:
    """Scaled to length 1, then 1, then the waves over it, then zeros."""
    inputs = BentInputs(2, 3, padded=8, seed=4)
    (z,) = inputs(np.array([[3.0, -4.0]]))
    np.testing.assert_allclose(z[:3], [0.6, -0.8, 1.0], rtol=1e-15)
    waves = RandomFeatures(2, 3, seed=4)(z[np.newaxis, :2])[0]
    assert z[3:6].tolist() == waves.tolist()
    assert z[6:].tolist() == [0.0, 0.0]


def test_too_short_an_instance_counts_as_none() -> None:
    """Nothing is divided by a length of almost 0."""
    inputs = BentInputs(2, 0, padded=3, seed=0)
    assert inputs(np.array([[1e-7, 0.0], [0.0, 0.0]])).tolist() == [[0.0, 0.0, 1.0]] * 2


def test_rows_are_for_themselves() -> None:
    """A batch gives bit for bit what each row gives alone."""
    inputs, xs = BentInputs(5, 7, padded=16, seed=1), np.random.default_rng(0).normal(size=(6, 5))
    for row, z in zip(xs, inputs(xs), strict=True):
        assert inputs(row[np.newaxis])[0].tobytes() == z.tobytes()
