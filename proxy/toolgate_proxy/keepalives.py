"""Comments while a stream is silent: queued, compiling a grammar, prefilling a long prompt.

LiteLLM answers only when it has the first chunk. A client, or a load balancer on the way, may have
given up by then; so after a while of silence the response is begun here, with a comment, which
clients of server-sent events pass over. An error that comes after that has its status no more: it
is told as OpenAI tells errors in mid-stream, by an event.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from . import meter

STREAMED = "toolgate.streamed"
"""In the scope of a request whose answer is a stream (request_shape.py)."""
COMMENT = b": waiting\n\n"
START: Message = {
    "type": "http.response.start",
    "status": 200,
    "headers": [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-cache"),
    ],
}


class KeepAlives:
    """ASGI middleware. `seconds` of silence bring a comment; 0 brings none."""

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._seconds or not scope.get(STREAMED):
            await self._app(scope, receive, send)
            return
        stream = _Stream(send)
        ticking = asyncio.create_task(stream.tick(self._seconds))
        try:
            await self._app(scope, receive, stream.send)
        finally:
            ticking.cancel()


@dataclass
class _Stream:
    """One response. Whole messages go out: a comment never stands inside an event."""

    client: Send
    begun: bool = False
    """The response's status is out, by us or by the app."""
    events: bool = True
    """The app answers by a stream of events, as far as is known."""
    ours: bool = False
    """It was begun by a comment."""
    ended: bool = False
    busy: bool = False
    """Something went out since the last tick."""
    error: bytes = b""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def send(self, message: Message) -> None:
        async with self.lock:
            self.busy = True
            if message["type"] == "http.response.start":
                self.events = message["status"] == 200
                if self.ours and message["status"] >= 400:
                    meter.failed()
                if not self.ours:
                    self.begun = True
                    await self.client(message)
                return
            self.ended = not message.get("more_body", False)
            if self.events or not self.ours:
                await self.client(message)
                return
            self.error += message.get("body", b"")
            if self.ended:
                event = b"data: " + self.error.replace(b"\n", b" ") + b"\n\n"
                await self.client({"type": "http.response.body", "body": event})

    async def tick(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            async with self.lock:
                silent, self.busy = not self.busy, False
                if self.ended or not self.events:
                    return
                if silent:
                    await self._comment()

    async def _comment(self) -> None:
        if not self.begun:
            self.begun = self.ours = True
            await self.client(START)
        await self.client({"type": "http.response.body", "body": COMMENT, "more_body": True})
