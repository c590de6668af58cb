"""The log says once when an alarm goes on, and once when it goes off."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from learners.neighbors import KNN, HwKNN
from service.alarms import Alarms


def _replica(key: str, learner: Any, since: int = 0) -> Any:
    contest = SimpleNamespace(deciding_since=since)
    return SimpleNamespace(key=key, fold=SimpleNamespace(learner=learner, contest=contest))


def test_each_turn_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Also of a model that was deleted while its alarm was on, and made anew under its name."""
    alarms = Alarms()
    one, other = HwKNN(1, 2), HwKNN(1, 2)
    models = [_replica("t/one", one), _replica("t/other", other), _replica("t/plain", KNN(1, 2))]
    told = []
    for raised, held in ((True, True), (True, True), (False, True), (True, True), (True, False)):
        one.hub_watch.raised = raised
        alarms.tell(models if held else models[1:])
        told.append([(r.__dict__["model"], r.__dict__["hub_alarm"]) for r in caplog.records])
        caplog.clear()
    one.hub_watch.raised = False
    alarms.tell(models)
    on, off = [("t/one", True)], [("t/one", False)]
    assert told == [on, [], off, on, []]
    assert not caplog.records


def test_each_restart_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Not those that a model had behind it when it was loaded, or its learner when promoted."""
    alarms, told = Alarms(), []
    for restarts, since in ((2, 0), (2, 0), (3, 0), (3, 0), (0, 0), (4, 90), (5, 90)):
        alarms.tell([_replica("t/one", SimpleNamespace(restarts=restarts, silent=False), since)])
        told.append([(r.__dict__["model"], r.__dict__["restarts"]) for r in caplog.records])
        caplog.clear()
    assert told == [[], [], [("t/one", 3)], [], [], [], [("t/one", 5)]]


def test_silence_and_its_end_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Who looks at the log at night finds since when nothing is learned, and that it is over."""
    alarms, told = Alarms(), []
    states = (False, True, True, False, False, True, None, False)
    for since, silent in [*((0, each) for each in states), (0, True), (7, False)]:
        models = [] if silent is None else [_replica("t/one", _learner(silent), since)]
        alarms.tell(models)
        told.append([record.getMessage()[:9] for record in caplog.records])
        caplog.clear()
    begins, ends = ["no clicks"], ["clicks co"]
    # A model that is let go is no news, nor is what it was, nor that another learner decides.
    assert told == [[], begins, [], ends, [], begins, [], [], begins, []]


def _learner(silent: bool) -> SimpleNamespace:
    return SimpleNamespace(restarts=0, silent=silent)
