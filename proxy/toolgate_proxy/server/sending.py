"""The response to a request for one of our models, on its way to the client."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any

from toolgate_core.chat_request import ChatRequest

from ..api.surface import Client, Counting, Stream, Surface, Whole
from ..chat.failover import Events
from ..context import RequestContext
from ..litellm_host.callbacks.host_side import HostSide
from ..litellm_host.callbacks.response_cache import kept_answers
from ..litellm_host.callbacks.response_hooks import ResponseGuard
from ..routing.deployments import Placement
from ..state import gateway
from .transport.connection import Disconnect, Reply


@dataclass(frozen=True)
class Sending:
    host: HostSide
    reply: Reply
    context: RequestContext
    disconnect: Disconnect
    """It is ignored once the response is complete: a client that leaves then must not cancel what
    is being stored."""

    async def respond(
        self,
        surface: Surface,
        request: ChatRequest,
        values: Mapping[str, Any],
        client: Client,
        first: Placement,
    ) -> None:
        """Generate the response at `first`, or at another deployment if that one fails, and send
        it. `values`: the body that the request is of. Raise ToolgateError."""
        here, host = gateway(), self.host
        await surface.accepted(request, host.model, client)
        answers = kept_answers(surface.call_type, values, client.seal)
        respond = here.failover.respond
        responding = respond(request, first, host.alternatives, self.context, answers)
        async with responding as (answer, events):
            await self.host.answers(stream=request.stream)
            if here.settings.keep_reasoning:
                events = here.kept_reasoning.keeping(events, answer, host.model, client.seal)
            whole = partial(surface.whole, answer, host.model, client)
            if not request.stream:
                await self._whole(whole(), events, request)
                return
            host.response.begin(whole)
            if host.guard is None:
                last = await self._stream(surface.stream(answer, host.model, client), events)
            else:
                stream = surface.stream(answer, host.model, client.without_store())
                last = await self._guarded(host.guard, stream, events, request)
        await self.reply.end(await host.with_cost(last))

    async def count(self, counting: Counting, request: ChatRequest, first: Placement) -> None:
        """Send the number of tokens of the prompt, as a backend counts them."""
        context, alternatives = self.context, self.host.alternatives
        tokens = await gateway().failover.count(request, first, alternatives, context)
        context.meter.note_tokens(0, 0, complete=True)  # nothing was computed
        self.disconnect.ignore()
        await self.reply.json(counting.body(tokens, context.notes.cleared_tokens))

    async def _whole(self, whole: Whole, events: Events, request: ChatRequest) -> None:
        """Send one JSON object."""
        self.host.response.begin(lambda: whole)
        async for pieces in events:
            whole.add(pieces)
        self.context.meter.complete = True
        shown = await self.host.shown(whole, request)
        self.disconnect.ignore()
        await self.reply.json(shown)

    async def _stream(self, stream: Stream, events: Events) -> bytes:
        """Send all events but the last ones, which are returned."""
        self.reply.stream = stream
        async for pieces in events:
            self.host.note_events(pieces)
            if data := stream.events(pieces):
                await self._event(data)
        self.context.meter.complete = True
        self.disconnect.ignore()
        await stream.keep()
        return stream.end()

    async def _guarded(
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
        self.context.outcome.note_event()
        if not self.reply.has_output:
            self.host.note_first_event()
        await self.reply.event(await self.host.with_cost(data))
