"""A model as the fold of its log: the same bytes everywhere, decisions that change nothing."""

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners import LearnersError, Outcome, create
from service.codec import CodecError, decode_state, encode_state
from service.errors import Invalid, LogBroken
from service.events import (
    Decision,
    Entry,
    Event,
    Example,
    Kind,
    LabelChange,
    Rates,
    chain_after,
    pack_body,
)
from service.features import Row
from service.fold import Fold
from service.ids import nonce_of_request
from service.spec import MAX_WINDOW_ROWS, MAX_WINDOW_VALUES, ModelSpec
from tests.service.folds import LEARNERS, SIZE, admin, entry_of, fold_of, history, round_of, row_of


@pytest.mark.parametrize("scaling", ["none", "unit", "standard"])
@pytest.mark.parametrize("learner", sorted(LEARNERS))
def test_every_worker_folds_to_the_same_bytes(learner: str, scaling: str) -> None:
    """A second worker, and one that starts from a snapshot, end with the first one's bytes."""
    options = {"learner": LEARNERS[learner], "scaling": scaling}
    first = fold_of(**options)
    log = history(first, 25)
    second = fold_of(**options)
    for at, entry in enumerate(log):
        if at == 13:
            blob, seq, chain = second.encode(), second.seq, second.chain
            second = fold_of(**options)
            second.restore(blob, seq, chain)
        second.follow(entry)
    assert (second.seq, second.chain) == (first.seq, first.chain)
    assert second.encode() == first.encode()
    for number in range(100, 110):
        mine, its = round_of(first, number), round_of(second, number)
        assert pack_body(mine) == pack_body(its)


@pytest.mark.parametrize("learner", sorted(LEARNERS))
def test_deciding_changes_nothing(learner: str) -> None:
    """However many decisions are made, the state stays byte for byte what it was."""
    fold = fold_of(learner=LEARNERS[learner], scaling="standard")
    history(fold, 12)
    before = fold.encode()
    for number in range(50):
        x = row_of(number)
        kept = x.copy()
        fold.decide(x, bytes(12), [1, 3], repeatable=True)
        fold.decide_many(np.stack([x, x]), [bytes(12)] * 2, [True, False])
        assert x.tobytes() == kept.tobytes()
    assert fold.encode() == before


@pytest.mark.parametrize("scaling", ["none", "unit", "standard"])
@pytest.mark.parametrize("learner", sorted(LEARNERS))
def test_a_batch_decides_as_singles_do(learner: str, scaling: str) -> None:
    """`decide_many` gives the labels and propensities of `decide`, bit for bit."""
    fold = fold_of(learner=LEARNERS[learner], scaling=scaling)
    history(fold, 20)
    rows = np.stack([row_of(n) for n in range(40)])
    nonces = [nonce_of_request(f"n{n}") for n in range(40)]
    again = [n % 2 == 0 for n in range(40)]
    many = fold.decide_many(rows, nonces, again)
    for x, nonce, repeatable, decision in zip(rows, nonces, again, many, strict=True):
        alone = fold.decide(x, nonce, repeatable=repeatable)
        assert alone[:5] == decision[:5]
        assert alone.x.tobytes() == decision.x.tobytes()


@pytest.mark.parametrize("learner", sorted(LEARNERS))
def test_the_logged_propensity_is_the_one_drawn_from(learner: str) -> None:
    """Recomputed at its seq, from the state of then, the propensity is the same to the bit."""
    fold = fold_of(learner=LEARNERS[learner], scaling="standard")
    decisions: list[tuple[bytes, Decision]] = []
    log: list[Entry] = []
    for number in range(30):
        nonce = nonce_of_request(f"r{number}")
        decisions.append((nonce, fold.decide(row_of(number), nonce, repeatable=False)))
        if number >= 4:
            # Feedback comes four rounds late.
            nonce, decision = decisions[number - 4]
            log.append(entry_of(fold, Event(Kind.FEEDBACK, 0, nonce, 1, decision)))
            fold.follow(log[-1])
    replayed = fold_of(learner=LEARNERS[learner], scaling="standard")
    for nonce, decision in decisions:
        while replayed.seq < decision.seq:
            replayed.follow(log[replayed.seq])
        again = replayed.decide(decision.x, nonce, repeatable=False)
        assert again[:4] == decision[:4]


@pytest.mark.parametrize("learner", sorted(LEARNERS))
def test_the_learner_is_told_the_outcome_as_it_was_logged(learner: str) -> None:
    """Label, greedy label, propensity and feedback of the event reach the learner unchanged."""
    options = {k: v for k, v in LEARNERS[learner].items() if k != "kind"}
    fold, twin = fold_of(learner=LEARNERS[learner]), create(learner, SIZE, 3, **options)
    for number in range(20):
        greedy, label, bit = number % 3, number % 2, number % 5 // 3
        x, propensity = row_of(number), 0.25 + number / 40
        decision = Decision(label, greedy, propensity, 0, bytes(8), x)
        fold.apply(Event(Kind.FEEDBACK, 0, bytes(12), bit, decision))
        outcome = Outcome(x.astype(np.float64), label, greedy, propensity, bit)
        with contextlib.suppress(LearnersError):
            twin.update(outcome)
    told = {name: v for name, v in fold.state().items() if name.startswith("learner.")}
    assert encode_state(told) == encode_state({f"learner.{n}": v for n, v in twin.state().items()})


def test_the_draw_follows_the_propensities() -> None:
    """Over many ids each label comes as often as its propensity says."""
    fold = fold_of()
    history(fold, 20)
    x = row_of(3)
    drawn = [fold.decide(x, nonce_of_request(f"{n}"), repeatable=False) for n in range(20_000)]
    for label in range(4):
        mine = [d.propensity for d in drawn if d.label == label]
        if mine:
            deviation = np.sqrt(mine[0] * (1 - mine[0]) / len(drawn))
            assert abs(len(mine) / len(drawn) - mine[0]) < 5 * deviation


def test_a_repeated_question_is_recognised() -> None:
    """The fingerprint tells another instance or other labels, in whatever order they stand."""
    fold = fold_of()

    def asked(x: Row, allowed: list[int] | None) -> bytes:
        return fold.decide(x, bytes(12), allowed, repeatable=True).fingerprint

    assert asked(row_of(1), [0, 1]) == asked(row_of(1), [1, 0, 1])
    prints = [asked(row_of(1), None), asked(row_of(1), [0, 1]), asked(row_of(2), None)]
    assert len(set(prints)) == 3
    assert fold.decide(row_of(1), bytes(12), repeatable=False).fingerprint == bytes(8)


def test_labels_come_and_go() -> None:
    """A new label is explored at once, a retired one never chosen, a restored one remembered."""
    fold = fold_of(learner=LEARNERS["banditron"])
    history(fold, 5)
    state = fold.state()
    fold.apply(admin(LabelChange(["d", "e"], ["b"])))
    assert fold.labels == ["a", "b", "c", "d", "e"]
    assert fold.codes == {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4}
    shares = fold.learner.distribution(np.ones(SIZE)).probabilities
    # The explored 0.2 is divided by the four that may be chosen.
    assert shares[3] >= 0.05 > shares[1] == 0.0
    with pytest.raises(Invalid, match="at least one label that is not retired"):
        fold.allowed_codes(["b"])
    fold.apply(admin(LabelChange(["b"], ["d", "e"])))
    shares = fold.learner.distribution(np.ones(SIZE)).probabilities
    assert shares[1] > 0.0 == shares[3] == shares[4]
    weights = {k: v for k, v in fold.state().items() if k == "learner.weights"}
    for name, value in weights.items():
        assert isinstance(value, np.ndarray)
        assert value[:3].tobytes() == np.asarray(state[name]).tobytes()


def test_allowed_labels_are_looked_up() -> None:
    """The codes of names, or a 422 that says which name is none."""
    fold = fold_of()
    assert fold.allowed_codes(["c", "a", "c"]) == [2, 0, 2]
    with pytest.raises(Invalid) as caught:
        fold.allowed_codes(["a", "z"], "items[4].allowed")
    assert caught.value.details[0].where == "items[4].allowed[1]"


def test_silence_means_what_the_spec_says() -> None:
    """`ignore` leaves the weights alone; `no_click` is the same as an explicit no click."""
    ignoring, no_click, told = fold_of(), fold_of(on_expiry="no_click"), fold_of()
    fresh = ignoring.encode()
    for number in range(20):
        for fold in (ignoring, no_click):
            event = round_of(fold, number)
            fold.apply(Event(Kind.EXPIRE, 0, event.nonce, None, event.payload))
        event = round_of(told, number)
        told.apply(event._replace(feedback=0))
    assert ignoring.encode() == fresh
    assert no_click.encode() == told.encode() != fresh


@pytest.mark.parametrize(
    "event",
    [
        Event(Kind.LEARN, 0, bytes(12), None, Example(0, row_of(1))),
        admin(Rates(0.7, 0.7)),
        admin(LabelChange([], ["a", "b", "c"])),
    ],
    ids=["no labels taken", "no rates", "the last label"],
)
def test_what_the_learner_refuses_is_counted(event: Event) -> None:
    """An event that the learner refuses is counted, and the fold goes on to the same bytes."""
    one, other = (fold_of(learner=LEARNERS["bpa"]) for _ in range(2))
    for fold in (one, other):
        fold.follow(entry_of(fold, event))
        fold.follow(entry_of(fold, round_of(fold, 1)))
        assert (fold.rejected, fold.seq) == (1, 2)
    assert one.encode() == other.encode()


def test_examples_are_learned() -> None:
    """A label learner folds examples, scaled like decisions."""
    fold = fold_of(learner={"kind": "perceptron"}, scaling="standard")
    for number in range(60):
        fold.apply(Event(Kind.LEARN, 0, bytes(12), None, Example(number % 3, row_of(number % 3))))
    assert fold.rejected == 0
    for label in range(3):
        assert fold.decide(row_of(label), bytes(12), repeatable=False).greedy == label


@pytest.mark.parametrize(
    "damage",
    [
        lambda e: e._replace(seq=e.seq + 1),
        lambda e: e._replace(seq=e.seq - 1),
        lambda e: e._replace(chain="0" * 16),
        lambda e: e._replace(body=e.body[:-1] + bytes([e.body[-1] ^ 1])),
    ],
    ids=["gap", "again", "chain", "body"],
)
def test_a_log_that_does_not_continue_breaks(damage: Callable[[Entry], Entry]) -> None:
    """A gap, a repetition or another history raise LogBroken and change nothing."""
    fold = fold_of()
    history(fold, 8)
    before = (fold.seq, fold.chain, fold.encode())
    with pytest.raises(LogBroken):
        fold.follow(damage(entry_of(fold, round_of(fold, 8))))
    assert (fold.seq, fold.chain, fold.encode()) == before


@pytest.mark.parametrize(
    "damage",
    [
        {"labels": '["a","b"]'},
        {"labels": '["a","b","b"]'},
        {"labels": "no json"},
        {"rejected": -1},
        {"rejected": "1"},
        {"rejected": 1.5},
        {"learner.kind": "banditron"},
        {"learner.n_features": 4},
        {"learner.n_features": 10**12},
        {"learner.active": np.ones(4, dtype=np.bool_)},
        {"learner.weights": np.full((3, SIZE), np.nan)},
        {"learner.weights": np.zeros((4, SIZE))},
        {"scaling.mean": np.zeros(SIZE + 1)},
        {"scaling.count": -1},
        {"learner.gamma": "high"},
    ],
    ids=str,
)
def test_a_state_of_another_model_is_refused(damage: dict[str, Any]) -> None:
    """A snapshot is believed only if it fits; a refused one leaves the fold as it was."""
    fold = fold_of(scaling="standard")
    history(fold, 4)
    before = fold.encode()
    state = decode_state(before)
    assert damage.keys() <= state.keys()
    with pytest.raises(CodecError):
        fold.restore(encode_state(state | damage), 9, "0" * 16)
    for name in state:
        with pytest.raises(CodecError):
            fold.restore(encode_state({k: v for k, v in state.items() if k != name}), 9, "0" * 16)
    assert (fold.seq, fold.encode()) == (4, before)


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_a_damaged_snapshot_is_a_codec_error(data: st.DataObject) -> None:
    """Flipped bytes in a snapshot raise CodecError or leave a state that still encodes."""
    fold = fold_of(scaling="standard")
    blob = bytearray(_SNAPSHOT)
    for _ in range(data.draw(st.integers(1, 3))):
        blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    try:
        fold.restore(bytes(blob), 9, "0" * 16)
    except CodecError:
        assert fold.seq == 0
        return
    fold.encode()
    fold.decide(row_of(1), bytes(12), repeatable=False)


@pytest.mark.parametrize("kind", ["rknn", "knn", "rknn_auto", "hw_knn", "perceptron"])
@pytest.mark.parametrize("scaling", ["none", "standard"])
def test_many_entries_at_once_are_the_same(kind: str, scaling: str) -> None:
    """However the log is cut, with refused examples and other events in it."""
    learner = {"kind": kind} | ({} if kind == "perceptron" else {"window": 40})
    change: dict[str, Any] = {"learner": learner, "scaling": scaling, "labels": ["a", "b"]}
    one, many, log = fold_of(**change), fold_of(**change), list[Entry]()
    rng = np.random.default_rng(1)
    for number in range(150):
        x = rng.normal(size=one.encoder.size).astype("<f4")
        payload: Example | LabelChange = Example(int(rng.integers(2)), x)
        event_kind = Kind.LEARN
        if number == 77:
            payload, event_kind = LabelChange(["new"], []), Kind.LABELS
        elif number % 20 == 9:
            payload = Example(9, x)  # there is no such label
        body = pack_body(Event(event_kind, number, bytes(12), None, payload))
        log.append(Entry(number + 1, chain_after(one.chain, body), body))
        one.follow(log[-1])
    while many.seq < 150:
        many.follow_many(log[many.seq : many.seq + int(rng.integers(1, 30))])
    assert one.rejected == 8
    assert (many.seq, many.chain, many.rejected) == (one.seq, one.chain, one.rejected)
    assert many.encode() == one.encode()


def test_nothing_is_learned_of_a_run_that_breaks() -> None:
    """Neither by the window nor by the scaling: the fold is where it was."""
    change: dict[str, Any] = {"learner": {"kind": "knn"}, "scaling": "standard"}
    fold = fold_of(**change)
    before, chain, log = fold.encode(), fold.chain, []
    for number in range(9):
        example = Example(0, np.ones(fold.encoder.size, "<f4"))
        body = pack_body(Event(Kind.LEARN, number, bytes(12), None, example))
        chain = chain_after(chain, body)
        log.append(Entry(number + 1, chain, body))
    for broken in (log[:4] + log[5:], [*log[:7], log[7]._replace(chain="0" * 16), log[8]]):
        with pytest.raises(LogBroken):
            fold.follow_many(broken)
        assert (fold.seq, fold.encode()) == (0, before)


def _snapshot() -> bytes:
    fold = fold_of(scaling="standard")
    history(fold, 12)
    return fold.encode()


_SNAPSHOT = _snapshot()


@pytest.mark.parametrize(
    ("window", "size", "complaint"),
    [
        (MAX_WINDOW_VALUES // 784 + 1, 784, "window times features at most"),
        (MAX_WINDOW_ROWS + 1, 1, f"at most {MAX_WINDOW_ROWS}"),
    ],
)
def test_a_window_has_room(window: int, size: int, complaint: str) -> None:
    """Protects workers from states that no export holds, or that are never rebuilt in the end."""
    spec = {
        "name": "m",
        "learner": {"kind": "knn", "window": window},
        "labels": ["a", "b"],
        "features": {"type": "dense", "size": size},
    }
    with pytest.raises(Invalid, match=complaint):
        Fold(ModelSpec.model_validate(spec), "uid")
    spec["learner"] = {"kind": "knn", "window": window - 1}
    Fold(ModelSpec.model_validate(spec), "uid")
