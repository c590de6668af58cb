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
        alarms.tell([_replica("t/one", _learner(restarts=restarts), since)])
        told.append([(r.__dict__["model"], r.__dict__["restarts"]) for r in caplog.records])
        caplog.clear()
    assert told == [[], [], [("t/one", 3)], [], [], [], [("t/one", 5)]]


@pytest.mark.parametrize(
    ("what", "begins", "ends"),
    [
        ("silent", "no clicks come", "clicks come again"),
        ("context_free", "instances predict clicks worse", "instances predict clicks better"),
    ],
)
def test_turns_are_told_once(
    what: str, begins: str, ends: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Who looks at the log at night finds since when it is so, and that it is over."""
    alarms, told = Alarms(), []
    states = (False, True, True, False, False, True, None, False)
    for since, so in [*((0, each) for each in states), (0, True), (7, False)]:
        models = [] if so is None else [_replica("t/one", _learner(**{what: so}), since)]
        alarms.tell(models)
        told.append([record.getMessage() for record in caplog.records])
        caplog.clear()
    # A model that is let go is no news, nor is what it was, nor that another learner decides.
    expected = [None, begins, None, ends, None, begins, None, None, begins, None]
    assert [len(lines) for lines in told] == [int(line is not None) for line in expected]
    for lines, line in zip(told, expected, strict=True):
        assert line is None or lines[0].startswith(line)


def _learner(**said: Any) -> SimpleNamespace:
    return SimpleNamespace(**({"restarts": 0, "silent": False, "context_free": False} | said))
