"""Who tells clicks better, instances or labels alone: when that turns, and the labels' shares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners import StateError
from learners.bandits.context_free import LEAD, ContextFree, sharpness_of

CHANCES = st.floats(0.0, 1.0)
#: Label, bit, and the chance of a click by the instance: as it is and cautiously.
Round = tuple[int, int, tuple[float, float]]
ROUNDS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 1), st.tuples(CHANCES, CHANCES)), max_size=40
)


def heard(rounds: list[Round]) -> ContextFree:
    """Return one that has heard of them."""
    usual = ContextFree(3)
    for label, bit, (chance, cautious) in rounds:
        usual.observe(label, bit, chance=chance, cautious=cautious)
    return usual


@given(ROUNDS, st.integers(1, 60))
def test_equals_slow_twin(some: list[Round], times: int) -> None:
    """Sums of what each bit says, within their bounds, and who leads by them."""
    rounds, leads, sums, expected = some * times, False, [0.0, 0.0], 0.0
    for place, (label, bit, (chance, cautious)) in enumerate(rounds):
        before = [b for shown, b, _ in rounds[:place] if shown == label]
        c = (sum(before) + 0.5) / (len(before) + 1)
        due = (sum(b for _, b, _ in rounds[:place]) + 1) / (expected + 1)
        for i, m in enumerate((chance, min(cautious * due, 1.0))):
            variance = max(c * (1 - c), m * (1 - m), 0.05)
            better = ((bit - m) ** 2 - (bit - c) ** 2) / (2 * variance)
            sums[i] = min(max(sums[i] + better, -100.0), 20.0)
        expected += cautious
        if abs(min(sums) - (0.0 if leads else 20.0)) < 1e-9 and min(sums) not in (0.0, 20.0):
            return  # Rounding decides.
        leads = min(sums) > 0 if leads else min(sums) == 20
    usual = heard(rounds)
    assert usual.leads == leads
    found = np.asarray(usual.state()["usual_leads"])
    np.testing.assert_allclose(found, [leads, *sums, expected], rtol=1e-9, atol=1e-9)


def test_labels_lead_only_against_both_chances() -> None:
    """Protects instances that tell, and whose scores are far too sure, or too unsure."""
    sure, even = 0.99, 0.5
    for chances, leads in (((sure, 0.01), True), ((sure, even), False), ((even, 0.01), False)):
        bits = [1] * 10 + [0, 1] * 100
        chance, cautious = chances
        rounds = [(0, bit, (chance, cautious if bit else 1.0 - cautious)) for bit in bits]
        assert heard(rounds).leads == leads


def test_chances_that_are_too_high_for_all_are_no_worse() -> None:
    """Protects who is not told that most clicks are missed: its order of instances is right."""
    rng, usual = np.random.default_rng(0), ContextFree(3)
    for _ in range(3_000):
        likely = float(rng.choice([0.1, 0.9]))
        bit = int(rng.random() < 0.2 * likely)
        usual.observe(int(rng.integers(3)), bit, chance=likely, cautious=likely)
        assert not usual.leads


def test_one_good_chance_brings_instances_back() -> None:
    """Protects from labels that lead for good: what instances tell by then counts."""
    usual = heard([(0, i % 2, (0.99, 0.99 * (i % 2 == 0))) for i in range(100)])
    turns = [usual.leads]
    for i in range(400):
        chance = 0.9 if i % 2 else 0.1
        usual.observe(0, i % 2, chance=chance, cautious=1.0 - chance)
        turns.append(usual.leads)
    assert turns[0]
    # Each bit takes (.25 - .01) / .5 of what is 20.
    assert 38 < turns.index(False) < 46
    assert not turns[-1]


def test_instances_that_told_are_not_given_up_at_once() -> None:
    """Protects the notice of a change: labels that change places must be seen to be shown."""
    usual = heard([(0, i % 2, (0.9, 0.9) if i % 2 else (0.1, 0.1)) for i in range(1_000)])
    turns = []
    for i in range(1_000):
        chance = 0.1 if i % 2 else 0.9
        usual.observe(0, i % 2, chance=chance, cautious=chance)
        turns.append(usual.leads)
    assert 60 < turns.index(True) < 300


@given(ROUNDS, st.floats(0.1, 1.0), st.booleans())
def test_shares_are_chances_with_the_gaps_of_the_clicks(
    rounds: list[Round], beta: float, some: bool
) -> None:
    """Exactly one label is right; what one is ahead by shows in clicks as it does with beta."""
    usual, codes = heard(rounds), np.array([0, 2]) if some else None
    shares = usual.chances(0.0, beta, codes)
    assert shares.sum() == pytest.approx(1.0)
    clicked = np.array(
        [
            (sum(bit for shown, bit, _ in rounds if shown == label) + 0.5)
            / (sum(shown == label for shown, _, _ in rounds) + 1)
            for label in range(3)
        ]
    )
    able = [0, 2] if some else [0, 1, 2]
    assert not np.delete(shares, able).any()
    for one in able:
        for other in able:
            gap = (clicked[one] - clicked[other]) / beta
            if min(shares[one], shares[other]) > 1e-5:
                assert shares[one] - shares[other] == pytest.approx(gap, abs=1e-5)
            elif shares[one] > 1e-5:
                assert gap >= shares[one] - 1e-5
            # Also of those that are hardly ever right one is the better, where only they may be.
            if clicked[one] > clicked[other] + 1e-9:
                assert shares[one] > shares[other] > 0


def test_a_new_label_is_likely_and_all_can_be_forgotten() -> None:
    """Protects new labels from never being tried, and clicks after a change from those before."""
    usual = heard([(0, int(i % 3 == 0), (0.99, float(i % 3 > 0))) for i in range(100)])
    usual.add(1)
    assert usual.leads
    assert usual.chances(0.0, 0.5, None)[3] > usual.chances(0.0, 0.5, None)[0]
    usual.begin_anew()
    assert not usual.leads
    assert usual.chances(0.0, 0.5, None).tolist() == pytest.approx([0.25] * 4)


def test_new_labels_do_not_end_the_lead() -> None:
    """That they are tried because they are new tells nothing against what is usual."""
    usual = heard([(i % 3, int(i % 7 == 0), (0.99, float(i % 7 > 0))) for i in range(300)])
    usual.add(60)
    for label in range(3, 63):
        usual.observe(label, 0, chance=0.2, cautious=0.2)
        assert usual.leads


def test_shares_may_be_corrected_by_each_label_s_rates() -> None:
    """A label with many false clicks is not usual, where somebody said so."""
    # Two thirds of the first one's rounds, a third of the second one's, none of the third one's.
    clicked = [(i % 3, int(i % 9 in (0, 3, 1)), (0.5, 0.5)) for i in range(900)]
    usual = heard(clicked)
    assert usual.chances(0.0, 0.8, None).argmax() == 0
    false = np.array([0.6, 0.1, 0.1])
    assert usual.chances(false, 0.9 - false, None).argmax() == 1


def test_caution_grows_with_doubt() -> None:
    """As it is with no variance; and half of it where .1 s^2 v is 3."""
    assert sharpness_of(1.5, 0.0) == 1.5
    assert sharpness_of(2.0, 7.5) == 1.0


def test_state_is_all_of_it() -> None:
    """What was saved goes on as it was, and is no part of what goes on."""
    usual = heard([(i % 3, i % 2, (0.99, 0.7)) for i in range(101)])
    state, again = usual.state(), ContextFree(3)
    again.restore(state)
    for each in (usual, again):
        each.observe(1, 1, chance=0.9, cautious=0.2)
    assert again.state().keys() == state.keys()
    for name, value in usual.state().items():
        assert np.array_equal(again.state()[name], value)
    assert np.sum(state["usual_rounds"]) == 101


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("usual_rounds", np.zeros(2)),
        ("usual_clicks", np.array([0.0, 2.0, 0.0])),
        ("usual_clicks", np.array([0.0, -1.0, 0.0])),
        ("usual_before", np.array([0.5, 1.5, 0.5])),
        ("usual_leads", np.array([0.5, 0.0, 0.0, 0.0])),
        ("usual_leads", np.array([0.0, 0.0, LEAD + 1, 0.0])),
        ("usual_leads", np.array([1.0, -101.0, 0.0, 0.0])),
        ("usual_leads", np.array([1.0, 0.0, 0.0, -1.0])),
        ("usual_leads", np.array([1.0, 0.0, 0.0])),
    ],
)
def test_refuses_a_state_that_cannot_be(name: str, value: Any) -> None:
    """Protects from a damaged snapshot."""
    state = heard([(1, 1, (0.5, 0.5))]).state() | {name: value}
    with pytest.raises(StateError, match=f"state's {name}"):
        ContextFree(3).restore(state)


def test_a_label_that_was_never_shown_is_tried_where_all_others_fail() -> None:
    """It is as likely as not to be clicked, however seldom others are: so it is the likeliest."""
    usual = ContextFree(2)
    for i in range(400):
        usual.observe(i % 2, int(i % 20 == i % 2), chance=0.9, cautious=0.6)
    usual.add(1)
    chances = usual.chances(0.0, 1.0, None)
    # Shares of (20 + .5) / 201 twice, and of .5: less what they have too much or too little of.
    assert chances.argmax() == 2
    assert 0.5 < chances[2] < 1.0
