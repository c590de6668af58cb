"""A model begun anew from what its log still holds, because another version wrote its state."""

from __future__ import annotations

import msgspec

from service.challengers import parse_learners
from service.events import Event, Kind, LabelChange, Rates
from service.fold import Fold
from service.labels import parse_labels
from service.meta import Meta


def begin_anew(meta: Meta, rates: str, since: int) -> Fold:
    """Return a fold of the model as its meta data has it now, with no round folded yet.

    All labels (as last described) and all learners are there from the start; learners are told the
    rates in force (`rates`, empty if there are none). Decisions before event `since` are those of
    the other version's learners.
    """
    fold = Fold(meta.spec, meta.origin)
    labels = parse_labels(meta.labels)
    come = [each.name for each in labels if each.name not in fold.codes]
    gone = [each.name for each in labels if not each.active]
    described = {each.name: each.features for each in labels if each.features}
    fold.apply(Event(Kind.LABELS, 0, b"", None, LabelChange(come, gone, described)))
    fold.contest.begin_with(parse_learners(meta.learners) or meta.spec.learners, since)
    if rates:
        told = msgspec.json.decode(rates, type=Rates)
        fold.apply(Event(Kind.RATES, 0, b"", None, told))
    return fold
