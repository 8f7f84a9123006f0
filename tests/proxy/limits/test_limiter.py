"""The limiter: reservations, settlement, and its behaviour without Redis."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import SecretStr

from tests.support.servers.redis_server import RedisServer, redis_server
from tests.support.servers.virtual_keys import key_of
from tests.support.waiting import until
from toolgate_core.errors import LimitsUnavailable, RateLimited
from toolgate_proxy.context import RequestContext
from toolgate_proxy.keys.key import Key, new_key
from toolgate_proxy.keys.limit_kinds import KINDS, Tokens
from toolgate_proxy.limits.counter import NoResponse, UsageUpdate
from toolgate_proxy.limits.headers import duration
from toolgate_proxy.limits.limiter import LEASE_SECONDS, Limiter
from toolgate_proxy.limits.memory_counter import MemoryCounter
from toolgate_proxy.limits.reservations import Charge, Reservations
from toolgate_proxy.settings import Settings
from toolgate_proxy.stack.processes import free_port

SLACK = 2.0
"""Seconds that a busy machine may add to Redis' time-out."""


def limiter_of(redis: RedisServer | None, lease: float = LEASE_SECONDS, **more: Any) -> Limiter:
    return Limiter(Settings(redis_url=SecretStr(redis.url) if redis else None, **more), lease)


def limited(**limits: int) -> Key:
    return key_of(new_key(), **limits)


def uses(tokens: int) -> Callable[[], Tokens]:
    return lambda: Tokens(tokens)


async def test_a_limiter_that_fails_open_counts_in_its_own_process(
    redis_at_hand: RedisServer,
) -> None:
    limiter = limiter_of(redis_at_hand, limits_without_redis="open")
    key = limited(rpm=3)
    await limiter.started()
    await limiter.admit(key, "r1", Tokens(1), uses(1))
    redis_at_hand.kill()
    for at in range(3):
        await limiter.admit(key, f"k{at}", Tokens(1), uses(1))
    with pytest.raises(RateLimited):
        await limiter.admit(key, "k3", Tokens(1), uses(1))
    assert limiter.counted == "process"
    await limiter.aclose()


async def test_tokens_beyond_the_reservation_count_during_the_response() -> None:
    limiter, written = limiter_of(None), [0]
    key = limited(tpm=100)
    admission = await limiter.admit(key, "r1", Tokens(10), lambda: Tokens(0, written[0]))
    written[0] = 95
    await limiter.reservations._update(admission.reservation)
    with pytest.raises(RateLimited) as refused:
        await limiter.admit(key, "r2", Tokens(10), uses(10))
    assert "used 95" in refused.value.message
    await limiter.aclose()


async def test_only_keys_with_a_limit_on_tokens_check_the_count_of_a_prompt() -> None:
    limiter = limiter_of(None)
    for limits, checked in (({}, False), ({"rpm": 5}, False), ({"tpm": 100}, True)):
        context = RequestContext(key=limited(**limits))
        await limiter.reserve(context, {"messages": [], "max_tokens": 1})
        assert context.lease is not None
        assert (context.lease.admit_prompt is not None) == checked
    await limiter.aclose()


async def test_a_request_is_settled_once() -> None:
    limiter, key = limiter_of(None), limited(tpm=100)
    admission = await limiter.admit(key, "r1", Tokens(90), uses(20))
    for _ in range(3):
        await limiter.reservations.close(admission.reservation)
    after = await limiter.admit(key, "r2", Tokens(10), uses(10))
    assert after.headers["x-ratelimit-remaining-tokens"] == "70"
    assert limiter.reservations.in_flight == 1
    await limiter.aclose()


async def test_a_settlement_is_repeated_without_a_response_even_if_its_caller_is_cancelled() -> (
    None
):
    asked, silent, updates = asyncio.Event(), asyncio.Event(), []

    class Silent(MemoryCounter):
        async def update(self, update: UsageUpdate) -> None:
            updates.append([change.amount for change in update.changes])
            if len(updates) == 1:
                asked.set()
                await silent.wait()
                raise NoResponse

    reservations = Reservations(lease=0.3)
    tokens = next(kind for kind in KINDS if kind.name == "tpm")
    reservation = reservations.open("key_1", "r1", [Charge(tokens, 90, 0)], uses(20), Silent())
    closing = asyncio.create_task(reservations.close(reservation))
    await asked.wait()
    closing.cancel()
    await asyncio.wait({closing})
    silent.set()
    await until(lambda: len(updates) >= 2)  # in the next round
    assert updates == [[-70], [-70]]
    await reservations.aclose()


async def test_a_hung_redis_delays_only_the_first_request(redis_at_hand: RedisServer) -> None:
    limiter, key, times = limiter_of(redis_at_hand), limited(rpm=50), list[float]()
    await limiter.started()
    redis_at_hand.hang()
    try:
        for at in range(8):
            began = time.monotonic()
            with pytest.raises(LimitsUnavailable):
                await limiter.admit(key, f"r{at}", Tokens(1), uses(1))
            times.append(time.monotonic() - began)
    finally:
        redis_at_hand.wake()
    assert max(times) < SLACK
    assert min(times) < 0.1, "after the first, nobody waits"
    await limiter.aclose()


async def test_what_ended_while_redis_hung_is_settled_after_its_recovery(
    redis_at_hand: RedisServer,
) -> None:
    limiter, key = limiter_of(redis_at_hand), limited(tpm=100, max_parallel_requests=1)
    await limiter.started()
    admission = await limiter.admit(key, "r1", Tokens(90), uses(20))
    redis_at_hand.hang()
    try:
        await limiter.reservations.close(admission.reservation)
        assert limiter.counted == "unavailable"
    finally:
        redis_at_hand.wake()
    await limiter.started()
    await limiter.reservations.close(admission.reservation)  # as the next round does
    after = await limiter.admit(key, "r2", Tokens(70), uses(70))
    assert after.headers["x-ratelimit-remaining-tokens"] == "10"
    await limiter.aclose()


async def test_leases_of_in_flight_requests_are_renewed_concurrently() -> None:
    """One at a time, the leases of many requests would expire during a round."""
    waiting, met = asyncio.Barrier(20), asyncio.Event()

    class Meeting(MemoryCounter):
        async def update(self, update: UsageUpdate) -> None:
            await waiting.wait()
            met.set()

    reservations, counter = Reservations(lease=0.3), Meeting()
    parallel = next(kind for kind in KINDS if kind.name == "max_parallel_requests")
    for at in range(20):
        reservations.open("key_1", f"r{at}", [Charge(parallel, 1, 0)], uses(0), counter)
    async with asyncio.timeout(10):
        await met.wait()
    await reservations.aclose()


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0ms"), (120, "120ms"), (1000, "1s"), (7500, "7.5s"), (60_000, "1m0s"), (360_000, "6m0s")],
)
def test_reset_durations_have_the_format_of_openai(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text


def limiter(port: int, without_redis: str = "closed") -> Limiter:
    url = SecretStr(f"redis://127.0.0.1:{port}/0")
    return Limiter(Settings(redis_url=url, limits_without_redis=without_redis))  # type: ignore[arg-type]


async def test_redis_is_reached_once_it_has_responded() -> None:
    with redis_server() as server:
        reached = Limiter(Settings(redis_url=SecretStr(server.url)))
        assert not reached.reached_redis
        await reached.started()
        assert reached.reached_redis
    assert reached.reached_redis
    await reached.aclose()


async def test_redis_that_never_responded_is_not_reached() -> None:
    unreachable = limiter(free_port())
    await unreachable.started()
    assert not unreachable.reached_redis
    await unreachable.aclose()


def test_redis_that_is_not_required_counts_as_reached() -> None:
    assert limiter(free_port(), "open").reached_redis
    assert Limiter(Settings(redis_url=None)).reached_redis
