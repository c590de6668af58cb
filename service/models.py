"""Creating, describing and changing models."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from learners import LEARNERS, LearnersError, NoiseRates
from service.auth import Caller
from service.challengers import learners_text, no_rates, parse_learners, rate_kinds
from service.complaints import of_learner
from service.errors import Conflict, Invalid, NotFound, Unavailable, Unreadable, shorten
from service.events import ChallengerChange, Kind, LabelChange, Rates, RatesByLabel
from service.fold import Fold
from service.host import Host
from service.ids import fresh_nonce
from service.labels import Listed, labels_text, parse_labels
from service.meta import Meta
from service.model_wire import (
    Counters,
    LabelOut,
    LabelRatesIn,
    LabelsIn,
    ModelOut,
    ModelsOut,
    RatesIn,
    RelearnedOut,
    RelearnIn,
    SeqOut,
)
from service.relearn import relearn, source_of, spec_of
from service.replica import Replica
from service.replies import Waiting
from service.sizes import check_growth, check_size
from service.snapshots import newest_snapshot_seq
from service.spec import MAX_LABELS, LearnerSpec, ModelSpec, NamedLearner
from service.turns import each_of

#: Two admins changing labels at once: the second one looks again, at most this often.
TRIES = 5


class Models:
    """The calls on models; each caller sees the models of its tenant only."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._store = host.store

    async def create(self, caller: Caller, spec: ModelSpec) -> tuple[ModelOut, bool]:
        """Create a model; return it, and whether it is new."""
        key = caller.key_of(spec.name)
        _check_spec(spec)
        meta, new = await self._host.create(key, spec, secrets.token_hex(8))
        there, asked = meta.spec.filled(), spec.filled()
        if not new and there != asked:
            others = ", ".join(_differing(there.to_dict(), asked.to_dict()))
            raise Conflict(f"there is a model {spec.name!r} with another spec: look at {others}")
        return await self.describe(caller, spec.name), new

    async def relearn(self, caller: Caller, name: str, asked: RelearnIn) -> RelearnedOut:
        """Make another model of what a model's log tells."""
        source = await self._host.use(
            caller.key_of(name),
            lambda r: source_of(self._store, r, without_retired=asked.without_retired),
        )
        spec = spec_of(source, asked)
        _check_taught(source.learner.kind, spec.learner.kind)
        return await relearn(self._host, source, caller.key_of(spec.name), spec, asked.without)

    async def describe(self, caller: Caller, name: str) -> ModelOut:
        """Return one model."""
        key = caller.key_of(name)
        meta = await self._store.meta(key)
        waiting = await self._store.waiting(key)
        snapshot_seq = await newest_snapshot_seq(self._store, key)
        return model_out(meta, waiting, snapshot_seq)

    async def describe_all(self, caller: Caller) -> ModelsOut:
        """Return every model of the tenant, by name."""
        prefix, unreadable = f"{caller.tenant}/", list[str]()
        keys = [key for key in await self._store.list_keys() if key.startswith(prefix)]

        async def look(key: str) -> ModelOut | None:
            name = key.removeprefix(prefix)
            # Some are being created, imported or deleted at this moment, or no longer exist.
            with contextlib.suppress(NotFound):
                try:
                    return await self.describe(caller, name)
                except Unreadable:
                    unreadable.append(name)
            return None

        found = [model for model in await each_of(keys, look) if model]
        return ModelsOut(models=found, unreadable=sorted(unreadable))

    async def delete(self, caller: Caller, name: str) -> None:
        """Delete a model with its log, decisions and snapshots."""
        key = caller.key_of(name)
        # First, or the background work may report a model that is gone for reasons unknown to it.
        self._host.drop(key)
        if not await self._store.delete(key):
            raise NotFound(f"there is no model {shorten(name)!r}")

    async def change_labels(self, caller: Caller, name: str, change: LabelsIn) -> ModelOut:
        """Add (or bring back) and retire labels; what is so already stays so."""
        await self._change(caller.key_of(name), "labels", lambda r: self._try_labels(r, change))
        return await self.describe(caller, name)

    async def set_rates(self, caller: Caller, name: str, rates: RatesIn) -> SeqOut:
        """Log noise rates that hold from that event on."""
        key = caller.key_of(name)
        return SeqOut(seq=await self._change(key, "rates", lambda r: self._try_rates(r, rates)))

    async def add_challenger(self, caller: Caller, name: str, new: NamedLearner) -> ModelOut:
        """Let one more learner learn without deciding; the same one again changes nothing."""
        change = ChallengerChange("add", new.name, new.learner.model_dump())
        await self._change_challengers(caller, name, change)
        return await self.describe(caller, name)

    async def drop_challenger(self, caller: Caller, name: str, challenger: str) -> None:
        """Forget a challenger with what it has learned."""
        await self._change_challengers(caller, name, ChallengerChange("drop", challenger))

    async def promote(self, caller: Caller, name: str, challenger: str) -> ModelOut:
        """Let a challenger decide; the learner that decided becomes a challenger."""
        await self._change_challengers(caller, name, ChallengerChange("promote", challenger))
        return await self.describe(caller, name)

    async def _change_challengers(
        self, caller: Caller, name: str, change: ChallengerChange
    ) -> None:
        key = caller.key_of(name)
        await self._change(key, "challengers", lambda r: self._try_challengers(r, change))

    async def _change(
        self, key: str, what: str, attempt: Callable[[Replica], Awaitable[int | None]]
    ) -> int:
        """Try a change until nobody else is faster; return the event from which it holds."""
        for _ in range(TRIES):
            seq = await self._host.use(key, attempt)
            if seq is not None:
                return seq
        raise Unavailable(f"{what}: somebody else keeps changing them: try again")

    async def _log(
        self, replica: Replica, kind: Kind, record: bytes, guard: tuple[str, str, str]
    ) -> int | None:
        """Append an event, and fold it; None where the field that guards it has changed."""
        seq = await self._store.append(replica.address, kind, fresh_nonce(), record, guard)
        await replica.catch_up()
        return seq

    async def _try_challengers(self, replica: Replica, change: ChallengerChange) -> int | None:
        meta = await self._store.meta(replica.key)
        await replica.catch_up()
        after = _learners_after(replica.fold, change)
        if after == replica.fold.contest.named:
            return replica.fold.seq
        guard = ("learners", meta.learners, learners_text(after))
        return await self._log(replica, Kind.CHALLENGER, msgspec.json.encode(change), guard)

    async def _try_labels(self, replica: Replica, change: LabelsIn) -> int | None:
        meta = await self._store.meta(replica.key)
        listed = parse_labels(meta.labels)
        before = {each.name: each.active for each in listed}
        after = before | dict.fromkeys(change.add, True)
        for i, label in enumerate(change.retire):
            if label in change.add:
                raise Invalid.of(f"retire[{i}]", "a label that is not in add", label)
            if label not in after:
                raise Invalid.of(f"retire[{i}]", "a label of the model", label)
            after[label] = False
        for label in change.features:
            if label not in change.add:
                raise Invalid.of(f"features.{shorten(label)}", "a label that is in add", label)
        await replica.catch_up()
        features = _new_features(replica.fold, change.features)
        if after == before and not features:
            return replica.fold.seq
        await _check_labels(replica.fold, before, after)
        come = [label for label in after if after[label] and not before.get(label, False)]
        go = [label for label in after if not after[label] and before.get(label, True)]
        record = msgspec.json.encode(LabelChange(come, go, features))
        known = {each.name: each.features for each in listed} | features
        text = labels_text(Listed(name, active, known.get(name)) for name, active in after.items())
        return await self._log(replica, Kind.LABELS, record, ("labels", meta.labels, text))

    async def _try_rates(self, replica: Replica, rates: RatesIn) -> int | None:
        if rates.by_label:
            # Another worker may have added a label a moment ago.
            await replica.catch_up()
        _check_rates(replica.fold, rates)
        new = msgspec.json.encode(_rates_event(replica.fold.labels, rates))
        old, seq = await self._store.rates(replica.address)
        if old == new.decode():
            return seq
        return await self._log(replica, Kind.RATES, new, ("rates", old, new.decode()))


def model_out(meta: Meta, waiting: Waiting, snapshot_seq: int) -> ModelOut:
    """Return what a call answers about a model."""
    spec = {name: getattr(meta.spec, name) for name in ModelSpec.model_fields}
    listed = parse_labels(meta.labels)
    deciding, *challengers = learners_of(meta)
    where: dict[str, Any] = {
        "learner": deciding.learner,
        "deciding": deciding.name,
        "challengers": challengers,
        "labels": [LabelOut(name=each.name, active=each.active) for each in listed],
        "label_features": {each.name: each.features for each in listed if each.features},
        "seq": meta.seq,
        "chain": meta.chain,
        "counters": Counters(**waiting._asdict(), **meta.counters),
        "snapshot_seq": snapshot_seq,
        "created_at_ms": meta.created_at_ms,
    }
    return ModelOut(**(spec | where))


def _differing(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Return the names of the fields in which two specs differ, also within their learners."""
    absent = object()
    names = []
    for name in sorted(one.keys() | other.keys()):
        values = one.get(name, absent), other.get(name, absent)
        if name == "learner" and all(isinstance(value, dict) for value in values):
            names += [f"learner.{each}" for each in _differing(*values)]
        elif values[0] != values[1]:
            names.append(name)
    return names


def learners_of(meta: Meta) -> list[NamedLearner]:
    """Return a model's learners, the deciding one first."""
    return parse_learners(meta.learners) or meta.spec.learners


def _learners_after(fold: Fold, change: ChallengerChange) -> list[NamedLearner]:
    """Return the learners after a change, the deciding one first; refuse what the fold would."""
    learners = fold.contest.named
    names = [each.name for each in learners]
    if change.change == "add":
        new = NamedLearner(name=change.name, learner=LearnerSpec.model_validate(change.learner))
        if new.filled() in [each.filled() for each in learners]:
            return learners
        if new.name in names:
            raise Conflict(f"there is a learner {new.name!r} with another spec")
        fold.contest.new_challenger(new, "")
        _check_features([*learners, new], [""] * (len(learners) + 1))
        return [*learners, new]
    if change.name not in names:
        raise NotFound(f"there is no challenger {shorten(change.name)!r}")
    place = names.index(change.name)
    if change.change == "drop":
        if place == 0:
            raise Conflict(f"{change.name!r} decides: promote another one first")
        return learners[:place] + learners[place + 1 :]
    learners[0], learners[place] = learners[place], learners[0]
    return learners


def _check_rates(fold: Fold, rates: RatesIn) -> None:
    """Refuse rates that no learner of the model uses, or by which clicks tell nothing."""
    learners = fold.contest.learners
    if not any(learner.takes_rates for learner in learners):
        raise no_rates(fold.learner)
    if rates.by_label and not any(learner.takes_label_rates for learner in learners):
        what = "a learner that uses each label's noise rates, for by_label"
        raise Invalid.of("model", what, fold.learner.kind)
    _check_sum("body", rates)
    for name, each in rates.by_label.items():
        where = f"by_label.{shorten(name)}"
        if name not in fold.codes:
            raise Invalid.of(where, "rates of a label of the model", name)
        _check_sum(where, each)


def _check_sum(where: str, rates: LabelRatesIn) -> None:
    try:
        NoiseRates(rates.rho_0, rates.rho_1)
    except LearnersError as error:
        raise of_learner(where, error) from error


def _rates_event(labels: Sequence[str], rates: RatesIn) -> Rates:
    """Return the event of these rates, of a model with these labels."""
    if not rates.by_label:
        return Rates(rates.rho_0, rates.rho_1)
    each = [rates.by_label.get(name, rates) for name in labels]
    # Whoever sets rates knows them.
    exact = [0.0] * len(each)
    rho_0, rho_1 = [one.rho_0 for one in each], [one.rho_1 for one in each]
    return Rates(rates.rho_0, rates.rho_1, RatesByLabel(rho_0, rho_1, exact, exact))


def _check_spec(spec: ModelSpec) -> None:
    """Refuse what the fold of a model would not notice."""
    _check_estimates(spec)
    places = ["", *(f"challengers[{i}]." for i in range(len(spec.challengers)))]
    _check_features(spec.learners, places)


def _check_taught(kind: str, new_kind: str) -> None:
    """Refuse a learner that could learn nothing from what another was told."""
    before, after = LEARNERS[kind], LEARNERS.get(new_kind)
    # Of a kind that there is not, the fold says so.
    if after is None:
        return
    fits, what = after.takes_labels, "labels"
    if before.takes_feedback:
        fits, what = after.takes_feedback, "feedback"
    if not fits:
        raise Invalid.of("learner.kind", f"one that takes {what}, as the model's does", new_kind)


def _check_estimates(spec: ModelSpec) -> None:
    """Refuse estimates that no learner would use, or that the log is too short for."""
    kinds = rate_kinds(spec.learners)
    wanted = bool(spec.estimate_every) or spec.estimate_on_drift
    # Of a kind that there is not, the fold says so.
    if wanted and not kinds and spec.learner.kind in LEARNERS:
        what = "one that uses noise rates, for estimate_every or estimate_on_drift"
        raise Invalid.of("learner.kind", what, spec.learner.kind)
    by_itself = spec.estimate_after(kinds) > 0 or (spec.estimate_on_drift and kinds)
    if by_itself and spec.log_keep < spec.estimate_block:
        what = f"at least the {spec.estimate_block} rounds that an estimate uses (estimate_every)"
        raise Invalid.of("log_keep", what, spec.log_keep)


def _check_features(learners: Sequence[NamedLearner], places: Sequence[str]) -> None:
    """Refuse learners that want different numbers of features of a label: none could suit all."""
    wanted: object = 0
    for each, place in zip(learners, places, strict=True):
        count = each.learner.options.get("n_label_features", 0)
        if wanted and count and count != wanted:
            what = f"{wanted}, as another learner of the model has"
            raise Invalid.of(f"{place}learner.n_label_features", what, count)
        wanted = wanted or count


def _new_features(fold: Fold, features: Mapping[str, list[float]]) -> dict[str, list[float]]:
    """Return the labels' features that are new or changed; refuse what the fold would refuse."""
    fold.contest.check_label_features(features, "features")
    known = fold.contest.label_features
    return {
        name: values
        for name, values in features.items()
        if name not in fold.codes or known.get(fold.codes[name]) != values
    }


async def _check_labels(fold: Fold, before: dict[str, bool], after: dict[str, bool]) -> None:
    """Refuse a change that the fold could not apply."""
    if not any(after.values()):
        raise Invalid.of("retire", "at least one label that stays", "all of them")
    if len(after) > MAX_LABELS:
        most = f"at most {MAX_LABELS} labels, retired ones among them"
        raise Invalid.of("add", most, f"{len(after)}")
    check_size(fold.contest.learner.n_features, len(after))
    if len(after) > len(before):
        contest = fold.contest
        specs = [named.learner for named in contest.named]
        learners = list(zip(specs, contest.learners, strict=True))
        # A large window's lists take a second to make.
        await asyncio.to_thread(check_growth, learners, len(after) - len(before))
