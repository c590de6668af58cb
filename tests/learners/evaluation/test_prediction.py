"""The model that the doubly robust estimate leans on."""

from __future__ import annotations

import numpy as np

from learners.evaluation import AssumedRates, Evaluation, Rounds, predict_rewards, weights_of
from learners.evaluation.prediction import PARTS
from learners.noise import NoiseRates
from tests.learners.evaluation.logs import N_LABELS, clean, make, per_label, target


def test_knows_nothing_of_what_it_predicts() -> None:
    """A round's bit changes no prediction of its own part, nor of an earlier one."""
    rounds = make(200, per_label(), 3)
    before = predict_rewards(rounds, per_label())
    for t in (0, 57, 199):
        feedback = rounds.feedback.copy()
        feedback[t] = 1 - feedback[t]
        after = predict_rewards(rounds._replace(feedback=feedback), per_label())
        next_part = 200 * (t * PARTS // 200 + 1) // PARTS
        np.testing.assert_array_equal(after[:next_part], before[:next_part])
        assert t == 199 or (after[next_part:] != before[next_part:]).any()


def test_knows_no_later_instance() -> None:
    """Nor does it know the instances of its own part or of later ones, but for the one asked."""
    rounds = make(200, per_label(), 3)
    xs = rounds.xs.copy()
    xs[150:] *= 100.0
    # Part 8 of 10 begins at 140 and is fitted on rounds before that.
    after = predict_rewards(rounds._replace(xs=xs), per_label())
    before = predict_rewards(rounds, per_label())
    np.testing.assert_array_equal(after[:150], before[:150])


def test_narrows_the_interval_where_the_instance_tells() -> None:
    """With clean bits and a telling feature DR is clearly narrower than IPS."""
    rounds = make(3000, clean(), 4)
    evaluation = Evaluation(rounds, clean())
    policy = target([0.25] * 4, 3000)
    weights = weights_of(rounds, policy)
    dr = evaluation.doubly_robust(weights, (policy * evaluation.predicted).sum(1))
    assert dr.error < 0.9 * evaluation.ips(weights).error


def test_stays_within_zero_and_one() -> None:
    """Corrected bits are far outside [0, 1], and so would be a regression of few of them."""
    predicted = predict_rewards(make(60, per_label(), 5), per_label())
    assert predicted.shape == (60, N_LABELS)
    assert predicted.min() >= 0.0
    assert predicted.max() <= 1.0


def test_takes_more_features_than_rounds_and_constant_ones() -> None:
    """Few rounds, many features, some of them constant: finite, and the same every time."""
    rng = np.random.default_rng(0)
    xs = np.hstack([rng.normal(0, 1e6, (30, 50)), np.full((30, 2), 1e6)])
    rounds = make(30, per_label(), 6)._replace(xs=xs)
    predicted = predict_rewards(rounds, per_label())
    assert np.isfinite(predicted).all()
    np.testing.assert_array_equal(predicted, predict_rewards(rounds, per_label()))


def test_takes_bits_that_are_all_the_same() -> None:
    """Nothing varies, not even a feature: what was always right is the likelier the more often."""
    rounds = Rounds(np.ones((40, 2)), np.ones(40, np.int64), np.ones(40), np.ones(40, np.int64))
    predicted = predict_rewards(rounds, clean())
    assert predicted[:4].tolist() == [[1 / N_LABELS] * N_LABELS] * 4
    # The prior counts as one round of 1 / K; the parts before have 4, 8, ... 36.
    seen = np.repeat(np.arange(4, 40, 4), 4)
    np.testing.assert_allclose(predicted[4:, 1], (seen + 0.25) / (seen + 1))
    np.testing.assert_allclose(predicted[4:, [0, 2, 3]], 0.25)


def test_both_forms_of_the_ridge_agree() -> None:
    """Whether features or rounds are more, the regression is the same one."""
    rounds = make(40, per_label(), 7)
    doubled = Rounds(np.hstack([rounds.xs] * 30), *rounds[1:])
    # The prior grows with the number of features, so copies of them change nothing.
    np.testing.assert_allclose(
        predict_rewards(doubled, per_label()), predict_rewards(rounds, per_label()), atol=1e-9
    )


def test_the_noisier_the_bits_the_more_the_prior_counts() -> None:
    """At .4/.4 corrected bits are 3 and -2, of variance 6.25: the prior counts as 62.5 rounds."""
    bits = np.array([1, 0] * 50)
    rounds = Rounds(np.zeros((100, 1)), np.zeros(100, np.int64), np.ones(100), bits)
    predicted = predict_rewards(rounds, AssumedRates.same(NoiseRates(0.4, 0.4), 4))
    # The last part sees 90 rounds, whose corrected bits sum to 45; each label alike is 1 / 4.
    np.testing.assert_allclose(predicted[90:, 0], (45 + 62.5 * 0.25) / (90 + 62.5))


def test_rounding_in_a_constant_feature_tells_nothing() -> None:
    """What hardly varies is not blown up: a prediction is that of a feature that is constant."""
    rounds = make(200, per_label(), 3)
    jitter = np.random.default_rng(0).normal(0.0, 1e-12, (200, 1))
    found = predict_rewards(rounds._replace(xs=jitter), per_label())
    constant = predict_rewards(rounds._replace(xs=np.zeros((200, 1))), per_label())
    np.testing.assert_allclose(found, constant, atol=1e-9)
