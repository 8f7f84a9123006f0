"""The counters in Redis and in memory: they agree, and no limit is exceeded."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st
from pydantic import SecretStr

from tests.support.effort import repeats
from tests.support.servers.limit_counters import LIMITS, WINDOW, in_redis, refused, request, update
from tests.support.servers.redis_server import RedisServer
from toolgate_proxy.keys.limit_kinds import DAY, IN_FLIGHT, KINDS, REQUESTS, SLICES, LimitKind
from toolgate_proxy.limits import redis_counter
from toolgate_proxy.limits.counter import (
    AdmissionRequest,
    AdmissionResult,
    Change,
    UsageUpdate,
)
from toolgate_proxy.limits.memory_counter import MemoryCounter
from toolgate_proxy.limits.redis_counter import RedisCounter
from toolgate_proxy.redis_client import SharedRedis

SLICE = WINDOW // SLICES
BEGIN = 1_795_000_000_000
"""Milliseconds since 1970."""

DAY_MS = DAY.milliseconds
BY_NAME = {kind.name: kind for kind in KINDS}
MORE_KINDS = (
    LimitKind(name="requests_per_day", unit=REQUESTS, window=DAY),
    LimitKind(name="parallel_again", unit=REQUESTS, window=IN_FLIGHT),
)
"""Further kinds, which the counters support without any change."""


@pytest.fixture
def redis_clock(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> RedisServer:
    """The scripts read the time from a list, which the test sets."""
    for script in (redis_counter.ADMIT, redis_counter.UPDATE):
        text = script._text.replace("redis.call('TIME')", "redis.call('LRANGE', 'clock', 0, 1)")
        assert text != script._text
        monkeypatch.setattr(script, "_text", text)
        monkeypatch.setattr(script, "_sha", "0" * 40)
    return redis


class Clock:
    def __init__(self) -> None:
        self.now = BEGIN

    def __call__(self) -> float:
        return self.now / 1000

    def write_to(self, redis: RedisServer) -> None:
        client = redis.client
        client.delete("clock")
        client.rpush("clock", self.now // 1000, self.now % 1000 * 1000)


def used(result: AdmissionResult) -> dict[str, int]:
    return {name: usage.used for name, usage in result.usage.items()}


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.integers(0, 2 * WINDOW)),
        st.tuples(st.just("wait"), st.integers(0, 2 * DAY_MS)),
        st.tuples(st.just("admit"), st.integers(0, 120)),
        st.tuples(st.just("end"), st.integers(-30, 60)),
    ),
    max_size=40,
)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kinds", [KINDS, KINDS + MORE_KINDS])
@hypothesis(
    max_examples=repeats(20, nightly=60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(actions=ACTIONS)
def test_redis_and_memory_counters_return_the_same_results(
    redis_clock: RedisServer, kinds: tuple[LimitKind, ...], actions: list[tuple[str, int]]
) -> None:
    limits = {**LIMITS, "requests_per_day": 7, "parallel_again": 4}

    async def run() -> None:
        redis_clock.client.flushall()
        clock = Clock()
        redis = SharedRedis(SecretStr(redis_clock.url), 5.0)
        counters = (RedisCounter(redis, 10 * 86_400), MemoryCounter(clock))
        running: list[tuple[AdmissionRequest, AdmissionResult]] = []
        for at, (action, number) in enumerate(actions):
            clock.write_to(redis_clock)
            if action == "wait":
                clock.now += number
            elif action == "admit":
                admitted = request(at, number, limits, kinds)
                results = [await counter.admit(admitted) for counter in counters]
                assert results[0] == results[1]
                if results[0].refused is None:
                    running.append((admitted, results[0]))
            elif running:
                admitted, result = running.pop(0)
                reserved = next(c.amount for c in admitted.costs if c.kind.name == "tpm")
                for counter in counters:
                    await counter.update(update(admitted, result, max(number, -reserved)))
        await redis.aclose()

    asyncio.run(run())


@hypothesis(max_examples=repeats(66, nightly=200), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1500), st.integers(1, 60)), max_size=60))
def test_no_window_exceeds_the_limit(steps: list[tuple[int, int]]) -> None:
    """A refused request exceeds a limit, and is admitted after the returned wait."""
    clock, limits = Clock(), {"rpm": 5, "tpm": 100}
    counter = MemoryCounter(clock)
    admitted: list[tuple[int, int]] = []

    async def run() -> None:
        for at, (pause, tokens) in enumerate(steps):
            clock.now += pause
            result = await counter.admit(request(at, tokens, limits))
            if result.refused is not None:
                recent = [t for when, t in admitted if when > clock.now - WINDOW - SLICE]
                assert len(recent) + 1 > 5 or sum(recent) + tokens > 100
                clock.now += result.wait_ms
                result = await counter.admit(request(at, tokens, limits))
                if result.refused is not None:  # the other limit, after the first
                    clock.now += result.wait_ms
                    result = await counter.admit(request(at, tokens, limits))
                assert result.refused is None
            admitted.append((clock.now, tokens))
            window = [t for when, t in admitted if when > clock.now - WINDOW]
            assert len(window) <= 5
            assert sum(window) <= 100

    asyncio.run(run())


@pytest.fixture(params=["redis", "memory"])
def counter(request: pytest.FixtureRequest, redis: RedisServer) -> Any:
    redis.client.flushall()
    return in_redis(redis) if request.param == "redis" else MemoryCounter()


async def test_a_refused_request_is_not_counted(counter: Any) -> None:
    big = await counter.admit(request(1, 101))
    assert (refused(big), big.wait_ms) == ("tpm", -1)
    for at in range(3):
        assert (await counter.admit(request(at, 10))).refused is None
    full = await counter.admit(request(4, 10))
    assert (refused(full), full.wait_ms) == ("max_parallel_requests", 0)
    assert used(full) == {"rpm": 3, "tpm": 30, "max_parallel_requests": 3, "tokens_per_day": 30}


async def test_tokens_beyond_the_reservation_are_charged(counter: Any) -> None:
    """A response that has begun is not cut off; the next request is refused."""
    first = request(1, 10)
    result = await counter.admit(first)
    await counter.update(update(first, result, 140, ended=False))
    after = await counter.admit(request(2, 1))
    assert refused(after) == "tpm"
    assert used(after)["tpm"] == 150
    assert used(after)["max_parallel_requests"] == 1
    assert 0 < after.wait_ms <= WINDOW + SLICE


async def test_what_was_counted_later_than_the_reservation_is_returned(
    redis_clock: RedisServer,
) -> None:
    """It is in another slice of the window than the reservation, to which all is returned."""
    redis_clock.client.flushall()
    clock = Clock()
    connection = SharedRedis(SecretStr(redis_clock.url), 5.0)
    for counter in (RedisCounter(connection, 3600), MemoryCounter(clock)):
        first = request(1, 10)
        clock.write_to(redis_clock)
        result = await counter.admit(first)
        clock.now += 3 * SLICE
        clock.write_to(redis_clock)
        await counter.update(update(first, result, 30, ended=False))
        await counter.update(update(first, result, -35))
        after = await counter.admit(request(2, 1))
        assert used(after)["tpm"] == used(after)["tokens_per_day"] == 6


@pytest.mark.parametrize("name", ["tokens_per_day", "requests_per_day"])
async def test_a_limit_per_day_resets_at_midnight_utc(counter: Any, name: str) -> None:
    limits = {name: 100 if name == "tokens_per_day" else 1}
    kinds = KINDS + MORE_KINDS
    assert (await counter.admit(request(1, 100, limits, kinds))).refused is None
    after = await counter.admit(request(2, 1, limits, kinds))
    assert refused(after) == name
    midnight = DAY_MS - time.time() * 1000 % DAY_MS
    assert abs(after.wait_ms - midnight) < 60_000
    assert abs(after.usage[name].reset_ms - midnight) < 60_000


async def test_keys_without_limits_are_counted_per_day_only(redis_clock: RedisServer) -> None:
    redis_clock.client.flushall()
    clock = Clock()
    connection = SharedRedis(SecretStr(redis_clock.url), 5.0)
    memory = MemoryCounter(clock)
    kind, day = BY_NAME["tokens_per_day"], BEGIN // DAY_MS
    for at in range(5):
        clock.write_to(redis_clock)
        change = Change(kind, 7, day + at)
        for counter in (RedisCounter(connection, 3600), memory):
            await counter.update(UsageUpdate("key_1", f"r{at}", (change,), True))
        clock.now += DAY_MS
    stored = redis_clock.client.hgetall("toolgate:limit:{key_1}:days")
    assert int(stored.pop(b"last")) == clock.now - DAY_MS
    days = {int(each): int(tokens) for each, tokens in stored.items()}
    counters: Any = memory._keys["key_1"]
    assert days == counters["tokens_per_day"].counts == {day + 3: 7, day + 4: 7}
    assert redis_clock.client.keys("toolgate:limit:*") == [b"toolgate:limit:{key_1}:days"]
    assert counters.keys() == {"tokens_per_day"}
    await connection.aclose()
