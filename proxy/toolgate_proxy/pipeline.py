"""One request to an API, from its key to the bytes of its response.

    key → body → chat request → lease of limits → deployment → events → bytes

Each step is a call into the room of its name. A request for a model that LiteLLM serves leaves
after its body was read. A request to count tokens has another last step.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import partial

from starlette.types import Receive, Scope, Send

from toolgate_core.errors import ClientDisconnected, ToolgateError

from .api.surface import Counting, Stream, Surface, Whole, is_streamed
from .chat import failover
from .context import RequestContext, context_of
from .litellm_host.callbacks.host_side import HostSide, own_route, report_refused
from .server import incoming
from .server.authorization import authenticate
from .server.client import client_of
from .server.forwarding import Forwarding
from .server.logs.log_filters import as_own_error
from .server.transport.connection import Disconnect, Reply
from .state import gateway


@dataclass(frozen=True)
class Pipeline:
    """ASGI app for the paths of one API."""

    surface: Surface
    litellm: Forwarding
    """Answers the requests for models that are not ours, or not on our own route."""
    counting: Counting | None = None
    """The operation, if the requests count tokens instead of generating them."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        context = context_of(scope)
        context.form = self.surface
        reply = Reply(send, context)
        try:
            await authenticate(scope, context)
            sent = await incoming.read(scope, receive, context)
            values = await incoming.values_of(sent, scope, context)
            model = context.model or ""
            route = own_route(model)
            if route is None:
                streamed = await self.litellm.check_model(scope, values)
        except ToolgateError as error:
            # With its traceback, it and the body would stay in memory until a collection.
            await reply.fail(error.with_traceback(None))
            report_refused(self.surface, scope, context, error)
            return
        if route is None:
            await self.litellm.pass_on(scope, sent.again(receive), send, streamed=streamed)
            return
        content = b"" if context.authenticated else sent.content
        sent.free()
        body = values if self.counting is None else self.counting.prepared(values)
        # The model may come from the path.
        host = HostSide(self.surface, scope, context, route, {**body, "model": model})
        exchange = _Exchange(self, scope, context, host, reply, content, sent.size)
        await exchange.run(receive, is_stream=is_streamed(values) and self.counting is None)


@dataclass(frozen=True)
class _Exchange:
    """A request for one of our own models."""

    pipeline: Pipeline
    scope: Scope
    context: RequestContext
    host: HostSide
    reply: Reply
    content: bytes
    """The bytes of the body, if another authentication than ours may read them."""
    size: int
    """Of the body, in bytes."""

    async def run(self, receive: Receive, *, is_stream: bool) -> None:
        """Send the response or the error. If the client disconnects, the work is cancelled."""
        self.context.call_id = uuid.uuid4().hex
        self.reply.headers = ((b"x-litellm-call-id", self.context.call_id.encode()),)
        seconds = gateway().settings.keepalive_seconds if is_stream else 0.0
        failed: ToolgateError | None = None
        async with (
            self.reply.kept_alive(seconds, self.pipeline.surface.keep_alive),
            Disconnect(receive) as disconnect,
            self.reply,
        ):
            try:
                await self._respond(disconnect)
            except Exception as error:  # noqa: BLE001  a bug is logged
                failed = as_own_error(error)
            if failed is not None:
                disconnect.ignore()
                output = self.reply.has_output
                await self.reply.fail(failed if output else await self.host.replaced(failed))
        if failed is None and disconnect.happened:
            failed = ClientDisconnected("The client disconnected before the end of the response.")
        self.host.report(failed, begun=self.reply.has_output)

    async def _respond(self, disconnect: Disconnect) -> None:
        here, context, host = gateway(), self.context, self.host
        surface, counting = self.pipeline.surface, self.pipeline.counting
        values = await host.admitted(self.content)
        client = client_of(self.scope, context)
        values, recalled = await surface.recall(values, client)
        if context.key is not None:
            await here.limiter.reserve(context, values, output=counting is None)
        target = await host.choose(values, client.owner)
        request = self.reply.request = await incoming.chat_request(
            surface,
            values,
            context,
            target,
            client,
            model=host.model,
            recalled=recalled,
            size=self.size,
        )
        places = (here.deployments, request, target.placement, host.alternatives)
        if counting is not None:
            tokens = await failover.count(here.engine, *places, context)
            context.note_tokens(0, 0, complete=True)  # nothing was computed
            disconnect.ignore()
            await self.reply.json(counting.body(tokens, context.cleared_tokens))
            return
        async with failover.respond(here.engine, *places, context) as (answer, events):
            events = here.kept_reasoning.keeping(events, answer, host.model, client.seal)
            whole = partial(surface.whole, answer, host.model, client)
            if not request.stream:
                await self._send_whole(whole(), events, disconnect)
                return
            host.answered(whole)
            stream = surface.stream(answer, host.model, client)
            last = await self._send_stream(stream, events, disconnect)
        await self.reply.end(last)

    async def _send_whole(
        self, whole: Whole, events: failover.Events, disconnect: Disconnect
    ) -> None:
        self.host.answered(lambda: whole)
        async for pieces in events:
            whole.add(pieces)
        self.context.complete = True
        await whole.keep()
        shown = whole.body()
        disconnect.ignore()
        await self.reply.json(shown)

    async def _send_stream(
        self, stream: Stream, events: failover.Events, disconnect: Disconnect
    ) -> bytes:
        """Send all events but the last ones, which are returned."""
        self.reply.stream = stream
        async for pieces in events:
            self.host.note_events(pieces)
            if data := stream.events(pieces):
                self.context.note_event()
                if not self.reply.has_output:
                    self.host.note_first_event()
                await self.reply.event(data)
        self.context.complete = True
        disconnect.ignore()  # a client that leaves now must not cancel what is being stored
        await stream.keep()
        return stream.end()
