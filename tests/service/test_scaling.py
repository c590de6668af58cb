"""Scaling of instances: Welford's update, and what it remembers."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from learners import StateError
from learners.validation import FloatArray
from service.features import make_encoder
from service.scaling import MOST_INSTANCES, Scaling, Standard, make_scaling
from service.spec import ModelSpec

SIZE = 4
NUMBERS = np.ones(SIZE, dtype=np.bool_)
ROWS = arrays(np.float64, (12, SIZE), elements=st.floats(-1e6, 1e6, width=32))


def scaling_of(name: str) -> Scaling:
    """Return the scaling of this name."""
    learner = {"kind": "banditron", "gamma": 0.1}
    features = {"type": "dense", "size": SIZE}
    spec = {"name": "m", "learner": learner, "labels": ["a"], "features": features}
    return make_scaling(ModelSpec.model_validate(spec | {"scaling": name}), NUMBERS)


def observed(rows: FloatArray) -> Standard:
    """Return standardisation that has seen these rows."""
    scaling = Standard(NUMBERS)
    for row in rows:
        scaling.observe(row)
    return scaling


@settings(deadline=None)
@given(ROWS)
def test_standardisation_is_numpys(rows: FloatArray) -> None:
    """The running mean and deviation are those of all instances so far."""
    scaling = observed(rows)
    state: Any = scaling.state()
    largest = np.abs(rows).max() + 1e-300
    np.testing.assert_allclose(state["mean"], rows.mean(axis=0), rtol=0, atol=1e-12 * largest)
    variance = state["squares"] / len(rows)
    np.testing.assert_allclose(variance, rows.var(axis=0), rtol=1e-6, atol=1e-12 * largest**2)


def test_scaled_instances_have_mean_0_and_deviation_1() -> None:
    """What standardisation is for, on a thousand instances in odd units."""
    rows = np.random.default_rng(1).normal([0, 5, -3e5, 1], [1, 1e-3, 2e4, 40], (1000, SIZE))
    scaled = observed(rows).apply(rows)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(scaled.std(axis=0), 1, atol=1e-9)


def test_categories_stay_0_or_1() -> None:
    """A value that hardly anybody has must not outweigh all else that is known of who has it."""
    category = {"name": "page", "type": "category", "values": ["home", "cart"]}
    numbers = [{"name": name, "type": "number"} for name in ("age", "price")]
    features = {"type": "named", "fields": [numbers[0], category, numbers[1]]}
    spec = ModelSpec.model_validate({"name": "m", "labels": ["a"], "features": features})
    scaling = make_scaling(spec, make_encoder(spec).numbers)
    rows = np.random.default_rng(0).normal([30.0, 0, 0, 5e3], [10.0, 0, 0, 1e3], (1000, SIZE))
    rows[:, 1] = np.arange(1000) == 7
    rows[:, 2] = 1.0 - rows[:, 1]
    assert scaling.apply(rows[7]).tolist() == [0.0, 1.0, 0.0, 0.0]
    for row in rows:
        scaling.observe(row)
    scaled = scaling.apply(rows)
    np.testing.assert_array_equal(scaled[:, 1:3], rows[:, 1:3])
    np.testing.assert_allclose(scaled[:, [0, 3]].mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(scaled[:, [0, 3]].std(axis=0), 1, atol=1e-9)


def test_what_has_not_varied_is_0() -> None:
    """A constant feature says nothing, and is never divided by 0."""
    scaling = Standard(NUMBERS)
    assert scaling.apply(np.full(SIZE, 7.0)).tolist() == [0.0] * SIZE
    scaling.observe(np.full(SIZE, 7.0))
    scaling.observe(np.array([7.0, 7.0, 7.0, 9.0]))
    assert scaling.apply(np.array([8.0, 1.0, 0.0, 9.0])).tolist() == [0.0, 0.0, 0.0, 1.0]


@settings(deadline=None)
@given(ROWS)
def test_a_folded_instance_is_bounded(rows: FloatArray) -> None:
    """No entry of an instance that is folded exceeds the root of the number of instances."""
    scaling = Standard(NUMBERS)
    for count, row in enumerate(rows, 1):
        scaling.observe(row)
        assert (np.abs(scaling.apply(row)) <= np.sqrt(count) * (1 + 1e-6)).all()


def test_an_instance_far_out_is_held_in() -> None:
    """An instance that was only asked about once was a 500: no learner takes 1e9 deviations."""
    scaling = observed(np.array([[0.0] * SIZE, [1e-3] * SIZE]))
    scaled = scaling.apply(np.array([1e6, -1e6, 0.0, 1e-3]))
    assert scaled.tolist()[:2] == [1e6, -1e6]
    assert np.abs(scaled[2:]).max() <= 1.0


@settings(deadline=None)
@given(ROWS)
def test_saved_and_restored_goes_on_bit_for_bit(rows: FloatArray) -> None:
    """A restored standardisation is the one that was saved."""
    scaling, restored = observed(rows[:6]), Standard(NUMBERS)
    restored.restore(scaling.state())
    for row in rows[6:]:
        scaling.observe(row)
        restored.observe(row)
        assert scaling.apply(row).tobytes() == restored.apply(row).tobytes()


def test_rows_are_scaled_as_single_instances() -> None:
    """A batch is scaled to the bits of its instances one by one."""
    rows = np.random.default_rng(2).normal(size=(50, SIZE))
    for scaling in (observed(rows), scaling_of("unit"), scaling_of("none")):
        single = b"".join(scaling.apply(row).tobytes() for row in rows)
        assert scaling.apply(rows).tobytes() == single


def test_unit_divides_by_the_norm() -> None:
    """Every instance but zero gets length 1, and nothing is remembered."""
    scaling = scaling_of("unit")
    assert scaling.apply(np.array([3.0, 0.0, 4.0, 0.0])).tolist() == [0.6, 0.0, 0.8, 0.0]
    assert scaling.apply(np.zeros(SIZE)).tolist() == [0.0] * SIZE
    assert scaling.state() == {}


def test_the_most_instances_are_no_end() -> None:
    """Protects a model that was imported with so many from a state that nobody can load."""
    state = observed(np.ones((3, SIZE))).state() | {"count": MOST_INSTANCES}
    scaling, copy = Standard(NUMBERS), Standard(NUMBERS)
    scaling.restore(state)
    scaling.observe(np.ones(SIZE))
    copy.restore(scaling.state())
    assert copy.state()["count"] == MOST_INSTANCES


@pytest.mark.parametrize(
    "damage",
    [
        {"count": -1},
        {"count": 1.5},
        {"count": np.zeros(2)},
        {"mean": np.zeros(SIZE + 1)},
        {"mean": np.zeros(SIZE, dtype=np.float32)},
        {"squares": np.zeros((1, SIZE))},
        {"squares": -np.ones(SIZE)},
        {"squares": np.full(SIZE, 1e15)},
        {"mean": np.full(SIZE, 1e7)},
        {"count": 2**60},
        {"squares": None},
    ],
)
def test_a_damaged_state_is_refused(damage: dict[str, Any]) -> None:
    """An imported state of another shape was a 500 at the next prediction.

    One with numbers that no instances lead to would grow beyond what a snapshot may hold.
    """
    state: Any = observed(np.ones((3, SIZE))).state()
    scaling = Standard(NUMBERS)
    with pytest.raises(StateError):
        scaling.restore({k: v for k, v in (state | damage).items() if v is not None})
    assert scaling.state()["count"] == 0
