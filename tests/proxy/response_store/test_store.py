"""Stored responses, in Redis and in memory: owners, conversations, quotas, expiry."""

from __future__ import annotations

import asyncio

import pytest

from tests.proxy.response_store.conftest import OWNER, MakeStore, response
from toolgate_proxy.response_store import memory_store
from toolgate_proxy.response_store import store as store_module
from toolgate_proxy.response_store.memory_store import MemoryResponses
from toolgate_proxy.response_store.record import SealedResponse
from toolgate_proxy.response_store.store import ResponseStore
from toolgate_proxy.settings import Settings

OTHERS = ["key:key_b", "team:key_a", "key:key_", "master"]


async def test_a_response_is_read_as_it_was_stored(make_store: MakeStore) -> None:
    stored = response("resp_1", text="ü 漢 \ud800 " * 1000)
    stored.body["n"] = 2**70
    assert await make_store().put(OWNER, stored) is None
    assert await make_store().find(OWNER, "resp_1") == stored


@pytest.mark.parametrize("other", OTHERS)
async def test_another_owner_neither_reads_nor_deletes(store: ResponseStore, other: str) -> None:
    await store.put(OWNER, response("resp_1"))
    assert await store.find(other, "resp_1") is None
    assert (await store.conversation(other, "resp_1")).turns == []
    assert not await store.delete(other, "resp_1")
    assert await store.put(other, response("resp_1", text="theirs")) is None
    assert await store.find(OWNER, "resp_1") == response("resp_1")


async def test_an_id_is_stored_once(store: ResponseStore) -> None:
    await store.put(OWNER, response("resp_1"))
    assert await store.put(OWNER, response("resp_1", text="again")) == "exists"
    assert await store.find(OWNER, "resp_1") == response("resp_1")


async def test_a_response_is_deleted_once(store: ResponseStore) -> None:
    await store.put(OWNER, response("resp_1"))
    assert await store.delete(OWNER, "resp_1")
    assert await store.find(OWNER, "resp_1") is None
    assert not await store.delete(OWNER, "resp_1")


async def test_a_conversation_is_read_in_order(store: ResponseStore) -> None:
    for at in range(5):
        previous = f"resp_{at - 1}" if at else None
        await store.put(OWNER, response(f"resp_{at}", previous))
    found = await store.conversation(OWNER, "resp_3")
    assert [turn.id for turn in found.turns] == ["resp_0", "resp_1", "resp_2", "resp_3"]
    assert (found.missing, found.too_long) == (None, False)
    assert [item.get("content") for item in found.items][:3] == [
        "question resp_0", "Hello", "question resp_1",
    ]  # fmt: skip


async def test_conversations_have_bounds(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store(max_body_bytes=20_000)
    monkeypatch.setattr(store_module, "MAX_TURNS", 3)
    for at in range(4):
        previous = f"resp_{at - 1}" if at else None
        await store.put(OWNER, response(f"resp_{at}", previous))
    assert (await store.conversation(OWNER, "resp_3")).too_long
    assert not (await store.conversation(OWNER, "resp_2")).too_long
    await store.put(OWNER, response("resp_long", text="a" * 100_000))
    assert (await store.conversation(OWNER, "resp_long")).too_long


async def test_what_was_used_least_recently_is_dropped(make_store: MakeStore) -> None:
    store = make_store(responses_quota=3)
    for at in range(3):
        await store.put(OWNER, response(f"resp_{at}"))
        await asyncio.sleep(0.002)  # Redis' clock for uses has milliseconds
    await store.find(OWNER, "resp_0")
    await asyncio.sleep(0.002)
    await store.put("key:other", response("resp_9"))
    await store.put(OWNER, response("resp_3"))
    kept = [at for at in range(4) if await store.find(OWNER, f"resp_{at}") is not None]
    assert kept == [0, 2, 3]
    assert await store.find("key:other", "resp_9") is not None


async def test_the_quota_counts_bytes(make_store: MakeStore) -> None:
    store = make_store(responses_quota_bytes=2_000)
    for at in range(30):
        assert await store.put(OWNER, response(f"resp_{at}")) is None
        await asyncio.sleep(0.002)
    kept = [at for at in range(30) if await store.find(OWNER, f"resp_{at}") is not None]
    assert 2 <= len(kept) < 10
    assert kept == list(range(30 - len(kept), 30))
    for at in range(30):
        await store.delete(OWNER, f"resp_{at}")
    assert await store.put(OWNER, response("resp_new")) is None


async def test_a_response_over_the_limit_is_not_stored(
    make_store: MakeStore, small_responses: None
) -> None:
    store = make_store()
    text = "".join(map(str, range(1000)))
    assert await store.put(OWNER, response("resp_1", text=text)) == "too_large"
    assert await store.find(OWNER, "resp_1") is None


async def test_nothing_is_stored_with_a_quota_of_zero(make_store: MakeStore) -> None:
    store = make_store(responses_quota=0)
    assert await store.put(OWNER, response("resp_1")) == "disabled"


@pytest.mark.exhaustive
async def test_responses_expire(make_store: MakeStore) -> None:
    store = make_store(responses_ttl=1, responses_quota=2)
    await store.put(OWNER, response("resp_1"))
    await asyncio.sleep(1.1)
    assert await store.find(OWNER, "resp_1") is None
    assert await store.put(OWNER, response("resp_1")) is None


async def test_memory_is_bounded_over_all_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_store, "MEMORY_BYTES", 1_000)
    store = MemoryResponses(Settings())
    for at in range(20):
        assert await store.put(f"key:{at}", SealedResponse("resp_1", None, b"r" * 300)) is None
    held = [at for at in range(20) if await store.read(f"key:{at}", "resp_1", most=1, size=1_000)]
    assert held == [17, 18, 19]
