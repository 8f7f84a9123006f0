"""One Redis server for the tests of a module; each test empties it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.servers.redis_server import RedisServer, redis_server


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server
