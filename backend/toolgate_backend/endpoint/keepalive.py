"""Server-sent events with keep-alive comments."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.responses import StreamingResponse
from starlette.types import Send

COMMENT = b": keep-alive\n\n"


class EventStreamResponse(StreamingResponse):
    """A stream of server-sent events. It sends a comment after each `seconds` without an event.

    One task for each stream watches for silence. A wait with a time-out for each event would need a
    task for each event, which is most of an event's cost.
    """

    def __init__(self, events: AsyncGenerator[bytes, None], seconds: float) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._events = events
        self._seconds = seconds
        self._sent = False

    async def stream_response(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        watch = asyncio.create_task(self._watch(send))
        try:
            async with aclosing(self._events):
                async for event in self._events:
                    self._sent = True
                    await _write(send, event)
        finally:
            watch.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _watch(self, send: Send) -> None:
        while True:
            self._sent = False
            await asyncio.sleep(self._seconds)
            if not self._sent:
                await _write(send, COMMENT)


async def _write(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})
