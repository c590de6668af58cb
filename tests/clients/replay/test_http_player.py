"""The same stream in-process and over HTTP."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest

from clients import Client, Dense, InputError, ModelSpec
from clients.replay.datasets import load
from clients.replay.http_player import HttpPlayer
from clients.replay.run import Click, Played, Player, Replay, Request
from clients.replay.stream import ClickStream, Noise
from service.inprocess import InProcessPlayer
from service.replay_command import plain
from tests.clients.conftest import fresh_spec
from tests.serving import Service, running_service

SEGMENTS = load("segments")
#: Every kind of trouble at once.
NOISE = Noise(rho_0=0.2, rho_1=0.3, delay=(0, 4), shuffle=5, drop=0.1, duplicate=0.3)


class Diary:
    """A player that writes down what another one decides."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self.feedback = player.feedback
        self.decided: list[tuple[str, str, float]] = []

    def predict(self, items: Sequence[Request]) -> list[Played]:
        """Pass the decisions on, and keep all but their ids."""
        played = self._player.predict(items)
        self.decided += [(one.label, one.greedy, one.propensity) for one in played]
        return played


def segments_spec(scaling: str, kind: str) -> ModelSpec:
    """Return a model for the image segments."""
    learner: dict[str, object] = {"kind": kind, "gamma": 0.1}
    if kind == "rcnbf":
        learner |= {"rho_0": 0.2, "rho_1": 0.3}
    return fresh_spec(
        learner=learner,
        labels=SEGMENTS.labels,
        features=Dense(SEGMENTS.n_features),
        scaling=scaling,
        seed=11,
    )


def compare(client: Client, spec: ModelSpec, *, horizon: int, batch: int) -> None:
    """Play in-process and over HTTP side by side; the results must be equal bit for bit."""
    client.create_model(spec)
    local, remote = InProcessPlayer(plain(spec)), HttpPlayer(client, spec.name)
    diaries = {"local": Diary(local), "remote": Diary(remote)}
    stream = ClickStream(SEGMENTS, horizon=horizon, seed=5, noise=NOISE)
    replay = Replay(stream, diaries, batch=batch)
    for _ in replay.run():
        pass
    assert diaries["local"].decided == diaries["remote"].decided
    assert len(diaries["local"].decided) == horizon
    one, two = local.state(), client.state(spec.name)
    assert one.keys() == two.keys()
    for name, value in one.items():
        assert np.asarray(value).dtype == np.asarray(two[name]).dtype
        assert np.asarray(value).tobytes() == np.asarray(two[name]).tobytes(), name
    np.testing.assert_array_equal(replay.tracks["local"].wrong, replay.tracks["remote"].wrong)


@pytest.mark.parametrize(
    ("scaling", "kind", "horizon", "batch"),
    [
        ("standard", "rcnbf", 250, 1),
        ("unit", "banditron", 150, 1),
        ("none", "soba", 3000, 50),
        ("standard", "rcnbf", 5000, 1000),
    ],
)
def test_http_and_in_process_are_equal_bit_for_bit(
    client: Client, scaling: str, kind: str, horizon: int, batch: int
) -> None:
    """Neither the wire nor the store changes a decision or a weight, whatever the noise."""
    spec = segments_spec(scaling, kind)
    compare(client, spec, horizon=horizon, batch=batch)
    counters = client.get_model(spec.name).counters
    assert 0.85 < counters.feedback / horizon < 0.95
    assert 0.2 < counters.duplicates / counters.feedback < 0.4
    assert counters.late == counters.conflicts == 0


def test_several_workers_play_as_one() -> None:
    """The player asks for what its own feedback taught, so it matters not who answers."""
    # A connection for each call: which worker answers is left to chance.
    transport = httpx.HTTPTransport(limits=httpx.Limits(max_keepalive_connections=0))
    with (
        running_service(workers=2) as service,
        Client(service.url, transport=transport) as client,
    ):
        for batch in (1, 20):
            compare(client, segments_spec("standard", "rcnbf"), horizon=60 * batch, batch=batch)


def test_a_learner_of_labels_cannot_play(service: Service) -> None:
    """It takes no clicks: the replay says so instead of learning nothing."""
    spec = fresh_spec(learner={"kind": "perceptron"})
    with Client(service.url) as client:
        client.create_model(spec)
        player = HttpPlayer(client, spec.name)
        with pytest.raises(InputError, match="takes feedback"):
            player.predict([Request("r", np.zeros(3, dtype=np.float32))])


def test_a_repeated_click_takes_back_nothing() -> None:
    """What is heard twice was taught at its first seq: later decisions know more than that."""
    asked: list[int | None] = []

    class Service:
        """Receipts out of order, and what is asked for."""

        def feedback_batch(self, *_: object) -> list[Any]:
            return [SimpleNamespace(seq=7), SimpleNamespace(seq=3)]

        def feedback(self, *_: object) -> Any:
            return SimpleNamespace(seq=3)

        def predict(self, *_: object, min_seq: int | None, **__: object) -> Any:
            asked.append(min_seq)
            return SimpleNamespace(decision_id="d", label="a", greedy="a", propensity=1.0)

    service: Any = Service()
    player = HttpPlayer(service, "ads")
    request = [Request("r", np.zeros(1, dtype=np.float32))]
    player.feedback([Click("d", 1), Click("c", 1)])
    player.predict(request)
    player.feedback([Click("c", 1)])
    player.predict(request)
    assert asked == [7, 7]
