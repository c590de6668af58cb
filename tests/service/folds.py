"""Folds of small models, and logs to fold."""

from typing import Any

import numpy as np

from service.events import (
    Entry,
    Event,
    Kind,
    LabelChange,
    Rates,
    chain_after,
    pack_body,
)
from service.features import Row
from service.fold import Fold
from service.ids import nonce_of_request
from service.spec import ModelSpec

SIZE = 3


LEARNERS: dict[str, dict[str, Any]] = {
    "rcnbf": {"kind": "rcnbf", "gamma": 0.2, "rho_0": 0.1, "rho_1": 0.2},
    "banditron": {"kind": "banditron", "gamma": 0.2},
    "rcine": {"kind": "rcine"},
    "soba": {"kind": "soba"},
    "confidit": {"kind": "confidit"},
    "bpa": {"kind": "bpa"},
    "forward": {"kind": "forward", "n_waves": 7},
    "forward_softmax": {"kind": "forward_softmax", "n_waves": 7},
    "forward_auto": {"kind": "forward_auto", "n_waves": 7},
}


def fold_of(**change: Any) -> Fold:
    """Return a fresh fold of a small model."""
    spec = {
        "name": "m",
        "learner": LEARNERS["rcnbf"],
        "labels": ["a", "b", "c"],
        "features": {"type": "dense", "size": SIZE},
        "seed": 5,
    }
    return Fold(ModelSpec.model_validate(spec | change), "incarnation")


def row_of(number: int) -> Row:
    """Return the instance of round `number`."""
    return np.random.default_rng(number).normal(size=SIZE).astype(np.float32)


def round_of(fold: Fold, number: int) -> Event:
    """Return the feedback event of one round played on `fold`."""
    nonce = nonce_of_request(f"r{number}")
    decision = fold.decide(row_of(number), nonce, repeatable=False)
    return Event(Kind.FEEDBACK, number, nonce, number % 2, decision)


def history(fold: Fold, rounds: int) -> list[Entry]:
    """Play rounds, label changes and rates on `fold`; return its log."""
    entries = []
    for number in range(rounds):
        event = round_of(fold, number)
        if number % 7 == 3:
            event = Event(Kind.EXPIRE, number, event.nonce, None, event.payload)
        if number == 5:
            event = admin(LabelChange(["d"], ["a"]))
        if number == 9 and fold.learner.takes_rates:
            event = admin(Rates(0.2, 0.1))
        entries.append(entry_of(fold, event))
        fold.follow(entries[-1])
    return entries


def admin(payload: LabelChange | Rates) -> Event:
    """Return an administrative event."""
    kind = Kind.LABELS if isinstance(payload, LabelChange) else Kind.RATES
    return Event(kind, 0, bytes(12), None, payload)


def entry_of(fold: Fold, event: Event) -> Entry:
    """Return the entry that `event` becomes after what `fold` has folded."""
    body = pack_body(event)
    return Entry(fold.seq + 1, chain_after(fold.chain, body), body)
