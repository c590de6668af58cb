"""What each data call does, from body to answer; the routes only carry bytes.

Nothing here knows HTTP: the FastAPI routes and the shortcut of the hot calls run the same code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, cast

import numpy as np

from service import wire
from service.deciding import Ask
from service.errors import Conflict, Invalid, NotFound, TooLarge
from service.events import Example, Round
from service.features import Encoder, Instance, Rows
from service.host import Host
from service.replica import Decided, Replica
from service.replies import Verdict
from service.wire import DecisionOut, Receipt

_INSTANCE = wire.parser(wire.Instance)
_FEEDBACK = wire.parser(wire.FeedbackIn)
_EXAMPLE = wire.parser(wire.ExampleIn)
_ROUND = wire.parser(wire.RoundIn)
#: A batch is parsed and encoded in turns of this many bytes or values, some 10 ms each, so that
#: others who wait are answered in between. A named value takes as long as many in a list.
TURN_BYTES = 131_072
TURN_VALUES = 131_072
NAMED_VALUES = 16


class Calls:
    """The data calls on the models of one host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._max_items = host.settings.max_batch_items
        self._max_item_bytes = host.settings.max_body_bytes

    # -- one ------------------------------------------------------------------------------
    async def predict(self, key: str, body: bytes) -> bytes:
        """Answer one instance with a decision."""
        instance: wire.Instance = _INSTANCE.parse(body)

        async def act(replica: Replica) -> bytes:
            if instance.min_seq is not None:
                await _wait_for(replica, instance.min_seq)
            await _look_for(replica, instance.allowed or ())
            x = replica.fold.encoder.encode(instance.x)
            decided = await replica.predict(_ask(replica, x, instance))
            return wire.encode(_decision_out(replica, decided))

        return await self._host.use(key, act)

    async def feedback(self, key: str, body: bytes) -> bytes:
        """Admit one feedback."""
        item: wire.FeedbackIn = _FEEDBACK.parse(body)

        async def act(replica: Replica) -> bytes:
            _check_takes_feedback(replica)
            verdict = await replica.feedback(item.decision_id, item.feedback)
            return wire.encode(_receipt_or_refusal(verdict))

        return await self._host.use(key, act)

    async def learn(self, key: str, body: bytes) -> bytes:
        """Learn from one example."""
        item: wire.ExampleIn = _EXAMPLE.parse(body)

        async def act(replica: Replica) -> bytes:
            _check_takes_labels(replica)
            await _look_for(replica, [item.label])
            label = _label_code(replica, item.label, "label")
            example = Example(label, replica.fold.encoder.encode(item.x))
            verdict = await replica.learn(example, item.request_id)
            return wire.encode(_receipt_or_refusal(verdict, "example"))

        return await self._host.use(key, act)

    async def rounds(self, key: str, body: bytes) -> bytes:
        """Learn from one round that somebody else decided."""
        item: wire.RoundIn = _ROUND.parse(body)

        async def act(replica: Replica) -> bytes:
            _check_takes_feedback(replica)
            await _look_for(replica, [item.label])
            label = _label_code(replica, item.label, "label")
            told = Round(label, item.propensity, replica.fold.encoder.encode(item.x))
            verdict = await replica.tell(told, item.feedback, item.request_id)
            return wire.encode(_receipt_or_refusal(verdict, "round"))

        return await self._host.use(key, act)

    # -- many -----------------------------------------------------------------------------
    async def predict_batch(self, key: str, body: bytes, *, lines: bool) -> bytes:
        """Answer each instance with a decision; all of them or, if one is wrong, none."""
        items: list[wire.Instance] = await self._items(_INSTANCE, body, lines)

        async def act(replica: Replica) -> bytes:
            min_seq = max((item.min_seq or 0 for item in items), default=0)
            await _wait_for(replica, min_seq)
            await _look_for(replica, chain.from_iterable(item.allowed or () for item in items))
            xs = await _encode(replica.fold.encoder, [item.x for item in items])
            asks = [
                _ask(replica, x, item, i) for i, (x, item) in enumerate(zip(xs, items, strict=True))
            ]
            decided = await replica.predict_many(asks)
            return _batch_out([_decision_out(replica, d) for d in decided], wire.Decisions, lines)

        return await self._host.use(key, act)

    async def feedback_batch(self, key: str, body: bytes, *, lines: bool) -> bytes:
        """Admit each feedback; every item has its own receipt."""
        items: list[wire.FeedbackIn] = await self._items(_FEEDBACK, body, lines)

        async def act(replica: Replica) -> bytes:
            _check_takes_feedback(replica)
            pairs = [(item.decision_id, int(item.feedback)) for item in items]
            return _receipts_out(await replica.feedback_many(pairs), lines)

        return await self._host.use(key, act)

    async def learn_batch(self, key: str, body: bytes, *, lines: bool) -> bytes:
        """Learn from each example; all of them or, if one is wrong, none."""
        items: list[wire.ExampleIn] = await self._items(_EXAMPLE, body, lines)

        async def act(replica: Replica) -> bytes:
            _check_takes_labels(replica)
            await _look_for(replica, [item.label for item in items])
            rows = await _encode(replica.fold.encoder, [item.x for item in items])
            # Last: while rows are encoded, the log may turn out to be another one, with other
            # codes.
            labels = _label_codes(replica, [item.label for item in items])
            pairs = [
                (Example(label, x), item.request_id)
                for label, x, item in zip(labels, rows, items, strict=True)
            ]
            return _receipts_out(await replica.learn_many(pairs), lines)

        return await self._host.use(key, act)

    async def rounds_batch(self, key: str, body: bytes, *, lines: bool) -> bytes:
        """Learn from each round that somebody else decided; all or, if one is wrong, none."""
        items: list[wire.RoundIn] = await self._items(_ROUND, body, lines)

        async def act(replica: Replica) -> bytes:
            _check_takes_feedback(replica)
            await _look_for(replica, [item.label for item in items])
            rows = await _encode(replica.fold.encoder, [item.x for item in items])
            labels = _label_codes(replica, [item.label for item in items])
            told = [
                (Round(label, item.propensity, x), int(item.feedback), item.request_id)
                for label, x, item in zip(labels, rows, items, strict=True)
            ]
            return _receipts_out(await replica.tell_many(told), lines)

        return await self._host.use(key, act)

    async def _items(self, one: wire.Parser, body: bytes, lines: bool) -> list[Any]:
        items, since = [], 0
        for place, part in enumerate(wire.split_items(body, self._max_items, lines=lines)):
            if len(part) > self._max_item_bytes:
                raise TooLarge(f"items[{place}]: expected at most {self._max_item_bytes} bytes")
            items.append(one.parse_item(part, place, line=lines))
            since += len(part)
            if since > TURN_BYTES:
                since = 0
                await asyncio.sleep(0)
        await asyncio.sleep(0)
        return items


async def _encode(encoder: Encoder, instances: Sequence[Instance]) -> Rows:
    rows = np.empty((len(instances), encoder.size), dtype=np.float32)
    first, values = 0, 0
    for place, instance in enumerate(instances, 1):
        values += len(instance) * (NAMED_VALUES if isinstance(instance, dict) else 1)
        if values > TURN_VALUES or place == len(instances):
            rows[first:place] = encoder.encode_many(instances[first:place], first)
            first, values = place, 0
            await asyncio.sleep(0)
    return rows


def _ask(replica: Replica, x: Any, instance: wire.Instance, place: int | None = None) -> Ask:
    codes = None
    if instance.allowed is not None:
        where = "allowed" if place is None else f"items[{place}].allowed"
        codes = replica.fold.allowed_codes(instance.allowed, where)
    return Ask(x, instance.request_id, codes)


async def _wait_for(replica: Replica, min_seq: int) -> None:
    if replica.fold.seq < min_seq:
        await replica.catch_up()
        if replica.fold.seq < min_seq:
            raise Conflict(f"min_seq: the log ends at event {replica.fold.seq}, before {min_seq}")


async def _look_for(replica: Replica, labels: Iterable[str]) -> None:
    """Catch up if a label is unknown: another worker may have added it just now."""
    if not replica.fold.codes.keys() >= set(labels):
        await replica.catch_up()


def _check_takes_feedback(replica: Replica) -> None:
    if not replica.takes_feedback:
        raise Invalid.of("model", "a learner that takes feedback", replica.fold.learner.kind)


def _check_takes_labels(replica: Replica) -> None:
    if not replica.fold.learner.takes_labels:
        raise Invalid.of("model", "a learner that takes labels", replica.fold.learner.kind)


def _label_codes(replica: Replica, labels: Sequence[str]) -> list[int]:
    places = enumerate(labels)
    return [_label_code(replica, label, f"items[{i}].label") for i, label in places]


def _label_code(replica: Replica, label: str, where: str) -> int:
    code = replica.fold.codes.get(label)
    if code is None:
        raise Invalid.of(where, "a label of the model", label)
    return code


def _decision_out(replica: Replica, decided: Decided) -> DecisionOut:
    decision, labels = decided.decision, replica.fold.labels
    return DecisionOut(
        decided.decision_id,
        labels[decision.label],
        labels[decision.greedy],
        decision.propensity,
        decision.seq,
        None if decided.issued_ms is None else decided.issued_ms + replica.address.window_ms,
    )


def _receipt(verdict: Verdict) -> Receipt:
    # The scripts answer no other status and no other bit.
    status, feedback = cast(wire.Status, verdict.status), cast("wire.Bit | None", verdict.feedback)
    return Receipt(status, verdict.seq, feedback)


def _receipt_or_refusal(verdict: Verdict, what: str = "") -> Receipt:
    if verdict.status == "conflict":
        if what:
            raise Conflict(f"request_id: it was used before with another {what}")
        raise Conflict(f"decision_id: its feedback is {verdict.feedback} already")
    if verdict.status == "unknown":
        raise NotFound("decision_id: this model has made no such decision")
    return _receipt(verdict)


def _receipts_out(verdicts: Sequence[Verdict], lines: bool) -> bytes:
    return _batch_out([_receipt(verdict) for verdict in verdicts], wire.Receipts, lines)


def _batch_out(items: list[Any], whole: type[Any], lines: bool) -> bytes:
    return wire.encode_lines(items) if lines else wire.encode(whole(items))
