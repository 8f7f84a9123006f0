"""The response to a request for one of our models, on its way to the client."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass

from toolgate_core.chat_request import ChatRequest

from ..api.surface import Stream, Whole
from ..chat.failover import Events
from ..context import RequestContext
from ..litellm_host.callbacks.host_side import HostSide
from ..litellm_host.callbacks.response_guard import ResponseGuard
from .transport.connection import Disconnect, Reply


@dataclass(frozen=True)
class Sending:
    host: HostSide
    reply: Reply
    context: RequestContext
    disconnect: Disconnect
    """It is ignored once the response is complete: a client that leaves then must not cancel what
    is being stored."""

    async def whole(self, whole: Whole, events: Events, request: ChatRequest) -> None:
        """Send one JSON object."""
        self.host.response.begin(lambda: whole)
        async for pieces in events:
            whole.add(pieces)
        self.context.complete = True
        shown = await self.host.shown(whole, request)
        self.disconnect.ignore()
        await self.reply.json(shown)

    async def stream(self, stream: Stream, events: Events) -> bytes:
        """Send all events but the last ones, which are returned."""
        self.reply.stream = stream
        async for pieces in events:
            self.host.note_events(pieces)
            if data := stream.events(pieces):
                await self._event(data)
        self.context.complete = True
        self.disconnect.ignore()
        await stream.keep()
        return stream.end()

    async def guarded(
        self, guard: ResponseGuard, stream: Stream, events: Events, request: ChatRequest
    ) -> bytes:
        """Send all events but the last ones, which are returned, as hooks leave them."""
        self.reply.stream = stream
        async with aclosing(self.host.guarded(guard, stream, events, request)) as frames:
            async for data in frames:
                if data:
                    await self._event(data)
        self.disconnect.ignore()
        return b""

    async def _event(self, data: bytes) -> None:
        self.context.note_event()
        if not self.reply.has_output:
            self.host.note_first_event()
        await self.reply.event(data)
