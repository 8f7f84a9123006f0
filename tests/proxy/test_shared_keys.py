"""Keys in a real Redis: what it holds, writers and attackers, and a gateway's cache that follows
its changes, or those of a file."""

import asyncio
import logging
import os
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from pydantic import SecretStr
from redis.exceptions import ResponseError

from tests.support.effort import rotating
from tests.support.servers.gateway_process import KEY_SECRET
from tests.support.servers.virtual_keys import HASHER, key_of, put, store, stored
from tests.support.waiting import until
from toolgate_core.errors import InvalidKey, KeysUnavailable, RetiredKey
from toolgate_proxy.keys import sync
from toolgate_proxy.keys.file_store import entry
from toolgate_proxy.keys.key import Hasher, new_key, now
from toolgate_proxy.keys.redis_store import (
    EVICTED,
    MARK,
    RECORDS,
    UNUSED,
    Mark,
    StoreConflict,
    warn_of_lost_keys,
)
from toolgate_proxy.keys.sync import KeyCache, KeySync
from toolgate_proxy.ops.stack.processes import free_port
from toolgate_proxy.settings import Settings


@asynccontextmanager
async def following(redis, *, grace=300.0, poll=0.02, **more):
    """A gateway's cache that follows Redis."""
    url = SecretStr(redis.url) if redis else None
    settings = Settings(**{"redis_url": url, "key_secret": SecretStr(KEY_SECRET), **more})
    made = KeySync(KeyCache(HASHER, grace), HASHER, settings, poll=poll)
    yield made
    await made.aclose()


@pytest.fixture
async def key_sync(redis_at_hand):
    async with following(redis_at_hand) as made:
        await made.started()
        yield made


@pytest.fixture
def client(redis_at_hand):
    return redis_at_hand.client


def finds(key_sync, sent):
    try:
        return bool(key_sync.key_cache.find(sent))
    except (InvalidKey, KeysUnavailable):
        return False


async def known(key_sync, redis, *sent):
    """New keys that are in Redis, when the cache has them."""
    keys = [key_of(each) for each in sent]
    for key in keys:
        await put(redis.url, key)
    await until(lambda: all(finds(key_sync, each) for each in sent))
    return keys if len(keys) > 1 else keys[0]


def revoked(key):
    return key.model_copy(update={"revoked": now()})


async def test_redis_holds_hashes_only(redis_at_hand, client):
    sent = new_key()
    await put(redis_at_hand.url, key_of(sent, "search"))
    held = b"".join(client.hvals(RECORDS))
    for secret in (sent, sent[6:40], KEY_SECRET):
        assert secret.encode() not in held
    assert HASHER.hash(sent).encode() in held


@pytest.mark.parametrize("name", [RECORDS, MARK])
async def test_with_an_entry_of_a_wrong_type_nothing_is_written(redis_at_hand, client, name):
    keys = store(redis_at_hand.url)
    await keys.put(key_of(new_key(), "first"))
    client.delete(name)
    client.rpush(name, "x")
    before = {entry: client.dump(entry) for entry in client.scan_iter()}
    with pytest.raises((ResponseError, StoreConflict)):
        await keys.put(key_of(new_key(), "second"))
    assert {entry: client.dump(entry) for entry in client.scan_iter()} == before
    await keys.aclose()


async def test_concurrent_writes_conflict(redis_at_hand):
    key = key_of(new_key(), "search")
    one, other = store(redis_at_hand.url), store(redis_at_hand.url)
    await one.put(key)
    with pytest.raises(StoreConflict, match="alias"):
        await other.put(key_of(new_key(), "search"))
    assert await one.find("search") == await other.find("search") == key
    await one.put(revoked(key))
    with pytest.raises(StoreConflict, match="at the same time"):
        await other.put(key.rotated(stored(new_key()), timedelta(0), now()))
    await other.put(key_of(new_key(), "search"))  # a revoked key's alias is free
    await one.aclose()
    await other.aclose()


async def test_unreadable_and_evictable_keys_are_reported(redis_at_hand, caplog):
    url = SecretStr(redis_at_hand.url)
    await warn_of_lost_keys(Settings(redis_url=url))
    await put(redis_at_hand.url, key_of(new_key()))
    await warn_of_lost_keys(Settings(redis_url=url, key_secret=SecretStr("x")))
    await warn_of_lost_keys(Settings())
    await warn_of_lost_keys(Settings(redis_url=SecretStr(f"redis://127.0.0.1:{free_port()}")))
    assert not caplog.records
    await warn_of_lost_keys(Settings(redis_url=url))
    with redis_at_hand.client as client:
        client.config_set("maxmemory", "64mb")
        client.config_set("maxmemory-policy", "allkeys-lru")
    await warn_of_lost_keys(Settings(redis_url=url, key_secret=SecretStr("x")))
    assert [(each.levelno, each.getMessage()) for each in caplog.records] == [
        (logging.WARNING, UNUSED),
        (logging.WARNING, EVICTED % "allkeys-lru"),
    ]


async def test_changed_keys_reach_the_cache(redis_at_hand, key_sync):
    sent, new = new_key(), new_key()
    key = await known(key_sync, redis_at_hand, sent)
    rotated = key.rotated(stored(new), timedelta(0), now())
    await put(redis_at_hand.url, rotated)
    await until(lambda: finds(key_sync, new))
    assert not finds(key_sync, sent)
    await put(redis_at_hand.url, revoked(rotated))
    await until(lambda: not finds(key_sync, new))


async def test_only_the_first_start_waits_for_missing_redis(tmp_path, monkeypatch):
    sent, file = new_key(), tmp_path / "keys.yaml"
    file.write_text("keys:\n" + entry(key_of(sent, "search")))
    nowhere = SecretStr(f"redis://127.0.0.1:{free_port()}")
    async with following(None, redis_url=nowhere, keys_file=file, poll=1.0) as made:
        monkeypatch.setattr(sync, "FIRST_POLL_TIMEOUT", 0.2)
        await made.started()
        monkeypatch.setattr(sync, "FIRST_POLL_TIMEOUT", 3600)
        async with asyncio.timeout(60):
            await made.started()
        assert finds(made, sent)


async def test_forged_record_in_redis_is_rejected(redis_at_hand, client, key_sync, caplog):
    mine, forged = new_key(), new_key()
    key, other = key_of(mine, rpm=1), key_of(forged)
    await put(redis_at_hand.url, key)
    held = client.hget(RECORDS, key.id)
    without_limit = held.replace(b'"rpm":1', b'"rpm":9')
    assert without_limit != held
    client.hset(RECORDS, key.id, without_limit)
    guessed = Hasher(SecretStr("guessed")).seal(other.id, other.model_dump_json().encode())
    client.hset(RECORDS, other.id, guessed)
    await put(redis_at_hand.url, key_of(new_key()))
    async with following(redis_at_hand) as started:
        await started.started()
        assert len(started.key_cache) == 1
        assert [finds(started, each) for each in (mine, forged)] == [False, False]
    assert "is ignored" in caplog.text
    assert HASHER.hash(mine) not in caplog.text


async def test_keys_survive_a_hanging_redis(redis_at_hand, key_sync):
    sent = new_key()
    await known(key_sync, redis_at_hand, sent)
    redis_at_hand.hang()
    try:
        await asyncio.sleep(0.5)
        assert finds(key_sync, sent)
    finally:
        redis_at_hand.wake()
    await known(key_sync, redis_at_hand, new_key())


async def test_keys_lost_with_redis_last_writes_are_removed(redis_at_hand, client, key_sync):
    """A replica that lagged, or a disk that was synchronised a second ago: versions come again."""
    sent, lost = new_key(), new_key()
    kept = await known(key_sync, redis_at_hand, sent)
    earlier = client.get(MARK)
    gone = await known(key_sync, redis_at_hand, lost)
    client.hdel(RECORDS, gone.id)
    client.set(MARK, earlier)
    await until(lambda: not finds(key_sync, lost))
    assert finds(key_sync, sent)
    await put(redis_at_hand.url, revoked(kept))
    await until(lambda: not finds(key_sync, sent))


async def test_keys_expire_after_redis_lost_them(redis_at_hand):
    """After the same grace period as while Redis is down; new keys are loaded at once."""
    sent = new_key()
    async with following(redis_at_hand, grace=0.5) as key_sync:
        await put(redis_at_hand.url, key_of(sent))
        await key_sync.started()
        assert finds(key_sync, sent)
        redis_at_hand.restart()
        await until(lambda: not finds(key_sync, sent))
        with pytest.raises(KeysUnavailable):
            key_sync.key_cache.find(sent)
        await known(key_sync, redis_at_hand, new_key())
        with pytest.raises(InvalidKey):
            key_sync.key_cache.find(sent)


async def test_key_file_without_redis_is_reloaded_on_change(tmp_path, caplog):
    sent, later, path = new_key(), new_key(), tmp_path / "keys.yaml"
    first, other = (entry(key_of(each, "a" + each[-9:])) for each in (sent, later))
    path.write_text("keys:\n" + first)
    async with following(None, keys_file=path) as key_sync:
        await key_sync.started()
        assert finds(key_sync, sent)
        path.write_text("keys: [\n")
        os.utime(path, (1, 1))
        await until(lambda: "line 2" in caplog.text)
        assert finds(key_sync, sent), "an invalid file must not end valid keys"
        path.write_text("keys:\n" + first + other)
        await until(lambda: finds(key_sync, later))
        path.write_text("keys:\n" + other)
        await until(lambda: not finds(key_sync, sent))


class Snapshot:
    """What an attacker copied from Redis, to write it again later."""

    def __init__(self, client):
        self._client = client
        self.records, self.mark = client.hgetall(RECORDS), client.get(MARK)

    def put_back(self, *, mark):
        self._client.hset(RECORDS, mapping=self.records)
        if mark:
            self._client.set(MARK, self.mark)


@pytest.mark.parametrize("mark", [False, True])
async def test_a_running_gateway_refuses_the_earlier_record_of_a_revoked_key(
    redis_at_hand, client, key_sync, mark, caplog
):
    sent = new_key()
    key = await known(key_sync, redis_at_hand, sent)
    copied = Snapshot(client)
    await put(redis_at_hand.url, revoked(key))
    await until(lambda: not finds(key_sync, sent))
    copied.put_back(mark=mark)
    if mark:
        await until(lambda: f"{key.id!r} in Redis is ignored: it is earlier" in caplog.text)
    with pytest.raises(RetiredKey):
        key_sync.key_cache.find(sent)
    await known(key_sync, redis_at_hand, new_key())
    assert not finds(key_sync, sent)


async def test_a_starting_gateway_refuses_a_record_that_is_older_than_the_mark(
    redis_at_hand, client, caplog
):
    sent, other = new_key(), new_key()
    key = key_of(sent)
    await put(redis_at_hand.url, key)
    copied = Snapshot(client)
    await put(redis_at_hand.url, key_of(other))
    await put(redis_at_hand.url, revoked(key))
    copied.put_back(mark=False)
    async with following(redis_at_hand) as started:
        await started.started()
        assert (finds(started, other), finds(started, sent)) == (True, False)
    assert "is earlier than the newest" in caplog.text
    assert await store(redis_at_hand.url).find(key.id) is None, "the command line refuses it, too"


async def test_without_a_valid_mark_a_starting_gateway_accepts_no_keys(
    redis_at_hand, client, caplog
):
    sent = new_key()
    key = key_of(sent)
    await put(redis_at_hand.url, key)
    for mark in (None, b"", b"0" * 64 + b"\n{}"):
        client.delete(MARK)
        if mark is not None:
            client.set(MARK, mark)
        async with following(redis_at_hand) as started:
            await started.poll()
            assert not finds(started, sent)
            assert f"{MARK} is missing, or was not sealed" in caplog.text
            if mark is None:
                await put(redis_at_hand.url, key)  # the command line makes a new mark
                await started.poll()
                assert finds(started, sent)


async def test_writes_that_redis_lost_remain_in_effect_and_new_ones_reach_gateways(
    redis_at_hand, client, key_sync
):
    sent, rotated_to, last = new_key(), new_key(), new_key()
    key = await known(key_sync, redis_at_hand, sent)
    copied = Snapshot(client)
    await put(redis_at_hand.url, key.rotated(stored(rotated_to), timedelta(0), now()))
    await until(lambda: finds(key_sync, rotated_to))
    copied.put_back(mark=True)
    await asyncio.sleep(0.2)
    assert (finds(key_sync, rotated_to), finds(key_sync, sent)) == (True, False)
    await put(redis_at_hand.url, key.rotated(stored(last), timedelta(0), now()))
    await until(lambda: finds(key_sync, last))
    assert not finds(key_sync, rotated_to)


async def test_concurrent_writes_of_different_keys_are_all_in_the_mark(redis_at_hand, client):
    keys = [key_of(new_key()) for _ in range(20)]
    await asyncio.gather(*(put(redis_at_hand.url, key) for key in keys))
    mark = Mark.open(HASHER, client.get(MARK))
    assert mark.keys.keys() == {key.id for key in keys}
    assert len({*mark.keys.values()}) == len(keys)


@pytest.mark.exhaustive
@rotating("name", [RECORDS, MARK], one_in=2)
async def test_entries_of_a_wrong_type_are_reported_once_and_polled_at_the_usual_pace(
    redis_at_hand, client, key_sync, name, caplog
):
    sent, later, moved = new_key(), new_key(), f"{name}:moved"
    await known(key_sync, redis_at_hand, sent)
    await put(redis_at_hand.url, key_of(later))
    client.rename(name, moved)
    client.rpush(name, "not this")
    await until(lambda: f"{name}: WRONGTYPE" in caplog.text)
    polls = redis_at_hand.calls("getrange")
    await asyncio.sleep(1)
    polls = redis_at_hand.calls("getrange") - polls
    assert polls <= 2 * 1 / 0.02 + 10, "at most two looks in each poll"
    assert caplog.text.count(f"{name}: WRONGTYPE") == 1
    assert finds(key_sync, sent), "the keys remain valid for the grace period"
    client.delete(name)
    client.rename(moved, name)
    await until(lambda: finds(key_sync, later))
