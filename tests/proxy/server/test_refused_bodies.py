"""The body of a refused request is freed with the response, not by a later garbage collection."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from typing import Any

import pytest

from tests.support.litellm.own_route import MASTER, Gateway, chat
from tests.support.servers.virtual_keys import key_of
from toolgate_proxy.keys.key import new_key

SIZE = 2_000_000
TIMES = 5


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (chat("x" * SIZE, temperature="hot"), 400),
        (chat("x" * SIZE, no_parameter=1), 400),
        (chat("x" * SIZE, deep=[[[[]]]] * 10_001), 400),
    ],
    ids=["value", "parameter", "bounds"],
)
async def test_a_refused_body_is_freed_at_once(
    gateway: Gateway, body: dict[str, Any], status: int
) -> None:
    assert await growth(gateway, body, MASTER, status) < SIZE


async def test_the_body_of_a_key_over_its_limit_is_freed_at_once(gateway: Gateway) -> None:
    sent = new_key()
    gateway.add_key(sent, key_of(sent, tpm=10))
    assert await growth(gateway, chat("x" * SIZE), sent, 429) < SIZE


async def growth(gateway: Gateway, body: dict[str, Any], key: str, status: int) -> int:
    """Bytes that requests leave in memory."""
    assert (await gateway.ask(body, key=key)).status == status
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(TIMES):
            assert (await gateway.ask(body, key=key)).status == status
        await asyncio.sleep(0.05)  # cancelled tasks end
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        gc.enable()
