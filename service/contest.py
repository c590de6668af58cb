"""The learners of one model: the one that decides, and the challengers that learn beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from learners import LEARNERS, Learner, LearnersError, NoiseRates, Outcome, draw
from learners.states import State, StateValue, part_of
from learners.validation import FloatArray
from service.challengers import (
    Challenger,
    Record,
    add_labels,
    follow,
    give_rates,
    learners_text,
    parse_learners,
)
from service.complaints import of_learner
from service.errors import Invalid, shorten
from service.events import ChallengerChange, Rates
from service.sizes import check_together, check_window, make_learner
from service.spec import (
    MAX_CHALLENGERS,
    LearnerSpec,
    ModelSpec,
    NamedLearner,
    are_label_features,
)


class Anew(NamedTuple):
    """How often a learner began anew, and at which events the last time and the time before."""

    times: int = 0
    seq: int = 0
    #: 0 where it was the first time.
    before: int = 0


class Contest:
    """Part of a fold: who decides, who else learns, and the noise rates that all are told.

    Parameters
    ----------
    spec
        The model's immutable description.
    size
        Features of an instance, as learners see it.

    Raises
    ------
    Invalid
        When a learner refuses its options, or the model would be too large.
    """

    def __init__(self, spec: ModelSpec, size: int) -> None:
        self._spec = spec
        self._size = size
        #: The learner that decides (read only), and its name and spec.
        self.learner = make_learner(spec.learner, size, len(spec.labels), "learner")
        self.deciding = spec.learners[0]
        #: Decisions made before this event were made by another learner.
        self.deciding_since = 0
        #: What it would have done in rounds decided outside the service and, beside challengers, in
        #: all others when their feedback came; read only.
        self.record = Record()
        #: Noise rates as last set; None if never.
        self.rates: Rates | None = None
        #: Of learners that began anew with the rates that they find; read only.
        self.began_anew: dict[str, Anew] = {}
        #: What labels are like, by code, as last described; read only.
        self.label_features: dict[int, list[float]] = {}
        self._challengers: list[Challenger] = []
        for i, each in enumerate(spec.challengers):
            self._challengers.append(self.new_challenger(each, f"challengers[{i}]."))
        self.check_label_features(spec.label_features, "label_features")
        for code, name in enumerate(spec.labels):
            if name in spec.label_features:
                self.describe_label(code, spec.label_features[name])

    @property
    def challengers(self) -> Sequence[Challenger]:
        """The learners that do not decide; read only."""
        return tuple(self._challengers)

    @property
    def named(self) -> list[NamedLearner]:
        """Name and spec of every learner, the deciding one first."""
        return [self.deciding, *(each.named for each in self._challengers)]

    @property
    def learners(self) -> list[Learner]:
        """The learner that decides, and the challengers'; read only."""
        return [self.learner, *(each.learner for each in self._challengers)]

    @property
    def rate_user(self) -> Learner | None:
        """The learner whose noise rates are reported: the deciding one, or else a challenger.

        Of challengers it is one that uses each label's, if there is one; None where no learner uses
        any.
        """
        users = [learner for learner in self.learners if learner.takes_rates]
        if self.learner not in users:
            users.sort(key=lambda learner: not learner.takes_label_rates)
        return users[0] if users else None

    def new_challenger(self, named: NamedLearner, where: str) -> Challenger:
        """Return a challenger that begins now; raise Invalid if this model cannot have it.

        In errors `where` stands before the names of its fields.
        """
        if len(self._challengers) == MAX_CHALLENGERS:
            raise Invalid.of("challengers", f"at most {MAX_CHALLENGERS}", "one more")
        at = f"{where}learner"
        learner = make_learner(named.learner, self._size, self.learner.n_labels, at)
        for each, place in ((self.learner, "model"), (learner, f"{at}.kind")):
            if not each.takes_feedback:
                what = "a learner that takes feedback, for challengers"
                raise Invalid.of(place, what, each.kind)
        check_together([*self.learners, learner], at)
        for code in np.flatnonzero(~self.learner.active).tolist():
            learner.retire_label(code)
        try:
            if self.rates is not None and self._tells(learner, self.rates):
                give_rates(learner, self.rates)
            self._describe_labels_to(learner, at)
        except LearnersError as error:
            # What no other learner used was never checked; an import may bring anything.
            raise of_learner(at, error) from error
        return Challenger(named, learner)

    def begin_with(self, named: Sequence[NamedLearner], since: int) -> None:
        """Let these learners, the deciding one first, begin now in place of the spec's.

        What was decided before event `since` was not decided by them.
        """
        self._challengers = []
        if named[0] != self.deciding:
            self.learner = self.new_challenger(named[0], "").learner
            self.deciding = named[0]
        for each in named[1:]:
            self._challengers.append(self.new_challenger(each, ""))
        self.deciding_since = since

    def _describe_labels_to(self, learner: Learner, where: str) -> None:
        wanted = learner.n_label_features
        for code, features in self.label_features.items() if wanted else ():
            if len(features) != wanted:
                what = f"{len(features)}, as many as the model's labels have"
                raise Invalid.of(f"{where}.n_label_features", what, wanted)
            learner.describe_label(code, np.array(features))

    def check_label_features(self, features: Mapping[str, Sequence[float]], where: str) -> None:
        """Raise Invalid, at the place `where`, unless the learners that use features take these."""
        wanted = {each.n_label_features for each in self.learners} - {0}
        if features and not wanted:
            what = "a learner that uses features of labels (n_label_features)"
            raise Invalid.of("learner", f"{what}, for {where}", self.learner.kind)
        for name, values in features.items():
            if wanted != {len(values)}:
                counts = " and ".join(str(count) for count in sorted(wanted))
                what = f"{counts} numbers, as the learner's n_label_features says"
                raise Invalid.of(f"{where}.{shorten(name)}", what, f"{len(values)}")

    # -- events ---------------------------------------------------------------------------
    def tell_challengers(self, outcome: Outcome, uniform: float, seq: int) -> int:
        """Let the challengers learn from the round that event `seq` ended; count refusals."""
        refused = 0
        for challenger in self._challengers:
            try:
                challenger.follow(outcome, uniform, seq)
            except LearnersError:
                refused += 1
        return refused

    def update(
        self, outcome: Outcome, decided_seq: int, seq: int, uniform: float | None = None
    ) -> None:
        """Let the deciding learner learn from a round that was decided after `decided_seq`.

        With a `uniform` it first writes down what it would do now, as challengers do.
        """
        own = None if uniform is None else self.learner.distribution(outcome.x)
        if decided_seq < self.deciding_since:
            # Another learner made this decision: its best label is not this one's.
            greedy = (own or self.learner.distribution(outcome.x)).greedy
            outcome = outcome._replace(greedy=greedy, elsewhere=True)
        self.learner.update(outcome)
        if own is not None and uniform is not None:
            self.record.add(seq, float(own.probabilities[outcome.label]), draw(own, uniform))

    def follow(self, outcome: Outcome, uniform: float, seq: int) -> None:
        """Let the deciding learner learn from a round that was decided outside of the service."""
        follow(self.learner, self.record, outcome, uniform, seq)

    def learn(self, x: FloatArray, label: int) -> None:
        """Let every learner that takes labels learn from an example, the deciding one last."""
        for challenger in self._challengers:
            if challenger.learner.takes_labels:
                challenger.learner.learn(x, label)
        self.learner.learn(x, label)

    def note_restarts(self, seq: int) -> None:
        """Write down which learners began anew at event `seq`."""
        for named, learner in zip(self.named, self.learners, strict=True):
            last = self.began_anew.get(named.name, Anew())
            if learner.restarts != last.times:
                self.began_anew[named.name] = Anew(learner.restarts, seq, last.seq)

    def set_rates(self, rates: Rates) -> None:
        """Give these noise rates to the learners that they are for."""
        # Where no learner looks at them, an import may say anything.
        NoiseRates(rates.rho_0, rates.rho_1)
        for learner in self.learners:
            if self._tells(learner, rates):
                give_rates(learner, rates)
        # Also where no learner takes them: a challenger that is added later may.
        self.rates = rates

    def _tells(self, learner: Learner, rates: Rates) -> bool:
        """Whether a learner is told these rates.

        One that finds rates itself is not told an estimate that others needed, unless the spec
        asks for estimates: it learns as it would without the others.
        """
        if not (learner.learns_rates and rates.estimated):
            return learner.takes_rates
        asked = self._spec.estimate_every or self._spec.estimate_on_drift
        return bool(asked) or not any(e.takes_rates and not e.learns_rates for e in self.learners)

    def add_labels(self, count: int) -> None:
        """Add so many labels to every learner; a challenger that refuses goes.

        Raises Invalid where a window would become too large, which calls refuse: an import may not.
        """
        for learner in self.learners:
            check_window(learner, "add", count)
        self.learner.add_labels(count)
        self._keep([each for each in self._challengers if add_labels(each.learner, count)])

    def restore_label(self, code: int) -> None:
        """Let every learner choose a retired label again."""
        for learner in self.learners:
            learner.restore_label(code)

    def retire_label(self, code: int) -> None:
        """Let no learner choose a label any more."""
        for learner in self.learners:
            learner.retire_label(code)

    def describe_label(self, code: int, features: list[float]) -> None:
        """Tell every learner that uses it what a label is like."""
        for learner in self.learners:
            if learner.n_label_features:
                learner.describe_label(code, np.array(features))
        self.label_features[code] = features

    def change(self, change: ChallengerChange, seq: int) -> None:
        """Add, drop or promote a challenger by event `seq`."""
        if change.change == "add":
            spec = LearnerSpec.model_validate(change.learner)
            named = NamedLearner(name=change.name, learner=spec)
            if named.name in [each.name for each in self.named]:
                raise Invalid.of("challenger", "another name", named.name)
            self._challengers.append(self.new_challenger(named, ""))
            return
        found = next((each for each in self._challengers if each.name == change.name), None)
        if found is None:
            raise Invalid.of("challenger", "one of the model's", change.name)
        if change.change == "drop":
            self._keep([each for each in self._challengers if each is not found])
            return
        place = self._challengers.index(found)
        self._challengers[place] = Challenger(self.deciding, self.learner, self.record)
        self.learner, self.deciding, self.record = found.learner, found.named, found.record
        # A model that was begun anew goes through earlier promotions once more.
        self.deciding_since = max(seq, self.deciding_since)

    def _keep(self, challengers: list[Challenger]) -> None:
        """Forget all other challengers, and when they began anew."""
        self._challengers = challengers
        names = {each.name for each in self.named}
        self.began_anew = {name: at for name, at in self.began_anew.items() if name in names}

    # -- state ----------------------------------------------------------------------------
    def state(self) -> State:
        """Return every learner, and whatever else has been set or changed."""
        state: State = {f"learner.{name}": v for name, v in self.learner.state().items()}
        if self.record.count:
            state |= {f"record.{name}": v for name, v in self.record.state().items()}
        if self.rates is not None:
            state["rates"] = msgspec.json.encode(self.rates).decode()
        if self.label_features:
            state["label_features"] = msgspec.json.encode(self.label_features).decode()
        if self.deciding_since:
            state["deciding_since"] = self.deciding_since
        if self.began_anew:
            state["began_anew"] = msgspec.json.encode(self.began_anew, order="sorted").decode()
        if self.named != self._spec.learners:
            state["learners"] = learners_text(self.named)
        for i, challenger in enumerate(self._challengers):
            state |= {f"challenger{i}.{name}": v for name, v in challenger.state().items()}
        return state

    def restore(self, state: Mapping[str, StateValue], n_labels: int) -> None:
        """Become what is in a fold's state; ValueError or LearnersError if it does not fit."""
        deciding, *others = parse_learners(str(state.get("learners", ""))) or self._spec.learners
        parts = [part_of(state, f"challenger{i}.") for i in range(len(others))]
        learners = [part_of(part, "learner.") for part in (state, *parts)]
        for each in learners:
            if each["n_features"] != self._size or np.size(each["active"]) != n_labels:
                raise ValueError("it is of a model of another size")
        learner = LEARNERS[deciding.learner.kind].from_state(learners[0])
        challengers = [
            Challenger.restored(each, own, part_of(part, "record."))
            for each, own, part in zip(others, learners[1:], parts, strict=True)
        ]
        record = part_of(state, "record.")
        self.record = Record.from_state(record, n_labels) if record else Record()
        rates = state.get("rates")
        self.rates = None if rates is None else msgspec.json.decode(str(rates), type=Rates)
        described = str(state.get("label_features", "{}"))
        self.label_features = msgspec.json.decode(described, type=dict[int, list[float]])
        if any(not 0 <= code < n_labels for code in self.label_features):
            raise ValueError("it describes labels that it does not have")
        if not all(map(are_label_features, self.label_features.values())):
            raise ValueError("it describes labels by what no call takes")
        self.deciding_since = int(state.get("deciding_since", 0))
        self.learner, self.deciding, self._challengers = learner, deciding, challengers
        began = str(state.get("began_anew", "{}"))
        self.began_anew = msgspec.json.decode(began, type=dict[str, Anew])
        noted = {name: anew.times for name, anew in self.began_anew.items()}
        pairs = zip(self.named, self.learners, strict=True)
        if noted != {named.name: each.restarts for named, each in pairs if each.restarts}:
            raise ValueError("it does not say when its learners began anew")
