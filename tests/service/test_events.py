"""The log's bytes: every event comes back as it was written, and the chain tells any change."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from service.errors import LogBroken
from service.events import (
    ChallengerChange,
    Decision,
    Event,
    Example,
    Kind,
    LabelChange,
    Payload,
    Rates,
    RatesByLabel,
    Round,
    chain_after,
    feedback_learned,
    first_chain,
    pack_body,
    pack_decision,
    unpack_body,
    unpack_decision,
)

TIMES = st.integers(0, 2**53)
NONCES = st.binary(min_size=12, max_size=12)
CODES = st.integers(0, 1023)
ROWS = st.integers(1, 20).flatmap(
    lambda size: arrays(np.float32, size, elements=st.floats(-1e6, 1e6, width=32))
)
DECISIONS = st.builds(
    Decision,
    CODES,
    CODES,
    st.floats(0, 1, exclude_min=True),
    st.integers(0, 2**53),
    st.binary(min_size=8, max_size=8),
    ROWS,
    TIMES,
)
BY_LABEL = st.integers(0, 5).flatmap(
    lambda size: st.builds(
        RatesByLabel, *[st.lists(st.floats(0, 1), min_size=size, max_size=size)] * 4
    )
)
EVENTS = (
    st.builds(Event, st.just(Kind.FEEDBACK), TIMES, NONCES, st.integers(0, 1), DECISIONS)
    | st.builds(Event, st.just(Kind.EXPIRE), TIMES, NONCES, st.none(), DECISIONS)
    | st.builds(
        Event, st.just(Kind.LEARN), TIMES, NONCES, st.none(), st.builds(Example, CODES, ROWS)
    )
    | st.builds(
        Event,
        st.just(Kind.ROUND),
        TIMES,
        NONCES,
        st.integers(0, 1),
        st.builds(Round, CODES, st.floats(0, 1, exclude_min=True), ROWS),
    )
    | st.builds(
        Event,
        st.just(Kind.LABELS),
        TIMES,
        NONCES,
        st.none(),
        st.builds(
            LabelChange,
            st.lists(st.text(st.characters(exclude_categories=["Cs"]))),
            st.lists(st.text(st.characters(exclude_categories=["Cs"]))),
        ),
    )
    | st.builds(
        Event,
        st.just(Kind.RATES),
        TIMES,
        NONCES,
        st.none(),
        st.builds(
            Rates,
            st.floats(0, 1),
            st.floats(0, 1),
            st.none() | BY_LABEL,
            st.none() | st.tuples(st.floats(0, 1), st.floats(0, 1)),
        ),
    )
)


def same(one: Event, other: Event) -> bool:
    """Whether two events hold the same bits."""
    return _plain(one) == _plain(other)


def _plain(event: Event) -> tuple[object, ...]:
    payload = event.payload
    if isinstance(payload, Decision | Round | Example):
        values = payload._asdict()
        return (*event[:4], type(payload), values.pop("x").tobytes(), values)
    return tuple(event)


@settings(deadline=None)
@given(EVENTS)
def test_an_event_comes_back_as_it_was_written(event: Event) -> None:
    """Every kind of event survives bit for bit."""
    body = pack_body(event)
    assert same(unpack_body(body), event)
    assert pack_body(unpack_body(body)) == body


@settings(deadline=None)
@given(DECISIONS)
def test_a_pending_record_is_what_the_log_gets(decision: Decision) -> None:
    """Redis puts the time in front of a record, and logs it without looking inside."""
    record = decision.issued_ms.to_bytes(8, "big") + pack_decision(decision)
    event = Event(Kind.FEEDBACK, 1, bytes(12), 1, decision)
    assert pack_body(event).endswith(record)
    assert same(event._replace(payload=unpack_decision(record)), event)


def test_the_format_is_pinned() -> None:
    """Logs of this version are folded for ever."""
    decision = Decision(2, 1, 0.25, 9, b"question", np.array([1.5, -2], dtype="<f4"), 1000)
    body = pack_body(Event(Kind.FEEDBACK, 2000, b"twelve bytes", 1, decision))
    assert body.hex() == (
        "6600000000000007d07477656c766520627974657331"
        "00000000000003e802000100000000000000d03f0900000000000000"
        "7175657374696f6e0000c03f000000c0"
    )
    told = Round(2, 0.25, np.array([1.5, -2], dtype="<f4"))
    assert pack_body(Event(Kind.ROUND, 2000, b"twelve bytes", 0, told)).hex() == (
        "6f00000000000007d07477656c7665206279746573300200000000000000d03f0000c03f000000c0"
    )
    example = pack_body(Event(Kind.LEARN, 2000, b"twelve bytes", None, Example(2, told.x)))
    assert example.hex() == "6c00000000000007d07477656c76652062797465732d02000000c03f000000c0"
    assert first_chain("incarnation") == "cb3874f390dbc4cc"
    assert chain_after(first_chain("incarnation"), body) == "b5c517d20fbc2a67"


EACH = RatesByLabel([0.1], [0.2], [0.01], [0.02])
EACH_TEXT = b'{"rho_0":[0.1],"rho_1":[0.2],"rho_0_error":[0.01],"rho_1_error":[0.02]}'
#: What administrators change, with the JSON that stands for it in a log.
CHANGES = [
    (Kind.RATES, Rates(0.1, 0.2), b'{"rho_0":0.1,"rho_1":0.2}'),
    (
        Kind.RATES,
        Rates(0.1, 0.2, EACH),
        b'{"rho_0":0.1,"rho_1":0.2,"by_label":%s}' % EACH_TEXT,
    ),
    (
        Kind.RATES,
        Rates(0.1, 0.2, None, (0.01, 0.02)),
        b'{"rho_0":0.1,"rho_1":0.2,"errors":[0.01,0.02]}',
    ),
    (Kind.LABELS, LabelChange(["c"], []), b'{"add":["c"],"retire":[]}'),
    (
        Kind.LABELS,
        LabelChange([], ["a"], {"b": [0.5]}),
        b'{"add":[],"retire":["a"],"features":{"b":[0.5]}}',
    ),
    (Kind.CHALLENGER, ChallengerChange("drop", "p"), b'{"change":"drop","name":"p"}'),
    (
        Kind.CHALLENGER,
        ChallengerChange("add", "p", {"kind": "bpa"}),
        b'{"change":"add","name":"p","learner":{"kind":"bpa"}}',
    ),
]


@pytest.mark.parametrize(("kind", "payload", "text"), CHANGES)
def test_a_change_is_written_as_ever(kind: Kind, payload: Payload, text: bytes) -> None:
    """Protects exports of this version: an import writes each event anew, for the chain's hash."""
    event = Event(kind, 2000, b"twelve bytes", None, payload)
    assert pack_body(event)[22:] == text
    assert unpack_body(pack_body(event)) == event


@pytest.mark.parametrize(("kind", "payload", "text"), CHANGES)
def test_a_change_that_says_more_is_not_half_understood(
    kind: Kind, payload: Payload, text: bytes
) -> None:
    """Protects from folding what a newer version wrote, without what only that one knows."""
    body = pack_body(Event(kind, 0, bytes(12), None, payload))
    more = [body[:-1] + b',"more":1}']
    if EACH_TEXT in text:
        more.append(body.replace(EACH_TEXT, EACH_TEXT[:-1] + b',"more":1}'))
    for newer in more:
        with pytest.raises(LogBroken, match="more"):
            unpack_body(newer)


@settings(deadline=None)
@given(EVENTS, st.data())
def test_the_chain_tells_any_change(event: Event, data: st.DataObject) -> None:
    """A flipped bit in the body or in the chain so far leads to another chain."""
    body, chain = pack_body(event), first_chain("one")
    changed = bytearray(body)
    changed[data.draw(st.integers(0, len(body) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert chain_after(chain, bytes(changed)) != chain_after(chain, body)
    assert chain_after(first_chain("other"), body) != chain_after(chain, body)


@settings(deadline=None)
@given(
    st.binary(max_size=80)
    | EVENTS.flatmap(lambda e: st.integers(0, 60).map(lambda n: pack_body(e)[:n]))
)
def test_bytes_that_are_no_event_break_the_log(body: bytes) -> None:
    """What Redis returns is not trusted: it is an event, or LogBroken."""
    try:
        event = unpack_body(body)
    except LogBroken:
        return
    assert isinstance(event.kind, Kind)


def test_the_labels_rates_are_equally_many() -> None:
    """Protects the fold from an event that says of a label only half of what it should."""
    each = RatesByLabel([0.1], [0.2], [0.01], [0.02])
    body = pack_body(Event(Kind.RATES, 0, bytes(12), None, Rates(0.1, 0.2, each)))
    with pytest.raises(LogBroken, match="equally many"):
        unpack_body(body.replace(b"[0.02]", b"[]"))


def test_errors_of_rates_are_errors() -> None:
    """Protects the evaluation from an imported event with a standard error below 0."""
    rates = Rates(0.1, 0.2, None, (0.01, 0.02))
    body = pack_body(Event(Kind.RATES, 0, bytes(12), None, rates))
    with pytest.raises(LogBroken, match="errors are"):
        unpack_body(body.replace(b"0.02", b"-1.0"))


@pytest.mark.parametrize("bit", [b"2", b"9", b"x", b" "])
def test_feedback_in_the_log_is_a_bit(bit: bytes) -> None:
    """No digit but 0 and 1 is feedback."""
    decision = Decision(0, 0, 1.0, 0, bytes(8), np.zeros(1, dtype="<f4"))
    body = bytearray(pack_body(Event(Kind.FEEDBACK, 0, bytes(12), 1, decision)))
    body[21:22] = bit
    with pytest.raises(LogBroken):
        unpack_body(bytes(body))


def test_only_what_was_clicked_or_not_has_a_bit() -> None:
    """Protects the fold: a round that was told without feedback is none, nor an example with it."""
    x = np.zeros(1, dtype="<f4")
    for kind, bit, payload in (
        (Kind.ROUND, None, Round(0, 1.0, x)),
        (Kind.LEARN, 1, Example(0, x)),
    ):
        with pytest.raises(LogBroken, match="feedback and round"):
            unpack_body(pack_body(Event(kind, 0, bytes(12), bit, payload)))


@pytest.mark.parametrize("no_click", [False, True])
def test_only_silence_may_be_a_missing_click(no_click: bool) -> None:
    """Protects clicks: that silence is a bit of a model changes nothing about what was told."""
    decision = Decision(0, 0, 1.0, 0, bytes(8), np.zeros(1, dtype="<f4"))
    for kind in (Kind.FEEDBACK, Kind.ROUND):
        for bit in (0, 1):
            told = Event(kind, 0, bytes(12), bit, decision)
            assert feedback_learned(told, no_click) == bit
    silence = feedback_learned(Event(Kind.EXPIRE, 0, bytes(12), None, decision), no_click)
    assert silence == (0 if no_click else None)


def test_a_label_that_came_after_rates_were_set_has_the_mean_of_the_others() -> None:
    """As learners have that were told then: who is told later, or evaluates, knows the same."""
    known = Rates(0.05, 0.2, RatesByLabel([0.4, 0.2], [0.2, 0.1], [0.0] * 2, [0.0] * 2))
    each = known.of_labels(3)
    assert each is not None
    expected = [[0.4, 0.2, 0.3], [0.2, 0.1, 0.15], [0.0] * 3, [0.0] * 3]
    for found, told in zip(each, expected, strict=True):
        assert found == pytest.approx(told)
