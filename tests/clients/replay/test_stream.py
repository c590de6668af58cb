"""The click stream: a pure function of seed and round."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from clients.errors import InputError
from clients.replay.datasets import Dataset
from clients.replay.stream import BLOCK, ClickStream, Noise, draw_rates

N_EXAMPLES = 97
DATA = Dataset(
    "toy",
    np.arange(N_EXAMPLES, dtype=np.float32).reshape(-1, 1),
    np.arange(N_EXAMPLES) % 3,
    ("a", "b", "c"),
)
noises = st.builds(
    Noise,
    delay=st.tuples(st.integers(0, 20), st.integers(20, 50)),
    shuffle=st.integers(0, 30),
    drop=st.floats(0, 1),
    duplicate=st.floats(0, 1),
)


def column(stream: ClickStream, name: str) -> np.ndarray[tuple[int], np.dtype[Any]]:
    """Return one array of all rounds."""
    return np.concatenate([getattr(block, name) for block in stream.blocks()])


@settings(max_examples=40)
@given(
    st.integers(0, 2**64),
    st.integers(1, 3 * BLOCK),
    st.integers(1, 3 * BLOCK),
    st.booleans(),
    noises,
)
def test_a_round_depends_on_seed_and_number_only(
    seed: int, horizon: int, other: int, replacement: bool, noise: Noise
) -> None:
    """A shorter stream is the beginning of a longer one, and a repetition is the same."""
    one, two = (
        ClickStream(DATA, seed=seed, horizon=length, replacement=replacement, noise=noise)
        for length in (horizon, other)
    )
    both = min(horizon, other)
    for name in ("rows", "uniforms", "arrivals", "repeats"):
        np.testing.assert_array_equal(column(one, name)[:both], column(two, name)[:both])
        assert len(column(one, name)) == horizon


def test_seeds_differ() -> None:
    """Another seed is another stream, in examples, order and noise."""
    for replacement in (True, False):
        one, two = (
            ClickStream(DATA, seed=seed, horizon=BLOCK, replacement=replacement) for seed in (1, 2)
        )
        for name in ("rows", "uniforms"):
            assert (column(one, name) != column(two, name)).mean() > 0.9


@settings(max_examples=30)
@given(st.integers(0, 100), noises)
def test_every_feedback_arrives_when_it_may(seed: int, noise: Noise) -> None:
    """Nothing arrives before its round, after its bounds, or repeated though dropped."""
    stream = ClickStream(DATA, seed=seed, horizon=2000, noise=noise)
    rounds, arrivals, repeats = (
        np.arange(2000),
        column(stream, "arrivals"),
        column(stream, "repeats"),
    )
    dropped = arrivals == -1
    assert not (repeats[dropped] != -1).any()
    for times in (arrivals, repeats):
        waits = (times - rounds)[times >= 0]
        assert ((waits >= noise.delay[0]) & (waits <= noise.delay[1] + noise.shuffle)).all()


def test_without_replacement_each_pass_has_every_example_once() -> None:
    """A pass is a permutation, and the next one another."""
    rows = column(ClickStream(DATA, horizon=100 * N_EXAMPLES, replacement=False), "rows")
    passes = rows.reshape(100, N_EXAMPLES)
    np.testing.assert_array_equal(np.sort(passes, axis=1), np.tile(np.arange(N_EXAMPLES), (100, 1)))
    assert len({tuple(turn) for turn in passes.tolist()}) == 100


def test_shares_are_what_was_asked_for() -> None:
    """Drops, repeats, delays and examples have the probabilities of the options."""
    n_rounds = 50_000
    noise = Noise(drop=0.3, duplicate=0.2, delay=(2, 5))
    stream = ClickStream(DATA, seed=3, horizon=n_rounds, noise=noise)
    arrivals, repeats = column(stream, "arrivals"), column(stream, "repeats")
    arrived = arrivals >= 0
    assert stats.binomtest(int((~arrived).sum()), n_rounds, 0.3).pvalue > 1e-4
    assert stats.binomtest(int((repeats >= 0).sum()), int(arrived.sum()), 0.2).pvalue > 1e-4
    waits = (arrivals - np.arange(n_rounds))[arrived]
    assert stats.chisquare(np.bincount(waits, minlength=6)[2:]).pvalue > 1e-4
    counts = np.bincount(column(stream, "rows"), minlength=N_EXAMPLES)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_shuffle_changes_the_order() -> None:
    """Shuffled feedback really arrives out of order, and unshuffled does not."""
    for shuffle, changes in ((0, False), (10, True)):
        stream = ClickStream(DATA, horizon=500, noise=Noise(delay=(3, 3), shuffle=shuffle))
        assert (np.diff(column(stream, "arrivals")) < 0).any() == changes


@pytest.mark.parametrize(
    ("rho_0", "rho_1"),
    [(0.15, 0.15), (0.2, 0.4), ((0.0, 0.1, 0.5), (0.4, 0.3, 0.0))],
)
def test_flips_have_the_rates_of_the_label_shown(rho_0: Any, rho_1: Any) -> None:
    """P(feedback) is rho_0 of the shown label where it is wrong, and 1 - rho_1 where right."""
    noise = Noise(rho_0=rho_0, rho_1=rho_1)
    stream = ClickStream(DATA, seed=5, horizon=20_000, noise=noise)
    uniforms = column(stream, "uniforms").tolist()
    for shown in range(3):
        for truth in range(3):
            clicks = sum(stream.feedback(shown, truth, uniform) for uniform in uniforms)
            right = shown == truth
            rate = 1 - stream.rho_1[shown] if right else stream.rho_0[shown]
            if rate == 0:
                assert clicks == 0
            else:
                assert stats.binomtest(clicks, len(uniforms), rate).pvalue > 1e-4


def test_drawn_rates_are_in_their_range_and_seeded() -> None:
    """A range gives every label its own rate, the same for the same seed."""
    rates = draw_rates(0.1, 0.3, n_labels=50, seed=1, which=0)
    assert rates == draw_rates(0.1, 0.3, n_labels=50, seed=1, which=0)
    assert rates != draw_rates(0.1, 0.3, n_labels=50, seed=1, which=1)
    assert len(set(rates)) == 50
    assert 0.1 <= min(rates) < max(rates) < 0.3
    with pytest.raises(InputError, match="rho_0: expected 0 <= low"):
        draw_rates(0.3, 0.1, n_labels=2, seed=1, which=0)


def test_the_first_block_is_fixed() -> None:
    """A seed means the same stream for ever: published results can be repeated."""
    noise = Noise(delay=(0, 9), shuffle=3, drop=0.2, duplicate=0.5)
    block = next(ClickStream(DATA, seed=1, horizon=8, noise=noise).blocks())
    assert block.rows.tolist() == [45, 49, 73, 92, 3, 13, 79, 92]
    assert block.uniforms.round(6).tolist() == [
        0.448415,
        0.430882,
        0.419999,
        0.277023,
        0.821913,
        0.04975,
        0.092974,
        0.874922,
    ]
    assert block.arrivals.tolist() == [9, 6, -1, 7, -1, 12, 13, 7]
    assert block.repeats.tolist() == [-1, -1, -1, -1, -1, -1, 13, -1]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"drop": 1.1}, "drop"),
        ({"duplicate": -0.1}, "duplicate"),
        ({"drop": float("nan")}, "drop"),
        ({"delay": (3, 2)}, "delay"),
        ({"delay": (-1, 2)}, "delay"),
        ({"shuffle": -1}, "shuffle"),
        ({"shuffle": 10**20}, "shuffle"),
        ({"delay": (0, 10**20)}, "delay"),
        ({"rho_0": 1.0}, "rho_0"),
        ({"rho_1": -0.1}, "rho_1"),
        ({"rho_0": float("nan")}, "rho_0"),
        ({"rho_0": 0.5, "rho_1": 0.5}, "rho_0 [+] rho_1"),
        ({"rho_0": (0.1, 0.2)}, "rho_0"),
    ],
)
def test_options_are_checked(options: dict[str, Any], name: str) -> None:
    """A noise that cannot be is refused with its name."""
    with pytest.raises(InputError, match=f"^{name}"):
        ClickStream(DATA, horizon=10, noise=Noise(**options))


@pytest.mark.parametrize(
    ("options", "name"),
    [({"horizon": 0}, "horizon"), ({"horizon": 10**12}, "horizon"), ({"seed": -1}, "seed")],
)
def test_bounds_are_checked(options: dict[str, int], name: str) -> None:
    """So is a stream that cannot be."""
    with pytest.raises(InputError, match=f"^{name}"):
        ClickStream(DATA, **({"horizon": 10} | options))  # type: ignore[arg-type]  # all ints


def test_a_repeat_has_a_delay_of_its_own() -> None:
    """Sent twice at once it would be no test of late duplicates."""
    stream = ClickStream(DATA, horizon=500, noise=Noise(delay=(0, 9), duplicate=1.0))
    (block,) = stream.blocks()
    assert (block.repeats >= 0).all()
    assert (block.repeats != block.arrivals).mean() > 0.8
