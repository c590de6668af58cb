"""The hubness-aware learners and the weighted baselines, on the fixture of ten points."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from learners.errors import ParameterError
from learners.neighbors.anhbnn import ANHBNN, _information
from learners.neighbors.hfnn import HFNN
from learners.neighbors.hiknn import HIKNN
from learners.neighbors.hubness import hubness_report, skewness
from learners.neighbors.hubness_learner import HwKNN
from learners.neighbors.neighborhoods import Neighborhoods
from learners.neighbors.nhbnn import NHBNN
from learners.neighbors.search import Found
from learners.neighbors.weighted import AKNN, NWKNN
from learners.neighbors.window_learner import WindowLearner
from tests.learners.neighbors.golden import LABELS, POINTS, QUERIES
from tests.reference.neighbors import PlainWindow


def _taught(learner: WindowLearner) -> WindowLearner:
    learner.learn_many(POINTS, LABELS)
    return learner


def _shares(learner: WindowLearner, *, logarithmic: bool = False) -> list[float]:
    """Return the scores for the three queries, each scaled to sum 1, in one list."""
    shares: list[float] = []
    for query in QUERIES:
        scores = _taught(learner).scores(query) if not len(learner) else learner.scores(query)
        if logarithmic:
            scores = np.exp(scores - scores.max())
        shares += (scores / scores.sum()).tolist()
    return shares


@pytest.mark.parametrize(
    ("learner", "golden"),
    [
        (HwKNN(2, 3, k=3), [0, 1, 0, 0, 0.287381757068, 0.712618242932, 1, 0, 0]),
        (
            HFNN(2, 3, k=3),
            [
                0.360680846009, 0.430005942850, 0.209313211141,
                0.000216661141, 0.422555263560, 0.577228075299,
                0.914806166571, 0.084736658933, 0.000457174496,
            ],
        ),
        (
            HFNN(2, 3, k=3, weighted=False),
            [
                0.200068853130, 0.433278918761, 0.366652228109,
                0.000233154593, 0.411070021877, 0.588696823530,
                0.888112220613, 0.111443945193, 0.000443834193,
            ],
        ),
        (
            HFNN(2, 3, k=3, include_self=True),
            [
                0.300598604503, 0.521381756446, 0.178019639051,
                0.000175970133, 0.471737659847, 0.528086370019,
                0.936150703607, 0.063537350141, 0.000311946252,
            ],
        ),
        (
            HIKNN(2, 3, k=3),
            [
                0.304387831054, 0.546953455180, 0.148658713765,
                0, 0.413549604615, 0.586450395385,
                0.963486118970, 0.036513881030, 0,
            ],
        ),
        (
            HIKNN(2, 3, k=3, weighted=False),
            [
                0.170626937001, 0.547842994936, 0.281530068063,
                0, 0.360274754925, 0.639725245075,
                0.950907620467, 0.049092379533, 0,
            ],
        ),
    ],
    ids=["hw", "hfnn", "hfnn-flat", "hfnn-self", "hiknn", "hiknn-flat"],
)  # fmt: skip
def test_golden_votes(learner: WindowLearner, golden: list[float]) -> None:
    """Scores of the three queries, to nine digits."""
    assert _shares(learner) == pytest.approx(golden, abs=1e-9)


@pytest.mark.parametrize(
    ("learner", "golden"),
    [
        (
            NHBNN(2, 3, k=3),
            [
                0.047269336967, 0.763653315165, 0.189077347868,
                0.010276359384, 0.332036640031, 0.657687000585,
                0.960736841866, 0.024251644980, 0.015011513154,
            ],
        ),
        (
            # The authors' library: what its denominator leaves out makes no sum of 1.
            NHBNN(2, 3, k=3, smoothing=1 / 6, normalised=False),
            [
                0.003114160428, 0.937716791431, 0.059169048140,
                0.000111510109, 0.235040655459, 0.764847834433,
                0.999207878711, 0.000646442927, 0.000145678361,
            ],
        ),
        (
            ANHBNN(2, 3, k=3, smoothing=1e-3, backoff=False),
            [
                0.000000187184, 0.999438073605, 0.000561739211,
                0.000230582990, 0.307789863136, 0.691979553873,
                0.999999979117, 0.000000020846, 0.000000000037,
            ],
        ),
    ],
    ids=["nhbnn", "nhbnn-library", "anhbnn"],
)  # fmt: skip
def test_golden_posteriors(learner: WindowLearner, golden: list[float]) -> None:
    """Posterior probabilities of the three queries, to nine digits."""
    assert _shares(learner, logarithmic=True) == pytest.approx(golden, abs=1e-9)


@pytest.mark.parametrize(
    ("learner", "golden"),
    [
        (AKNN(2, 3, k=3), [0, 3, 0, 0, 2, 1, 3, 0, 0]),
        (NWKNN(2, 3, k=3), [0, 2.791814577306, 0, 0, 1.861209718204, 1, 3, 0, 0]),
    ],
    ids=["aknn", "nwknn"],
)
def test_golden_counts(learner: WindowLearner, golden: list[float]) -> None:
    """Votes of the weighted baselines."""
    _taught(learner)
    votes = [value for query in QUERIES for value in learner.scores(query).tolist()]
    assert votes == pytest.approx(golden, abs=1e-9)


def test_golden_counts_of_occurrence() -> None:
    """N, N_c, BN, their skewness, deviation and threshold; hubs, orphans and weights."""
    learner = HwKNN(2, 3, k=3)
    _taught(learner)
    counts = learner._occurrences
    assert counts.total(np.arange(10)).tolist() == [2, 2, 3, 5, 6, 2, 2, 3, 5, 0]
    assert counts.by_label[:10].tolist() == [
        [2, 0, 0], [2, 0, 0], [2, 1, 0], [3, 2, 0], [0, 3, 3],
        [0, 2, 0], [0, 1, 1], [0, 1, 2], [0, 2, 3], [0, 0, 0],
    ]  # fmt: skip
    assert counts.bad(np.arange(10, dtype=np.int32)).tolist() == [0, 0, 1, 3, 3, 0, 1, 1, 3, 0]
    report = learner.hubness()
    assert report.skewness == pytest.approx(0.230940107676, abs=1e-12)
    assert report.threshold == pytest.approx(6.464101615138, abs=1e-12)
    assert (len(report.hubs), report.n_orphans, report.n_examples) == (0, 1, 10)
    assert report.bad_share == 12 / 30
    assert learner._badness() == pytest.approx((1.2, 1.248999599680), abs=1e-12)
    weights = {voter.label: float(voter.votes.max()) for voter in learner.neighbors(POINTS[2])}
    assert weights[0] == pytest.approx(2.613705438739, abs=1e-9)


def test_hubs_are_told_by_occurrences_and_the_bad_ones_named() -> None:
    """The one with most comes first; bad is who is looked at by others for more than half."""
    members = np.repeat([5, 2, 0, 1], (16, 12, 1, 1))[:, np.newaxis].astype(np.int32)
    labels = np.zeros(30, np.int32)
    labels[:9] = 1  # of those that look at 5, which has label 1 too, 7 have label 0
    labels[16:22] = 1  # and of those that look at 2, half
    report = hubness_report(Neighborhoods(100, labels, members))
    assert report.threshold == pytest.approx(1 + 2 * math.sqrt(402 / 30 - 1))
    assert report.hubs.tolist() == [105, 102]
    assert report.occurrences.tolist() == [16, 12]
    assert report.bad_occurrences.tolist() == [7, 6]
    assert report.bad.tolist() == [False, False]
    labels[7:9] = 0
    report = hubness_report(Neighborhoods(100, labels, members))
    assert report.bad_occurrences.tolist() == [9, 6]
    assert report.bad.tolist() == [True, False]
    assert (report.n_orphans, report.bad_share) == (26, 17 / 30)


def test_places_of_a_label_are_counted_as_the_window_moves() -> None:
    """Of the examples there are: those that left it take their places along."""
    rng = np.random.default_rng(8)
    xs, labels = rng.normal(size=(60, 2)), rng.integers(0, 3, size=60)
    learner, plain = HFNN(2, 3, window=25, k=3), PlainWindow(25)
    for some in (slice(0, 20), slice(20, 60)):
        learner.learn_many(xs[some], labels[some])
        plain.insert(xs[some].astype(np.float32), labels[some])
        table = np.zeros((3, 3), np.int64)
        for label, counts in zip(plain.labels, plain.occurrences(3, 3), strict=True):
            table[label] += counts
        assert [learner._occurrences.of_label(c).tolist() for c in range(3)] == table.tolist()


def test_golden_memberships_of_an_orphan() -> None:
    """Example 9 is nobody's neighbour: it votes as the class of its label does."""
    learner = HFNN(2, 3, k=3)
    _taught(learner)
    [orphan, *_] = learner.neighbors(POINTS[9])
    assert orphan.seq == 9
    golden = [0.000199880072, 0.399960023986, 0.599840095942]
    assert orphan.votes.tolist() == pytest.approx(golden, abs=1e-9)


def test_golden_radii_and_information() -> None:
    """AKNN's distances to the nearest enemy, HIKNN's alpha and beta, ANHBNN's information."""
    aknn = AKNN(2, 3, k=3)
    _taught(aknn)
    assert (aknn.radii() / 10).tolist() == pytest.approx(
        [
            2.828427124746, 2.147091055358, 1.931320791583, 1.931320791583, 2.195449840010,
            2.343074902772, 1.170469991072, 1.431782106328, 1.170469991072, 4.177319714841,
        ],
        abs=1e-12,
    )  # fmt: skip
    hiknn = HIKNN(2, 3, k=3)
    _taught(hiknn)
    alphas, betas = hiknn._information(hiknn._find_all(np.zeros((1, 2), np.float32), more=7)[0])
    order = np.argsort(betas[:, 0])
    assert betas[order, 0].tolist() == pytest.approx(
        sorted([0.522878745280] * 4 + [0.397940008672] * 2 + [0.221848749616] * 2
               + [0.154901959986, 1.0]), abs=1e-12
    )  # fmt: skip
    assert alphas[order, 0].tolist() == pytest.approx(
        sorted([0.435424965946] * 4 + [0.287585625784] * 2 + [0.079217778838] * 2 + [0.0, 1.0]),
        abs=1e-12,
    )
    anhbnn = ANHBNN(2, 3, k=3)
    _taught(anhbnn)
    found = anhbnn._find_all(QUERIES[1:2].astype(np.float32))[0]
    assert found.slots.tolist() == [8, 4, 7]
    pairs, counts = anhbnn._pairs(found), np.bincount(LABELS)
    table = [
        [_information(pairs[i, i], pairs[j, j], pairs[i, j], counts) for j in range(3)]
        for i in range(3)
    ]
    assert table[0][2] == pytest.approx(0.033979807359, abs=1e-12)
    assert table[0][1] == table[1][2] == 0.0


def test_memberships_sum_to_one_and_smoothing_levels_them() -> None:
    """h-FNN's scores are shares; with endless smoothing all labels are alike."""
    for options in ({}, {"anti_hub": 99}, {"include_self": True}, {"smoothing": 1e9}):
        learner = HFNN(2, 3, k=3, **options)
        _taught(learner)
        for query in (*QUERIES, POINTS[0]):
            scores = learner.scores(query)
            assert scores.sum() == pytest.approx(1.0)
            if "smoothing" in options:
                assert scores.tolist() == pytest.approx([1 / 3] * 3, abs=1e-6)


def test_neighbours_at_distance_zero_vote_alone() -> None:
    """Of distance-weighted votes those at the very place count, and alike."""
    learner = HFNN(1, 2, k=3)
    learner.learn_many(np.array([[0.0], [0.0], [0.5], [9.0]]), np.array([1, 1, 0, 0]))
    votes = [voter.votes.sum() for voter in learner.neighbors(np.zeros(1))]
    assert votes == pytest.approx([0.5, 0.5, 0.0])


def test_anti_hub_rule_of_nhbnn_mixes_the_label_in() -> None:
    """A rare neighbour's factor is 0.4 of its own likelihood and 0.6 of its label's rate."""
    learner = NHBNN(2, 3, k=3, anti_hub=0)
    _taught(learner)
    [orphan, *_] = learner.neighbors(POINTS[9])
    likelihoods = np.array([1 / 22, 1 / 26, 2 / 22])
    table = np.array([0.0, 2.0, 3.0 + 3.0])
    rates = table / (4 * 3 * np.array([3, 4, 3])) + 1e-5
    factor = 0.4 * likelihoods / likelihoods.sum() + 0.6 * rates / rates.sum()
    assert np.exp(orphan.votes).tolist() == pytest.approx(factor.tolist())


@pytest.mark.parametrize(
    "options",
    [
        (HwKNN, {}),
        (HFNN, {"include_self": True, "smoothing": 1e-9}),
        (HIKNN, {}),
        (NHBNN, {"anti_hub": 1}),
        (ANHBNN, {}),
        (AKNN, {}),
        (NWKNN, {}),
    ],
    ids=lambda options: options[0].kind,
)
def test_a_label_that_nobody_has_changes_nothing(
    options: tuple[type[WindowLearner], dict[str, Any]],
) -> None:
    """The scores of the labels in the window are what they are without another one."""
    kind, given = options
    three, four = (_taught(kind(2, n, k=3, **given)) for n in (3, 4))
    for query in (*QUERIES, POINTS[9]):
        scores = four.scores(query)[:3]
        assert scores.tolist() == pytest.approx(three.scores(query).tolist(), rel=1e-6)
        assert four.distribution(query).greedy == three.distribution(query).greedy


def test_with_one_label_aknn_is_knn() -> None:
    """Without an enemy there is no unit of distance: the nearest vote, not the oldest."""
    learner = AKNN(1, 2, k=2)
    learner.learn_many(np.arange(5.0)[:, np.newaxis], np.ones(5, np.int64))
    assert [voter.seq for voter in learner.neighbors(np.array([3.9]))] == [4, 3]


def test_an_anti_hub_is_not_its_own_neighbour_in_h_fnn() -> None:
    """It votes as its label does on average, whether or not others count themselves."""
    votes = []
    for include_self in (False, True):
        learner = _taught(HFNN(2, 3, k=3, include_self=include_self))
        votes.append(learner.neighbors(POINTS[9])[0].votes.tolist())
    assert votes[0] == votes[1]


@pytest.mark.parametrize("kind", [NHBNN, ANHBNN])
@pytest.mark.parametrize("size", [1, 3, 6, 10])
def test_likelihoods_of_a_class_sum_to_one(kind: type[NHBNN | ANHBNN], size: int) -> None:
    """Over all examples of the window, also while it holds fewer than k others."""
    learner = kind(1, 2, k=5)
    learner.learn_many(np.arange(float(size))[:, np.newaxis] ** 2, np.arange(size) % 2)
    live = learner._examples.live()
    # One by one: of an example alone ANHBNN has no pairs to look at.
    votes = [learner._votes(Found(live[i : i + 1], np.zeros(1))) for i in range(size)]
    sums = np.exp(np.concatenate(votes)).sum(axis=0)
    present = np.bincount(np.arange(size) % 2, minlength=2) > 0
    assert sums[present].tolist() == pytest.approx([1.0] * int(present.sum()))


@pytest.mark.parametrize("kind", [HwKNN, HFNN, HIKNN, NHBNN, ANHBNN, AKNN, NWKNN])
def test_edge_cases(kind: type[WindowLearner]) -> None:
    """Empty, one example, one class, all equal, k beyond the window: an answer each time."""
    empty = kind(1, 3, window=9, k=5, metric="euclidean")
    assert empty.distribution(np.zeros(1)).greedy == 0
    assert empty.neighbors(np.zeros(1)) == []
    empty.learn(np.zeros(1), 2)
    # h-FNN does not look at own labels, and of occurrences there are none yet.
    assert empty.distribution(np.ones(1)).greedy == (0 if kind is HFNN else 2)
    assert [voter.label for voter in empty.neighbors(np.zeros(1))] == [2]
    assert empty.suspects([0]).tolist() == []
    for _ in range(12):
        empty.learn(np.zeros(1), 2)
        scores = empty.scores(np.zeros(1))
        assert not np.isnan(scores).any()
        assert scores.argmax() == 2
    assert empty.suspects().tolist() == []


def test_an_example_among_older_equals_hears_k_of_them() -> None:
    """The youngest of three equal examples does not find itself, and no second one instead."""
    learner = HwKNN(1, 2, k=1)
    learner.learn_many(np.zeros((3, 1)), np.array([1, 0, 0]))
    assert learner.suspects().tolist() == [0, 1, 2]
    assert learner.suspects([2, 1, 3, -1]).tolist() == [1, 2]


def test_bad_hubs_harm_knn_and_not_the_occurrence_models() -> None:
    """What they are for: flipping the labels of hubs costs kNN more than h-FNN."""
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(4, 60)) * 0.32
    labels = rng.integers(0, 4, size=900)
    xs = centres[labels] + rng.normal(size=(900, 60))
    probe = HwKNN(60, 4, window=600)
    probe.learn_many(xs[:600], labels[:600])
    hubs = np.argsort(-probe.occurrences())[:150]
    noisy = labels[:600].copy()
    noisy[hubs] = (noisy[hubs] + 1 + rng.integers(0, 3, size=150)) % 4
    errors = {}
    for learner in (HwKNN(60, 4, window=600), HFNN(60, 4, window=600), NWKNN(60, 4, window=600)):
        learner.learn_many(xs[:600], noisy)
        greedy = np.array([each.greedy for each in learner.distributions(xs[600:])])
        errors[learner.kind] = float(np.mean(greedy != labels[600:]))
    assert errors["h_fnn"] < errors["hw_knn"] < errors["nwknn"]
    assert errors["h_fnn"] < errors["nwknn"] - 0.15
    assert skewness(probe.occurrences()) > 1


@pytest.mark.parametrize("kind", [HFNN, NHBNN])
def test_what_anti_hubs_of_a_label_share_is_counted_once(
    kind: type[HFNN | NHBNN], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted for each neighbour, they took half a minute of a decision in a wide window."""
    learner = kind(2, 3, k=8, anti_hub=99)
    _taught(learner)
    count, asked = learner._occurrences.of_label, list[int]()

    def of_label(label: int) -> NDArray[np.int64]:
        asked.append(label)
        return count(label)

    monkeypatch.setattr(learner._occurrences, "of_label", of_label)
    learner.scores(QUERIES[0])
    assert sorted(asked) == [0, 1, 2]


def test_pairs_of_neighbours_that_take_too_long_are_refused() -> None:
    """A hundred neighbours of ten labels take a third of a second, thousands would take hours."""
    assert ANHBNN(2, 1024).k == 5  # the default does for as many labels as a model may have
    with pytest.raises(ParameterError, match="k: expected at most 70 for 10 labels, got 71"):
        ANHBNN(2, 10, k=71)
    learner = ANHBNN(2, 9, k=70)
    learner.add_label()
    with pytest.raises(ParameterError, match="k: expected at most 69 for 11 labels, got 70"):
        learner.add_label()
    assert learner.n_labels == 10


def test_own_logarithms() -> None:
    """Scores of the naive Bayes rules are sums of logarithms of the factors."""
    learner = NHBNN(2, 3, k=3)
    _taught(learner)
    votes: NDArray[np.float64] = np.array([voter.votes for voter in learner.neighbors(QUERIES[0])])
    expected = votes.sum(axis=0) + np.array([math.log(n / 10) for n in (3, 4, 3)])
    assert learner.scores(QUERIES[0]).tolist() == pytest.approx(expected.tolist())


@pytest.mark.parametrize("weighted", [True, False])
def test_nearer_neighbours_of_nwknn_count_more_where_it_is_said(weighted: bool) -> None:
    """By hand: shares of 1, 1/4 and 1/16 for distances of 1, 2 and 4; two of three have label 1."""
    learner = NWKNN(1, 2, k=3, weighted=weighted)
    learner.learn_many(np.array([[1.0], [2.0], [4.0]]), np.array([0, 1, 1]))
    shares = np.array([16, 4, 1]) / 21 if weighted else np.ones(3)
    rare = np.array([1.0, 2**-0.25, 2**-0.25])
    votes = [voter.votes.sum() for voter in learner.neighbors(np.zeros(1))]
    np.testing.assert_allclose(votes, shares * rare, rtol=1e-14)


@pytest.mark.parametrize(
    "learner",
    [HFNN(2, 3, k=3, weighted=False), HIKNN(2, 3, k=3), HIKNN(2, 3, k=3, weighted=False)],
)
def test_scores_are_shares(learner: HFNN | HIKNN) -> None:
    """Whoever shows them shows how sure the votes are."""
    learner.learn_many(POINTS, LABELS)
    for query in QUERIES:
        assert learner.scores(query).sum() == pytest.approx(1.0)


def test_suspects_of_aknn_hear_k_others() -> None:
    """An example is no voter of its own: k others decide, as of an instance that is not there."""
    rng = np.random.default_rng(3)
    xs = rng.normal(size=(60, 2)).astype(np.float32).astype(np.float64)
    labels = rng.integers(0, 2, 60)
    learner = AKNN(2, 2, k=3)
    learner.learn_many(xs, labels)
    expected = []
    for i in range(60):
        ranks = np.linalg.norm(xs - xs[i], axis=1) / learner.radii()
        ranks[i] = np.inf
        near = ranks <= np.sort(ranks)[2] * (1 + 1e-12)
        if np.bincount(labels[near], minlength=2).argmax() != labels[i]:
            expected.append(i)
    assert learner.suspects().tolist() == expected


def test_aknn_ranks_by_radii_also_among_the_labels_that_may_be_chosen() -> None:
    """Protects its rule where no voter's label may be chosen: plain distance decided there."""
    rng = np.random.default_rng(5)
    centres = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
    labels = rng.integers(0, 3, 90)
    xs = (centres[labels] + 0.7 * rng.normal(size=(90, 2))).astype(np.float32).astype(np.float64)
    learner = AKNN(2, 3, k=3)
    learner.learn_many(xs, labels)
    chosen, plain, expected = list[int](), list[int](), list[int]()
    for query in rng.normal(size=(60, 2)).astype(np.float32).astype(np.float64):
        for allowed in ([0, 1], [0, 2], [1, 2]):
            if any(voter.label in allowed for voter in learner.neighbors(query)):
                continue
            chosen.append(learner.distribution(query, allowed).greedy)
            members = np.flatnonzero(np.isin(labels, allowed))
            distances = np.linalg.norm(xs[members] - query, axis=1)
            for ranks, votes in (
                (distances / learner.radii()[members], expected),
                (distances, plain),
            ):
                near = labels[members[np.argsort(ranks, kind="stable")[:3]]]
                votes.append(int(np.bincount(near).argmax()))
    assert chosen == expected
    assert chosen != plain
