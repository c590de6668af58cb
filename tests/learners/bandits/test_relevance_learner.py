"""What `Forward` and `ForwardSoftmax` share: pieces of work, and labels that are retired."""

from __future__ import annotations

import numpy as np
import pytest

from learners import Forward, ForwardSoftmax, Outcome
from learners.assertions import alike, state_digest
from learners.bandits import relevance_learner
from tests.learners.bandits.streams import error_of_three_bands


def heard(learner: Forward | ForwardSoftmax, n_labels: int, n_rounds: int = 60) -> None:
    """Let a learner hear clicks on the first labels, a fifth of them of somebody else's rounds."""
    rng = np.random.default_rng(0)
    for i, x in enumerate(rng.normal(size=(n_rounds, learner.n_features))):
        label, bit = int(rng.integers(n_labels)), int(rng.integers(2))
        learner.update(Outcome(x, label, 0, 1 - rng.random(), bit, i % 5 == 0))


@pytest.mark.parametrize("kind", [Forward, ForwardSoftmax])
@pytest.mark.parametrize("n_rows", [1, 2, 3])
def test_what_is_learned_does_not_depend_on_the_pieces(
    kind: type[Forward | ForwardSoftmax], n_rows: int
) -> None:
    """Protects wide models, whose rows do not fit into the scratch space at once."""
    whole, pieces = kind(3, 5, n_waves=4), kind(3, 5, n_waves=4)
    regression = pieces if isinstance(pieces, ForwardSoftmax) else pieces._regression
    regression._products = regression._products[:n_rows]
    for learner in (whole, pieces):
        heard(learner, 5)
    assert state_digest(pieces.state()) == state_digest(whole.state())


@pytest.mark.parametrize("kind", [Forward, ForwardSoftmax])
def test_a_batch_of_a_model_that_is_wider_than_the_space_for_one(
    kind: type[Forward | ForwardSoftmax], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then its rows are worked on one by one, and nothing is decided otherwise."""
    learner = kind(3, 5)
    heard(learner, 5)
    rows = np.random.default_rng(1).normal(size=(3, 3))
    monkeypatch.setattr(relevance_learner, "ENTRIES_AT_ONCE", 1)
    for x, decision in zip(rows, learner.distributions(rows), strict=True):
        assert alike(decision, learner.distribution(x))


@pytest.mark.parametrize("kind", [Forward, ForwardSoftmax])
@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (280.0, 300.0), (0.0, 1e-3)])
def test_a_number_counts_by_its_size(
    kind: type[Forward | ForwardSoftmax], low: float, high: float
) -> None:
    """Few features, of any unit: by its direction alone .35 and more would be wrong."""
    assert error_of_three_bands(kind(1, 3), low, high) < 0.06


def test_a_batch_knows_the_sharpness() -> None:
    """It takes many rounds to grow, so that no check of all learners sees it in a batch."""
    learner = ForwardSoftmax(3, 5)
    heard(learner, 5)
    state = learner.state()
    rates = np.array(state["common_rates"])
    rates[2] = 3.0
    learner, rows = ForwardSoftmax.from_state({**state, "common_rates": rates}), np.eye(3)
    for x, decision in zip(rows, learner.distributions(rows), strict=True):
        assert alike(decision, learner.distribution(x))


def test_a_label_that_was_retired_before_any_round_changes_nothing() -> None:
    """Protects what doubt shrinks by: one bit tells of a direction among the labels that can be."""
    three, two = ForwardSoftmax(3, 3), ForwardSoftmax(3, 2)
    three.retire_label(2)
    for learner in (three, two):
        heard(learner, 2)
    one, other = three.state(), two.state()
    np.testing.assert_array_equal(one["covariances"], other["covariances"])
    np.testing.assert_array_equal(np.asarray(one["weights"])[:2], other["weights"])
