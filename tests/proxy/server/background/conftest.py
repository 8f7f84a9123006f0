"""A gateway with Redis, and what its scripted backend says."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.litellm.own_route import Gateway
from tests.support.servers.redis_server import RedisServer, response_store
from tests.support.servers.script import Script, call
from toolgate_proxy.server.background.run import stop_all

TEXT = f"<think>Let me look around</think>Hello there, friend{call('look', {})}"


@pytest.fixture
async def gateway(gateway: Gateway, redis_at_hand: RedisServer) -> AsyncIterator[Gateway]:
    gateway.here.responses = response_store(redis_at_hand)
    yield gateway
    await stop_all()


@pytest.fixture
def script(gateway: Gateway) -> Script:
    """Waits in the middle, until `hang_after` is None."""
    made = gateway.backend.scripts["wait"] = Script((TEXT,), hang_after=12, pause=0.01)
    return made
