"""The contract's own code: the draw, labels, and what states begin with."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from learners import (
    Banditron,
    Distribution,
    InputError,
    ParameterError,
    StateError,
    draw,
    draw_each,
)
from learners.base import MAX_STATE, FloatArray, state_array, state_number


def slow_draw(probabilities: FloatArray, uniform: float) -> int:
    """Return the first label whose running sum exceeds `uniform`, else the last possible."""
    total = 0.0
    for label, probability in enumerate(probabilities.tolist()):
        total += probability
        if uniform < total:
            return label
    return max(label for label, p in enumerate(probabilities.tolist()) if p > 0)


@given(
    hnp.arrays(
        np.float64,
        st.sampled_from([1, 2, 5, 31, 32, 33, 64, 257]),
        elements=st.sampled_from([0.0, 1.0, 0.1, 1e-9, 3.0]),
    ).filter(lambda weights: weights.sum() > 0),
    st.floats(0, 1, exclude_max=True),
)
def test_draw_is_the_inverse_cdf(weights: FloatArray, uniform: float) -> None:
    """Small and large K, zeros anywhere: the plain loop's label, never one of probability 0."""
    probabilities = weights / weights.sum()
    label = draw(Distribution(probabilities, 0), uniform)
    assert type(label) is int
    assert label == slow_draw(probabilities, uniform)
    assert probabilities[label] > 0
    assert draw_each([Distribution(probabilities, 0)] * 2, [uniform, 0.0])[0] == label
    assert draw_each([Distribution(probabilities, 0)] * 201, [uniform] * 201) == [label] * 201


@pytest.mark.parametrize("n_labels", [3, 40])
def test_draw_where_rounding_leaves_a_gap(n_labels: int) -> None:
    """A sum a little below 1 still gives a label that can be drawn, not one of probability 0."""
    probabilities = np.zeros(n_labels)
    probabilities[0] = 0.5
    probabilities[1] = 0.5 - 1e-9
    assert draw(Distribution(probabilities, 0), np.nextafter(1, 0)) == 1
    for times in (1, 100):
        uniforms = [0.4, float(np.nextafter(1, 0))] * times
        drawn = draw_each([Distribution(probabilities, 0)] * len(uniforms), uniforms)
        assert drawn == [0, 1] * times


@given(
    # Few are drawn one by one, many at once.
    st.sampled_from([4, 40]).flatmap(
        lambda k: hnp.arrays(np.float64, (9, k), elements=st.floats(1e-9, 1.0))
    ),
    st.lists(st.floats(0, 1, exclude_max=True), min_size=9, max_size=9),
)
def test_draws_of_many_are_those_of_each(weights: FloatArray, uniforms: list[float]) -> None:
    """A batch draws what its instances would draw alone, to the last bit of the sums."""
    rows = weights / weights.sum(1, keepdims=True)
    # A number that is one of the sums tells whether they are added in the same order.
    uniforms[0] = min(float(np.add.accumulate(rows[0])[2]), 0.5)
    each = [Distribution(row, 0) for row in rows]
    drawn = draw_each(each, uniforms)
    assert drawn == [draw(*pair) for pair in zip(each, uniforms, strict=True)]
    assert {type(label) for label in drawn} == {int}
    assert draw_each([], []) == []


@pytest.mark.parametrize("uniform", [-1e-9, 1.0, 2, float("nan")])
def test_draw_refuses_what_is_no_uniform(uniform: float) -> None:
    """1.0 would silently favour the last label."""
    with pytest.raises(InputError, match=r"uniform: expected a number in \[0, 1\)"):
        draw(Distribution(np.array([0.5, 0.5]), 0), uniform)
    for times in (1, 100):
        with pytest.raises(InputError, match=r"uniforms?: expected (a number|numbers) in \[0, 1\)"):
            draw_each([Distribution(np.array([0.5, 0.5]), 0)] * 2 * times, [0.5, uniform] * times)


@pytest.mark.parametrize(("d", "k"), [(0, 2), (2, 0), (-1, 2), (2.0, 2), (True, 2), ("2", 2)])
def test_bad_shape_refused(d: int, k: int) -> None:
    """Counts are integers of at least 1; nothing is coerced."""
    with pytest.raises(ParameterError, match="expected an integer of at least 1"):
        Banditron(d, k)


def test_active_is_a_copy() -> None:
    """A caller cannot retire a label by writing to what it was shown."""
    learner = Banditron(2, 3)
    learner.active[0] = False
    assert learner.active.all()
    with pytest.raises(ValueError, match="read-only"):
        learner._active[0] = False


@pytest.mark.parametrize("label", [-1, 3, 1.0, True, None])
def test_bad_codes_refused(label: int) -> None:
    """Retiring and restoring take codes of labels that exist."""
    learner = Banditron(2, 3)
    for call in (learner.retire_label, learner.restore_label):
        with pytest.raises(InputError, match=r"label: expected a code in \[0, 3\)"):
            call(label)


def test_options_are_the_plain_keyword_arguments() -> None:
    """What `create` accepts is read off the constructor, not kept twice."""
    assert Banditron.option_names() == ("gamma",)
    assert Banditron.required_option_names() == ()


def test_state_array_says_what_is_wrong() -> None:
    """Type, dtype and shape of a saved array are checked, and it comes in C order."""
    assert state_array({"w": np.ones((3, 2)).T}, "w", (2, 3)).flags.c_contiguous
    bad = (np.ones(2), np.ones((2, 3), dtype=np.float32), "w", 1.0)
    for value in bad:
        with pytest.raises(StateError, match="state's w: expected a float64 array"):
            state_array({"w": value}, "w", (2, 3))


def test_state_array_that_is_not_finite_or_soon_is_not_refused() -> None:
    """NaN or infinity in a loaded model would poison every decision for ever."""
    for value in (np.nan, np.inf, -np.inf, 2 * MAX_STATE):
        with pytest.raises(StateError, match="state's w: expected finite numbers"):
            state_array({"w": np.array([[1.0, value]])}, "w", (1, 2))


def test_state_number_says_what_is_wrong() -> None:
    """A saved scalar is a finite float."""
    assert state_number({"m": 0.5}, "m") == 0.5
    for value in (1, "0.5", float("nan"), float("inf"), -2 * MAX_STATE, np.ones(1)):
        with pytest.raises(StateError, match="state's m: expected a finite float"):
            state_number({"m": value}, "m")


def test_state_without_active_label_refused() -> None:
    """A state that could choose nothing is damaged."""
    state = Banditron(2, 2).state()
    for active in (np.zeros(2, dtype=np.bool_), np.ones(2), np.ones((1, 2), dtype=np.bool_)):
        with pytest.raises(StateError, match="active"):
            Banditron.from_state({**state, "active": active})


def test_state_with_bad_option_refused() -> None:
    """Options of a state are checked as the constructor checks them."""
    state = Banditron(2, 2).state()
    with pytest.raises(StateError, match="gamma"):
        Banditron.from_state({**state, "gamma": 7.0})
