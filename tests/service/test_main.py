"""The service as an operator starts and stops it."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest

from tests.serving import Service


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_takes_the_store_along(tmp_path: Path, kind: signal.Signals, workers: int) -> None:
    """Protects from a store that outlives its service: it is gone before the service is."""
    service = Service(data_dir=tmp_path / "data", workers=workers)
    try:
        service.wait_until_ready()
        family = psutil.Process(service.pid).children(recursive=True)
        assert any("valkey" in child.name() for child in family)
        service.process.send_signal(kind)
        assert service.process.wait(30) == 0
        left = [child for child in family if child.is_running()]
        assert not [child for child in left if child.status() != psutil.STATUS_ZOMBIE]
        assert not (tmp_path / "data" / "valkey.pid").exists()
        assert "Traceback" not in service.log.read_text()
    finally:
        service.stop()
