"""The driver of a replay."""

import tracemalloc
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clients.errors import InputError
from clients.replay.datasets import Dataset
from clients.replay.run import Click, Played, Replay, Request, Track
from clients.replay.stream import ClickStream, Noise

LABELS = ("a", "b", "c")
#: The only feature of an example is its number, so a player can look up the truth.
DATA = Dataset("toy", np.arange(30, dtype=np.float32).reshape(-1, 1), np.arange(30) % 3, LABELS)
noises = st.builds(
    Noise,
    rho_0=st.floats(0, 0.4),
    rho_1=st.floats(0, 0.4),
    delay=st.tuples(st.integers(0, 5), st.integers(5, 30)),
    shuffle=st.integers(0, 10),
    drop=st.floats(0, 1),
    duplicate=st.floats(0, 1),
)


class Cheat:
    """Shows the truth shifted by `shift`, holds the truth for best, and writes a diary."""

    def __init__(self, shift: int = 0) -> None:
        self.shift = shift
        self.diary: list[Played | Click] = []
        self.requests: list[Request] = []

    def predict(self, items: Sequence[Request]) -> list[Played]:
        """Decide by the number in the only feature."""
        played = []
        for item in items:
            truth = int(item.x[0]) % 3
            label = LABELS[(truth + self.shift) % 3]
            played.append(Played(item.request_id, label, LABELS[truth], 1.0))
        self.requests += items
        self.diary += played
        return played

    def feedback(self, items: Sequence[Click]) -> None:
        """Note what came."""
        self.diary += items


def play(stream: ClickStream, *, batch: int = 1, shift: int = 0) -> tuple[Cheat, Track]:
    """Return a player and its record after all rounds."""
    player = Cheat(shift)
    replay = Replay(stream, {"cheat": player}, batch=batch)
    done = list(replay.run())
    assert done[-1] == stream.horizon
    assert done == sorted(set(done))
    return player, replay.tracks["cheat"]


@settings(max_examples=50)
@given(st.integers(0, 99), st.integers(1, 400), st.sampled_from([1, 7, 100]), noises)
def test_every_feedback_is_delivered_as_the_stream_says(
    seed: int, horizon: int, batch: int, noise: Noise
) -> None:
    """Nothing is lost or invented, comes before its decision, or out of order of arrival."""
    stream = ClickStream(DATA, seed=seed, horizon=horizon, noise=noise)
    player, track = play(stream, batch=batch, shift=seed % 3)
    block = next(stream.blocks())
    expected = Counter(
        f"replay-{seed}-{number}"
        for times in (block.arrivals, block.repeats)
        for number in np.flatnonzero(times >= 0)
    )
    decided = set()
    delivered: Counter[str] = Counter()
    for entry in player.diary:
        if isinstance(entry, Played):
            decided.add(entry.decision_id)
        else:
            assert entry.decision_id in decided
            delivered[entry.decision_id] += 1
            number = int(entry.decision_id.split("-")[-1])
            truth = int(DATA.y[block.rows[number]])
            shown = (truth + seed) % 3
            assert entry.feedback == stream.feedback(shown, truth, block.uniforms[number])
    assert delivered == expected
    clicks = sum(entry.feedback for entry in player.diary if isinstance(entry, Click))
    assert track.clicks == clicks


def test_feedback_comes_in_the_round_in_which_it_arrives() -> None:
    """A delay of 3 rounds is 3 further decisions, no more and no less."""
    stream = ClickStream(DATA, horizon=6, noise=Noise(delay=(3, 3)))
    player, _ = play(stream)
    ids = [("P" if isinstance(e, Played) else "F") + e.decision_id[-1] for e in player.diary]
    assert ids == ["P0", "P1", "P2", "P3", "F0", "P4", "F1", "P5", "F2", "F3", "F4", "F5"]


def test_a_batch_is_decided_before_it_is_learned() -> None:
    """A batch of two: both decisions, then both feedbacks; a last batch may be shorter."""
    player, _ = play(ClickStream(DATA, horizon=3), batch=2)
    ids = [("P" if isinstance(e, Played) else "F") + e.decision_id[-1] for e in player.diary]
    assert ids == ["P0", "P1", "F0", "F1", "P2", "F2"]


def test_requests_are_those_of_the_stream() -> None:
    """Ids name seed and round, and the instances are the data's own rows."""
    stream = ClickStream(DATA, horizon=5000, seed=4)
    player, _ = play(stream, batch=999)
    assert [item.request_id for item in player.requests] == [f"replay-4-{t}" for t in range(5000)]
    rows = np.concatenate([block.rows for block in stream.blocks()])
    np.testing.assert_array_equal(np.stack([item.x for item in player.requests]), DATA.x[rows])
    with pytest.raises(ValueError, match="read-only"):
        player.requests[0].x[0] = 7


def test_errors_are_counted_against_the_truth() -> None:
    """The label shown and the greedy label are judged apart, and noise does not touch either."""
    stream = ClickStream(DATA, horizon=200, noise=Noise(rho_0=0.4, rho_1=0.4))
    right, wrong = Cheat(), Cheat(shift=1)
    replay = Replay(stream, {"right": right, "wrong": wrong})
    for _ in replay.run():
        pass
    assert replay.tracks["right"].error() == 0
    assert replay.tracks["wrong"].error() == 1
    assert replay.tracks["wrong"].greedy_error() == 0
    assert right.diary == play(stream)[0].diary
    assert wrong.diary == play(stream, shift=1)[0].diary


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1), st.integers(1, 50))
def test_a_track_agrees_with_plain_counting(rounds: list[tuple[bool, bool]], window: int) -> None:
    """Cumulative, windowed and greedy errors and the curve are those of the definition."""
    track = Track(len(rounds) + 5)
    for wrong, wrong_greedy in rounds:
        track.record(wrong=wrong, wrong_greedy=wrong_greedy)
    shown = [wrong for wrong, _ in rounds]
    assert track.error() == pytest.approx(np.mean(shown))
    assert track.window_error(window) == pytest.approx(np.mean(shown[-window:]))
    assert track.greedy_error() == pytest.approx(np.mean([greedy for _, greedy in rounds]))
    assert track.wrong.tolist() == shown
    assert track.wrong_greedy.tolist() == [greedy for _, greedy in rounds]
    numbers = np.arange(1, len(rounds) + 1)
    assert track.curve(numbers) == pytest.approx([np.mean(shown[:n]) for n in numbers])


def test_a_curve_takes_little_memory() -> None:
    """That of a billion rounds took ten GB, when the last of them was over."""
    track = Track(100_000)
    track.done = 100_000
    tracemalloc.start()
    try:
        track.curve(np.array([1, 50_000, 100_000]))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 50_000


def test_before_the_first_round_no_error_is_known() -> None:
    """An empty record is not a perfect one."""
    track = Track(10)
    assert all(
        np.isnan(value) for value in (track.error(), track.greedy_error(), track.window_error(3))
    )


def test_options_are_checked() -> None:
    """A replay of nobody is refused, or in batches of nothing, or of more than is drawn at once.

    Those were cut into smaller ones, and nobody was told.
    """
    stream = ClickStream(DATA, horizon=1)
    with pytest.raises(InputError, match="players"):
        Replay(stream, {})
    for batch in (0, 4097):
        with pytest.raises(InputError, match=f"batch: expected 1 to 4,096, got {batch}"):
            Replay(stream, {"cheat": Cheat()}, batch=batch)


def test_what_is_under_way_at_the_end_comes_in_order_of_arrival() -> None:
    """As all before it."""
    stream = ClickStream(DATA, horizon=40, noise=Noise(delay=(40, 90)))
    player, _ = play(stream)
    (block,) = stream.blocks()
    came = [int(one.decision_id.split("-")[-1]) for one in player.diary if isinstance(one, Click)]
    assert block.arrivals[came].tolist() == sorted(block.arrivals.tolist())


def test_requests_say_whose_feedback_will_come() -> None:
    """Of the others a player keeps nothing; 0 is when the feedback of the first round comes."""
    stream = ClickStream(DATA, horizon=300, noise=Noise(drop=0.5))
    player, _ = play(stream, batch=7)
    (block,) = stream.blocks()
    assert block.arrivals[0] == 0
    assert [item.answered for item in player.requests] == (block.arrivals >= 0).tolist()
