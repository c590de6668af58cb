"""The estimates: worked numbers, no bias under noise, and intervals that hold the truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from learners import InputError
from learners.evaluation import (
    AssumedRates,
    Evaluation,
    Rounds,
    Value,
    effective_size,
    weights_of,
)
from learners.noise import NoiseRates
from tests.learners.evaluation.logs import N_LABELS, RIGHT, clean, make, per_label, target

#: Two labels at propensities 1/2 and 1/4; rates of each label's own.
ROUNDS = Rounds(
    np.zeros((3, 1)), np.array([0, 1, 1]), np.array([0.5, 0.25, 0.25]), np.array([1, 0, 1])
)
RATES = AssumedRates(np.array([0.2, 0.0]), np.array([0.3, 0.5]), np.zeros(2), np.zeros(2))
#: Corrected bits: (1 - .2) / .5 = 1.6, 0, 2.
POLICY = np.array([[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]])


def test_ips_by_hand() -> None:
    """Weights 1, 3, 0 times corrected bits 1.6, 0, 2, over three rounds."""
    assert Evaluation(ROUNDS, RATES).ips(weights_of(ROUNDS, POLICY)).value == pytest.approx(1.6 / 3)


def test_snips_by_hand() -> None:
    """The same sum over the weights' sum 4."""
    found = Evaluation(ROUNDS, RATES).snips(weights_of(ROUNDS, POLICY))
    assert found is not None
    assert found.value == pytest.approx(1.6 / 4)


def test_doubly_robust_by_hand() -> None:
    """Predictions .5 and .2: direct .35, .275, .5; corrections 1.1, -.6, 0."""
    evaluation = Evaluation(ROUNDS, RATES)
    evaluation.predicted = predicted = np.tile([0.5, 0.2], (3, 1))
    found = evaluation.doubly_robust(weights_of(ROUNDS, POLICY), (POLICY * predicted).sum(1))
    assert found.value == pytest.approx((1.45 - 0.325 + 0.5) / 3)


def test_gain_by_hand() -> None:
    """The doubly robust terms less the bits 1.6, 0, 2 that were shown; its bits weigh w - 1."""
    rates = AssumedRates(RATES.rho_0, RATES.rho_1, np.array([0.0, 0.1]), np.zeros(2))
    evaluation = Evaluation(ROUNDS, rates)
    evaluation.predicted = predicted = np.tile([0.5, 0.2], (3, 1))
    found = evaluation.gain(weights_of(ROUNDS, POLICY), (POLICY * predicted).sum(1))
    terms = np.array([1.45 - 1.6, -0.325, 0.5 - 2.0])
    assert found.value == pytest.approx(terms.mean())
    # Weights 0, 2, -1. What was shown is nearly always right, and label 1's bits are 0 or 2.
    squares = float(((terms - terms.mean()) ** 2).sum()) + (2 * 1.0) ** 2
    # Slopes of rho_0 of label 1: 2 (0 - 1) / .5 and -(2 - 1) / .5, over three rounds.
    assert found.error == pytest.approx(np.sqrt(squares / 6 + (-6 / 3 * 0.1) ** 2))


def test_gain_of_another_label_in_one_round() -> None:
    """The bit that surprises most counts in a round whose label the policy does not show."""
    evaluation = Evaluation(ROUNDS, RATES)
    evaluation.predicted = np.full((3, 2), 0.5)
    found = evaluation.gain(np.array([0.0, 1.0, 1.0]), np.full(3, 0.5))
    # Terms .5 - 1.6, 0, 0, and the farthest bit of weight -1.
    squares = (1.1 * 2 / 3) ** 2 + 2 * (1.1 / 3) ** 2 + 1.4**2
    assert (found.value, found.error) == pytest.approx((-1.1 / 3, np.sqrt(squares / 6)))


def test_gain_over_another_policy() -> None:
    """Protects who compares two that were both asked later than what was shown."""
    evaluation = Evaluation(ROUNDS, RATES)
    evaluation.predicted = predicted = np.tile([0.5, 0.2], (3, 1))
    mine = weights_of(ROUNDS, POLICY), (POLICY * predicted).sum(1)
    other = np.full((3, 2), 0.5)
    others = weights_of(ROUNDS, other), (other * predicted).sum(1)
    found = evaluation.gain(*mine, over=others)
    values = [evaluation.doubly_robust(*each).value for each in (mine, others)]
    assert found.value == pytest.approx(values[0] - values[1])
    assert found.error != evaluation.gain(*mine).error
    assert evaluation.gain(*mine, over=mine) == (0.0, 0.0, 0.0, 0.0)
    with pytest.raises(InputError, match=r"over\[0\]"):
        evaluation.gain(*mine, over=(others[0][:2], others[1]))
    # Of one that was never followed nothing is known, whichever of the two it is.
    never = np.zeros(3), others[1]
    for one, two in ((mine, never), (never, mine)):
        assert evaluation.gain(*one, over=two).error == np.inf


def test_what_was_shown_gains_nothing() -> None:
    """Protects from doubt where there is none: rounds that a policy would not have changed."""
    for rho_0 in (0.1, 0.2, 0.3):
        evaluation = Evaluation(ROUNDS, AssumedRates.same(NoiseRates(rho_0, 0.15), 2))
        # A last bit that is lost may be a gain whose whole interval is above 0.
        for chance in (1 / 3, 0.7, 0.95):
            evaluation.predicted = np.full((3, 2), chance)
            assert evaluation.gain(np.ones(3), np.full(3, chance)) == (0.0, 0.0, 0.0, 0.0)


def test_a_gain_is_surer_than_two_values() -> None:
    """Its intervals hold the truth in nine of ten logs, and are narrower than a value's alone."""
    # Mostly what was shown, and a little more of the label that is right most often.
    policy, logging = [0.75, 0.05, 0.1, 0.1], np.array([0.7, 0.1, 0.1, 0.1])
    truth = float(RIGHT @ (np.array(policy) - logging))
    rng, hits, widths = np.random.default_rng(1), 0, []
    for seed in range(200):
        rates = NoiseRates(0.2, 0.3)
        off = rng.normal(0.0, 0.02, 2)
        rounds = make(300, AssumedRates.same(rates, N_LABELS), seed)
        found = NoiseRates(rates.rho_0 + off[0], rates.rho_1 + off[1])
        evaluation = Evaluation(rounds, AssumedRates.same(found, N_LABELS, (0.02, 0.02)))
        weights = weights_of(rounds, target(policy, 300))
        gain = evaluation.gain(weights, (evaluation.predicted * policy).sum(1))
        hits += gain.low <= truth <= gain.high
        widths.append(gain.error / _dr(evaluation, weights, policy).error)
    assert hits >= 180
    assert np.median(widths) < 0.6


def test_interval_by_hand() -> None:
    """The variance has one unseen round of the largest weight, and the rates' own variance."""
    weights = np.array([1.0, 2.0, 1.0])
    rates = AssumedRates.same(NoiseRates(), 2, (0.1, 0.0))
    found = Evaluation(ROUNDS, rates).ips(weights)
    # Terms 1, 0, 1 around 2/3; surprise 2 x 2/3; slope of rho_0 (0 - 2 + 0) / 3.
    squares = 2 * (1 / 3) ** 2 + (2 / 3) ** 2 + (4 / 3) ** 2
    error = np.sqrt(squares / 6 + (2 / 3 * 0.1) ** 2)
    assert found.error == pytest.approx(error)
    assert (found.low, found.high) == pytest.approx(
        (2 / 3 - 1.959964 * error, 2 / 3 + 1.959964 * error)
    )


def test_interval_of_snips_by_hand() -> None:
    """Each round moves it by its share of the weights times its distance from the value .4."""
    found = Evaluation(ROUNDS, RATES).snips(weights_of(ROUNDS, POLICY))
    assert found is not None
    # Weights scaled to mean 1: .75, 2.25, 0; the bit that surprises most is 2.
    squares = (0.75 * 1.2) ** 2 + (2.25 * 0.4) ** 2 + (2.25 * 1.6) ** 2
    assert found.error == pytest.approx(np.sqrt(squares / 6))


def test_intervals_hold_the_truth_where_clicks_are_rare() -> None:
    """Always one label that was shown in 5 of 100 rounds; of those that see it 1 in 100 clicks."""
    rng, held = np.random.default_rng(3), list[bool]()
    rates = AssumedRates.same(NoiseRates(), 2)
    for _ in range(300):
        labels = (rng.random(2_400) < 0.05).astype(np.int64)
        feedback = (rng.random(2_400) < 0.01).astype(np.int64)
        rounds = Rounds(np.ones((2_400, 1)), labels, np.where(labels, 0.05, 0.95), feedback)
        # Nobody who saw it may have clicked: then its value is 0, and nearly certain.
        value = Evaluation(rounds, rates).ips(labels / 0.05)
        held.append(value.low <= 0.01 <= value.high)
    assert np.mean(held) >= 0.95


def test_the_surprise_of_a_round_without_a_click() -> None:
    """Where all were clicked, one more is worth 1.6, none -.4, and the truth at most 1."""
    rounds = ROUNDS._replace(feedback=np.ones(3, np.int64))
    rates = AssumedRates.same(NoiseRates(0.2, 0.3), 2)
    found = Evaluation(rounds, rates).ips(np.ones(3))
    assert found.value == pytest.approx(1.6)
    assert found.error == pytest.approx(np.sqrt((1.0 + 0.4) ** 2 / 6))


def test_own_rates_errors_do_not_add_up() -> None:
    """Own errors are independent; one error pulls all labels alike; where nobody knows, both."""
    weights = np.ones(3)
    own = AssumedRates(np.zeros(2), np.zeros(2), np.full(2, 0.3), np.full(2, 0.3))
    one = AssumedRates.same(NoiseRates(), 2, (0.3, 0.3))
    unknown = replace(own, sharing="unknown")
    known = Evaluation(ROUNDS, AssumedRates.same(NoiseRates(), 2)).ips(weights).error ** 2
    # Slopes of rho_0: 0 and -1/3; of rho_1: 1/3 and 1/3.
    apart = 0.09 * (1 + 1 + 1) / 9
    together = 0.09 * (1 + 4) / 9
    for rates, added in ((own, apart), (one, together), (unknown, apart + together)):
        assert Evaluation(ROUNDS, rates).ips(weights).error ** 2 - known == pytest.approx(added)


def _dr(evaluation: Evaluation, weights: Weights, policy: list[float]) -> Value:
    return evaluation.doubly_robust(weights, (evaluation.predicted * policy).sum(1))


Weights = NDArray[np.float64]
ESTIMATES: dict[str, Callable[[Evaluation, Weights, list[float]], Value | None]] = {
    "ips": lambda evaluation, weights, _: evaluation.ips(weights),
    "snips": lambda evaluation, weights, _: evaluation.snips(weights),
    "dr": _dr,
}


@pytest.mark.parametrize("how", list(ESTIMATES))
@pytest.mark.parametrize("policy", [[0.25] * 4, [0.0, 0.0, 0.0, 1.0], [0.7, 0.1, 0.1, 0.1]])
def test_corrected_covers_what_uncorrected_does_not(how: str, policy: list[float]) -> None:
    """Nine of ten logs with noise of each label's own are covered, corrected only."""
    truth = float(RIGHT @ np.array(policy))
    hits = {"corrected": 0, "raw": 0}
    for seed in range(200):
        rounds = make(300, per_label(), seed)
        weights = weights_of(rounds, target(policy, 300))
        for name, rates in (("corrected", per_label()), ("raw", clean())):
            found = ESTIMATES[how](Evaluation(rounds, rates), weights, policy)
            assert found is not None
            hits[name] += found.low <= truth <= found.high
    assert hits["corrected"] >= 180
    assert hits["raw"] < 90


def test_covers_with_estimated_rates() -> None:
    """Rates that were measured with errors still leave intervals that hold the truth."""
    rng = np.random.default_rng(0)
    true = AssumedRates.same(NoiseRates(0.2, 0.4), N_LABELS)
    hits = {"with errors": 0, "without": 0}
    for seed in range(100):
        rounds = make(2000, true, seed)
        off = rng.normal(0.0, 0.03, 2)
        rates = NoiseRates(0.2 + off[0], 0.4 + off[1])
        for name, errors in (("with errors", (0.03, 0.03)), ("without", (0.0, 0.0))):
            found = Evaluation(rounds, AssumedRates.same(rates, N_LABELS, errors)).ips(
                np.ones(2000)
            )
            truth = float(RIGHT @ np.array([0.7, 0.1, 0.1, 0.1]))
            hits[name] += found.low <= truth <= found.high
    assert hits["with errors"] >= 90
    assert hits["without"] < 85


def test_few_like_bits_leave_doubt() -> None:
    """A label that was shown twice and never clicked may still be right often."""
    rounds = make(500, clean(), 1)
    labels = np.zeros(500, np.int64)
    labels[:2] = 3
    rounds = rounds._replace(
        labels=labels, propensities=np.where(labels == 3, 0.01, 0.97), feedback=1 - labels // 3
    )
    weights = weights_of(rounds, target([0.0, 0.0, 0.0, 1.0], 500))
    found = Evaluation(rounds, clean()).snips(weights)
    assert found is not None
    assert found.value == 0.0
    assert found.high > 0.5


def test_a_label_that_is_not_shown_leaves_no_doubt() -> None:
    """Protects from intervals of one label that grow with how little another one's clicks tell."""
    rounds = make(200, clean(), 1)
    weights = weights_of(rounds, target([1.0, 0.0, 0.0, 0.0], 200))
    rho_0 = np.array([0.1, 0.1, 0.1, 0.8])
    known = AssumedRates(np.full(4, 0.1), *np.zeros((3, 4)))
    worse = AssumedRates(rho_0, *np.zeros((3, 4)))
    assert Evaluation(rounds, worse).ips(weights) == Evaluation(rounds, known).ips(weights)


def test_snips_needs_a_followed_round() -> None:
    """A policy that no round followed has no self-normalised estimate, instead of 0 / 0."""
    assert Evaluation(ROUNDS, RATES).snips(np.zeros(3)) is None


def test_what_no_round_showed_is_not_known_to_be_worth_0() -> None:
    """A label that was never shown may be right always or never: no interval, however wide."""
    evaluation, none = Evaluation(ROUNDS, RATES), np.zeros(3)
    evaluation.predicted = np.full((3, 2), 0.5)
    followed = np.full(3, 0.5)
    unknown = (np.inf, -np.inf, np.inf)
    assert evaluation.ips(none) == (0.0, *unknown)
    assert evaluation.doubly_robust(none, followed) == (0.5, *unknown)
    # The bits 1.6, 0, 2 were shown.
    assert evaluation.gain(none, followed) == pytest.approx((0.5 - 1.2, *unknown))


@pytest.mark.parametrize("scale", [5e-324, 1e-200, 1e200])
def test_the_size_of_weights_makes_no_difference(scale: float) -> None:
    """Shares of them count, also where their squares, or their mean, are no number any more."""
    weights = np.array([1.0, 2.0, 1.0])
    found = Evaluation(ROUNDS, RATES).snips(weights * scale)
    assert found == pytest.approx(Evaluation(ROUNDS, RATES).snips(weights))
    assert effective_size(weights * scale) == pytest.approx(16 / 6)


@given(st.floats(0.0, 0.45), st.floats(0.0, 0.45), st.integers(0, 2**32 - 1))
def test_correction_is_affine(rho_0: float, rho_1: float, seed: int) -> None:
    """With the same rates for all labels SNIPS corrected is the corrected SNIPS of the bits."""
    rounds = make(50, clean(), seed % 1000)
    weights = np.random.default_rng(seed).random(50) + 0.1
    raw = Evaluation(rounds, clean()).snips(weights)
    corrected = Evaluation(rounds, AssumedRates.same(NoiseRates(rho_0, rho_1), N_LABELS)).snips(
        weights
    )
    assert raw is not None
    assert corrected is not None
    assert corrected.value == pytest.approx((raw.value - rho_0) / (1 - rho_0 - rho_1))


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_round_of_next_to_no_chance_says_nothing() -> None:
    """Its weight is beyond squares: the error is infinite, and no OverflowError."""
    rounds = Rounds(
        np.zeros((3, 1)), np.arange(3) % 2, np.array([0.5, 1e-160, 1.0]), np.ones(3, int)
    )
    value = Evaluation(rounds, AssumedRates.same(NoiseRates(0.1, 0.1), 2, (0.1, 0.1))).ips(
        1.0 / rounds.propensities
    )
    assert value.error == np.inf


def test_effective_size_is_the_rounds_that_count() -> None:
    """Equal weights count each, one weight counts one."""
    assert effective_size(np.full(7, 3.0)) == pytest.approx(7)
    assert effective_size(np.array([5.0, 0.0, 0.0])) == pytest.approx(1)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"labels": np.array([0, 2, 1])}, "labels"),
        ({"labels": np.array([0, -1, 1])}, "labels"),
        ({"labels": np.array([0.0, 1.0, 1.0])}, "labels"),
        ({"propensities": np.array([0.5, 0.0, 1.0])}, "propensities"),
        ({"propensities": np.array([0.5, np.nan, 1.0])}, "propensities"),
        ({"propensities": np.array([0.5, 1.5, 1.0])}, "propensities"),
        ({"feedback": np.array([0, 1, 2])}, "feedback"),
        ({"feedback": np.array([0, 1])}, "feedback"),
        ({"xs": np.full((3, 1), np.inf)}, "xs"),
        ({"xs": np.zeros((4, 1))}, "xs"),
        ({"xs": np.zeros((2, 1))}, "xs"),
        ({"labels": np.array([0])}, "rounds"),
        # A list is no array, as what takes arrays says like any other mistake.
        ({"xs": [[0.0]] * 3}, "xs"),
        ({"labels": [0, 1, 1]}, "labels"),
        ({"propensities": [0.5, 0.5, 1.0]}, "propensities"),
        ({"feedback": [0, 1, 1]}, "feedback"),
    ],
)
def test_refuses_bad_rounds(change: dict[str, Any], name: str) -> None:
    """What cannot come out of a log is named."""
    with pytest.raises(InputError, match=name):
        Evaluation(ROUNDS._replace(**change), RATES)


@pytest.mark.parametrize(
    ("weights", "got"),
    [
        (np.ones(2), "2"),
        (np.array([1.0, -1.0, 1.0]), "-1.0"),
        (np.array([1.0, np.nan, 1.0]), "nan"),
        (np.array([1.0, np.inf, 1.0]), "inf"),
        ([1.0, 1.0, 1.0], "list"),
    ],
)
def test_refuses_bad_weights(weights: Any, got: str) -> None:
    """Weights are finite, at least 0, and one a round."""
    with pytest.raises(InputError, match=f"weights: expected .* got {got}$"):
        Evaluation(ROUNDS, RATES).snips(weights)
    if len(weights) == 3:
        with pytest.raises(InputError, match=f"weights: expected .* got {got}$"):
            effective_size(weights)


@pytest.mark.parametrize(
    ("probabilities", "name"),
    [
        (np.ones((4, 2)), "probabilities"),
        (np.ones(3), "probabilities"),
        ([[1.0, 0.0]] * 3, "probabilities"),
        (np.ones((3, 1)), "labels"),
    ],
)
def test_refuses_the_policy_of_another_log(probabilities: Any, name: str) -> None:
    """One line a round, one column a label: nothing is cut to fit."""
    with pytest.raises(InputError, match=name):
        weights_of(ROUNDS, probabilities)


@pytest.mark.parametrize("rho_1", [0.8, np.nan, -0.1])
def test_refuses_bad_rates(rho_1: float) -> None:
    """Rates leave something of the click's meaning."""
    with pytest.raises(InputError):
        AssumedRates(np.array([0.2]), np.array([rho_1]), np.zeros(1), np.zeros(1))
    with pytest.raises(InputError, match="beta: expected at least 1e-06"):
        AssumedRates(np.array([0.5]), np.array([0.5 - 1e-7]), np.zeros(1), np.zeros(1))
    with pytest.raises(InputError, match="errors"):
        AssumedRates.same(NoiseRates(), 2, (-0.1, 0.0))
    with pytest.raises(InputError, match="n_labels"):
        AssumedRates.same(NoiseRates(), 0)
    wrong: Any = [0.2]
    with pytest.raises(InputError, match="rho_0: expected an array"):
        AssumedRates(wrong, np.zeros(1), np.zeros(1), np.zeros(1))
    wrong = "shared"
    with pytest.raises(InputError, match="sharing: expected one of"):
        replace(RATES, sharing=wrong)


def test_refuses_a_direct_estimate_of_another_shape() -> None:
    """What the predictions say of a policy is one number a round."""
    with pytest.raises(InputError, match="followed"):
        Evaluation(ROUNDS, RATES).doubly_robust(np.ones(3), np.zeros((3, 2)))


def test_some_rounds_are_evaluated_by_the_predictions_from_all() -> None:
    """What the rounds before them say is not forgotten; the numbers are these rounds' own."""
    rounds = make(600, per_label(), 5)
    whole = Evaluation(rounds, per_label())
    which = np.arange(400, 600)
    part = whole.only(which)
    assert (part.predicted == whole.predicted[400:]).all()
    xs, labels, propensities, feedback = rounds
    newest = Rounds(xs[400:], labels[400:], propensities[400:], feedback[400:])
    alone = Evaluation(newest, per_label())
    assert part.ips(np.ones(200)) == alone.ips(np.ones(200))
    assert not (alone.predicted == part.predicted).all()
    with pytest.raises(InputError, match="rounds"):
        whole.only(which[:1])
    none: list[Any] = [which + 1, which - 600, which * 1.0, which >= 400]
    for wrong in none:
        with pytest.raises(InputError, match="which: expected"):
            whole.only(wrong)
