"""Stored conversations, in Redis and in memory: changes, locks, owners, quotas, faults."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.proxy.response_store.conftest import OWNER, MakeStore, response
from tests.proxy.response_store.test_redis_store import made
from tests.support.servers.redis_server import RedisServer
from toolgate_core.errors import ConversationLocked, ConversationNotFound, RequestTooLarge
from toolgate_proxy.response_store import redis_store, sealed_store
from toolgate_proxy.response_store.conversations import ConversationTurn, StoredConversation
from toolgate_proxy.response_store.sealed_store import StoreUnavailable
from toolgate_proxy.response_store.store import ResponseStore

NOW = int(time.time())
NAME = "conv_1"


def conversation(name: str = NAME, *texts: str) -> StoredConversation:
    items = [{"type": "message", "id": f"msg_{at}", "content": t} for at, t in enumerate(texts)]
    return StoredConversation(name, NOW, {"a": "b"}, items, NOW)


def turn(store: ResponseStore, owner: str = OWNER) -> ConversationTurn:
    return ConversationTurn(store.conversations, owner)


async def test_a_conversation_is_read_and_changed_by_all_gateways(make_store: MakeStore) -> None:
    one, other = make_store(), make_store()
    made = conversation(NAME, "secret ü")
    assert await one.conversations.create(OWNER, made) is None
    assert await other.conversations.find(OWNER, NAME) == made
    items = [*made.items, {"type": "message", "id": "msg_1", "content": "y" * 100_000}]
    async with turn(other) as changing:
        assert await changing.open(NAME) == made
        changed = await changing.change(items=items)
        again = await changing.change(metadata={})
    assert changed.items == items
    assert await one.conversations.find(OWNER, NAME) == again
    assert (again.items, again.metadata) == (items, {})
    await one.conversations.delete(OWNER, NAME)
    with pytest.raises(ConversationNotFound):
        await other.conversations.find(OWNER, NAME)
    with pytest.raises(ConversationNotFound):
        await other.conversations.delete(OWNER, NAME)


async def test_it_is_locked_until_the_turn_ends(make_store: MakeStore) -> None:
    one, other = make_store(), make_store()
    await one.conversations.create(OWNER, conversation())
    async with turn(one) as first:
        await first.open(NAME)
        assert await first.open(NAME) == conversation()
        with pytest.raises(ConversationLocked):
            async with turn(other) as second:
                await second.open(NAME)
        await other.conversations.find(OWNER, NAME)
    async with turn(other) as second:
        await second.open(NAME)


async def test_one_that_does_not_exist_is_not_locked(store: ResponseStore) -> None:
    for _ in range(2):
        with pytest.raises(ConversationNotFound):
            async with turn(store) as changing:
                await changing.open("conv_2")


async def test_the_lock_of_a_dead_gateway_ends_and_loses_nothing(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first gateway hangs for longer than its lease: what the other one added stays."""
    one, other = make_store(), make_store()
    await one.conversations.create(OWNER, conversation())
    monkeypatch.setattr(sealed_store, "LEASE_SECONDS", 0.05)
    first = turn(one)
    await first.open(NAME)
    assert first._lease is not None
    assert first._lease._prolonging is not None
    first._lease._prolonging.cancel()
    await asyncio.sleep(0.1)
    async with turn(other) as second:
        await second.open(NAME)
        await second.change(metadata={"by": "other"})
        with pytest.raises(ConversationLocked):
            await first.change(metadata={"by": "one"})
        await first.end()  # which does not end the lease of the other one
        with pytest.raises(ConversationLocked):
            await turn(one).open(NAME)
    assert (await one.conversations.find(OWNER, NAME)).metadata == {"by": "other"}


async def test_a_lock_is_kept_for_as_long_as_the_turn_takes(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed_store, "LEASE_SECONDS", 0.3)
    one, other = make_store(), make_store()
    await one.conversations.create(OWNER, conversation())
    async with turn(one) as first:
        await first.open(NAME)
        await asyncio.sleep(0.7)
        with pytest.raises(ConversationLocked):
            await turn(other).open(NAME)


async def test_changes_count_in_the_quota(make_store: MakeStore) -> None:
    """The record that is replaced does not count, and what was not used for longest is dropped."""
    store = make_store(responses_quota=3)
    await store.conversations.create(OWNER, conversation())
    await store.put(OWNER, response("resp_1"), None)
    for at in range(10):
        async with turn(store) as changing:
            await changing.open(NAME)
            await changing.change(metadata={"at": str(at)})
            await asyncio.sleep(0.002)  # Redis' clock for uses has milliseconds
    assert await store.find(OWNER, "resp_1") is not None
    await asyncio.sleep(0.002)
    for at in range(2, 4):
        async with turn(store) as changing:
            await changing.open(NAME)
        await asyncio.sleep(0.002)
        await store.put(OWNER, response(f"resp_{at}"), None)
    assert await store.find(OWNER, "resp_1") is None
    assert (await store.conversations.find(OWNER, NAME)).metadata == {"at": "9"}


async def test_one_that_grows_too_large_keeps_what_it_has(
    make_store: MakeStore, small_responses: None
) -> None:
    store = make_store()
    await store.conversations.create(OWNER, conversation())
    async with turn(store) as changing:
        await changing.open(NAME)
        with pytest.raises(RequestTooLarge):
            await changing.change(items=[{"content": "".join(map(str, range(1000)))}])
    assert await store.conversations.find(OWNER, NAME) == conversation()


@pytest.mark.parametrize("fault", ["kill", "hang"])
async def test_without_redis_nothing_is_said_to_be_missing(
    redis_at_hand: RedisServer, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_store, "TIMEOUT_SECONDS", 0.2)
    store = made(redis_at_hand)
    await store.conversations.create(OWNER, conversation())
    async with turn(store) as changing:
        await changing.open(NAME)
        getattr(redis_at_hand, fault)()
        with pytest.raises(StoreUnavailable):
            await changing.change(metadata={})
    assert await store.conversations.create(OWNER, conversation("conv_2")) == "unavailable"
    works: Any = (store.conversations.find, store.conversations.delete)
    for work in works:
        with pytest.raises(StoreUnavailable):
            await work(OWNER, NAME)
    with pytest.raises(StoreUnavailable):
        await turn(store).open(NAME)
    await store.aclose()


async def test_a_flush_of_redis_during_a_turn_is_noticed(
    redis_at_hand: RedisServer,
) -> None:
    store = made(redis_at_hand)
    await store.conversations.create(OWNER, conversation())
    async with turn(store) as changing:
        await changing.open(NAME)
        redis_at_hand.client.flushall()
        with pytest.raises(ConversationNotFound):
            await changing.change(metadata={})
    await store.aclose()


async def test_a_record_of_another_conversation_counts_as_missing(
    redis_at_hand: RedisServer,
) -> None:
    store = made(redis_at_hand)
    for name in (NAME, "conv_2"):
        await store.conversations.create(OWNER, conversation(name, name))
    client = redis_at_hand.client
    one, other = (key for key in client.scan_iter() if len(key.split(b":")[-1]) == 32)
    held, theirs = client.get(one), client.get(other)
    client.set(one, theirs)  # type: ignore[arg-type]
    client.set(other, held)  # type: ignore[arg-type]
    for name in (NAME, "conv_2"):
        with pytest.raises(ConversationNotFound):
            await store.conversations.find(OWNER, name)
    await store.aclose()
