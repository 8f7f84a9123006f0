"""Kept reasoning: its stores (Redis and the memory of the process), and the names of turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import SecretStr

from tests.support.servers.redis_server import RedisServer
from toolgate_proxy.kept_reasoning import TurnNames
from toolgate_proxy.kept_values import KeptValues, MemoryValues, RedisValues
from toolgate_proxy.settings import Settings


@pytest.fixture(params=["redis", "memory"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[KeptValues]:
    made: KeptValues
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("redis_at_hand")
        made = RedisValues(Settings(redis_url=SecretStr(server.url), redis_timeout=2))
    else:
        made = MemoryValues()
    yield made
    await made.aclose()


async def test_values_are_found_by_name(store: KeptValues) -> None:
    await store.put({"a": b"1", "b": b"2"})
    assert await store.get(["b", "none", "a"]) == [b"2", None, b"1"]


async def test_a_value_is_replaced(store: KeptValues) -> None:
    await store.put({"a": b"1"})
    await store.put({"a": b"2"})
    assert await store.get(["a"]) == [b"2"]


async def test_values_expire() -> None:
    store = MemoryValues()
    store._life = 0.01
    await store.put({"a": b"1"})
    await asyncio.sleep(0.02)
    assert await store.get(["a"]) == [None]


async def test_values_in_redis_expire(redis_at_hand: RedisServer) -> None:
    store = RedisValues(Settings(redis_url=SecretStr(redis_at_hand.url), redis_timeout=2))
    await store.put({"a": b"1"})
    assert 0 < redis_at_hand.client.pttl("toolgate:kept:a") <= 86_400_000
    await store.aclose()


async def test_memory_drops_the_least_recently_used() -> None:
    store = MemoryValues(most=3)
    await store.put({"a": b"1", "b": b"2", "c": b"3"})
    await store.get(["a"])
    await store.put({"d": b"4"})
    assert await store.get(["a", "b", "c", "d"]) == [b"1", None, b"3", b"4"]


async def test_without_redis_nothing_is_found_and_nothing_fails() -> None:
    store = RedisValues(Settings(redis_url=SecretStr("redis://127.0.0.1:9")))
    await store.put({"a": b"1"})
    assert await store.get(["a", "b"]) == [None, None]
    await store.aclose()


RANDOM = "call_abcdefghijklmnopqrstuvwx"
ASKED = [{"role": "user", "content": "Look at a."}]


def name(before: list[dict[str, Any]], call_id: str, model: str = "m", tool: str = "look") -> str:
    return TurnNames(model, before).name(len(before), call_id, tool)


def test_the_gateways_ids_need_no_conversation() -> None:
    """Clients may shorten what was before."""
    assert name(ASKED, RANDOM) == name([], RANDOM)
    assert name([], RANDOM) != name([], RANDOM[:-1] + "y")


def test_the_id_of_the_messages_api_is_the_same() -> None:
    assert name([], RANDOM) == name([], RANDOM.replace("call_", "toolu_"))


def test_models_are_apart() -> None:
    assert name([], RANDOM) != name([], RANDOM, model="other")


def test_counted_ids_are_told_apart_by_the_conversation() -> None:
    counted = "functions.look:0"
    assert name(ASKED, counted) == name([dict(ASKED[0])], counted)
    assert name(ASKED, counted) != name([{"role": "user", "content": "Look at b."}], counted)
    assert name(ASKED, counted) != name(ASKED, "functions.look:1")


def test_reasoning_before_is_no_part_of_the_conversation() -> None:
    """It is what clients drop."""
    call = {"id": "functions.look:0", "function": {"name": "look", "arguments": "{}"}}
    turn = {"role": "assistant", "content": None, "tool_calls": [call]}
    thought = {**turn, "reasoning_content": "Hm"}
    assert name([*ASKED, turn], "functions.look:1") == name([*ASKED, thought], "functions.look:1")


def test_a_turn_has_the_same_name_among_the_turns_after_it() -> None:
    messages = [{"role": role, "content": f"{at}"} for at, role in enumerate(["user", "tool"] * 3)]
    turns = TurnNames("m", messages)
    for at in (1, 1, 3, 6):
        assert turns.name(at, "functions.look:0", "look") == name(messages[:at], "functions.look:0")
