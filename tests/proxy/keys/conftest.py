"""A gateway's key cache that follows a Redis server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import SecretStr

from tests.support.servers.gateway_process import KEY_SECRET
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.virtual_keys import HASHER
from toolgate_core.errors import InvalidKey, KeysUnavailable
from toolgate_proxy.keys.cache import KeyCache
from toolgate_proxy.keys.sync import KeySync
from toolgate_proxy.settings import Settings


@pytest.fixture
async def key_sync(redis_at_hand: RedisServer) -> AsyncIterator[KeySync]:
    made = key_sync_of(redis_at_hand)
    await made.started()
    yield made
    await made.aclose()


def key_sync_of(redis: RedisServer | None, grace: float = 300.0, **more: Any) -> KeySync:
    url = SecretStr(redis.url) if redis else None
    settings = Settings(redis_url=url, key_secret=SecretStr(KEY_SECRET), **more)
    return KeySync(KeyCache(HASHER, grace), HASHER, settings, poll=0.02)


def finds(key_cache: KeyCache, sent: str) -> bool:
    try:
        return bool(key_cache.find(sent))
    except (InvalidKey, KeysUnavailable):
        return False
