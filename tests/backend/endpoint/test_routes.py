"""What our routes use of vLLM's server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from fastapi import FastAPI, Request
from vllm.exceptions import GenerationError

from toolgate_backend.endpoint.routes import _collect_events, _error_event
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
    nothing = await _collect_events(forever(), request)
    assert nothing is None or nothing.body == b""  # from vLLM 0.33 on, an empty response
    await asyncio.wait_for(closed.wait(), 10)


@pytest.mark.parametrize(
    ("status", "code"), [(503, "backend_unavailable"), (500, "backend_failed")]
)
def test_a_paused_engine_is_unavailable_and_a_failed_one_is_not(status: int, code: str) -> None:
    error = GenerationError("Generation is paused.")
    error.status_code = status
    event = _error_event(error)
    assert event.error["code"] == code
    assert ("paused" in event.error["message"]) is (status == 503)
