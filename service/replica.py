"""One worker's copy of one model: decides from memory, records in Redis, folds the log."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from service.commit import GroupCommit
from service.deciding import Ask, decide_each
from service.errors import Conflict, LogBroken, NotFound, ServiceError, Unavailable
from service.events import (
    Decision,
    Entry,
    Example,
    Kind,
    Round,
    Telling,
    pack_decision,
    pack_example,
    pack_round,
    unpack_decision,
)
from service.fold import Fold
from service.follower import Follower
from service.ids import (
    DECISION,
    EXAMPLE,
    NO_FINGERPRINT,
    ROUND,
    DecisionId,
    IdSigner,
    fresh_nonce,
    nonce_of_request,
)
from service.meta import Meta
from service.replies import Recorded, Verdict
from service.store import Store
from service.turns import LEAST_S, TURN_S

#: Items of one script call out of a batch: Redis is busy with it for about 2 ms.
SCRIPT_ITEMS = 250
#: What one decision is assumed to cost before the first, which is therefore made alone: among a
#: thousand labels some learners take 10 ms for one, and a hundred would be a second.
GUESS_S = TURN_S
#: What a client is told if its call met a log that had lost events.
ANOTHER_LOG = "the log was found to be another one: try again"


class Decided(NamedTuple):
    """A decision with its id and time; None where the model does not take feedback."""

    decision_id: str | None
    decision: Decision
    issued_ms: int | None


class Replica(Follower):
    """One worker's copy of a model.

    Parameters
    ----------
    store
        Where the log is.
    key
        The model's `tenant/name`.
    meta
        The model's meta data when it was loaded.
    secret
        What decision ids are signed with.
    """

    def __init__(self, store: Store, key: str, meta: Meta, secret: bytes) -> None:
        super().__init__(store, key, meta)
        self.sign_with(secret)
        self.used_at_s = self.snapshot_at_s = time.monotonic()
        self._decision_s = GUESS_S
        #: Events that calls under way append; they come with the answers.
        self._coming = 0
        self._decisions = GroupCommit(self._decide, self._decisions_a_turn)
        self._feedback = GroupCommit(self._admit)
        self._tellings = GroupCommit(self._log_told)

    def sign_with(self, secret: bytes) -> None:
        """Sign and verify decision ids with this secret from now on."""
        self.signer = IdSigner(secret, f"{self.key}#{self.address.uid}")

    @property
    def takes_feedback(self) -> bool:
        """Whether the learner learns from feedback; if not, nothing is recorded."""
        return self.fold.learner.takes_feedback

    # -- predict --------------------------------------------------------------------------
    async def predict(self, ask: Ask) -> Decided:
        """Choose a label and record the decision."""
        return _decided(await self._decisions.submit((self.fold, ask)))

    async def predict_many(self, asks: Sequence[Ask]) -> list[Decided]:
        """Choose a label for each and record all decisions or, if one is refused, none of them.

        Those under a request_id may stand: asked again, they are the same.
        """
        parts: list[asyncio.Task[list[Decided]]] = []
        fold, first = self.fold, 0
        try:
            for some in self._groups(asks):
                parts.append(asyncio.create_task(self._decide_all(fold, some, first)))
                first += len(some)
                # While Redis records one part, the next is decided; two are under way.
                await asyncio.sleep(0)
                if len(parts) > 1:
                    await asyncio.wait(parts[-2:-1])
                if any(part.done() and part.exception() for part in parts):
                    break
            answers = await asyncio.gather(*parts, return_exceptions=True)
        except asyncio.CancelledError:
            for part in parts:
                part.cancel()
            raise
        refusals = [answer for answer in answers if isinstance(answer, BaseException)]
        decided = [one for answer in answers if isinstance(answer, list) for one in answer]
        if refusals:
            await self._withdraw(decided)
            raise refusals[0]
        return decided

    def _groups(self, asks: Sequence[Ask]) -> Iterator[Sequence[Ask]]:
        """Yield the asks in parts that are decided, and recorded, at once."""
        start = 0
        while start < len(asks):
            yield asks[start : (start := start + min(SCRIPT_ITEMS, self._decisions_a_turn()))]

    async def _withdraw(self, decided: Sequence[Decided]) -> None:
        """Take back decisions that nobody is told of, except those under a request_id."""
        nonces = [
            known.nonce
            for one in decided
            if one.decision.fingerprint == NO_FINGERPRINT
            if one.decision_id and (known := self.signer.verify(one.decision_id))
        ]
        if nonces:
            # Where Redis does not answer they wait for their windows to close.
            with contextlib.suppress(ServiceError):
                await self._store.withdraw(self.address, nonces)

    async def _decide_all(self, fold: Fold, asks: Sequence[Ask], first: int) -> list[Decided]:
        answers = await self._decide([(fold, ask) for ask in asks], whole=True)
        for place, answer in enumerate(answers, first):
            if isinstance(answer, Conflict):
                raise Conflict(f"items[{place}].{answer.message}")
        return [_decided(answer) for answer in answers]

    async def _decide(
        self, asked: Sequence[tuple[Fold, Ask]], *, whole: bool = False
    ) -> list[Decided | Exception]:
        """Decide and record what was asked, each ask by the fold that it was read with.

        Of a `whole` batch, nothing is recorded if one is refused.
        """
        fold, asks = self.fold, [ask for _, ask in asked]
        if any(read_with is not fold for read_with, _ in asked):
            # Labels may have other codes now, and this fold may be behind what the client has seen.
            raise Unavailable(ANOTHER_LOG)
        nonces = [self._nonce(ask.request_id) for ask in asks]
        begin_s = time.perf_counter()
        decisions = decide_each(fold, asks, nonces)
        self._decision_s = max(time.perf_counter() - begin_s, LEAST_S) / len(asks)
        refused = whole and any(isinstance(decision, Exception) for decision in decisions)
        if refused or not self.takes_feedback:
            return [d if isinstance(d, Exception) else Decided(None, d, None) for d in decisions]
        rows = [
            (nonce, ask.request_id is not None, pack_decision(decision))
            for nonce, ask, decision in zip(nonces, asks, decisions, strict=True)
            if not isinstance(decision, Exception)
        ]
        # No await since the fold was looked at: it is the one that made the decisions.
        recorded = iter(await self._record(fold, rows, whole=whole))
        return [
            d if isinstance(d, Exception) else self._settle(nonce, d, next(recorded))
            for nonce, d in zip(nonces, decisions, strict=True)
        ]

    def _decisions_a_turn(self) -> int:
        return max(1, int(TURN_S / self._decision_s))

    async def _record(
        self, fold: Fold, rows: Sequence[tuple[bytes, bool, bytes]], *, whole: bool
    ) -> list[Recorded]:
        made_with = fold.seq, fold.chain
        try:
            answers, seq = await self._store.decide(self.address, rows, *made_with, whole=whole)
        except LogBroken as error:
            await self.catch_up()
            raise Unavailable(ANOTHER_LOG) from error
        if seq > self.fold.seq:
            self.fresh_at_s = 0.0
        if any(a.old and unpack_decision(a.old).seq > self.fold.seq for a in answers):
            # Another worker that had folded further made this decision, maybe with a label that is
            # not known here yet.
            await self.catch_up()
        return answers

    def _settle(self, nonce: bytes, decision: Decision, answer: Recorded) -> Decided | ServiceError:
        if answer.full:
            most = self.spec.max_pending
            what = "for their windows to close" if self.address.no_click else "for feedback"
            return Unavailable(f"at most {most} decisions may wait {what} (max_pending)")
        issued_ms = answer.now_ms
        if answer.old is not None:
            earlier = unpack_decision(answer.old)
            if earlier.fingerprint != decision.fingerprint:
                return Conflict("request_id: it was used before with another instance")
            decision, issued_ms = earlier, earlier.issued_ms
        return Decided(self.signer.sign(DecisionId(nonce, issued_ms)), decision, issued_ms)

    # -- feedback, examples and rounds ----------------------------------------------------
    async def feedback(self, decision_id: str, feedback: int) -> Verdict:
        """Admit one feedback and fold it."""
        decision = self.signer.verify(decision_id)
        if decision is None:
            raise NotFound("decision_id: this model has made no such decision")
        return await self._feedback.submit((decision.nonce, decision.issued_ms, feedback))

    async def feedback_many(self, items: Sequence[tuple[str, int]]) -> list[Verdict]:
        """Admit each feedback and fold them; forged ids get the verdict unknown."""
        verdicts = [Verdict("unknown", None, None)] * len(items)
        real: list[tuple[bytes, int, int]] = []
        places: list[int] = []
        for place, (text, feedback) in enumerate(items):
            decision = self.signer.verify(text)
            if decision is not None:
                real.append((decision.nonce, decision.issued_ms, feedback))
                places.append(place)
        if len(real) < len(items):
            # They may be of the model that another worker has made under this name since.
            await self.catch_up()
        for start in range(0, len(real), SCRIPT_ITEMS):
            some = await self._admit(real[start : start + SCRIPT_ITEMS])
            for place, verdict in zip(places[start:], some, strict=False):
                verdicts[place] = verdict
            await asyncio.sleep(0)
        return verdicts

    async def learn(self, example: Example, request_id: str | None) -> Verdict:
        """Log one example and fold it."""
        return await self._tellings.submit((self.fold, self._example(example, request_id)))

    async def learn_many(self, examples: Sequence[tuple[Example, str | None]]) -> list[Verdict]:
        """Log each example and fold them."""
        return await self._tell_all([self._example(*each) for each in examples])

    async def tell(self, told: Round, feedback: int, request_id: str | None) -> Verdict:
        """Log one round that somebody else decided and fold it."""
        return await self._tellings.submit((self.fold, self._round(told, feedback, request_id)))

    async def tell_many(self, rounds: Sequence[tuple[Round, int, str | None]]) -> list[Verdict]:
        """Log each round that somebody else decided and fold them."""
        return await self._tell_all([self._round(*each) for each in rounds])

    def _example(self, example: Example, request_id: str | None) -> Telling:
        nonce = self._nonce(request_id, EXAMPLE)
        return Telling(Kind.LEARN, nonce, None, pack_example(example))

    def _round(self, told: Round, feedback: int, request_id: str | None) -> Telling:
        nonce = self._nonce(request_id, ROUND)
        return Telling(Kind.ROUND, nonce, feedback, pack_round(told))

    async def _tell_all(self, items: Sequence[Telling]) -> list[Verdict]:
        verdicts: list[Verdict] = []
        fold = self.fold
        for start in range(0, len(items), SCRIPT_ITEMS):
            some = [(fold, item) for item in items[start : start + SCRIPT_ITEMS]]
            verdicts += await self._log_told(some)
            await asyncio.sleep(0)
        return verdicts

    async def _admit(self, items: Sequence[tuple[bytes, int, int]]) -> list[Verdict]:
        records = self._store.recall(self.address, items)
        with self._appending(len(items) if records else 0) as after:
            verdicts, entries = await self._store.admit(self.address, items, after, records)
        await self._read_own_writes(verdicts, entries)
        return verdicts

    async def _log_told(self, told: Sequence[tuple[Fold, Telling]]) -> list[Verdict]:
        """Log what is told, each item with the fold that its label's code comes from."""
        fold, items = self.fold, [item for _, item in told]
        if any(read_with is not fold for read_with, _ in told):
            raise Unavailable(ANOTHER_LOG)
        try:
            with self._appending(len(items)) as after:
                verdicts, entries = await self._store.learn(
                    self.address, items, after, fold.seq, fold.chain
                )
        except LogBroken as error:
            await self.catch_up()
            raise Unavailable(ANOTHER_LOG) from error
        await self._read_own_writes(verdicts, entries)
        return verdicts

    @contextlib.contextmanager
    def _appending(self, count: int) -> Iterator[int]:
        """Count events that a call appends; yield up to which event earlier answers reach."""
        after = self.fold.seq + self._coming
        self._coming += count
        try:
            yield after
        finally:
            self._coming -= count

    async def _read_own_writes(self, verdicts: Sequence[Verdict], entries: Sequence[Entry]) -> None:
        written = max((v.seq or 0 for v in verdicts), default=0)
        try:
            await self._follow(self.fold, entries)
        except LogBroken:
            written = self.fold.seq + 1
        if self.fold.seq < written:
            await self.catch_up()

    def _nonce(self, request_id: str | None, what: bytes = DECISION) -> bytes:
        return fresh_nonce() if request_id is None else nonce_of_request(request_id, what)


def _decided(answer: Decided | Exception) -> Decided:
    if isinstance(answer, Exception):
        raise answer
    return answer
