"""What our routes use of vLLM's server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from fastapi import FastAPI, Request
from vllm.exceptions import GenerationError

from toolgate_backend.endpoint.routes import (
    COMMENT,
    EventStreamResponse,
    _collect_events,
    _error_event,
)
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


async def slow(pauses: list[float]) -> AsyncGenerator[bytes, None]:
    for at, pause in enumerate(pauses):
        await asyncio.sleep(pause)
        yield b"%d" % at


async def bodies(events: AsyncGenerator[bytes, None], seconds: float, sent: list[bytes]) -> None:
    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            sent.append(message["body"])

    await EventStreamResponse(events, seconds).stream_response(send)


async def test_comments_are_sent_while_idle_and_all_bodies_are_kept() -> None:
    sent: list[bytes] = []
    await bodies(slow([0, 0.3, 0]), 0.05, sent)
    assert [body for body in sent if body != COMMENT] == [b"0", b"1", b"2", b""]
    assert sent.count(COMMENT) >= 2
    assert sent[0] == b"0"
    assert sent[-1] == b""


async def test_no_comment_is_sent_while_bodies_arrive() -> None:
    sent: list[bytes] = []
    await bodies(slow([0.001] * 20), 10, sent)
    assert COMMENT not in sent


async def test_an_error_is_propagated_and_ends_the_keepalive() -> None:
    async def broken() -> AsyncGenerator[bytes, None]:
        yield b"1"
        raise RuntimeError

    sent: list[bytes] = []
    with pytest.raises(RuntimeError):
        await bodies(broken(), 0.01, sent)
    await asyncio.sleep(0.05)
    assert sent == [b"1"]


async def test_cancelling_while_idle_closes_the_source() -> None:
    closed = False

    async def forever() -> AsyncGenerator[bytes, None]:
        nonlocal closed
        try:
            await asyncio.sleep(60)
            yield b""
        finally:
            closed = True

    sent: list[bytes] = []
    reading = asyncio.create_task(bodies(forever(), 0.01, sent))
    while COMMENT not in sent:  # noqa: ASYNC110  the list is filled by another task
        await asyncio.sleep(0.01)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert closed
