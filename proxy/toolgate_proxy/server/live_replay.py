"""Sends the events of a response in flight to a reader other than the client that requested it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

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


class Source(Protocol):
    """Events for a reader that may have some of them."""

    next: int
    """Sequence number of the next event, or of an error in its place."""

    async def send(self, reply: Reply, context: RequestContext) -> bytes:
        """Send events as they are made, and return the last ones. Raise ToolgateError: RetiredKey
        if the reader's key is revoked, for example."""


@dataclass(frozen=True)
class Replay:
    """ASGI app. If the reader disconnects, only this response ends. `keepalive`: seconds of silence
    before a comment."""

    _source: Source
    _context: RequestContext
    _keepalive: float

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply = Reply(send, self._context)
        async with reply.kept_alive(self._keepalive), Disconnect(receive) as disconnect:
            await reply.begin()
            try:
                end = await self._source.send(reply, self._context)
            except ToolgateError as error:
                self._context.failed, self._context.error_code = True, error.code
                end = error_event(error.body()["error"], self._source.next)
            disconnect.ignore()
            await reply.end(end)


class LiveEvents:
    """The events of a response that this process generates. `after`: sequence number of the last
    event that the reader has, or -1."""

    def __init__(self, live: LiveResponse, after: int) -> None:
        self._live = live
        self._after = after
        self.next = after + 1

    async def send(self, reply: Reply, context: RequestContext) -> bytes:
        try:
            async for data, following in followed(self._live, self._after):
                _check_key(context)
                await reply.event(data)
                self.next = following
        except EventsTooLarge:
            raise TOO_LARGE from None
        return b""


class LateEvents:
    """The events of a response of the background that another process generates, once it has ended.
    `after`: as for LiveEvents."""

    def __init__(self, ended: Ended, after: int) -> None:
        self._ended = ended
        self._after = after
        self.next = after + 1

    async def send(self, reply: Reply, context: RequestContext) -> bytes:
        while True:
            _check_key(context)
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


def _check_key(context: RequestContext) -> None:
    """Raise RetiredKey if the reader's key is revoked."""
    if context.require_key is not None:
        context.require_key()
