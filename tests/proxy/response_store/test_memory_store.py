"""The store in the memory of a process: its bounds."""

from __future__ import annotations

import pytest

from toolgate_proxy.response_store import memory_store
from toolgate_proxy.response_store.memory_store import MemoryResponses
from toolgate_proxy.response_store.record import SealedResponse
from toolgate_proxy.settings import Settings

SIZE = 60


def response(name: str) -> SealedResponse:
    return SealedResponse(name, None, b"x" * SIZE)


async def is_stored(store: MemoryResponses, name: str, owner: str = "owner") -> bool:
    return bool(await store.read(owner, name, most=1, size=SIZE))


async def test_the_owner_that_was_used_least_recently_loses_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_store, "MEMORY_BYTES", 2 * SIZE)
    store = MemoryResponses(Settings())
    for owner in ("one", "two"):
        assert await store.put(owner, response("a")) is None
    assert await is_stored(store, "a", "one")
    assert await store.put("three", response("a")) is None
    assert [await is_stored(store, "a", owner) for owner in ("one", "two", "three")] == [
        True,
        False,
        True,
    ]


async def test_expired_responses_take_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(memory_store.time, "monotonic", lambda: now)
    monkeypatch.setattr(memory_store, "MEMORY_BYTES", SIZE)
    store = MemoryResponses(Settings(responses_ttl=1))
    for name in ("a", "b", "c"):
        assert await store.put("owner", response(name)) is None
        assert await is_stored(store, name)
        now += 2
        assert not await is_stored(store, name)
