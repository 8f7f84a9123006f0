"""Stored responses in a real Redis: what it holds, and what happens when it fails."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from pydantic import SecretStr

from tests.proxy.response_store.conftest import OWNER, response
from tests.support.servers.redis_server import SECRET, RedisServer, response_store
from toolgate_proxy.response_store import redis_store
from toolgate_proxy.response_store.record import StoreUnavailable
from toolgate_proxy.response_store.redis_store import DIGEST
from toolgate_proxy.response_store.store import ResponseStore
from toolgate_proxy.sealing import Sealer
from toolgate_proxy.settings import Settings


@pytest.fixture
async def store(redis_at_hand: RedisServer) -> AsyncIterator[ResponseStore]:
    store = response_store(redis_at_hand)
    yield store
    await store.aclose()


def records(redis: RedisServer) -> list[bytes]:
    """The names of all records."""
    return [key for key in redis.client.scan_iter() if len(key.split(b":")[-1]) == DIGEST]


def held_at(redis: RedisServer, name: bytes) -> bytes:
    held = redis.client.get(name)
    assert isinstance(held, bytes)
    return held


async def test_redis_shows_nothing_in_clear(
    store: ResponseStore, redis_at_hand: RedisServer
) -> None:
    await store.put(OWNER, response("resp_0", text="secret answer"))
    await store.put(OWNER, response("resp_1", "resp_0"))
    held = redis_at_hand.everything()
    assert len(held) > 500
    # None is so short that random bytes contain it now and then.
    for clear in (b"secret", b"question", b"resp_", b"key_a", SECRET.encode()):
        assert clear not in held
    client = redis_at_hand.client
    assert all(client.pttl(key) > 0 for key in client.scan_iter())


async def test_a_gateway_with_another_secret_finds_nothing(
    store: ResponseStore, redis_at_hand: RedisServer
) -> None:
    await store.put(OWNER, response("resp_1"))
    other = response_store(redis_at_hand, "another-secret")
    assert await other.find(OWNER, "resp_1") is None
    assert not await other.delete(OWNER, "resp_1")
    await other.aclose()
    assert await store.find(OWNER, "resp_1") is not None


@pytest.mark.parametrize("change", ["flip", "move", "shorten"])
async def test_a_changed_record_counts_as_missing(
    store: ResponseStore, redis_at_hand: RedisServer, change: str
) -> None:
    await store.put(OWNER, response("resp_0"))
    await store.put(OWNER, response("resp_1"))
    client = redis_at_hand.client
    one, other = records(redis_at_hand)
    held, theirs = held_at(redis_at_hand, one), held_at(redis_at_hand, other)
    match change:
        case "flip":
            for key, value in ((one, held), (other, theirs)):
                client.set(key, value[:-1] + bytes([value[-1] ^ 1]))
        case "move":
            client.set(one, theirs)
            client.set(other, held)
        case "shorten":
            client.set(one, held[:40])
            client.set(other, theirs[:32])
    assert await store.find(OWNER, "resp_0") is None
    assert (await store.conversation(OWNER, "resp_1")).missing == "resp_1"


async def test_a_changed_pointer_does_not_join_conversations(
    store: ResponseStore, redis_at_hand: RedisServer
) -> None:
    await store.put(OWNER, response("resp_0"))
    client = redis_at_hand.client
    (first,) = records(redis_at_hand)
    await store.put(OWNER, response("resp_1"))
    (key,) = set(records(redis_at_hand)) - {first}
    client.set(key, first.split(b":")[-1] + held_at(redis_at_hand, key)[DIGEST:])
    found = await store.conversation(OWNER, "resp_1")
    assert [turn.id for turn in found.turns] == ["resp_1"]
    assert found.missing is None


async def test_a_record_that_is_put_back_after_its_time_counts_as_missing(
    store: ResponseStore, redis_at_hand: RedisServer
) -> None:
    late = replace(response("resp_1"), created=int(time.time()) - 31 * 86_400)
    await store.put(OWNER, late)
    assert redis_at_hand.client.persist(records(redis_at_hand)[0])
    assert await store.find(OWNER, "resp_1") is None


@pytest.mark.parametrize("fault", ["kill", "hang"])
async def test_without_redis_nothing_is_said_to_be_missing(
    redis_at_hand: RedisServer, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_store, "TIMEOUT_SECONDS", 0.2)
    store = response_store(redis_at_hand)
    await store.put(OWNER, response("resp_1"))
    getattr(redis_at_hand, fault)()
    assert await store.put(OWNER, response("resp_2")) == "unavailable"
    assert store.kept == "unavailable"
    for read in (store.find, store.conversation, store.delete):
        with pytest.raises(StoreUnavailable):
            await read(OWNER, "resp_1")
    await store.aclose()


async def test_redis_without_memory_stores_nothing_and_can_be_read(
    store: ResponseStore, redis_at_hand: RedisServer
) -> None:
    await store.put(OWNER, response("resp_1"))
    redis_at_hand.client.config_set("maxmemory", "1")
    assert await store.put(OWNER, response("resp_2")) == "unavailable"
    assert await store.find(OWNER, "resp_1") is not None
    assert await store.delete(OWNER, "resp_1")


@pytest.mark.parametrize("name", ["index", "total"])
async def test_with_an_entry_of_a_wrong_type_nothing_is_stored_and_all_can_be_deleted(
    store: ResponseStore, redis_at_hand: RedisServer, name: str
) -> None:
    await store.put(OWNER, response("resp_1"))
    client = redis_at_hand.client
    (entry,) = client.scan_iter(f"*:{name}")
    client.delete(entry)
    client.rpush(entry, "x")
    held = set(client.scan_iter())
    assert await store.put(OWNER, response("resp_2")) == "unavailable"
    assert set(client.scan_iter()) == held, "what is reported as not stored does not stay"
    assert await store.find(OWNER, "resp_1") is not None
    assert await store.delete(OWNER, "resp_1")
    assert not records(redis_at_hand)


async def test_a_total_that_is_no_number_begins_anew(
    store: ResponseStore, redis_at_hand: RedisServer
) -> None:
    await store.put(OWNER, response("resp_1"))
    (total,) = redis_at_hand.client.scan_iter("*:total")
    redis_at_hand.client.set(total, "x")
    assert await store.put(OWNER, response("resp_2")) is None
    assert int(held_at(redis_at_hand, total)) > 0


async def test_without_a_shared_secret_responses_stay_in_the_process(
    redis_at_hand: RedisServer,
) -> None:
    settings = Settings(redis_url=SecretStr(redis_at_hand.url))
    store = ResponseStore.from_settings(settings, Sealer.from_settings(settings))
    await store.put(OWNER, response("resp_1"))
    assert store.kept == "process"
    assert redis_at_hand.everything() == b""


async def test_responses_may_have_a_redis_of_their_own(redis_at_hand: RedisServer) -> None:
    settings = Settings(
        fleet_secret=SecretStr(SECRET),
        redis_url=SecretStr("redis://127.0.0.1:1"),
        responses_redis_url=SecretStr(redis_at_hand.url),
    )
    store = ResponseStore.from_settings(settings, Sealer.from_settings(settings))
    assert await store.put(OWNER, response("resp_1")) is None
    await store.aclose()
