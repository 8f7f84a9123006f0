"""A gateway's key cache follows the changes in a real Redis or in a file."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from tests.proxy.keys.conftest import finds, key_sync_of
from tests.support.servers.gateway_process import KEY_SECRET
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.virtual_keys import HASHER, key_of, put, stored
from tests.support.waiting import until
from toolgate_core.errors import InvalidKey, KeysUnavailable
from toolgate_proxy.keys import sync
from toolgate_proxy.keys.cache import KeyCache
from toolgate_proxy.keys.file_store import entry
from toolgate_proxy.keys.key import Hasher, new_key, now
from toolgate_proxy.keys.redis_store import CHANGES, RECORDS, VERSION
from toolgate_proxy.keys.sync import KeySync
from toolgate_proxy.settings import Settings
from toolgate_proxy.stack.processes import free_port


async def test_changed_keys_reach_the_cache(redis_at_hand: RedisServer, key_sync: KeySync) -> None:
    sent, new = new_key(), new_key()
    key = key_of(sent, "search")
    await put(redis_at_hand.url, key)
    await until(lambda: finds(key_sync.key_cache, sent))
    rotated = key.rotated(stored(new), timedelta(0), now())
    await put(redis_at_hand.url, rotated)
    await until(lambda: finds(key_sync.key_cache, new))
    assert not finds(key_sync.key_cache, sent)
    await put(redis_at_hand.url, rotated.model_copy(update={"revoked": now()}))
    await until(lambda: not finds(key_sync.key_cache, new))


async def test_only_the_first_start_waits_for_missing_redis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = new_key()
    file = tmp_path / "keys.yaml"
    file.write_text("keys:\n" + entry(key_of(sent, "search")))
    nowhere = Settings(
        redis_url=SecretStr(f"redis://127.0.0.1:{free_port()}"),
        key_secret=SecretStr(KEY_SECRET),
        keys_file=file,
    )
    made = KeySync(KeyCache(HASHER, 300), HASHER, nowhere)
    monkeypatch.setattr(sync, "FIRST_POLL_TIMEOUT", 0.2)
    await made.started()
    monkeypatch.setattr(sync, "FIRST_POLL_TIMEOUT", 3600)
    async with asyncio.timeout(60):
        await made.started()
    assert finds(made.key_cache, sent)
    await made.aclose()


async def test_forged_record_in_redis_is_rejected(
    redis_at_hand: RedisServer, key_sync: KeySync, caplog: pytest.LogCaptureFixture
) -> None:
    mine, forged = new_key(), new_key()
    key = key_of(mine, rpm=1)
    await put(redis_at_hand.url, key)
    await until(lambda: finds(key_sync.key_cache, mine))
    client = redis_at_hand.client
    held = client.hget(RECORDS, key.id)
    assert isinstance(held, bytes)
    without_limit = held.replace(b'"rpm":1', b'"rpm":9')
    assert without_limit != held
    client.hset(RECORDS, key.id, without_limit)
    other = key_of(forged)
    guessed = Hasher(SecretStr("guessed")).seal(other.id, other.model_dump_json().encode())
    client.hset(RECORDS, other.id, guessed)
    for key_id in (key.id, other.id):
        client.zadd(CHANGES, {key_id: 2**52})
    await until(lambda: not finds(key_sync.key_cache, mine))
    assert not finds(key_sync.key_cache, forged)
    assert "is ignored" in caplog.text
    assert HASHER.hash(mine) not in caplog.text


async def test_keys_survive_a_hanging_redis(redis_at_hand: RedisServer, key_sync: KeySync) -> None:
    sent, later = new_key(), new_key()
    await put(redis_at_hand.url, key_of(sent))
    await until(lambda: finds(key_sync.key_cache, sent))
    redis_at_hand.hang()
    try:
        await asyncio.sleep(0.5)
        assert finds(key_sync.key_cache, sent)
    finally:
        redis_at_hand.wake()
    await put(redis_at_hand.url, key_of(later))
    await until(lambda: finds(key_sync.key_cache, later))


async def test_keys_lost_with_redis_last_writes_are_removed(
    redis_at_hand: RedisServer, key_sync: KeySync
) -> None:
    """A replica that lagged, or a disk that was synchronised a second ago: versions come again."""
    sent, lost = new_key(), new_key()
    kept, gone = key_of(sent), key_of(lost)
    await put(redis_at_hand.url, kept)
    await put(redis_at_hand.url, gone)
    await until(lambda: finds(key_sync.key_cache, sent) and finds(key_sync.key_cache, lost))
    client = redis_at_hand.client
    client.hdel(RECORDS, gone.id)
    client.zrem(CHANGES, gone.id)
    client.decr(VERSION)
    await until(lambda: not finds(key_sync.key_cache, lost))
    assert finds(key_sync.key_cache, sent)
    await put(redis_at_hand.url, kept.model_copy(update={"revoked": now()}))
    await until(lambda: not finds(key_sync.key_cache, sent))


async def test_keys_expire_after_redis_lost_them(redis_at_hand: RedisServer) -> None:
    """After the same grace period as while Redis is down; new keys are loaded at once."""
    key_sync, sent, new = key_sync_of(redis_at_hand, grace=0.5), new_key(), new_key()
    await put(redis_at_hand.url, key_of(sent))
    await key_sync.started()
    assert finds(key_sync.key_cache, sent)
    redis_at_hand.restart()
    await until(lambda: not finds(key_sync.key_cache, sent))
    with pytest.raises(KeysUnavailable):
        key_sync.key_cache.find(sent)
    await put(redis_at_hand.url, key_of(new))
    await until(lambda: finds(key_sync.key_cache, new))
    with pytest.raises(InvalidKey):
        key_sync.key_cache.find(sent)
    await key_sync.aclose()


async def test_key_file_without_redis_is_reloaded_on_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sent, later, path = new_key(), new_key(), tmp_path / "keys.yaml"
    first = "keys:\n" + entry(key_of(sent, "search"))
    path.write_text(first)
    key_sync = key_sync_of(None, keys_file=path)
    await key_sync.started()
    assert finds(key_sync.key_cache, sent)
    path.write_text("keys: [\n")
    os.utime(path, (1, 1))
    await until(lambda: "line 2" in caplog.text)
    assert finds(key_sync.key_cache, sent), "an invalid file must not end valid keys"
    path.write_text(first + entry(key_of(later, "other")))
    await until(lambda: finds(key_sync.key_cache, later))
    path.write_text("keys:\n" + entry(key_of(later, "other")))
    await until(lambda: not finds(key_sync.key_cache, sent))
    await key_sync.aclose()
