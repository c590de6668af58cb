"""The alarm over clicks that stay away: when it comes, what it is taken for, and its state."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners import StateError
from learners.bandits.shortfall import LEAST_ROUNDS, LEAST_RUN, Change, Shortfall

#: Label, bit, and the chance of a click that was expected; false clicks are at .05.
Round = tuple[int, int, float]
FALSE = 0.05
N_LABELS = 3


def rounds_of(expected: float, share: float, count: int, seed: int) -> list[Round]:
    """Return bits of which `share` are 1, each with the chance that was `expected`."""
    rng = np.random.default_rng(seed)
    bits, labels = rng.random(count) < share, rng.integers(N_LABELS, size=count)
    return [(int(label), int(bit), expected) for label, bit in zip(labels, bits, strict=True)]


def changes(shortfall: Shortfall, rounds: list[Round]) -> list[tuple[int, Change]]:
    """Return the places of the rounds that are an alarm, and what it is taken for."""
    found = (
        (place, shortfall.observe(label, bit, chance=chance, false=min(FALSE, chance)))
        for place, (label, bit, chance) in enumerate(rounds)
    )
    return [(place, change) for place, change in found if change is not None]


ROUNDS = st.lists(
    st.tuples(st.integers(0, N_LABELS - 1), st.integers(0, 1), st.floats(0, 1)), max_size=60
)


@given(ROUNDS, st.integers(1, 40))
def test_equals_slow_twin(some: list[Round], times: int) -> None:
    """How far all that lacked stands above its lowest point is what counts, at clicks only."""
    shortfall, rounds, found = Shortfall(), some * times, changes(Shortfall(), some * times)
    total, lowest, start, since, was_noise, expected = 0.0, 0.0, 0, 0, False, []
    for place, (_, bit, chance) in enumerate(rounds):
        if place < 1000:
            start, since = place + 1, since + 1
            continue
        likely = min(max(chance - 0.07, 0.5), 0.93)
        total += (chance - bit - 0.07) * 0.25 / (likely * (1 - likely))
        if total <= lowest:
            lowest, start = total, place + 1
        since += 1
        if abs(total - lowest - 40.0) < 1e-6:
            return  # Rounding decides.
        soon = since < (500 if was_noise else 1000) or place + 1 - start < 60
        if bit and total - lowest > 40.0 and not soon:
            change = taken_for(rounds[start : place + 1], again=was_noise and since < 2000)
            expected.append((place, change))
            was_noise = change is Change.NOISE
            total, lowest, start, since = 0.0, 0.0, place + 1, 0
    assert [place for place, _ in found] == [place for place, _ in expected]
    assert all(mine in (None, its) for (_, its), (_, mine) in zip(found, expected, strict=True))
    assert changes(shortfall, rounds) == found
    assert shortfall.alarms == len(found)


def taken_for(run: list[Round], *, again: bool) -> Change | None:
    """Return what these rounds with lacking clicks are taken for; None where rounding decides."""
    came, due, rounds = np.zeros((3, N_LABELS))
    for label, bit, chance in run:
        came[label] += bit - min(FALSE, chance)
        due[label] += chance - min(FALSE, chance)
        rounds[label] += 1
    left = came.sum() / due.sum()
    square = np.sum((came - left * due) ** 2 / np.maximum(rounds, 1.0) * 4.0)
    free = np.count_nonzero(rounds) - 1
    most = free + 2 * np.sqrt(free * 3) + 6
    if abs(left - 0.4) < 1e-6 or abs(square - most) < 1e-6:
        return None
    return Change.NOISE if left > 0.4 and square < most and not again else Change.LABELS


@pytest.mark.parametrize(
    ("before", "after", "within"), [(0.9, 0.5, 90), (0.98, 0.83, 600), (0.5, 0.4, 2_500)]
)
def test_lacking_clicks_are_noticed_soon(before: float, after: float, within: int) -> None:
    """Protects what is promised: 40 clicks beyond the allowance are enough, or some that had to."""
    for seed in range(5):
        rounds = rounds_of(before, before, 5_000, seed) + rounds_of(before, after, 5_000, seed)
        (place, _), *_ = changes(Shortfall(), rounds)
        assert 5_000 < place < 5_000 + within


def test_what_was_hardly_expected_hides_nothing() -> None:
    """Protects whoever begins where most clicks are missed: half of the rounds lack .2 of them."""
    pairs = zip(rounds_of(0.12, 0.1, 3_000, 0), rounds_of(0.5, 0.3, 3_000, 1), strict=True)
    assert changes(Shortfall(), [each for pair in pairs for each in pair])


@pytest.mark.parametrize("share", [0.02, 0.2, 0.5, 0.9])
def test_what_was_expected_is_no_alarm(share: float) -> None:
    """Protects what was learned: none in 200,000 rounds, nor where 4 % of clicks stay away."""
    assert changes(Shortfall(), rounds_of(share + 0.04, share, 200_000, 1)) == []


def test_the_first_rounds_do_not_count() -> None:
    """A learner that has just begun expects too much: what lacks then must not add up."""
    rounds = rounds_of(0.9, 0.5, 1_000, 0) + rounds_of(0.9, 0.9, 5_000, 0)
    assert changes(Shortfall(), rounds) == []


def test_what_lacks_counts_from_the_round_after_the_first_thousand() -> None:
    """Protects the fold: the same alarm in the same round, when 60 rounds tell of it."""
    rounds = [(0, 0, 1.0)] * (LEAST_ROUNDS + LEAST_RUN - 1) + [(0, 1, 1.0)]
    assert changes(Shortfall(), rounds) == [(LEAST_ROUNDS + LEAST_RUN - 1, Change.LABELS)]
    assert changes(Shortfall(), rounds[1:]) == []


def test_a_dead_counter_is_no_alarm() -> None:
    """Without any click there is nothing to learn from; the first one that comes again counts."""
    shortfall = Shortfall()
    assert changes(shortfall, rounds_of(0.9, 0.9, 2_000, 0) + rounds_of(0.9, 0.0, 5_000, 0)) == []
    assert shortfall.observe(0, 1, chance=0.9, false=FALSE) is Change.LABELS


def test_silent_where_not_even_false_clicks_come() -> None:
    """Twenty of them, at .05 each, take 400 rounds; its state says so, too; a click ends it."""
    shortfall = Shortfall()
    # After so many clicks none lacks.
    changes(shortfall, rounds_of(0.9, 1.0, 2_000, 0))
    changes(shortfall, rounds_of(0.9, 0.0, 399, 0))
    assert not shortfall.silent
    changes(shortfall, rounds_of(0.9, 0.0, 2, 0))
    assert shortfall.silent
    again = Shortfall()
    again.restore(shortfall.state(N_LABELS), N_LABELS)
    assert again.silent
    shortfall.end_silence()
    assert not shortfall.silent
    assert not np.any(shortfall.state(N_LABELS)["shortfall_run"])
    assert shortfall.observe(0, 1, chance=0.9, false=FALSE) is None
    assert not shortfall.silent


def test_not_silent_before_an_alarm_is_due() -> None:
    """Nearly all clicks are false, and of 27 rounds none was clicked: 40 lack no sooner."""
    shortfall = Shortfall()
    changes(shortfall, rounds_of(0.9, 1.0, LEAST_ROUNDS, 0))
    for _ in range(27):
        assert shortfall.observe(0, 0, chance=0.9, false=0.85) is None
        assert not shortfall.silent
    for _ in range(3):
        shortfall.observe(0, 0, chance=0.9, false=0.85)
    assert shortfall.silent


def test_not_silent_where_false_clicks_go_on() -> None:
    """Where other labels are right, or a tenth of the clicks still comes, that is what changed."""
    for seed in range(20):
        shortfall = Shortfall()
        changes(shortfall, rounds_of(0.9, 0.9, 2_000, seed))
        for label, bit, chance in rounds_of(0.9, FALSE, 600, seed + 50):
            assert not shortfall.silent
            if shortfall.observe(label, bit, chance=chance, false=FALSE):
                break


@pytest.mark.parametrize(
    ("after", "change"), [(0.55, Change.NOISE), (0.1, Change.LABELS), (FALSE, Change.LABELS)]
)
def test_noise_leaves_some_of_the_clicks(after: float, change: Change) -> None:
    """Where missed clicks rose to .4 most still come; where other labels are right, false ones."""
    for seed in range(5):
        rounds = rounds_of(0.9, 0.9, 2_000, seed) + rounds_of(0.9, after, 200, seed)
        assert [each for _, each in changes(Shortfall(), rounds)] == [change]


def test_noise_takes_from_all_labels() -> None:
    """One label of three that gets false clicks only is wrong, though most clicks still come."""
    for seed in range(5):
        before, after = rounds_of(0.9, 0.9, 2_000, seed), rounds_of(0.9, 0.9, 400, seed + 10)
        wrong = rounds_of(0.9, FALSE, 400, seed + 20)
        mixed = [bad if good[0] == 2 else good for good, bad in zip(after, wrong, strict=True)]
        mixed = [(good[0], *each[1:]) for good, each in zip(after, mixed, strict=True)]
        assert [each for _, each in changes(Shortfall(), before + mixed)] == [Change.LABELS]


@pytest.mark.parametrize(
    ("shares", "false", "change"),
    [
        ([0.43, 0.43], 0.0, Change.NOISE),
        ([0.37, 0.37], 0.0, Change.LABELS),
        # The second label lies 2.5, and 5, standard errors below both together.
        ([0.8, 0.5], 0.0, Change.NOISE),
        ([1.0, 0.5], 0.0, Change.LABELS),
        # The false ones are no part of what is left, nor of what was due.
        ([0.72, 0.72], 0.5, Change.NOISE),
        ([0.68, 0.68], 0.5, Change.LABELS),
    ],
)
def test_what_is_left_decides(shares: list[float], false: float, change: Change) -> None:
    """Shares of clicks that are spread evenly over the rounds of two labels, one round each."""
    shortfall, found = Shortfall(), []
    for i in range(3_000):
        share = shares[i % 2] if i >= 2_000 else 1.0
        bit = int((i // 2 + 1) * share) - int(i // 2 * share)
        found.append(shortfall.observe(i % 2, bit, chance=1.0, false=false))
    assert next(filter(None, found)) is change


def test_only_false_clicks_were_due() -> None:
    """Of a label that cannot be right nothing is left, and nothing is divided by it."""
    shortfall = Shortfall()
    changes(shortfall, rounds_of(0.9, 1.0, LEAST_ROUNDS, 0))
    for _ in range(60):
        assert shortfall.observe(0, 0, chance=0.9, false=0.9) is None
    assert shortfall.observe(0, 1, chance=0.9, false=0.9) is Change.LABELS


def test_another_alarm_soon_was_no_noise() -> None:
    """Noise that was taken account of and still lacks clicks was something else."""
    rounds = rounds_of(0.9, 0.9, 2_000, 0) + rounds_of(0.9, 0.55, 1_000, 0)
    assert [change for _, change in changes(Shortfall(), rounds)] == ["noise", "labels"]
    pause = rounds_of(0.9, 0.9, 2_000, 1)
    rounds = rounds[:2_200] + pause + rounds_of(0.9, 0.55, 200, 2)
    assert [change for _, change in changes(Shortfall(), rounds)] == ["noise", "noise"]


def test_alarms_keep_their_distance() -> None:
    """A learner that begins anew gets the rounds that it needs."""
    found = changes(Shortfall(), rounds_of(1.0, 0.2, 10_000, 0))
    assert {change for _, change in found} == {Change.LABELS}
    assert len(found) > 5
    assert np.diff([place for place, _ in found]).min() >= LEAST_ROUNDS


@pytest.mark.parametrize("order", list(itertools.permutations(range(N_LABELS))))
def test_the_order_in_which_labels_were_shown_decides_nothing(order: tuple[int, ...]) -> None:
    """Protects workers that have loaded a snapshot, where labels stand in the order of codes.

    In these two runs rounding decides, and as it adds up in that order.
    """
    silent, noisy = Shortfall(), Shortfall()
    silent._sum, came = 50.0, (-0.2, -0.4, -19.400000000000002)
    silent._run = {label: (20.0, came[label], 20.0) for label in order}
    assert silent.silent
    runs = ((99.0, 0.6, 1.5), (99.0, 8.0, 20.0), (99.0, 8.88, 22.2))
    noisy._run = {label: runs[label] for label in order}
    assert noisy._taken_for() is Change.LABELS


@pytest.mark.parametrize("cut", [1_010, 1_100, 1_300])
def test_goes_on_from_a_state(cut: int) -> None:
    """Protects the fold: sum, rounds, run and count go on where they were."""
    rounds = rounds_of(0.9, 0.9, 1_000, 0) + rounds_of(0.9, 0.55, 3_000, 0)
    whole, half = Shortfall(), Shortfall()
    changes(whole, rounds[:cut])
    half.restore(whole.state(N_LABELS), N_LABELS)
    assert changes(half, rounds[cut:]) == changes(whole, rounds[cut:])
    assert half.alarms == whole.alarms > 1


@pytest.mark.parametrize(
    "numbers",
    [
        [-1, 0, 0, 0],
        [0, 0.5, 0, 0],
        [0, 2_001, 0, 0],
        [0, -1, 0, 0],
        [0, 0, 2, 0],
        [0, 0, 0, -1],
        [0, 0, 0, 2**54],
    ],
)
def test_what_is_no_state_is_refused(numbers: list[float]) -> None:
    """Sums below 0, and counts that are none, are named."""
    state = Shortfall().state(2) | {"shortfall": np.array(numbers, dtype=np.float64)}
    with pytest.raises(StateError, match="shortfall:"):
        Shortfall().restore(state, 2)


@pytest.mark.parametrize("row", [[-1, 0, 0], [1, 2, 0], [1, -2, 0], [1, 0, -1]])
def test_what_is_no_run_is_refused(row: list[float]) -> None:
    """So are more clicks than rounds, or than false ones can be lacking; fewer due than none."""
    state = Shortfall().state(2) | {"shortfall_run": np.array([[0, 0, 0], row], dtype=np.float64)}
    with pytest.raises(StateError, match=rf"shortfall_run\[1\]: .*, got \[{float(row[0])}"):
        Shortfall().restore(state, 2)


def test_labels_without_any_click_are_in_a_state() -> None:
    """Where no click is false, none at all leaves 0 of them: the rounds and clicks due stay."""
    saved = Shortfall()
    for _ in range(LEAST_ROUNDS):
        saved.observe(1, 1, chance=0.9, false=0.0)
    for _ in range(30):
        saved.observe(1, 0, chance=0.9, false=0.0)
    again = Shortfall()
    again.restore(saved.state(2), 2)
    kept, run = (np.asarray(each.state(2)["shortfall_run"]) for each in (again, saved))
    assert kept.tolist() == run.tolist()
    assert kept[1, 0] == 30.0
