"""Stored responses, in Redis and in memory: owners, conversations, quotas, expiry; what Redis
holds, and what happens when it fails."""

import asyncio
import time
from dataclasses import replace

import pytest
from pydantic import SecretStr

from tests.support.servers.redis_server import SECRET, response_store
from toolgate_core.errors import ResponsesUnavailable
from toolgate_proxy.response_store import sealed_stores
from toolgate_proxy.response_store import store as store_module
from toolgate_proxy.response_store.record import SealedResponse, StoredResponse
from toolgate_proxy.response_store.sealed_stores import DIGEST, MemoryResponses
from toolgate_proxy.response_store.store import ResponseStore
from toolgate_proxy.sealing import Sealer
from toolgate_proxy.settings import Settings

OWNER = "key:key_a"
NOW = int(time.time())


def response(name, previous=None, text="Hello"):
    body = {"id": name, "output": [{"type": "message", "content": text}]}
    question = {"role": "user", "content": f"question {name}"}
    return StoredResponse(name, body, [question], previous, NOW)


def store_of(**settings):
    made = Settings(**settings)
    return ResponseStore.from_settings(made, Sealer.from_settings(made))


@pytest.fixture(params=["redis", "memory"])
async def make_store(request, redis_at_hand):
    made = []

    def make(**more):
        url = SecretStr(redis_at_hand.url) if request.param == "redis" else None
        made.append(store_of(fleet_secret=SecretStr(SECRET), redis_url=url, **more))
        return made[-1]

    yield make
    for store in made:
        await store.aclose()


@pytest.fixture
async def store(make_store):
    return make_store()


async def kept(store, names):
    return [at for at in names if await store.find(OWNER, f"resp_{at}") is not None]


async def put_turns(store, count):
    for at in range(count):
        await store.put(OWNER, response(f"resp_{at}", f"resp_{at - 1}" if at else None))


async def test_a_response_is_read_as_it_was_stored_until_it_is_deleted(store):
    stored = response("resp_1", text="ü 漢 \ud800 " * 1000)
    stored.body["n"] = 2**70
    assert await store.put(OWNER, stored) is None
    assert await store.find(OWNER, "resp_1") == stored
    assert await store.put(OWNER, response("resp_1", text="again")) == "exists"
    assert await store.find(OWNER, "resp_1") == stored
    assert await store.delete(OWNER, "resp_1")
    assert await store.find(OWNER, "resp_1") is None
    assert not await store.delete(OWNER, "resp_1")


@pytest.mark.parametrize("other", ["key:key_b", "team:key_a", "key:key_", "master"])
async def test_another_owner_neither_reads_nor_deletes(store, other):
    await store.put(OWNER, response("resp_1"))
    assert await store.find(other, "resp_1") is None
    assert (await store.conversation(other, "resp_1")).turns == []
    assert not await store.delete(other, "resp_1")
    assert await store.put(other, response("resp_1", text="theirs")) is None
    assert await store.find(OWNER, "resp_1") == response("resp_1")


async def test_a_conversation_is_read_in_order(store):
    await put_turns(store, 5)
    found = await store.conversation(OWNER, "resp_3")
    assert [turn.id for turn in found.turns] == ["resp_0", "resp_1", "resp_2", "resp_3"]
    assert (found.missing, found.too_long) == (None, False)
    said = [item.get("content") for item in found.items][:3]
    assert said == ["question resp_0", "Hello", "question resp_1"]


async def test_conversations_have_bounds(make_store, monkeypatch):
    store = make_store(max_body_bytes=20_000)
    monkeypatch.setattr(store_module, "MAX_TURNS", 3)
    await put_turns(store, 4)
    assert (await store.conversation(OWNER, "resp_3")).too_long
    assert not (await store.conversation(OWNER, "resp_2")).too_long
    await store.put(OWNER, response("resp_long", text="a" * 100_000))
    assert (await store.conversation(OWNER, "resp_long")).too_long


async def test_what_was_used_least_recently_is_dropped(make_store):
    store = make_store(responses_quota=3)
    for at in range(3):
        await store.put(OWNER, response(f"resp_{at}"))
        await asyncio.sleep(0.002)  # Redis' clock for uses has milliseconds
    await store.find(OWNER, "resp_0")
    await asyncio.sleep(0.002)
    await store.put("key:other", response("resp_9"))
    await store.put(OWNER, response("resp_3"))
    assert await kept(store, range(4)) == [0, 2, 3]
    assert await store.find("key:other", "resp_9") is not None


async def test_the_quota_counts_bytes(make_store):
    store = make_store(responses_quota_bytes=2_000)
    for at in range(30):
        assert await store.put(OWNER, response(f"resp_{at}")) is None
        await asyncio.sleep(0.002)
    left = await kept(store, range(30))
    assert 2 <= len(left) < 10
    assert left == list(range(30 - len(left), 30))
    for at in range(30):
        await store.delete(OWNER, f"resp_{at}")
    assert await store.put(OWNER, response("resp_new")) is None


async def test_what_is_too_large_or_without_a_quota_is_not_stored(make_store, monkeypatch):
    assert await make_store(responses_quota=0).put(OWNER, response("resp_1")) == "disabled"
    monkeypatch.setattr(sealed_stores, "RESPONSE_MAX_BYTES", 500)
    store = make_store()
    text = "".join(map(str, range(1000)))
    assert await store.put(OWNER, response("resp_1", text=text)) == "too_large"
    assert await store.find(OWNER, "resp_1") is None


@pytest.mark.exhaustive
async def test_responses_expire(make_store):
    store = make_store(responses_ttl=1, responses_quota=2)
    await store.put(OWNER, response("resp_1"))
    await asyncio.sleep(1.1)
    assert await store.find(OWNER, "resp_1") is None
    assert await store.put(OWNER, response("resp_1")) is None


SIZE = 60


async def put(store, owner, name="a"):
    assert await store.put(owner, SealedResponse(name, None, b"x" * SIZE)) is None


async def is_stored(store, owner, name="a"):
    return bool(await store.read(owner, name, most=1, size=SIZE))


async def test_memory_is_bounded_and_its_owner_used_least_recently_loses_first(monkeypatch):
    monkeypatch.setattr(sealed_stores, "MEMORY_BYTES", 3 * SIZE)
    store = MemoryResponses(Settings())
    for owner in range(20):
        await put(store, str(owner))
    assert await is_stored(store, "17")
    await put(store, "20")
    assert [at for at in range(21) if await is_stored(store, str(at))] == [17, 19, 20]


async def test_expired_responses_take_no_room(monkeypatch):
    now = 0.0
    monkeypatch.setattr(sealed_stores.time, "monotonic", lambda: now)
    monkeypatch.setattr(sealed_stores, "MEMORY_BYTES", SIZE)
    store = MemoryResponses(Settings(responses_ttl=1))
    for name in ("a", "b", "c"):
        await put(store, OWNER, name)
        assert await is_stored(store, OWNER, name)
        now += 2
        assert not await is_stored(store, OWNER, name)


@pytest.fixture
async def in_redis(redis_at_hand):
    store = response_store(redis_at_hand)
    yield store
    await store.aclose()


def records(redis):
    """The names of all records."""
    return [key for key in redis.client.scan_iter() if len(key.split(b":")[-1]) == DIGEST]


async def test_redis_shows_nothing_in_clear(in_redis, redis_at_hand):
    await in_redis.put(OWNER, response("resp_0", text="secret answer"))
    await in_redis.put(OWNER, response("resp_1", "resp_0"))
    held = redis_at_hand.everything()
    assert len(held) > 500
    # None is so short that random bytes contain it now and then.
    for clear in (b"secret", b"question", b"resp_", b"key_a", SECRET.encode()):
        assert clear not in held
    client = redis_at_hand.client
    assert all(client.pttl(key) > 0 for key in client.scan_iter())


async def test_a_gateway_with_another_secret_finds_nothing(in_redis, redis_at_hand):
    await in_redis.put(OWNER, response("resp_1"))
    other = response_store(redis_at_hand, "another-secret")
    assert await other.find(OWNER, "resp_1") is None
    assert not await other.delete(OWNER, "resp_1")
    await other.aclose()
    assert await in_redis.find(OWNER, "resp_1") is not None


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda held, _: held[:-1] + bytes([held[-1] ^ 1]), id="flipped"),
        pytest.param(lambda _, other: other, id="moved"),
        pytest.param(lambda held, _: held[:40], id="shortened"),
        pytest.param(lambda held, _: held[:32], id="shortened to its pointer"),
    ],
)
async def test_a_changed_record_counts_as_missing(in_redis, redis_at_hand, change):
    await in_redis.put(OWNER, response("resp_0"))
    await in_redis.put(OWNER, response("resp_1"))
    client = redis_at_hand.client
    one, other = records(redis_at_hand)
    first, second = client.get(one), client.get(other)
    client.set(one, change(first, second))
    client.set(other, change(second, first))
    assert await in_redis.find(OWNER, "resp_0") is None
    assert (await in_redis.conversation(OWNER, "resp_1")).missing == "resp_1"


async def test_a_changed_pointer_does_not_join_conversations(in_redis, redis_at_hand):
    await in_redis.put(OWNER, response("resp_0"))
    client = redis_at_hand.client
    [first] = records(redis_at_hand)
    await in_redis.put(OWNER, response("resp_1"))
    [key] = {*records(redis_at_hand)} - {first}
    client.set(key, first.split(b":")[-1] + client.get(key)[DIGEST:])
    found = await in_redis.conversation(OWNER, "resp_1")
    assert ([turn.id for turn in found.turns], found.missing) == (["resp_1"], None)


async def test_a_record_that_is_put_back_after_its_time_counts_as_missing(in_redis, redis_at_hand):
    await in_redis.put(OWNER, replace(response("resp_1"), created=int(time.time()) - 31 * 86_400))
    assert redis_at_hand.client.persist(records(redis_at_hand)[0])
    assert await in_redis.find(OWNER, "resp_1") is None


@pytest.mark.parametrize("fault", ["kill", "hang"])
async def test_without_redis_nothing_is_said_to_be_missing(
    in_redis, redis_at_hand, fault, monkeypatch
):
    monkeypatch.setattr(sealed_stores, "TIMEOUT_SECONDS", 0.2)
    await in_redis.put(OWNER, response("resp_1"))
    getattr(redis_at_hand, fault)()
    assert await in_redis.put(OWNER, response("resp_2")) == "unavailable"
    assert in_redis.kept == "unavailable"
    for read in (in_redis.find, in_redis.conversation, in_redis.delete):
        with pytest.raises(ResponsesUnavailable):
            await read(OWNER, "resp_1")


def out_of_memory(client):
    client.config_set("maxmemory", "1")


def of_a_wrong_type(client, name):
    [entry] = client.scan_iter(f"*:{name}")
    client.delete(entry)
    client.rpush(entry, "x")


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(out_of_memory, id="out of memory"),
        pytest.param(lambda client: of_a_wrong_type(client, "index"), id="wrong index"),
        pytest.param(lambda client: of_a_wrong_type(client, "total"), id="wrong total"),
    ],
)
async def test_with_a_damaged_redis_nothing_is_stored_and_all_is_read_and_deleted(
    in_redis, redis_at_hand, damage
):
    await in_redis.put(OWNER, response("resp_1"))
    client = redis_at_hand.client
    damage(client)
    held = {*client.scan_iter()}
    assert await in_redis.put(OWNER, response("resp_2")) == "unavailable"
    assert {*client.scan_iter()} == held, "what is reported as not stored does not stay"
    assert await in_redis.find(OWNER, "resp_1") is not None
    assert await in_redis.delete(OWNER, "resp_1")
    assert not records(redis_at_hand)


async def test_a_total_that_is_no_number_begins_anew(in_redis, redis_at_hand):
    await in_redis.put(OWNER, response("resp_1"))
    [total] = redis_at_hand.client.scan_iter("*:total")
    redis_at_hand.client.set(total, "x")
    assert await in_redis.put(OWNER, response("resp_2")) is None
    assert int(redis_at_hand.client.get(total)) > 0


async def test_a_shared_secret_and_a_redis_of_their_own_decide_where_responses_are(redis_at_hand):
    url = SecretStr(redis_at_hand.url)
    store = store_of(redis_url=url)
    await store.put(OWNER, response("resp_1"))
    assert (store.kept, redis_at_hand.everything()) == ("process", b"")
    nowhere = SecretStr("redis://127.0.0.1:1")
    store = store_of(fleet_secret=SecretStr(SECRET), redis_url=nowhere, responses_redis_url=url)
    assert await store.put(OWNER, response("resp_1")) is None
    other = store_of(fleet_secret=SecretStr(SECRET), redis_url=url)
    assert await other.find(OWNER, "resp_1") == response("resp_1"), "stored by another gateway"
    await store.aclose()
    await other.aclose()
