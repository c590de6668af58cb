"""What uvicorn loads in each worker process."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import signal
import sys
import threading

from service.app import create_app
from service.edge import Edge
from service.logs import configure
from service.metrics import take_place
from service.settings import Settings

log = logging.getLogger("misclick.worker")

#: Objects that may come before the collector looks at the young ones, and how many times it does
#: before it looks at the older ones. The default, 700, is reached by every other request.
COLLECT_AFTER = (50_000, 20, 50)


def app() -> Edge:
    """Return the app of this worker, with the settings of the environment."""
    settings = Settings()
    configure(settings.log_level)
    _end_with_parent()
    take_place()
    try:
        application = create_app(settings)
    except (OSError, ValueError) as error:
        # A file of keys that was changed before a restart, say: one line, as all others.
        log.error("this worker cannot start", extra={"why": str(error)})
        sys.exit(1)
    _collect_rarely()
    return application


def _collect_rarely() -> None:
    """Keep the collector of cycles from looking at everything again and again.

    A batch makes a hundred thousand objects, nearly all of them without cycles: they are freed
    as soon as they are let go. (Measured: a third more items a second.) A start leaves no
    garbage that would be worth the time of collecting it.
    """
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


def _end_with_parent() -> None:
    """Stop this worker when the process that started it is gone, even by kill -9."""
    parent = multiprocessing.parent_process()
    if parent is not None:

        def wait() -> None:
            parent.join()
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=wait, name="parent", daemon=True).start()
