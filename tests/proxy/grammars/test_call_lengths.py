"""Lengths of calls that a process, or a fleet with one Redis, has learnt."""

from __future__ import annotations

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until
from toolgate_proxy.grammars import call_lengths
from toolgate_proxy.grammars.call_lengths import MOST_TOKENS, CallLengths, percentile, rounded
from toolgate_proxy.redis.client import SharedRedis

TTL = 1000


async def note_many(lengths: CallLengths) -> None:
    """2,000 long calls, and then 4,000 short ones."""
    for tokens, times in ((400, 2000), (20, 4000)):
        for _ in range(times // 100):
            for _ in range(100):
                lengths.note("a", tokens)
            await lengths.flush()


@given(st.integers(1, MOST_TOKENS))
def test_lengths_are_rounded_up_by_little(tokens: int) -> None:
    assert tokens <= rounded(tokens) <= tokens * 1.1 + 1
    assert rounded(tokens + 1) >= rounded(tokens)


def test_the_percentile_is_that_of_the_calls() -> None:
    assert percentile({10: 19}) is None, "too few calls"
    assert percentile({10: 19, 500: 1}) == 10
    assert percentile({10: 18, 500: 2}) == 500
    assert percentile({500: 5, 10: 95}) == 10


async def test_without_redis_a_process_learns_from_its_calls() -> None:
    lengths = CallLengths(None, TTL)
    for tokens in range(1, 101):
        lengths.note("a", tokens)
    assert lengths.usual(["a"]) is None
    await lengths.flush()
    assert lengths.usual(["a"]) == lengths.usual(["b", "a"]) == rounded(95)
    lengths.note("b", 900)
    await lengths.flush()
    assert lengths.usual(["b"]) is None


async def test_new_calls_outweigh_old_ones() -> None:
    lengths = CallLengths(None, TTL)
    await note_many(lengths)
    assert lengths.usual(["a"]) == rounded(20)


async def test_a_fleet_learns_together(redis_at_hand: RedisServer) -> None:
    url = SecretStr(redis_at_hand.url)
    one, other = (CallLengths(SharedRedis(url, 5.0), TTL) for _ in range(2))
    for _ in range(12):
        one.note("a", 200)
        other.note("a", 100)
    await one.flush()
    assert one.usual(["a"]) is None
    await other.flush()
    assert other.usual(["a"]) == rounded(200)
    # A process without calls of its own reads them at the first request.
    new = CallLengths(SharedRedis(url, 5.0), TTL)
    assert new.usual(["a", "unknown"]) is None
    await until(lambda: new.usual(["a", "unknown"]))
    assert new.usual(["a", "unknown"]) == rounded(200)
    with redis.Redis.from_url(redis_at_hand.url) as client:
        assert 0 < client.pttl("toolgate:lengths:a") <= TTL * 1000


async def test_counts_in_redis_are_bounded(redis_at_hand: RedisServer) -> None:
    lengths = CallLengths(SharedRedis(SecretStr(redis_at_hand.url), 5.0), TTL)
    await note_many(lengths)
    assert lengths.usual(["a"]) == rounded(20)
    with redis.Redis.from_url(redis_at_hand.url) as client:
        counts = client.hgetall("toolgate:lengths:a")
    assert sum(map(int, counts.values())) <= call_lengths.MOST_CALLS


@pytest.mark.parametrize(
    "value", [{"x": 1}, {"5": "many"}, {"-5": 50}, {"0": 50}, {"5": -50}, {"9" * 30: 50}]
)
async def test_damaged_counts_are_ignored(
    redis_at_hand: RedisServer, value: dict[str, str]
) -> None:
    lengths = CallLengths(SharedRedis(SecretStr(redis_at_hand.url), 5.0), TTL)
    with redis.Redis.from_url(redis_at_hand.url) as client:
        client.hset("toolgate:lengths:a", mapping=value)
        client.set("toolgate:lengths:b", "text")
    lengths.usual(["a", "b"])
    await lengths.flush()
    for _ in range(30):
        lengths.note("c", 7)
    await lengths.flush()
    assert lengths.usual(["a", "b"]) is None
    assert lengths.usual(["c"]) == rounded(7)


async def test_without_a_server_nothing_is_learnt_and_nothing_fails() -> None:
    lengths = CallLengths(SharedRedis(SecretStr("redis://127.0.0.1:1"), 0.05), TTL)
    for _ in range(30):
        lengths.note("a", 7)
    await lengths.flush()
    assert lengths.usual(["a"]) is None
    await lengths.flush()
