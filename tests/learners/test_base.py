"""The contract's own code: labels, and what states begin with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from learners import Banditron, Forward, InputError, ParameterError, StateError


@pytest.mark.parametrize(("d", "k"), [(0, 2), (2, 0), (-1, 2), (2.0, 2), (True, 2), ("2", 2)])
def test_bad_shape_refused(d: int, k: int) -> None:
    """Counts are integers of at least 1; nothing is coerced."""
    with pytest.raises(ParameterError, match="expected an integer of at least 1"):
        Banditron(d, k)


@pytest.mark.parametrize(("d", "k"), [(10**9, 1), (1, 10**400), (10**5, 2501)])
def test_shape_without_end_refused(d: int, k: int) -> None:
    """More weights than memory are a wrong number, in a state as well, and no crash."""
    name = "n_labels" if d <= 10**5 else "n_features"
    with pytest.raises(ParameterError, match=f"{name}: expected an integer of at most "):
        Banditron(d, k)
    for kind in (Banditron, Forward):
        with pytest.raises(StateError, match="n_features: expected an integer of at most "):
            kind.from_state({**kind(2, 3).state(), "n_features": 10**9})


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


def test_the_last_active_label_stays() -> None:
    """A model must have something to show; to retire a label again changes nothing."""
    learner = Banditron(2, 2)
    for _ in range(2):
        learner.retire_label(0)
        assert learner.active.tolist() == [False, True]
    with pytest.raises(InputError, match="label 1 is the last active one"):
        learner.retire_label(1)
    assert learner.active.tolist() == [False, True]


def test_allowed_may_be_any_iterable_of_codes() -> None:
    """An iterator is not used up by the check; what is none at all is named."""
    learner = Banditron(1, 3, gamma=0.3)
    allowed: Any
    for allowed in ((1, 2), {1, 2}, np.array([1, 2]), (code for code in (1, 2))):
        assert learner.distribution(np.ones(1), allowed).greedy == 1
    allowed = 1
    with pytest.raises(InputError, match="allowed: expected codes of labels, or None, got 1"):
        learner.distribution(np.ones(1), allowed)


def test_options_are_the_plain_keyword_arguments() -> None:
    """What `create` accepts is read off the constructor, not kept twice."""
    assert Banditron.option_names() == ("gamma",)
    assert Banditron.required_option_names() == ()


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
