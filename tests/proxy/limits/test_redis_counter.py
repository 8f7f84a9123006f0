"""Counting in Redis: many clients at once, leases, and a Redis that is full, down or shared."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.proxy.limits.test_limiter import limited, limiter_of, uses
from tests.support.servers.limit_counters import in_redis, refused, request, update
from tests.support.servers.redis_server import RedisServer
from toolgate_core.errors import LimitsUnavailable
from toolgate_proxy.keys.limit_kinds import Tokens
from toolgate_proxy.limits.counter import AdmissionRequest, AdmissionResult, CommandRefused


async def test_a_lease_counts_until_it_is_no_longer_renewed(redis: RedisServer) -> None:
    """Beside one that is renewed for longer."""
    redis.client.flushall()
    limits, counter = {"max_parallel_requests": 2}, in_redis(redis, lease=1.0)
    first, second = [
        (each, await counter.admit(each)) for each in (request(1, 1, limits), request(2, 1, limits))
    ]

    async def renewed(*held: tuple[AdmissionRequest, AdmissionResult]) -> str | None:
        """Return what refuses a third request after that."""
        await asyncio.sleep(0.2)
        for admitted, result in held:
            await counter.update(update(admitted, result, 0, ended=False))
        return refused(await counter.admit(request(3, 1, limits)))

    for _ in range(8):
        assert await renewed(first, second) == "max_parallel_requests"
    async with asyncio.timeout(5):
        while await renewed(second):
            pass


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


async def test_a_limit_may_exceed_64_bits(redis: RedisServer) -> None:
    """Operators write such a limit instead of none."""
    result = await in_redis(redis).admit(request(1, 10, {"tpm": 10**30, "tokens_per_day": 2**70}))
    assert refused(result) is None


async def test_redis_key_names_of_counters_are_stable(redis: RedisServer) -> None:
    """Gateways of different versions share the counters."""
    redis.client.flushall()
    await in_redis(redis).admit(request(1, 10))
    stored = {key.decode() for key in redis.client.keys("*")}
    assert stored == {
        f"toolgate:limit:{{key_1}}:{name}" for name in ("requests", "tokens", "leases", "days")
    }


TOKENS, REQUESTS, LEASES = (
    f"toolgate:limit:{{key_1}}:{name}" for name in ("tokens", "requests", "leases")
)


@pytest.mark.parametrize(
    ("name", "found", "wanted"),
    [(TOKENS, "list", "hash"), (REQUESTS, "list", "hash"), (LEASES, "list", "zset")],
)
async def test_the_error_names_the_counter_and_its_type(
    redis: RedisServer, name: str, found: str, wanted: str, caplog: pytest.LogCaptureFixture
) -> None:
    client, counter = redis.client, in_redis(redis)
    client.flushall()
    client.rpush(name, "not a counter")
    for at in range(3):
        with pytest.raises(CommandRefused) as refused:
            await counter.admit(request(at))
        assert f"WRONGTYPE {name} is a {found}, but must be a {wanted}" in refused.value.detail
        assert "toolgate:" not in refused.value.reason, "clients see the reason"
    assert client.keys() == [name.encode()], "no other counter has counted"
    assert caplog.text.count(f"WRONGTYPE {name}") == 1
    client.delete(name)
    assert (await counter.admit(request(9))).refused is None


async def test_other_counters_of_a_request_are_corrected(
    redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    client, counter = redis.client, in_redis(redis)
    client.flushall()
    admitted = request(1, 10)
    result = await counter.admit(admitted)
    client.delete(TOKENS)
    client.rpush(TOKENS, "not a counter")
    await counter.update(update(admitted, result, 5))
    days = "toolgate:limit:{key_1}:days"
    stored = client.hgetall(days)
    assert stored.pop(b"last")
    assert [*stored.values()] == [b"15"]
    assert client.zcard(LEASES) == 0
    assert f"WRONGTYPE {TOKENS} is a list, but must be a hash" in caplog.text


DAYS = "toolgate:limit:{key_1}:days"


@pytest.mark.parametrize("name", [TOKENS, REQUESTS, DAYS])
@pytest.mark.parametrize("value", ["1.5", "x", "1e300"])
async def test_a_value_that_is_no_integer_changes_no_counter(
    redis: RedisServer, name: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither is the request counted in some of its counters, nor is the correction of the others
    repeated."""
    client, counter = redis.client, in_redis(redis)
    client.flushall()
    admitted = request(1, 10)
    result = await counter.admit(admitted)
    before = contents(redis)
    periods = [field for field in client.hkeys(name) if field != b"last"]
    client.hset(name, mapping=dict.fromkeys(periods, value))
    with pytest.raises(CommandRefused):
        await counter.admit(request(2, 10))
    assert contents(redis, but=name) == {k: v for k, v in before.items() if k != name}
    await counter.update(update(admitted, result, -4))
    used = {TOKENS: b"6", REQUESTS: b"1", DAYS: b"6"}
    del used[name]
    after = contents(redis, but=name)
    assert {key: after[key] for key in used} == used
    assert f"WRONGTYPE {name}" in caplog.text
    assert client.zcard(LEASES) == 0


def contents(redis: RedisServer, but: str = "") -> dict[str, Any]:
    """The value of each counter's one period."""
    found: dict[str, Any] = {}
    for name in (TOKENS, REQUESTS, DAYS):
        if name != but:
            held = redis.client.hgetall(name)
            held.pop(b"last", None)
            (found[name],) = held.values()
    found[LEASES] = redis.client.zrange(LEASES, 0, -1)
    return found


@pytest.mark.parametrize("policy", ["closed", "open"])
async def test_limits_with_a_wrong_counter_follow_the_policy_for_a_missing_redis(
    redis: RedisServer, policy: str
) -> None:
    limiter, key = limiter_of(redis, limits_without_redis=policy), limited(rpm=1)
    await limiter.started()
    name = f"toolgate:limit:{{{key.id}}}:requests"
    redis.client.flushall()
    redis.client.rpush(name, "not a counter")
    if policy == "open":
        admission = await limiter.admit(key, "r1", Tokens(1), uses(1))
        assert admission.headers["x-ratelimit-remaining-requests"] == "0"
    else:
        with pytest.raises(LimitsUnavailable, match="Redis refused the command") as refused:
            await limiter.admit(key, "r1", Tokens(1), uses(1))
        assert refused.value.status == 503
        assert "toolgate:" not in refused.value.message
        assert key.id not in refused.value.message
    assert limiter.counted == "fleet", "Redis responds"
    await limiter.aclose()


@pytest.mark.exhaustive
async def test_updates_that_redis_refuses_do_not_stop_those_of_other_requests(
    redis_at_hand: RedisServer,
) -> None:
    """More refused updates than one exchange has: leases of other requests are still renewed."""
    limiter = limiter_of(redis_at_hand, lease=2)
    await limiter.started()
    client = redis_at_hand.client
    wrong, good = limited(max_parallel_requests=200, rpm=500), limited(max_parallel_requests=1)
    broken = [await limiter.admit(wrong, f"w{at}", Tokens(1), uses(50)) for at in range(70)]
    assert broken
    await limiter.admit(good, "g", Tokens(1), uses(1))
    days = f"toolgate:limit:{{{wrong.id}}}:days"
    client.hset(days, mapping=dict.fromkeys(client.hkeys(days), "x"))
    await asyncio.sleep(5)
    assert client.zcard(f"toolgate:limit:{{{good.id}}}:leases") == 1
    await limiter.aclose()
