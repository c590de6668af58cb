"""The process that makes one estimate of a model's noise rates, and ends.

`python -m service.trainer KEY UID TOKEN NUMBER`, started by a worker that has claimed the
estimate. It is nice to the others, trains on one thread, keeps its claim while it does, and
gives up when the claim is lost. Here alone torch is imported.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from learners.noise.estimate import CancelledError, NoiseEstimate
from learners.noise.verdict import refusals
from service.address import Address
from service.errors import ServiceError, Unavailable
from service.estimates import CLAIM_LOST, LEASE_MS, Estimates
from service.events import Rates, RatesByLabel
from service.ids import fresh_nonce
from service.labels import parse_labels
from service.logs import configure
from service.newest import read_newest
from service.settings import Settings
from service.spec import MAX_LOG_KEEP, ModelSpec
from service.store import ModelGone, Store, connect
from service.wire import Estimate, LabelRates

log = logging.getLogger("misclick.trainer")

Result = TypeVar("Result")

#: Every other process on the machine comes first.
NICENESS = 10
#: A claim is renewed so often: progress is told, and a cancellation noticed, within this time.
RENEW_S = 0.5
#: How far an estimate is when its block is read, and when torch is loaded too: for a block of
#: some thousand rounds that takes longer than the training.
READ, LOADED = 0.05, 0.1
#: A network needs two labels to tell one from the other.
LEAST_LABELS = 2


class Block(NamedTuple):
    """The rounds that an estimate is made from, oldest first."""

    xs: NDArray[np.float64]
    labels: NDArray[np.int64]
    feedback: NDArray[np.int64]


def main() -> int:
    """Make the estimate; return 0 when its result is stored."""
    parser = argparse.ArgumentParser(prog="service.trainer", description=__doc__)
    parser.add_argument("key")
    parser.add_argument("uid")
    parser.add_argument("token")
    parser.add_argument("number", type=int)
    args = parser.parse_args()
    os.nice(NICENESS)
    settings = Settings()
    configure(settings.log_level)
    try:
        return asyncio.run(_run(settings, args.key, args.uid, args.token, args.number))
    except ServiceError as error:
        log.warning("the estimate was given up", extra={"why": str(error)})
        return 1


async def _run(settings: Settings, key: str, uid: str, token: str, number: int) -> int:
    begin_s = time.monotonic()
    store = Store(connect(settings.store_url(), settings.redis_timeout_s))
    meta = await _patiently(lambda: store.meta(key))
    address = Address.of(key, uid, meta.spec)
    estimates = Estimates(store, address)
    labels = [each.name for each in parse_labels(meta.labels)]
    lost, progress = threading.Event(), Progress()
    keeping = asyncio.create_task(_keep(estimates, token, progress, lost))
    try:
        block = await _patiently(lambda: read_block(store, address, meta.spec))
        found = await asyncio.to_thread(
            estimate, block, len(labels), number, settings, progress, lost
        )
        if found is None:
            log.info("the claim was lost", extra={"model": key})
            return CLAIM_LOST
        took_s = time.monotonic() - begin_s
        result = result_of(found, number, labels, len(block.labels), took_s)
        end = (token, fresh_nonce(), record_of(result), result)
        # Sent twice, because an answer got lost, it still ends the estimate once.
        stored = await _patiently(lambda: estimates.finish(*end))
    finally:
        keeping.cancel()
    await store.close()
    return 0 if stored else CLAIM_LOST


async def _patiently(call: Callable[[], Awaitable[Result]]) -> Result:
    """Call; repeat while the store is away, for as long as a claim lasts."""
    end_s = time.monotonic() + LEASE_MS / 1000
    while True:
        try:
            return await call()
        except Unavailable:
            if time.monotonic() > end_s:
                raise
            await asyncio.sleep(RENEW_S)


class Progress:
    """How far the training is; written by its thread, read by the one that keeps the claim."""

    def __init__(self) -> None:
        self.share = 0.0

    def train(self, share: float, _loss: float) -> None:
        """Note how much of the training is done."""
        self.share = LOADED + (1.0 - LOADED) * share


async def _keep(
    estimates: Estimates, token: str, progress: Progress, lost: threading.Event
) -> None:
    while True:
        await asyncio.sleep(RENEW_S)
        try:
            if not await estimates.renew(token, progress.share):
                lost.set()
        except ServiceError as error:
            # Redis may be back before the lease ends; if not, somebody else begins again.
            log.warning("the claim could not be renewed", extra={"why": str(error)})


async def read_block(store: Store, address: Address, spec: ModelSpec) -> Block:
    """Return the newest rounds with feedback, as many as the model's estimates use at most."""
    (head,) = await store.heads([address.key])
    if head is None or head[0] != address.uid:
        raise ModelGone("the model was deleted")
    newest = await read_newest(store, address, head[1], spec.estimate_block, MAX_LOG_KEEP)
    rounds = newest.rounds
    if not rounds:
        return Block(np.empty((0, 1)), np.empty(0, np.int64), np.empty(0, np.int64))
    return Block(
        np.array([each.payload.x for each in rounds], dtype=np.float64),
        np.array([each.payload.label for each in rounds], dtype=np.int64),
        np.array([each.feedback for each in rounds], dtype=np.int64),
    )


def estimate(
    block: Block,
    n_labels: int,
    number: int,
    settings: Settings,
    progress: Progress,
    lost: threading.Event,
) -> NoiseEstimate | str | None:
    """Return the estimate; if none can be made, a text that says why; None if the claim is lost."""
    if n_labels < LEAST_LABELS:
        return "a model with one label has nothing to tell right from wrong"
    if not len(block.labels):
        return "no feedback yet"
    refused = refusals(block.labels, block.feedback)
    if refused:
        return "; ".join(doubt.text for doubt in refused)
    progress.share = READ
    try:
        # Seconds and hundreds of megabytes: not for a block that was refused.
        from learners.noise.nrest import NREst  # noqa: PLC0415
    except ImportError as error:
        return f"torch is not installed ({error.name}): install misclick[noise]"
    progress.share = LOADED
    network = NREst(n_labels, seed=number, time_limit_s=settings.estimate_timeout_s)
    try:
        examples = block.xs, block.labels, block.feedback
        return network.estimate(*examples, cancelled=lost.is_set, progress=progress.train).estimate
    except CancelledError:
        return None


def result_of(
    found: NoiseEstimate | str, number: int, labels: list[str], examples: int, took_s: float
) -> Estimate:
    """Return an estimate as it is stored and reported."""
    now_ms = round(time.time() * 1000)
    if isinstance(found, str):
        return Estimate(number, now_ms, took_s, examples, False, found)
    reading = found.reading
    if reading is None:
        return Estimate(number, now_ms, took_s, examples, False, found.verdict)
    by_label = [
        LabelRates(
            label,
            float(reading.label_rho_0[code]),
            float(reading.label_rho_1[code]),
            float(reading.label_rho_0_error[code]),
            float(reading.label_rho_1_error[code]),
            int(found.shown[code]),
        )
        for code, label in enumerate(labels)
    ]
    return Estimate(
        number,
        now_ms,
        took_s,
        examples,
        found.trusted,
        found.verdict,
        reading.rho_0,
        reading.rho_1,
        reading.rho_0_error,
        reading.rho_1_error,
        reading.labels_differ,
        by_label,
        found.histogram.tolist(),
    )


def record_of(result: Estimate) -> bytes:
    """Return the rates event that a trusted estimate becomes; nothing for another."""
    if not result.trusted or result.rho_0 is None or result.rho_1 is None:
        return b""
    each = RatesByLabel(
        [label.rho_0 for label in result.by_label],
        [label.rho_1 for label in result.by_label],
        [label.rho_0_error for label in result.by_label],
        [label.rho_1_error for label in result.by_label],
    )
    errors = None
    if not (result.labels_differ or result.rho_0_error is None or result.rho_1_error is None):
        errors = (result.rho_0_error, result.rho_1_error)
    return msgspec.json.encode(Rates(result.rho_0, result.rho_1, each, errors))


if __name__ == "__main__":
    sys.exit(main())
