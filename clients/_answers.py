"""Answers without a public type, and how they are read. No IO."""

from __future__ import annotations

import io

import msgspec
import numpy as np

from clients._call import decoder_of
from clients.errors import ProtocolError
from clients.types import Decision, Model, Receipt, State


class Models(msgspec.Struct):
    """All models."""

    models: list[Model]


class Seq(msgspec.Struct):
    """Where an event stands in the log."""

    seq: int


class Number(msgspec.Struct):
    """Which estimate it is."""

    number: int


class Live(msgspec.Struct):
    """A process that answers."""

    live: bool


class DecisionItems(msgspec.Struct):
    """The decisions of a batch."""

    items: list[Decision]


class ReceiptItems(msgspec.Struct):
    """The receipts of a batch."""

    items: list[Receipt]


models = decoder_of(Models)
seq = decoder_of(Seq)
numbered = decoder_of(Number)


def nothing(body: bytes) -> None:
    """Accept the empty body of a 204; a page comes from a proxy, and nothing was done."""
    if body:
        raise ProtocolError(f"expected an empty answer, got {body[:60]!r}")


def no_export(body: bytes) -> None:
    """Refuse what came instead of an export; exports are not parsed."""
    raise ProtocolError(f"expected an export, got {body[:60]!r}")


def state_of(body: bytes) -> State:
    """Read a `.npz` of named arrays; those without a shape are scalars."""
    try:
        with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
            return {name: array if array.shape else array.item() for name, array in arrays.items()}
    except Exception as error:
        # Given no archive, or one of something else, its reader and we may raise anything.
        raise ProtocolError(f"expected an .npz of arrays, got {body[:20]!r}: {error}") from error


def text_of(body: bytes) -> str:
    """Read a text; a proxy's may be in another encoding."""
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"expected text in UTF-8, got {body[:60]!r}") from error
