"""Tables of what a window tells of the noise in its labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clients.neighbor_types import Pair, Transition, WindowNoise
from clients.window_noise_report import window_summary, window_tables
from learners.neighbors import RkNN
from tests.clients import test_noise_report


def estimate(matrix: Any, *labels: str, rho_0: float | None = None, **fields: Any) -> Transition:
    """Return an estimate by 50 neighbours."""
    given = {"k_noise": 50, "rho_1": rho_0, "labels": labels, "matrix": matrix}
    return Transition(rho_0=rho_0, **(given | fields))


def window(*estimates: Transition, **fields: Any) -> WindowNoise:
    """Return what a window of 1,000 examples tells."""
    given: dict[str, Any] = {"seq": 1_234, "examples": 1_000, "k": 10, "pairs": ()}
    return WindowNoise(estimates=estimates, **(given | fields))


def shown(noise: WindowNoise) -> str:
    """Return what a terminal of usual width shows."""
    return test_noise_report.shown(*window_tables(noise), *window_summary(noise))


def test_two_labels_have_rates() -> None:
    """By their names, which are no markup; without a transition table that says the same."""
    matrix = ((0.9, 0.1), (0.25, 0.75))
    text = shown(window(estimate(matrix, "[a]", "b", rho_0=0.1, rho_1=0.25)))
    for part in ("told b, is [a]", "told [a], is b", "10.0 %", "25.0 %", "10 neighbours"):
        assert part in text
    assert "told instead" not in text


def test_more_labels_are_shown_worst_first() -> None:
    """How often each is told right, and what is told instead, as far as anything is."""
    matrix = ((1.0, 0.0, 0.0), (0.1, 0.6, 0.3), (0.2, 0.0, 0.8))
    lines = shown(window(estimate(matrix, "a", "b", "c"))).splitlines()
    rows = [line.replace("│", " ").split() for line in lines if "%" in line]
    assert rows == [
        ["b", "60.0", "%", "c", "30.0", "%"],
        ["c", "80.0", "%", "a", "20.0", "%"],
        ["a", "100.0", "%", "-", "-"],
    ]


def test_what_tells_nothing_is_said() -> None:
    """Given rates, labels that look alike, too many labels, one label, none."""
    assert "Its noise rates are given" in shown(window())
    alike = window(estimate(((0.5, 0.5), (0.5, 0.5)), "a", "b"))
    assert "By 50 neighbours all labels look alike" in shown(alike)
    rare = shown(window(estimate(((0.9, 0.1), (0.6, 0.4)), "a", "b")))
    assert "not every label clearly prevails somewhere: votes are not" in rare
    assert "prevails" not in shown(window(estimate(((0.9, 0.1), (0.4, 0.6)), "a", "b")))
    many = tuple(f"label {number}" for number in range(101))
    assert "101 labels are in the window: too many" in shown(window(estimate(None, *many)))
    assert "100.0 %" in shown(window(estimate(((1.0,),), "a")))
    empty = window(estimate(()), examples=0)
    assert window_tables(empty) == []
    assert "The window holds 0 examples" in shown(empty)


def test_the_pairs_are_shown_best_first() -> None:
    """Those that decide are marked, and no k is told that the model has none of."""
    pairs = (
        Pair(k=5, k_noise=20, hits=0.5, voting=False),
        Pair(k=10, k_noise=50, hits=0.75, voting=True),
    )
    text = shown(window(k=None, pairs=pairs))
    lines = [line for line in text.splitlines() if "%" in line]
    assert ["75.0 %" in lines[0], "yes" in lines[0], "yes" in lines[1]] == [True, True, False]
    assert "the model chooses how many neighbours vote" in " ".join(text.split())


def test_one_label_alone_is_like_no_other() -> None:
    """A window that was just begun holds one: nothing is wrong with it."""
    text = " ".join(window_summary(window(estimate(((1.0,),), "a"))))
    assert "look alike" not in text
    assert "prevails" not in text


@pytest.mark.parametrize("n_labels", [2, 3])
@pytest.mark.parametrize("quantile", [0.0, 0.05])
def test_votes_of_two_labels_are_said_not_to_be_corrected_where_they_are_not(
    n_labels: int, quantile: float
) -> None:
    """Protects from silence where a label leads by chance: also beside a third that nobody has."""
    seen = list[bool]()
    for seed in range(40):
        rng = np.random.default_rng(seed)
        k_noise, examples = int(rng.choice([5, 18, 19, 30, 50])), int(rng.choice([15, 60, 200]))
        xs = rng.normal(size=(examples, 1))
        likely = np.where(xs[:, 0] > 0, rng.choice([0.4, 0.6, 0.9]), 0.1)
        codes = (rng.random(examples) < likely).astype(np.int64)
        two, learner = (RkNN(1, n, k_noise=k_noise, quantile=quantile) for n in (2, n_labels))
        for each in (two, learner):
            each.learn_many(xs, codes)
        (reading,) = learner.window_noise()
        matrix = tuple(map(tuple, reading.transition.tolist()))
        if len(set(matrix)) > 1:
            one = estimate(matrix, "a", "b", k_noise=k_noise)
            text = " ".join(window_summary(window(one, examples=examples)))
            seen.append(two.noise_rates() is None)
            assert ("votes are not corrected" in text) == seen[-1]
    assert 5 < sum(seen) < len(seen) - 5
