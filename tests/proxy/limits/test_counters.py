"""Counting by Redis' scripts and by Python: each is held to the other, both to what limits mean."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st
from pydantic import SecretStr

from tests.support.redis_server import RedisServer, redis_server
from toolgate_proxy.keys.key import Limits
from toolgate_proxy.limits import redis_counter
from toolgate_proxy.limits.counter import (
    DAY_MS,
    SLICES,
    AdmissionRequest,
    AdmissionResult,
    Unavailable,
    UsageUpdate,
)
from toolgate_proxy.limits.memory_counter import MemoryCounter
from toolgate_proxy.limits.redis_counter import RedisCounter
from toolgate_proxy.redis.client import SharedRedis

WINDOW = 6_000
SLICE = WINDOW // SLICES
BEGIN = 1_795_000_000_000
"""Milliseconds since 1970; a little before a midnight would do as well."""
LIMITS = Limits(rpm=5, tpm=100, max_parallel_requests=3, tokens_per_day=400)


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture
def redis_clock(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> RedisServer:
    """The scripts read the time from a list, which the test sets."""
    for script in (redis_counter.ADMIT, redis_counter.NOTE):
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

    def tell(self, redis: RedisServer) -> None:
        client = redis.client
        client.delete("clock")
        client.rpush("clock", self.now // 1000, self.now % 1000 * 1000)


def ask(at: int, tokens: int = 1, limits: Limits = LIMITS) -> AdmissionRequest:
    return AdmissionRequest("key_1", limits, f"r{at}", tokens)


def shared(redis: RedisServer, window: int = WINDOW, lease: float = 3600) -> RedisCounter:
    return RedisCounter(SharedRedis(SecretStr(redis.url), 5.0), lease, window)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.integers(0, 2 * WINDOW)),
        st.tuples(st.just("ask"), st.integers(0, 120)),
        st.tuples(st.just("end"), st.integers(-30, 60)),
    ),
    max_size=40,
)


@hypothesis(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(ACTIONS)
def test_redis_and_python_count_alike(
    redis_clock: RedisServer, actions: list[tuple[str, int]]
) -> None:
    async def run() -> None:
        redis_clock.client.flushall()
        clock = Clock()
        redis = SharedRedis(SecretStr(redis_clock.url), 5.0)
        counters = (RedisCounter(redis, 3600, WINDOW), MemoryCounter(WINDOW, clock))
        running: list[tuple[AdmissionRequest, AdmissionResult]] = []
        for at, (action, number) in enumerate(actions):
            clock.tell(redis_clock)
            if action == "wait":
                clock.now += number
            elif action == "ask":
                request = ask(at, number)
                said = [await counter.admit(request) for counter in counters]
                assert said[0] == said[1]
                if said[0].refused is None:
                    running.append((request, said[0]))
            elif running:
                asked, counted = running.pop(0)
                beyond = max(number, -asked.tokens)
                note = UsageUpdate(
                    "key_1", asked.request_id, beyond, counted.slice, counted.day, True, True
                )
                for counter in counters:
                    await counter.note(note)
        await redis.aclose()

    asyncio.run(run())


@hypothesis(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1500), st.integers(1, 60)), max_size=60))
def test_no_window_holds_more_than_the_limit(steps: list[tuple[int, int]]) -> None:
    """Whatever the times at which requests come; and what is refused is let in once the wait that
    it was told is over, or was really too much."""
    clock, limits = Clock(), Limits(rpm=5, tpm=100)
    counter = MemoryCounter(WINDOW, clock)
    let_in: list[tuple[int, int]] = []

    async def run() -> None:
        for at, (pause, tokens) in enumerate(steps):
            clock.now += pause
            counted = await counter.admit(ask(at, tokens, limits))
            if counted.refused is not None:
                recent = [t for when, t in let_in if when > clock.now - WINDOW - SLICE]
                assert len(recent) + 1 > 5 or sum(recent) + tokens > 100
                clock.now += counted.wait_ms
                counted = await counter.admit(ask(at, tokens, limits))
                if counted.refused is not None:  # the other limit, after the first
                    clock.now += counted.wait_ms
                    counted = await counter.admit(ask(at, tokens, limits))
                assert counted.refused is None
            let_in.append((clock.now, tokens))
            window = [t for when, t in let_in if when > clock.now - WINDOW]
            assert len(window) <= 5
            assert sum(window) <= 100

    asyncio.run(run())


@pytest.fixture(params=["redis", "python"])
def counter(request: pytest.FixtureRequest, redis: RedisServer) -> Any:
    redis.client.flushall()
    return shared(redis) if request.param == "redis" else MemoryCounter(WINDOW)


async def test_a_refused_request_counts_nowhere(counter: Any) -> None:
    big = await counter.admit(ask(1, 101))
    assert (big.refused, big.wait_ms) == ("tokens", -1)
    for at in range(3):
        assert (await counter.admit(ask(at, 10))).refused is None
    full = await counter.admit(ask(4, 10))
    assert (full.refused, full.wait_ms) == ("parallel_requests", 0)
    assert (full.requests.used, full.tokens.used, full.parallel) == (3, 30, 3)


async def test_what_was_set_aside_and_not_used_is_given_back(counter: Any) -> None:
    counted = await counter.admit(ask(1, 90))
    assert (await counter.admit(ask(2, 20))).refused == "tokens"
    await counter.note(UsageUpdate("key_1", "r1", -60, counted.slice, counted.day, True, True))
    after = await counter.admit(ask(2, 20))
    assert (after.refused, after.tokens.used, after.tokens_today) == (None, 50, 50)
    assert after.parallel == 1


async def test_used_beyond_what_was_set_aside(counter: Any) -> None:
    """A started answer is not cut off; the next request pays."""
    counted = await counter.admit(ask(1, 10))
    await counter.note(UsageUpdate("key_1", "r1", 140, counted.slice, counted.day, True, False))
    refused = await counter.admit(ask(2, 1))
    assert (refused.refused, refused.tokens.used, refused.parallel) == ("tokens", 150, 1)
    assert 0 < refused.wait_ms <= WINDOW + SLICE


async def test_the_day(counter: Any) -> None:
    limits = Limits(tokens_per_day=100)
    assert (await counter.admit(ask(1, 100, limits))).refused is None
    refused = await counter.admit(ask(2, 1, limits))
    assert refused.refused == "tokens_per_day"
    midnight = 86_400_000 - time.time() * 1000 % 86_400_000
    assert abs(refused.wait_ms - midnight) < 60_000


async def test_many_at_once_are_counted_exactly(redis: RedisServer) -> None:
    """Two processes' worth of connections, none of them knowing of the other."""
    redis.client.flushall()
    limits = Limits(rpm=150, tpm=1000, max_parallel_requests=120)
    counters = (shared(redis, 60_000), shared(redis, 60_000))
    said = await asyncio.gather(*(counters[at % 2].admit(ask(at, 10, limits)) for at in range(400)))
    assert sum(each.refused is None for each in said) == 100
    assert {each.refused for each in said} == {None, "tokens"}


async def test_a_lease_that_nobody_renews_runs_out(redis: RedisServer) -> None:
    redis.client.flushall()
    limits = Limits(max_parallel_requests=1)
    counter = shared(redis, lease=0.4)
    counted = await counter.admit(ask(1, 1, limits))
    note = UsageUpdate("key_1", "r1", 0, counted.slice, counted.day, True, False)
    for _ in range(4):
        await asyncio.sleep(0.2)
        await counter.note(note)
        assert (await counter.admit(ask(2, 1, limits))).refused == "parallel_requests"
    async with asyncio.timeout(5):
        while (await counter.admit(ask(3, 1, limits))).refused:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_a_redis_that_is_full_still_counts(redis_at_hand: RedisServer) -> None:
    """Redis refuses what needs memory only to scripts that have written nothing yet; this has."""
    counter, client = shared(redis_at_hand), redis_at_hand.client
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", 1)
    said = [await counter.admit(ask(at, 1, Limits(rpm=2))) for at in range(3)]
    assert [each.refused for each in said] == [None, None, "requests"]


async def test_a_redis_that_is_not_there(redis_at_hand: RedisServer) -> None:
    counter = shared(redis_at_hand)
    redis_at_hand.kill()
    with pytest.raises(Unavailable):
        await counter.admit(ask(1))


async def test_keys_without_limits_leave_days_and_no_minutes(redis_clock: RedisServer) -> None:
    redis_clock.client.flushall()
    clock = Clock()
    connection = SharedRedis(SecretStr(redis_clock.url), 5.0)
    local = MemoryCounter(WINDOW, clock)
    day = BEGIN // DAY_MS
    for at in range(5):
        clock.tell(redis_clock)
        for counter in (RedisCounter(connection, 3600, WINDOW), local):
            await counter.note(UsageUpdate("key_1", f"r{at}", 7, 0, day + at, False, True))
        clock.now += DAY_MS
    held = redis_clock.client.hgetall("toolgate:limit:{key_1}:days")
    days = {int(each): int(tokens) for each, tokens in held.items()}
    assert days == local._keys["key_1"].days == {day + 3: 7, day + 4: 7}
    assert not redis_clock.client.exists("toolgate:limit:{key_1}:tokens")
    assert local._keys["key_1"].tokens == {}
    await connection.aclose()
