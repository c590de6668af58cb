"""When a call is tried again, and after how long: pure."""

from __future__ import annotations

from dataclasses import dataclass

from clients.errors import InputError

#: 429: the service is over a limit for a moment. 503: its store is down or full for a moment.
RETRIED_STATUSES = frozenset({429, 503})
#: A nanosecond becomes centuries; 2 to the power of 1,024 is no float any more.
MOST_DOUBLINGS = 64


@dataclass(frozen=True, kw_only=True)
class Retries:
    """Bounded retries: exponential backoff with full jitter, or what the service asks for.

    A call is tried again after a broken connection, a timeout, 429 and 503, and where a proxy in
    between answers so, or that it got no answer (502, 504). That is safe because such calls are
    idempotent: the client sends the same request id again, and a decision id takes one feedback. An
    import, an export and a relearn are not tried again.

    With the defaults a call whose connections are refused fails within 1.5 s: whoever waits for a
    page has no use for a later answer. A restart of the service takes longer. To outlast it, as a
    batch job should, take `Retries(tries=14)`: 21 s of waiting on average, 41 s at most, and 10 s
    or more in 99.7 % of calls.

    A service that hangs is waited for in each try: with the defaults, 5 times 10 s. A page that
    cannot wait so long takes a client with a `timeout_s` of half a second, say.

    Parameters
    ----------
    tries
        How often a call is sent at most, at least 1; 1 means never again.
    base_s
        Seconds of the first wait at most; each later one is up to twice as long.
    longest_s
        Seconds that one wait lasts at most. Where the service asks for more
        (`Retry-After`), the error is raised instead.

    Raises
    ------
    InputError
        `tries` is below 1, or a time is negative.

    Examples
    --------
    >>> retries = Retries(tries=3, base_s=0.1)
    >>> [retries.wait_s(tried, retry_after_s=None, uniform=0.5) for tried in (1, 2, 3)]
    [0.05, 0.1, None]

    How long the defaults wait at most in all, and the more patient ones on average:

    >>> sum(0.1 * 2**n for n in range(RETRIES.tries - 1))
    1.5
    >>> patient = Retries(tries=14)
    >>> sum(patient.wait_s(n, retry_after_s=None, uniform=0.5) for n in range(1, 14))
    20.65
    """

    tries: int = 5
    base_s: float = 0.1
    longest_s: float = 5.0

    def __post_init__(self) -> None:
        if self.tries < 1:
            raise InputError(f"tries: expected at least 1, got {self.tries!r}")
        for name in ("base_s", "longest_s"):
            if not getattr(self, name) >= 0:
                raise InputError(f"{name}: expected at least 0, got {getattr(self, name)!r}")

    def wait_s(self, tried: int, *, retry_after_s: float | None, uniform: float) -> float | None:
        """Return the seconds to wait after `tried` tries, or None to give up.

        Parameters
        ----------
        tried
            How often the call was sent, at least 1.
        retry_after_s
            What the service asked for; jitter is added, so that the clients
            that it turned away together do not come back together.
        uniform
            A number in [0, 1) that places the wait.
        """
        if tried >= self.tries:
            return None
        doublings = min(tried - 1, MOST_DOUBLINGS)
        jitter_s = uniform * min(self.longest_s, self.base_s * 2**doublings)
        if retry_after_s is None:
            return float(jitter_s)
        return None if retry_after_s > self.longest_s else retry_after_s + jitter_s


#: What a client does by default.
RETRIES = Retries()
