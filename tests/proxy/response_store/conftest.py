"""Stores of two gateways over one Redis, and a store in memory."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pydantic import SecretStr

from tests.support.servers.redis_server import RedisServer
from toolgate_proxy.response_store import memory_store, redis_store
from toolgate_proxy.response_store.record import StoredResponse
from toolgate_proxy.response_store.store import ResponseStore
from toolgate_proxy.sealing import Sealer
from toolgate_proxy.settings import Settings

SECRET = "a-secret-of-the-fleet"
OWNER = "key:key_a"
NOW = int(time.time())
MakeStore = Callable[..., ResponseStore]


def response(name: str, previous: str | None = None, text: str = "Hello") -> StoredResponse:
    body = {"id": name, "output": [{"type": "message", "content": text}]}
    return StoredResponse(
        name, body, [{"role": "user", "content": f"question {name}"}], previous, NOW
    )


@pytest.fixture(params=["redis", "memory"])
async def make_store(
    request: pytest.FixtureRequest, redis_at_hand: RedisServer
) -> AsyncIterator[MakeStore]:
    """Makes stores of one fleet. In memory, there is one process."""
    made: list[ResponseStore] = []

    def make(**more: Any) -> ResponseStore:
        url = SecretStr(redis_at_hand.url) if request.param == "redis" else None
        settings = Settings(fleet_secret=SecretStr(SECRET), redis_url=url, **more)
        if url is None and made:
            return made[0]
        made.append(ResponseStore.from_settings(settings, Sealer.from_settings(settings)))
        return made[-1]

    yield make
    for store in made:
        await store.aclose()


@pytest.fixture
def small_responses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Responses have at most 500 bytes."""
    for module in (memory_store, redis_store):
        monkeypatch.setattr(module, "RESPONSE_MAX_BYTES", 500)


@pytest.fixture
async def store(make_store: MakeStore) -> ResponseStore:
    return make_store()
