"""What uvicorn loads in each worker process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading

from service.app import create_app
from service.edge import Edge
from service.logs import configure
from service.settings import Settings


def app() -> Edge:
    """Return the app of this worker, with the settings of the environment."""
    settings = Settings()
    configure(settings.log_level)
    _end_with_parent()
    return create_app(settings)


def _end_with_parent() -> None:
    """Stop this worker when the process that started it is gone, even by kill -9."""
    parent = multiprocessing.parent_process()
    if parent is not None:

        def wait() -> None:
            parent.join()
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=wait, name="parent", daemon=True).start()
