"""The network: what its heads may learn from, and that its predictions follow the formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from learners.noise import nrest_network
from learners.noise.mixture import Levels, first_levels, right_odds, rounds_of
from learners.noise.nrest_network import (
    BATCH,
    HIDDEN,
    LEARNING_RATE,
    SCALAR_LEARNING_RATE,
    Adam,
    Fold,
    Network,
    Tensors,
    Watch,
    own_odds,
    telling,
    train_fold,
)


def make_network(seed: int = 0) -> Network:
    """Return a network of 3 features and 4 labels."""
    return Network(3, 4, torch.Generator().manual_seed(seed), torch.device("cpu"))


def test_begins_where_the_learner_looks() -> None:
    """An untrained network holds that label for right that it expects to be shown."""
    network = make_network()
    right, shown = network.forward(torch.randn(50, 3, generator=torch.Generator().manual_seed(1)))
    assert torch.equal(right.argmax(dim=0), shown.argmax(dim=0))
    assert network.parts["hidden_2"].shape == (HIDDEN, HIDDEN)


def test_own_odds() -> None:
    """Training sees the log odds that the rates are fitted with, and never an infinite slope."""
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=(20, 4)) * 3, rng.integers(4, size=20)
    expected, _ = right_odds(0.0, rounds_of(scores, labels, np.zeros(20)))
    odds = own_odds(torch.from_numpy(scores.T), torch.from_numpy(labels[np.newaxis]))
    np.testing.assert_allclose(odds, expected, rtol=1e-9, atol=1e-9)
    wild = torch.tensor([[1e6, -1e6, 0.0], [0.0, 0.0, 0.0]], requires_grad=True)
    torch.autograd.backward(own_odds(wild, torch.tensor([[0, 0, 0]])).sum())
    assert wild.grad is not None
    assert wild.grad.isfinite().all()


def test_clicks_do_not_bend_what_is_shown() -> None:
    """No gradient of the right label's scores reaches the head of the shown label."""
    network = make_network()
    right, _ = network.forward(torch.ones(5, 3))
    torch.autograd.backward(right[0].sum())
    touched = {
        name for name, part in network.parts.items() if part.grad is not None and part.grad.any()
    }
    assert touched >= {"right", "right_bias", "trust"}
    assert not touched & {"shown", "shown_bias"}


def test_scores_do_not_depend_on_the_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of more rows than are worked on at once have the scores of each row, in order."""
    network = make_network()
    xs = torch.randn(10, 3, generator=torch.Generator().manual_seed(1))
    rows = torch.tensor([9, 0, 4, 4, 7, 2, 1])
    whole = network.scores(xs, rows)
    assert whole.shape == (7, 4)
    monkeypatch.setattr(nrest_network, "_BLOCK", 3)
    np.testing.assert_allclose(network.scores(xs, rows), whole, rtol=1e-6)


def test_adam_is_adam() -> None:
    """The optimiser on one vector does what torch's own does to each part."""
    ours, theirs = make_network(), make_network()
    xs = torch.randn(20, 3, generator=torch.Generator().manual_seed(1))
    scalars = [theirs.parts["trust"], theirs.parts["offset"]]
    others = [part for part in theirs.parts.values() if part.ndim]
    groups: list[dict[str, object]] = [{"params": others, "lr": LEARNING_RATE}]
    groups.append({"params": scalars, "lr": SCALAR_LEARNING_RATE})
    optimizer, own = torch.optim.Adam(groups), Adam(ours)
    for _ in range(5):
        own.step(ours.forward(xs)[0].pow(2).sum())
        theirs.gradient.zero_()
        torch.autograd.backward(theirs.forward(xs)[0].pow(2).sum())
        optimizer.step()
    for name, values in ours.arrays().items():
        np.testing.assert_allclose(values, theirs.arrays()[name], rtol=2e-4, atol=2e-6)
    assert (ours.arrays()["right"] != make_network().arrays()["right"]).any()


def test_weights_survive_a_round_trip() -> None:
    """What `arrays` gives, `load` takes, bit for bit; the arrays are copies."""
    first, second = make_network(0), make_network(1)
    saved = first.arrays()
    second.load(saved)
    for name, values in saved.items():
        assert (second.arrays()[name] == values).all()
    saved["trust"] += 1
    assert float(first.arrays()["trust"]) == 1.0


def test_no_label_is_given_up() -> None:
    """A label whose clicks seem to tell nothing is trained as if they did, less so later on."""
    rho_0, rho_1 = np.array([0.1, 0.2, 0.65, 0.97]), np.array([0.3, 0.2, 0.34, 0.0])
    levels = Levels(0.0, 0.0, rho_0, rho_1, 1.0)
    median = float(np.median(1 - rho_0 - rho_1))
    for epochs, share in ((1, 1.0), (2, 0.8), (3, 0.6), (4, 0.5), (30, 0.5)):
        trained = telling(levels, epochs)
        beta = 1 - trained.rho_0 - trained.rho_1
        assert beta.min() == pytest.approx(share * median)
        assert (trained.rho_0[:2] == rho_0[:2]).all()
        assert (trained.rho_1 == rho_1).all()
    missed = telling(levels._replace(rho_1=np.array([0.3, 0.2, 0.9, 0.0])), 1)
    assert missed.rho_0[2] == pytest.approx(0.65 / 4)
    alike = Levels(0.0, 0.0, np.full(3, 0.4), np.full(3, 0.55), 1.0)
    np.testing.assert_allclose(telling(alike, 0).rho_0, 0.4)


def test_held_out_rounds_are_not_trained_on() -> None:
    """Other feedback in the held-out fold changes no weight before the rates are fitted to it."""
    rng = np.random.default_rng(0)
    n = 3 * BATCH
    held = np.arange(n) % 3 == 0
    xs = torch.from_numpy(rng.normal(size=(n, 3)).astype(np.float32))
    labels = torch.from_numpy(rng.integers(4, size=n))
    feedback = rng.integers(2, size=n).astype(np.float32)
    ends = []
    for held_feedback in (feedback[held], 1 - feedback[held]):
        changed = feedback.copy()
        changed[held] = held_feedback
        block = Tensors(xs, labels, torch.from_numpy(changed))
        generator = torch.Generator().manual_seed(0)
        watch = Watch(None, lambda: False, lambda _share, _loss: None)
        ends.append(train_fold(make_network(), block, held, generator, 1, watch))
    start = first_levels(feedback[held].astype(np.float64), 4)
    assert (start.rho_0 > 0).all()
    assert ends[0].epochs == ends[1].epochs == 1
    assert ends[0].scores.shape == ends[0].predicted.shape == (held.sum(), 4)
    # The first epoch's rates come from the share of clicks alone, which is nearly the same.
    assert np.abs(ends[0].scores - ends[1].scores).max() < 0.05
    assert ends[0].loss != ends[1].loss


def test_what_is_learned_by_heart_ends_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Protects time: a small block of many features is left as soon as nothing more is found.

    What is found by going on six times as long predicts hardly better.
    """
    rng = np.random.default_rng(0)
    n, d = 900, 200
    xs = rng.normal(size=(n, d)).astype(np.float32)
    labels = rng.integers(4, size=n)
    right = (xs[:, :4] + 2.0 * np.eye(4, dtype=np.float32)[labels]).argmax(axis=1)
    feedback = (rng.random(n) < np.where(right == labels, 0.8, 0.2)).astype(np.float32)
    block = Tensors(*(torch.from_numpy(each) for each in (xs, labels, feedback)))

    def trained(by_heart: float) -> Fold:
        monkeypatch.setattr(nrest_network, "BY_HEART", by_heart)
        network = Network(d, 4, torch.Generator().manual_seed(0), torch.device("cpu"))
        watch = Watch(None, lambda: False, lambda _share, _loss: None)
        order = torch.Generator().manual_seed(1)
        return train_fold(network, block, np.arange(n) % 3 == 0, order, None, watch)

    short, long = trained(nrest_network.BY_HEART), trained(np.inf)
    assert short.loss < long.loss + 0.005
    assert short.epochs < long.epochs / 3
