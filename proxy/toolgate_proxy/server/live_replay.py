"""Sends the events of a response in flight to a reader other than the client that requested it."""

from __future__ import annotations

from starlette.types import Receive, Scope, Send

from toolgate_core.errors import InvalidRequest, ToolgateError

from ..api.responses.output.stream import error_event
from ..api.responses.state.retrieval import followed
from ..context import RequestContext
from ..response_store.live import LiveResponse
from ..response_store.sealed_store import EventsTooLarge
from .transport.connection import Disconnect, Reply


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
                end = self._error(
                    InvalidRequest(
                        "The events of this response became too large to keep. Retrieve the "
                        "response when it has ended."
                    )
                )
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
