"""The click stream: which example comes when, and what happens to each feedback. Pure.

Everything is a function of the seed and the round, whoever plays and however many play: two
players that show the same label in a round get the same feedback at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from clients.errors import InputError
from clients.replay.datasets import Dataset

#: Rounds that are drawn at once. Part of what a seed means: a change is another stream.
BLOCK = 4096
#: A day of rounds at ten thousand a second; each takes two bytes a player.
MAX_ROUNDS = 1_000_000_000
#: Independent random sequences of one seed.
_EXAMPLES, _ORDER, _FATES, _RATES = range(4)

#: One rate for all labels, or one for each.
Rates: TypeAlias = float | Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Noise:
    """What happens to feedback between the user and the learner.

    Parameters
    ----------
    rho_0
        P(feedback = 1 | the label was wrong): false clicks; one rate, or one for each label
        that may be shown. In [0, 1).
    rho_1
        P(feedback = 0 | the label was right): missed clicks, likewise. rho_0 + rho_1 < 1.
    delay
        Rounds after which feedback arrives: drawn uniformly from the first to the last of
        these two. 0 is at once, in the same round.
    shuffle
        Feedback is held back by a further 0 to `shuffle` rounds, so it arrives out of order.
    drop
        Share of the feedback that never arrives, in [0, 1].
    duplicate
        Share of the arriving feedback that arrives twice, in [0, 1]; the second time with
        its own delay.

    Raises
    ------
    InputError
        A number is out of its range.

    Examples
    --------
    >>> Noise(rho_0=0.2, rho_1=0.4, delay=(0, 50)).drop
    0.0
    """

    rho_0: Rates = 0.0
    rho_1: Rates = 0.0
    delay: tuple[int, int] = (0, 0)
    shuffle: int = 0
    drop: float = 0.0
    duplicate: float = 0.0

    def __post_init__(self) -> None:
        for name in ("drop", "duplicate"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise InputError(f"{name}: expected a share in [0, 1], got {value!r}")
        if not 0 <= self.delay[0] <= self.delay[1] <= MAX_ROUNDS:
            what = f"0 <= first <= last <= {MAX_ROUNDS:,}"
            raise InputError(f"delay: expected {what}, got {self.delay!r}")
        if not 0 <= self.shuffle <= MAX_ROUNDS:
            raise InputError(f"shuffle: expected 0 to {MAX_ROUNDS:,}, got {self.shuffle!r}")


@dataclass(frozen=True)
class Block:
    """Consecutive rounds, all in arrays of the same length.

    Attributes
    ----------
    start
        Number of the first round.
    rows
        Which example of the data set comes.
    uniforms
        Numbers in [0, 1) that decide whether the feedback is flipped.
    arrivals
        Round in which the feedback arrives; -1 where it never does.
    repeats
        Round in which it arrives a second time; -1 where it does not.
    """

    start: int
    rows: NDArray[np.int64]
    uniforms: NDArray[np.float64]
    arrivals: NDArray[np.int64]
    repeats: NDArray[np.int64]


class ClickStream:
    """A data set as a stream of rounds with noisy feedback.

    Parameters
    ----------
    dataset
        Where the instances come from.
    horizon
        Number of rounds, 1 to 1,000,000,000.
    seed
        Equal seeds make equal streams; a shorter horizon is the beginning of a longer one.
    replacement
        Whether every round draws from all examples. If not, all examples come once in random
        order, then once in another order, and so on.
    noise
        What happens to the feedback. None by default.

    Raises
    ------
    InputError
        `horizon` or `seed` is out of range, or a rate is, or there are not as many rates as
        labels.

    Examples
    --------
    >>> toy = Dataset("toy", np.eye(2, dtype=np.float32), np.array([0, 1]), ("left", "right"))
    >>> stream = ClickStream(toy, horizon=6, seed=7, noise=Noise(rho_0=0.1, rho_1=0.3))
    >>> block = next(stream.blocks())
    >>> block.rows.shape, block.arrivals.tolist()
    ((6,), [0, 1, 2, 3, 4, 5])
    >>> stream.feedback(shown=1, truth=1, uniform=0.2), stream.feedback(1, 1, 0.7)
    (0, 1)
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        horizon: int,
        seed: int = 0,
        replacement: bool = True,
        noise: Noise = Noise(),
    ) -> None:
        if not 1 <= horizon <= MAX_ROUNDS:
            raise InputError(f"horizon: expected 1 to {MAX_ROUNDS:,}, got {horizon!r}")
        if seed < 0:
            raise InputError(f"seed: expected at least 0, got {seed!r}")
        self.dataset = dataset
        self.horizon = horizon
        self.seed = seed
        self.replacement = replacement
        self.noise = noise
        n_labels = len(dataset.labels)
        self.rho_0 = _each("rho_0", noise.rho_0, n_labels)
        self.rho_1 = _each("rho_1", noise.rho_1, n_labels)
        for name, low, high in zip(dataset.labels, self.rho_0, self.rho_1, strict=True):
            if low + high >= 1:
                raise InputError(f"rho_0 + rho_1: expected below 1, got {low + high} for {name}")

    def feedback(self, shown: int, truth: int, uniform: float) -> int:
        """Return the observed bit: was `shown` the `truth`, unless `uniform` flips that."""
        if shown == truth:
            return int(uniform >= self.rho_1[shown])
        return int(uniform < self.rho_0[shown])

    def blocks(self) -> Iterator[Block]:
        """Yield all rounds, in blocks of up to 4,096."""
        for number in range(-(-self.horizon // BLOCK)):
            yield self._block(number)

    def _block(self, number: int) -> Block:
        start = number * BLOCK
        size = min(BLOCK, self.horizon - start)
        rng = np.random.default_rng([self.seed, _FATES, number])
        # Whole blocks are drawn even at the end, so that the horizon changes no round.
        uniforms = rng.random(BLOCK)[:size]
        dropped = rng.random(BLOCK)[:size] < self.noise.drop
        repeated = rng.random(BLOCK)[:size] < self.noise.duplicate
        rounds = np.arange(start, start + size)
        arrivals = rounds + self._delays(rng)[:size]
        repeats = rounds + self._delays(rng)[:size]
        arrivals[dropped] = -1
        repeats[dropped | ~repeated] = -1
        return Block(start, self._rows(number, size), uniforms, arrivals, repeats)

    def _delays(self, rng: np.random.Generator) -> NDArray[np.int64]:
        first, last = self.noise.delay
        shuffled = rng.integers(self.noise.shuffle, size=BLOCK, endpoint=True)
        return rng.integers(first, last, size=BLOCK, endpoint=True) + shuffled

    def _rows(self, number: int, size: int) -> NDArray[np.int64]:
        n_examples = len(self.dataset.y)
        if self.replacement:
            rng = np.random.default_rng([self.seed, _EXAMPLES, number])
            return rng.integers(n_examples, size=BLOCK)[:size]
        rounds = np.arange(number * BLOCK, number * BLOCK + size)
        passes = rounds // n_examples
        rows = np.empty(size, dtype=np.int64)
        for turn in range(int(passes[0]), int(passes[-1]) + 1):
            here = passes == turn
            order = np.random.default_rng([self.seed, _ORDER, turn]).permutation(n_examples)
            rows[here] = order[rounds[here] % n_examples]
        return rows


def draw_rates(low: float, high: float, *, n_labels: int, seed: int, which: int) -> list[float]:
    """Draw one rate for each label, uniformly between two.

    Parameters
    ----------
    low, high
        The range, within [0, 1).
    n_labels
        How many rates.
    seed, which
        Equal numbers draw equal rates; `which` is 0 for rho_0 and 1 for rho_1.
    """
    if not 0 <= low <= high < 1:
        raise InputError(f"rho_{which}: expected 0 <= low <= high < 1, got {low}:{high}")
    rng = np.random.default_rng([seed, _RATES, which])
    return [float(rate) for rate in rng.uniform(low, high, n_labels)]


def _each(name: str, rates: Rates, n_labels: int) -> list[float]:
    """Return one rate for each label."""
    each = [float(rates)] * n_labels if isinstance(rates, int | float) else list(rates)
    if len(each) != n_labels:
        raise InputError(f"{name}: expected 1 or {n_labels} rates, got {len(each)}")
    for rate in each:
        if not 0 <= rate < 1:
            raise InputError(f"{name}: expected a probability in [0, 1), got {rate!r}")
    return each
