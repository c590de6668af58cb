"""Models whose numbers went wrong: they are refused with the reason, and nothing is stored of it.

No honest log leads there; what happens is put in by hand.
"""

from __future__ import annotations

import logging

import numpy as np
import pytest

from learners import Banditron, Outcome
from service.deciding import Ask
from service.errors import Unavailable
from service.events import Event, Kind
from service.fold import Fold
from service.follower import Unusable
from service.host import Host
from service.replica import Replica
from service.settings import Settings
from service.snapshots import load_snapshots
from service.spec import ModelSpec
from tests.service.stores import SPEC, make, nonce, opened, play, replica_of, row

FORWARD = {"learner": {"kind": "forward", "n_waves": 3}}


async def ask(replica: Replica) -> None:
    """Ask for one decision."""
    await replica.predict(Ask(row(1), None, None))


def poison(replica: Replica) -> None:
    """Put a NaN into what a copy of a linear model has learned."""
    learner = replica.fold.learner
    assert isinstance(learner, Banditron)
    learner._weights[1, 0] = np.nan


def test_nothing_is_drawn_from_nan() -> None:
    """Protects the log: a decision with propensity NaN would be an event that nobody takes."""
    fold = Fold(ModelSpec.model_validate(SPEC | FORWARD), "u")
    decision = fold.decide(row(1), nonce(1), repeatable=False)
    fold.learner._regression.weights[:] = np.nan  # type: ignore[attr-defined]
    with pytest.raises(Unavailable, match="gives a probability of nan"):
        fold.decide(row(1), nonce(2), repeatable=False)
    with pytest.raises(Unavailable, match="gives a probability of nan"):
        fold.decide_many(np.array([row(1), row(2)]), [nonce(3), nonce(4)], [False, False])
    fold.apply(Event(Kind.FEEDBACK, 0, nonce(1), 1, decision))
    assert fold.seq == 1


@pytest.mark.parametrize("wrong", [np.nan, -np.inf, 1e101])
async def test_what_could_not_be_restored_is_not_stored(store_url: str, wrong: float) -> None:
    """Protects the last good snapshot: with a bad one in its place, the model would be lost."""
    async with opened(store_url) as store:
        address = await make(store, log_keep=0)
        replica = await replica_of(store, address)
        await play(replica, 3)
        await replica.save_snapshot()
        good = replica.fold.encode()
        await play(replica, 1, 3)
        replica.fold.learner._weights[1, 0] = wrong  # type: ignore[attr-defined]
        with pytest.raises(Unusable, match=r"after event 4, there is NaN.* in learner\.weights"):
            await replica.save_snapshot()
        assert [snapshot.seq for snapshot in await load_snapshots(store, address)] == [3]
        fresh = await replica_of(store, address)
        assert fresh.fold.seq == 4
        assert good != fresh.fold.encode()


async def test_a_copy_that_went_wrong_is_given_up(
    store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What only this worker has wrong is thrown away, said in the log, and folded anew."""
    async with opened(store_url) as store:
        address = await make(store)
        host = Host(store, Settings(snapshot_events=1))
        replica = await host.replica(address.key)
        await play(replica, 2)
        poison(replica)
        with caplog.at_level(logging.WARNING, "misclick"):
            await host._snapshot()
        assert host.replicas == []
        assert "learner.weights" in caplog.records[-1].why  # type: ignore[attr-defined]
        sound = await replica_of(store, address)
        assert np.isfinite(sound.fold.learner.state()["weights"]).all()


async def test_a_log_that_leads_to_nan_is_not_served(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A learner that breaks on an event of the log answers 503 with the reason, and only it."""

    def broken(learner: Banditron, outcome: Outcome) -> None:
        learner._weights[outcome.label] = np.inf

    async with opened(store_url) as store:
        address, other = await make(store), await make(store, **FORWARD)
        await play(await replica_of(store, address), 2)
        await play(await replica_of(store, other), 2)
        monkeypatch.setattr(Banditron, "update", broken)
        host = Host(store, Settings())
        for _ in range(2):
            with pytest.raises(Unavailable, match="not served: after event 2"):
                await host.use(
                    address.key, lambda replica: replica.predict(Ask(row(1), None, None))
                )
        assert (await host.replica(other.key)).fold.seq == 2


async def test_an_event_that_nobody_can_fold_is_no_500(
    store_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An error that nobody foresaw makes the one model unavailable, and stands in the log."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError("not foreseen")

    async with opened(store_url) as store:
        address = await make(store)
        host = Host(store, Settings())
        replica = await host.replica(address.key)
        await play(replica, 2)
        decided = await replica.predict(Ask(row(3), None, None))
        assert decided.decision_id is not None
        told = decided.decision_id
        monkeypatch.setattr(Banditron, "update", broken)
        with pytest.raises(Unavailable, match="event 3 cannot be folded: ZeroDivisionError"):
            await host.use(address.key, lambda replica: replica.feedback(told, 1))
        # It was admitted, and is half applied in memory: this copy must not go on.
        assert host.replicas == []
        assert caplog.records[-1].exc_info
        monkeypatch.undo()
        again = Host(store, Settings())
        verdict = await again.use(address.key, lambda replica: replica.feedback(told, 1))
        assert (verdict.status, verdict.seq) == ("duplicate", 3)
