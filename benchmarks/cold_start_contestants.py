"""Who shows items in `benchmarks.cold_start`: `forward`, and what a shop would pick instead.

A name says everything: ``forward``, ``vw --squarecb -l 2``, ``linucb 0.3``.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from learners import Forward, Learner, Outcome, draw
from learners.validation import FloatArray

FORWARD = "forward"
#: Vowpal Wabbit's ways to explore that did best here among those of `benchmarks.versus_peers`
#: (epsilon and cover were worse in each case), at the learning rates that did best.
CROSSED = "--cb_explore_adf -q si --ignore_linear s --cb_type mtr"
FORMS = (
    "--squarecb",
    "--squarecb --gamma_scale 100",
    "--regcbopt --mellowness 0.001 --cb_min_cost -1 --cb_max_cost 0",
)
#: Configurations of each family of peers; the first word of a name is its family.
PEERS: dict[str, tuple[str, ...]] = {
    "vw": tuple(f"vw {CROSSED} {form} -l {rate:g}" for form in FORMS for rate in (0.5, 2.0)),
    "linucb": ("linucb 0.1", "linucb 0.3", "linucb 1"),
}


class Contestant(ABC):
    """One that shows an item and hears whether it was clicked."""

    @abstractmethod
    def show(self, x: FloatArray, n_items: int, uniform: float) -> int:
        """Return which of the first `n_items` it shows to a visitor."""

    @abstractmethod
    def hear(self, clicked: bool) -> None:
        """Learn what came of the item just shown."""


def make(name: str, n_features: int, features: FloatArray, *, described: bool) -> Contestant:
    """Make a contestant for visitors of d numbers and items with these features, a row each.

    If the items are not `described`, it knows nothing of their features.
    """
    family, _, options = name.partition(" ")
    known = features if described else features[:, :0]
    if family == "vw":
        return VowpalWabbit(options, known)
    if family == "linucb":
        return LinUCB(float(options), n_features, known)
    return Growing(n_features, known)


class Ours(Contestant):
    """A learner that has all items from the start."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner

    def show(self, x: FloatArray, n_items: int, uniform: float) -> int:  # noqa: ARG002 - all of them
        """Draw from the learner's distribution."""
        self._x, self._decision = x, self._learner.distribution(x)
        self._item = draw(self._decision, uniform)
        return self._item

    def hear(self, clicked: bool) -> None:
        """Update the learner."""
        propensity = float(self._decision.probabilities[self._item])
        greedy = self._decision.greedy
        self._learner.update(Outcome(self._x, self._item, greedy, propensity, int(clicked)))


class Growing(Ours):
    """`Forward`, to which items are added as they come."""

    def __init__(self, n_features: int, features: FloatArray) -> None:
        self._forward = Forward(n_features, 1, n_waves=63, n_label_features=features.shape[1])
        super().__init__(self._forward)
        self._features = features
        self._describe(0)

    def show(self, x: FloatArray, n_items: int, uniform: float) -> int:
        """Add the items that have come, and draw from the learner's distribution."""
        while self._forward.n_labels < n_items:
            self._describe(self._forward.add_label())
        return super().show(x, n_items, uniform)

    def _describe(self, item: int) -> None:
        if self._features.shape[1]:
            self._forward.describe_label(item, self._features[item])


class VowpalWabbit(Contestant):
    """Vowpal Wabbit through its Python package: visitors crossed with items and their features."""

    def __init__(self, options: str, features: FloatArray) -> None:
        # Only whoever asks for peers needs the package.
        library = importlib.import_module("vowpalwabbit.pyvw")
        self._workspace = library.Workspace(f"{options} -q sf --quiet")
        self._items = [f"|i {item} |f {_numbers(row)}" for item, row in enumerate(features)]

    def show(self, x: FloatArray, n_items: int, uniform: float) -> int:
        """Draw from the probabilities it predicts."""
        lines = [f"shared |s {_numbers(x)}", *self._items[:n_items]]
        self._examples = self._workspace.parse(lines)
        chances: Sequence[float] = self._workspace.predict(self._examples)
        place = int(np.searchsorted(np.cumsum(chances), uniform, "right"))
        self._item = min(place, n_items - 1)
        self._chance = chances[self._item]
        return self._item

    def hear(self, clicked: bool) -> None:
        """Learn the cost, -1 for a click, of the item that was shown."""
        self._examples[1 + self._item].set_label_string(f"0:{-int(clicked)}:{self._chance}")
        self._workspace.learn(self._examples)
        self._workspace.finish_example(self._examples)


class LinUCB(Contestant):
    """Ridge regression of the bit; the item with the highest upper bound is shown.

    Li, Chu, Langford and Schapire, *A contextual-bandit approach to personalized news article
    recommendation*, 2010: algorithm 1, in which each item has weights of its own, or with features
    algorithm 2 (hybrid), as one regression with its whole inverse.
    """

    def __init__(self, alpha: float, n_features: int, features: FloatArray) -> None:
        self._alpha, self._features = alpha, features
        n_items, n_described = features.shape
        size = (n_described + n_items) * (n_features + 1)
        self._inverse, self._weights = np.eye(size), np.zeros(size)

    def show(self, x: FloatArray, n_items: int, uniform: float) -> int:  # noqa: ARG002 - it draws nothing
        """Return the item with the highest bound."""
        seen = np.array([self._inputs(x, item) for item in range(n_items)])
        widths = np.sqrt(np.maximum((seen @ self._inverse * seen).sum(axis=1), 0.0))
        item = int((seen @ self._weights + self._alpha * widths).argmax())
        self._seen = seen[item]
        return item

    def hear(self, clicked: bool) -> None:
        """Add the visit to the regression."""
        solved = self._inverse @ self._seen
        grown = 1.0 + solved @ self._seen
        self._weights += solved * ((int(clicked) - self._weights @ self._seen) / grown)
        self._inverse -= np.outer(solved / grown, solved)

    def _inputs(self, x: FloatArray, item: int) -> FloatArray:
        """Return what the regression sees: the visitor, by the item's features and by the item."""
        chosen = np.concatenate((self._features[item], np.zeros(len(self._features))))
        chosen[self._features.shape[1] + item] = 1.0
        return np.outer(chosen, np.append(x, 1.0)).ravel()


def _numbers(values: FloatArray) -> str:
    return " ".join(f"{place}:{value:.6g}" for place, value in enumerate(values.tolist()))
