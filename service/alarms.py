"""Says in the log when something is wrong with a model's labels or clicks, or right again."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from learners.neighbors import HubWatch, WindowLearner
from service.replica import Replica

log = logging.getLogger("misclick.alarms")

#: States that a learner may get into, and the log lines for entering and leaving each.
_TURNS = {
    "silent": (
        "no clicks come at all, not even false ones: nothing is learned until one does",
        "clicks come again",
    ),
    "context_free": (
        "instances predict clicks worse than click rates do: it decides by these alone",
        "instances predict clicks better again",
    ),
}


def hub_watch_of(replica: Replica) -> HubWatch | None:
    """Return what watches the hubs of a model, or None where it keeps no graph."""
    learner = replica.fold.learner
    if isinstance(learner, WindowLearner) and learner.keeps_graph:
        return learner.hub_watch
    return None


class Alarms:
    """Remembers which alarms were logged, so that a worker logs each change once."""

    def __init__(self) -> None:
        self._on: set[str] = set()
        #: By model, and the event since which its learner decides.
        self._restarts: dict[tuple[str, int], int] = {}
        self._are: dict[str, set[tuple[str, int]]] = {what: set() for what in _TURNS}

    def tell(self, replicas: Iterable[Replica]) -> None:
        """Log a line for each model to which one of these things happened since the last call."""
        models = list(replicas)
        self._tell_hub_alarms(models)
        self._tell_restarts(models)
        self._tell_turns(models)

    def _tell_turns(self, replicas: Sequence[Replica]) -> None:
        held = {(each.key, each.fold.contest.deciding_since): each for each in replicas}
        for what, (begun, ended) in _TURNS.items():
            are = {learner for learner, each in held.items() if getattr(each.fold.learner, what)}
            # A learner over which another was promoted is not reported on any more.
            for learner in sorted(are ^ (self._are[what] & held.keys())):
                log.warning(begun if learner in are else ended, extra={"model": learner[0]})
            self._are[what] = are

    def _tell_restarts(self, replicas: Iterable[Replica]) -> None:
        restarts = {
            (each.key, each.fold.contest.deciding_since): each.fold.learner.restarts
            for each in replicas
        }
        for learner, count in sorted(restarts.items()):
            # Restarts from before it was loaded or promoted are no news.
            if count > self._restarts.get(learner, count):
                log.warning(
                    "clicks are fewer than the learner expected, or more: it begins anew",
                    extra={"model": learner[0], "restarts": count},
                )
        self._restarts = restarts

    def _tell_hub_alarms(self, replicas: Iterable[Replica]) -> None:
        watches = {each.key: watch for each in replicas if (watch := hub_watch_of(each))}
        on = {key for key, watch in watches.items() if watch.raised}
        # A model that is not held any more is forgotten: another one may get its name.
        for key in sorted(on ^ (self._on & watches.keys())):
            watch = watches[key]
            log.warning(
                "labels of hubs look wrong more often than by chance"
                if watch.raised
                else "labels of hubs look as right as others again",
                extra={
                    "model": key,
                    "hub_alarm": watch.raised,
                    "examples": watch.since,
                    "p_value": watch.last.p_value,
                    "suspected": watch.last.n_suspected,
                },
            )
        self._on = on
