"""What commands have in common: the way to a service, how they end, how they read a learner."""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import msgspec

from clients import Client, InputError, Retries, UnauthorizedError
from clients.retries import RETRIES

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 - its only name

#: Holds the API key for `--url`; a command line can be read by every user of the machine.
API_KEY_VARIABLE = "MISCLICK_API_KEY"
#: A service that restarts must not end hours of replay, or the wait for an estimate.
PATIENT = Retries(tries=14)
#: The exit status that shells report for a process that Ctrl-C ended.
INTERRUPTED = 130
#: Seconds to wait for a loop's next turn. A turn takes longer where a service does not answer, or
#: thousands of rounds are decided at once.
TURN_S = 1


def client_of(url: str, retries: Retries = RETRIES) -> Client:
    """Return a client with the API key that the environment holds, if any."""
    return Client(url, api_key=os.environ.get(API_KEY_VARIABLE) or None, retries=retries)


def ended(command: str, error: BaseException, *, stopped: str = "stopped") -> int:
    """Say in a line on standard error why a command ends early; return its exit status.

    Parameters
    ----------
    command
        Its name.
    error
        What ended it.
    stopped
        What to say of Ctrl-C.

    Raises
    ------
    BrokenPipeError
        If that ended it: nobody reads any more, and `misclick` ends as other programs do then.
    """
    if isinstance(error, BrokenPipeError):
        raise error
    interrupted = isinstance(error, KeyboardInterrupt)
    said = stopped if interrupted else str(error)
    if isinstance(error, UnauthorizedError):
        said += f" (this command reads it from {API_KEY_VARIABLE})"
    print(f"misclick {command}: {said}", file=sys.stderr)
    return INTERRUPTED if interrupted else 2


@contextmanager
def ending_in_order() -> Iterator[Callable[[], None]]:
    """Treat a request to end, and a closed terminal, like Ctrl-C: clean up, then go.

    But a closed terminal does not matter to what was started with `nohup`. Yields what a long loop
    has to call in each of its turns: the interrupt is raised there. Raised anywhere, it could get
    lost in a finalizer, or leave something half done; so it is only where no turn comes for a
    while, or somebody asks again.
    """
    asked = False

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        signal.alarm(TURN_S)

    def end_if_asked() -> None:
        if asked:
            signal.alarm(0)
            raise KeyboardInterrupt

    # Ctrl-C too: whoever started this in the background may have had it ignored.
    kinds = [signal.SIGINT, signal.SIGTERM, signal.SIGALRM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        kinds.append(signal.SIGHUP)
    before = {kind: signal.signal(kind, interrupt) for kind in kinds}
    try:
        yield end_if_asked
    finally:
        signal.alarm(0)
        for kind, handler in before.items():
            signal.signal(kind, handler)


def parse_learner(text: str) -> dict[str, Any]:
    """Read a learner: its kind and options, or a JSON object with both.

    Examples
    --------
    >>> parse_learner("rcnbf:gamma=.1,rho_0=0.2,rho_1=.4")
    {'kind': 'rcnbf', 'gamma': 0.1, 'rho_0': 0.2, 'rho_1': 0.4}
    >>> parse_learner('{"kind": "soba", "matrix": "full"}')
    {'kind': 'soba', 'matrix': 'full'}
    """
    if text.startswith("{"):
        try:
            return msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise InputError(f"--learner: expected a JSON object: {error}") from None
    kind, _, options = text.partition(":")
    learner: dict[str, Any] = {"kind": kind}
    for option in filter(None, options.split(",")):
        name, equals, value = option.partition("=")
        if not equals:
            raise InputError(f"--learner: expected KIND:OPTION=VALUE,..., got {text!r}")
        if name in learner:
            raise InputError(f"--learner: expected {name} once, got {text!r}")
        learner[name] = _value(value)
    return learner


def _value(text: str) -> bool | int | float | str:
    """Read an option: true or false, a number, or else a word."""
    if text in ("true", "false"):
        return text == "true"
    for number in (int, float):
        try:
            value = number(text)
        except ValueError:
            continue
        # JSON has no NaN or infinity; as a word it is refused by its name.
        return value if math.isfinite(value) else text
    return text
