"""A model made from the log of another one: without some clicks or labels, or with another learner.

Nothing is learned here. A model is the fold of its log, so a log is written: of each event that
taught the other model something, what it taught. Clicks on its decisions become rounds that
somebody else decided, because the new learner did not decide them. The log is folded as it is
written, so that the model can be served when it appears.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, cast

import msgspec

from service.address import Address
from service.challengers import rate_kinds
from service.errors import Conflict
from service.events import (
    Decision,
    Entry,
    Event,
    Example,
    Kind,
    LabelChange,
    Rates,
    RatesByLabel,
    Round,
    chain_after,
    feedback_learned,
    pack_body,
    unpack_body,
)
from service.fold import Fold
from service.host import Host, initial_fields
from service.ids import fresh_nonce
from service.labels import Listed, labels_text, parse_labels
from service.model_wire import RelearnedOut, RelearnIn, Span
from service.replica import Replica
from service.snapshots import finish_import, sound_snapshot
from service.spec import LearnerSpec, ModelSpec
from service.store import IMPORT_ENTRIES, IMPORTING, Store
from service.turns import Turns


class Source(NamedTuple):
    """A model at one moment: what another one is made from."""

    spec: ModelSpec
    address: Address
    #: Its last event then.
    seq: int
    #: The labels that come along, and their codes, in the order of both.
    labels: list[Listed]
    codes: list[int]
    #: The learner that decides.
    learner: LearnerSpec
    #: The noise rates in force, if somebody set them.
    rates: Rates | None


async def source_of(store: Store, replica: Replica, *, without_retired: bool = False) -> Source:
    """Return the model as it is now, with or without its retired labels."""
    await replica.catch_up()
    meta = await store.meta(replica.key)
    contest = replica.fold.contest
    rates = contest.rates
    # An estimate was made from the clicks, including those that are left out.
    known = None if rates is None or rates.estimated or rates.errors else rates
    every = parse_labels(meta.labels)
    codes = [code for code, label in enumerate(every) if label.active or not without_retired]
    return Source(
        meta.spec,
        replica.address,
        meta.seq,
        [every[code] for code in codes],
        codes,
        contest.deciding.learner,
        None if known is None else _rates_of(known, codes),
    )


def _rates_of(rates: Rates, codes: Sequence[int]) -> Rates:
    """Return the rates of some labels, which have other codes from now on."""
    if rates.by_label is None:
        return rates
    each = {
        # Of labels that came later it has none.
        name: [values[code] for code in codes if code < len(values)]
        for name, values in msgspec.structs.asdict(rates.by_label).items()
    }
    return msgspec.structs.replace(rates, by_label=RatesByLabel(**each))


def spec_of(source: Source, asked: RelearnIn) -> ModelSpec:
    """Return the spec of the new model: its labels from the start, and no challengers."""
    learner = asked.learner or source.learner
    features = {each.name: each.features for each in source.labels if each.features}
    spec = source.spec.model_copy(
        update={
            "name": asked.name,
            "learner": learner,
            "labels": [label.name for label in source.labels],
            "label_features": features if learner.options.get("n_label_features") else {},
            "challengers": [],
        }
    )
    if rate_kinds(spec.learners):
        return spec
    # They were meant for a challenger, or for the learner before.
    return spec.model_copy(update={"estimate_every": None, "estimate_on_drift": False})


async def relearn(
    host: Host, source: Source, key: str, spec: ModelSpec, without: Sequence[Span]
) -> RelearnedOut:
    """Make the model `key` from the source's log; it appears whole, or not at all."""
    uid, token = secrets.token_hex(8), secrets.token_hex(8)
    if not rate_kinds(spec.learners):
        # No learner would use rates that were set for the one before.
        source = source._replace(rates=None)
    # The lists of a large window take a second to make.
    fold = await asyncio.to_thread(Fold, spec, uid)
    fields = initial_fields(fold) | {IMPORTING: token}
    if not await host.store.create(key, spec, fields, host.settings.max_models):
        raise Conflict(f"there is a model {spec.name!r} already")
    try:
        writer = _Writer(host.store, key, token, fold)
        for event in _beginning(source):
            await writer.add(event)
        found = await _rewrite(host.store, source, without, writer)
        await writer.flush()
        meta = {
            "labels": labels_text(
                Listed(each.name, each.active, spec.label_features.get(each.name))
                for each in source.labels
            ),
            "told": str(found.rounds),
            "learned": str(found.examples),
        }
        if source.rates is not None:
            meta["rates"] = msgspec.json.encode(source.rates).decode()
        whole = await asyncio.to_thread(sound_snapshot, fold)
        await finish_import(host.store, key, token, uid, meta, whole)
    except BaseException:
        await host.store.abandon_import(key, token)
        raise
    # One that another worker has deleted may still be held here under this name.
    host.drop(key)
    return found.answer(spec.name, fold)


def _beginning(source: Source) -> list[Event]:
    """Return the events before the first round: what the spec cannot say."""
    retired = [label.name for label in source.labels if not label.active]
    payloads: list[tuple[Kind, LabelChange | Rates]] = []
    if retired:
        payloads.append((Kind.LABELS, LabelChange([], retired)))
    if source.rates is not None:
        payloads.append((Kind.RATES, source.rates))
    now_ms = round(time.time() * 1000)
    return [Event(kind, now_ms, fresh_nonce(), None, payload) for kind, payload in payloads]


class _Found:
    """What was found in a log, and what became of it."""

    def __init__(self) -> None:
        self.rounds = self.examples = self.clicks = 0
        self.left_out = self.left_out_clicks = 0
        self.first_ms: int | None = None
        self.last_ms: int | None = None

    def see(self, event: Event, *, taken: bool) -> None:
        """Count one event that taught something."""
        # Where silence is a bit, the time is that of the decision: not in the log's order.
        self.first_ms = min(
            event.time_ms, event.time_ms if self.first_ms is None else self.first_ms
        )
        self.last_ms = max(event.time_ms, self.last_ms or 0)
        clicks = event.feedback or 0
        if not taken:
            self.left_out += 1
            self.left_out_clicks += clicks
        elif event.kind is Kind.ROUND:
            self.rounds += 1
            self.clicks += clicks
        else:
            self.examples += 1

    def answer(self, name: str, fold: Fold) -> RelearnedOut:
        """Return what the call answers."""
        return RelearnedOut(
            name=name,
            seq=fold.seq,
            first_ms=self.first_ms,
            last_ms=self.last_ms,
            learned=self.rounds + self.examples - fold.rejected,
            clicks=self.clicks,
            left_out=self.left_out,
            left_out_clicks=self.left_out_clicks,
            refused=fold.rejected,
        )


async def _rewrite(
    store: Store, source: Source, without: Sequence[Span], writer: _Writer
) -> _Found:
    found, codes = _Found(), {old: new for new, old in enumerate(source.codes)}
    async for entry in _entries(store, source):
        logged = unpack_body(entry.body)
        event = _taught(logged, no_click=source.address.no_click)
        if event is None:
            continue
        first_ms, last_ms = _heard_within(logged, source.address)
        payload = cast(Round | Example, event.payload)
        taken = payload.label in codes and not any(
            first_ms < span.to_ms and span.from_ms <= last_ms for span in without
        )
        found.see(event, taken=taken)
        if taken:
            told = payload._replace(label=codes[payload.label])
            await writer.add(event._replace(payload=told))
    return found


async def _entries(store: Store, source: Source) -> AsyncIterator[Entry]:
    """Yield what the log still holds, oldest first."""
    after = 0
    while after < source.seq:
        _, _, entries = await store.read(source.address, after)
        if not entries:
            return
        # Before the first entry, some may be long gone.
        if after and entries[0].seq != after + 1:
            raise Conflict("the log was trimmed while it was read: try again")
        for entry in entries:
            if entry.seq <= source.seq:
                yield entry
        after = entries[-1].seq


def _heard_within(event: Event, address: Address) -> tuple[int, int]:
    """Return the first and the last time at which what an event tells may have been heard.

    Where silence is a bit, a decision was listened to until its window closed, whatever was heard:
    its click may be one that was wrong, its silence a click that was lost. If clicks were left out
    by when they came, the silence beside them would stay.
    """
    if address.no_click and isinstance(event.payload, Decision):
        return event.payload.issued_ms, event.payload.issued_ms + address.window_ms
    return event.time_ms, event.time_ms


def _taught(event: Event, *, no_click: bool) -> Event | None:
    """Return an event as somebody else would tell it; None if it taught nothing.

    Where silence is a bit, the event is dated by its decision, whatever was heard and when: so
    relearning from the new model leaves out clicks together with the silence beside them.
    """
    payload = event.payload
    if isinstance(payload, Round | Example):
        return event
    feedback = feedback_learned(event, no_click)
    if feedback is None or not isinstance(payload, Decision):
        return None
    told = Round(payload.label, payload.propensity, payload.x)
    time_ms = payload.issued_ms if no_click else event.time_ms
    return Event(Kind.ROUND, time_ms, event.nonce, feedback, told)


class _Writer:
    """Appends events to a log that nobody reads yet, many in one call, and folds them."""

    def __init__(self, store: Store, key: str, token: str, fold: Fold) -> None:
        self._store, self._key, self._token = store, key, token
        self._fold, self._turns = fold, Turns()
        self._waiting: list[Entry] = []
        self._seq, self._chain = fold.seq, fold.chain

    async def add(self, event: Event) -> None:
        """Append an event, soon."""
        body = pack_body(event)
        self._seq, self._chain = self._seq + 1, chain_after(self._chain, body)
        self._waiting.append(Entry(self._seq, self._chain, body))
        if len(self._waiting) == IMPORT_ENTRIES:
            await self.flush()

    async def flush(self) -> None:
        """Append and fold what waits."""
        await self._turns.follow(self._fold, self._waiting)
        await self._store.import_entries(self._key, self._token, self._waiting)
        self._waiting = []
