"""Sends the events of a response in flight to a reader other than the client that requested it."""

from __future__ import annotations

from starlette.types import Receive, Scope, Send

from toolgate_core.errors import InvalidRequest, ToolgateError

from ...api.responses.output.stream import error_event
from ...api.responses.state.retrieval import followed
from ...api.surface import data_event
from ...context import RequestContext
from ...response_store.live import LiveResponse
from ...response_store.sealed_store import EventsTooLarge
from ..transport.connection import START, Disconnect, KeepAlive


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
        async with (
            KeepAlive(send, self._keepalive, self._context, data_event) as stream,
            Disconnect(receive) as disconnect,
        ):
            await stream.send(START)
            end = b""
            try:
                await self._follow(stream.send)
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
            await stream.send({"type": "http.response.body", "body": end, "more_body": False})

    async def _follow(self, send: Send) -> None:
        """Raises EventsTooLarge, and RetiredKey if the reader's key is revoked."""
        async for data, following in followed(self._live, self._after):
            if self._context.require_key is not None:
                self._context.require_key()
            await send({"type": "http.response.body", "body": data, "more_body": True})
            self._next = following

    def _error(self, error: ToolgateError) -> bytes:
        self._context.failed, self._context.error_code = True, error.code
        return error_event(error.body()["error"], self._next)
