"""Decision ids: nobody forges one, and every one draws its own uniform number."""

import base64

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.ids import (
    ID_CHARS,
    NONCE_BYTES,
    ROUND,
    DecisionId,
    IdSigner,
    fingerprint_of,
    fresh_nonce,
    nonce_of_request,
    uniform_of,
)

SECRET = bytes(range(32))
SIGNER = IdSigner(SECRET, "default/ads#1")
DECISION = DecisionId(b"twelve bytes", 1_780_000_000_123)
NONCES = st.binary(min_size=NONCE_BYTES, max_size=NONCE_BYTES)
#: Chi-square with 99 degrees of freedom passes this once in a million times.
CHI_SQUARE_99 = 177.0


@settings(deadline=None)
@given(NONCES, st.integers(0, 2**48 - 1))
def test_an_id_says_what_was_signed(nonce: bytes, issued_ms: int) -> None:
    """Nonce and time come back; the id is 40 characters that need no escaping."""
    text = SIGNER.sign(DecisionId(nonce, issued_ms))
    assert len(text) == ID_CHARS == 40
    assert set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    assert SIGNER.verify(text) == (nonce, issued_ms)


def test_every_flipped_bit_is_noticed() -> None:
    """Each of the 240 bits counts: nonce, time and MAC."""
    raw = base64.urlsafe_b64decode(SIGNER.sign(DECISION))
    for bit in range(8 * len(raw)):
        flipped = bytearray(raw)
        flipped[bit // 8] ^= 1 << bit % 8
        assert SIGNER.verify(base64.urlsafe_b64encode(flipped).decode()) is None


def test_random_forgeries_are_refused() -> None:
    """A hundred thousand guesses, half of them with a true nonce and time, and none passes."""
    source = np.random.default_rng(1)
    body = base64.urlsafe_b64decode(SIGNER.sign(DECISION))[:-12]
    for i in range(100_000):
        raw = body + source.bytes(12) if i % 2 else source.bytes(30)
        assert SIGNER.verify(base64.urlsafe_b64encode(raw).decode()) is None


@pytest.mark.parametrize(
    ("secret", "model"),
    [
        (SECRET, "default/ads#2"),
        (SECRET, "default/other#1"),
        (SECRET, "tenant/ads#1"),
        (SECRET[::-1], "default/ads#1"),
    ],
)
def test_an_id_holds_for_one_incarnation_of_one_model(secret: bytes, model: str) -> None:
    """Ids of another tenant, model, incarnation or service are refused."""
    assert IdSigner(secret, model).verify(SIGNER.sign(DECISION)) is None


@settings(deadline=None)
@example("_" * (ID_CHARS + 4))
@example("_" * (ID_CHARS - 4))
@given(st.text() | st.text(min_size=ID_CHARS, max_size=ID_CHARS))
def test_any_text_is_no_id(text: str) -> None:
    """Text of any kind is refused without an error, foreign characters and surrogates too."""
    assert SIGNER.verify(text) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t + "=",
        lambda t: t[:-1] + "\n",
        lambda t: t[:-1],
        lambda t: " " + t[1:],
        lambda t: t.replace("-", "+").replace("_", "/"),
    ],
)
def test_one_decision_has_one_id(change: object) -> None:
    """Other spellings of the same bytes are refused, so an id can be compared as text."""
    assert callable(change)
    signers = (IdSigner(SECRET, f"m{i}") for i in range(100))
    found = ((s, s.sign(DECISION)) for s in signers)
    signer, text = next((s, t) for s, t in found if "-" in t and "_" in t)
    assert signer.verify(change(text)) is None


def test_nonces_are_never_repeated() -> None:
    """All are different, and as long as they are in the log."""
    found = {fresh_nonce() for _ in range(10_000)}
    assert len(found) == 10_000
    assert {len(nonce) for nonce in found} == {NONCE_BYTES}


def test_a_request_has_its_nonce_for_ever() -> None:
    """A retry finds the decision of the first try, after any restart."""
    assert nonce_of_request("request-1").hex() == "ad56bd14bed1d35079a17b28"
    assert nonce_of_request("request-1") != nonce_of_request("request-2")


def test_a_round_told_has_another_nonce_than_a_decision() -> None:
    """Whoever names both by the visit has neither taken for the other, after any restart."""
    assert nonce_of_request("request-1", ROUND).hex() == "0d20ec3d71ece6d7fbf3aff2"
    assert nonce_of_request("request-1", ROUND) != nonce_of_request("request-1")


def test_ids_and_fingerprints_are_pinned() -> None:
    """Protects who waits through an update: feedback and a repeated request are known."""
    assert SIGNER.sign(DECISION) == "dHdlbHZlIGJ5dGVzAZ5wRIh7O39q4mqJgd13eFyt"
    assert fingerprint_of(bytes(8), b"[0, 1]").hex() == "7033cd6eae961064"


def test_the_draw_is_pinned() -> None:
    """The same seed and nonce draw the same number on every machine and version."""
    assert uniform_of(7, bytes(12)) == 0.5102448045602177


@pytest.mark.parametrize("nonces", ["random", "requests", "counted"])
def test_the_uniform_numbers_are_uniform(nonces: str) -> None:
    """Chi-square over 100 bins, for random nonces, request ids and consecutive numbers."""
    count = 50_000
    source = np.random.default_rng(2)
    kinds = {
        "random": (source.bytes(NONCE_BYTES) for _ in range(count)),
        "requests": (nonce_of_request(f"user-{i}") for i in range(count)),
        "counted": (i.to_bytes(NONCE_BYTES, "big") for i in range(count)),
    }
    drawn = np.array([uniform_of(3, nonce) for nonce in kinds[nonces]])
    assert drawn.min() >= 0.0
    assert drawn.max() < 1.0
    observed = np.histogram(drawn, bins=100, range=(0, 1))[0]
    expected = count / 100
    assert float(((observed - expected) ** 2 / expected).sum()) < CHI_SQUARE_99


def test_a_fingerprint_tells_questions_apart() -> None:
    """Another instance or other allowed labels are another question."""
    row, other = bytes(8), bytes(7) + b"\x01"
    asked = {fingerprint_of(r, a) for r in (row, other) for a in (b"", b"[0]", b"[0, 1]")}
    assert len(asked) == 6
