"""Errors that asyncio reports about tasks whose exception nobody has read."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def no_loop_errors() -> AsyncIterator[None]:
    """Fails if the event loop reports an error inside the context. Keep no reference to a task,
    because asyncio reports its exception when it is garbage-collected."""
    loop, reported = asyncio.get_running_loop(), list[str]()

    def report(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        reported.append(f"{context['message']}: {context.get('exception')!r}")

    before = loop.get_exception_handler()
    loop.set_exception_handler(report)
    gc.collect()
    gc.freeze()  # the objects of earlier tests: each collection would take seconds
    try:
        yield
        for _ in range(5):
            await asyncio.sleep(0)
            gc.collect()
    finally:
        loop.set_exception_handler(before)
    assert not reported, reported
