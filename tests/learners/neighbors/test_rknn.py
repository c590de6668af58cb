"""RkNN and the plug-in rule: golden numbers, their invariants, and a plain twin."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from learners import create
from learners.errors import ParameterError, UnsupportedError
from learners.neighbors.auto import AutoRkNN
from learners.neighbors.knn import KNN
from learners.neighbors.neighborhood_noise import MAX_INVERTED, NeighborhoodNoise, prevails
from learners.neighbors.rknn import PlugIn, RkNN
from learners.noise.rates import NoiseRates
from tests.learners.neighbors.golden import LINE
from tests.reference.neighbors import PlainWindow

_QUERIES = np.array([[0.4, 2.9, 4.1, 5.7, 9.0]]).T
_LABELS = np.array([0, 0, 1, 0, 1, 1, 1, 1, 1, 1])


def _greedy(learner: KNN | RkNN, queries: NDArray[np.float64]) -> list[int]:
    return [decision.greedy for decision in learner.distributions(queries)]


def _taught(learner: RkNN, labels: NDArray[np.int64]) -> RkNN:
    learner.learn_many(LINE, labels)
    return learner


@pytest.mark.parametrize(
    ("labels", "rates", "knn", "rknn"),
    [
        (_LABELS, NoiseRates(0.4, 0.0), [0, 0, 1, 1, 1], [0, 0, 0, 1, 1]),
        (1 - _LABELS, NoiseRates(0.0, 0.4), [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]),
    ],
)
def test_golden_line(
    labels: NDArray[np.int64], rates: NoiseRates, knn: list[int], rknn: list[int]
) -> None:
    """Counts, rates, threshold and predictions on the line of ten points."""
    robust = _taught(RkNN(1, 2, k=5, k_noise=4), labels)
    plain = KNN(1, 2, k=5)
    plain.learn_many(LINE, labels)
    assert robust._noise.around.by_label[:10, 1].tolist() == (
        [2, 2, 2, 3, 4, 4, 5, 5, 5, 5] if labels[0] == 0 else [3, 3, 3, 2, 1, 1, 0, 0, 0, 0]
    )
    assert robust.noise_rates() == rates
    assert _greedy(plain, _QUERIES) == knn
    assert _greedy(robust, _QUERIES) == rknn


@pytest.mark.parametrize(
    ("k_noise", "counts", "rates"),
    [
        (2, [1, 1, 1, 1, 1, 1, 2, 2, 3, 3], NoiseRates(1 / 3, 0.0)),
        (4, [1, 1, 1, 2, 2, 2, 3, 4, 4, 4], NoiseRates(0.2, 0.2)),
    ],
)
def test_golden_line_with_other_labels(k_noise: int, counts: list[int], rates: NoiseRates) -> None:
    """The third labelling, with two k'; with equal rates RkNN is kNN."""
    labels = np.array([0, 0, 1, 0, 0, 1, 0, 1, 1, 1])
    robust = _taught(RkNN(1, 2, k=5, k_noise=k_noise), labels)
    assert robust._noise.around.by_label[:10, 1].tolist() == counts
    assert robust.noise_rates() == rates
    if k_noise == 4:
        plain = KNN(1, 2, k=5)
        plain.learn_many(LINE, labels)
        assert _greedy(robust, _QUERIES) == _greedy(plain, _QUERIES)


@pytest.mark.parametrize(
    ("rho_0", "rho_1", "first_positive"), [(0.3, 0.1, 3), (0.1, 0.3, 2), (0.2, 0.2, 3), (0, 0, 3)]
)
def test_known_rates_move_the_threshold(rho_0: float, rho_1: float, first_positive: int) -> None:
    """Rates 0.3/0.1 ask for a share of 0.6, 0.1/0.3 for 0.4; exactly that share is enough."""
    for positive in range(6):
        learner = RkNN(1, 2, k=5, rates="given", rho_0=rho_0, rho_1=rho_1)
        labels = np.array([1] * positive + [0] * (5 - positive))
        learner.learn_many(np.arange(5.0)[:, np.newaxis], labels)
        assert _greedy(learner, np.zeros((1, 1))) == [int(positive >= first_positive)]
        assert learner.noise_rates() == NoiseRates(rho_0, rho_1)


def _plug_in(plain: PlainWindow, query: NDArray[np.float32], k: int, k_noise: int) -> int:
    """Decide by Reeve and Kaban's formulas in fractions, with S0's k' in place of k - 1."""
    shares = [Fraction(sum(c[1:]), sum(c)) for c in plain.labels_around(k_noise, 2)]
    ranked = plain.ranked(query)
    last = ranked[:k][-1][0]
    voters = [plain.labels[position] for distance, position in ranked if distance <= last]
    share = Fraction(sum(voters), len(voters))
    p_0, p_1 = min(shares), 1 - max(shares)
    if max(p_0, p_1) >= Fraction(1, 2):
        return int(share >= Fraction(1, 2))
    return int((share - p_0) / (1 - p_0 - p_1) >= Fraction(1, 2))


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    k=st.integers(1, 8),
    k_noise=st.integers(0, 9),
    window=st.integers(1, 30),
)
def test_decisions_equal_the_plain_twin(seed: int, k: int, k_noise: int, window: int) -> None:
    """RkNN and the plug-in rule against fractions from scratch, as the window moves."""
    rng = np.random.default_rng(seed)
    robust = RkNN(2, 2, window=window, k=k, k_noise=k_noise)
    plug_in = PlugIn(2, 2, window=window, k=k)
    plain = PlainWindow(window)
    for _ in range(25):
        x, label = rng.integers(0, 4, size=2).astype(np.float64), int(rng.integers(2))
        robust.learn(x, label)
        plug_in.learn(x, label)
        plain.insert(x[np.newaxis].astype(np.float32), np.array([label]))
        query = rng.integers(0, 4, size=2).astype(np.float64)
        row = query.astype(np.float32)
        assert robust.distribution(query).greedy == _plug_in(plain, row, k, k_noise)
        assert plug_in.distribution(query).greedy == _plug_in(plain, row, k, k - 1)


@pytest.mark.parametrize(("kind", "k"), [(RkNN, 11), (PlugIn, 51)])
def test_a_rare_label_is_not_taken_for_one_told_wrongly(kind: type[RkNN], k: int) -> None:
    """Of 3 in 100, a few side by side, the other labels had to be nearly sure: half was wrong."""
    rng = np.random.default_rng(0)
    xs = rng.normal(size=(1000, 3))
    rare = (xs[:, 0] > 1.5) & (rng.random(1000) < 0.4)
    noisy = rare ^ (rng.random(1000) < 0.05)
    # Also beside a third label that nobody has.
    robust, three, plain = kind(3, 2, k=k), kind(3, 3, k=k), KNN(3, 2, k=k)
    for learner in (robust, three, plain):
        learner.learn_many(xs, noisy.astype(np.int64))
    queries = rng.normal(size=(200, 3))
    assert robust.noise_rates() is None
    assert _greedy(robust, queries) == _greedy(three, queries) == _greedy(plain, queries)
    assert sum(_greedy(robust, queries)) < 20


@pytest.mark.parametrize(
    ("counts", "certain"),
    [
        # Of 51, a lead of 8 votes is more than a standard deviation.
        ((22, 30, 51), False),
        ((21, 30, 51), True),
        ((21, 29, 51), False),
        # In small ones, as the golden vectors have them, more than half is enough.
        ((2, 3, 5), True),
        ((3, 4, 5), False),
        ((2, 2, 5), False),
    ],
)
def test_more_than_half_by_chance_is_no_majority(
    counts: tuple[int, int, int], certain: bool
) -> None:
    """Protects a rare label's window from what the best of a thousand neighbourhoods has."""
    assert prevails(*counts) is certain


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_flips=st.integers(0, 20))
def test_swapping_labels_swaps_rates_and_predictions(seed: int, n_flips: int) -> None:
    """With 0 and 1 exchanged, the rates are exchanged and, off ties, so is every prediction."""
    rng = np.random.default_rng(seed)
    xs = rng.normal(size=(60, 2))
    labels = (xs[:, 0] > 0).astype(np.int64)
    labels[rng.permutation(60)[:n_flips]] ^= 1
    one, other = RkNN(2, 2, k=7, k_noise=12), RkNN(2, 2, k=7, k_noise=12)
    one.learn_many(xs, labels)
    other.learn_many(xs, 1 - labels)
    rates, swapped = one.noise_rates(), other.noise_rates()
    if rates is None:
        assert swapped is None
        return
    assert swapped is not None
    assert (rates.rho_0, rates.rho_1) == (swapped.rho_1, swapped.rho_0)
    for query in rng.normal(size=(20, 2)):
        if one.scores(query)[1]:
            assert one.distribution(query).greedy == 1 - other.distribution(query).greedy


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), quantile=st.sampled_from((0.0, 0.02, 0.1)))
def test_the_many_label_form_reduces_to_two(seed: int, quantile: float) -> None:
    """Of three labels of which two occur, these are decided as if there were two, but for ties."""
    rng = np.random.default_rng(seed)
    xs = rng.normal(size=(80, 2))
    labels = ((xs[:, 0] > 0) ^ (rng.random(80) < np.where(xs[:, 0] > 0, 0.1, 0.3))).astype(np.int64)
    two = RkNN(2, 2, k=9, k_noise=15, quantile=quantile)
    three = RkNN(2, 3, k=9, k_noise=15, quantile=quantile)
    two.learn_many(xs, labels)
    three.learn_many(xs, labels)
    for query in rng.normal(size=(20, 2)):
        assert three.scores(query).tolist() == [*two.scores(query).tolist(), -np.inf]
        if abs(two.scores(query)[1]) > 0:
            assert two.distribution(query).greedy == three.distribution(query).greedy


@pytest.mark.parametrize("quantile", [0.0, 0.03, 0.2])
def test_anchors_are_the_oldest_with_the_high_count(quantile: float) -> None:
    """Of five labels, one of which nobody has: row by row as the rule says it in words."""
    rng = np.random.default_rng(6)
    xs, labels = rng.integers(0, 9, size=(70, 2)).astype(np.float64), rng.integers(0, 4, size=70)
    learner = RkNN(2, 5, window=60, k_noise=5, quantile=quantile)
    learner.learn_many(xs, labels)
    plain = PlainWindow(60, "euclidean")
    plain.insert(xs.astype(np.float32), labels)
    around = plain.labels_around(5, 5)
    rows = []
    for label in range(4):
        high = sorted(counts[label] for counts in around)[-1 - int(quantile * 60)]
        anchor = next(counts for counts in around if counts[label] == high)
        rows.append([count / 6 for count in anchor[:4]])
    present, transition = learner.transition()
    assert present == [0, 1, 2, 3]
    assert transition.tolist() == rows


def test_of_too_many_labels_no_matrix_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes longer than all the rest of a decision, and its inverse even longer."""
    learner = RkNN(1, MAX_INVERTED + 1, k=1, k_noise=1)
    learner.learn_many(np.arange(400.0)[:, np.newaxis], np.arange(400) % MAX_INVERTED)
    made: list[NeighborhoodNoise] = []
    transition = NeighborhoodNoise.transition

    def counted(noise: NeighborhoodNoise) -> tuple[list[int], NDArray[np.float64]]:
        made.append(noise)
        return transition(noise)

    monkeypatch.setattr(NeighborhoodNoise, "transition", counted)
    assert learner.distribution(np.array([7.1])).greedy == 7
    assert len(made) == 1
    learner.learn(np.array([900.0]), MAX_INVERTED)
    assert learner.distribution(np.array([7.1])).greedy == 7
    assert len(made) == 1


def test_a_label_that_nobody_has_is_below_all_others() -> None:
    """Also below one whose corrected share is negative, where the choice is between the two."""
    learner = RkNN(1, 3, k=2, k_noise=4)
    learner.learn_many(LINE, _LABELS)
    x = np.zeros(1)
    assert learner.scores(x)[1] < 0
    assert learner.distribution(x, [1, 2]).greedy == 1


@pytest.mark.parametrize(
    ("quantile", "extremes"), [(0.0, (1, 4)), (0.39, (1, 4)), (0.4, (2, 3)), (0.49, (2, 3))]
)
def test_quantiles_take_counts_inside_the_extremes(
    quantile: float, extremes: tuple[int, int]
) -> None:
    """With 10 points, a quantile of 0.4 to 0.49 skips four counts at either end."""
    labels = np.array([0, 0, 0, 0, 1, 0, 1, 1, 1, 1])
    robust = _taught(RkNN(1, 2, k=5, k_noise=4, quantile=quantile), labels)
    counts = sorted(robust._noise.around.by_label[:10, 1].tolist())
    assert counts == [1, 1, 1, 1, 2, 3, 4, 4, 4, 4]
    assert robust._noise.extremes(1) == extremes


def test_a_tie_is_not_won_by_a_label_that_may_not_be_chosen() -> None:
    """Of two labels 1 wins a tie, unless 0 alone is allowed or left."""
    for learner in (KNN(1, 2, k=2), RkNN(1, 2, k=2)):
        learner.learn_many(np.zeros((2, 1)), np.array([0, 1]))
        x = np.zeros(1)
        assert [learner.distribution(x, some).greedy for some in ([0, 1], [0], [1])] == [1, 0, 1]
        learner.retire_label(1)
        assert learner.distribution(x).greedy == 0


def test_asymmetric_noise_bends_knn_and_not_rknn() -> None:
    """What the learner is for: 40 % of one label flipped, a plateau where it has 70 %."""
    rng = np.random.default_rng(1)
    xs = rng.random((4000, 1))
    share = np.select([xs[:, 0] < 0.3, xs[:, 0] < 0.7], [0.0, 0.7], 1.0)
    noisy = ((rng.random(4000) < share) & (rng.random(4000) > 0.4)).astype(np.int64)
    queries = np.linspace(0.35, 0.65, 40)[:, np.newaxis]
    plain, robust = KNN(1, 2, window=4000, k=200), RkNN(1, 2, window=4000, k=200, k_noise=100)
    plain.learn_many(xs, noisy)
    robust.learn_many(xs, noisy)
    assert np.mean(_greedy(plain, queries)) < 0.1
    assert np.mean(_greedy(robust, queries)) > 0.9


def test_edge_cases() -> None:
    """Nothing, one example, one class, equal points, k beyond the window."""
    learner = RkNN(1, 2, k=50, k_noise=99)
    assert learner.noise_rates() is None
    assert _greedy(learner, np.zeros((1, 1))) == [0]
    learner.learn(np.zeros(1), 1)
    assert _greedy(learner, np.zeros((1, 1))) == [1]
    one_class = _taught(RkNN(1, 2, k=5, k_noise=4), np.zeros(10, np.int64))
    assert one_class.noise_rates() is None
    assert _greedy(one_class, _QUERIES) == [0] * 5
    equal = RkNN(1, 2, k=3, k_noise=4)
    equal.learn_many(np.ones((9, 1)), np.array([1, 1, 1, 0, 0, 0, 0, 0, 0]))
    assert _greedy(equal, np.ones((1, 1))) == [0], "all nine vote, not the three oldest"


def test_labels_may_become_three_unless_rates_are_given() -> None:
    """A third label turns the threshold into anchors; known rates are those of two labels."""
    learner = _taught(RkNN(1, 2, k=5, k_noise=4), _LABELS)
    assert learner.add_label() == 2
    with pytest.raises(UnsupportedError, match="transition"):
        learner.noise_rates()
    present, transition = learner.transition()
    assert present == [0, 1]
    assert transition.tolist() == [[0.6, 0.4], [0.0, 1.0]]
    assert _greedy(learner, _QUERIES) == [0, 0, 0, 1, 1]
    with pytest.raises(UnsupportedError, match="given"):
        RkNN(1, 2, rates="given").add_label()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k_noise": -1}, "k_noise"),
        ({"quantile": 0.5}, r"quantile: expected a number in \[0, 0.5\)"),
        ({"quantile": 10**400}, "quantile"),
        ({"rates": "known"}, "rates"),
        ({"rho_0": 0.5, "rho_1": 0.5}, "rho_0"),
        ({"metric": "l1"}, "metric"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], message: str) -> None:
    """Each wrong option is named."""
    with pytest.raises(ParameterError, match=message):
        RkNN(1, 2, **options)  # type: ignore[arg-type]  # wrong types are what is tried


def test_the_plug_in_rule_has_one_k() -> None:
    """Of numpy's integers too, k' is k - 1."""
    for k in (1, 5, np.int64(5)):
        learner = create("plugin_knn", 1, 2, k=k)
        assert isinstance(learner, PlugIn)
        assert learner.k_noise == k - 1


def test_given_rates_need_no_graph() -> None:
    """A window whose lists would be too many is no matter where none are kept."""
    with pytest.raises(ParameterError, match=r"k_noise: expected neighbour lists .* got 1000"):
        RkNN(1, 2, window=50_000, k_noise=1_000)
    learner = RkNN(1, 2, window=50_000, k_noise=1_000, rates="given", rho_0=0.1)
    assert not learner.keeps_graph
    assert learner.window_noise() == []
    with pytest.raises(UnsupportedError):
        learner.transition()


def test_too_long_lists_are_said_by_the_name_that_was_given() -> None:
    """Of the plug-in rule it is k as it was given; of the automatic one, without a k, window."""
    with pytest.raises(ParameterError, match=r"^k: expected neighbour lists .* got 1000$"):
        PlugIn(1, 2, window=50_000, k=1_000)
    with pytest.raises(
        ParameterError, match=r"^k_noise: expected an integer of at most 12,500,000"
    ):
        RkNN(1, 2, k_noise=10**400)
    with pytest.raises(ParameterError, match=r"^window: expected neighbour lists .* got 700000$"):
        AutoRkNN(1, 2, window=700_000)


def test_what_is_counted_of_each_label_is_bounded() -> None:
    """Of 60 labels and 12,000,000 neighbours a learn took 1.5 s; of 1,024 no memory was left."""
    with pytest.raises(ParameterError, match=r"^k_noise: expected neighbour lists of at most"):
        RkNN(1, 60, window=1, k_noise=12_000_000)
    learner = RkNN(1, 2, window=1, k_noise=6_000_000)
    with pytest.raises(ParameterError, match=r"^k_noise: expected neighbour lists of at most"):
        learner.add_label()
    assert learner.n_labels == 2


@pytest.mark.parametrize("quantile", [-0.01, 0.5, float("nan"), "0.1", None, True])
def test_bad_quantiles_are_refused(quantile: Any) -> None:
    """What is no number in [0, 0.5) is named."""
    with pytest.raises(ParameterError, match=r"quantile: expected a number in \[0, 0.5\)"):
        RkNN(1, 2, quantile=quantile)


def test_labels_beyond_what_a_window_counts_are_refused() -> None:
    """From the start, and when one is added, which then changes nothing."""
    with pytest.raises(ParameterError, match="window: expected at most 61881 for 101 labels"):
        KNN(1, 101, window=62_500)
    learner = KNN(1, 100, window=62_500)
    with pytest.raises(ParameterError, match="window: expected at most 61881 for 101 labels"):
        learner.add_label()
    assert learner.n_labels == 100


def test_given_rates_are_for_two_labels() -> None:
    """Two rates say nothing about three labels."""
    with pytest.raises(ParameterError, match="n_labels: expected 2"):
        RkNN(1, 3, rates="given")
    with pytest.raises(ParameterError, match="k: expected an integer"):
        PlugIn(1, 2, k=0)


def test_a_label_that_is_added_has_been_around_nobody() -> None:
    """With a quantile above 0, what it had been seen of was not counted for those already there."""
    rng = np.random.default_rng(2)
    xs = rng.normal(size=(100, 2))
    labels = (xs[:, 0] > 0) * 2
    labels[:50] = 0
    later, first = (RkNN(2, n, k=9, k_noise=7, quantile=0.1) for n in (2, 3))
    for each in (later, first):
        each.learn_many(xs[:50], labels[:50])
    later.add_label()
    for each in (later, first):
        each.learn_many(xs[50:], labels[50:])
    assert [later.scores(x).tolist() for x in xs] == [first.scores(x).tolist() for x in xs]
