"""A learner inside river's own tools."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Hashable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from river import checks, datasets, drift, evaluate, metrics, preprocessing

from learners import InputError, NoiseRates, Outcome, ParameterError, create, draw
from learners.assertions import state_digest
from learners.noise import flip_bit
from learners.river_adapter import RiverClassifier

FEATURES = ["a", "b"]


def stream(n: int, *, flipped: bool = False) -> Iterator[tuple[dict[Hashable, Any], str]]:
    """Yield examples of three labels that a linear learner can tell apart."""
    rng = np.random.default_rng(0)
    names = ["red", "green", "blue"]
    corners = np.array([[2.0, 0.0], [-1.0, 2.0], [-1.0, -2.0]])
    for i in range(n):
        code = i % 3
        a, b = corners[code] + rng.normal(size=2) * 0.3
        yield {"a": float(a), "b": float(b)}, names[(code + flipped) % 3]


def classifier(kind: str = "bpa", **options: Any) -> RiverClassifier:
    """Return an untrained classifier of three labels."""
    arguments = {name: options.pop(name) for name in ("rates", "seed") if name in options}
    return RiverClassifier(
        partial(create, kind, **options), FEATURES, ["red", "green", "blue"], **arguments
    )


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("perceptron", {}),
        ("banditron", {"gamma": 0.2}),
        ("rcnbf", {"gamma": 0.2, "rho_0": 0.1, "rho_1": 0.1, "rates": NoiseRates(0.1, 0.1)}),
        ("bpa", {"gamma": 0.2}),
        ("soba", {"gamma": 0.2, "matrix": "full"}),
        ("confidit", {"matrix": "full"}),
    ],
)
def test_learns_in_a_pipeline(kind: str, options: dict[str, Any]) -> None:
    """Scaler, learner, metric and progressive validation work together, and it learns."""
    model = preprocessing.StandardScaler() | classifier(kind, **options)
    accuracy = metrics.Accuracy()  # type: ignore[no-untyped-call] # river leaves it untyped
    evaluate.progressive_val_score(stream(3000), model, accuracy)
    assert accuracy.get() > 0.8  # type: ignore[no-untyped-call] # river leaves it untyped


def test_learns_a_real_stream() -> None:
    """A data set that river bundles: far better than chance with one noisy bit a round."""
    segments = datasets.ImageSegments()  # type: ignore[no-untyped-call] # river leaves it untyped
    examples = list(segments.take(2310)) * 3
    labels = sorted({y for _, y in examples})
    model = preprocessing.StandardScaler() | RiverClassifier(
        partial(create, "bpa", gamma=0.1, variant="I", aggressiveness=0.05),
        sorted(examples[0][0]),
        labels,
        rates=NoiseRates(0.05, 0.05),
    )
    metric = metrics.MacroF1()  # type: ignore[no-untyped-call] # river leaves it untyped
    evaluate.progressive_val_score(iter(examples), model, metric)
    assert metric.get() > 0.6  # type: ignore[no-untyped-call] # river leaves it untyped


def test_drift_detector_can_retrain_it() -> None:
    """River clones it untrained when a detector fires, and it recovers from labels that move."""
    model = drift.DriftRetrainingClassifier(
        classifier("banditron", gamma=0.1), drift_detector=drift.binary.DDM()
    )
    before_and_after = itertools.chain(stream(1500), stream(1500, flipped=True))
    right = []
    for x, y in before_and_after:
        right.append(model.predict_one(x) == y)
        model.learn_one(x, y)  # type: ignore[no-untyped-call] # river leaves it untyped
    assert np.mean(right[-300:]) > 0.8


def test_clone_is_untrained_and_equal() -> None:
    """A clone has the same parameters and none of what was learned; it then learns the same."""
    trained = classifier("banditron", gamma=0.3, seed=5)
    fresh = state_digest(trained.learner.state())
    for x, y in stream(50):
        trained.learn_one(x, y)
    clone = trained.clone()
    assert state_digest(clone.learner.state()) == fresh
    for x, y in stream(50):
        clone.learn_one(x, y)
    assert state_digest(clone.learner.state()) == state_digest(trained.learner.state())


def test_a_round_is_that_of_the_contract() -> None:
    """Draw, flip and update are those of the learner by hand with the same generator."""
    rates = NoiseRates(0.2, 0.3)
    adapted = classifier("banditron", gamma=0.3, rates=rates, seed=9)
    learner, rng, mistakes = create("banditron", 2, 3, gamma=0.3), np.random.default_rng(9), 0
    for x, y in stream(200):
        adapted.learn_one(x, y)
        instance = np.array([x["a"], x["b"]])
        decision = learner.distribution(instance)
        label = draw(decision, rng.random())
        right = int(label == ["red", "green", "blue"].index(y))
        mistakes += 1 - right
        bit = flip_bit(right, rates, rng.random())
        propensity = float(decision.probabilities[label])
        learner.update(Outcome(instance, label, decision.greedy, propensity, bit))
    assert state_digest(adapted.learner.state()) == state_digest(learner.state())
    assert adapted.shown_mistakes == mistakes


def test_predictions_are_pure_and_named() -> None:
    """Predicting changes nothing; probabilities are by label and sum to 1."""
    model = classifier("banditron", gamma=0.3)
    for x, y in stream(30):
        model.learn_one(x, y)
    before = state_digest(model.learner.state())
    x = {"a": 2.0, "b": 0.1}
    probabilities = model.predict_proba_one(x)
    assert set(probabilities) == {"red", "green", "blue"}
    assert sum(probabilities.values()) == pytest.approx(1)
    assert model.predict_one(x) == max(probabilities, key=lambda label: probabilities[label])
    assert state_digest(model.learner.state()) == before


def test_new_label_joins() -> None:
    """A label that was not named at first is added with its first example."""
    model = RiverClassifier(partial(create, "banditron", gamma=0.3), FEATURES, ["red"])
    for x, y in stream(600):
        model.learn_one(x, y)
    assert model.learner.n_labels == 3
    assert [model.predict_one(x) for x, _ in stream(3)] == ["red", "green", "blue"]


@pytest.mark.parametrize("x", [{"a": 1.0}, {"a": 1.0, "b": None}, {"a": 1.0, "b": "1"}])
def test_missing_feature_is_named(x: dict[Hashable, Any]) -> None:
    """Nothing is filled in: a feature that is not there is an error with its name."""
    with pytest.raises(InputError, match="feature 'b': expected a number"):
        classifier().predict_one(x)


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), 2e6])
def test_refused_example_leaves_no_trace(value: float) -> None:
    """What a learner would refuse is named as the feature it is, and adds no label."""
    model = classifier()
    with pytest.raises(InputError, match="feature 'b': expected a finite number of size at most"):
        model.learn_one({"a": 1.0, "b": value}, "violet")
    assert model.learner.n_labels == 3


def test_names_may_be_an_array() -> None:
    """As `numpy.unique` and data frames give them."""
    names: Any = np.unique(["red", "green"])
    model = RiverClassifier(partial(create, "perceptron"), FEATURES, names)
    model.learn_one({"a": 1.0, "b": 0.0}, "red")
    assert model.predict_one({"a": 1.0, "b": 0.0}) == "red"
    with pytest.raises(ParameterError, match="labels: "):
        RiverClassifier(partial(create, "perceptron"), FEATURES, names[:0])


def test_bad_parameters_refused() -> None:
    """No labels, names twice, and flips for a learner that gets labels are errors."""
    make = partial(create, "perceptron")
    with pytest.raises(ParameterError, match="labels: "):
        RiverClassifier(make, FEATURES, [])
    with pytest.raises(ParameterError, match="features: "):
        RiverClassifier(make, ["a", "a"], ["red"])
    unordered: Any
    for unordered in ({"a", "b"}, frozenset("ab")):
        with pytest.raises(ParameterError, match="features: expected names in an order"):
            RiverClassifier(make, unordered, ["red"])
        with pytest.raises(ParameterError, match="labels: expected names in an order"):
            RiverClassifier(make, FEATURES, unordered)
    with pytest.raises(ParameterError, match="rates: expected None"):
        RiverClassifier(make, FEATURES, ["red"], rates=NoiseRates(0.1, 0.1))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("make_learner", "banditron"),
        ("make_learner", lambda *_: "banditron"),
        ("rates", (0.1, 0.1)),
        ("seed", -1),
        ("seed", "one"),
    ],
)
def test_what_would_fail_in_the_first_round_is_refused(name: str, value: Any) -> None:
    """A kind's name for its maker, a pair for rates: the error names the parameter."""
    given: dict[str, Any] = {"make_learner": partial(create, "banditron")} | {name: value}
    with pytest.raises(ParameterError, match=f"{name}: expected"):
        RiverClassifier(features=FEATURES, labels=["red"], **given)


#: What cannot be met: a learner has its features from the start, and NaN or 0 for one that is not
#: there would be learned from.
_OF_FEATURES_THAT_GO = {
    "check_emerging_features",
    "check_disappearing_features",
    "check_radically_disappearing_features",
}


@pytest.mark.parametrize("kind", ["banditron", "forward_softmax", "hw_knn"])
def test_it_keeps_the_conventions_of_river(kind: str) -> None:
    """River's own checks of an estimator, each on a classifier with the features of its data."""
    played = 0
    for check in checks.yield_checks(classifier(kind)):
        if check.__name__ in _OF_FEATURES_THAT_GO:
            continue
        data = getattr(check, "keywords", {}).get("dataset")
        if data is None:
            check(classifier(kind))
            continue
        examples = list(data)[:200]
        x, y = examples[0]
        # In the place of what river would give, which is used up now.
        check(RiverClassifier(partial(create, kind), sorted(x), [y]), dataset=examples)
        played += 1
    assert played > 20


@pytest.mark.parametrize("y", [None, float("nan"), ["red"], np.array(["red", "blue"])])
def test_what_is_no_label_is_refused(y: object) -> None:
    """An example without a label would be one of the label None, and of NaN each another one.

    A list was refused in Python's words, which do not say of what.
    """
    model = classifier()
    with pytest.raises(InputError, match="y: expected a label"):
        model.learn_one({"a": 1.0, "b": 1.0}, y)
    assert model.learner.n_labels == 3


def test_names_are_its_own() -> None:
    """Whoever goes on with the list that he gave does not change the classifier."""
    features, labels = ["a", "b"], {"red": 0, "green": 1}
    model = RiverClassifier(partial(create, "perceptron"), features, labels.keys())  # type: ignore[arg-type] # on purpose
    features.append("c")
    model.learn_one({"a": 1.0, "b": 0.0, "c": 3.0}, "red")
    assert model.clone().predict_one({"a": 1.0, "b": 0.0}) == "red"


def test_flags_are_numbers() -> None:
    """Those of numpy, as its arrays hold them, like those of Python."""
    model = classifier("perceptron")
    flags: list[Any] = [True, np.True_]
    for flag in flags:
        assert model.predict_proba_one({"a": flag, "b": 0}) == {"red": 1.0, "green": 0, "blue": 0}


def test_it_goes_on_after_a_pickle() -> None:
    """River's models are kept so: learner, labels that came, and the generator of the draws."""
    model = RiverClassifier(partial(create, "forward_softmax"), FEATURES, ["red"], seed=3)
    for x, y in stream(60):
        model.learn_one(x, y)
    copies = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]  # noqa: S301 - our own
    for x, y in stream(60):
        for each in (model, *copies):
            each.learn_one(x, y)
    for each in copies:
        assert state_digest(each.learner.state()) == state_digest(model.learner.state())
        assert each.shown_mistakes == model.shown_mistakes
        assert each.predict_proba_one(x) == model.predict_proba_one(x)


def test_numbers_of_numpy_are_numbers() -> None:
    """The bound of a feature overflows in the shortest of them, and a span of time is none."""
    model = classifier("banditron")
    for number in (np.float16(2), np.float32(2), np.int8(2)):
        assert model.predict_one({"a": number, "b": 0.0}) == "red"
    with pytest.raises(InputError, match="feature 'a': expected a number"):
        model.predict_one({"a": np.timedelta64(2, "s"), "b": 0.0})
