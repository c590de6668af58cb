"""From held-out predictions to a reading: each rule, the guard, and common against own rates."""

from __future__ import annotations

import numpy as np
import pytest

from learners.noise import held_out as module
from learners.noise.block_fit import anchored_levels, fit_block
from learners.noise.estimate import Reading
from learners.noise.held_out import RULES, HeldOut, read
from learners.noise.mixture import level_errors


def held_out(rho_0: list[float], rho_1: list[float], n: int = 9000, seed: int = 0) -> HeldOut:
    """Return predictions as a good network would make them."""
    rng = np.random.default_rng(seed)
    k = len(rho_0)
    y = rng.integers(k, size=n)
    labels = np.where(rng.random(n) < 0.4, y, rng.integers(k, size=n))
    clicked = np.where(labels == y, 1 - np.array(rho_1)[labels], np.array(rho_0)[labels])
    feedback = (rng.random(n) < clicked).astype(np.int64)
    own = np.arange(k) == y[:, np.newaxis]
    scores = np.where(own, 5.0, 0.0) + rng.normal(0, 0.5, (n, k))
    predicted = np.where(own, 1 - np.array(rho_1), np.array(rho_0)) + rng.normal(0, 0.004, (n, k))
    return HeldOut(
        labels,
        feedback,
        np.arange(n) % 3,
        scores.astype(np.float32),
        predicted.clip(0, 1).astype(np.float32),
    )


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_reads_good_predictions(rule: str) -> None:
    """With a good network all three rules agree with the truth."""
    reading, evidence = read(held_out([0.2] * 3, [0.3] * 3), rule, beta_min=0.05)
    assert reading.rho_0 == pytest.approx(0.2, abs=0.03)
    assert reading.rho_1 == pytest.approx(0.3, abs=0.03)
    np.testing.assert_allclose(reading.label_rho_0, 0.2, atol=0.03)
    np.testing.assert_allclose(reading.label_rho_1, 0.3, atol=0.05)
    assert 0 < reading.rho_0_error < 0.03
    assert evidence.gain > 100
    assert evidence.beta == pytest.approx(0.5, abs=0.05)
    errors = reading.rho_0_error, reading.rho_1_error
    assert evidence.error == max(errors)
    assert evidence.beta_error == pytest.approx(np.hypot(*errors))


def test_mixture_of_different_labels() -> None:
    """Where labels differ, the common rates are their mean over wrong and over right rounds."""
    rho_0, rho_1 = [0.1, 0.3, 0.5], [0.3, 0.1, 0.05]
    block = held_out(rho_0, rho_1)
    reading, evidence = read(block, "mixture", beta_min=0.05)
    assert reading.labels_differ
    np.testing.assert_allclose(reading.label_rho_0, rho_0, atol=0.03)
    np.testing.assert_allclose(reading.label_rho_1, rho_1, atol=0.04)
    wrong = np.bincount(block.labels, 1 - evidence.right, 3)
    assert reading.rho_0 == pytest.approx((wrong / wrong.sum()) @ reading.label_rho_0)


def test_evidence_without_the_choice() -> None:
    """Where scores say little and the learner much, the instance alone is less sure."""
    block = held_out([0.2] * 3, [0.2] * 3)
    vague = block.scores.copy()
    vague[np.random.default_rng(1).random(len(vague)) < 0.4] = 0
    _, evidence = read(block._replace(scores=vague), "mixture", beta_min=0.05)
    assert evidence.right.mean() > evidence.alone.mean() + 0.05


def test_guard_keeps_beta() -> None:
    """Whatever is read, beta_min is left, of the common rates and of each label's."""
    for rule in RULES:
        reading, evidence = read(held_out([0.3] * 3, [0.3] * 3), rule, beta_min=0.7)
        assert reading.rho_0 + reading.rho_1 <= 0.3 + 1e-12
        assert (reading.label_rho_0 + reading.label_rho_1 <= 0.3 + 1e-12).all()
        assert evidence.beta == pytest.approx(0.4, abs=0.05)


def test_guard_leaves_rates_of_0_as_they_are() -> None:
    """The rules that read quantiles may say that no click was wrong: nothing is divided by that."""
    zeros = np.zeros(2)
    reading = Reading(0.0, 0.0, 0.1, 0.1, zeros, zeros, zeros, zeros, labels_differ=False)
    guarded = module._guarded(reading, 0.05)
    assert (guarded.rho_0, guarded.rho_1) == (0.0, 0.0)
    assert not guarded.label_rho_0.any()


def test_common_rates_are_the_means_over_rounds_that_bear_on_them() -> None:
    """By hand: label 0 was wrong in 3 rounds and right in 1, label 1 right in 2; errors, too."""
    rates, errors = np.array([0.1, 0.4]), np.array([0.03, 0.04])
    reading = Reading(0.0, 0.0, 0.0, 0.0, rates, rates / 2, errors, errors * 2, labels_differ=True)
    shown, right = np.array([0, 0, 0, 0, 1, 1]), np.array([0.0, 0.0, 0.0, 1.0, 1.0, 1.0])
    mean = module._averaged(reading, shown, right)
    assert (mean.rho_0, mean.rho_0_error) == pytest.approx((0.1, 0.03))
    assert mean.rho_1 == pytest.approx((0.05 + 2 * 0.2) / 3)
    assert mean.rho_1_error == pytest.approx(np.hypot(0.06, 2 * 0.08) / 3)


def test_folds_that_disagree_widen_the_errors() -> None:
    """If one fold's network is poor, the standard errors show it."""
    block = held_out([0.1] * 3, [0.1] * 3)
    sure, _ = read(block, "mixture", beta_min=0.05)
    scores = block.scores.copy()
    poor = np.flatnonzero(block.folds == 0)
    poor = poor[np.random.default_rng(0).random(len(poor)) < 0.3]
    scores[poor] = scores[poor][:, [1, 2, 0]]
    unsure, _ = read(block._replace(scores=scores), "mixture", beta_min=0.05)
    assert unsure.rho_0_error > 2 * sure.rho_0_error


def test_mistakes_that_all_networks_share_are_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many the rounds, the common rates' errors have a part that does not shrink."""
    block, errors = held_out([0.1] * 3, [0.2] * 3, n=3000), []
    for shared in (0.0, 0.05):
        monkeypatch.setattr(module, "_SHARED_ERROR", shared)
        reading, _ = read(block, "mixture", beta_min=0.05)
        errors.append(np.array([reading.rho_0_error, reading.rho_1_error]))
    np.testing.assert_allclose(errors[1], np.hypot(errors[0], 0.05))


def test_labels_are_no_surer_than_what_they_were_drawn_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """The common rates' own errors are in each label's, as far as these come from them.

    Taken for known, they left intervals that were off by ten standard errors in one of 30 blocks
    whose temperature was hard to tell.
    """
    monkeypatch.setattr(module, "_fold_errors", lambda *_: np.zeros((2, 1)))
    monkeypatch.setattr(module, "_SHARED_ERROR", 0.04)
    block = held_out([0.2] * 3, [0.3] * 3, n=1500)
    reading, _ = read(block, "mixture", beta_min=0.05)
    assert not reading.labels_differ
    rounds = block.rounds()
    common, _, prior, _ = fit_block(rounds)
    labels = anchored_levels(rounds, common, prior)
    found = (reading.label_rho_0_error, reading.label_rho_1_error)
    told = level_errors(labels, rounds, prior)
    rates, counts = (labels.rho_0, labels.rho_1), (prior.count_0, prior.count_1)
    doubts = (reading.rho_0_error, reading.rho_1_error)
    for errors, alone, rate, count, doubt in zip(found, told, rates, counts, doubts, strict=True):
        # A Beta prior of so many rounds tells of a rate as much as they would.
        from_prior = (count + 1) / (rate * (1 - rate)) / (1 / alone**2)
        assert ((from_prior > 0.1) & (from_prior < 1)).all()
        np.testing.assert_allclose(errors**2, alone**2 + (from_prior * doubt) ** 2)


def test_a_label_that_was_right_whenever_shown_is_not_known() -> None:
    """What networks take for false clicks on it are their own mistakes, and nothing tells."""
    whole = held_out([0.2] * 3, [0.2] * 3, n=4000)
    right = whole.scores.argmax(axis=1) == 2
    shown = (whole.labels != 2) | right
    scores = whole.scores[shown]
    poor = np.flatnonzero(right[shown])[::5]
    scores[poor] = scores[poor][:, [2, 0, 1]]
    block = HeldOut(
        whole.labels[shown],
        whole.feedback[shown],
        whole.folds[shown],
        scores,
        whole.predicted[shown],
    )
    reading, _ = read(block, "mixture", beta_min=0.05)
    assert reading.label_rho_0[2] > 0.6
    assert reading.label_rho_0_error[2] == reading.label_rho_1_error[2] == pytest.approx(12**-0.5)
    assert (np.abs(reading.label_rho_0 - 0.2) < 2 * reading.label_rho_0_error).all()
    assert max(reading.label_rho_0_error[:2].max(), reading.label_rho_1_error[:2].max()) < 0.05
    # Nor does it stand in the way of what the others tell.
    assert abs(reading.rho_0 - 0.2) < 2 * reading.rho_0_error < 0.05


def test_a_label_that_was_never_shown_has_the_common_rates() -> None:
    """Where the labels do not differ; how little is known of it, its errors say."""
    whole = held_out([0.1, 0.12, 0.3], [0.3, 0.28, 0.1], n=3000)
    shown = whole.labels < 2
    block = HeldOut(
        whole.labels[shown],
        whole.feedback[shown],
        whole.folds[shown],
        whole.scores[shown],
        whole.predicted[shown],
    )
    reading, _ = read(block, "mixture", beta_min=0.05)
    assert not reading.labels_differ
    assert reading.label_rho_0[2] == pytest.approx(reading.rho_0, abs=1e-4)
    assert reading.label_rho_1[2] == pytest.approx(reading.rho_1, abs=1e-4)
    assert reading.label_rho_0_error[2] > 2 * reading.label_rho_0_error[:2].max()


def test_folds_that_disagree_widen_each_label_s_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where labels differ no common rates say how poor networks are: their own errors grow."""
    block, errors = held_out([0.1, 0.3, 0.5], [0.3, 0.1, 0.05]), []
    for disagree in (0.0, 0.03):
        monkeypatch.setattr(module, "_fold_errors", lambda *_, off=disagree: np.full((2, 1), off))
        reading, _ = read(block, "mixture", beta_min=0.05)
        assert reading.labels_differ
        errors.append(np.array([reading.label_rho_0_error, reading.label_rho_1_error]))
    rounds = block.rounds()
    grow = 0.03 / np.array(level_errors(fit_block(rounds).common, rounds))
    assert (grow > 2).all()
    np.testing.assert_allclose(errors[1], errors[0] * grow)


def test_a_label_whose_beta_may_be_too_small_is_not_known() -> None:
    """By hand: beta .3 is within two standard errors of .05 if these are .13, not if .12."""
    rho_0, rho_1 = np.array([0.3, 0.3]), np.array([0.4, 0.4])
    errors = np.array([0.13, 0.12]) / np.sqrt(2)
    reading = Reading(0.3, 0.4, 0.01, 0.01, rho_0, rho_1, errors, errors, labels_differ=True)
    found = module._without_senseless(reading, 0.05)
    for each in (found.label_rho_0_error, found.label_rho_1_error):
        np.testing.assert_allclose(each, [12**-0.5, errors[1]])


def test_labels_count_as_often_as_they_were_shown() -> None:
    """By the rules that read quantiles: common rates and errors are means over rounds."""
    whole = held_out([0.1, 0.3, 0.5], [0.3, 0.1, 0.05])
    shown = (whole.labels == 0) | (np.arange(9000) % 10 == 0)
    block = HeldOut(*(part[shown] for part in whole))
    reading, _ = read(block, "per_label", beta_min=0.05)
    share = np.bincount(block.labels) / len(block.labels)
    assert share[0] > 0.8
    assert reading.rho_0 == pytest.approx(share @ reading.label_rho_0)
    assert reading.rho_1_error == pytest.approx(share @ reading.label_rho_1_error)


@pytest.mark.parametrize("rule", ["per_label", "authors"])
@pytest.mark.parametrize("n_folds", [1, 3])
def test_folds_that_agree_leave_an_error_of_a_round(rule: str, n_folds: int) -> None:
    """No rate is read without an error, not even where all folds read the same, or one is all."""
    one = held_out([0.2] * 3, [0.3] * 3, n=300)
    parts = [np.concatenate([part] * n_folds) for part in one]
    parts[2] = np.repeat(np.arange(n_folds), 300)
    reading, _ = read(HeldOut(*parts), rule, beta_min=0.05)
    np.testing.assert_allclose(reading.label_rho_0_error, 1 / (1 + 300 * n_folds))
    assert reading.rho_0_error == pytest.approx(1 / (1 + 300 * n_folds))
