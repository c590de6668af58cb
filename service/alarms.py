"""Says in the log when the hub alarm of a model goes on or off."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from learners.neighbors import HubWatch, WindowLearner
from service.replica import Replica

log = logging.getLogger("misclick.alarms")


def hub_watch_of(replica: Replica) -> HubWatch | None:
    """Return what watches the hubs of a model, or None where it keeps no graph."""
    learner = replica.fold.learner
    if isinstance(learner, WindowLearner) and learner.keeps_graph:
        return learner.hub_watch
    return None


class Alarms:
    """Remembers which alarms were told, so that each turn is told once by a worker."""

    def __init__(self) -> None:
        self._on: set[str] = set()

    def tell(self, replicas: Iterable[Replica]) -> None:
        """Write a line for each model whose alarm went on or off since the last time."""
        watches = {each.key: watch for each in replicas if (watch := hub_watch_of(each))}
        on = {key for key, watch in watches.items() if watch.raised}
        # A model that is not held any more is forgotten: another one may get its name.
        for key in sorted(on ^ (self._on & watches.keys())):
            watch = watches[key]
            log.warning(
                "labels of hubs look wrong more often than chance has it"
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
