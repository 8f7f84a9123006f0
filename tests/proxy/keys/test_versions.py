"""Nobody who can write to Redis can put back an earlier record of a key."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.proxy.keys.conftest import finds, key_sync_of
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.virtual_keys import HASHER, key_of, put, store, stored
from tests.support.waiting import until
from toolgate_core.errors import RetiredKey
from toolgate_proxy.keys.key import Key, new_key, now
from toolgate_proxy.keys.redis_store import CHANGES, EPOCH, MARK, RECORDS, VERSION
from toolgate_proxy.keys.sync import KeySync
from toolgate_proxy.keys.versions import Mark


class Snapshot:
    """What an attacker copied from Redis, to write it again later."""

    def __init__(self, redis: RedisServer) -> None:
        self._client = redis.client
        self._records: Any = self._client.hgetall(RECORDS)
        self._strings: Any = {name: self._client.get(name) for name in (MARK, VERSION)}

    def put_back(self, *, mark: bool) -> None:
        """As a change that every gateway reads."""
        score = int(self._client.get(VERSION) or 0) + 1_000_000
        self._client.hset(RECORDS, mapping=self._records)
        self._client.zadd(CHANGES, dict.fromkeys(self._records, score))
        if mark:
            self._client.set(MARK, self._strings[MARK])
        self._client.set(VERSION, score)


async def revoke(redis: RedisServer, key: Key) -> None:
    await put(redis.url, key.model_copy(update={"revoked": now()}))


@pytest.mark.parametrize("mark", [False, True])
async def test_a_running_gateway_refuses_the_earlier_record_of_a_revoked_key(
    redis_at_hand: RedisServer, key_sync: KeySync, mark: bool, caplog: pytest.LogCaptureFixture
) -> None:
    sent, other = new_key(), new_key()
    key = key_of(sent)
    await put(redis_at_hand.url, key)
    copied = Snapshot(redis_at_hand)
    await until(lambda: finds(key_sync.key_cache, sent))
    await revoke(redis_at_hand, key)
    await until(lambda: not finds(key_sync.key_cache, sent))
    copied.put_back(mark=mark)
    await until(lambda: f"{key.id!r} in Redis is ignored: it is earlier" in caplog.text)
    with pytest.raises(RetiredKey):
        key_sync.key_cache.find(sent)
    await put(redis_at_hand.url, key_of(other))
    await until(lambda: finds(key_sync.key_cache, other))
    assert not finds(key_sync.key_cache, sent)


async def test_a_starting_gateway_refuses_a_record_that_is_older_than_the_mark(
    redis_at_hand: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    sent, other = new_key(), new_key()
    key = key_of(sent)
    await put(redis_at_hand.url, key)
    copied = Snapshot(redis_at_hand)
    await put(redis_at_hand.url, key_of(other))
    await revoke(redis_at_hand, key)
    copied.put_back(mark=False)
    started = key_sync_of(redis_at_hand)
    await started.started()
    assert finds(started.key_cache, other)
    assert not finds(started.key_cache, sent)
    assert "is earlier than the newest" in caplog.text
    assert await store(redis_at_hand.url).find(key.id) is None, "the command line refuses it, too"
    await started.aclose()


async def test_without_a_valid_mark_a_starting_gateway_accepts_no_keys(
    redis_at_hand: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    sent = new_key()
    key = key_of(sent)
    await put(redis_at_hand.url, key)
    for mark in (None, b"0" * 64 + b"\n{}"):
        redis_at_hand.client.delete(MARK)
        if mark is not None:
            redis_at_hand.client.set(MARK, mark)
        started = key_sync_of(redis_at_hand)
        await started.poll()
        assert not finds(started.key_cache, sent)
        assert f"{MARK} is missing, or was not sealed" in caplog.text
        if mark is None:
            await put(redis_at_hand.url, key)  # the command line makes a new mark
            await started.poll()
            assert finds(started.key_cache, sent)
        await started.aclose()


async def test_writes_that_redis_lost_remain_in_effect_and_new_ones_reach_gateways(
    redis_at_hand: RedisServer, key_sync: KeySync
) -> None:
    sent, rotated_to, last = new_key(), new_key(), new_key()
    key = key_of(sent)
    await put(redis_at_hand.url, key)
    copied = Snapshot(redis_at_hand)
    await until(lambda: finds(key_sync.key_cache, sent))
    rotated = key.rotated(stored(rotated_to), timedelta(0), now())
    await put(redis_at_hand.url, rotated)
    await until(lambda: finds(key_sync.key_cache, rotated_to))
    client, earlier = redis_at_hand.client, copied._strings
    client.hset(RECORDS, mapping=copied._records)
    client.mset(earlier)
    client.zadd(CHANGES, {key.id: int(earlier[VERSION])})
    await asyncio.sleep(0.2)
    assert finds(key_sync.key_cache, rotated_to)
    assert not finds(key_sync.key_cache, sent)
    await put(redis_at_hand.url, key.rotated(stored(last), timedelta(0), now()))
    await until(lambda: finds(key_sync.key_cache, last))
    assert not finds(key_sync.key_cache, rotated_to)


async def test_concurrent_writes_of_different_keys_are_all_in_the_mark(
    redis_at_hand: RedisServer,
) -> None:
    keys = [key_of(new_key()) for _ in range(20)]
    await asyncio.gather(*(put(redis_at_hand.url, key) for key in keys))
    sealed = redis_at_hand.client.get(MARK)
    assert isinstance(sealed, bytes)
    mark = Mark.open(HASHER, sealed)
    assert mark is not None
    assert mark.keys.keys() == {key.id for key in keys}
    assert len(set(mark.keys.values())) == len(keys)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [EPOCH, VERSION, CHANGES, RECORDS, MARK])
async def test_entries_of_a_wrong_type_are_reported_once_and_polled_at_the_usual_pace(
    redis_at_hand: RedisServer, key_sync: KeySync, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    sent, later = new_key(), new_key()
    await put(redis_at_hand.url, key_of(sent))
    await until(lambda: finds(key_sync.key_cache, sent))
    client, moved = redis_at_hand.client, f"{name}:moved"
    await put(redis_at_hand.url, key_of(later))
    client.rename(name, moved)
    client.rpush(name, "not this")
    if name in (RECORDS, MARK):
        client.zadd(CHANGES, {"key_x": 2**52})
    await until(lambda: f"{name}: WRONGTYPE" in caplog.text)
    polls = redis_at_hand.calls("zrangebyscore")
    await asyncio.sleep(1)
    polls = redis_at_hand.calls("zrangebyscore") - polls
    assert polls <= 2 * 1 / 0.02 + 10, "at most two looks in each poll"
    assert caplog.text.count(f"{name}: WRONGTYPE") == 1
    assert finds(key_sync.key_cache, sent), "the keys remain valid for the grace period"
    client.delete(name)
    client.rename(moved, name)
    await until(lambda: finds(key_sync.key_cache, later))


async def test_a_version_that_is_no_number_is_reported(
    redis_at_hand: RedisServer, key_sync: KeySync, caplog: pytest.LogCaptureFixture
) -> None:
    await put(redis_at_hand.url, key_of(new_key()))
    redis_at_hand.client.set(VERSION, "many")
    await until(lambda: f"{VERSION} is not a number" in caplog.text)
