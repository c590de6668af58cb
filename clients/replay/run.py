"""The driver of a replay: it takes players through the rounds of one click stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from clients.errors import InputError
from clients.replay.stream import BLOCK, Block, ClickStream


class Request(NamedTuple):
    """One instance that a player shall decide on.

    Attributes
    ----------
    request_id
        `replay-{seed}-{round}`: the player draws by it, so equal ids mean equal draws.
    x
        Shape (d,), float32, finite. A row of the data set: not to be written to.
    answered
        Whether feedback will come: of a decision whose feedback is dropped nothing need be kept.
    """

    request_id: str
    x: NDArray[np.float32]
    answered: bool = True


class Played(NamedTuple):
    """What a player decided.

    Attributes
    ----------
    decision_id
        What `Click` names this decision by.
    label
        The label that was shown.
    greedy
        The label that the learner held to be the best.
    propensity
        Probability with which `label` was drawn, in (0, 1].
    """

    decision_id: str
    label: str
    greedy: str
    propensity: float


class Click(NamedTuple):
    """Feedback to one decision: 1 for a click, 0 for none. It may be flipped or repeated."""

    decision_id: str
    feedback: int


class Player(Protocol):
    """Whoever decides and learns: a service over HTTP, or a learner in this process.

    The driver calls the two methods in turn, never at the same time. Everything that a call of
    `feedback` brought has been learned when the next `predict` decides.
    """

    def predict(self, items: Sequence[Request]) -> list[Played]:
        """Decide on every item, in order, with what has been learned so far."""
        ...

    def feedback(self, items: Sequence[Click]) -> None:
        """Learn from the clicks, in order; a repeated click changes nothing."""
        ...


class Track:
    """What one player got wrong, round by round.

    Parameters
    ----------
    horizon
        How many rounds there will be at most.

    Attributes
    ----------
    done
        How many rounds were played.
    clicks
        How many clicks (feedback of 1) were sent; a repeated one counts again.
    """

    def __init__(self, horizon: int) -> None:
        self.done = 0
        self.clicks = 0
        # Bytes, because one is set in every round and a numpy item takes twice as long.
        self._wrong = bytearray(horizon)
        self._wrong_greedy = bytearray(horizon)

    def record(self, *, wrong: bool, wrong_greedy: bool) -> None:
        """Note the next round."""
        self._wrong[self.done] = wrong
        self._wrong_greedy[self.done] = wrong_greedy
        self.done += 1

    @property
    def wrong(self) -> NDArray[np.bool_]:
        """Shape (done,): in which rounds the label that was shown was wrong. A copy."""
        return np.frombuffer(bytes(self._wrong[: self.done]), dtype=np.bool_)

    @property
    def wrong_greedy(self) -> NDArray[np.bool_]:
        """Shape (done,): in which rounds the greedy label was wrong. A copy."""
        return np.frombuffer(bytes(self._wrong_greedy[: self.done]), dtype=np.bool_)

    def error(self) -> float:
        """Return the share of wrong labels shown in all rounds; NaN before the first."""
        return self.window_error(self.done)

    def greedy_error(self) -> float:
        """Return the share of wrong greedy labels in all rounds; NaN before the first."""
        return self._wrong_greedy.count(1) / self.done if self.done else float("nan")

    def window_error(self, window: int) -> float:
        """Return the share of wrong labels shown in the last `window` rounds."""
        first = max(0, self.done - window)
        count = self._wrong.count(1, first, self.done)
        return count / (self.done - first) if self.done else float("nan")

    def curve(self, rounds: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the cumulative error after each of these rounds, 1 to `done` and ascending."""
        # Piece by piece: sums of all rounds would take eight times what the rounds do.
        pieces = pairwise([0, *rounds.tolist()])
        return np.cumsum([self._wrong.count(1, *piece) for piece in pieces]) / rounds


class Replay:
    """Plays one click stream to several players side by side.

    Every player sees the same instances in the same rounds; what it shows decides which
    feedback it gets. Feedback that is due by the end of a batch is sent in order of arrival;
    what is under way when the last round is over is sent then.

    Parameters
    ----------
    stream
        The rounds.
    players
        By name, at least one, each with the data set's labels and nothing learned yet.
    batch
        How many rounds are predicted at once, 1 to 4,096. With more than 1 a player learns
        from a batch only after all of it was decided. Equal batches make equal results,
        whoever plays.

    Raises
    ------
    InputError
        There is no player, or `batch` is out of range.

    Attributes
    ----------
    tracks
        What each player got wrong so far, by name.

    Examples
    --------
    >>> from clients.replay.datasets import Dataset
    >>> class Stubborn:
    ...     def predict(self, items):
    ...         return [Played(item.request_id, "left", "left", 1.0) for item in items]
    ...     def feedback(self, items):
    ...         pass
    >>> toy = Dataset("toy", np.eye(2, dtype=np.float32), np.array([0, 1]), ("left", "right"))
    >>> stream = ClickStream(toy, horizon=100, replacement=False)
    >>> replay = Replay(stream, {"stubborn": Stubborn()})
    >>> [done for done in replay.run()][-1], replay.tracks["stubborn"].error()
    (100, 0.5)
    """

    def __init__(
        self, stream: ClickStream, players: Mapping[str, Player], *, batch: int = 1
    ) -> None:
        if not players:
            raise InputError("players: expected at least one, got none")
        if not 1 <= batch <= BLOCK:
            raise InputError(f"batch: expected 1 to {BLOCK:,}, got {batch!r}")
        self.stream = stream
        self.batch = batch
        self.tracks = {name: Track(stream.horizon) for name in players}
        self._lanes = [_Lane(stream, player, self.tracks[name]) for name, player in players.items()]

    def run(self) -> Iterator[int]:
        """Play all rounds; yield after each batch how many are done. Once only."""
        x = self.stream.dataset.x.view()
        x.flags.writeable = False
        for block in self.stream.blocks():
            for rounds in _batches(block, self.batch):
                requests = [
                    Request(f"replay-{self.stream.seed}-{number}", x[row], arrival >= 0)
                    for number, (row, arrival) in enumerate(
                        zip(rounds.rows, rounds.arrivals, strict=True), start=rounds.first
                    )
                ]
                for lane in self._lanes:
                    lane.play(rounds, requests)
                yield rounds.first + len(requests)
        for lane in self._lanes:
            lane.finish()


class _Rounds(NamedTuple):
    """Some rounds of a block, as plain numbers: those are faster to read one by one."""

    first: int
    rows: list[int]
    uniforms: list[float]
    arrivals: list[int]
    repeats: list[int]


def _batches(block: Block, size: int) -> Iterator[_Rounds]:
    columns = [
        array.tolist() for array in (block.rows, block.uniforms, block.arrivals, block.repeats)
    ]
    for first in range(0, len(block.rows), size):
        yield _Rounds(block.start + first, *(column[first : first + size] for column in columns))


class _Lane:
    """One player, its record, and the feedback that is under way to it."""

    def __init__(self, stream: ClickStream, player: Player, track: Track) -> None:
        self._stream = stream
        self._player = player
        self._track = track
        self._truths: list[int] = stream.dataset.y.tolist()
        self._codes = {name: code for code, name in enumerate(stream.dataset.labels)}
        self._under_way: dict[int, list[Click]] = {}

    def play(self, rounds: _Rounds, requests: Sequence[Request]) -> None:
        """Let the player decide, send out the feedback, and deliver what is due."""
        for index, decision in enumerate(self._player.predict(requests)):
            shown = self._codes[decision.label]
            truth = self._truths[rounds.rows[index]]
            greedy = self._codes[decision.greedy]
            self._track.record(wrong=shown != truth, wrong_greedy=greedy != truth)
            arrival = rounds.arrivals[index]
            if arrival < 0:
                continue
            bit = self._stream.feedback(shown, truth, rounds.uniforms[index])
            click = Click(decision.decision_id, bit)
            self._under_way.setdefault(arrival, []).append(click)
            if rounds.repeats[index] >= 0:
                self._under_way.setdefault(rounds.repeats[index], []).append(click)
        self._deliver(range(rounds.first, rounds.first + len(requests)))

    def finish(self) -> None:
        """Deliver what is still under way."""
        self._deliver(sorted(self._under_way))

    def _deliver(self, arrivals: Sequence[int]) -> None:
        due = [click for number in arrivals for click in self._under_way.pop(number, ())]
        if due:
            self._track.clicks += sum(click.feedback for click in due)
            self._player.feedback(due)
