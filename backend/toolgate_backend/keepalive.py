"""A stream that is never silent for long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

Item = TypeVar("Item")


async def with_keepalives(items: AsyncIterator[Item], seconds: float) -> AsyncIterator[Item | None]:
    """The items as they come, and None after each `seconds` without one."""
    waiting = asyncio.ensure_future(_next(items))
    try:
        while True:
            done, _ = await asyncio.wait({waiting}, timeout=seconds)
            if not done:
                yield None
                continue
            try:
                item = waiting.result()
            except StopAsyncIteration:
                return
            yield item
            waiting = asyncio.ensure_future(_next(items))
    finally:
        # Cancelled and awaited: an iterator that is left in the middle can't be closed.
        waiting.cancel()
        await asyncio.wait({waiting})


async def _next(items: AsyncIterator[Item]) -> Item:
    return await anext(items)
