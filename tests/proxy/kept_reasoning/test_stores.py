"""Stores of kept reasoning: Redis and the memory of the process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr

from tests.support.servers.redis_server import RedisServer
from toolgate_proxy.kept_reasoning.stores import MemoryReasoning, ReasoningStore, RedisReasoning
from toolgate_proxy.settings import Settings


@pytest.fixture(params=["redis", "memory"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[ReasoningStore]:
    made: ReasoningStore
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("redis_at_hand")
        made = RedisReasoning(Settings(redis_url=SecretStr(server.url), redis_timeout=2))
    else:
        made = MemoryReasoning()
    yield made
    await made.aclose()


async def test_values_are_found_by_name(store: ReasoningStore) -> None:
    await store.put({"a": b"1", "b": b"2"})
    assert await store.get(["b", "none", "a"]) == [b"2", None, b"1"]


async def test_a_value_is_replaced(store: ReasoningStore) -> None:
    await store.put({"a": b"1"})
    await store.put({"a": b"2"})
    assert await store.get(["a"]) == [b"2"]


async def test_values_expire() -> None:
    store = MemoryReasoning()
    store._life = 0.01
    await store.put({"a": b"1"})
    await asyncio.sleep(0.02)
    assert await store.get(["a"]) == [None]


async def test_values_in_redis_expire(redis_at_hand: RedisServer) -> None:
    store = RedisReasoning(Settings(redis_url=SecretStr(redis_at_hand.url), redis_timeout=2))
    await store.put({"a": b"1"})
    assert 0 < redis_at_hand.client.pttl("toolgate:reasoning:a") <= 86_400_000
    await store.aclose()


async def test_memory_drops_the_least_recently_used() -> None:
    store = MemoryReasoning(most=3)
    await store.put({"a": b"1", "b": b"2", "c": b"3"})
    await store.get(["a"])
    await store.put({"d": b"4"})
    assert await store.get(["a", "b", "c", "d"]) == [b"1", None, b"3", b"4"]


async def test_without_redis_nothing_is_found_and_nothing_fails() -> None:
    store = RedisReasoning(Settings(redis_url=SecretStr("redis://127.0.0.1:9")))
    await store.put({"a": b"1"})
    assert await store.get(["a", "b"]) == [None, None]
    await store.aclose()
