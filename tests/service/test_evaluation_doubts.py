"""When an evaluation is not to be trusted: by its weights, and by what had ended in its log."""

from __future__ import annotations

import numpy as np
import pytest

from service.evaluation import Logged, doubt_of, verdict_of
from service.events import Decision


def test_weights_that_do_not_average_one_are_noticed() -> None:
    """Unless chance explains it."""
    rng = np.random.default_rng(0)
    possible = (rng.random(5000) < 0.2) / 0.2
    assert verdict_of(possible) == "trusted"
    assert "average 0.20" in verdict_of((rng.random(5000) < 0.2).astype(float))


def test_propensities_told_in_short_are_taken_for_true() -> None:
    """A seventh as .14 is no lie, and no lack of exploration; a third as .2 is one."""
    assert verdict_of(np.full(1000, (1 / 7) / 0.14)) == "trusted"
    assert verdict_of(np.full(1000, (1 / 6) / 0.17)) == "trusted"
    assert "average 1.67" in verdict_of(np.full(1000, (1 / 3) / 0.2))


def stream(until_s: int, newest: int | None = None) -> tuple[list[Logged], int]:
    """Return the rounds that ended by then, of one a second, and how many of those since wait.

    Every third is clicked at once, the others are silent for 100 seconds.
    """
    issued = range(1, until_s + 1)
    ends = sorted((s if s % 3 == 0 else s + 100, s) for s in issued)
    rounds = [
        Logged(
            seq,
            Decision(0, 0, 0.5, 0, b"", np.zeros(1, np.float32), 1000 * s),
            int(s % 3 == 0),
            1000 * end,
        )
        for seq, (end, s) in enumerate(ends, 1)
        if end <= until_s
    ]
    chosen = rounds if newest is None else rounds[-newest:]
    since_ms = 0 if newest is None else chosen[0].time_ms
    return chosen, sum(end > until_s and 1000 * s > since_ms for end, s in ends)


@pytest.mark.parametrize(
    ("until_s", "newest", "missing"),
    [
        # From its first round on 67 wait, of all but the last 100 seconds' 2 in 3.
        (200, None, 67),
        (1100, None, 67),
        # As a share of so many rounds it is no matter any more.
        (2000, None, 0),
        # Further rounds came before: as many of these as wait were decided then.
        (1100, 500, 0),
        # Also where the window is longer than the rounds took.
        (1100, 50, 0),
    ],
)
def test_rounds_that_wait_are_missed_where_no_others_stand_for_them(
    until_s: int, newest: int | None, missing: int
) -> None:
    """Clicks are a third of all, and of what has ended wherever that is trusted."""
    rounds, waiting = stream(until_s, newest)
    since_ms = 0 if newest is None else rounds[0].time_ms
    found = doubt_of(rounds, waiting, since_ms)
    assert found.startswith(f"{missing} rounds are missing") if missing else found == ""
    share = np.mean([each.feedback for each in rounds])
    assert missing or share == pytest.approx(1 / 3, abs=0.02)


@pytest.mark.parametrize(("waiting", "missing"), [(58, 0), (59, 26)])
def test_more_may_wait_by_chance_than_did_at_first(waiting: int, missing: int) -> None:
    """33 of these 50 rounds were decided before: a twentieth of 50 more, and four roots of 33."""
    rounds, _ = stream(1100, 50)
    since_ms = rounds[0].time_ms
    decided = [each.payload for each in rounds if isinstance(each.payload, Decision)]
    assert sum(each.issued_ms < since_ms for each in decided) == 33
    found = doubt_of(rounds, waiting, since_ms)
    assert found.startswith(f"{missing} rounds are missing") if missing else found == ""
