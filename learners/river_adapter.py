"""Any learner as a river classifier: pipelines, metrics, progressive validation, drift detectors.

Import it explicitly: it needs river, whose modules would take 100 MB of a process that serves,
and so `import learners` leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from river import base

from learners.base import Learner, Outcome
from learners.drawing import draw
from learners.errors import InputError, ParameterError, expected
from learners.noise.corruption import flip_bit
from learners.noise.rates import NoiseRates
from learners.registry import create
from learners.validation import MAX_FEATURE, FloatArray, check_count, is_number


class RiverClassifier(base.Classifier):
    """Makes a river classifier of a learner, playing a bandit round for each labelled example.

    A learner of full information learns the label it is given. A bandit learner must not see it:
    here `learn_one` draws a label, compares it with the given one, flips the bit if `rates` say
    so, and lets the learner learn from that bit alone. `predict_one` is the greedy label and
    touches nothing, so that river's progressive validation counts the greedy mistakes;
    `shown_mistakes` counts those of the labels that were drawn.

    Use it to compare learners with river's own on river's streams. A service has no use for it:
    decisions and feedback there come apart in time, which river's interface cannot say.

    It keeps river's conventions (``river.checks``) except one: features neither come nor go, so a
    missing one is an error, not 0. Where some are None put ``preprocessing.StatImputer`` in front,
    and tell ``preprocessing.OneHotEncoder`` its `categories`. NaN is an error, too, and
    ``preprocessing.MinMaxScaler`` gives it before it has seen anything: let the pipeline learn an
    example before it predicts.

    Parameters
    ----------
    make_learner
        Called with (n_features, n_labels), returns a fresh learner, so that river can clone the
        classifier untrained. ``functools.partial(create, "rcnbf", rho_0=..., rho_1=...)``, say.
    features
        The names of the features, in the order that makes an instance. Every example must have a
        number for each; anything else in it is left out.
    labels
        The labels known at first, at least one, in the order of their codes. A label that first
        appears in an example is added then.
    rates
        Noise rates at which the bit is flipped; none by default. Only for bandit learners.
    seed
        Seed of the draws and flips; 0 by default.

    Raises
    ------
    ParameterError
        If names are missing, duplicate or in no order, `make_learner` makes no learner, `rates` are
        no `NoiseRates` or given with a learner of full information, or `seed` is no count.

    Examples
    --------
    >>> from functools import partial
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> from learners import create
    >>> classifier = RiverClassifier(
    ...     partial(create, "bpa", gamma=0.1),
    ...     features=["sepal", "petal"],
    ...     labels=["setosa", "virginica"],
    ... )
    >>> one = ({"sepal": 1.0, "petal": 0.2}, "setosa")
    >>> other = ({"sepal": 0.1, "petal": 1.5}, "virginica")
    >>> model = preprocessing.StandardScaler() | classifier
    >>> score = evaluate.progressive_val_score([one, other] * 100, model, metrics.Accuracy())
    >>> score.get() > 0.9
    True
    """

    def __init__(
        self,
        make_learner: Callable[[int, int], Learner],
        features: Sequence[Hashable],
        labels: Sequence[Hashable],
        rates: NoiseRates | None = None,
        seed: int = 0,
    ) -> None:
        for name, names in (("features", features), ("labels", labels)):
            if isinstance(names, set | frozenset):  # of strings, another order in each process
                raise ParameterError(expected(name, "names in an order", names))
        # River clones from these, by their names. Lists of our own: the caller may go on changing
        # theirs, and the keys of a dict cannot be cloned.
        self.make_learner = make_learner
        self.features = list(features)
        self.labels = list(labels)
        self.rates = rates
        self.seed = seed
        for name, given in (("features", self.features), ("labels", self.labels)):
            if not given or len(set(given)) != len(given):
                raise ParameterError(expected(name, "at least one name, each once", given))
        if not callable(make_learner):  # the name of a kind, say
            what = "a function of (n_features, n_labels)"
            raise ParameterError(expected("make_learner", what, make_learner))
        learner = make_learner(len(self.features), len(self.labels))
        if not isinstance(learner, Learner):
            raise ParameterError(
                expected("make_learner", "a function that gives a learner", learner)
            )
        self.learner = learner
        if rates is not None and not isinstance(rates, NoiseRates):
            raise ParameterError(expected("rates", "NoiseRates or None", rates))
        if rates is not None and not learner.takes_feedback:
            raise ParameterError(expected("rates", "None for a learner from labels", rates))
        check_count("seed", seed, 0)
        self.shown_mistakes = 0
        self._known: list[Hashable] = list(self.labels)
        self._codes = {label: code for code, label in enumerate(self._known)}
        self._rng = np.random.default_rng(seed)

    @property
    def _multiclass(self) -> bool:
        return True

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {
            "make_learner": partial(create, "banditron"),
            "features": ["feature"],
            "labels": ["label"],
        }

    def predict_one(self, x: Mapping[Hashable, Any], **kwargs: Any) -> Any:
        """Return the greedy label of `x`.

        Raises
        ------
        InputError
            If a feature is missing, no number, not finite or larger than 1e6.
        """
        del kwargs
        return self._known[self.learner.distribution(self._instance(x)).greedy]

    def predict_proba_one(self, x: Mapping[Hashable, Any], **kwargs: Any) -> dict[Any, float]:
        """Return the probability with which each label would be shown for `x`."""
        del kwargs
        probabilities = self.learner.distribution(self._instance(x)).probabilities
        return dict(zip(self._known, probabilities.tolist(), strict=True))

    def learn_one(self, x: Mapping[Hashable, Any], y: Any) -> None:
        """Learn from one example: from its label, or from the bit of a round played on it.

        Raises
        ------
        InputError
            If a feature is not as for `predict_one`, or the label None, NaN or not hashable.
        """
        instance = self._instance(x)
        # NaN is not equal to itself, so each one would be another label.
        if y is None or not isinstance(y, Hashable) or y != y:
            raise InputError(expected("y", "a label", y))
        if y not in self._codes:
            self._codes[y] = self.learner.add_label()
            self._known.append(y)
        if self.learner.takes_feedback:
            self._play(instance, self._codes[y])
        else:
            self.learner.learn(instance, self._codes[y])

    def _play(self, x: FloatArray, truth: int) -> None:
        """Show a label for `x` and learn from whether it was right."""
        decision = self.learner.distribution(x)
        label = draw(decision, self._rng.random())
        feedback = int(label == truth)
        self.shown_mistakes += 1 - feedback
        if self.rates is not None:
            feedback = flip_bit(feedback, self.rates, self._rng.random())
        propensity = float(decision.probabilities[label])
        self.learner.update(Outcome(x, label, decision.greedy, propensity, feedback))

    def _instance(self, x: Mapping[Hashable, Any]) -> FloatArray:
        values = np.empty(len(self.features))
        for place, name in enumerate(self.features):
            value = x.get(name)
            # Numpy's scalars convert the bound to their own type, which may not hold it.
            number = value.item() if isinstance(value, np.generic) else value
            # River's own encoders give booleans for presence: those are numbers here.
            number = int(number) if isinstance(number, bool) else number
            if not is_number(number):
                raise InputError(expected(f"feature {name!r}", "a number", value))
            # Here, by its name, and before a new label is added. NaN compares as false.
            if not -MAX_FEATURE <= number <= MAX_FEATURE:
                what = f"a finite number of size at most {MAX_FEATURE:g}"
                raise InputError(expected(f"feature {name!r}", what, value))
            values[place] = number
        return values
