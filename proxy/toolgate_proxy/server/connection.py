"""The connection to one client: the reply to its request, and its disconnection.

A reply begins once, with an error or without one, and ends once. While a stream is silent, comments
keep it alive: for example while the request is queued, a grammar compiles, or a long prompt is
prefilled. Without them a client or a load balancer may time out. Clients of server-sent events
ignore comments. The first comment begins the response with status 200, so a later error is sent as
an event in the stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any

import orjson
from starlette.types import Message, Receive, Send

from toolgate_core.errors import RequestTimeout, ToolgateError

from ..api.shared.output import COMMENT, data_event
from ..api.surface import ApiResponse, Writer
from ..context import RequestContext
from ..keys.access import Header

EVENTS: Sequence[Header] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)
"""Headers of a stream."""
JSON: Sequence[Header] = ((b"content-type", b"application/json"),)


class Reply:
    """The response to one request. Errors are in the form of the context."""

    def __init__(self, send: Send, context: RequestContext) -> None:
        self._client = send
        self._context = context
        self._lock = asyncio.Lock()
        """Keeps comments from splitting an event."""
        self._begun = False
        self._ended = False
        self._commented = False
        """A comment began the response."""
        self._is_stream = True
        """False once a response with another status than 200 has begun."""
        self._busy = False
        """A message was sent since the last tick."""
        self._late_error = b""
        """The body of another app's error that came after a comment."""
        self.has_output = False
        """The first event of `stream` was sent."""
        self.headers: tuple[Header, ...] = ()
        """Further headers of the response."""
        self.writer: Writer | None = None
        """Of the request, once it was read. Errors name its fields as the client sent them."""
        self.stream: ApiResponse | None = None
        """What the client requested."""

    def restart(self) -> None:
        """Drop a response whose first event was not sent, since another model answers instead."""
        self.stream = self.writer = None

    @asynccontextmanager
    async def kept_alive(self, seconds: float, comment: bytes = COMMENT) -> AsyncIterator[None]:
        """Send `comment` after each `seconds` of silence. 0 turns comments off."""
        if not seconds:
            yield
            return
        ticking = asyncio.create_task(self._tick(seconds, comment))
        try:
            yield
        finally:
            ticking.cancel()

    async def begin(self) -> None:
        """Begin a stream before its first event."""
        async with self._lock:
            await self._begin_once(200, EVENTS)

    async def event(self, data: bytes) -> None:
        """Send events of a stream."""
        async with self._lock:
            self._busy = self.has_output = True
            await self._begin_once(200, EVENTS)
            await self._client({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes) -> None:
        """Send the last events of a stream."""
        async with self._lock:
            await self._begin_once(200, EVENTS)
            await self._end(data)

    async def json(self, answer: Mapping[str, Any]) -> None:
        """Send a whole response."""
        content = orjson.dumps(answer)
        async with self._lock:
            await self._begin_once(200, (*JSON, _length(content)))
            await self._end(content)

    async def fail(self, error: ToolgateError) -> None:
        """Send an error: as the whole response, or as the last event if the response has begun."""
        self._context.outcome.code = error.code
        body = self._shown(error)
        async with self._lock:
            if self._begun:
                self._context.outcome.failed = True
                await self._end(self._event(body))
                return
            content = orjson.dumps(body)
            headers = (*JSON, *_error_headers(error), _length(content))
            await self._begin_once(error.status, headers)
            await self._end(content)

    async def forward(self, message: Message) -> None:
        """Send a message of another app. After a comment, an error of that app becomes an event."""
        async with self._lock:
            self._busy = True
            if message["type"] == "http.response.start":
                self._is_stream = message["status"] == 200
                if not self._commented:
                    self._begun = True
                    await self._client(message)
                elif message["status"] >= 400:
                    self._context.outcome.failed = True
                return
            self._ended = not message.get("more_body", False)
            if self._is_stream or not self._commented:
                await self._client(message)
                return
            self._late_error += message.get("body", b"")
            if self._ended:
                event = data_event(self._late_error)
                await self._client({"type": "http.response.body", "body": event})

    def _shown(self, error: ToolgateError) -> dict[str, Any]:
        form = self._context.form
        if form is None:
            return error.body()
        return (self.writer or form).error(error, self._context.request_id)

    def _event(self, body: dict[str, Any]) -> bytes:
        """Return the event that reports an error."""
        if self.stream is not None and self.has_output:
            return self.stream.failed(body["error"])
        form = self._context.form
        return data_event(orjson.dumps(body)) if form is None else form.error_event(body)

    async def _end(self, data: bytes) -> None:
        self._ended = True
        await self._client({"type": "http.response.body", "body": data, "more_body": False})

    async def _begin_once(self, status: int, headers: Sequence[Header]) -> None:
        if self._begun:
            return
        self._begun = True
        start = {"type": "http.response.start", "status": status}
        await self._client({**start, "headers": [*headers, *self.headers]})

    async def _tick(self, seconds: float, comment: bytes) -> None:
        while True:
            await asyncio.sleep(seconds)
            async with self._lock:
                silent, self._busy = not self._busy, False
                if self._ended or not self._is_stream:
                    return
                if silent:
                    await self._comment(comment)

    async def _comment(self, comment: bytes) -> None:
        self._commented = self._commented or not self._begun
        await self._begin_once(200, EVENTS)
        await self._client({"type": "http.response.body", "body": comment, "more_body": True})


class Disconnect:
    """Async context manager that cancels its body when the client disconnects.

    The body then ends without an exception, and `happened` is True. Read the request's body before
    entering.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._listening: asyncio.Task[None] | None = None
        self._is_held = False
        self.happened = False

    async def __aenter__(self) -> Disconnect:
        task = asyncio.current_task()
        assert task is not None
        self._listening = asyncio.create_task(self._listen(task))
        return self

    @contextmanager
    def held(self) -> Iterator[None]:
        """If the client disconnects meanwhile, cancel the body behind this part of it."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
            task = asyncio.current_task()
            if self.happened and task is not None:
                task.cancel()

    def ignore(self) -> None:
        """Stop watching. Call it before sending the last message: after that message the ASGI
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
        if not self._is_held:
            task.cancel()


def _length(content: bytes) -> Header:
    return b"content-length", str(len(content)).encode()


def _error_headers(error: ToolgateError) -> Sequence[Header]:
    headers: list[Header] = []
    if error.retry_after:
        headers.append((b"retry-after", str(error.retry_after).encode()))
    if isinstance(error, RequestTimeout):
        headers.append((b"connection", b"close"))  # the rest of the body may never arrive
    return headers
