"""What the learners that bend regress on."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners import StateError
from learners.bandits.bent_inputs import CENTRE_ROUNDS, BentInputs
from learners.bandits.random_features import RandomFeatures
from learners.states import state_array, state_number
from learners.validation import FloatArray
from tests.reference.bandits import SlowBentInputs


def test_an_instance_its_distance_a_constant_waves_and_padding() -> None:
    """One that is as far away as usual has length 1, then 0, then 1, waves over these and zeros."""
    inputs = BentInputs(2, 3, padded=9, seed=4)
    z = inputs.take_in(np.array([3.0, -4.0]), 0.0)
    np.testing.assert_allclose(z[:4], [0.6, -0.8, 0.0, 1.0], rtol=1e-15, atol=1e-15)
    waves = RandomFeatures(3, 3, seed=4)(z[np.newaxis, :3])[0]
    assert z[4:7].tolist() == waves.tolist()
    assert z[7:].tolist() == [0.0, 0.0]


def test_too_short_an_instance_counts_as_none() -> None:
    """Nothing is divided by a length of almost 0."""
    inputs = BentInputs(2, 0, padded=4, seed=0)
    none = [0.0, 0.0, 0.0, 1.0]
    assert inputs(np.array([[1e-16, 0.0], [0.0, 0.0]])).tolist() == [none] * 2
    assert inputs.take_in(np.zeros(2), 0.0).tolist() == none
    assert _distance(inputs) == 0.0
    inputs.take_in(np.array([3.0, 4.0]), 1.0)
    assert _distance(inputs) == 5.0


def test_rows_are_for_themselves() -> None:
    """A batch gives bit for bit what each row gives alone, however it lies in memory."""
    # Of enough numbers that numpy would add them in another order along another axis.
    inputs, xs = BentInputs(40, 7, padded=64, seed=1), np.random.default_rng(0).normal(size=(6, 40))
    _learn(inputs, xs)
    for row, z, turned in zip(xs, inputs(xs), inputs(np.asfortranarray(xs)), strict=True):
        assert inputs(row[np.newaxis])[0].tobytes() == z.tobytes() == turned.tobytes()


def _centre(inputs: BentInputs) -> FloatArray:
    return state_array(inputs.state(), "centre", (inputs.n_features,))


def _distance(inputs: BentInputs) -> float:
    return state_number(inputs.state(), "distance")


def _learn(inputs: BentInputs, xs: FloatArray, first: int = 0) -> FloatArray:
    """Let the rows be learned from, one after the other, after `first` others; return each z."""
    return np.array([inputs.take_in(x, float(first + i)) for i, x in enumerate(xs)])


@given(seed=st.integers(0, 2**32 - 1), offset=st.floats(-50, 50))
def test_as_the_slow_twin(seed: int, offset: float) -> None:
    """Folded around the mean of those before, some of which are far away, as the formula says."""
    rng = np.random.default_rng(seed)
    xs = rng.normal(size=(30, 3)) * 10.0 ** rng.integers(-1, 3, size=(30, 1)) + offset
    fast, slow = BentInputs(3, 5, padded=10, seed=2), SlowBentInputs(3, 5, 2)
    for i, x in enumerate(xs):
        np.testing.assert_allclose(fast.take_in(x, float(i)), slow.take_in(x), rtol=0, atol=1e-9)
        np.testing.assert_allclose(fast(xs[:1])[0], slow(xs[0]), rtol=0, atol=1e-9)


@given(seed=st.integers(0, 2**32 - 1), size=st.floats(-3, 3))
def test_no_instance_is_longer_than_the_root_of_three(seed: int, size: float) -> None:
    """However far away: nothing that comes of one instance outweighs all others."""
    rng = np.random.default_rng(seed)
    inputs = BentInputs(3, 0, padded=5, seed=0)
    _learn(inputs, rng.normal(size=(20, 3)))
    (z,) = inputs(rng.normal(size=(1, 3)) * 10.0**size)
    assert 0.1 < float(z[:4] @ z[:4]) <= 3.0 + 1e-12
    assert -1.0 <= z[3] <= math.sqrt(2.0) - 1.0


@pytest.mark.parametrize(("unit", "origin"), [(1.0, 0.0), (1e-3, 0.0), (10.0, 300.0), (1.0, -1e3)])
def test_neither_units_nor_origin_matter(unit: float, origin: float) -> None:
    """Degrees of any scale are told apart as well as standardised ones, one number alone too."""
    xs = np.random.default_rng(0).uniform(-1.0, 1.0, (2_000, 1))
    plain, other = BentInputs(1, 0, padded=3, seed=0), BentInputs(1, 0, padded=3, seed=0)
    _learn(plain, xs)
    _learn(other, xs * unit + origin)
    there = np.linspace(-1.0, 1.0, 9)[:, np.newaxis]
    np.testing.assert_allclose(other(there * unit + origin), plain(there), atol=0.01)


def test_a_constant_feature_changes_nothing_in_the_long_run() -> None:
    """One that was added is gone once the mean is known."""
    xs = np.random.default_rng(0).normal(size=(2_000, 4))
    plain, added = BentInputs(4, 0, padded=6, seed=0), BentInputs(5, 0, padded=7, seed=0)
    _learn(plain, xs)
    _learn(added, np.hstack([xs, np.full((len(xs), 1), 3.0)]))
    z, with_constant = plain(xs[:1])[0], added(np.append(xs[0], 3.0)[np.newaxis])[0]
    np.testing.assert_allclose(np.delete(with_constant, 4), z, atol=1e-3)
    assert abs(with_constant[4]) < 1e-3


@pytest.mark.parametrize("first", [1e3, 1e-5])
def test_a_first_instance_unlike_all_others_is_forgotten(first: float) -> None:
    """A call with nonsense in it, made to see whether the service is up, spoils nothing."""
    xs = np.random.default_rng(0).normal(size=(1_000, 2))
    usual, odd = BentInputs(2, 0, padded=4, seed=0), BentInputs(2, 0, padded=4, seed=0)
    _learn(usual, xs)
    _learn(odd, np.vstack([[first, 0.0], xs]))
    np.testing.assert_allclose(odd(xs[:20]), usual(xs[:20]), atol=0.03)
    assert _distance(odd) == pytest.approx(_distance(usual), rel=0.05)


def test_an_instance_far_away_counts_as_three_times_as_far_as_usual() -> None:
    """No single one moves the centre, and what all weights mean, far."""
    inputs = BentInputs(1, 0, padded=3, seed=0)
    xs = np.random.default_rng(0).normal(size=(100, 1))
    _learn(inputs, xs)
    centre, distance = float(_centre(inputs)[0]), _distance(inputs)
    inputs.take_in(np.array([1e6]), 100.0)
    assert _distance(inputs) == pytest.approx(distance * (1 + 2 * 2 / 102))
    assert _centre(inputs)[0] == pytest.approx(centre + 3 * _distance(inputs) * 2 / 103)


def test_the_same_instance_again_and_again_stays_what_it_is() -> None:
    """Where nothing varies, what is left after centring keeps its direction: for ever."""
    inputs, x = BentInputs(3, 0, padded=5, seed=0), np.array([[0.3, 0.0, 0.4]])
    zs = _learn(inputs, np.repeat(x, CENTRE_ROUNDS + 10, axis=0))
    units = zs[:, :3] / np.linalg.norm(zs[:, :3], axis=1)[:, np.newaxis]
    np.testing.assert_allclose(units, np.tile([0.6, 0.0, 0.8], (len(zs), 1)), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(zs[-10:], np.tile(zs[-1], (10, 1)))


@pytest.mark.parametrize("rounds", [300, 3_000])
@pytest.mark.parametrize("first", [5.0, 6.0])
def test_one_instance_again_and_again_spoils_nothing(rounds: int, first: float) -> None:
    """A load test, or a feature that is wired in late: later ones are not cut off at nothing."""
    inputs, fresh = BentInputs(2, 0, padded=4, seed=0), BentInputs(2, 0, padded=4, seed=0)
    xs = np.random.default_rng(0).normal(size=(rounds, 2))
    _learn(inputs, np.vstack([[[first, 1.0]], np.tile([5.0, 1.0], (rounds - 1, 1))]))
    _learn(inputs, xs, rounds)
    _learn(fresh, xs)
    # A quarter of the mean's weight is the old one's.
    assert _distance(fresh) < _distance(inputs) < 4.0 * _distance(fresh)
    np.testing.assert_allclose(_centre(inputs), [5.0 / 4, 1.0 / 4], atol=0.4)


def test_the_centre_stays_after_the_first_instances() -> None:
    """Later ones leave it and the usual distance: what was learned keeps its meaning."""
    inputs, x = BentInputs(2, 0, padded=4, seed=0), np.array([3.0, 4.0])
    inputs.take_in(x, float(CENTRE_ROUNDS))
    assert (_centre(inputs).tolist(), _distance(inputs)) == ([0.0, 0.0], 0.0)
    inputs.take_in(x, float(CENTRE_ROUNDS - 1))
    np.testing.assert_allclose(_centre(inputs), x * 2 / (CENTRE_ROUNDS + 2), rtol=1e-12)
    assert _distance(inputs) == 5.0


def test_restored_it_goes_on_as_the_saved_one() -> None:
    """Bit for bit, also across the end of the instances that move the centre."""
    saved, restored = (BentInputs(5, 7, padded=16, seed=1) for _ in range(2))
    xs = np.random.default_rng(0).normal(size=(9, 5))
    _learn(saved, xs, CENTRE_ROUNDS - 12)
    restored.restore(saved.state())
    after = [_learn(each, xs, CENTRE_ROUNDS - 3).tobytes() for each in (saved, restored)]
    assert after[0] == after[1]
    assert _centre(saved).tobytes() == _centre(restored).tobytes()
    assert _distance(saved) == _distance(restored)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("centre", np.array([0.0, 1.1e6])),
        ("distance", -1e-9),
        ("distance", 2.9e6),
        ("distance", 1),
    ],
)
def test_what_no_instances_have_is_refused(name: str, value: FloatArray | float) -> None:
    """A mean of instances has no entry beyond 1e6, and none is farther from another than twice."""
    inputs = BentInputs(2, 0, padded=4, seed=0)
    with pytest.raises(StateError, match=name):
        inputs.restore({**inputs.state(), name: value})


def test_the_farthest_that_instances_can_be_is_restored() -> None:
    """From one corner of what features may be to the other."""
    inputs = BentInputs(2, 0, padded=4, seed=0)
    farthest = 2e6 * math.sqrt(2.0)
    inputs.restore({"centre": np.array([-1e6, 1e6]), "distance": farthest})
    assert _distance(inputs) == farthest
