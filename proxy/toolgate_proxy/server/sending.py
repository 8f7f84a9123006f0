"""The response to a request for one of our models, on its way to the client."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, nullcontext
from dataclasses import dataclass
from typing import Any

from starlette.types import Receive

from toolgate_core.errors import ClientDisconnected, ToolgateError

from ..api.surface import ApiResponse, Client, Counting, Writer
from ..chat.failover import Events
from ..litellm_host.host_side import HostSide
from ..litellm_host.routing.router import id_of
from ..request.chat_request import ChatRequest
from ..routing.deployments import Placement
from ..state import gateway
from .connection import Disconnect, Reply
from .logs import as_own_error


async def answer(
    respond: Callable[[Disconnect], Awaitable[None]],
    receive: Receive,
    reply: Reply,
    host: HostSide,
    comment: bytes | None,
) -> None:
    """Send the response or the error. If the client disconnects, the work is cancelled. `comment`:
    what keeps a stream alive; None: the response is whole."""
    host.context.call_id = call_id = uuid.uuid4().hex
    reply.headers = ((b"x-litellm-call-id", call_id.encode()),)
    seconds = gateway().settings.keepalive_seconds
    failed: ToolgateError | None = None
    async with (
        nullcontext() if comment is None else reply.kept_alive(seconds, comment),
        Disconnect(receive) as disconnect,
    ):
        try:
            await respond(disconnect)
        except Exception as error:  # noqa: BLE001  a bug is logged
            failed = as_own_error(error)
        if failed is not None:
            disconnect.ignore()
            output = reply.has_output
            await reply.fail(failed if output else await host.observer.replace_error(failed))
    if failed is None and disconnect.happened:
        failed = ClientDisconnected("The client disconnected before the end of the response.")
    host.observer.report(failed, begun=reply.has_output)


@dataclass(frozen=True)
class Sending:
    host: HostSide
    reply: Reply
    disconnect: Disconnect
    """It is ignored once the response is complete, so that leaving then cancels no storing."""
    first: Placement
    """If it fails, another deployment responds."""

    async def respond(self, writer: Writer, values: Mapping[str, Any], client: Client) -> None:
        """Generate and send the response to the body `values`. Raise ToolgateError."""
        here, host, request = gateway(), self.host, writer.request
        observer, model = host.observer, host.fallbacks.model
        await writer.accepted(model, client)
        respond, others = here.failover.respond, host.fallbacks.alternatives
        responding = respond(request, self.first, others, host.context)
        async with responding as (answer, events):
            await self._answers(stream=request.stream)
            if here.settings.keep_reasoning:
                events = here.kept_reasoning.keeping(events, answer, model, client.seal)
            response = writer.response(answer, model, client)
            observer.begin(response)
            if not request.stream:
                await self._whole(response, events, request)
                return
            self.reply.stream = response
            if observer.reads:
                last = await self._read_stream(response, events, request)
            else:
                last = await self._stream(response, events)
        await self.reply.end(await observer.with_cost(last))

    async def count(self, counting: Counting, request: ChatRequest) -> None:
        """Send the number of tokens of the prompt, as a backend counts them."""
        context, others = self.host.context, self.host.fallbacks.alternatives
        tokens = await gateway().failover.count(request, self.first, others, context)
        context.meter.note_tokens(0, 0, complete=True)  # nothing was computed
        self.disconnect.ignore()
        await self.reply.json(counting.body(tokens, context.notes.cleared_tokens))

    async def _answers(self, *, stream: bool) -> None:
        """Note which deployment answers, in headers and log events."""
        context = self.host.context
        row = self.host.fallbacks.answering(context.deployment)
        if (deployment_id := id_of(row)) is not None:
            context.notes.host_headers = {"x-litellm-model-id": deployment_id}
        await self.host.observer.note_answer(row, stream=stream)

    async def _whole(self, whole: ApiResponse, events: Events, request: ChatRequest) -> None:
        """Send one JSON object."""
        async for pieces in events:
            whole.add(pieces)
        self.host.context.meter.complete = True
        answer = await self.host.observer.show_whole(whole, request)
        self.disconnect.ignore()
        await self.reply.json(answer)

    async def _stream(self, stream: ApiResponse, events: Events) -> bytes:
        """Send all events but the last ones, which are returned."""
        async for pieces in events:
            if data := stream.events(pieces):
                await self._event(data)
        self.host.context.meter.complete = True
        self.disconnect.ignore()
        await stream.keep()
        return stream.end()

    async def _read_stream(
        self, stream: ApiResponse, events: Events, request: ChatRequest
    ) -> bytes:
        """Send all events but the last ones, which are returned, as hooks leave them."""
        async with aclosing(self.host.observer.frames(stream, events, request)) as frames:
            async for data in frames:
                if data:
                    await self._event(data)
        self.disconnect.ignore()
        return b""

    async def _event(self, data: bytes) -> None:
        self.host.context.outcome.note_event()
        await self.reply.event(await self.host.observer.with_cost(data))
