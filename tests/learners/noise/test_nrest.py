"""NREst as a whole, on small problems: what it finds, refuses, repeats and can be told to stop."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from learners import RCINE, InputError, Outcome, ParameterError
from learners.noise import nrest
from learners.noise.estimate import CancelledError
from learners.noise.held_out import RULES, read
from learners.noise.nrest import (
    BINS,
    LARGEST,
    LEAST_SPREAD,
    NREst,
    Trained,
    _histogram,
    _scaled,
    _scaling,
)
from learners.noise.nrest_network import Arrays, Fold, train_fold

Block = tuple[np.ndarray, np.ndarray, np.ndarray]


def draw_block(
    n: int,
    rho_0: float | list[float],
    rho_1: float | list[float],
    *,
    k: int = 4,
    seed: int = 0,
) -> Block:
    """Return rounds of a learner that is right in 55 % of them, on well separated classes."""
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(5).normal(size=(k, 5)) * 3
    y = rng.integers(k, size=n)
    xs = centers[y] + rng.normal(size=(n, 5))
    labels = np.where(rng.random(n) < 0.4, y, rng.integers(k, size=n))
    false, missed = np.broadcast_to(rho_0, k), np.broadcast_to(rho_1, k)
    clicked = np.where(labels == y, 1 - missed[labels], false[labels])
    return xs, labels, (rng.random(n) < clicked).astype(np.int64)


@pytest.fixture(scope="module")
def block() -> Block:
    """Return a block with rates .1 and .2."""
    return draw_block(4000, 0.1, 0.2)


@pytest.fixture(scope="module")
def trained(block: Block) -> Trained:
    """Return what the default estimator makes of it."""
    return NREst(4).estimate(*block)


def test_finds_the_rates(trained: Trained) -> None:
    """The rates come out within their errors, trusted, with everything a reader is promised."""
    estimate, reading = trained.estimate, trained.estimate.reading
    assert reading is not None
    assert abs(reading.rho_0 - 0.1) < 3 * reading.rho_0_error < 0.05
    assert abs(reading.rho_1 - 0.2) < 3 * reading.rho_1_error < 0.05
    assert estimate.trusted
    assert estimate.examples == estimate.shown.sum() == 4000
    assert estimate.histogram.shape == (4, 50)
    assert (estimate.histogram.sum(axis=1) == 4000).all()
    assert estimate.epochs >= 6
    assert not reading.labels_differ
    assert trained.held_out is not None
    again, _ = read(trained.held_out, "mixture", beta_min=0.05)
    assert again.rho_0 == reading.rho_0


def test_finds_rates_of_each_label() -> None:
    """Labels with rates of their own get them."""
    rho_0, rho_1 = [0.05, 0.2, 0.35, 0.5], [0.3, 0.2, 0.1, 0.02]
    reading = NREst(4).estimate(*draw_block(8000, rho_0, rho_1)).estimate.reading
    assert reading is not None
    assert reading.labels_differ
    assert np.abs(reading.label_rho_0 - rho_0).mean() < 0.03
    assert np.abs(reading.label_rho_1 - rho_1).mean() < 0.03


def test_no_label_is_given_up() -> None:
    """A label that was hardly ever wrong is not taken for one whose clicks tell nothing.

    Where such a label's rates were used in training as they were first found, its rho_0 came out
    as .45 instead of .05: trained so, the network has no reason to look for where it is right.
    """
    rng = np.random.default_rng(3)
    n, k = 5000, 6
    centers = rng.normal(size=(k, 20)) * 0.65
    y = rng.integers(k, size=n)
    xs = centers[y] + rng.normal(size=(n, 20))
    near = xs @ centers.T - (centers**2).sum(axis=1) / 2
    best = (near + rng.normal(size=(n, k)) * 1.5).argmax(axis=1)
    labels = np.where(rng.random(n) < 0.03, rng.integers(k, size=n), best)
    rho_0, rho_1 = np.linspace(0.02, 0.5, k), np.linspace(0.3, 0.02, k)
    rho_0[0], rho_1[0] = 0.05, 0.4
    clicked = np.where(labels == y, 1 - rho_1[labels], rho_0[labels])
    feedback = (rng.random(n) < clicked).astype(np.int64)
    reading = NREst(k).estimate(xs, labels, feedback).estimate.reading
    assert reading is not None
    assert np.abs(reading.label_rho_0 - rho_0).max() < 0.25


def test_same_seed_same_result(block: Block, trained: Trained) -> None:
    """Bit for bit the same estimate and networks; the inputs untouched; another seed differs."""
    before = [part.copy() for part in block]
    again = NREst(4).estimate(*block)
    assert all((old == new).all() for old, new in zip(before, block, strict=True))
    first, second = trained.estimate.reading, again.estimate.reading
    assert first is not None
    assert second is not None
    assert (first.rho_0, first.rho_1) == (second.rho_0, second.rho_1)
    assert (first.label_rho_1 == second.label_rho_1).all()
    for name, values in trained.networks.items():
        assert (values == again.networks[name]).all()
    other = NREst(4, seed=1, most_epochs=2).estimate(*block).networks
    assert (other["hidden_1"] != again.networks["hidden_1"]).any()


def test_first_weights_come_from_seed_and_fold(block: Block) -> None:
    """No two folds, and no two seeds, begin with the same weights."""
    first = [
        NREst(4, seed=seed, time_limit_s=0.0).estimate(*block).networks["hidden_1"]
        for seed in (0, 1)
    ]
    weights = np.concatenate(first).reshape(6, -1)
    assert len(np.unique(weights, axis=0)) == 6


def test_any_seed_is_taken(block: Block) -> None:
    """Also one that torch has no number for."""
    assert NREst(4, seed=2**70, time_limit_s=0.0).estimate(*block).networks


def test_offset_tells_a_good_learner() -> None:
    """From a learner that knows the class better than x does, the networks learn to trust it."""
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=6000)
    xs = np.eye(4)[y] * 4 + rng.normal(size=(6000, 4)) * 2
    labels = np.where(rng.random(6000) < 0.8, y, rng.integers(4, size=6000))
    feedback = (rng.random(6000) < np.where(labels == y, 0.9, 0.1)).astype(np.int64)
    trained = NREst(4).estimate(xs, labels, feedback)
    assert trained.networks["offset"].mean() > 0.5
    reading = trained.estimate.reading
    assert reading is not None
    assert abs(reading.rho_0 - 0.1) < 3 * reading.rho_0_error < 0.12


def test_threads_are_given_back(block: Block) -> None:
    """The number of torch's threads, which is global, is as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        NREst(4, most_epochs=1).estimate(*block)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_warm_start_is_shorter(trained: Trained) -> None:
    """From the last block's networks the next block needs fewer epochs, and reads as well."""
    fresh = draw_block(4000, 0.1, 0.2, seed=1)
    cold = NREst(4).estimate(*fresh).estimate
    warm = NREst(4).estimate(*fresh, warm=trained.networks).estimate
    assert warm.epochs < cold.epochs
    assert warm.reading is not None
    assert warm.reading.rho_0 == pytest.approx(0.1, abs=0.03)
    assert warm.reading.rho_1 == pytest.approx(0.2, abs=0.03)


def test_warm_networks_say_of_an_instance_what_they_said(block: Block, trained: Trained) -> None:
    """Instances are scaled anew for each block: the first layer makes up for it."""
    xs, labels, feedback = block
    some = xs[:, 0] > np.median(xs[:, 0])
    # The rule makes no difference to the networks, and this one is soon done with bad ones.
    untrained = NREst(4, rule="authors", time_limit_s=0.0).estimate(
        xs[some] * 1.5, labels[some], feedback[some], warm=trained.networks
    )
    before, after = trained.networks, untrained.networks
    assert np.abs(before["center"] - after["center"]).max() > 0.5

    def first_layer(networks: Arrays) -> np.ndarray:
        scaled = (xs - networks["center"]) / networks["spread"]
        return scaled @ networks["hidden_1"] + networks["bias_1"][:, np.newaxis]

    np.testing.assert_allclose(first_layer(after), first_layer(before), rtol=1e-6, atol=1e-4)


def test_warm_start_of_another_shape_is_refused(block: Block, trained: Trained) -> None:
    """Networks of other labels, features or folds are refused by name, not bent to fit."""
    xs, labels, feedback = block
    with pytest.raises(InputError, match=r"warm\['right'\]"):
        NREst(5).estimate(xs, labels, feedback, warm=trained.networks)
    with pytest.raises(InputError, match=r"warm\['center'\]"):
        NREst(4).estimate(xs[:, :3].copy(), labels, feedback, warm=trained.networks)
    with pytest.raises(InputError, match="4 folds"):
        NREst(4, folds=4).estimate(xs, labels, feedback, warm=trained.networks)
    with pytest.raises(InputError, match="center"):
        NREst(4).estimate(xs, labels, feedback, warm={})


def test_cancel(block: Block) -> None:
    """The wish to stop is heard within an epoch."""
    asked: Iterator[bool] = iter([False, False, True])
    with pytest.raises(CancelledError):
        NREst(4).estimate(*block, cancelled=lambda: next(asked))


def test_time_limit(block: Block) -> None:
    """Out of time before the first epoch: no crash, no NaN, and the verdict says why."""
    estimate = NREst(4, time_limit_s=0.0).estimate(*block).estimate
    assert "out_of_time" in [doubt.code for doubt in estimate.doubts]
    assert estimate.rates is None
    assert estimate.epochs == 0
    assert np.isfinite(estimate.loss)


def test_each_fold_has_its_share_of_the_time(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first took all of it, so the last told nothing of what it was to tell."""
    ends_s: list[float] = []

    def told(*given: Any) -> Fold:
        ends_s.append(given[-1].until_s)
        return train_fold(*given)

    monkeypatch.setattr(nrest, "train_fold", told)
    NREst(4, most_epochs=1, time_limit_s=300.0).estimate(*block)
    assert np.diff(ends_s) == pytest.approx([100.0, 100.0])


def test_progress(block: Block) -> None:
    """Progress rises from above 0 to 1, with a finite loss."""
    told: list[tuple[float, float]] = []
    NREst(4, most_epochs=2).estimate(*block, progress=lambda *step: told.append(step))
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert shares[0] > 0
    assert shares[-1] == 1
    assert np.isfinite([loss for _, loss in told]).all()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("case", "codes"),
    [
        ("all clicks", {"one_feedback"}),
        ("no clicks", {"one_feedback"}),
        ("50 rounds", {"few_rounds"}),
        ("no rounds", {"few_rounds"}),
        ("one label", {"one_label"}),
        ("constant instances", {"no_signal"}),
        ("instances of noise", {"no_signal"}),
        ("clicks at random", {"no_signal"}),
        ("rates past 1", {"no_perfect_right", "uncertain", "beta_near_zero"}),
    ],
)
def test_bad_data(case: str, codes: set[str], rule: str) -> None:
    """No block makes it fail or answer NaN; each is refused or doubted, and no rates come out."""
    if case == "rates past 1" and rule == "authors":
        pytest.skip("the authors' rule has no means to see this")
    xs, labels, feedback = draw_block(1500, 0.1, 0.1, k=6)
    rng = np.random.default_rng(99)
    if case == "all clicks":
        feedback = np.ones_like(feedback)
    elif case == "no clicks":
        feedback = np.zeros_like(feedback)
    elif case in ("50 rounds", "no rounds"):
        n = 50 if case == "50 rounds" else 0
        xs, labels, feedback = xs[:n], labels[:n], feedback[:n]
    elif case == "one label":
        labels = np.full_like(labels, 3)
    elif case == "constant instances":
        xs = np.ones_like(xs)
    elif case == "instances of noise":
        xs = rng.normal(size=xs.shape)
    elif case == "clicks at random":
        feedback = rng.integers(2, size=len(feedback))
    else:
        xs, labels, feedback = draw_block(1500, 0.7, 0.7, k=6)
    estimate = NREst(6, rule=rule, most_epochs=6).estimate(xs, labels, feedback).estimate
    assert codes & {doubt.code for doubt in estimate.doubts}
    assert estimate.rates is None
    if estimate.reading is not None:
        for name in estimate.reading.__slots__:
            assert np.isfinite(getattr(estimate.reading, name)).all()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"xs": np.full((300, 5), np.nan)}, r"xs\[0\]\[0\]"),
        ({"xs": np.zeros(300)}, "xs"),
        ({"xs": np.zeros((300, 5), dtype=np.float32)}, "xs"),
        ({"labels": np.full(300, 4)}, "labels"),
        ({"labels": np.zeros(299, dtype=np.int64)}, "labels"),
        ({"feedback": np.full(300, 2)}, "feedback"),
        ({"feedback": np.zeros(300)}, "feedback"),
    ],
)
def test_wrong_arrays(change: dict[str, np.ndarray], match: str) -> None:
    """An array of another shape, type or range is named in the error."""
    xs, labels, feedback = draw_block(300, 0.1, 0.1)
    arrays = {"xs": xs, "labels": labels, "feedback": feedback} | change
    with pytest.raises(InputError, match=match):
        NREst(4).estimate(arrays["xs"], arrays["labels"], arrays["feedback"])


@pytest.mark.parametrize(
    "options",
    [
        {"rule": "best"},
        {"seed": -1},
        {"folds": 1},
        {"most_epochs": 0},
        {"beta_min": 0.0},
        {"time_limit_s": -1.0},
        {"threads": True},
        {"device": "abacus"},
        {"device": None},
        # There is none on any machine.
        {"device": "cuda:9999"},
        {"time_limit_s": float("inf")},
        {"folds": 201},
        {"threads": 10**12},
    ],
)
def test_wrong_options(options: dict[str, object]) -> None:
    """Every option is checked by name."""
    with pytest.raises(ParameterError, match=next(iter(options))):
        NREst(4, **options)  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(ParameterError, match="n_labels"):
        NREst(1)


def test_serves_rcine() -> None:
    """As RCINE's estimator: the learner has the rates at the end of its first block."""
    xs, labels, feedback = draw_block(2000, 0.1, 0.2)
    learner = RCINE(5, 4, gamma=0.1, block_size=2000, estimator=NREst(4))
    for x, label, click in zip(xs, labels, feedback, strict=True):
        learner.update(Outcome(x, int(label), int(label), 0.5, int(click)))
    assert learner.rates.rho_0 == pytest.approx(0.1, abs=0.04)
    assert learner.rates.rho_1 == pytest.approx(0.2, abs=0.04)


def test_predictions_are_counted_in_bins() -> None:
    """Bins are half open, but for the last, which holds 1 as well; each label has its own."""
    step = 1.0 / BINS
    predicted = np.array([[0.0, 1.0], [step * 1.5, 1.0 - step / 2], [step * 1.6, 0.0]], np.float32)
    counts = _histogram(predicted)
    assert counts.shape == (2, BINS)
    assert {place: int(counts[place]) for place in zip(*counts.nonzero(), strict=True)} == {
        (0, 0): 1,
        (0, 1): 2,
        (1, 0): 1,
        (1, BINS - 1): 2,
    }


def test_torch_stays_out() -> None:
    """The package, its noise and the numpy part of NREst can be used without torch."""
    code = (
        "import sys, learners, learners.noise, learners.noise.held_out, learners.noise.estimate\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_feature_that_hardly_spreads_is_not_blown_up() -> None:
    """As a pixel at the margin: it is divided by a tenth of the usual spread, others by theirs."""
    rng = np.random.default_rng(0)
    xs = rng.normal(5.0, [3.0, 3.0, 1e-6], (500, 3))
    center, spread = _scaling(xs)
    np.testing.assert_allclose(center, xs.mean(0), rtol=1e-6)
    usual = np.sqrt((xs.std(0) ** 2).mean())
    np.testing.assert_allclose(spread, [*xs.std(0)[:2], LEAST_SPREAD * usual], rtol=1e-6)


def test_one_wild_value_is_cut_off() -> None:
    """Scaled instances are within bounds, so that it cannot silence all other features."""
    xs = np.array([[1e6, 0.0], [-1e6, 2.0], [1.0, -2.0]])
    scaled = _scaled(xs, np.zeros(2, np.float32), np.full(2, 2.0, np.float32))
    assert scaled.tolist() == [[LARGEST, 0.0], [-LARGEST, 1.0], [0.5, -1.0]]


def test_a_refused_block_leaves_the_networks_for_the_next_one() -> None:
    """Where nothing is trained the warm networks come back, and are not lost."""
    xs, codes = np.zeros((50, 2)), np.arange(50) % 2
    warm = {"center": np.ones(2, np.float32)}
    trained = NREst(2).estimate(xs, codes, codes, warm=warm)
    assert trained.estimate.doubts[0].code == "few_rounds"
    assert list(trained.networks) == ["center"]
    assert trained.networks["center"].tolist() == [1.0, 1.0]
