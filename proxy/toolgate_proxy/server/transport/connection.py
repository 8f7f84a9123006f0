"""Keep-alives and disconnect detection for one client connection.

`KeepAlive` sends comments while a stream is silent, for example while the request is queued, a
grammar compiles, or a long prompt is prefilled. Without them a client or a load balancer may time
out. Clients of server-sent events ignore comments. The first comment starts the response with
status 200, so a later error is sent as an event in the stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType

from starlette.types import Message, Receive, Send

from ...api.surface import COMMENT
from ...context import RequestContext

EVENTS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
"""Headers of a stream."""
START: Message = {"type": "http.response.start", "status": 200, "headers": EVENTS}


class KeepAlive:
    """Async context manager for one response. Use its `send` instead of the ASGI server's.

    It sends `keep_alive` after each `seconds` of silence; 0 disables it. `error_event` converts an
    error's body to an event.
    """

    def __init__(
        self,
        client: Send,
        seconds: float,
        context: RequestContext,
        error_event: Callable[[bytes], bytes],
        keep_alive: bytes = COMMENT,
    ) -> None:
        self._client = client
        self._keep_alive = keep_alive
        self._seconds = seconds
        self._context = context
        self._error_event = error_event
        self._ticking: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._begun = False
        self._is_stream = True
        """False once the app has started a response with another status than 200."""
        self._begun_here = False
        """A comment started the response."""
        self._ended = False
        self._busy = False
        """A message was sent since the last tick."""
        self._error = b""

    async def __aenter__(self) -> KeepAlive:
        if self._seconds:
            self._ticking = asyncio.create_task(self._tick())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._ticking is not None:
            self._ticking.cancel()

    async def send(self, message: Message) -> None:
        """Sends one message. A lock keeps comments from splitting an event."""
        async with self._lock:
            self._busy = True
            if message["type"] == "http.response.start":
                self._is_stream = message["status"] == 200
                if not self._begun_here:
                    self._begun = True
                    await self._client(message)
                elif message["status"] >= 400:
                    self._context.failed = True
                return
            self._ended = not message.get("more_body", False)
            if self._is_stream or not self._begun_here:
                await self._client(message)
                return
            self._error += message.get("body", b"")
            if self._ended:
                event = self._error_event(self._error)
                await self._client({"type": "http.response.body", "body": event})

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self._seconds)
            async with self._lock:
                silent, self._busy = not self._busy, False
                if self._ended or not self._is_stream:
                    return
                if silent:
                    await self._comment()

    async def _comment(self) -> None:
        if not self._begun:
            self._begun = self._begun_here = True
            await self._client(START)
        await self._client(
            {"type": "http.response.body", "body": self._keep_alive, "more_body": True}
        )


class Disconnect:
    """Async context manager that cancels its body when the client disconnects.

    The body ends without an exception, and `happened` is True. Read the request's body before
    entering.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._listening: asyncio.Task[None] | None = None
        self.happened = False

    async def __aenter__(self) -> Disconnect:
        task = asyncio.current_task()
        assert task is not None
        self._listening = asyncio.create_task(self._listen(task))
        return self

    def ignore(self) -> None:
        """Stops watching. Call it before sending the last message: after that message the ASGI
        server reports a disconnect for every request."""
        if self._listening is not None:
            self._listening.cancel()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self.ignore()
        task = asyncio.current_task()
        if not self.happened or task is None:
            return False
        # Swallows our own cancellation only; one by the server continues.
        return task.uncancel() == 0 and (kind is None or kind is asyncio.CancelledError)

    async def _listen(self, task: asyncio.Task[object]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.happened = True
        task.cancel()
