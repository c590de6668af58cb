"""What the learners that bend regress on."""

from __future__ import annotations

import numpy as np
import pytest

from learners import StateError
from learners.bandits.bent_inputs import CENTRE_ROUNDS, BentInputs
from learners.bandits.random_features import RandomFeatures
from learners.base import FloatArray, state_array


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


def _slow_centre(xs: FloatArray) -> FloatArray:
    """Return the mean of the instances at length 1 and one of zeros, of the first ones only."""
    units = [np.zeros(xs.shape[1])] + [x / np.linalg.norm(x) for x in xs[:CENTRE_ROUNDS]]
    mean: FloatArray = np.array(units).mean(axis=0)
    return mean


def _centre(inputs: BentInputs) -> FloatArray:
    return state_array(inputs.state(), "centre", (inputs.n_features,))


def _learn(inputs: BentInputs, xs: FloatArray, first: int = 0) -> FloatArray:
    """Let the rows be learned from, one after the other, after `first` others; return each z."""
    return np.array([inputs.take_in(x, float(first + i)) for i, x in enumerate(xs)])


def test_what_instances_have_in_common_is_taken_away() -> None:
    """An input begins with x / |x| less its mean over all before, scaled to length 1 again."""
    inputs = BentInputs(3, 0, padded=4, seed=0)
    xs = np.random.default_rng(0).normal(size=(30, 3)) + 5.0
    for i, x in enumerate(xs):
        z = inputs.take_in(x, float(i))
        rest = x / np.linalg.norm(x) - (_slow_centre(xs[:i]) if i else 0.0)
        np.testing.assert_allclose(z[:3], rest / np.linalg.norm(rest), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(_centre(inputs), _slow_centre(xs), rtol=1e-12)


def test_a_constant_feature_changes_nothing_in_the_long_run() -> None:
    """One that was added to centred instances is gone once the mean is known."""
    xs = np.random.default_rng(0).choice(np.array([-1.0, 1.0]), (CENTRE_ROUNDS, 4))
    plain, added = BentInputs(4, 0, padded=5, seed=0), BentInputs(5, 0, padded=6, seed=0)
    _learn(plain, xs)
    _learn(added, np.hstack([xs, np.full((len(xs), 1), 3.0)]))
    z, with_constant = plain(xs[:1])[0], added(np.append(xs[0], 3.0)[np.newaxis])[0]
    np.testing.assert_allclose(with_constant[:4], z[:4], atol=0.02)
    assert abs(with_constant[4]) < 0.01


def test_the_same_instance_again_and_again_stays_what_it_is() -> None:
    """Where nothing varies, what is left after centring keeps its direction: for ever."""
    inputs, x = BentInputs(3, 0, padded=4, seed=0), np.array([[3.0, 0.0, 4.0]])
    zs = _learn(inputs, np.repeat(x, CENTRE_ROUNDS + 10, axis=0))
    np.testing.assert_allclose(zs[:, :3], np.tile([0.6, 0.0, 0.8], (len(zs), 1)), rtol=1e-9)


def test_the_centre_stays_after_the_first_instances() -> None:
    """Later ones leave it: what was learned keeps its meaning."""
    inputs, far = BentInputs(2, 0, padded=3, seed=0), np.array([1e6, 0.0])
    inputs.take_in(far, float(CENTRE_ROUNDS))
    assert _centre(inputs).tolist() == [0.0, 0.0]
    inputs.take_in(far, float(CENTRE_ROUNDS - 1))
    assert _centre(inputs).tolist() == [1.0 / (CENTRE_ROUNDS + 1), 0.0]


def test_a_restored_centre_goes_on_as_the_saved_one() -> None:
    """Bit for bit, also across the end of the instances that move it."""
    saved, restored = (BentInputs(5, 7, padded=16, seed=1) for _ in range(2))
    xs = np.random.default_rng(0).normal(size=(9, 5))
    _learn(saved, xs, CENTRE_ROUNDS - 12)
    restored.restore(saved.state())
    after = [_learn(each, xs, CENTRE_ROUNDS - 3).tobytes() for each in (saved, restored)]
    assert after[0] == after[1]
    assert _centre(saved).tobytes() == _centre(restored).tobytes()


def test_a_centre_that_no_instances_have_is_refused() -> None:
    """A mean of vectors of length 1 has no entry beyond 1."""
    with pytest.raises(StateError, match="centre"):
        BentInputs(2, 0, padded=3, seed=0).restore({"centre": np.array([0.0, 1.5])})
