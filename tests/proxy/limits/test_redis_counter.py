"""Counting in Redis: many clients at once, leases, and a Redis that is full or down."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.servers.limit_counters import in_redis, refused, request, update
from tests.support.servers.redis_server import RedisServer
from toolgate_proxy.limits.counter import Unavailable


async def test_concurrent_requests_are_counted_exactly(redis: RedisServer) -> None:
    """Two connections stand for two gateways."""
    redis.client.flushall()
    limits = {"rpm": 150, "tpm": 1000, "max_parallel_requests": 120}
    counters = (in_redis(redis), in_redis(redis))
    results = await asyncio.gather(
        *(counters[at % 2].admit(request(at, 10, limits, short=False)) for at in range(400))
    )
    assert sum(each.refused is None for each in results) == 100
    assert {refused(each) for each in results} == {None, "tpm"}


async def test_a_lease_that_is_not_renewed_expires(redis: RedisServer) -> None:
    redis.client.flushall()
    limits = {"max_parallel_requests": 1}
    counter = in_redis(redis, lease=1.2)
    first = request(1, 1, limits)
    result = await counter.admit(first)
    for _ in range(10):
        await asyncio.sleep(0.2)
        await counter.update(update(first, result, 0, ended=False))
        assert refused(await counter.admit(request(2, 1, limits))) == "max_parallel_requests"
    async with asyncio.timeout(5):
        while (await counter.admit(request(3, 1, limits))).refused:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_counting_continues_when_redis_is_out_of_memory(redis_at_hand: RedisServer) -> None:
    """Redis refuses commands that need memory only if the script has not written yet."""
    counter, client = in_redis(redis_at_hand), redis_at_hand.client
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", 1)
    results = [await counter.admit(request(at, 1, {"rpm": 2})) for at in range(3)]
    assert [refused(each) for each in results] == [None, None, "rpm"]


async def test_corrections_count_when_redis_is_out_of_memory(redis_at_hand: RedisServer) -> None:
    counter, client = in_redis(redis_at_hand), redis_at_hand.client
    client.config_set("maxmemory-policy", "noeviction")
    first = request(1, 90, {"tpm": 100})
    result = await counter.admit(first)
    client.config_set("maxmemory", 1)
    await counter.update(update(first, result, -80))
    assert refused(await counter.admit(request(2, 90, {"tpm": 100}))) is None
    assert refused(await counter.admit(request(3, 1, {"tpm": 100}))) == "tpm"


async def test_a_stopped_redis_raises_unavailable(redis_at_hand: RedisServer) -> None:
    counter = in_redis(redis_at_hand)
    redis_at_hand.kill()
    with pytest.raises(Unavailable):
        await counter.admit(request(1))


async def test_redis_key_names_of_counters_are_stable(redis: RedisServer) -> None:
    """Gateways of different versions share the counters."""
    redis.client.flushall()
    await in_redis(redis).admit(request(1, 10))
    stored = {key.decode() for key in redis.client.keys("*")}
    assert stored == {
        f"toolgate:limit:{{key_1}}:{name}" for name in ("requests", "tokens", "leases", "days")
    }
