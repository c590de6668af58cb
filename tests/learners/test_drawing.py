"""The draw: the inverse of a distribution's sums, one by one and many at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from learners import Distribution, InputError, draw, draw_each
from learners.validation import FloatArray


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


@pytest.mark.parametrize("n_distributions", [0, 2, 200])
def test_draws_need_a_number_each(n_distributions: int) -> None:
    """One number for all of them would draw alike."""
    each = [Distribution(np.array([0.5, 0.5]), 0)] * n_distributions
    with pytest.raises(InputError, match=f"uniforms: expected as many .*{n_distributions}, got 1"):
        draw_each(each, [0.5])
