"""Sends the events of a response in flight to a reader other than the client that requested it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.types import Receive, Scope, Send

from toolgate_core.errors import InvalidRequest, ToolgateError

from ..api.responses.output.stream import error_event
from ..api.responses.state.history import unavailable
from ..api.responses.state.retrieval import followed, replayed
from ..context import RequestContext
from ..response_store.live import LiveResponse
from ..response_store.record import EventLog, StoredResponse
from ..response_store.sealed_store import EventsTooLarge, StoreUnavailable
from .transport.connection import Disconnect, Reply

TOO_LARGE = InvalidRequest(
    "The events of this response became too large to keep. Retrieve the response when it has ended."
)
POLL_SECONDS = 1.0
Ended = Callable[[], Awaitable[tuple[StoredResponse, EventLog | None] | None]]
"""Returns a response with its events once it has ended. Raises ToolgateError and
StoreUnavailable."""


class LiveReplay:
    """ASGI app. If the reader disconnects, only this response ends. `after`: sequence number of the
    last event that the reader has, or -1. `keepalive`: seconds of silence before a comment."""

    def __init__(
        self, live: LiveResponse, after: int, context: RequestContext, keepalive: float
    ) -> None:
        self._live = live
        self._after = after
        self._next = after + 1
        """Sequence number of the next event."""
        self._context = context
        self._keepalive = keepalive

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply = Reply(send, self._context)
        async with reply.kept_alive(self._keepalive), Disconnect(receive) as disconnect:
            await reply.begin()
            end = b""
            try:
                await self._follow(reply)
            except EventsTooLarge:
                end = self._error(TOO_LARGE)
            except ToolgateError as error:
                end = self._error(error)
            disconnect.ignore()
            await reply.end(end)

    async def _follow(self, reply: Reply) -> None:
        """Send the events as they are made. Raise EventsTooLarge, and RetiredKey if the reader's
        key is revoked."""
        async for data, following in followed(self._live, self._after):
            if self._context.require_key is not None:
                self._context.require_key()
            await reply.event(data)
            self._next = following

    def _error(self, error: ToolgateError) -> bytes:
        self._context.failed, self._context.error_code = True, error.code
        return error_event(error.body()["error"], self._next)


class LateReplay:
    """ASGI app for a response of the background that another process generates: its events, once it
    has ended. `after`, `keepalive`: as for LiveReplay."""

    def __init__(self, ended: Ended, after: int, context: RequestContext, keepalive: float) -> None:
        self._ended = ended
        self._after = after
        self._context = context
        self._keepalive = keepalive

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply = Reply(send, self._context)
        async with reply.kept_alive(self._keepalive), Disconnect(receive) as disconnect:
            await reply.begin()
            try:
                events = await self._events()
            except ToolgateError as error:
                self._context.failed, self._context.error_code = True, error.code
                events = error_event(error.body()["error"], self._after + 1)
            disconnect.ignore()
            await reply.end(events)

    async def _events(self) -> bytes:
        while True:
            if self._context.require_key is not None:
                self._context.require_key()
            try:
                found = await self._ended()
            except StoreUnavailable as error:
                raise unavailable(error) from error
            if found is not None:
                break
            await asyncio.sleep(POLL_SECONDS)
        response, log = found
        if log is None:
            raise TOO_LARGE
        return replayed(response, log, self._after)
