"""`misclick` on a tether: it ends when whoever started it has ended, even by kill -9.

`python -m service.tether serve ...` is for a starter that holds the other end of its standard
input: the kernel closes that end with the starter, however it ends.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from service import cli

STDIN = 0
#: What comes is thrown away; only its end matters.
READ_BYTES = 4096


def main() -> int:
    """Run a command of `misclick` until it ends, or standard input does."""
    threading.Thread(target=_end_with_input, name="tether", daemon=True).start()
    return cli.main()


def _end_with_input() -> None:
    while os.read(STDIN, READ_BYTES):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
