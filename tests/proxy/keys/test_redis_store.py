"""Keys in a real Redis: no key can be read from them, and writers do not overwrite each other."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest
from pydantic import SecretStr
from redis.exceptions import ResponseError

from tests.support.servers.gateway_process import KEY_SECRET
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.virtual_keys import HASHER, key_of, put, store, stored
from toolgate_proxy.keys.key import new_key, now
from toolgate_proxy.keys.redis_store import (
    ALIASES,
    CHANGES,
    MARK,
    RECORDS,
    UNUSED,
    StoreConflict,
    warn_of_unused_keys,
)
from toolgate_proxy.settings import Settings
from toolgate_proxy.stack.processes import free_port


async def test_redis_holds_hashes_only(redis_at_hand: RedisServer) -> None:
    sent = new_key()
    await put(redis_at_hand.url, key_of(sent, "search"))
    held = b"".join(redis_at_hand.client.hvals(RECORDS))
    assert sent.encode() not in held
    assert sent[6:40].encode() not in held
    assert KEY_SECRET.encode() not in held
    assert HASHER.hash(sent).encode() in held


@pytest.mark.parametrize("name", [RECORDS, CHANGES, ALIASES, MARK])
async def test_with_an_entry_of_a_wrong_type_nothing_is_written(
    redis_at_hand: RedisServer, name: str
) -> None:
    client, keys = redis_at_hand.client, store(redis_at_hand.url)
    await keys.put(key_of(new_key(), "first"))
    client.delete(name)
    client.rpush(name, "x")
    before = {entry: client.dump(entry) for entry in client.scan_iter()}
    with pytest.raises((ResponseError, StoreConflict)):
        await keys.put(key_of(new_key(), "second"))
    assert {entry: client.dump(entry) for entry in client.scan_iter()} == before
    await keys.aclose()


async def test_concurrent_writes_conflict(redis_at_hand: RedisServer) -> None:
    key = key_of(new_key(), "search")
    one, other = store(redis_at_hand.url), store(redis_at_hand.url)
    await one.put(key)
    with pytest.raises(StoreConflict, match="alias"):
        await other.put(key_of(new_key(), "search"))
    mine, theirs = await one.find("search"), await other.find("search")
    assert mine == theirs == key
    await one.put(key.model_copy(update={"revoked": now()}))
    with pytest.raises(StoreConflict, match="at the same time"):
        await other.put(key.rotated(stored(new_key()), timedelta(0), now()))
    await other.put(key_of(new_key(), "search"))  # a revoked key's alias is free
    await one.aclose()
    await other.aclose()


async def test_keys_without_their_secret_are_reported(
    redis_at_hand: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    url = SecretStr(redis_at_hand.url)
    await warn_of_unused_keys(Settings(redis_url=url))
    assert not caplog.records
    await put(redis_at_hand.url, key_of(new_key()))
    await warn_of_unused_keys(Settings(redis_url=url, key_secret=SecretStr("x")))
    await warn_of_unused_keys(Settings())
    assert not caplog.records
    await warn_of_unused_keys(Settings(redis_url=url))
    assert [(each.levelno, each.getMessage()) for each in caplog.records] == [
        (logging.WARNING, UNUSED)
    ]


async def test_a_redis_that_does_not_respond_is_not_reported_here(
    caplog: pytest.LogCaptureFixture,
) -> None:
    url = SecretStr(f"redis://127.0.0.1:{free_port()}")
    await warn_of_unused_keys(Settings(redis_url=url))
    assert not caplog.records
