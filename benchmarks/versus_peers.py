"""What a user would pick instead: Vowpal Wabbit in many forms, LinUCB, and river's.

A name says everything: ``vw --squarecb -l 0.5``, ``linucb 0.3``, ``river``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from river.bandit import LinUCBDisjoint
from vowpalwabbit import pyvw

from benchmarks.versus_streams import Contestant, Problem

#: Ways to explore and to estimate costs, as Vowpal Wabbit's options. One action for each label;
#: features crossed with actions, so that each label has weights of its own, and an action's own
#: feature is its constant. Without `ignore_linear` all labels share one more set of weights, with
#: which it was worse (USPS, 6,000 rounds, per label: .469 instead of .375); costs 0 and 1 instead
#: of -1 and 0 changed nothing (.374). `--squarecb` and `--regcb` refuse any cost type but mtr.
#: regcb's usual mellowness of .1 explores for ever here (.80), and so does cover without nounif.
#: All are linear in the features, as a user's would be at first; ours bends its inputs itself. With
#: quadratic features (`--interactions ssa`) or our waves in its text the best of three forms made,
#: first stream, 20,000 rounds: pendigits without noise .030 instead of .137 (ours .028), per label
#: .127 instead of .206 (.075); letter .366 instead of .557 (.336), .748 instead of .789 (.551);
#: optdigits and USPS per label more mistakes with waves than without.
CROSSED = "--cb_explore_adf -q sa --ignore_linear s"
REGCB = f"{CROSSED} --cb_min_cost -1 --cb_max_cost 0 --cb_type mtr"
COVER = "--cover 3 --psi 0.01 --nounif"
FORMS = (
    f"{CROSSED} --squarecb --cb_type mtr",
    f"{CROSSED} --squarecb --gamma_scale 100 --cb_type mtr",
    f"{CROSSED} --squarecb --elim --cb_type mtr",
    f"{REGCB} --regcb --mellowness 0.001",
    f"{REGCB} --regcbopt --mellowness 0.1",
    f"{REGCB} --regcbopt --mellowness 0.001",
    f"{CROSSED} --epsilon 0.05 --cb_type mtr",
    f"{CROSSED} --epsilon 0.02 --cb_type mtr",
    f"{CROSSED} --epsilon 0.05 --cb_type dr",
    f"{CROSSED} {COVER} --cb_type mtr",
    f"{CROSSED} {COVER} --cb_type dr",
    "--cb_explore {n_labels} --epsilon 0.05 --cb_type dr",
    f"--cb_explore {{n_labels}} {COVER} --cb_type dr",
)
LEARNING_RATES = (0.1, 0.5, 2.0)

#: Configurations of each family of peers; the first word of a name is its family.
FAMILIES: dict[str, tuple[str, ...]] = {
    "vw": tuple(f"vw {form} -l {rate:g}" for form in FORMS for rate in LEARNING_RATES),
    "linucb": ("linucb 0.1", "linucb 0.3", "linucb 1"),
    "river": ("river",),
}
#: Few of them for a quick run: the usual form of each way to explore.
QUICK_FAMILIES: dict[str, tuple[str, ...]] = {
    "vw": tuple(f"vw {FORMS[place]} -l 0.5" for place in (0, 3, 6, 9)),
    "linucb": ("linucb 0.3",),
}


def make_peer(name: str, data: Problem) -> Contestant:
    """Make a peer by its name."""
    family, _, options = name.partition(" ")
    if family == "vw":
        return VowpalWabbit(data, options.format(n_labels=data.n_labels))
    if family == "linucb":
        return LinUCB(data, float(options))
    if family == "river":
        return River(data)
    raise SystemExit(f"expected one of {', '.join(FAMILIES)}, got the contestant {name!r}")


class VowpalWabbit(Contestant):
    """Vowpal Wabbit through its Python package; a round's crossed examples are parsed once.

    Where they are not crossed with actions, features have words as names (numbers are their own
    hashes, and a label's weight of one feature would be the next label's of another), and what is
    learned is a new example: one that was parsed without a label learns nothing from a later one.
    """

    def __init__(self, data: Problem, options: str) -> None:
        self._workspace = pyvw.Workspace(f"{options} --quiet")
        self._crossed = "--cb_explore_adf" in options
        self._prefix = "" if self._crossed else "x"
        self._actions = [f"|a {label}" for label in range(data.n_labels)]
        self._xs = data.xs[:, :-1]  # its constants are its own
        self._texts: dict[int, str] = {}

    def show(self, row: int, uniform: float) -> int:
        """Draw from the probabilities it predicts."""
        text = self._text = self._texts.get(row) or self._write(row)
        if self._crossed:
            text = self._examples = self._workspace.parse([f"shared {text}", *self._actions])
        chances: Sequence[float] = self._workspace.predict(text)
        place = int(np.searchsorted(np.cumsum(chances), uniform, "right"))
        self._label = min(place, len(chances) - 1)
        self._chance = chances[self._label]
        return self._label

    def _write(self, row: int) -> str:
        named = (f"{self._prefix}{j}:{x:.6g}" for j, x in enumerate(self._xs[row]) if x)
        self._texts[row] = "|s " + " ".join(named)
        return self._texts[row]

    def hear(self, feedback: int) -> None:
        """Learn the cost, -1 for a click, of the label that was shown."""
        heard = f"{-feedback}:{self._chance}"
        if not self._crossed:
            self._workspace.learn(f"{self._label + 1}:{heard} {self._text}")
            return
        self._examples[1 + self._label].set_label_string(f"0:{heard}")
        self._workspace.learn(self._examples)
        self._workspace.finish_example(self._examples)


class LinUCB(Contestant):
    """Ridge regression of the bit for each label, and the highest upper bound is shown.

    Li, Chu, Langford and Schapire, *A contextual-bandit approach to personalized news article
    recommendation*, 2010, algorithm 1 (disjoint), the inverses kept by Sherman and Morrison.
    """

    def __init__(self, data: Problem, alpha: float) -> None:
        n_features = data.xs.shape[1]
        self._xs, self._alpha = data.xs, alpha
        self._inverses = np.tile(np.eye(n_features), (data.n_labels, 1, 1))
        self._weights = np.zeros((data.n_labels, n_features))

    def show(self, row: int, uniform: float) -> int:  # noqa: ARG002 - it draws nothing
        """Return the label with the highest bound."""
        self._x = self._xs[row]
        self._solved = self._inverses @ self._x
        widths = np.sqrt(np.maximum(self._solved @ self._x, 0.0))
        self._label = int((self._weights @ self._x + self._alpha * widths).argmax())
        return self._label

    def hear(self, feedback: int) -> None:
        """Add the round to the label's regression."""
        solved, weights = self._solved[self._label], self._weights[self._label]
        grown = 1.0 + solved @ self._x
        weights += solved * ((feedback - weights @ self._x) / grown)
        self._inverses[self._label] -= np.outer(solved / grown, solved)


class River(Contestant):
    """river's LinUCB, its one bandit that looks at the instance."""

    def __init__(self, data: Problem) -> None:
        self._policy: Any = LinUCBDisjoint(seed=0)
        self._xs = data.xs
        self._labels: list[int | str] = list(range(data.n_labels))

    def show(self, row: int, uniform: float) -> int:  # noqa: ARG002 - it draws nothing
        """Return the label it pulls."""
        self._context = dict(enumerate(self._xs[row].tolist()))
        self._label = int(self._policy.pull(self._labels, context=self._context))
        return self._label

    def hear(self, feedback: int) -> None:
        """Tell it the reward."""
        self._policy.update(self._label, self._context, feedback)
