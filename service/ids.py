"""Decision ids that nobody can forge, and the one uniform number that each of them draws.

An id is base64url(nonce 12 bytes | issue time 6 bytes | MAC 12 bytes): 40 characters. The MAC
is over the model's incarnation too, so an id of another tenant, another model or a deleted
model of the same name is refused before Redis is asked. The issue time says which bucket of
tombstones to look into, and whether the id is too old to be found in any.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
from hashlib import blake2b
from typing import NamedTuple

NONCE_BYTES = 12
TIME_BYTES = 6
MAC_BYTES = 12
ID_CHARS = (NONCE_BYTES + TIME_BYTES + MAC_BYTES) * 4 // 3
SECRET_BYTES = 32
FINGERPRINT_BYTES = 8
NO_FINGERPRINT = bytes(FINGERPRINT_BYTES)
#: What a request id may name.
DECISION, ROUND, EXAMPLE = b"", b"round", b"example"


class DecisionId(NamedTuple):
    """What a decision id says: which decision, and when it was made (ms, by Redis' clock)."""

    nonce: bytes
    issued_ms: int


class IdSigner:
    """Signs and verifies the decision ids of one incarnation of one model.

    Parameters
    ----------
    secret
        The service's secret, the same for every worker.
    model
        The model's key and incarnation.

    Examples
    --------
    >>> signer = IdSigner(b"secret", "default/ads#1")
    >>> text = signer.sign(DecisionId(bytes(12), 1_780_000_000_000))
    >>> len(text), signer.verify(text).issued_ms
    (40, 1780000000000)
    >>> IdSigner(b"secret", "default/ads#2").verify(text) is None
    True
    """

    def __init__(self, secret: bytes, model: str) -> None:
        # BLAKE2 takes a key by itself; HMAC around SHA-256 takes twice as long. Copying the keyed
        # hash is cheaper than keying it each time.
        key = hmac.digest(secret, model.encode(), "sha256")
        self._mac = blake2b(digest_size=MAC_BYTES, key=key)

    def sign(self, decision: DecisionId) -> str:
        """Return the id as 40 characters."""
        body = decision.nonce + decision.issued_ms.to_bytes(TIME_BYTES, "big")
        mac = self._mac.copy()
        mac.update(body)
        return base64.urlsafe_b64encode(body + mac.digest()).decode("ascii")

    def verify(self, text: str) -> DecisionId | None:
        """Return what the id says, or None if this signer did not sign it."""
        if len(text) != ID_CHARS:
            return None
        try:
            raw = base64.urlsafe_b64decode(text.encode("ascii"))
        except (binascii.Error, UnicodeEncodeError):
            return None
        issued_ms = int.from_bytes(raw[NONCE_BYTES:-MAC_BYTES], "big")
        decision = DecisionId(raw[:NONCE_BYTES], issued_ms)
        # The texts are compared, because decoding is lax: one decision has one id.
        return decision if hmac.compare_digest(self.sign(decision), text) else None


def fresh_nonce() -> bytes:
    """Return a nonce that was never used."""
    return os.urandom(NONCE_BYTES)


def nonce_of_request(request_id: str, what: bytes = DECISION) -> bytes:
    """Return the nonce that a client's request id always gets, for `what` it names.

    A decision, a round that somebody else decided and an example may have the same request id, the
    visit's, say, and are still unrelated.

    Examples
    --------
    >>> nonce_of_request("visit-1", ROUND) == nonce_of_request("visit-1")
    False
    """
    return blake2b(request_id.encode(), digest_size=NONCE_BYTES, person=what).digest()


def uniform_of(seed: int, nonce: bytes) -> float:
    """Return the number in [0, 1) that a decision draws with: a function of seed and nonce.

    Examples
    --------
    >>> uniform_of(7, bytes(12)) == uniform_of(7, bytes(12)) != uniform_of(8, bytes(12))
    True
    """
    digest = blake2b(nonce, digest_size=8, key=seed.to_bytes(8, "big")).digest()
    return (int.from_bytes(digest, "big") >> 11) * 2.0**-53


def fingerprint_of(row: bytes, allowed: bytes) -> bytes:
    """Return a short digest that tells whether a repeated request asks the same question."""
    return blake2b(allowed + row, digest_size=FINGERPRINT_BYTES).digest()
