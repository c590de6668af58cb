"""Starts the processes that estimate noise rates, one at a time in each worker."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from functools import partial

from service.challengers import rate_kinds
from service.estimates import CLAIM_LOST, LEASE_MS, MOST_TRIES, Claim, Estimates
from service.host import Host
from service.replica import Replica
from service.settings import ENV_PREFIX, Settings

log = logging.getLogger("misclick.estimator")

#: How often a worker checks whether an estimate is due.
ESTIMATE_S = 1.0
#: A trainer that has not ended by itself this long after its time limit is killed.
GRACE_S = LEASE_MS / 1000 + 15.0
#: How often to check whether a trainer has ended.
POLL_S = 0.05
#: How long a trainer gets to end when the worker is stopped.
STOP_S = 2.0


class Estimator:
    """Claims due estimates of this worker's models and starts a process for each."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def look(self) -> None:
        """Make the estimates that are due, one after the other."""
        for replica in self._host.replicas:
            await self._host.alone(replica, partial(self._look, replica))

    async def _look(self, replica: Replica) -> None:
        kinds = rate_kinds(replica.fold.contest.named)
        if not kinds:
            return
        estimates = Estimates(self._host.store, replica.address)
        after = replica.spec.estimate_after(kinds)
        claim = await estimates.claim(after, replica.fold.drift_seq)
        if claim is None:
            return
        if claim.tries > MOST_TRIES:
            await estimates.give_up(claim)
        else:
            await self._train(replica, claim)

    async def _train(self, replica: Replica, claim: Claim) -> None:
        settings = self._host.settings
        process = start_trainer(settings, replica, claim)
        try:
            async with asyncio.timeout(settings.estimate_timeout_s + GRACE_S):
                status = await _ended(process)
            if status not in (0, CLAIM_LOST):
                log.warning("a trainer failed", extra={"model": replica.key, "status": status})
        except TimeoutError:
            log.warning("a trainer took too long", extra={"model": replica.key})
        finally:
            await _end(process)


def start_trainer(settings: Settings, replica: Replica, claim: Claim) -> subprocess.Popen[bytes]:
    """Start the process that makes a claimed estimate."""
    # Not asyncio's: on uvloop a child inherits the listening socket, and then nobody can listen
    # there while a trainer outlives its worker.
    about = (replica.key, replica.address.uid, claim.token, str(claim.number))
    return subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "service.trainer", *about],
        stdin=subprocess.DEVNULL,
        env=trainer_environment(settings),
    )


async def _ended(process: subprocess.Popen[bytes]) -> int:
    while (status := process.poll()) is None:  # noqa: ASYNC110 - nobody tells of its end
        await asyncio.sleep(POLL_S)
    return status


async def _end(process: subprocess.Popen[bytes]) -> None:
    """Stop a trainer, by force if need be: whoever cancels does not wait for long."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(STOP_S):
            await _ended(process)
    except TimeoutError:
        log.warning("a trainer had to be killed")
    finally:
        process.kill()
        process.wait()


def trainer_environment(settings: Settings) -> dict[str, str]:
    """Return what a trainer needs to find the store; secrets pass through the environment."""
    return {
        **os.environ,
        f"{ENV_PREFIX}REDIS_URL": settings.store_url(),
        f"{ENV_PREFIX}REDIS_TIMEOUT_S": str(settings.redis_timeout_s),
        f"{ENV_PREFIX}ESTIMATE_TIMEOUT_S": str(settings.estimate_timeout_s),
        f"{ENV_PREFIX}LOG_LEVEL": settings.log_level,
        # One thread: the rest of the machine answers requests.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
