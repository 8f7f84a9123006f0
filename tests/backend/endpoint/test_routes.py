"""What our routes use of vLLM's server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from fastapi import FastAPI, Request

from toolgate_backend.endpoint.routes import _collect_events
from toolgate_core import wire


async def test_client_disconnect_aborts_the_request() -> None:
    """A request without streaming is aborted too."""
    closed = asyncio.Event()

    async def forever() -> AsyncGenerator[wire.StreamEvent, None]:
        try:
            await asyncio.sleep(60)
            yield wire.UsageEvent(prompt_tokens=1, completion_tokens=1, cached_tokens=0)
        finally:
            closed.set()

    async def receive() -> Any:
        await asyncio.sleep(0.01)
        return {"type": "http.disconnect"}

    request = Request({"type": "http", "app": FastAPI()}, receive)
    assert await _collect_events(forever(), request) is None
    await asyncio.wait_for(closed.wait(), 10)
