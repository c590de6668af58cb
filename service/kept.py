"""Records that this worker has written to Redis, so that Redis need not send them back."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

#: Bytes of records: some 5,000 decisions of 784 features, 20,000 of 64.
MOST_BYTES: Final = 16 * 2**20
#: What a record costs beyond its bytes.
_OVERHEAD_BYTES: Final = 512


class KeptRecords:
    """Holds the newest records, up to a number of bytes; each is given out once.

    It may forget records, and hold outdated ones: whoever uses a record checks it by the chain of
    the log.

    Parameters
    ----------
    most_bytes
        How much is held.

    Examples
    --------
    >>> kept = KeptRecords()
    >>> kept.keep("model", b"nonce", b"record")
    >>> kept.take("model", b"nonce"), kept.take("model", b"nonce")
    (b'record', None)
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._records: OrderedDict[tuple[str, bytes], bytes] = OrderedDict()
        self._bytes = 0

    def keep(self, uid: str, nonce: bytes, record: bytes) -> None:
        """Hold the record of a decision; the oldest ones go where there is no room."""
        self.take(uid, nonce)
        self._records[uid, nonce] = record
        self._bytes += len(record) + _OVERHEAD_BYTES
        while self._bytes > self._most_bytes:
            _, oldest = self._records.popitem(last=False)
            self._bytes -= len(oldest) + _OVERHEAD_BYTES

    def take(self, uid: str, nonce: bytes) -> bytes | None:
        """Return the record of a decision and hold it no longer; None if it is not held."""
        record = self._records.pop((uid, nonce), None)
        if record is not None:
            self._bytes -= len(record) + _OVERHEAD_BYTES
        return record
